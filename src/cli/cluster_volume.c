// bevatron cluster volume, export: FSx for Lustre as a volume claim of Kubernetes, and its way back to S3.
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/cluster_commands.h"
#include "cli/commands.h"
#include "cluster/aws.h"
#include "cluster/kubernetes.h"
#include "cluster/parallelcluster.h"
#include "config/flag_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- export ----

// bevatron cluster export: writes changes on FSx for Lustre back to its linked bucket, as a task of FSx.

enum { POLL_SECONDS = 30 };

struct export_options {
    struct flag_given given;
    char *region, *fsx_id, *report;
    struct string_list paths;
    bool wait;
};

#define FLAG_STRUCT struct export_options

static const struct flag export_flags[] = {
    GROUP("Export"),
    TEXT("--fsx-id", fsx_id, NULL, "ID", "FSx file system (`aws fsx describe-file-systems` lists yours)",
         .required = true),
    TEXT("--region", region, NULL, "REGION", "AWS region, e.g. us-west-2"),
    LIST("--path", paths, "PATH", "files and folders, relative to the file system's root; default: everything",
         .repeats_add = true),
    TEXT("--report", report, NULL, "URL", "S3 folder for a report of failed files"),
    SWITCH("--wait", wait, "wait until it is done and print the result"),
};

// The state of a task: EXECUTING … SUCCEEDED, FAILED, CANCELED.
static int await_export(const struct export_options *options, const char *task) {
    for (;;) {
        const char *const words[] = {"aws",      "fsx",  "describe-data-repository-tasks",    "--task-ids",    task,
                                     "--output", "json", options->region ? "--region" : NULL, options->region, NULL};
        OWNED struct json *answer = NULL;
        TRY(aws_run(words, &answer));
        const struct json *tasks = json_member(answer, "DataRepositoryTasks");
        const struct json *first = tasks && tasks->type == JSON_ARRAY && tasks->count > 0 ? &tasks->items[0] : NULL;
        OWNED char *state = memory_string(cluster_text(first, "Lifecycle"));
        bool is_good = strcmp(state, "SUCCEEDED") == 0;
        bool is_over = is_good || strcmp(state, "FAILED") == 0 || strcmp(state, "CANCELED") == 0 || !*state;
        int status = 0;
        if (is_over && !is_good)
            status = error_set("task %s: %s %s; the report in S3 lists the files", task, *state ? state : "unknown",
                               cluster_text(json_member(first, "FailureDetails"), "Message"));
        if (is_over)
            return status;
        clock_sleep(POLL_SECONDS);
    }
}

static int export_changes(void *given) {
    const struct export_options *options = given;
    if (!aws_is_id(options->fsx_id, "fs-"))
        return error_set_code(EXIT_CODE_USAGE,
                              "--fsx-id \"%s\": such an id is fs- followed by 8 or 17 hexadecimal digits",
                              options->fsx_id);
    if (options->report)
        TRY(parallelcluster_check_s3("--report", options->report));
    OWNED char *report =
        options->report
            ? memory_printf("Enabled=true,Scope=FAILED_FILES_ONLY,Format=REPORT_CSV_20191124,Path=%s", options->report)
            : memory_string("Enabled=false");
    OWNED const char **words = memory_alloc(sizeof *words * (size_t)(options->paths.count + 20));
    int n = 0;
    static const char *const fixed[] = {"aws",
                                        "fsx",
                                        "create-data-repository-task",
                                        "--type",
                                        "EXPORT_TO_REPOSITORY",
                                        "--output",
                                        "json",
                                        "--file-system-id"};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        words[n++] = fixed[i];
    words[n++] = options->fsx_id;
    words[n++] = "--report";
    words[n++] = report;
    if (options->region) {
        words[n++] = "--region";
        words[n++] = options->region;
    }
    if (options->paths.count > 0)
        words[n++] = "--paths";
    for (int64_t i = 0; i < options->paths.count; i++)
        words[n++] = options->paths.items[i];
    OWNED struct json *answer = NULL;
    TRY(aws_run(words, &answer));
    const char *task = cluster_text(json_member(answer, "DataRepositoryTask"), "TaskId");
    if (!*task)
        return error_set("aws fsx did not return a task id");
    puts(task);
    return options->wait ? await_export(options, task) : 0;
}

const struct command cmd_cluster_export = {
    .flags = {.name = "cluster export",
              .summary =
                  "Exports new and changed files of an FSx for Lustre file system to its S3 bucket, and prints the "
                  "task id. PERSISTENT_2 file systems created by cluster create export by themselves.",
              .epilogue =
                  "Example:\n  bevatron cluster export --region us-west-2 --fsx-id fs-0123 --path checkpoints \\\n"
                  "    --report s3://my-bucket/reports --wait\n"},
    .tables = {{FLAG_TABLE(export_flags)}},
    .options_bytes = sizeof(struct export_options),
    .run = export_changes,
};

// ---- volume ----

struct volume_options {
    struct flag_given given;
    char *claim, *name_space, *region, *fsx_id, *dns_name, *mount_name, *subnet, *fsx_type, *fsx_s3;
    struct string_list security_groups;
    int64_t fsx_size, fsx_throughput;
    bool apply;
};

#undef FLAG_STRUCT
#define FLAG_STRUCT struct volume_options

