// Requirements and recommendations for a cluster or an image.
#include "cluster/parallelcluster.h"
#include "base/error.h"
#include "cluster/machine.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>
#include <strings.h>

// Letters, digits and dashes, a letter first.
static int check_name(const char *flag, const char *text, size_t most) {
    size_t length = strlen(text);
    bool is_good = length >= 2 && length <= most && isalpha((unsigned char)text[0]);
    for (size_t i = 0; i < length; i++)
        is_good = is_good && (isalnum((unsigned char)text[i]) || text[i] == '-');
    return is_good ? 0
                   : error_set_code(EXIT_CODE_USAGE,
                                    "%s \"%s\": use 2 to %zu letters, digits and dashes, starting with a letter", flag,
                                    text, most);
}

bool aws_is_id(const char *text, const char *prefix) {
    size_t length = strlen(prefix);
    if (strncmp(text, prefix, length) != 0)
        return false;
    size_t digits = strspn(text + length, "0123456789abcdef");
    return text[length + digits] == 0 && (digits == 8 || digits == 17);
}

static int check_id(const char *flag, const char *text, const char *prefix) {
    if (!text || aws_is_id(text, prefix))
        return 0;
    return error_set_code(EXIT_CODE_USAGE, "%s \"%s\": such an id is %s followed by 8 or 17 hexadecimal digits", flag,
                          text, prefix);
}

static int check_region(const char *text) {
    if (!text)
        return error_set_code(EXIT_CODE_USAGE, "no region given; give --region, e.g. us-west-2");
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (length < 5 || text[length] || !isdigit((unsigned char)text[length - 1]))
        return error_set_code(EXIT_CODE_USAGE, "--region \"%s\" is not an AWS region, e.g. us-west-2", text);
    return 0;
}

bool aws_is_instance_type(const char *text) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
    size_t family = strspn(text, letters), size = text[family] == '.' ? strspn(text + family + 1, letters) : 0;
    return family > 0 && size > 0 && text[family + 1 + size] == 0;
}

static int check_type(const char *flag, const char *text) {
    if (aws_is_instance_type(text))
        return 0;
    return error_set_code(EXIT_CODE_USAGE, "%s \"%s\" is not an EC2 instance type, e.g. c5.4xlarge", flag, text);
}

static int check_path(const char *flag, const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
    if (!text)
        return 0;
    if (text[0] != '/' || !text[1] || text[strspn(text, plain)])
        return error_set_code(EXIT_CODE_USAGE, "%s \"%s\" is not an absolute path of letters, digits, '.', '_' and '-'",
                              flag, text);
    return 0;
}

int parallelcluster_check_s3(const char *flag, const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/!*'()=+@&,:";
    if (strncmp(text, "s3://", 5) != 0 || !isalnum((unsigned char)text[5]) || text[5 + strspn(text + 5, plain)])
        return error_set_code(EXIT_CODE_USAGE, "%s \"%s\" is not an S3 location, e.g. s3://bucket/folder", flag, text);
    return 0;
}

static int check_pairs(const char *flag, const struct string_list *list) {
    for (int64_t i = 0; i < list->count; i++) {
        const char *equals = strchr(list->items[i], '=');
        if (!equals || equals == list->items[i])
            return error_set_code(EXIT_CODE_USAGE, "%s \"%s\" is not KEY=VALUE", flag, list->items[i]);
    }
    return 0;
}

