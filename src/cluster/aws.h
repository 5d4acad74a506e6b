// The command-line programs of AWS, pcluster and aws: runs them without a shell, reads their JSON, and turns their
// errors into one message with a remedy.
#ifndef CLUSTER_AWS_H
#define CLUSTER_AWS_H

#include "base/buffer.h"
#include "base/json.h"
#include "config/flag.h"

#include <stdbool.h>
#include <stdint.h>

// Runs the words (the program first, NULL at the end) and reads the JSON on its stdout into *answer, to be freed with
// json_free; NULL if it printed nothing.
int aws_run(const char *const *words, struct json **answer);
// Like aws_run, with text for its stdin (NULL for none).
int aws_send(const char *const *words, const char *input, struct json **answer);
// The remedy for an error message of an AWS program, NULL if none is known.
const char *aws_remedy(const char *complaint);

// Explains the logs of a cluster's start: CloudFormation's, those of a machine's set-up, and of the daemons that start
// and stop machines for Slurm.
// The remedy for a line of a log; NULL if the line is not known.
const char *boot_hint(const char *line);
// Whether a line reports a failure, known or not.
bool boot_is_failure(const char *line);
// The logs to search, the most informative first; NULL at the end. `file` is the path on the machine.
struct boot_log {
    const char *name, *file, *tells;
    bool is_head;  // only on the head node
};
const struct boot_log *boot_logs(void);

// ---- an account ----

// Resources of an AWS account for a cluster, from the output of the aws command line: subnets and their routes to the
// internet, the zones that offer a machine, and the quotas that count its processors.

struct account_subnet {
    const char *id, *vpc, *zone;  // strings of the answer
    bool is_public;               // its route leads to an internet gateway
    bool has_way_out;             // …or to a NAT gateway or similar
    int64_t addresses;            // free ones
};

struct account_subnets {
    struct account_subnet *items;
    size_t count;
};
// From `aws ec2 describe-subnets` and `describe-route-tables`, which must outlive the result; free it with free(items).
int account_read_subnets(const struct json *subnets, const struct json *tables, struct account_subnets *out);

struct account_wish {
    const struct string_list *zones;  // that offer all machines; empty: any
    const char *head, *compute;       // subnets already chosen; NULL: to be found
    bool needs_private;               // machines with several network cards get no public address
};
// The subnets of the head node (public if there is one) and of the queues (private with a way out, in one of the wanted
// zones, with the most free addresses). -1, naming the missing part, if there is none; `notes` gets a line for a choice
// that works, but badly.
int account_choose(const struct account_subnets *subnets, const struct account_wish *wish,
                   const struct account_subnet *chosen[2], struct buffer *notes);

// The zones of `aws ec2 describe-instance-type-offerings` that offer all these types.
void account_zones(const struct json *offerings, const struct string_list *types, struct string_list *zones);

// The quota of EC2 that counts the processors of an instance type; NULL if unknown.
struct account_quota {
    const char *prefix, *code, *spot_code, *name;
};
const struct account_quota *account_quota_of(const char *type);

#endif
