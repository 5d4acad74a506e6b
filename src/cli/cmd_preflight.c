// bevatron preflight: checks a machine or an allocation before a run that costs money. See preflight.h.
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/preflight.h"
#include "cluster/machine.h"
#include "config/flag_rows.h"
#include "train/automatic.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FLAG_STRUCT struct preflight_options

static const char *const transports[] = {"any", "efa", "ib", NULL};

static const struct flag own_flags[] = {
    GROUP("Expected hardware"),
    TEXT("--machine", machine, NULL, "TYPE",
         "EC2 instance type, e.g. p4d.24xlarge; sets the expected GPUs, network and bandwidth"),
    INT("--gpus", gpus, NULL, 0, 64, "expected GPUs per machine; default: those of --machine, otherwise 0"),
    CHOICE("--transport", transport, NULL, transports,
           "network that NCCL must use; falling back to TCP fails the check. Default: efa if the --machine has it"),
    TEXT("--nccl-log", nccl_log, NULL, "FILE", "log of another run with NCCL_DEBUG=INFO, to read its network from"),
    GROUP("Required performance"),
    INT("--bytes", bytes, "268435456", 4096, 0x1p36, "bytes of the measured all-reduce"),
    REAL("--min-busbw", min_busbw, NULL, 0, 1e6,
         "bus bandwidth in GB/s that the all-reduce must reach; default: the known figure of --machine"),
    REAL("--min-fraction", min_fraction, "0.8", 0.01, 1, "required fraction of the known figures of --machine"),
    TEXT("--path", path, NULL, "FOLDER", "folder whose file system is tested; default: --save"),
    INT("--file-size", file_mib, "256", 1, 1e6, "MiB to write and read back"),
    INT("--min-write", min_write_mb, NULL, 0, 1e6, "required write speed in MB/s"),
    INT("--min-read", min_read_mb, NULL, 0, 1e6, "required read speed in MB/s"),
    INT("--max-skew", max_skew_ms, "1000", 1, 1e6, "maximum difference of the machines' clocks in ms"),
    SWITCH("--deep", deep, "read every token of the datasets"),
    GROUP("Running"),
    INT("--nproc", nproc, "1", 1, 1024, "start this many ranks on this machine"),
    SWITCH("--json", json, "print one JSON object per line"),
};

void preflight_say(struct preflight *flight, enum verdict verdict, const char *check, const char *format, ...) {
    static const char *const names[] = {"ok", "note", "BAD"};
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (verdict == VERDICT_BAD && flight->worst == EXIT_CODE_OK)
        flight->worst = EXIT_CODE_ERROR;
    if (flight->options->json) {
        OWNED_BY(buffer_free) struct buffer line = {0};
        struct json_writer w = {.out = &line};
        json_begin_object(&w);
        json_put_string(&w, "host", flight->host);
        json_put_string(&w, "check", check);
        json_put_string(&w, "verdict", verdict == VERDICT_BAD ? "bad" : names[verdict]);
        json_put_string(&w, "text", text);
        json_end_object(&w);
        printf("%s\n", buffer_string(&line));
    } else {
        printf("%-4s  %s  %-10s %s\n", names[verdict], flight->host, check, text);
    }
    fflush(stdout);
}

void preflight_say_error(struct preflight *flight, const char *check) {
    enum exit_code code = error_exit_code();
    preflight_say(flight, VERDICT_BAD, check, "%s", error_message());
    if (code > EXIT_CODE_USAGE)
        flight->worst = code;
    error_clear();
}

// NCCL logs only if it is told to before it starts.
static void listen_to_nccl(struct preflight *flight) {
    if (flight->session->place.size == 1)
        return;
    flight->nccl_log =
        memory_printf("%s/bevatron-nccl-%d-%d", session_temporary_folder(), (int)getpid(), flight->session->place.rank);
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "INIT,NET", 1);
    setenv("NCCL_DEBUG_FILE", flight->nccl_log, 1);
}

