// bevatron cluster list, ssh: lists clusters, and connects to a head node: a shell, a command, or one of its ports on
// this machine, e.g. for TensorBoard. A head node without a public address is reached through AWS Systems Manager.
#include "base/error.h"
#include "base/memory.h"
#include "cli/cluster_commands.h"
#include "cli/commands.h"
#include "cluster/aws.h"
#include "cluster/shell.h"
#include "config/flag_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// ---- logs ----

// bevatron cluster logs: why a cluster or its machines did not start. CloudFormation's failed events, then the lines of
// the usual boot logs that report failures, each kind once, with a remedy; or one log verbatim.

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
    OWNED char *where = memory_printf("CloudFormation %s", cluster_text(event, "logicalResourceId"));
    report(context, where, *reason ? reason : cluster_text(event, "resourceStatus"));
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
    OWNED struct json *answer = NULL;
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

// The state of the cluster and its own reasons for a failure.
static int show_state(const struct log_options *options, struct boot_findings *found) {
    OWNED struct json *cluster = NULL;
    TRY(cluster_call(&options->cluster, "describe-cluster", NULL, &cluster));
    printf("%s: %s, fleet %s\n", options->cluster.name, cluster_text(cluster, "clusterStatus"),
           cluster_text(cluster, "computeFleetStatus"));
    const struct json *failures = array_of(cluster, "failures");
    for (size_t i = 0; failures && i < failures->count; i++)
        report(found, options->cluster.name, cluster_text(&failures->items[i], "failureReason"));
    if (strcmp(cluster_text(cluster, "computeFleetStatus"), "PROTECTED") == 0)
        report(found, options->cluster.name, "the fleet is PROTECTED");
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
        fprintf(stderr, "logs on the machines (`bevatron cluster ssh`):\n");
        for (const struct boot_log *log = boot_logs(); log->name; log++)
            fprintf(stderr, "  %-46s %s%s\n", log->file, log->tells, log->is_head ? " (head node)" : "");
    }
    string_list_free(&search.names);
    string_list_free(&found.hints);
    return status;
}

const struct command cmd_cluster_logs = {
    .flags = {.name = "cluster logs",
              .summary =
                  "Shows the failures in CloudFormation's events and in the usual boot logs of a cluster, and what to "
                  "do about each.",
              .epilogue =
                  "Examples:\n"
                  "  bevatron cluster logs --config llm.yaml\n"
                  "  bevatron cluster logs --config llm.yaml --machine gpu-dy-p4d-3\n"
                  "  bevatron cluster logs --config llm.yaml --stream ip-10-0-0-5.i-0123456789abcdef0.clustermgtd\n"},
    .tables = {[1] = {FLAG_TABLE(log_flags)}},
    .shared = cluster_flag_table,
    .offered = CLUSTER_NAME | CLUSTER_REGION,
    .options_bytes = sizeof(struct log_options),
    .run = logs,
};

// ---- list, ssh ----

struct cluster_listing {
    struct json_writer writer;
    bool is_json;
    int64_t count;
};

static void show_cluster(void *context, const struct json *cluster) {
    static const char *const members[] = {"clusterName", "clusterStatus", "region", "version"};
    struct cluster_listing *listing = context;
    listing->count++;
    if (!listing->is_json) {
        printf("%-28s %-22s %-14s %s\n", cluster_text(cluster, members[0]), cluster_text(cluster, members[1]),
               cluster_text(cluster, members[2]), cluster_text(cluster, members[3]));
        return;
    }
    json_begin_object(&listing->writer);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        json_put_string(&listing->writer, members[i], cluster_text(cluster, members[i]));
    json_end_object(&listing->writer);
}

static int list_clusters(void *given) {
    const struct cluster_options *options = given;
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct cluster_listing listing = {.writer = {.out = &text, .indent = 2}, .is_json = options->json};
    const struct cluster_taker taker = {"clusters", show_cluster, &listing};
    json_begin_array(&listing.writer);
    int status = cluster_pages(options, "list-clusters", &taker);
    json_end_array(&listing.writer);
    if (status == 0 && options->json)
        puts(buffer_string(&text));
    else if (status == 0 && listing.count == 0)
        fprintf(stderr, "no clusters in %s\n", options->region ? options->region : "this region");
    return status;
}

struct ssh_options {
    struct cluster_options cluster;
    struct flag_given given;
    struct string_list command;
    char *key_file;
    int64_t tunnel;
    bool use_ssm, print;
};

#undef FLAG_STRUCT
#define FLAG_STRUCT struct ssh_options

static const struct flag ssh_flags[] = {
    GROUP("The connection"),
    TEXT("--key-file", key_file, NULL, "FILE", "private key of the cluster's key pair; default: ssh's own keys"),
    INT("--tunnel", tunnel, NULL, 0, 65535,
        "port of the head node that becomes a port of this machine, e.g. 6006 for TensorBoard"),
    SWITCH("--ssm", use_ssm,
           "connect through AWS Systems Manager; the default for a head node without a public address"),
    SWITCH("--print", print, "print the command and do not run it"),
};