// Each setting is one line of slurm.conf; ParallelCluster refuses those that it writes itself.
static int check_slurm_settings(const struct string_list *list) {
    static const char *const taken[] = {
        "Prolog",         "Epilog",           "ResumeProgram",   "ResumeFailProgram", "ResumeTimeout",
        "SuspendProgram", "SuspendTime",      "SuspendExcNodes", "SlurmctldHost",     "SlurmctldParameters",
        "SlurmUser",      "SlurmctldLogFile", "SlurmdLogFile",   "TaskPlugin",        "TreeWidth",
        "GresTypes",      "LaunchParameters", "ReconfigFlags"};
    TRY(check_pairs("--slurm-setting", list));
    for (int64_t i = 0; i < list->count; i++) {
        const char *text = list->items[i];
        size_t length = strcspn(text, "=");
        for (const char *at = text; *at; at++)
            if (iscntrl((unsigned char)*at))
                return error_set_code(EXIT_CODE_USAGE,
                                      "--slurm-setting \"%.*s\" has a control character; give each line of slurm.conf "
                                      "with a --slurm-setting of its own",
                                      (int)strcspn(text, "\r\n"), text);
        for (size_t k = 0; k < length; k++)
            if (!isalnum((unsigned char)text[k]) && text[k] != '_')
                return error_set_code(EXIT_CODE_USAGE,
                                      "--slurm-setting \"%s\": a key of slurm.conf is letters and digits", text);
        for (size_t k = 0; k < sizeof taken / sizeof taken[0]; k++)
            if (strlen(taken[k]) == length && strncasecmp(taken[k], text, length) == 0)
                return error_set_code(
                    EXIT_CODE_USAGE,
                    "--slurm-setting %s: ParallelCluster sets it and rejects other values; leave it out", taken[k]);
    }
    return 0;
}

static int check_policies(const struct string_list *policies) {
    for (int64_t i = 0; i < policies->count; i++)
        if (strncmp(policies->items[i], "arn:", 4) != 0 || !strstr(policies->items[i], ":policy/"))
            return error_set_code(EXIT_CODE_USAGE,
                                  "--policy \"%s\" is not the ARN of a policy, e.g. "
                                  "arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryReadOnly",
                                  policies->items[i]);
    return 0;
}

// Scripts are fetched by the machines, which cannot see files of this one.
static int check_scripts(const struct string_list *scripts) {
    for (int64_t i = 0; i < scripts->count; i++) {
        const char *url = scripts->items[i];
        if (strncmp(url, "s3://", 5) != 0 && strncmp(url, "https://", 8) != 0)
            return error_set_code(EXIT_CODE_USAGE,
                                  "the script \"%s\" must be a URL that the nodes can fetch, s3://… or https://…; "
                                  "upload it with aws s3 cp",
                                  url);
        for (; *url; url++)
            if (iscntrl((unsigned char)*url))
                return error_set_code(EXIT_CODE_USAGE,
                                      "a script is one line: its URL, then its arguments after spaces");
    }
    return 0;
}

// Sizes and speeds in which Lustre is sold.
int parallelcluster_check_lustre(const char *type, int64_t gib, int64_t throughput) {
    int64_t step = strcmp(type, "SCRATCH_1") == 0 ? 3600 : 2400;
    if (gib != 1200 && (gib < 2400 || (gib % step != 0 && gib != 2400)))
        return error_set_code(EXIT_CODE_USAGE,
                              "--fsx-size %" PRId64 ": a %s file system has 1200 GiB or a multiple of %" PRId64 " GiB",
                              gib, type, step);
    static const int64_t first[] = {50, 100, 200}, second[] = {125, 250, 500, 1000};
    bool is_second = strcmp(type, "PERSISTENT_2") == 0, is_scratch = strncmp(type, "SCRATCH", 7) == 0;
    bool is_sold = is_scratch ? throughput == 0 : false;
    for (int i = 0; !is_scratch && i < (is_second ? 4 : 3); i++)
        is_sold = is_sold || throughput == (is_second ? second[i] : first[i]);
    if (!is_sold)
        return error_set_code(EXIT_CODE_USAGE, "--fsx-throughput %" PRId64 ": a %s file system has %s", throughput,
                              type,
                              is_scratch  ? "a fixed speed; leave it out"
                              : is_second ? "125, 250, 500 or 1000 MB/s for each TiB"
                                          : "50, 100 or 200 MB/s for each TiB");
    return 0;
}

