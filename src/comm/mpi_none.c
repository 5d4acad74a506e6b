// Replaces mpi.c in a build without MPI.
#include "base/error.h"
#include "comm/backend.h"

const struct library *mpi_library(void) {
    return NULL;
}

int mpi_world_start(struct world_place *place) {
    (void)place;
    return error_set("this build has no MPI, which several ranks need; install libopenmpi-dev and build again with "
                     "-DBEVATRON_MPI=ON");
}

void mpi_world_stop(void) {}

int mpi_world_open(struct world **world, struct device *device) {
    (void)world;
    (void)device;
    return error_set("this build has no MPI; install libopenmpi-dev and build again with -DBEVATRON_MPI=ON");
}

void mpi_world_abort(enum exit_code code) {
    (void)code;
}
