// The YAML of a cluster and of an image. See parallelcluster.h.
#include "cluster/parallelcluster.h"
#include "base/error.h"
#include "base/memory.h"
#include "cluster/yaml.h"

#include <stdlib.h>
#include <string.h>

// Policies of AWS live in the partition of the region.
static void managed_policy(struct yaml *y, const char *region, const char *name) {
    const char *partition = strncmp(region, "cn-", 3) == 0       ? "aws-cn"
                            : strncmp(region, "us-gov-", 7) == 0 ? "aws-us-gov"
                                                                 : "aws";
    OWNED char *arn = memory_printf("arn:%s:iam::aws:policy/%s", partition, name);
    yaml_item_of(y, "Policy", arn);
}

// The bucket of "s3://bucket/folder", to be freed.
static char *bucket_of(const char *url) {
    return memory_printf("%.*s", (int)strcspn(url + 5, "/"), url + 5);
}

static void bucket(struct yaml *y, const char *name) {
    yaml_item(y);
    yaml_text(y, "BucketName", name);
    yaml_bool(y, "EnableWriteAccess", true);
    yaml_end(y);
}

static void rights(struct yaml *y, const struct parallelcluster *cluster) {
    OWNED char *linked = cluster->fsx_s3 ? bucket_of(cluster->fsx_s3) : NULL;
    yaml_map(y, "Iam");
    yaml_list(y, "AdditionalIamPolicies");
    if (cluster->has_ssm)
        managed_policy(y, cluster->region, "AmazonSSMManagedInstanceCore");
    for (int64_t i = 0; i < cluster->policies->count; i++)
        yaml_item_of(y, "Policy", cluster->policies->items[i]);
    yaml_end(y);
    yaml_list(y, "S3Access");
    if (linked)
        bucket(y, linked);
    for (int64_t i = 0; i < cluster->buckets->count; i++)
        if (!linked || strcmp(linked, cluster->buckets->items[i]) != 0)
            bucket(y, cluster->buckets->items[i]);
    yaml_ends(y, 2);
}

// "URL argument…": the words after the first are the script's arguments.
static void script(struct yaml *y, const char *text) {
    size_t length = strcspn(text, " ");
    OWNED char *url = memory_printf("%.*s", (int)length, text);
    yaml_item(y);
    yaml_text(y, "Script", url);
    text += length + strspn(text + length, " ");
    yaml_list(y, "Args");
    while (*text) {
        length = strcspn(text, " ");
        OWNED char *argument = memory_printf("%.*s", (int)length, text);
        yaml_item_text(y, argument);
        text += length + strspn(text + length, " ");
    }
    yaml_ends(y, 2);
}

char *parallelcluster_pyxis_url(const struct parallelcluster *cluster) {
    if (cluster->buckets->count == 0 && !cluster->fsx_s3)
        return NULL;
    OWNED char *name =
        cluster->buckets->count > 0 ? memory_string(cluster->buckets->items[0]) : bucket_of(cluster->fsx_s3);
    return memory_printf("s3://%s/bevatron/pyxis.sh", name);
}

static void actions(struct yaml *y, const struct parallelcluster *cluster) {
    yaml_map(y, "CustomActions");
    yaml_map(y, "OnNodeConfigured");
    yaml_list(y, "Sequence");
    if (cluster->has_pyxis) {
        OWNED char *url = parallelcluster_pyxis_url(cluster);
        script(y, url);
    }
    for (int64_t i = 0; i < cluster->scripts->count; i++)
        script(y, cluster->scripts->items[i]);
    yaml_ends(y, 3);
}

static void security_group(struct yaml *y, const struct parallelcluster *cluster) {
    yaml_list(y, "AdditionalSecurityGroups");
    if (cluster->security_group)
        yaml_item_text(y, cluster->security_group);
    yaml_end(y);
}

// Size and speed of a volume, where given.
static void volume(struct yaml *y, const struct cluster_disk *disk) {
    yaml_amount(y, "Size", disk->gib);
    yaml_text(y, "VolumeType", disk->iops > 0 || disk->mib_per_second > 0 ? "gp3" : NULL);
    yaml_amount(y, "Iops", disk->iops);
    yaml_amount(y, "Throughput", disk->mib_per_second);
}

