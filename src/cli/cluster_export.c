// bevatron cluster export: writes changes on FSx for Lustre back to its linked bucket, as a task of FSx.
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/cluster_commands.h"
#include "cli/commands.h"
#include "cluster/aws.h"
#include "cluster/parallelcluster_check.h"
#include "config/flag_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
        struct json *answer;
        TRY(aws_run(words, &answer));
        const struct json *tasks = json_member(answer, "DataRepositoryTasks");
        const struct json *first = tasks && tasks->type == JSON_ARRAY && tasks->count > 0 ? &tasks->items[0] : NULL;
        char *state = memory_string(cluster_text(first, "Lifecycle"));
        bool is_good = strcmp(state, "SUCCEEDED") == 0;
        bool is_over = is_good || strcmp(state, "FAILED") == 0 || strcmp(state, "CANCELED") == 0 || !*state;
        int status = 0;
        if (is_over && !is_good)
            status = error_set("task %s: %s %s; the report in S3 lists the files", task, *state ? state : "unknown",
                               cluster_text(json_member(first, "FailureDetails"), "Message"));
        free(state);
        json_free(answer);
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
    char *report =
        options->report
            ? memory_printf("Enabled=true,Scope=FAILED_FILES_ONLY,Format=REPORT_CSV_20191124,Path=%s", options->report)
            : memory_string("Enabled=false");
    const char **words = memory_alloc(sizeof *words * (size_t)(options->paths.count + 20));
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
    struct json *answer = NULL;
    int status = aws_run(words, &answer);
    const char *task = cluster_text(json_member(answer, "DataRepositoryTask"), "TaskId");
    if (status == 0 && !*task)
        status = error_set("aws fsx did not return a task id");
    if (status == 0) {
        puts(task);
        if (options->wait)
            status = await_export(options, task);
    }
    json_free(answer);
    free(words);
    free(report);
    return status;
}

int cluster_export(int argc, char **argv) {
    static const struct flag_table table = {FLAG_TABLE(export_flags)};
    static const struct flag_command command = {
        .name = "cluster export",
        .summary = "Exports new and changed files of an FSx for Lustre file system to its S3 bucket, and prints the "
                   "task id. PERSISTENT_2 file systems created by cluster create export by themselves.",
        .tables = &table,
        .table_count = 1,
        .epilogue = "Example:\n  bevatron cluster export --region us-west-2 --fsx-id fs-0123 --path checkpoints \\\n"
                    "    --report s3://my-bucket/reports --wait\n"};
    struct export_options options;
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = export_changes}, argc,
                       argv);
}
