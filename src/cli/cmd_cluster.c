// bevatron cluster: AWS ParallelCluster, from a short description to a running cluster and back.
#include "cli/cluster_commands.h"
#include "cli/commands.h"

static const struct command_part parts[] = {
    {"prepare", "finds subnets, a key pair, a bucket and quotas in your account, and adds them to the file",
     cluster_prepare},
    {"convert", "converts an INI file of ParallelCluster 2", cluster_convert},
    {"render", "prints the configuration and its cost; creates nothing", cluster_render},
    {"create", "shows the cost, asks, and creates the cluster", cluster_create},
    {"update", "changes a running cluster to what its file says now", cluster_update},
    {"list", "lists the clusters of a region", cluster_list},
    {"status", "shows the state of the cluster, its machines and their current cost", cluster_status},
    {"ssh", "opens a shell on the head node, or a tunnel to one of its ports", cluster_ssh},
    {"logs", "shows why a cluster or its machines did not start, and what to do", cluster_logs},
    {"start", "allows the queues to start machines again", cluster_start},
    {"stop", "terminates all machines of the queues; the head node and the disks stay", cluster_stop},
    {"delete", "deletes the cluster", cluster_delete},
    {"build-image", "builds a machine image that contains bevatron", cluster_build_image},
    {"push-image", "pushes a container image to Amazon's registry (ECR) or another one", cluster_push_image},
    {"volume", "makes FSx for Lustre a volume claim of Kubernetes", cluster_volume},
    {"export", "exports changed files of FSx for Lustre to its S3 bucket", cluster_export},
};

int cmd_cluster(int argc, char **argv) {
    static const struct command_group group = {
        .name = "cluster",
        .summary = "Manages AWS ParallelCluster.",
        .usage = "COMMAND [--config FILE] [flags]",
        .ending = "These commands run pcluster (and aws for export) with your credentials. Each has --help.",
        .parts = parts,
        .count = sizeof parts / sizeof parts[0]};
    return command_group_run(&group, argc, argv);
}
