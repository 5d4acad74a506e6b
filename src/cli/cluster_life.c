// bevatron cluster status, start, stop, delete: an existing cluster.
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"
#include "cli/cluster_commands.h"
#include "cli/commands.h"
#include "cluster/aws.h"
#include "cluster/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_KINDS = 64, POLL_SECONDS = 30, MOST_PAGES = 100 };

const char *cluster_text(const struct json *object, const char *key) {
    const struct json *member = json_member(object, key);
    return member && member->type == JSON_STRING ? member->string : "";
}

int cluster_confirm(const char *question, bool is_answered) {
    char answer[16] = "";
    if (is_answered)
        return 0;
    if (!isatty(STDIN_FILENO))
        return error_set_code(EXIT_CODE_USAGE, "stdin is not a terminal; pass --yes");
    fprintf(stderr, "%s [y/N] ", question);
    if (fgets(answer, sizeof answer, stdin) && (answer[0] == 'y' || answer[0] == 'Y'))
        return 0;
    return error_set("not done");
}

// The first words of a call, and their number; -1 if the cluster's name is missing.
static int first_words(const struct cluster_options *options, const char *verb, const char **words) {
    int n = 0;
    words[n++] = "pcluster";
    words[n++] = verb;
    if (strcmp(verb, "list-clusters") != 0) {
        if (!options->name)
            return error_set_code(EXIT_CODE_USAGE,
                                  "no cluster given; give --name, or --config with the file it was made from");
        words[n++] = "--cluster-name";
        words[n++] = options->name;
    }
    if (options->region) {
        words[n++] = "--region";
        words[n++] = options->region;
    }
    return n;
}

int cluster_call(const struct cluster_options *options, const char *verb, const char *const *more,
                 struct json **answer) {
    const char *words[16];
    int n = first_words(options, verb, words);
    TRY(n);
    while (more && *more)
        words[n++] = *more++;
    words[n] = NULL;
    return aws_run(words, answer);
}

int cluster_pages(const struct cluster_options *options, const char *verb, const struct cluster_taker *taker) {
    char *token = NULL;
    int status = 0;
    for (int page = 0; page < MOST_PAGES && (page == 0 || token); page++) {
        const char *const more[] = {token ? "--next-token" : NULL, token, NULL};
        OWNED struct json *answer = NULL;
        status = cluster_call(options, verb, more, &answer);
        free(token);
        token = NULL;
        if (status < 0)
            break;
        const struct json *items = json_member(answer, taker->member);
        for (size_t i = 0; items && items->type == JSON_ARRAY && i < items->count; i++)
            taker->take(taker->context, &items->items[i]);
        const char *next = cluster_text(answer, "nextToken");
        token = *next ? memory_string(next) : NULL;
    }
    free(token);
    return status;
}

// Reasons for a failure, from CloudFormation or the head node.
static int failed(const struct json *cluster) {
    OWNED_BY(buffer_free) struct buffer reasons = {0};
    const struct json *failures = json_member(cluster, "failures");
    for (size_t i = 0; failures && failures->type == JSON_ARRAY && i < failures->count; i++)
        buffer_printf(&reasons, "%s%s", i ? "; " : "", cluster_text(&failures->items[i], "failureReason"));
    const char *text = buffer_string(&reasons), *remedy = aws_remedy(text);
    int status = error_set("cluster %s: %s%s%s%s%s", cluster_text(cluster, "clusterName"),
                           cluster_text(cluster, "clusterStatus"), *text ? ": " : "", text, remedy ? "; " : "",
                           remedy  ? remedy
                           : *text ? ""
                                   : "; `bevatron cluster logs` shows details");
    return status;
}

