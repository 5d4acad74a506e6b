// bevatron cluster render, create, update: the flags of a cluster, its configuration and cost; creates and updates it.
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/cluster_commands.h"
#include "cli/commands.h"
#include "cluster/aws.h"
#include "cluster/parallelcluster.h"
#include "config/flag_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- convert ----

// bevatron cluster convert: converts an INI file of ParallelCluster 2 to the short file of a cluster.

enum { LARGEST_FILE = 1 << 20 };

struct ini_options {
    struct flag_given given;
    struct string_list files;
    char *output;
};

#define FLAG_STRUCT struct ini_options

static const struct flag ini_flags[] = {
    TEXT("--output", output, NULL, "FILE", "file to write, which must not exist; default: stdout"),
};

static int write_short(const struct ini_options *options, const struct buffer *text) {
    if (!options->output) {
        fputs(buffer_string(text), stdout);
        return 0;
    }
    if (file_exists(options->output))
        return error_set_code(EXIT_CODE_USAGE, "%s already exists; choose another --output", options->output);
    TRY(file_write_all(options->output, text->data, text->length));
    fprintf(stderr, "next: bevatron cluster prepare --config %s, which checks it against your account\n",
            options->output);
    return 0;
}

static int convert(void *given) {
    const struct ini_options *options = given;
    const char *path = options->files.items[0];
    OWNED_BY(buffer_free) struct buffer text = {0}, out = {0}, notes = {0};
    OWNED_BY(ini_free) struct ini_document document = {0};
    TRY(file_read_all(path, LARGEST_FILE, &text));
    TRY(ini_parse(&document, buffer_string(&text), text.length, path));
    buffer_printf(&out, "# Converted from a configuration of ParallelCluster 2 by bevatron cluster convert.\n");
    TRY(ini_convert(&document, path, &out, &notes));
    fputs(buffer_string(&notes), stderr);
    return write_short(options, &out);
}

const struct command cmd_cluster_convert = {
    .flags = {.name = "cluster convert",
              .summary =
                  "Converts an INI file of ParallelCluster 2 into the short file of a cluster, and says what has no "
                  "counterpart.",
              .positional_name = "FILE.ini",
              .positional_minimum = 1,
              .positional_maximum = 1,
              .positional_offset = offsetof(struct ini_options, files),
              .epilogue = "Example:\n  bevatron cluster convert multi-queue.ini --output llm.yaml\n"},
    .tables = {{FLAG_TABLE(ini_flags)}},
    .options_bytes = sizeof(struct ini_options),
    .run = convert,
};

// ---- render, create, update ----

#undef FLAG_STRUCT
#define FLAG_STRUCT struct cluster_options

static const char *const lustre_types[] = {"SCRATCH_1", "SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2", NULL};

