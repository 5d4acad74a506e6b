// The MPI library, which mpi.c loads when a launcher has started this rank. A library whose ABI differs from the
// header's is refused.
#ifndef COMM_MPI_LIBRARY_H
#define COMM_MPI_LIBRARY_H

#include "base/library.h"

#include <errno.h>
#include <mpi.h>

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

struct mpi_symbols {
    MPI_FUNCTIONS(LIBRARY_FIELD)
    MPI_VARIABLES(LIBRARY_FIELD)
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

#endif
