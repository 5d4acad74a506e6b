// bevatron cluster render, create: the flags of a cluster, its configuration, its cost, its birth.
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "cli/cluster_commands.h"
#include "cli/commands.h"
#include "cluster/parallelcluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OFFSET(member) offsetof(struct cluster_options, member)
#define TEXT(flag, member, start, value, text)                                                                         \
    { .name = flag, .type = FLAG_STRING, .offset = OFFSET(member), .initial = start, .value_name = value, .help = text }
#define COUNT(flag, member, start, most, text)                                                                         \
    {                                                                                                                  \
        .name = flag, .type = FLAG_INT, .offset = OFFSET(member), .initial = start, .minimum = 0, .maximum = most,     \
        .help = text                                                                                                   \
    }
#define LIST(flag, member, value, text)                                                                                \
    {                                                                                                                  \
        .name = flag, .type = FLAG_STRING_LIST, .offset = OFFSET(member), .value_name = value, .repeats_add = true,    \
        .help = text                                                                                                   \
    }
#define SWITCH(flag, member, text)                                                                                     \
    { .name = flag, .type = FLAG_BOOL, .offset = OFFSET(member), .help = text }

static const char *const systems[] = {"ubuntu2204", "ubuntu2404", "alinux2023", "alinux2", "rhel8",
                                      "rhel9",      "rocky8",     "rocky9",     NULL};
static const char *const lustre_types[] = {"SCRATCH_1", "SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2", NULL};

static const struct flag own_flags[] = {
    {.name = "The cluster", .type = FLAG_GROUP},
    TEXT("--name", name, NULL, "NAME", "what the cluster is called"),
    TEXT("--region", region, NULL, "REGION", "as us-west-2"),
    {.name = "--os",
     .type = FLAG_CHOICE,
     .offset = OFFSET(os),
     .choices = systems,
     .initial = "ubuntu2204",
     .help = "operating system of all machines"},
    TEXT("--custom-ami", custom_ami, NULL, "AMI", "machine image; see cluster build-image"),
    TEXT("--key", key, NULL, "NAME", "key pair of EC2 for ssh"),
    TEXT("--allowed-ips", allowed_ips, NULL, "CIDR", "from where ssh is allowed, as 203.0.113.0/24"),
    SWITCH("--no-ssm", no_ssm, "no sessions of AWS Systems Manager on the machines"),
    LIST("--policy", policies, "ARN", "policies of IAM for all machines"),
    LIST("--bucket", buckets, "NAME", "buckets of S3 that all machines may read and write"),
    LIST("--on-node-configured", scripts, "SCRIPT",
         "run on every machine at the end of its set-up: s3://… or https://…, its arguments after blanks"),
    LIST("--tag", tags, "KEY=VALUE", "tags of everything that is created"),
    {.name = "Head node", .type = FLAG_GROUP},
    TEXT("--head-node", head_node, "c5.4xlarge", "TYPE", "instance type"),
    TEXT("--head-subnet", head_subnet, NULL, "SUBNET", "its subnet, usually a public one; --subnet by default"),
    COUNT("--head-disk", head_disk, "200", 16384, "its disk, GiB"),
    {.name = "Queues", .type = FLAG_GROUP},
    LIST("--queue", queues, "TEXT",
         "\"NAME TYPE[,TYPE] LEAST-MOST WORD…\"; words: efa, placement-group[=NAME], no-smt, exclusive, "
         "gpu-health-check, spot, capacity-block, reservation=cr-…, subnet=subnet-…, ami=ami-…"),
    TEXT("--subnet", subnet, NULL, "SUBNET", "subnet of the queues; machines with several EFA need a private one"),
    TEXT("--security-group", security_group, NULL, "GROUP", "added to all machines"),
    COUNT("--compute-disk", compute_disk, "200", 16384, "disk of each machine, GiB"),
    TEXT("--scratch", scratch, NULL, "PATH", "where the machines' own NVMe disks are mounted"),
    COUNT("--idle-minutes", idle_minutes, "15", 100000, "a machine without work is given back after this"),
    LIST("--slurm-setting", slurm_settings, "KEY=VALUE", "lines of slurm.conf"),
    {.name = "Storage", .type = FLAG_GROUP},
    TEXT("--fsx", fsx, NULL, "PATH", "FSx for Lustre, mounted here on all machines"),
    TEXT("--fsx-id", fsx_id, NULL, "ID", "a file system that is there already"),
    {.name = "--fsx-type",
     .type = FLAG_CHOICE,
     .offset = OFFSET(fsx_type),
     .choices = lustre_types,
     .initial = "SCRATCH_2",
     .help = "type of a new one; what is on SCRATCH is gone with the cluster"},
    COUNT("--fsx-size", fsx_size, "1200", 1e6, "its size, GiB"),
    COUNT("--fsx-throughput", fsx_throughput, NULL, 1000, "of PERSISTENT types, MB/s for each TiB"),
    TEXT("--fsx-s3", fsx_s3, NULL, "URL", "folder of S3 it is linked to"),
    TEXT("--apps", apps, NULL, "PATH", "a small shared volume for programs, mounted here"),
    COUNT("--apps-size", apps_size, "200", 16384, "its size, GiB"),
    {.name = "Doing it", .type = FLAG_GROUP},
    TEXT("--output", output, NULL, "FILE", "where the configuration is written; NAME.pcluster.yaml by default"),
    SWITCH("--dry-run", dry_run, "lets pcluster check everything and create nothing"),
    SWITCH("--yes", yes, "does not ask"),
    SWITCH("--wait", wait, "waits until it is done, and says how it went"),
    SWITCH("--json", json, "prints JSON"),
};