static const char *const volume_types[] = {"SCRATCH_1", "SCRATCH_2", "PERSISTENT_1", "PERSISTENT_2", NULL};

static const struct flag volume_flags[] = {
    GROUP("The claim"),
    TEXT("--claim", claim, "fsx-claim", "NAME", "name of the claim, for launch kubernetes --claim"),
    TEXT("--namespace", name_space, NULL, "NAME", "namespace of the claim; default: kubectl's"),
    INT("--fsx-size", fsx_size, "1200", 1, 1e6, "size of the file system in GiB"),
    SWITCH("--apply", apply, "apply the manifest with kubectl; default: print it"),
    GROUP("An existing file system"),
    TEXT("--fsx-id", fsx_id, NULL, "ID", "FSx file system (`aws fsx describe-file-systems` lists yours)"),
    TEXT("--dns-name", dns_name, NULL, "HOST", "its address; default: looked up in AWS"),
    TEXT("--mount-name", mount_name, NULL, "NAME", "name of its mount; default: looked up in AWS"),
    TEXT("--region", region, NULL, "REGION", "AWS region, e.g. us-west-2"),
    GROUP("A new file system, made by the driver"),
    TEXT("--subnet", subnet, NULL, "SUBNET", "its subnet, one of the nodes'"),
    LIST("--security-group", security_groups, "GROUP", "its security groups; they must let the nodes in",
         .repeats_add = true),
    CHOICE("--fsx-type", fsx_type, "SCRATCH_2", volume_types, "its type; SCRATCH is for data that exists elsewhere"),
    INT("--fsx-throughput", fsx_throughput, NULL, 0, 1000, "throughput of PERSISTENT types in MB/s per TiB"),
    TEXT("--fsx-s3", fsx_s3, NULL, "URL", "S3 folder that it is linked to"),
};

// Address, mount and size of the file system, where they are not given.
static int ask_aws(const struct volume_options *options, struct kubernetes_volume *volume, struct json **answer) {
    const char *const words[] = {"aws",
                                 "fsx",
                                 "describe-file-systems",
                                 "--file-system-ids",
                                 options->fsx_id,
                                 "--output",
                                 "json",
                                 options->region ? "--region" : NULL,
                                 options->region,
                                 NULL};
    TRY(aws_run(words, answer));
    const struct json *list = json_member(*answer, "FileSystems");
    const struct json *one = list && list->type == JSON_ARRAY && list->count > 0 ? &list->items[0] : NULL;
    const char *dns = cluster_text(one, "DNSName");
    const char *mount = cluster_text(json_member(one, "LustreConfiguration"), "MountName");
    const struct json *gib = json_member(one, "StorageCapacity");
    if (!*dns || !*mount)
        return error_set("%s is not a Lustre file system that AWS describes; give --dns-name and --mount-name",
                         options->fsx_id);
    volume->dns_name = volume->dns_name ? volume->dns_name : dns;
    volume->mount_name = volume->mount_name ? volume->mount_name : mount;
    if (!flag_is_given(&options->given, "--fsx-size") && gib && gib->type == JSON_NUMBER && gib->number >= 1 &&
        gib->number < 1e9)
        volume->gib = (int64_t)gib->number;
    return 0;
}

static int make_volume(void *given) {
    const struct volume_options *options = given;
    struct kubernetes_volume volume = {.claim = options->claim,
                                       .name_space = options->name_space,
                                       .gib = options->fsx_size,
                                       .fsx_id = options->fsx_id,
                                       .dns_name = options->dns_name,
                                       .mount_name = options->mount_name,
                                       .subnet = options->subnet,
                                       .type = options->fsx_type,
                                       .s3 = options->fsx_s3,
                                       .security_groups = &options->security_groups,
                                       .throughput = options->fsx_throughput};
    OWNED_BY(buffer_free) struct buffer manifest = {0};
    OWNED struct json *answer = NULL;
    if (volume.fsx_id && (!volume.dns_name || !volume.mount_name))
        TRY(ask_aws(options, &volume, &answer));
    TRY(kubernetes_volume_manifest(&volume, &manifest));
    if (options->apply)
        TRY(kubectl_apply("volume", buffer_string(&manifest)));
    else
        fputs(buffer_string(&manifest), stdout);
    fprintf(stderr, "next: bevatron launch kubernetes --claim %s …; `kubectl get pvc %s` shows when it is bound\n",
            volume.claim, volume.claim);
    return 0;
}

const struct command cmd_cluster_volume = {
    .flags =
        {.name = "cluster volume",
         .summary =
             "Prints or applies the manifest of a Kubernetes volume claim on FSx for Lustre: on a file system that "
             "exists, or on one that the CSI driver (fsx.csi.aws.com) makes.",
         .epilogue =
             "Examples:\n"
             "  bevatron cluster volume --fsx-id fs-0123456789abcdef0 --region us-west-2 --apply\n"
             "  bevatron cluster volume --subnet subnet-0123456789abcdef0 --security-group sg-0123456789abcdef0 \\\n"
             "    --fsx-size 2400 --fsx-s3 s3://my-bucket\n"},
    .tables = {{FLAG_TABLE(volume_flags)}},
    .options_bytes = sizeof(struct volume_options),
    .run = make_volume,
};
