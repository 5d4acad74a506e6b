// bevatron cluster export: what changed on FSx for Lustre goes to the bucket it is linked to, as a task of FSx.
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/cluster_commands.h"
#include "cli/commands.h"
#include "cluster/aws.h"
#include "cluster/parallelcluster_check.h"

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

#define OFFSET(member) offsetof(struct export_options, member)
#define TEXT(flag, member, start, value, text)                                                                         \
    { .name = flag, .type = FLAG_STRING, .offset = OFFSET(member), .initial = start, .value_name = value, .help = text }
#define SWITCH(flag, member, text)                                                                                     \
    { .name = flag, .type = FLAG_BOOL, .offset = OFFSET(member), .help = text }

static const struct flag export_flags[] = {
    {.name = "Export", .type = FLAG_GROUP},
    {.name = "--fsx-id",
     .type = FLAG_STRING,
     .offset = OFFSET(fsx_id),
     .value_name = "ID",
     .required = true,
     .help = "the file system (`aws fsx describe-file-systems` lists yours)"},
    TEXT("--region", region, NULL, "REGION", "as us-west-2"),
    {.name = "--path",
     .type = FLAG_STRING_LIST,
     .offset = OFFSET(paths),
     .value_name = "PATH",
     .repeats_add = true,
     .help = "files and folders, relative to the file system's root; everything by default"},
    TEXT("--report", report, NULL, "URL", "folder of S3 where failed files are listed"),
    SWITCH("--wait", wait, "waits until it is done, and says how it went"),
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
        return error_set_code(EXIT_CODE_USAGE, "--fsx-id \"%s\": such an id is fs- and 8 or 17 hexadecimal digits",
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
        status = error_set("aws fsx answered without a task's number");
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
    static const struct flag_table table = {.flags = export_flags,
                                            .count = sizeof export_flags / sizeof export_flags[0],
                                            .given = offsetof(struct export_options, given)};
    static const struct flag_command command = {
        .name = "cluster export",
        .summary =
            "Writes new and changed files of an FSx for Lustre file system to the S3 bucket it is linked to, and "
            "prints the task's number. PERSISTENT_2 file systems made by cluster create do so by themselves.",
        .tables = &table,
        .table_count = 1,
        .epilogue = "Example:\n  bevatron cluster export --region us-west-2 --fsx-id fs-0123 --path checkpoints \\\n"
                    "    --report s3://my-bucket/reports --wait\n"};
    struct export_options options;
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = export_changes}, argc,
                       argv);
}