// The words of the connection's command.
static int connection(const struct ssh_options *options, const struct json *head, struct string_list *words) {
    const struct cluster_options *cluster = &options->cluster;
    char tunnel[80] = "", *region = cluster->region;
    if (!options->use_ssm && *cluster_text(head, "publicIpAddress")) {
        const char *const fixed[] = {"pcluster", "ssh", "--cluster-name", cluster->name};
        for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
            string_list_add(words, fixed[i]);
        if (region) {
            string_list_add(words, "--region");
            string_list_add(words, region);
        }
        if (options->key_file) {
            string_list_add(words, "-i");
            string_list_add(words, options->key_file);
        }
        if (options->tunnel > 0) {
            snprintf(tunnel, sizeof tunnel, "%" PRId64 ":localhost:%" PRId64, options->tunnel, options->tunnel);
            string_list_add(words, "-N");
            string_list_add(words, "-L");
            string_list_add(words, tunnel);
        }
        for (int64_t i = 0; i < options->command.count; i++)
            string_list_add(words, options->command.items[i]);
        return 0;
    }
    if (!*cluster_text(head, "instanceId"))
        return error_set("cluster %s has no head node yet; `bevatron cluster status` shows its state", cluster->name);
    if (options->command.count > 0)
        return error_set_code(EXIT_CODE_USAGE, "a Systems Manager session cannot run a command; leave it out, or give "
                                               "the head node a public subnet (--head-subnet)");
    const char *const fixed[] = {"aws", "ssm", "start-session", "--target", cluster_text(head, "instanceId")};
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        string_list_add(words, fixed[i]);
    if (region) {
        string_list_add(words, "--region");
        string_list_add(words, region);
    }
    if (options->tunnel > 0) {
        snprintf(tunnel, sizeof tunnel, "portNumber=%" PRId64 ",localPortNumber=%" PRId64, options->tunnel,
                 options->tunnel);
        string_list_add(words, "--document-name");
        string_list_add(words, "AWS-StartPortForwardingSession");
        string_list_add(words, "--parameters");
        string_list_add(words, tunnel);
    }
    return 0;
}

// This process is replaced by the connection.
static int become(const struct string_list *words) {
    OWNED char **argv = memory_alloc(sizeof *argv * (size_t)(words->count + 1));
    memcpy(argv, words->items, sizeof *argv * (size_t)words->count);
    fflush(NULL);
    execvp(argv[0], argv);
    return error_set("cannot start %s: %s", argv[0], strerror(errno));
}

static void print_words(const struct string_list *words) {
    OWNED_BY(buffer_free) struct buffer line = {0};
    for (int64_t i = 0; i < words->count; i++) {
        if (i > 0)
            buffer_append_byte(&line, ' ');
        shell_word(&line, words->items[i]);
    }
    puts(buffer_string(&line));
}

static int ssh(void *given) {
    const struct ssh_options *options = given;
    OWNED struct json *cluster = NULL;
    OWNED_BY(string_list_free) struct string_list words = {0};
    TRY(cluster_call(&options->cluster, "describe-cluster", NULL, &cluster));
    TRY(connection(options, json_member(cluster, "headNode"), &words));
    if (options->print) {
        print_words(&words);
        return 0;
    }
    if (options->tunnel > 0)
        fprintf(stderr, "port %" PRId64 " of the head node is http://localhost:%" PRId64 " until this ends\n",
                options->tunnel, options->tunnel);
    return become(&words);
}

const struct command cmd_cluster_list = {
    .flags = {.name = "cluster list",
              .summary = "Lists the clusters of a region.",
              .epilogue = "Example:\n  bevatron cluster list --region us-west-2\n"},
    .shared = cluster_flag_table,
    .offered = CLUSTER_REGION | CLUSTER_JSON,
    .options_bytes = sizeof(struct cluster_options),
    .run = list_clusters,
};

const struct command cmd_cluster_ssh = {
    .flags = {.name = "cluster ssh",
              .summary =
                  "Opens a shell on the head node, runs a command there, or makes one of its ports a port of this "
                  "machine.",
              .positional_name = "[-- COMMAND…]",
              .positional_maximum = 1000,
              .positional_offset = offsetof(struct ssh_options, command),
              .epilogue = "Examples:\n"
                          "  bevatron cluster ssh --config llm.yaml --key-file ~/.ssh/my-key.pem\n"
                          "  bevatron cluster ssh --config llm.yaml -- squeue\n"
                          "  bevatron cluster ssh --config llm.yaml --tunnel 6006        # then http://localhost:6006\n"
                          "A tunnel shows what listens on the head node: start `bevatron board --logdir RUN` there.\n"},
    .tables = {[1] = {FLAG_TABLE(ssh_flags)}},
    .shared = cluster_flag_table,
    .offered = CLUSTER_NAME | CLUSTER_REGION,
    .options_bytes = sizeof(struct ssh_options),
    .run = ssh,
};
