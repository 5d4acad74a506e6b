// Clusters and machine images for AWS ParallelCluster 3: typed fields in, the YAML of `pcluster create-cluster` and
// `pcluster build-image` out. Configurations that ParallelCluster would refuse only after minutes, and slow ones that
// it accepts (GPUs without EFA, EFA over several subnets), are reported at once.
#ifndef CLUSTER_PARALLELCLUSTER_H
#define CLUSTER_PARALLELCLUSTER_H

#include "base/buffer.h"
#include "config/flag.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QUEUE_MOST_TYPES = 8 };

// Machines of one kind that Slurm starts and stops. All strings point into `text`.
struct cluster_queue {
    char *text;
    const char *name;
    const char *types[QUEUE_MOST_TYPES];  // alternatives; usually one
    int type_count;
    int64_t least, most;  // minimum and maximum number of nodes
    bool has_efa, has_placement_group, no_smt, is_exclusive, checks_gpus;
    bool is_spot, is_capacity_block;
    const char *placement_group, *reservation, *subnet, *ami;  // NULL: none
};

// Reads "NAME TYPE[,TYPE…] COUNT|LEAST-MOST WORD…", where a word is efa, placement-group[=NAME], no-smt, exclusive,
// gpu-health-check, spot, capacity-block, reservation=cr-…, subnet=subnet-…, ami=ami-…. Free it in any case.
int cluster_queue_parse(struct cluster_queue *queue, const char *text);
void cluster_queue_free(struct cluster_queue *queue);

// A volume of EBS (gp3). Zeros: AWS's defaults.
struct cluster_disk {
    int64_t gib, iops, mib_per_second;
};

// Slurm's accounting in an existing MySQL database. NULL address: none.
struct cluster_accounting {
    const char *address;   // "host" or "host:port"
    const char *user;      // of the database
    const char *secret;    // ARN of its password in Secrets Manager
    const char *database;  // NULL: ParallelCluster's default
};

struct parallelcluster {
    const char *name, *region, *os;
    const char *custom_ami, *key, *allowed_ips;  // NULL: none
    const char *head_type, *head_subnet, *subnet;
    const char *security_group;  // added to all machines; NULL: none
    struct cluster_disk head_disk, compute_disk;
    const char *scratch;  // mount point of the machines' own NVMe disks; NULL: ParallelCluster's default
    const struct cluster_queue *queues;
    int queue_count;
    int64_t idle_minutes;  // after which an idle node is released
    // FSx for Lustre: an existing one by its id, or a new one, linked to a folder of S3 if `fsx_s3` is given.
    const char *fsx_mount, *fsx_id, *fsx_type, *fsx_s3;
    int64_t fsx_gib, fsx_throughput;
    const char *apps_mount;  // a small shared volume for programs; NULL: none
    struct cluster_disk apps_disk;
    const struct string_list *buckets;   // that all machines may read and write
    const struct string_list *policies;  // of IAM, added to all machines
    const struct string_list *scripts;   // run on every machine at the end of its set-up: "URL argument…"
    const struct string_list *slurm_settings, *tags;  // "KEY=VALUE"
    struct cluster_accounting accounting;
    bool has_ssm, has_pyxis, has_dcv;
};

// -1 if a field is not valid in a cluster. Appends to `notes`, a sentence per line, settings that work, but badly.
int parallelcluster_yaml(const struct parallelcluster *cluster, struct buffer *out, struct buffer *notes);
// The successor of a system that ParallelCluster no longer offers; the name itself if it still does.
const char *parallelcluster_system(const char *os);
// The script that turns Pyxis and Enroot on, which a cluster with has_pyxis runs on every machine, and its place:
// s3://BUCKET/bevatron/pyxis.sh in the cluster's first bucket, to be freed; NULL if the cluster has no bucket.
const char *parallelcluster_pyxis_script(void);
char *parallelcluster_pyxis_url(const struct parallelcluster *cluster);
// The cost per hour with the fewest and the most nodes, as a table for users.
void parallelcluster_cost(const struct parallelcluster *cluster, struct buffer *out);

struct parallelcluster_image {
    const char *id, *region, *parent, *instance_type;
    const char *subnet;                  // NULL: the default one
    const struct string_list *scripts;   // run without arguments on the machine that becomes the image
    const struct string_list *policies;  // of IAM, added to that machine
    int64_t disk_gib;
};
int parallelcluster_image_yaml(const struct parallelcluster_image *image, struct buffer *out);

// Checks made by parallelcluster.c before it writes. See parallelcluster.h.
int parallelcluster_check(const struct parallelcluster *cluster);
int parallelcluster_image_check(const struct parallelcluster_image *image);
void parallelcluster_notes(const struct parallelcluster *cluster, struct buffer *notes);
// An id of AWS: the prefix, then 8 or 17 hexadecimal digits.
bool aws_is_id(const char *text, const char *prefix);
// "p4d.24xlarge": a family and a size. Whether EC2 has such a machine is another question.
bool aws_is_instance_type(const char *text);
// -1, naming --fsx-size or --fsx-throughput, if FSx for Lustre does not have that size or speed in this type.
int parallelcluster_check_lustre(const char *type, int64_t gib, int64_t throughput);
// -1 if the text is not "s3://bucket…"; `flag` names it in the message.
int parallelcluster_check_s3(const char *flag, const char *text);

// ---- ParallelCluster 2 ----

// Converts configurations of ParallelCluster 2, which were INI files, to the short file of `bevatron cluster`.

// One "key = value" of the file. All strings are the document's.
struct ini_entry {
    const char *kind, *name;  // of its section: "queue" and "gpu" of "[queue gpu]"; name is "" if there is none
    const char *key, *value;
    int64_t line;
    bool is_used;
};

struct ini_document {
    char *text;
    struct ini_entry *entries;
    size_t count;
};

// Parses an INI file: sections, "key = value", comments after # and ; (at the start of a line or after a space), and
// indented lines that continue a value. -1, with path and line, if it is not one. Free it in any case.
int ini_parse(struct ini_document *document, const char *text, size_t length, const char *path);
void ini_free(struct ini_document *document);

// Appends the short file to `out`, and to `notes` a sentence per line for each replaced or omitted key. -1 if the
// document does not describe a cluster.
int ini_convert(struct ini_document *document, const char *path, struct buffer *out, struct buffer *notes);

#endif
