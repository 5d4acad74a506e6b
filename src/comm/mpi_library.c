// Version check and folders of the MPI library. See mpi_library.h.
#include "comm/mpi_library.h"
#include "base/error.h"
#include "comm/backend.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

// The ABI is that of the header this was compiled with. Open MPI's has been the same since version 3, with soname 40.
#ifdef OPEN_MPI
static const bool wants_open_mpi = true;
static const char library_name[] = "Open MPI", package[] = "apt-get install openmpi-bin";
static const char *const sonames[] = {"libmpi.so.40", NULL}, *const rivals[] = {"libmpich.so.12", "libmpi.so.12", NULL};
static const char rivals_are[] = "MPICH or Intel MPI, which has another ABI";
#else
static const bool wants_open_mpi = false;
static const char library_name[] = "MPICH", package[] = "apt-get install mpich";
static const char *const sonames[] = {"libmpich.so.12", "libmpi.so.12", NULL}, *const rivals[] = {"libmpi.so.40", NULL};
static const char rivals_are[] = "Open MPI, which has another ABI";
#endif

// The text is "Open MPI v4.1.4, package: …", "MPICH Version:\t4.0.2\n…" or a derivative of MPICH's; MPI need not be
// initialized.
static int check_version(const void *table, char *version, size_t size) {
    const struct mpi_symbols *candidate = table;
    enum { MOST_BYTES = 1 << 14 };  // more than any: MPICH's text is longer than Open MPI's header allows for
    char text[MOST_BYTES] = "";
    int length = 0;
    candidate->MPI_Get_library_version(text, &length);
    text[strcspn(text, ",\n")] = 0;
    if ((strncmp(text, "Open MPI", 8) == 0) != wants_open_mpi)
        return error_set("is \"%.40s\", which has another ABI than %s", text, library_name);
    const char *number = strpbrk(text, "0123456789");
    snprintf(version, size, "%s", number ? number : text);
    return 0;
}

// Many MPI calls allocate memory. MPI has no error code for a failed allocation, but leaves errno.
void mpi_end_failed(const char *call, int status) {
    int name = (int)strcspn(call, "(");
    if (errno == ENOMEM)
        die_code(EXIT_CODE_OUT_OF_MEMORY,
                 "%.*s has no memory (MPI error %d); raise the limit of this process (ulimit -v), end what else uses "
                 "memory here, or use fewer ranks on this machine",
                 name, call, status);
    die_code(EXIT_CODE_PEER_LOST, "%.*s failed with MPI error %d", name, call, status);
}

mpi_yield_setter *mpi_find_yield_setter(void) {
    union {
        void *address;
        mpi_yield_setter *function;
    } symbol = {.address = wants_open_mpi ? dlsym(RTLD_DEFAULT, "opal_progress_set_yield_when_idle") : NULL};
    return symbol.function;
}

static const struct library mpi_row = {
    .id = LIBRARY_MPI,
    .name = library_name,
    .user = "ranks started by mpirun or srun --mpi=pmix",
    .variable = "BEVATRON_MPI_LIBRARY",
    .sonames = sonames,
    .folders = LIBRARY_LIST("$MPI_HOME/lib64", "$MPI_HOME/lib", "/opt/amazon/openmpi/lib64", "/opt/amazon/openmpi/lib",
                            "/opt/amazon/openmpi5/lib64", "/opt/amazon/openmpi5/lib", "/usr/lib64/openmpi/lib",
                            "/usr/lib64/mpich/lib", "/usr/lib/*-linux-gnu/openmpi/lib", "/usr/mpi/gcc/openmpi-*/lib64",
                            "/opt/hpcx/ompi/lib", "/usr/local/lib"),
    .rivals = rivals,
    .rivals_are = rivals_are,
    .package = package,
    .instead = "start one rank, without mpirun",
    LIBRARY_SYMBOLS(MPI_SYMBOLS),
    .is_global = true,
    .is_beside_starter = true,
    .check = check_version,
};

const struct library *mpi_library(void) {
    return &mpi_row;
}
