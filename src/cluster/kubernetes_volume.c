// Manifests of a claim on FSx for Lustre.
#include "cluster/kubernetes.h"
#include "base/error.h"
#include "base/memory.h"
#include "cluster/parallelcluster.h"
#include "cluster/yaml.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int check_name(const char *flag, const char *name) {
    size_t length = strlen(name), good = strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-");
    if (length > 0 && length == good && length < 64 && name[0] != '-' && name[length - 1] != '-')
        return 0;
    return error_set_code(EXIT_CODE_USAGE, "%s \"%s\": use up to 63 lowercase letters, digits and dashes", flag, name);
}

static int check_id(const char *flag, const char *text, const char *prefix) {
    if (aws_is_id(text, prefix))
        return 0;
    return error_set_code(EXIT_CODE_USAGE, "%s \"%s\": such an id is %s followed by 8 or 17 hexadecimal digits", flag,
                          text, prefix);
}

static int check_new(const struct kubernetes_volume *volume) {
    if (!volume->subnet || volume->security_groups->count == 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "give --fsx-id, an existing file system, or --subnet and --security-group for a new one "
                              "(those of the cluster's nodes: `aws eks describe-cluster` names them)");
    TRY(check_id("--subnet", volume->subnet, "subnet-"));
    for (int64_t i = 0; i < volume->security_groups->count; i++)
        TRY(check_id("--security-group", volume->security_groups->items[i], "sg-"));
    if (volume->s3)
        TRY(parallelcluster_check_s3("--fsx-s3", volume->s3));
    if (volume->s3 && strcmp(volume->type, "PERSISTENT_2") == 0)
        return error_set_code(EXIT_CODE_USAGE,
                              "the driver links no PERSISTENT_2 file system to S3: use another --fsx-type, or make the "
                              "file system and its association yourself and give --fsx-id");
    return parallelcluster_check_lustre(volume->type, volume->gib, volume->throughput);
}

static int check(const struct kubernetes_volume *volume) {
    TRY(check_name("--claim", volume->claim));
    if (volume->name_space)
        TRY(check_name("--namespace", volume->name_space));
    if (!volume->fsx_id)
        return check_new(volume);
    TRY(check_id("--fsx-id", volume->fsx_id, "fs-"));
    if (!volume->dns_name || !volume->mount_name)
        return error_set_code(EXIT_CODE_USAGE, "an existing file system needs --dns-name and --mount-name (`aws fsx "
                                               "describe-file-systems`)");
    return 0;
}

static void begin(struct yaml *y, const char *version, const char *kind, const char *name, const char *name_space) {
    yaml_text(y, "apiVersion", version);
    yaml_text(y, "kind", kind);
    yaml_map(y, "metadata");
    yaml_text(y, "name", name);
    yaml_text(y, "namespace", name_space);
    yaml_map_of(y, "labels", "app.kubernetes.io/managed-by", "bevatron");
    yaml_end(y);
}

static void access_modes(struct yaml *y) {
    yaml_list(y, "accessModes");
    yaml_item_text(y, "ReadWriteMany");
    yaml_end(y);
}

// Runs on several machines need locks on the folder of their checkpoints.
static void mount_options(struct yaml *y) {
    yaml_list(y, "mountOptions");
    yaml_item_text(y, "flock");
    yaml_end(y);
}

static void size(struct yaml *y, const char *key, int64_t gib) {
    char text[32];
    snprintf(text, sizeof text, "%" PRId64 "Gi", gib);
    yaml_map_of(y, key, "storage", text);
}

// The file system outlives the claim.
static void persistent_volume(struct yaml *y, const struct kubernetes_volume *volume) {
    begin(y, "v1", "PersistentVolume", volume->claim, NULL);
    yaml_map(y, "spec");
    size(y, "capacity", volume->gib);
    access_modes(y);
    mount_options(y);
    yaml_text(y, "persistentVolumeReclaimPolicy", "Retain");
    yaml_text(y, "storageClassName", "");
    yaml_map(y, "csi");
    yaml_text(y, "driver", "fsx.csi.aws.com");
    yaml_text(y, "volumeHandle", volume->fsx_id);
    yaml_map(y, "volumeAttributes");
    yaml_text(y, "dnsname", volume->dns_name);
    yaml_text(y, "mountname", volume->mount_name);
    yaml_ends(y, 3);
}

static void storage_class(struct yaml *y, const struct kubernetes_volume *volume) {
    OWNED_BY(buffer_free) struct buffer groups = {0};
    char throughput[24];
    for (int64_t i = 0; i < volume->security_groups->count; i++)
        buffer_printf(&groups, "%s%s", i ? "," : "", volume->security_groups->items[i]);
    snprintf(throughput, sizeof throughput, "%" PRId64, volume->throughput);
    begin(y, "storage.k8s.io/v1", "StorageClass", volume->claim, NULL);
    yaml_text(y, "provisioner", "fsx.csi.aws.com");
    yaml_map(y, "parameters");
    yaml_text(y, "subnetId", volume->subnet);
    yaml_text(y, "securityGroupIds", buffer_string(&groups));
    yaml_text(y, "deploymentType", volume->type);
    yaml_text(y, "perUnitStorageThroughput", volume->throughput > 0 ? throughput : NULL);
    yaml_text(y, "s3ImportPath", volume->s3);
    yaml_text(y, "s3ExportPath", volume->s3);
    yaml_end(y);
    mount_options(y);
}

int kubernetes_volume_manifest(const struct kubernetes_volume *volume, struct buffer *out) {
    TRY(check(volume));
    struct yaml yaml = {.out = out}, *y = &yaml;
    buffer_append_string(
        out, "# Written by bevatron cluster volume. It may be edited, and applied with kubectl apply -f.\n");
    if (volume->fsx_id)
        persistent_volume(y, volume);
    else
        storage_class(y, volume);
    yaml_document(y);
    begin(y, "v1", "PersistentVolumeClaim", volume->claim, volume->name_space);
    yaml_map(y, "spec");
    access_modes(y);
    yaml_text(y, "storageClassName", volume->fsx_id ? "" : volume->claim);
    if (volume->fsx_id)
        yaml_text(y, "volumeName", volume->claim);
    yaml_map(y, "resources");
    size(y, "requests", volume->gib);
    yaml_ends(y, 2);
    return 0;
}