static const struct flag own_flags[] = {
    GROUP("The cluster"),
    TEXT("--name", name, NULL, "NAME", "name of the cluster", .uses = CLUSTER_NAME),
    TEXT("--region", region, NULL, "REGION", "AWS region, e.g. us-west-2", .uses = CLUSTER_REGION),
    TEXT("--os", os, "ubuntu2204", "NAME",
         "operating system of all machines: ubuntu2204, ubuntu2404, alinux2023, rhel8, rhel9, rocky8 or rocky9; older "
         "ones are replaced, with a note"),
    TEXT("--custom-ami", custom_ami, NULL, "AMI", "machine image; see cluster build-image"),
    TEXT("--key", key, NULL, "NAME", "EC2 key pair for ssh"),
    TEXT("--allowed-ips", allowed_ips, NULL, "CIDR", "addresses that may use ssh, e.g. 203.0.113.0/24"),
    SWITCH("--no-ssm", no_ssm, "do not allow AWS Systems Manager sessions on the machines"),
    LIST("--policy", policies, "ARN", "IAM policies of all machines", .repeats_add = true),
    LIST("--bucket", buckets, "NAME", "S3 buckets that all machines may read and write", .repeats_add = true),
    LIST("--on-node-configured", scripts, "SCRIPT",
         "script to run on every machine after its set-up: s3://… or https://…, then its arguments",
         .repeats_add = true),
    LIST("--tag", tags, "KEY=VALUE", "tags of all created resources", .repeats_add = true),
    SWITCH("--pyxis", pyxis,
           "run containers with Pyxis and Enroot (launch slurm --container-image); needs a --bucket for their script"),
    TEXT("--accounting", accounting, NULL, "HOST[:PORT]", "MySQL database for Slurm's accounting (sacct)"),
    TEXT("--accounting-user", accounting_user, NULL, "NAME", "user of that database"),
    TEXT("--accounting-secret", accounting_secret, NULL, "ARN", "its password in Secrets Manager"),
    TEXT("--accounting-database", accounting_database, NULL, "NAME", "name of the database; default: made of --name"),
    GROUP("Head node"),
    TEXT("--head-node", head_node, "c5.4xlarge", "TYPE", "instance type of the head node"),
    TEXT("--head-subnet", head_subnet, NULL, "SUBNET", "subnet of the head node, usually public; default: --subnet"),
    INT("--head-disk", head_disk.gib, "200", 0, 16384, "disk of the head node in GiB"),
    INT("--head-disk-iops", head_disk.iops, NULL, 0, 16000, "operations per second of that disk; default: 3000"),
    INT("--head-disk-throughput", head_disk.mib_per_second, NULL, 0, 1000,
        "throughput of that disk in MiB/s; default: 125"),
    SWITCH("--dcv", dcv,
           "remote desktop (Amazon DCV) on the head node, port 8443, for --allowed-ips; open it with `pcluster "
           "dcv-connect`"),
    GROUP("Queues"),
    LIST("--queue", queues, "TEXT",
         "\"NAME TYPE[,TYPE] LEAST-MOST WORD…\"; words: efa, placement-group[=NAME], no-smt, exclusive, "
         "gpu-health-check, spot, capacity-block, reservation=cr-…, subnet=subnet-…, ami=ami-…",
         .repeats_add = true),
    TEXT("--subnet", subnet, NULL, "SUBNET", "subnet of the queues; machines with several EFA need a private one"),
    TEXT("--security-group", security_group, NULL, "GROUP", "security group added to all machines"),
    INT("--compute-disk", compute_disk.gib, "200", 0, 16384, "disk of each machine in GiB"),
    INT("--compute-disk-iops", compute_disk.iops, NULL, 0, 16000, "operations per second of that disk; default: 3000"),
    INT("--compute-disk-throughput", compute_disk.mib_per_second, NULL, 0, 1000,
        "throughput of that disk in MiB/s; default: 125"),
    TEXT("--scratch", scratch, NULL, "PATH", "mount point of the machines' local NVMe disks"),
    INT("--idle-minutes", idle_minutes, "15", 0, 100000, "minutes after which an idle machine is released"),
    LIST("--slurm-setting", slurm_settings, "KEY=VALUE", "lines of slurm.conf", .repeats_add = true),
    GROUP("Storage"),
    TEXT("--fsx", fsx, NULL, "PATH", "mount point of FSx for Lustre on all machines"),
    TEXT("--fsx-id", fsx_id, NULL, "ID", "existing FSx file system"),
    CHOICE("--fsx-type", fsx_type, "SCRATCH_2", lustre_types,
           "type of a new FSx file system; SCRATCH is deleted with the cluster"),
    INT("--fsx-size", fsx_size, "1200", 0, 1e6, "size of a new FSx file system in GiB"),
    INT("--fsx-throughput", fsx_throughput, NULL, 0, 1000, "throughput of PERSISTENT types in MB/s per TiB"),
    TEXT("--fsx-s3", fsx_s3, NULL, "URL", "S3 folder that FSx is linked to"),
    TEXT("--apps", apps, NULL, "PATH", "mount point of a small shared volume for programs"),
    INT("--apps-size", apps_disk.gib, "200", 0, 16384, "size of that volume in GiB"),
    INT("--apps-iops", apps_disk.iops, NULL, 0, 16000, "operations per second of that volume; default: 3000"),
    INT("--apps-throughput", apps_disk.mib_per_second, NULL, 0, 1000,
        "throughput of that volume in MiB/s; default: 125"),
    GROUP("Actions"),
    TEXT("--output", output, NULL, "FILE", "configuration file to write; default: NAME.pcluster.yaml",
         .uses = CLUSTER_ACTION),
    SWITCH("--dry-run", dry_run, "let pcluster check everything and create nothing", .uses = CLUSTER_ACTION),
    SWITCH("--yes", yes, "do not ask for confirmation", .uses = CLUSTER_YES | CLUSTER_ACTION),
    SWITCH("--wait", wait, "wait until it is done and print the result", .uses = CLUSTER_ACTION),
    SWITCH("--json", json, "print JSON", .uses = CLUSTER_JSON | CLUSTER_ACTION),
};

