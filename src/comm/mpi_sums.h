// Sums over MPI, in parts. MPI libraries take as much memory for a sum as it has elements, and the result of a
// reduce-scatter must not lie in its source. So a sum is cut into parts of PART_BYTES on each rank, and a group has at
// most PARTS_AT_ONCE of them in flight. This bounds memory, and one part is added up while the next one travels.
//
// All ranks of a group must start parts in the same order. So its sums have a communicator of their own, and a sum
// begins only after all parts of the previous one have begun. Parts start when any request of mpi.c is tested, of any
// group: ranks that wait for something else advance their sums. The caller holds the pump's lock.
#ifndef COMM_MPI_SUMS_H
#define COMM_MPI_SUMS_H

#include "comm/mpi_library.h"

#include <stdint.h>

enum { PART_BYTES = 1 << 19, PARTS_AT_ONCE = 4 };

struct mpi_sum_group {
    MPI_Comm comm;
    int size;
    int parts;  // under way
};

// Elements of a sum; in a reduce-scatter, of every rank's slice.
struct mpi_part {
    bool is_used;
    int64_t first, length;
    char *packed;  // of a reduce-scatter: a copy of its elements of all slices, and then the result
};

struct mpi_sum {
    struct mpi_sum_group *group;
    MPI_Datatype type;
    MPI_Op operation;
    size_t element_bytes;
    const char *from;        // of a reduce-scatter: the slices of all ranks; NULL for an all-reduce
    char *to;                // all elements, or this rank's slice, which may lie in the source
    int64_t count, started;  // elements there, and those whose parts have been started
    struct mpi_part parts[PARTS_AT_ONCE];
    MPI_Request pieces[PARTS_AT_ONCE];  // one for each part
    struct mpi_sum *next;               // in the list of sums that are not complete
};

// Appends a sum to the list; the caller sets the fields above `started`. It stays in place until it is complete.
void mpi_sum_start(struct mpi_sum **list, struct mpi_sum *sum);
// Advances all sums of the list and removes completed ones.
void mpi_sum_advance(struct mpi_sum **list);
bool mpi_sum_is_complete(const struct mpi_sum *sum);

#endif