static void head_node(struct yaml *y, const struct parallelcluster *cluster) {
    yaml_map(y, "HeadNode");
    yaml_text(y, "InstanceType", cluster->head_type);
    yaml_map(y, "Networking");
    yaml_text(y, "SubnetId", cluster->head_subnet ? cluster->head_subnet : cluster->subnet);
    security_group(y, cluster);
    yaml_end(y);
    yaml_map(y, "Ssh");
    yaml_text(y, "KeyName", cluster->key);
    yaml_text(y, "AllowedIps", cluster->allowed_ips);
    yaml_end(y);
    if (cluster->has_dcv) {
        yaml_map(y, "Dcv");
        yaml_bool(y, "Enabled", true);
        yaml_text(y, "AllowedIps", cluster->allowed_ips);
        yaml_end(y);
    }
    yaml_map(y, "LocalStorage");
    yaml_map(y, "RootVolume");
    volume(y, &cluster->head_disk);
    yaml_ends(y, 2);
    rights(y, cluster);
    actions(y, cluster);
    yaml_end(y);
}

static void networking(struct yaml *y, const struct parallelcluster *cluster, const struct cluster_queue *queue) {
    yaml_map(y, "Networking");
    yaml_list(y, "SubnetIds");
    yaml_item_text(y, queue->subnet ? queue->subnet : cluster->subnet);
    yaml_end(y);
    // With EFA it must be given explicitly.
    if (queue->has_placement_group || queue->has_efa) {
        yaml_map(y, "PlacementGroup");
        yaml_bool(y, "Enabled", queue->has_placement_group);
        yaml_text(y, "Name", queue->placement_group);
        yaml_end(y);
    }
    security_group(y, cluster);
    yaml_end(y);
}

static void disks(struct yaml *y, const struct parallelcluster *cluster) {
    yaml_map(y, "ComputeSettings");
    yaml_map(y, "LocalStorage");
    yaml_map(y, "RootVolume");
    volume(y, &cluster->compute_disk);
    yaml_end(y);
    yaml_map_of(y, "EphemeralVolume", "MountDir", cluster->scratch);
    yaml_ends(y, 2);
}

static void compute_resource(struct yaml *y, const struct cluster_queue *queue) {
    // Node names contain it: "p4d" of p4d.24xlarge, the family, which has no dot.
    OWNED char *name = memory_printf("%.*s", (int)strcspn(queue->types[0], "."), queue->types[0]);
    yaml_list(y, "ComputeResources");
    yaml_item(y);
    yaml_text(y, "Name", name);
    yaml_list(y, "Instances");
    for (int i = 0; i < queue->type_count; i++)
        yaml_item_of(y, "InstanceType", queue->types[i]);
    yaml_end(y);
    yaml_number(y, "MinCount", queue->least);
    yaml_number(y, "MaxCount", queue->most);
    yaml_true(y, "DisableSimultaneousMultithreading", queue->no_smt);
    yaml_map(y, "Efa");
    yaml_true(y, "Enabled", queue->has_efa);
    yaml_end(y);
    yaml_map_of(y, "CapacityReservationTarget", "CapacityReservationId", queue->reservation);
    yaml_map(y, "HealthChecks");
    yaml_map(y, "Gpu");
    yaml_true(y, "Enabled", queue->checks_gpus);
    yaml_ends(y, 4);
}

static void slurm_queue(struct yaml *y, const struct parallelcluster *cluster, const struct cluster_queue *queue) {
    yaml_item(y);
    yaml_text(y, "Name", queue->name);
    yaml_text(y, "CapacityType", queue->is_capacity_block ? "CAPACITY_BLOCK" : queue->is_spot ? "SPOT" : "ONDEMAND");
    networking(y, cluster, queue);
    disks(y, cluster);
    yaml_map_of(y, "Image", "CustomAmi", queue->ami);
    yaml_true(y, "JobExclusiveAllocation", queue->is_exclusive);
    compute_resource(y, queue);
    rights(y, cluster);
    actions(y, cluster);
    yaml_end(y);
}

static void database(struct yaml *y, const struct cluster_accounting *accounting) {
    yaml_map(y, "Database");
    yaml_text(y, "Uri", accounting->address);
    yaml_text(y, "UserName", accounting->user);
    yaml_text(y, "PasswordSecretArn", accounting->secret);
    yaml_text(y, "DatabaseName", accounting->database);
    yaml_end(y);
}