// Number of ranks for which the run is validated. One machine may be part of a run on many: too few ranks for a copy of
// the model, or a batch share that does not divide evenly, is not its fault.
static int ranks_of_run(const struct session *session, const struct config *config) {
    int size = session->place.size;
    int64_t least = config_least_ranks(config), copy = config_model_ranks(config),
            batch = config->run.global_batch_size, micro = config->run.micro_batch_size;
    if (session->place.local_size < size || least <= 0 || least > INT32_MAX)
        return size;
    bool is_whole = size % least == 0 && (batch <= 0 || micro <= 0 || batch % (micro * (size / copy)) == 0);
    if (!is_whole && session->place.rank == 0)
        log_info("note: this is one machine of a run whose layout needs a multiple of %lld ranks", (long long)least);
    return is_whole ? size : (int)least;
}

static int look(struct preflight *flight, struct preflight_options *options) {
    struct session *session = flight->session;
    if (options->machine && !machine_find(options->machine))
        return -1;
    TRY(config_apply_preset(&options->config));
    flight->has_model = options->config.model.preset || options->config.model.num_layers > 0 ||
                        options->config.model.hybrid_layer_pattern;
    struct automatic open;
    if (flight->has_model)
        TRY(automatic_begin(&open, &options->config));
    if (flight->has_model)
        TRY(config_validate(&options->config, ranks_of_run(session, &options->config)));
    listen_to_nccl(flight);
    if (flight->is_first_here) {
        preflight_gpus(flight);
        preflight_limits(flight);
        preflight_addresses(flight);
    }
    // The next checks need all ranks; if they cannot connect, that is reported and the rest is skipped.
    TRY(session_meet(session, &options->config));
    struct group *all = world_group_all(session->world);
    comm_patience_begin(all, "looking at files and data");
    if (flight->is_first_here)
        preflight_files(flight);
    comm_barrier(all, "files");
    if (flight->is_speaker) {
        preflight_tokenizer(flight);
        preflight_room(flight);
        preflight_data(flight);
    }
    comm_patience_end(all);
    preflight_clocks(flight);
    preflight_bandwidth(flight);
    preflight_transport(flight);
    // A fault of one machine makes the whole allocation unfit.
    int64_t worst = flight->worst;
    comm_max_i64(world_group_all(flight->session->world), &worst, 1, "verdict");
    flight->worst = (enum exit_code)worst;
    return 0;
}

const struct command preflight_flags = {
    .flags = {.name = "preflight",
              .summary =
                  "Checks a machine, or with mpirun, srun or --nproc all machines of an allocation, before a run: "
                  "GPUs, limits, clocks, network bandwidth, file system, space for two checkpoints, data and "
                  "tokenizer. Also takes the flags of train.",
              .epilogue =
                  "Exit code: 0 all checks passed, 1 a check failed, 215 the data is damaged.\nExample:\n  srun "
                  "--mpi=pmix bevatron preflight --machine p4d.24xlarge --config run.yaml\n"},
    .tables = {{FLAG_TABLE(own_flags)}},
    .shared = config_flag_table,
    .shared_at = OFFSET(config),
    .options_bytes = sizeof(struct preflight_options),
};

int cmd_preflight(int argc, char **argv) {
    struct flag_table tables[2];
    const struct flag_command command = command_flags(&preflight_flags, tables);
    struct preflight_options options;
    struct session session;
    int exit_code = EXIT_CODE_OK;
    int status = session_begin(&session,
                               &(struct session_flags){.command = &command,
                                                       .options = &options,
                                                       .nproc = &options.nproc,
                                                       .given = &options.given,
                                                       .argc = argc,
                                                       .argv = argv},
                               &exit_code);
    if (status == SESSION_OVER)
        return exit_code;
    struct preflight flight = {.options = &options,
                               .session = &session,
                               .is_first_here = session.place.local_rank == 0,
                               .is_speaker = session.place.rank == 0};
    gethostname(flight.host, sizeof flight.host - 1);
    if (status == 0)
        status = look(&flight, &options);
    if (flight.nccl_log)
        unlink(flight.nccl_log);
    free(flight.nccl_log);
    if (status < 0)
        exit_code = session_failed(&session);
    else
        exit_code = (int)flight.worst;
    session_close(&session);
    flags_free(&command, &options);
    return exit_code;
}
