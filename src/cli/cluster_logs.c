// bevatron cluster logs: why a cluster or its machines did not start. CloudFormation's failed events, then the lines of
// the usual boot logs that report failures, each kind once, with a remedy; or one log verbatim.
#include "base/error.h"
#include "base/memory.h"
#include "cli/cluster_commands.h"
#include "cli/commands.h"
#include "cluster/boot_hints.h"
#include "config/flag_rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_STREAMS = 24, LINES_PER_STREAM = 5 };

struct log_options {
    struct cluster_options cluster;
    struct flag_given given;
    char *stream, *machine;
    int64_t lines;
    bool list;
};

#define FLAG_STRUCT struct log_options

static const struct flag log_flags[] = {
    GROUP("The logs"),
    TEXT("--stream", stream, NULL, "NAME", "print the end of this log; --list shows the names"),
    TEXT("--machine", machine, NULL, "TEXT", "only logs of machines whose host name or instance id contains this"),
    INT("--lines", lines, "200", 1, 10000, "lines of each log to read, from its end"),
    SWITCH("--list", list, "list the available logs"),
};

// The array `key` of an answer; NULL if there is none.
static const struct json *array_of(const struct json *answer, const char *key) {
    const struct json *array = json_member(answer, key);
    return array && array->type == JSON_ARRAY ? array : NULL;
}

// Findings, and each piece of advice once.
struct boot_findings {
    struct string_list hints;
    int64_t failures;
};

static void report(struct boot_findings *found, const char *where, const char *line) {
    const char *hint = boot_hint(line);
    printf("%s: %.*s\n", where, (int)strcspn(line, "\n"), line);
    found->failures++;
    for (int64_t i = 0; hint && i < found->hints.count; i++)
        if (strcmp(found->hints.items[i], hint) == 0)
            hint = NULL;
    if (hint) {
        printf("  -> %s\n", hint);
        string_list_add(&found->hints, hint);
    }
}

// Failed events of CloudFormation; the rest are consequences ("Resource creation cancelled").
static void take_event(void *context, const struct json *event) {
    const char *reason = cluster_text(event, "resourceStatusReason");
    if (!strstr(cluster_text(event, "resourceStatus"), "FAILED") || strstr(reason, "cancelled"))
        return;
    char *where = memory_printf("CloudFormation %s", cluster_text(event, "logicalResourceId"));
    report(context, where, *reason ? reason : cluster_text(event, "resourceStatus"));
    free(where);
}

struct stream_search {
    struct string_list names;
    const char *machine;  // NULL: any
};

static void take_stream(void *context, const struct json *stream) {
    struct stream_search *search = context;
    const char *name = cluster_text(stream, "logStreamName");
    if (*name && (!search->machine || strstr(name, search->machine)))
        string_list_add(&search->names, name);
}

// A stream is HOST.INSTANCE.LOG.
static const char *log_of(const char *stream) {
    const char *dot = strrchr(stream, '.');
    return dot ? dot + 1 : stream;
}

// The end of one log, either complete or only the lines that report failures.
static int show_stream(const struct log_options *options, const char *stream, struct boot_findings *found) {
    char limit[24];
    snprintf(limit, sizeof limit, "%" PRId64, options->lines);
    const char *const more[] = {"--log-stream-name", stream, "--limit", limit, NULL};
    struct json *answer;
    TRY(cluster_call(&options->cluster, "get-cluster-log-events", more, &answer));
    const struct json *events = array_of(answer, "events");
    int64_t shown = 0;
    for (size_t i = 0; events && i < events->count; i++) {
        const char *line = cluster_text(&events->items[i], "message");
        if (!found)
            puts(line);
        else if (boot_is_failure(line) && shown++ < LINES_PER_STREAM)
            report(found, stream, line);
    }
    if (found && shown > LINES_PER_STREAM)
        printf("  (%" PRId64 " more; --stream %s prints all)\n", shown - LINES_PER_STREAM, stream);
    json_free(answer);
    return 0;
}

// The usual logs, the most informative first.
static int show_usual(const struct log_options *options, const struct string_list *streams,
                      struct boot_findings *found) {
    int64_t read = 0;
    for (const struct boot_log *log = boot_logs(); log->name; log++)
        for (int64_t i = 0; i < streams->count && read < MOST_STREAMS; i++)
            if (strcmp(log_of(streams->items[i]), log->name) == 0) {
                TRY(show_stream(options, streams->items[i], found));
                read++;
            }
    return 0;
}

static void show_places(void) {
    fprintf(stderr, "logs on the machines (`bevatron cluster ssh`):\n");
    for (const struct boot_log *log = boot_logs(); log->name; log++)
        fprintf(stderr, "  %-46s %s%s\n", log->file, log->tells, log->is_head ? " (head node)" : "");
}

// The state of the cluster and its own reasons for a failure.
static int show_state(const struct log_options *options, struct boot_findings *found) {
    struct json *cluster;
    TRY(cluster_call(&options->cluster, "describe-cluster", NULL, &cluster));
    printf("%s: %s, fleet %s\n", options->cluster.name, cluster_text(cluster, "clusterStatus"),
           cluster_text(cluster, "computeFleetStatus"));
    const struct json *failures = array_of(cluster, "failures");
    for (size_t i = 0; failures && i < failures->count; i++)
        report(found, options->cluster.name, cluster_text(&failures->items[i], "failureReason"));
    if (strcmp(cluster_text(cluster, "computeFleetStatus"), "PROTECTED") == 0)
        report(found, options->cluster.name, "the fleet is PROTECTED");
    json_free(cluster);
    return 0;
}

static int logs(void *given) {
    const struct log_options *options = given;
    if (options->stream)
        return show_stream(options, options->stream, NULL);
    struct stream_search search = {.machine = options->machine};
    struct boot_findings found = {0};
    const struct cluster_taker events = {"events", take_event, &found}, streams = {"logStreams", take_stream, &search};
    int status = 0;
    if (!options->list)
        status = show_state(options, &found);
    if (status == 0 && !options->list)
        status = cluster_pages(&options->cluster, "get-cluster-stack-events", &events);
    if (status == 0)
        status = cluster_pages(&options->cluster, "list-cluster-log-streams", &streams);
    for (int64_t i = 0; status == 0 && options->list && i < search.names.count; i++)
        puts(search.names.items[i]);
    if (status == 0 && !options->list) {
        status = show_usual(options, &search.names, &found);
        if (status == 0 && found.failures == 0)
            printf("no failure in CloudFormation and %" PRId64 " logs\n", search.names.count);
        show_places();
    }
    string_list_free(&search.names);
    string_list_free(&found.hints);
    return status;
}

int cluster_logs(int argc, char **argv) {
    const struct flag_table tables[] = {cluster_flag_table(CLUSTER_NAME | CLUSTER_REGION), {FLAG_TABLE(log_flags)}};
    const struct flag_command command = {
        .name = "cluster logs",
        .summary = "Shows the failures in CloudFormation's events and in the usual boot logs of a cluster, and what to "
                   "do about each.",
        .tables = tables,
        .table_count = 2,
        .epilogue = "Examples:\n"
                    "  bevatron cluster logs --config llm.yaml\n"
                    "  bevatron cluster logs --config llm.yaml --machine gpu-dy-p4d-3\n"
                    "  bevatron cluster logs --config llm.yaml --stream ip-10-0-0-5.i-0123456789abcdef0.clustermgtd\n"};
    struct log_options options;
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = logs}, argc, argv);
}
