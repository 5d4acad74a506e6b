// Checks made by parallelcluster.c before it writes. See parallelcluster.h.
#ifndef CLUSTER_PARALLELCLUSTER_CHECK_H
#define CLUSTER_PARALLELCLUSTER_CHECK_H

#include "cluster/parallelcluster.h"

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

#endif