struct flag_table cluster_flag_table(size_t base) {
    return (struct flag_table){FLAG_TABLE(own_flags), .base = base,
                               .refusal = "describes a cluster: it is a flag of render, create and update"};
}

// The cluster of the options; queues are to be freed with free_queues.
static int describe(const struct cluster_options *options, struct parallelcluster *cluster,
                    struct cluster_queue **queues) {
    *queues = memory_alloc(sizeof **queues * (size_t)(options->queues.count + 1));
    *cluster = (struct parallelcluster){.name = options->name,
                                        .region = options->region,
                                        .os = options->os,
                                        .custom_ami = options->custom_ami,
                                        .key = options->key,
                                        .allowed_ips = options->allowed_ips,
                                        .head_type = options->head_node,
                                        .head_subnet = options->head_subnet,
                                        .subnet = options->subnet,
                                        .security_group = options->security_group,
                                        .head_disk = options->head_disk,
                                        .compute_disk = options->compute_disk,
                                        .scratch = options->scratch,
                                        .queues = *queues,
                                        .idle_minutes = options->idle_minutes,
                                        .fsx_mount = options->fsx,
                                        .fsx_id = options->fsx_id,
                                        .fsx_type = options->fsx_type,
                                        .fsx_s3 = options->fsx_s3,
                                        .fsx_gib = options->fsx_size,
                                        .fsx_throughput = options->fsx_throughput,
                                        .apps_mount = options->apps,
                                        .apps_disk = options->apps_disk,
                                        .buckets = &options->buckets,
                                        .policies = &options->policies,
                                        .scripts = &options->scripts,
                                        .slurm_settings = &options->slurm_settings,
                                        .tags = &options->tags,
                                        .accounting = {.address = options->accounting,
                                                       .user = options->accounting_user,
                                                       .secret = options->accounting_secret,
                                                       .database = options->accounting_database},
                                        .has_ssm = !options->no_ssm,
                                        .has_pyxis = options->pyxis,
                                        .has_dcv = options->dcv};
    for (int64_t i = 0; i < options->queues.count; i++)
        TRY(cluster_queue_parse(&(*queues)[cluster->queue_count++], options->queues.items[i]));
    return 0;
}

static void free_queues(struct cluster_queue *queues, int count) {
    for (int i = 0; i < count; i++)
        cluster_queue_free(&queues[i]);
    free(queues);
}

// Writes the configuration into `yaml`; notes about it go to stderr.
static int write_configuration(const struct cluster_options *options, struct buffer *yaml) {
    struct parallelcluster cluster;
    struct cluster_queue *queues;
    OWNED_BY(buffer_free) struct buffer notes = {0}, cost = {0};
    int status = describe(options, &cluster, &queues);
    if (status == 0)
        status = parallelcluster_yaml(&cluster, yaml, &notes);
    if (status == 0) {
        cluster_note_made_up(options, &notes);
        parallelcluster_cost(&cluster, &cost);
        fprintf(stderr, "%s%s", buffer_string(&notes), buffer_string(&cost));
    }
    free_queues(queues, cluster.queue_count);
    return status;
}

// The first line of all configurations written here.
static bool is_configuration(const char *begin, size_t length) {
    static const char first[] = "# Written by bevatron cluster";
    return length >= sizeof first - 1 && memcmp(begin, first, sizeof first - 1) == 0;
}

int cluster_write_file(const char *path, const struct buffer *yaml) {
    TRY(file_check_output(path, "a configuration that bevatron cluster wrote", is_configuration));
    return file_write_all(path, yaml->data, yaml->length);
}

static int render(void *given) {
    const struct cluster_options *options = given;
    OWNED_BY(buffer_free) struct buffer yaml = {0};
    TRY(write_configuration(options, &yaml));
    if (options->output)
        return cluster_write_file(options->output, &yaml);
    fputs(buffer_string(&yaml), stdout);
    return 0;
}

// Warnings of pcluster.
static void print_warnings(const struct json *answer) {
    const struct json *messages = json_member(answer, "validationMessages");
    for (size_t i = 0; messages && messages->type == JSON_ARRAY && i < messages->count; i++)
        log_warn("pcluster: %s", cluster_text(&messages->items[i], "message"));
}

