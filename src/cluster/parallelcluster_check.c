// What must be so in a cluster or an image, and what had better be. See parallelcluster_check.h.
#include "cluster/parallelcluster_check.h"
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
    return is_good
               ? 0
               : error_set_code(EXIT_CODE_USAGE, "%s \"%s\": use 2 to %zu letters, digits and dashes, a letter first",
                                flag, text, most);
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
    return error_set_code(EXIT_CODE_USAGE, "%s \"%s\": such an id is %s and 8 or 17 hexadecimal digits", flag, text,
                          prefix);
}

static int check_region(const char *text) {
    if (!text)
        return error_set_code(EXIT_CODE_USAGE, "no region; give --region, as us-west-2");
    size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (length < 5 || text[length] || !isdigit((unsigned char)text[length - 1]))
        return error_set_code(EXIT_CODE_USAGE, "--region \"%s\" is not a region of AWS, as us-west-2", text);
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
    return error_set_code(EXIT_CODE_USAGE, "%s \"%s\" is not an instance type of EC2, as c5.4xlarge", flag, text);
}

static int check_path(const char *flag, const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/";
    if (!text)
        return 0;
    if (text[0] != '/' || !text[1] || text[strspn(text, plain)])
        return error_set_code(EXIT_CODE_USAGE, "%s \"%s\" is not an absolute path of letters, digits and ._-", flag,
                              text);
    return 0;
}

int parallelcluster_check_s3(const char *flag, const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/!*'()=+@&,:";
    if (strncmp(text, "s3://", 5) != 0 || !isalnum((unsigned char)text[5]) || text[5 + strspn(text + 5, plain)])
        return error_set_code(EXIT_CODE_USAGE, "%s \"%s\" is not a place in S3, as s3://bucket/folder", flag, text);
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

// Each setting is one line of slurm.conf; those that ParallelCluster writes itself it refuses.
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
                return error_set_code(
                    EXIT_CODE_USAGE,
                    "--slurm-setting \"%.*s\" has a control character in it; each setting is one line "
                    "of slurm.conf, give the next with another --slurm-setting",
                    (int)strcspn(text, "\r\n"), text);
        for (size_t k = 0; k < length; k++)
            if (!isalnum((unsigned char)text[k]) && text[k] != '_')
                return error_set_code(EXIT_CODE_USAGE,
                                      "--slurm-setting \"%s\": a key of slurm.conf is letters and digits", text);
        for (size_t k = 0; k < sizeof taken / sizeof taken[0]; k++)
            if (strlen(taken[k]) == length && strncasecmp(taken[k], text, length) == 0)
                return error_set_code(
                    EXIT_CODE_USAGE,
                    "--slurm-setting %s: ParallelCluster sets it itself and refuses another; leave it "
                    "out",
                    taken[k]);
    }
    return 0;
}

static int check_policies(const struct string_list *policies) {
    for (int64_t i = 0; i < policies->count; i++)
        if (strncmp(policies->items[i], "arn:", 4) != 0 || !strstr(policies->items[i], ":policy/"))
            return error_set_code(EXIT_CODE_USAGE,
                                  "--policy \"%s\" is not the ARN of a policy, as "
                                  "arn:aws:iam::aws:policy/AmazonEC2ContainerRegistryReadOnly",
                                  policies->items[i]);
    return 0;
}

// Scripts are fetched by the machines; a file of this one they cannot see.
static int check_scripts(const struct string_list *scripts) {
    for (int64_t i = 0; i < scripts->count; i++) {
        const char *url = scripts->items[i];
        if (strncmp(url, "s3://", 5) != 0 && strncmp(url, "https://", 8) != 0)
            return error_set_code(EXIT_CODE_USAGE,
                                  "the script \"%s\" must be where the machines can fetch it: s3://… or https://…; put "
                                  "it there with aws s3 cp",
                                  url);
        for (; *url; url++)
            if (iscntrl((unsigned char)*url))
                return error_set_code(EXIT_CODE_USAGE, "a script stands on one line, its arguments after blanks");
    }
    return 0;
}

// Sizes and speeds that Lustre is sold in.
static int check_lustre(const struct parallelcluster *cluster) {
    TRY(check_id("--fsx-id", cluster->fsx_id, "fs-"));
    if (!cluster->fsx_mount)
        return cluster->fsx_id || cluster->fsx_s3
                   ? error_set_code(EXIT_CODE_USAGE, "say with --fsx where the file system is mounted, as /fsx")
                   : 0;
    if (cluster->fsx_id)
        return cluster->fsx_s3 ? error_set_code(EXIT_CODE_USAGE, "--fsx-s3 links a new file system; --fsx-id names one "
                                                                 "that is there: its links are its own")
                               : 0;
    const char *type = cluster->fsx_type;
    int64_t gib = cluster->fsx_gib, step = strcmp(type, "SCRATCH_1") == 0 ? 3600 : 2400;
    if (gib != 1200 && (gib < 2400 || (gib % step != 0 && gib != 2400)))
        return error_set_code(EXIT_CODE_USAGE,
                              "--fsx-size %" PRId64 ": a %s file system has 1200 GiB or a multiple of %" PRId64, gib,
                              type, step);
    static const int64_t first[] = {50, 100, 200}, second[] = {125, 250, 500, 1000};
    bool is_second = strcmp(type, "PERSISTENT_2") == 0, is_scratch = strncmp(type, "SCRATCH", 7) == 0;
    bool is_sold = is_scratch ? cluster->fsx_throughput == 0 : false;
    for (int i = 0; !is_scratch && i < (is_second ? 4 : 3); i++)
        is_sold = is_sold || cluster->fsx_throughput == (is_second ? second[i] : first[i]);
    if (!is_sold)
        return error_set_code(EXIT_CODE_USAGE, "--fsx-throughput %" PRId64 ": a %s file system has %s",
                              cluster->fsx_throughput, type,
                              is_scratch  ? "a fixed speed; leave it out"
                              : is_second ? "125, 250, 500 or 1000 MB/s for each TiB"
                                          : "50, 100 or 200 MB/s for each TiB");
    return cluster->fsx_s3 ? parallelcluster_check_s3("--fsx-s3", cluster->fsx_s3) : 0;
}

