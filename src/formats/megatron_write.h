// Parts of a distributed Megatron checkpoint, shared by the two files that write it. Internal to this folder.
#ifndef FORMATS_MEGATRON_WRITE_H
#define FORMATS_MEGATRON_WRITE_H

#include "base/buffer.h"
#include "formats/model_source.h"

// common.pt: arguments, counters, schedules and parameter groups of the run.
int megatron_write_common(const struct model_write *write, const char *folder);

#endif
