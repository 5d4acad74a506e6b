// The commands below `bevatron cluster`: AWS ParallelCluster from a short description.
#ifndef CLI_CLUSTER_COMMANDS_H
#define CLI_CLUSTER_COMMANDS_H

#include "base/json.h"
#include "cluster/parallelcluster.h"
#include "config/flag.h"

struct cluster_options {
    struct flag_given given;
    char *name, *region, *os, *custom_ami, *key, *allowed_ips, *head_node, *head_subnet, *subnet, *security_group;
    char *scratch, *fsx, *fsx_id, *fsx_type, *fsx_s3, *apps, *output;
    char *accounting, *accounting_user, *accounting_secret, *accounting_database;
    int64_t idle_minutes, fsx_size, fsx_throughput;
    struct cluster_disk head_disk, compute_disk, apps_disk;
    struct string_list queues, buckets, policies, scripts, slurm_settings, tags;
    bool no_ssm, pyxis, dcv, yes, wait, json, dry_run;
};

// The flags of a cluster, and their uses.
enum cluster_use {
    CLUSTER_NAME = 1 << 0,
    CLUSTER_REGION = 1 << 1,
    CLUSTER_JSON = 1 << 2,
    CLUSTER_YES = 1 << 3,
    CLUSTER_ACTION = 1 << 4,  // an action of one command; does not belong in a file that describes a cluster
};
struct flag_table cluster_flag_table(size_t base);

// Asks on the terminal unless --yes was given. Returns -1 if the answer is no, or if stdin is not a terminal.
int cluster_confirm(const char *question, bool is_answered);
// pcluster VERB --cluster-name NAME --region REGION and up to four more words (ended by NULL).
int cluster_call(const struct cluster_options *options, const char *verb, const char *const *more,
                 struct json **answer);
// Calls a verb page after page and passes each item of the array `member` of its answers to `take`.
struct cluster_taker {
    const char *member;
    void (*take)(void *context, const struct json *item);
    void *context;
};
int cluster_pages(const struct cluster_options *options, const char *verb, const struct cluster_taker *taker);
// Writes a configuration to a file of its own; an existing file is replaced only if it is one, too.
int cluster_write_file(const char *path, const struct buffer *yaml);
// Warns that a subnet is the made-up one of an example, which no account has.
void cluster_note_made_up(const struct cluster_options *cluster, struct buffer *notes);
// Removes the made-up values of an example from its text and from the options that were read from it.
void cluster_drop_made_up(struct cluster_options *cluster, struct buffer *text);
// Whether the made-up bucket of an example remains, which only the user can replace: machines install from it.
bool cluster_has_made_up_bucket(const struct cluster_options *cluster);
// A string member of an object; "" if there is none.
const char *cluster_text(const struct json *object, const char *key);
// Waits until the cluster has left all transitional states, printing its status on every change. Returns -1, with the
// reasons, if it ended in a failure.
int cluster_await(const struct cluster_options *options);

#endif