static int check_lustre(const struct parallelcluster *cluster) {
    TRY(check_id("--fsx-id", cluster->fsx_id, "fs-"));
    if (!cluster->fsx_mount)
        return cluster->fsx_id || cluster->fsx_s3
                   ? error_set_code(EXIT_CODE_USAGE, "give the mount point of the file system with --fsx, e.g. /fsx")
                   : 0;
    if (cluster->fsx_id)
        return cluster->fsx_s3
                   ? error_set_code(
                         EXIT_CODE_USAGE,
                         "--fsx-s3 links a new file system, and --fsx-id names an existing one; give one of them")
                   : 0;
    TRY(parallelcluster_check_lustre(cluster->fsx_type, cluster->fsx_gib, cluster->fsx_throughput));
    return cluster->fsx_s3 ? parallelcluster_check_s3("--fsx-s3", cluster->fsx_s3) : 0;
}

static int check_queues(const struct parallelcluster *cluster) {
    if (cluster->queue_count == 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "a cluster needs a --queue, e.g. \"gpu p4d.24xlarge 0-16 efa placement-group\"");
    for (int i = 0; i < cluster->queue_count; i++) {
        const struct cluster_queue *queue = &cluster->queues[i];
        if (!queue->subnet && !cluster->subnet)
            return error_set_code(EXIT_CODE_USAGE,
                                  "queue \"%s\" has no subnet; give --subnet, or subnet=subnet-… in it", queue->name);
        for (int k = 0; k < i; k++)
            if (strcmp(cluster->queues[k].name, queue->name) == 0)
                return error_set_code(EXIT_CODE_USAGE, "two queues are called \"%s\"", queue->name);
    }
    return 0;
}

static int check_buckets(const struct string_list *buckets) {
    for (int64_t i = 0; i < buckets->count; i++) {
        const char *name = buckets->items[i];
        size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789.-");
        if (length < 3 || length > 63 || name[length])
            return error_set_code(EXIT_CODE_USAGE,
                                  "--bucket \"%s\" is not a bucket name: use 3 to 63 lowercase letters, digits, dots "
                                  "and dashes, without s3://",
                                  name);
    }
    return 0;
}

static int check_system(const char *os) {
    static const char *const systems[] = {"ubuntu2204", "ubuntu2404", "alinux2023", "rhel8",
                                          "rhel9",      "rocky8",     "rocky9"};
    const char *now = parallelcluster_system(os);
    for (size_t i = 0; i < sizeof systems / sizeof systems[0]; i++)
        if (strcmp(systems[i], now) == 0)
            return 0;
    return error_set_code(
        EXIT_CODE_USAGE,
        "--os \"%s\" is not one of ubuntu2204, ubuntu2404, alinux2023, rhel8, rhel9, rocky8 and rocky9", os);
}

// EBS's limits for gp3: 3000 to 16000 operations a second, 125 to 1000 MiB/s, at most a quarter of a MiB for each.
static int check_disk(const char *flag, const struct cluster_disk *disk) {
    int64_t iops = disk->iops, speed = disk->mib_per_second, base = iops > 0 ? iops : 3000;
    if (iops != 0 && (iops < 3000 || iops > 16000))
        return error_set_code(EXIT_CODE_USAGE, "%s-iops %" PRId64 ": a gp3 volume has 3000 to 16000", flag, iops);
    if (speed != 0 && (speed < 125 || speed > 1000))
        return error_set_code(EXIT_CODE_USAGE, "%s-throughput %" PRId64 ": a gp3 volume has 125 to 1000 MiB/s", flag,
                              speed);
    if (speed * 4 > base)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s-throughput %" PRId64 " needs four operations a second for each MiB/s: give %s-iops "
                              "%" PRId64 " or more",
                              flag, speed, flag, speed * 4);
    if (iops > 500 * disk->gib && disk->gib > 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "%s-iops %" PRId64 ": a gp3 volume of %" PRId64 " GiB has at most %" PRId64, flag, iops,
                              disk->gib, 500 * disk->gib);
    return 0;
}

