// Ranks, device and world for a command. See session.h.
#include "cli/session.h"
#include "base/error.h"
#include "base/log.h"
#include "base/pool.h"
#include "cli/commands.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long number_in(const char *variable) {
    const char *text = getenv(variable);
    return text ? strtol(text, NULL, 10) : 0;
}

// mpirun (Open MPI, MPICH) and srun say how many ranks there are; one rank needs no MPI.
static const char *find_backend(void) {
    if (number_in("OMPI_COMM_WORLD_SIZE") > 1 || number_in("PMI_SIZE") > 1)
        return "mpi";
    if (getenv("SLURM_PROCID") && getenv("SLURM_STEP_ID") && number_in("SLURM_STEP_NUM_TASKS") > 1)
        return "mpi";
    return "self";
}

int session_start(struct session *session) {
    *session = (struct session){.backend = find_backend()};
    if (strcmp(session->backend, "self") == 0 && number_in("WORLD_SIZE") > 1)
        return error_set("WORLD_SIZE is %ld, but this process was started by neither mpirun nor srun; start the ranks "
                         "with mpirun -n N bevatron train …",
                         number_in("WORLD_SIZE"));
    TRY(world_start(session->backend, &session->place));
    log_set_rank(session->place.rank, session->place.size);
    return 0;
}

// Ranks that are bound to processors use those; ranks that are not share the machine evenly.
static int choose_threads(const struct config *config, const struct world_place *place) {
    if (config->threads > 0)
        return (int)config->threads;
    int available = pool_available_processors();
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    if (place->local_size > 1 && available >= all)
        available /= place->local_size;
    return available > 1 ? available : 1;
}

int session_open(struct session *session, const struct config *config) {
    struct device_options options = {
        .name = config->device, .threads = choose_threads(config, &session->place), .index = session->place.local_rank};
    TRY(device_open(&session->device, &options));
    TRY(world_open(&session->world,
                   &(struct world_options){.backend = session->backend,
                                           .deadline_seconds = config->distributed_timeout_minutes * 60,
                                           .record_folder = config->save && *config->save ? config->save : "."},
                   session->device));
    TRY(mesh_place(&session->mesh, session->place.rank, session->place.size, (int)config->tensor_model_parallel_size,
                   (int)config->context_parallel_size, (int)config->pipeline_model_parallel_size));
    return mesh_connect(&session->mesh, session->world);
}

int session_failed(const struct session *session) {
    bool is_said_elsewhere = error_exit_code() == EXIT_CODE_USAGE && session->place.rank != 0;
    int code = is_said_elsewhere ? EXIT_CODE_USAGE : command_failed();
    if (session->place.size > 1) {
        world_abort(session->backend, (enum exit_code)code);
        _Exit(code);
    }
    return code;
}

void session_close(struct session *session) {
    if (session->world)
        world_close(session->world);
    else
        world_stop(session->backend);
    device_close(session->device);
}
