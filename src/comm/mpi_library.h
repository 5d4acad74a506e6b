// The MPI library, which mpi.c loads when a launcher has started this rank. A library whose ABI differs from the
// header's is refused.
#ifndef COMM_MPI_LIBRARY_H
#define COMM_MPI_LIBRARY_H

#include "base/library.h"

#include <errno.h>
#include <mpi.h>
#include <stdint.h>

#define MPI_FUNCTIONS(ROW)                                                                                             \
    ROW(MPI_Get_library_version)                                                                                       \
    ROW(MPI_Abort)                                                                                                     \
    ROW(MPI_Comm_free)                                                                                                 \
    ROW(MPI_Comm_rank)                                                                                                 \
    ROW(MPI_Comm_set_errhandler)                                                                                       \
    ROW(MPI_Comm_size)                                                                                                 \
    ROW(MPI_Comm_split)                                                                                                \
    ROW(MPI_Comm_split_type)                                                                                           \
    ROW(MPI_Finalize)                                                                                                  \
    ROW(MPI_Finalized)                                                                                                 \
    ROW(MPI_Iallgather)                                                                                                \
    ROW(MPI_Iallgatherv)                                                                                               \
    ROW(MPI_Iallreduce)                                                                                                \
    ROW(MPI_Ialltoallv)                                                                                                \
    ROW(MPI_Ibarrier)                                                                                                  \
    ROW(MPI_Ibcast)                                                                                                    \
    ROW(MPI_Init_thread)                                                                                               \
    ROW(MPI_Initialized)                                                                                               \
    ROW(MPI_Irecv)                                                                                                     \
    ROW(MPI_Ireduce_scatter_block)                                                                                     \
    ROW(MPI_Isend)                                                                                                     \
    ROW(MPI_Op_create)                                                                                                 \
    ROW(MPI_Op_free)                                                                                                   \
    ROW(MPI_Query_thread)                                                                                              \
    ROW(MPI_Test)                                                                                                      \
    ROW(MPI_Testall)

// Handles such as MPI_COMM_WORLD are numbers in MPICH. In Open MPI they are addresses of the library's variables, which
// its header takes in one macro.
#ifdef OPEN_MPI
#define MPI_VARIABLES(ROW)                                                                                             \
    ROW(ompi_mpi_comm_world)                                                                                           \
    ROW(ompi_mpi_errors_return)                                                                                        \
    ROW(ompi_mpi_float)                                                                                                \
    ROW(ompi_mpi_info_null)                                                                                            \
    ROW(ompi_mpi_int32_t)                                                                                              \
    ROW(ompi_mpi_int64_t)                                                                                              \
    ROW(ompi_mpi_op_max)                                                                                               \
    ROW(ompi_mpi_op_sum)                                                                                               \
    ROW(ompi_mpi_uint16_t)                                                                                             \
    ROW(ompi_mpi_uint8_t)
#undef OMPI_PREDEFINED_GLOBAL
#define OMPI_PREDEFINED_GLOBAL(type, variable) ((type)(void *)mpi()->variable)
#else
#define MPI_VARIABLES(ROW)
#endif

#define MPI_SYMBOLS(ROW) MPI_FUNCTIONS(ROW) MPI_VARIABLES(ROW)

struct mpi_symbols {
    MPI_SYMBOLS(LIBRARY_FIELD)
};

static inline const struct mpi_symbols *mpi(void) {
    return library_symbols(LIBRARY_MPI);
}

// Open MPI yields in every test that finds nothing, if it was started with more ranks than processors. This function
// turns that on or off and returns the previous setting; NULL if the library has none.
typedef bool mpi_yield_setter(bool yields);
mpi_yield_setter *mpi_find_yield_setter(void);

// Ends the process: `call` is the text of a call that returned `status`.
_Noreturn void mpi_end_failed(const char *call, int status);

// A call of a function of the library.
#define CHECK_MPI(call)                                                                                                \
    do {                                                                                                               \
        errno = 0;                                                                                                     \
        int status_ = mpi()->call;                                                                                     \
        if (status_ != MPI_SUCCESS)                                                                                    \
            mpi_end_failed(#call, status_);                                                                            \
    } while (0)

// Sums over MPI, in parts. MPI libraries take as much memory for a sum as it has elements, and the result of a
// reduce-scatter must not lie in its source. So a sum is cut into parts of PART_BYTES on each rank, and a group has at
// most PARTS_AT_ONCE of them in flight. This bounds memory, and one part is added up while the next one travels.
//
// All ranks of a group must start parts in the same order. So its sums have a communicator of their own, and a sum
// begins only after all parts of the previous one have begun. Parts start when any request of mpi.c is tested, of any
// group: ranks that wait for something else advance their sums. The caller holds the pump's lock.

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