static int check_accounting(const struct cluster_accounting *accounting) {
    if (!accounting->address)
        return accounting->user || accounting->secret || accounting->database
                   ? error_set_code(EXIT_CODE_USAGE,
                                    "give the address of the database with --accounting, e.g. db.example.com:3306")
                   : 0;
    if (!accounting->user || !accounting->secret)
        return error_set_code(EXIT_CODE_USAGE,
                              "--accounting needs --accounting-user, a user of the database, and --accounting-secret, "
                              "the ARN of its password in Secrets Manager");
    if (strncmp(accounting->secret, "arn:", 4) != 0 || !strstr(accounting->secret, ":secretsmanager:"))
        return error_set_code(EXIT_CODE_USAGE,
                              "--accounting-secret \"%s\" is not the ARN of a secret, "
                              "arn:aws:secretsmanager:REGION:ACCOUNT:secret:NAME",
                              accounting->secret);
    return 0;
}

int parallelcluster_check(const struct parallelcluster *cluster) {
    if (!cluster->name)
        return error_set_code(EXIT_CODE_USAGE, "no name given; give the cluster's name with --name");
    TRY(check_name("--name", cluster->name, 60));
    TRY(check_region(cluster->region));
    TRY(check_system(cluster->os));
    TRY(check_type("--head-node", cluster->head_type));
    TRY(check_id("--subnet", cluster->subnet, "subnet-"));
    TRY(check_id("--head-subnet", cluster->head_subnet, "subnet-"));
    TRY(check_id("--security-group", cluster->security_group, "sg-"));
    TRY(check_id("--custom-ami", cluster->custom_ami, "ami-"));
    if (!cluster->head_subnet && !cluster->subnet)
        return error_set_code(EXIT_CODE_USAGE, "no subnet given; give --subnet, and --head-subnet if the head node is "
                                               "in another one (`aws ec2 describe-subnets` lists them)");
    if (!cluster->key && !cluster->has_ssm)
        return error_set_code(EXIT_CODE_USAGE,
                              "there would be no way to log in: give --key, an EC2 key pair, or leave out --no-ssm");
    TRY(check_path("--fsx", cluster->fsx_mount));
    TRY(check_path("--apps", cluster->apps_mount));
    TRY(check_path("--scratch", cluster->scratch));
    if (cluster->fsx_mount && cluster->apps_mount && strcmp(cluster->fsx_mount, cluster->apps_mount) == 0)
        return error_set_code(EXIT_CODE_USAGE, "--fsx and --apps are both mounted at %s", cluster->fsx_mount);
    TRY(check_lustre(cluster));
    TRY(check_queues(cluster));
    TRY(check_buckets(cluster->buckets));
    TRY(check_policies(cluster->policies));
    TRY(check_scripts(cluster->scripts));
    TRY(check_slurm_settings(cluster->slurm_settings));
    TRY(check_disk("--head-disk", &cluster->head_disk));
    TRY(check_disk("--compute-disk", &cluster->compute_disk));
    TRY(check_disk("--apps", &cluster->apps_disk));
    TRY(check_accounting(&cluster->accounting));
    if (cluster->has_pyxis && cluster->buckets->count == 0 && !cluster->fsx_s3)
        return error_set_code(EXIT_CODE_USAGE,
                              "--pyxis puts a script into a bucket, from which all machines read it: give --bucket");
    return check_pairs("--tag", cluster->tags);
}

int parallelcluster_image_check(const struct parallelcluster_image *image) {
    TRY(check_name("--image-id", image->id, 128));
    TRY(check_region(image->region));
    if (!image->parent)
        return error_set_code(EXIT_CODE_USAGE, "an image needs a parent: give --parent ami-… (`pcluster "
                                               "list-official-images` lists those of ParallelCluster)");
    TRY(check_id("--parent", image->parent, "ami-"));
    TRY(check_id("--subnet", image->subnet, "subnet-"));
    TRY(check_type("--instance-type", image->instance_type));
    TRY(check_policies(image->policies));
    for (int64_t i = 0; i < image->scripts->count; i++)
        if (strchr(image->scripts->items[i], ' '))
            return error_set_code(EXIT_CODE_USAGE,
                                  "--script \"%s\": an image's scripts take no arguments; set them in the script, as "
                                  "examples/images/image-script.sh does",
                                  image->scripts->items[i]);
    return check_scripts(image->scripts);
}