static void scheduling(struct yaml *y, const struct parallelcluster *cluster) {
    yaml_map(y, "Scheduling");
    yaml_text(y, "Scheduler", "slurm");
    yaml_map(y, "SlurmSettings");
    yaml_number(y, "ScaledownIdletime", cluster->idle_minutes);
    // Changing a queue does not take its machines from running jobs.
    yaml_text(y, "QueueUpdateStrategy", "DRAIN");
    database(y, &cluster->accounting);
    yaml_list(y, "CustomSlurmSettings");
    for (int64_t i = 0; i < cluster->slurm_settings->count; i++) {
        const char *pair = cluster->slurm_settings->items[i];
        OWNED char *key = memory_printf("%.*s", (int)strcspn(pair, "="), pair);
        yaml_item(y);
        yaml_pair(y, key, strchr(pair, '=') + 1);
        yaml_end(y);
    }
    yaml_ends(y, 2);
    yaml_list(y, "SlurmQueues");
    for (int i = 0; i < cluster->queue_count; i++)
        slurm_queue(y, cluster, &cluster->queues[i]);
    yaml_ends(y, 2);
}

// A new file system, and its synchronisation with S3. The newest type takes associations, the older ones two paths.
static void new_lustre(struct yaml *y, const struct parallelcluster *cluster) {
    yaml_number(y, "StorageCapacity", cluster->fsx_gib);
    yaml_text(y, "DeploymentType", cluster->fsx_type);
    yaml_amount(y, "PerUnitStorageThroughput", cluster->fsx_throughput);
    if (!cluster->fsx_s3)
        return;
    if (strcmp(cluster->fsx_type, "PERSISTENT_2") != 0) {
        yaml_text(y, "ImportPath", cluster->fsx_s3);
        yaml_text(y, "ExportPath", cluster->fsx_s3);
        return;
    }
    static const char *const policies[] = {"AutoImportPolicy", "AutoExportPolicy"};
    static const char *const changes[] = {"NEW", "CHANGED", "DELETED"};
    yaml_list(y, "DataRepositoryAssociations");
    yaml_item(y);
    yaml_text(y, "Name", "s3");
    yaml_text(y, "DataRepositoryPath", cluster->fsx_s3);
    yaml_text(y, "FileSystemPath", "/");
    yaml_bool(y, "BatchImportMetaDataOnCreate", true);
    for (int i = 0; i < 2; i++) {
        yaml_list(y, policies[i]);
        for (int k = 0; k < 3; k++)
            yaml_item_text(y, changes[k]);
        yaml_end(y);
    }
    yaml_ends(y, 2);
}

static void storage(struct yaml *y, const struct parallelcluster *cluster) {
    yaml_list(y, "SharedStorage");
    if (cluster->fsx_mount) {
        yaml_item(y);
        yaml_text(y, "Name", "fsx");
        yaml_text(y, "MountDir", cluster->fsx_mount);
        yaml_text(y, "StorageType", "FsxLustre");
        yaml_map(y, "FsxLustreSettings");
        yaml_text(y, "FileSystemId", cluster->fsx_id);
        if (!cluster->fsx_id)
            new_lustre(y, cluster);
        yaml_ends(y, 2);
    }
    if (cluster->apps_mount) {
        yaml_item(y);
        yaml_text(y, "Name", "apps");
        yaml_text(y, "MountDir", cluster->apps_mount);
        yaml_text(y, "StorageType", "Ebs");
        yaml_map(y, "EbsSettings");
        if (cluster->apps_disk.iops == 0 && cluster->apps_disk.mib_per_second == 0)
            yaml_text(y, "VolumeType", "gp3");
        volume(y, &cluster->apps_disk);
        yaml_ends(y, 2);
    }
    yaml_end(y);
}

static void tags(struct yaml *y, const struct string_list *list) {
    yaml_list(y, "Tags");
    for (int64_t i = 0; i < list->count; i++) {
        OWNED char *key = memory_printf("%.*s", (int)strcspn(list->items[i], "="), list->items[i]);
        yaml_item(y);
        yaml_text(y, "Key", key);
        yaml_text(y, "Value", strchr(list->items[i], '=') + 1);
        yaml_end(y);
    }
    yaml_end(y);
}

int parallelcluster_yaml(const struct parallelcluster *cluster, struct buffer *out, struct buffer *notes) {
    TRY(parallelcluster_check(cluster));
    parallelcluster_notes(cluster, notes);
    struct yaml yaml = {.out = out}, *y = &yaml;
    buffer_append_string(
        out, "# Written by bevatron cluster. It may be edited, and used with pcluster create-cluster directly.\n");
    yaml_text(y, "Region", cluster->region);
    yaml_map(y, "Image");
    yaml_text(y, "Os", parallelcluster_system(cluster->os));
    yaml_text(y, "CustomAmi", cluster->custom_ami);
    yaml_end(y);
    // Programs on the machines need a token to get credentials.
    yaml_map_of(y, "Imds", "ImdsSupport", "v2.0");
    head_node(y, cluster);
    scheduling(y, cluster);
    storage(y, cluster);
    tags(y, cluster->tags);
    return 0;
}
