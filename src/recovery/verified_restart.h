// After replicas were found to differ: the run is to be resumed from a checkpoint whose replicas were verified. Those
// of other checkpoints may contain the fault.
#ifndef RECOVERY_VERIFIED_RESTART_H
#define RECOVERY_VERIFIED_RESTART_H

#include "config/config.h"
#include "parallel/mesh.h"

// If the error that is set says that replicas differ (EXIT_CODE_CORRUPT), makes the newest verified checkpoint of
// --save and --save-fallback the latest one, which a restart loads. All ranks call, since all of them know. The error
// stays set.
void retreat_after(const struct config *config, const struct mesh *mesh);

#endif