// Systems no longer supported by ParallelCluster, and the closest ones that are.
static const struct {
    const char *old, *now;
} systems[] = {{"alinux", "alinux2023"},    {"alinux2", "alinux2023"},    {"centos7", "rocky8"},
               {"centos8", "rocky8"},       {"ubuntu1604", "ubuntu2204"}, {"ubuntu1804", "ubuntu2204"},
               {"ubuntu2004", "ubuntu2204"}};

const char *parallelcluster_system(const char *os) {
    for (size_t i = 0; i < sizeof systems / sizeof systems[0]; i++)
        if (strcmp(systems[i].old, os) == 0)
            return systems[i].now;
    return os;
}

static void note_system(const struct parallelcluster *cluster, struct buffer *notes) {
    const char *now = parallelcluster_system(cluster->os);
    if (now == cluster->os)
        return;
    buffer_printf(notes, "note: ParallelCluster no longer offers %s; %s is used instead.%s\n", cluster->os, now,
                  cluster->custom_ami ? " The image of --custom-ami must be of that system." : "");
}

static void note_types(const struct cluster_queue *queue, struct buffer *notes) {
    for (int i = 0; i < queue->type_count; i++)
        if (!machine_is_known(queue->types[i]))
            buffer_printf(notes,
                          "note: queue %s: the instance type %s is not known here; check its spelling (`aws ec2 "
                          "describe-instance-types`). The sum does not include its price.\n",
                          queue->name, queue->types[i]);
}

// A queue may get any of its types, so each is named.
static void note_old_gpus(const struct cluster_queue *queue, struct buffer *notes) {
    for (int i = 0; i < queue->type_count; i++) {
        const struct machine *machine = machine_look_up(queue->types[i]);
        if (!machine || !machine_has_old_gpus(machine))
            continue;
        buffer_printf(notes, "note: queue %s: ", queue->name);
        machine_describe_old_gpus(machine, notes);
        buffer_append_string(notes, "; jobs would run on its CPUs only.\n");
    }
}

void parallelcluster_notes(const struct parallelcluster *cluster, struct buffer *notes) {
    note_system(cluster, notes);
    for (int i = 0; i < cluster->queue_count; i++) {
        const struct cluster_queue *queue = &cluster->queues[i];
        const struct machine *machine = machine_look_up(queue->types[0]);
        bool has_gpus = machine && machine->gpus > 0;
        note_types(queue, notes);
        note_old_gpus(queue, notes);
        if (has_gpus && machine->efa > 0 && !queue->has_efa && queue->most > 1)
            buffer_printf(notes,
                          "note: queue %s has %s with EFA but does not use it: GPUs of different nodes would "
                          "communicate over TCP. Add efa.\n",
                          queue->name, queue->types[0]);
        if (queue->has_efa && !queue->has_placement_group && !queue->reservation && queue->most > 1)
            buffer_printf(
                notes,
                "note: queue %s may get nodes that are far apart; add placement-group, or reservation=cr-… if "
                "capacity is reserved.\n",
                queue->name);
        if (queue->has_placement_group && queue->reservation)
            buffer_printf(notes,
                          "note: queue %s asks for a placement group and for reserved nodes; that works only if the "
                          "reservation was made in that group.\n",
                          queue->name);
        if (has_gpus && machine_price(queue->types[0]) * (double)queue->least > 0)
            buffer_printf(notes, "note: queue %s keeps %" PRId64 " GPU nodes running, with or without jobs.\n",
                          queue->name, queue->least);
    }
    if (cluster->fsx_mount && !cluster->fsx_id && strncmp(cluster->fsx_type, "SCRATCH", 7) == 0)
        buffer_printf(
            notes,
            "note: deleting the cluster deletes its %s file system; `bevatron cluster export` copies the data to S3.\n",
            cluster->fsx_type);
}
