// bevatron preflight: a machine or an allocation is looked at before a run that costs money. See preflight.h.
#include "base/error.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "cli/commands.h"
#include "cli/preflight.h"
#include "cluster/machine.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OFFSET(member) offsetof(struct preflight_options, member)
#define TEXT(flag, member, value, text)                                                                                \
    { .name = flag, .type = FLAG_STRING, .offset = OFFSET(member), .value_name = value, .help = text }
#define COUNT(flag, member, start, least, most, text)                                                                  \
    {                                                                                                                  \
        .name = flag, .type = FLAG_INT, .offset = OFFSET(member), .initial = start, .minimum = least, .maximum = most, \
        .help = text                                                                                                   \
    }

static const char *const transports[] = {"any", "efa", "ib", NULL};

static const struct flag own_flags[] = {
    {.name = "What should be there", .type = FLAG_GROUP},
    TEXT("--machine", machine, "TYPE", "EC2 instance type, as p4d.24xlarge: its GPUs, its network and what it reaches"),
    COUNT("--gpus", gpus, NULL, 0, 64, "GPUs of each machine; those of --machine by default, else none are expected"),
    {.name = "--transport",
     .type = FLAG_CHOICE,
     .offset = OFFSET(transport),
     .choices = transports,
     .help = "the network NCCL must use: a run that falls back to TCP is refused; efa by default for a --machine that "
             "has it"},
    TEXT("--nccl-log", nccl_log, "FILE", "a log of another run with NCCL_DEBUG=INFO to find its network in"),
    {.name = "How good it must be", .type = FLAG_GROUP},
    COUNT("--bytes", bytes, "268435456", 4096, 0x1p36, "size of the all-reduce that is measured"),
    {.name = "--min-busbw",
     .type = FLAG_DOUBLE,
     .offset = OFFSET(min_busbw),
     .maximum = 1e6,
     .help = "GB/s the all-reduce must reach; what the --machine is known for, by default"},
    {.name = "--min-fraction",
     .type = FLAG_DOUBLE,
     .offset = OFFSET(min_fraction),
     .initial = "0.8",
     .minimum = 0.01,
     .maximum = 1,
     .help = "of what the --machine is known for"},
    TEXT("--path", path, "FOLDER", "file system to try; the folder of --save by default"),
    COUNT("--file-size", file_mib, "256", 1, 1e6, "MiB written to it and read again"),
    COUNT("--min-write", min_write_mb, NULL, 0, 1e6, "MB/s it must write"),
    COUNT("--min-read", min_read_mb, NULL, 0, 1e6, "MB/s it must read"),
    COUNT("--max-skew", max_skew_ms, "1000", 1, 1e6, "ms the clocks of the machines may differ"),
    {.name = "--deep", .type = FLAG_BOOL, .offset = OFFSET(deep), .help = "reads every token of the datasets"},
    {.name = "Running", .type = FLAG_GROUP},
    COUNT("--nproc", nproc, "1", 1, 1024, "starts this many ranks on this machine"),
    {.name = "--json", .type = FLAG_BOOL, .offset = OFFSET(json), .help = "one JSON object per line"},
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
        struct buffer line = {0};
        struct json_writer w = {.out = &line};
        json_begin_object(&w);
        json_key(&w, "host");
        json_cstring(&w, flight->host);
        json_key(&w, "check");
        json_cstring(&w, check);
        json_key(&w, "verdict");
        json_cstring(&w, verdict == VERDICT_BAD ? "bad" : names[verdict]);
        json_key(&w, "text");
        json_cstring(&w, text);
        json_end_object(&w);
        printf("%s\n", buffer_string(&line));
        buffer_free(&line);
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

// NCCL says what it does only if it is told to, and before it starts.
static void listen_to_nccl(struct preflight *flight) {
    if (flight->session->place.size == 1)
        return;
    const char *folder = getenv("TMPDIR");
    flight->nccl_log = memory_printf("%s/bevatron-nccl-%d-%d", folder && *folder ? folder : "/tmp", (int)getpid(),
                                     flight->session->place.rank);
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "INIT,NET", 1);
    setenv("NCCL_DEBUG_FILE", flight->nccl_log, 1);
}

static void stop_listening(struct preflight *flight) {
    if (flight->nccl_log)
        unlink(flight->nccl_log);
    free(flight->nccl_log);
}

// What is wrong on one machine makes the whole allocation unfit.
static void agree(struct preflight *flight) {
    int64_t worst = flight->worst;
    comm_max_i64(world_group_all(flight->session->world), &worst, 1, "verdict");
    flight->worst = (enum exit_code)worst;
}

static int look(struct preflight *flight, struct preflight_options *options) {
    struct session *session = flight->session;
    if (options->machine && !machine_find(options->machine))
        return -1;
    TRY(config_apply_preset(&options->config));
    flight->has_model = options->config.preset || options->config.num_layers > 0;
    if (flight->has_model)
        TRY(config_validate(&options->config, session->place.size));
    listen_to_nccl(flight);
    if (flight->is_first_here) {
        preflight_gpus(flight);
        preflight_limits(flight);
    }
    // From here on ranks need each other; if they do not find each other, that is said and nothing else can be.
    TRY(session_open(session, &options->config));
    struct group *all = world_group_all(session->world);
    comm_patience_begin(all, "looking at files and data");
    if (flight->is_first_here)
        preflight_files(flight);
    comm_barrier(all, "files");
    if (flight->is_speaker) {
        preflight_tokenizer(flight);
        preflight_data(flight);
    }
    comm_patience_end(all);
    preflight_clocks(flight);
    preflight_bandwidth(flight);
    preflight_transport(flight);
    agree(flight);
    return 0;
}

int cmd_preflight(int argc, char **argv) {
    const struct flag_table tables[] = {
        {.flags = own_flags, .count = sizeof own_flags / sizeof own_flags[0], .given = OFFSET(given)},
        config_flag_table(OFFSET(config)),
    };
    const struct flag_command command = {
        .name = "preflight",
        .summary =
            "Looks at a machine, or with mpirun, srun or --nproc at all machines of an allocation, before a run: "
            "GPUs, limits, clocks, network and its speed, file system, room for two checkpoints, data and "
            "tokenizer. Takes the flags of train beside its own.",
        .tables = tables,
        .table_count = 2,
        .epilogue = "Exit code: 0 nothing bad, 1 something is, 215 the data is.\n"
                    "Example:\n"
                    "  srun --mpi=pmix bevatron preflight --machine p4d.24xlarge --config run.yaml\n"};
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
    stop_listening(&flight);
    if (status < 0)
        exit_code = session_failed(&session);
    else
        exit_code = (int)flight.worst;
    session_close(&session);
    flags_free(&command, &options);
    return exit_code;
}
