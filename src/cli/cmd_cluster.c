// bevatron cluster: AWS ParallelCluster, from a description of a few lines to a running cluster and back.
#include "cli/cluster_commands.h"
#include "cli/commands.h"

static const struct command_part parts[] = {
    {"render", "prints the configuration and what it costs; touches nothing", cluster_render},
    {"create", "shows the cost, asks, and creates the cluster", cluster_create},
    {"status", "state of the cluster, its fleet and its machines, and what they cost now", cluster_status},
    {"start", "lets the queues start machines again", cluster_start},
    {"stop", "ends all machines of the queues; the head node and the disks stay", cluster_stop},
    {"delete", "removes the cluster", cluster_delete},
    {"build-image", "makes a machine image with bevatron in it", cluster_build_image},
    {"export", "writes what changed on FSx for Lustre to its S3 bucket", cluster_export},
};

int cmd_cluster(int argc, char **argv) {
    static const struct command_group group = {
        .name = "cluster",
        .usage = "COMMAND [--config FILE] [flags]",
        .ending = "Through the real pcluster (and, for export, aws) programs and their credentials. Each has --help.",
        .parts = parts,
        .count = sizeof parts / sizeof parts[0]};
    return command_group_run(&group, argc, argv);
}
