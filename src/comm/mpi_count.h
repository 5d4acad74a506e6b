// The most elements of one message over MPI, whose counts are int.
#ifndef COMM_MPI_COUNT_H
#define COMM_MPI_COUNT_H

#include "base/error.h"
#include "comm/backend.h"

#include <inttypes.h>
#include <limits.h>

// Ends the run if `count` elements are too many for one message.
static inline void mpi_check_count(const struct group *group, int64_t count, const char *what) {
    if (count > INT_MAX)
        die_code(EXIT_CODE_USAGE,
                 "%s in group \"%s\": %" PRId64 " elements of a rank, and MPI counts up to %d; give a smaller "
                 "--micro-batch-size, a larger --context-parallel-size for keys and values, or a smaller "
                 "--ddp-bucket-size for parameters; NCCL has no such limit",
                 what, group->name, count, INT_MAX);
}

#endif