struct flag_table cluster_flag_table(const char *offered) {
    return (struct flag_table){.flags = own_flags,
                               .count = sizeof own_flags / sizeof own_flags[0],
                               .given = offsetof(struct cluster_options, given),
                               .offered = offered,
                               .refusal = "describes a new cluster: it is a flag of render and create"};
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
                                        .head_disk_gib = options->head_disk,
                                        .compute_disk_gib = options->compute_disk,
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
                                        .apps_gib = options->apps_size,
                                        .buckets = &options->buckets,
                                        .policies = &options->policies,
                                        .scripts = &options->scripts,
                                        .slurm_settings = &options->slurm_settings,
                                        .tags = &options->tags,
                                        .has_ssm = !options->no_ssm};
    for (int64_t i = 0; i < options->queues.count; i++)
        TRY(cluster_queue_parse(&(*queues)[cluster->queue_count++], options->queues.items[i]));
    return 0;
}

static void free_queues(struct cluster_queue *queues, int count) {
    for (int i = 0; i < count; i++)
        cluster_queue_free(&queues[i]);
    free(queues);
}

// The configuration into `yaml`; what is to be said before it is used goes to stderr.
static int write_configuration(const struct cluster_options *options, struct buffer *yaml) {
    struct parallelcluster cluster;
    struct cluster_queue *queues;
    struct buffer notes = {0}, cost = {0};
    int status = describe(options, &cluster, &queues);
    if (status == 0)
        status = parallelcluster_yaml(&cluster, yaml, &notes);
    if (status == 0) {
        parallelcluster_cost(&cluster, &cost);
        fprintf(stderr, "%s%s", buffer_string(&notes), buffer_string(&cost));
    }
    buffer_free(&notes);
    buffer_free(&cost);
    free_queues(queues, cluster.queue_count);
    return status;
}

// All configurations that are written here begin so.
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
    struct buffer yaml = {0};
    int status = write_configuration(options, &yaml);
    if (status == 0 && options->output)
        status = cluster_write_file(options->output, &yaml);
    else if (status == 0)
        fputs(buffer_string(&yaml), stdout);
    buffer_free(&yaml);
    return status;
}

// What pcluster noticed and let pass.
static void print_warnings(const struct json *answer) {
    const struct json *messages = json_member(answer, "validationMessages");
    for (size_t i = 0; messages && messages->type == JSON_ARRAY && i < messages->count; i++)
        fprintf(stderr, "pcluster warns: %s\n", cluster_text(&messages->items[i], "message"));
}

// pcluster says by failing that a dry run would have gone well.
static bool is_dry_success(void) {
    return strstr(error_message(), "DryRun flag is set") != NULL;
}

static int submit(const struct cluster_options *options, const char *path) {
    const char *const more[] = {"--cluster-configuration", path, options->dry_run ? "--dryrun" : NULL, "true", NULL};
    struct json *answer;
    if (cluster_call(options, "create-cluster", more, &answer) < 0) {
        if (!options->dry_run || !is_dry_success())
            return -1;
        error_clear();
        fprintf(stderr, "pcluster finds nothing wrong with %s; nothing was created\n", path);
        return 0;
    }
    print_warnings(answer);
    const struct json *cluster = json_member(answer, "cluster");
    fprintf(stderr, "%s: %s; it takes about ten minutes (`bevatron cluster status --name %s --region %s`)\n",
            options->name, cluster_text(cluster, "clusterStatus"), options->name, options->region);
    json_free(answer);
    return options->wait ? cluster_await(options) : 0;
}

static int create(void *given) {
    const struct cluster_options *options = given;
    struct buffer yaml = {0};
    char *path = NULL;
    int status = write_configuration(options, &yaml);
    if (status == 0 && !options->dry_run)
        status = cluster_confirm("Create it?", options->yes);
    if (status == 0) {
        path = options->output ? memory_string(options->output) : memory_printf("%s.pcluster.yaml", options->name);
        status = cluster_write_file(path, &yaml);
    }
    if (status == 0)
        status = submit(options, path);
    free(path);
    buffer_free(&yaml);
    return status;
}

static int run(const char *name, const char *summary, int (*action)(void *), int argc, char **argv) {
    const struct flag_table table = cluster_flag_table(NULL);
    const struct flag_command command = {
        .name = name,
        .summary = summary,
        .tables = &table,
        .table_count = 1,
        .epilogue =
            "Example, a file llm.yaml:\n"
            "  name: llm\n  region: us-west-2\n  key: my-key\n  head-subnet: subnet-0aaa\n  subnet: subnet-0bbb\n"
            "  queue:\n    - gpu p4d.24xlarge 0-16 efa placement-group no-smt\n    - cpu c5n.18xlarge 0-4\n"
            "  fsx: /fsx\n  fsx-s3: s3://my-bucket\n"
            "bevatron cluster create --config llm.yaml; more in examples/clusters\n"};
    struct cluster_options options;
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = action}, argc, argv);
}

int cluster_render(int argc, char **argv) {
    return run("cluster render",
               "Prints the configuration of a ParallelCluster on stdout, and on stderr what it costs an hour.", render,
               argc, argv);
}

int cluster_create(int argc, char **argv) {
    return run("cluster create",
               "Writes the configuration of a ParallelCluster, shows what it costs an hour, asks, and creates it.",
               create, argc, argv);
}