int cluster_await(const struct cluster_options *options) {
    char last[64] = "";
    for (;;) {
        OWNED struct json *cluster = NULL;
        TRY(cluster_call(options, "describe-cluster", NULL, &cluster));
        const char *status = cluster_text(cluster, "clusterStatus");
        if (strcmp(status, last) != 0)
            fprintf(stderr, "%s: %s\n", options->name, status);
        snprintf(last, sizeof last, "%s", status);
        bool is_passing = strstr(status, "_IN_PROGRESS") != NULL, is_good = strstr(status, "_COMPLETE") != NULL;
        int result = is_passing || is_good ? 0 : failed(cluster);
        if (!is_passing)
            return result;
        clock_sleep(POLL_SECONDS);
    }
}

// Machines of one queue and one type.
struct machine_kind {
    char *queue, *type;
    int64_t count;
};

struct machine_kinds {
    struct machine_kind items[MOST_KINDS];
    int count;
};

static void count_machine(void *context, const struct json *instance) {
    struct machine_kinds *kinds = context;
    const char *queue =
        strcmp(cluster_text(instance, "nodeType"), "HeadNode") == 0 ? "head node" : cluster_text(instance, "queueName");
    const char *type = cluster_text(instance, "instanceType");
    const char *state = cluster_text(instance, "state");
    if (strcmp(state, "running") != 0 && strcmp(state, "pending") != 0)
        return;
    int i = 0;
    while (i < kinds->count && (strcmp(kinds->items[i].queue, queue) != 0 || strcmp(kinds->items[i].type, type) != 0))
        i++;
    if (i == MOST_KINDS)
        return;
    if (i == kinds->count) {
        kinds->items[i] = (struct machine_kind){.queue = memory_string(queue), .type = memory_string(type)};
        kinds->count++;
    }
    kinds->items[i].count++;
}

static void print_machines(const struct machine_kind *kinds, int kind_count) {
    double sum = 0;
    for (int i = 0; i < kind_count; i++) {
        double price = machine_price(kinds[i].type);
        printf("%-14s %5" PRId64 " × %-18s %10.2f $/hour%s\n", kinds[i].queue, kinds[i].count, kinds[i].type,
               price * (double)kinds[i].count, price > 0 ? "" : " (no known price)");
        sum += price * (double)kinds[i].count;
    }
    printf("%-14s %28s %10.2f $/hour\n", "now", "", sum);
    fprintf(stderr, "%s\n", machine_price_note());
}

