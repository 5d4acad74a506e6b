// FSx for Lustre as a volume claim of Kubernetes, through its CSI driver (fsx.csi.aws.com): an existing file system, or
// one that the driver creates.
#ifndef CLUSTER_KUBERNETES_VOLUME_H
#define CLUSTER_KUBERNETES_VOLUME_H

#include "base/buffer.h"
#include "config/flag.h"

struct kubernetes_volume {
    const char *claim, *name_space;  // name_space may be NULL
    int64_t gib;
    // An existing file system: its id, address and name of its mount (`aws fsx describe-file-systems`).
    const char *fsx_id, *dns_name, *mount_name;
    // A new one, if fsx_id is NULL.
    const char *subnet, *type, *s3;  // s3 may be NULL
    const struct string_list *security_groups;
    int64_t throughput;  // MB/s per TiB of PERSISTENT types; 0: none
};

// -1, naming the flag, if a field is not valid.
int kubernetes_volume_manifest(const struct kubernetes_volume *volume, struct buffer *out);

#endif
