// bevatron cluster list, ssh: lists clusters, and connects to a head node: a shell, a command, or one of its ports on
// this machine, e.g. for TensorBoard. A head node without a public address is reached through AWS Systems Manager.
#include "base/error.h"
#include "base/memory.h"
#include "cli/cluster_commands.h"
#include "cli/commands.h"
#include "cluster/shell.h"
#include "config/flag_rows.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) {
        json_key(&listing->writer, members[i]);
        json_cstring(&listing->writer, cluster_text(cluster, members[i]));
    }
    json_end_object(&listing->writer);
}

static int list_clusters(void *given) {
    const struct cluster_options *options = given;
    struct buffer text = {0};
    struct cluster_listing listing = {.writer = {.out = &text, .indent = 2}, .is_json = options->json};
    const struct cluster_taker taker = {"clusters", show_cluster, &listing};
    json_begin_array(&listing.writer);
    int status = cluster_pages(options, "list-clusters", &taker);
    json_end_array(&listing.writer);
    if (status == 0 && options->json)
        puts(buffer_string(&text));
    else if (status == 0 && listing.count == 0)
        fprintf(stderr, "no clusters in %s\n", options->region ? options->region : "this region");
    buffer_free(&text);
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
    char **argv = memory_alloc(sizeof *argv * (size_t)(words->count + 1));
    memcpy(argv, words->items, sizeof *argv * (size_t)words->count);
    fflush(NULL);
    execvp(argv[0], argv);
    int status = error_set("cannot start %s: %s", argv[0], strerror(errno));
    free(argv);
    return status;
}

static void print_words(const struct string_list *words) {
    struct buffer line = {0};
    for (int64_t i = 0; i < words->count; i++) {
        if (i > 0)
            buffer_append_byte(&line, ' ');
        shell_word(&line, words->items[i]);
    }
    puts(buffer_string(&line));
    buffer_free(&line);
}

static int ssh(void *given) {
    const struct ssh_options *options = given;
    struct json *cluster;
    struct string_list words = {0};
    TRY(cluster_call(&options->cluster, "describe-cluster", NULL, &cluster));
    int status = connection(options, json_member(cluster, "headNode"), &words);
    json_free(cluster);
    if (status == 0 && options->print) {
        print_words(&words);
    } else if (status == 0) {
        if (options->tunnel > 0)
            fprintf(stderr, "port %" PRId64 " of the head node is http://localhost:%" PRId64 " until this ends\n",
                    options->tunnel, options->tunnel);
        status = become(&words);
    }
    string_list_free(&words);
    return status;
}

int cluster_list(int argc, char **argv) {
    const struct flag_table table = cluster_flag_table(CLUSTER_REGION | CLUSTER_JSON);
    const struct flag_command command = {.name = "cluster list",
                                         .summary = "Lists the clusters of a region.",
                                         .tables = &table,
                                         .table_count = 1,
                                         .epilogue = "Example:\n  bevatron cluster list --region us-west-2\n"};
    struct cluster_options options;
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = list_clusters}, argc,
                       argv);
}

int cluster_ssh(int argc, char **argv) {
    const struct flag_table tables[] = {cluster_flag_table(CLUSTER_NAME | CLUSTER_REGION), {FLAG_TABLE(ssh_flags)}};
    const struct flag_command command = {
        .name = "cluster ssh",
        .summary = "Opens a shell on the head node, runs a command there, or makes one of its ports a port of this "
                   "machine.",
        .tables = tables,
        .table_count = 2,
        .positional_name = "[-- COMMAND…]",
        .positional_maximum = 1000,
        .positional_offset = offsetof(struct ssh_options, command),
        .epilogue = "Examples:\n"
                    "  bevatron cluster ssh --config llm.yaml --key-file ~/.ssh/my-key.pem\n"
                    "  bevatron cluster ssh --config llm.yaml -- squeue\n"
                    "  bevatron cluster ssh --config llm.yaml --tunnel 6006        # then http://localhost:6006\n"
                    "A tunnel shows what listens on the head node: start `bevatron board --logdir RUN` there.\n"};
    struct ssh_options options;
    return command_run(&(struct command_call){.flags = &command, .options = &options, .run = ssh}, argc, argv);
}