static void print_json(const struct json *cluster, const struct machine_kind *kinds, int kind_count) {
    static const char *const members[] = {"clusterName", "region", "version", "clusterStatus", "computeFleetStatus"};
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct json_writer w = {.out = &text, .indent = 2};
    double sum = 0;
    json_begin_object(&w);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        json_put_string(&w, members[i], cluster_text(cluster, members[i]));
    json_key(&w, "machines");
    json_begin_array(&w);
    for (int i = 0; i < kind_count; i++) {
        sum += machine_price(kinds[i].type) * (double)kinds[i].count;
        json_begin_object(&w);
        json_put_string(&w, "queue", kinds[i].queue);
        json_put_string(&w, "instanceType", kinds[i].type);
        json_put_int(&w, "count", kinds[i].count);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_put_double(&w, "dollarsPerHour", sum);
    json_end_object(&w);
    puts(buffer_string(&text));
}

// Ways to connect to the head node, each a line to copy.
static void print_ways(const struct cluster_options *options, const struct json *head) {
    if (!head)
        return;
    const char *flag = options->region ? " --region " : "", *region = options->region ? options->region : "";
    printf("%-14s bevatron cluster ssh --name %s%s%s\n", "shell", options->name, flag, region);
    printf("%-14s bevatron cluster ssh --name %s%s%s --tunnel 6006   # then http://localhost:6006\n", "TensorBoard",
           options->name, flag, region);
}

static int status(void *given) {
    const struct cluster_options *options = given;
    OWNED struct json *cluster = NULL;
    struct machine_kinds kinds = {.count = 0};
    const struct cluster_taker taker = {"instances", count_machine, &kinds};
    TRY(cluster_call(options, "describe-cluster", NULL, &cluster));
    const char *state = cluster_text(cluster, "clusterStatus");
    const struct json *head = json_member(cluster, "headNode");
    int result =
        strstr(state, "FAILED") ? failed(cluster) : cluster_pages(options, "describe-cluster-instances", &taker);
    if (result == 0 && options->json)
        print_json(cluster, kinds.items, kinds.count);
    else if (result == 0) {
        const char *address = cluster_text(head, "publicIpAddress");
        printf("%-14s %s\n%-14s %s\n%-14s %s (ParallelCluster %s)\n", "cluster", state, "fleet",
               cluster_text(cluster, "computeFleetStatus"), "region", cluster_text(cluster, "region"),
               cluster_text(cluster, "version"));
        if (head)
            printf("%-14s %s, %s\n", "head node", cluster_text(head, "state"),
                   *address ? address : cluster_text(head, "privateIpAddress"));
        print_machines(kinds.items, kinds.count);
        print_ways(options, head);
    }
    for (int i = 0; i < kinds.count; i++) {
        free(kinds.items[i].queue);
        free(kinds.items[i].type);
    }
    return result;
}

static int set_fleet(const struct cluster_options *options, const char *wish) {
    const char *const more[] = {"--status", wish, NULL};
    OWNED struct json *answer = NULL;
    TRY(cluster_call(options, "update-compute-fleet", more, &answer));
    fprintf(stderr, "%s: fleet %s\n", options->name, cluster_text(answer, "status"));
    return 0;
}

static int start(void *given) {
    return set_fleet(given, "START_REQUESTED");
}

static int stop(void *given) {
    return set_fleet(given, "STOP_REQUESTED");
}

static int remove_cluster(void *given) {
    const struct cluster_options *options = given;
    OWNED struct json *answer = NULL;
    fprintf(stderr, "Deleting %s with its nodes, disks and new SCRATCH file systems; data in S3 stays.\n",
            options->name ? options->name : "the cluster");
    TRY(cluster_confirm("Delete it?", options->yes));
    TRY(cluster_call(options, "delete-cluster", NULL, &answer));
    fprintf(stderr, "%s: %s\n", options->name, cluster_text(json_member(answer, "cluster"), "clusterStatus"));
    return 0;
}

#define CONFIG_NOTE "--config reads the name and region from the file that created the cluster.\n"

const struct command cmd_cluster_status = {
    .flags = {.name = "cluster status",
              .summary = "Shows the state of a cluster, its machines and their current cost.",
              .epilogue = CONFIG_NOTE},
    .shared = cluster_flag_table,
    .offered = CLUSTER_NAME | CLUSTER_REGION | CLUSTER_JSON,
    .options_bytes = sizeof(struct cluster_options),
    .run = status,
};

const struct command cmd_cluster_start = {
    .flags = {.name = "cluster start",
              .summary = "Allows the queues of a stopped cluster to start machines again.",
              .epilogue = CONFIG_NOTE},
    .shared = cluster_flag_table,
    .offered = CLUSTER_NAME | CLUSTER_REGION,
    .options_bytes = sizeof(struct cluster_options),
    .run = start,
};

const struct command cmd_cluster_stop = {
    .flags = {.name = "cluster stop",
              .summary = "Terminates all machines of the queues and starts no more; the head node and the disks stay.",
              .epilogue = CONFIG_NOTE},
    .shared = cluster_flag_table,
    .offered = CLUSTER_NAME | CLUSTER_REGION,
    .options_bytes = sizeof(struct cluster_options),
    .run = stop,
};

const struct command cmd_cluster_delete = {
    .flags = {.name = "cluster delete", .summary = "Deletes a cluster after confirmation.", .epilogue = CONFIG_NOTE},
    .shared = cluster_flag_table,
    .offered = CLUSTER_NAME | CLUSTER_REGION | CLUSTER_YES,
    .options_bytes = sizeof(struct cluster_options),
    .run = remove_cluster,
};
