// Checkpoints in S3, given to --load or --pretrained-checkpoint.
#ifndef CLI_REMOTE_LOAD_H
#define CLI_REMOTE_LOAD_H

#include "cli/session.h"

// Downloads the addresses in --load and --pretrained-checkpoint, and replaces them by folders. If --load is the address
// of --save-to, the folder is --save: the run resumes from the newer one of both. Every rank calls it: rank 0 chooses
// the iteration, and the ranks of a machine share one download. The session protects the downloads from removal; NULL
// is for a process that only reads, whatever other ranks do. If there is no checkpoint, --load is dropped with a
// warning, or it is an error (`must_exist`).
int remote_load(struct config *config, struct session *session, bool must_exist);

#endif