static int check_queues(const struct parallelcluster *cluster) {
    if (cluster->queue_count == 0)
        return error_set_code(EXIT_CODE_USAGE, "a cluster needs a --queue, as \"gpu p4d.24xlarge 0-16 efa "
                                               "placement-group\"");
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
            return error_set_code(
                EXIT_CODE_USAGE,
                "--bucket \"%s\" is not the name of a bucket: 3 to 63 small letters, digits, dots and "
                "dashes, without s3://",
                name);
    }
    return 0;
}

int parallelcluster_check(const struct parallelcluster *cluster) {
    if (!cluster->name)
        return error_set_code(EXIT_CODE_USAGE, "no name; give --name, what the cluster shall be called");
    TRY(check_name("--name", cluster->name, 60));
    TRY(check_region(cluster->region));
    TRY(check_type("--head-node", cluster->head_type));
    TRY(check_id("--subnet", cluster->subnet, "subnet-"));
    TRY(check_id("--head-subnet", cluster->head_subnet, "subnet-"));
    TRY(check_id("--security-group", cluster->security_group, "sg-"));
    TRY(check_id("--custom-ami", cluster->custom_ami, "ami-"));
    if (!cluster->head_subnet && !cluster->subnet)
        return error_set_code(EXIT_CODE_USAGE, "no subnet; give --subnet, and --head-subnet where the head node is in "
                                               "another (`aws ec2 describe-subnets` lists them)");
    if (!cluster->key && !cluster->has_ssm)
        return error_set_code(EXIT_CODE_USAGE, "nobody could log in: give --key, a key pair of EC2, or leave --no-ssm "
                                               "out");
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
    return check_pairs("--tag", cluster->tags);
}

int parallelcluster_image_check(const struct parallelcluster_image *image) {
    TRY(check_name("--image-id", image->id, 128));
    TRY(check_region(image->region));
    if (!image->parent)
        return error_set_code(EXIT_CODE_USAGE, "an image is made from another: give --parent ami-… (`pcluster "
                                               "list-official-images` names those of ParallelCluster)");
    TRY(check_id("--parent", image->parent, "ami-"));
    TRY(check_id("--subnet", image->subnet, "subnet-"));
    TRY(check_type("--instance-type", image->instance_type));
    TRY(check_policies(image->policies));
    for (int64_t i = 0; i < image->scripts->count; i++)
        if (strchr(image->scripts->items[i], ' '))
            return error_set_code(EXIT_CODE_USAGE,
                                  "--script \"%s\": scripts of an image get no arguments; put them into the script, as "
                                  "examples/images/image-script.sh does",
                                  image->scripts->items[i]);
    return check_scripts(image->scripts);
}

static void note_types(const struct cluster_queue *queue, struct buffer *notes) {
    for (int i = 0; i < queue->type_count; i++)
        if (!machine_is_known(queue->types[i]))
            buffer_printf(notes,
                          "note: queue %s: no table here has a %s; check its spelling (`aws ec2 "
                          "describe-instance-types`). Its price is unknown and not in the sum.\n",
                          queue->name, queue->types[i]);
}

void parallelcluster_notes(const struct parallelcluster *cluster, struct buffer *notes) {
    for (int i = 0; i < cluster->queue_count; i++) {
        const struct cluster_queue *queue = &cluster->queues[i];
        const struct machine *machine = machine_look_up(queue->types[0]);
        bool has_gpus = machine && machine->gpus > 0;
        note_types(queue, notes);
        if (has_gpus && machine->efa > 0 && !queue->has_efa && queue->most > 1)
            buffer_printf(
                notes,
                "note: queue %s has %s with EFA and does not use it; GPUs of several machines would talk over "
                "TCP. Add efa.\n",
                queue->name, queue->types[0]);
        if (queue->has_efa && !queue->has_placement_group && !queue->reservation && queue->most > 1)
            buffer_printf(notes,
                          "note: queue %s may get machines far apart; add placement-group, or reservation=cr-… where "
                          "capacity is reserved.\n",
                          queue->name);
        if (queue->has_placement_group && queue->reservation)
            buffer_printf(
                notes,
                "note: queue %s asks for a placement group and for reserved machines; that works only where the "
                "reservation was made in that group.\n",
                queue->name);
        if (has_gpus && machine_price(queue->types[0]) * (double)queue->least > 0)
            buffer_printf(notes, "note: queue %s keeps %" PRId64 " machines with GPUs running, jobs or not.\n",
                          queue->name, queue->least);
    }
    if (cluster->fsx_mount && !cluster->fsx_id && strncmp(cluster->fsx_type, "SCRATCH", 7) == 0)
        buffer_printf(notes,
                      "note: what is on a %s file system is gone with the cluster; `bevatron cluster export` writes it "
                      "to S3.\n",
                      cluster->fsx_type);
}