// Parameters of a running cluster that would change, with old and new values.
static void print_changes(const struct json *answer) {
    const struct json *changes = json_member(answer, "changeSet");
    for (size_t i = 0; changes && changes->type == JSON_ARRAY && i < changes->count; i++) {
        const struct json *change = &changes->items[i];
        fprintf(stderr, "  %s: %s -> %s\n", cluster_text(change, "parameter"), cluster_text(change, "currentValue"),
                cluster_text(change, "requestedValue"));
    }
}

static int submit(const struct cluster_options *options, const char *verb, const char *path) {
    const char *const more[] = {"--cluster-configuration", path, options->dry_run ? "--dryrun" : NULL, "true", NULL};
    bool is_new = strcmp(verb, "create-cluster") == 0;
    OWNED struct json *answer = NULL;
    if (cluster_call(options, verb, more, &answer) < 0) {
        // pcluster reports a successful dry run as a failure.
        if (!options->dry_run || !strstr(error_message(), "DryRun flag is set"))
            return -1;
        error_clear();
        fprintf(stderr, "pcluster found no errors in %s; nothing was %s\n", path, is_new ? "created" : "changed");
        return 0;
    }
    print_warnings(answer);
    print_changes(answer);
    const struct json *cluster = json_member(answer, "cluster");
    fprintf(stderr, "%s: %s; it takes about ten minutes (`bevatron cluster status --name %s --region %s`)\n",
            options->name, cluster_text(cluster, "clusterStatus"), options->name, options->region);
    return options->wait ? cluster_await(options) : 0;
}

// Uploads the script of --pyxis to the bucket from which the machines read it. A dry run needs it too: pcluster checks.
static int upload_pyxis(const struct cluster_options *options) {
    OWNED char *url =
        parallelcluster_pyxis_url(&(struct parallelcluster){.buckets = &options->buckets, .fsx_s3 = options->fsx_s3});
    const char *const words[] = {"aws", "s3", "cp", "--only-show-errors", "-", url, "--region", options->region, NULL};
    OWNED struct json *answer = NULL;
    return aws_send(words, parallelcluster_pyxis_script(), &answer);
}

// Writes the configuration, asks, and passes it to pcluster.
static int apply(const struct cluster_options *options, const char *verb, const char *question) {
    OWNED_BY(buffer_free) struct buffer yaml = {0};
    OWNED char *path = NULL;
    TRY(write_configuration(options, &yaml));
    if (!options->dry_run)
        TRY(cluster_confirm(question, options->yes));
    path = options->output ? memory_string(options->output) : memory_printf("%s.pcluster.yaml", options->name);
    TRY(cluster_write_file(path, &yaml));
    if (options->pyxis)
        TRY(upload_pyxis(options));
    return submit(options, verb, path);
}

static int create(void *given) {
    return apply(given, "create-cluster", "Create it?");
}

static int update(void *given) {
    return apply(given, "update-cluster", "Change it?");
}

#define EXAMPLE                                                                                                        \
    "Example, a file llm.yaml:\n"                                                                                      \
    "  name: llm\n  region: us-west-2\n  key: my-key\n  head-subnet: subnet-0aaa\n  subnet: subnet-0bbb\n"             \
    "  queue:\n    - gpu p4d.24xlarge 0-16 efa placement-group no-smt\n    - cpu c5n.18xlarge 0-4\n"                   \
    "  fsx: /fsx\n  fsx-s3: s3://my-bucket\n"                                                                          \
    "bevatron cluster create --config llm.yaml; more in examples/clusters\n"

const struct command cmd_cluster_render = {
    .flags = {.name = "cluster render",
              .summary = "Prints the configuration of a ParallelCluster on stdout and its cost per hour on stderr.",
              .epilogue = EXAMPLE},
    .shared = cluster_flag_table,
    .options_bytes = sizeof(struct cluster_options),
    .run = render,
};

const struct command cmd_cluster_create = {
    .flags = {.name = "cluster create",
              .summary =
                  "Writes the configuration of a ParallelCluster, shows its cost per hour, asks, and creates it.",
              .epilogue = EXAMPLE},
    .shared = cluster_flag_table,
    .options_bytes = sizeof(struct cluster_options),
    .run = create,
};

const struct command cmd_cluster_update = {
    .flags = {.name = "cluster update",
              .summary =
                  "Changes a running cluster to the given configuration, after showing its cost per hour and asking. "
                  "Numbers of machines and new queues may change at any time; other changes need a stopped fleet.",
              .epilogue = EXAMPLE},
    .shared = cluster_flag_table,
    .options_bytes = sizeof(struct cluster_options),
    .run = update,
};
