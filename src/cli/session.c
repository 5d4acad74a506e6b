// Ranks, device and world for a command. See session.h.
#include "cli/session.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/console.h"
#include "base/phase.h"
#include "base/pool.h"
#include "cli/commands.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *environment(const char *name) {
    return getenv(name);
}

// Every connection to another rank is an open file, of which a process may have 1024 unless it asks for more. Not the
// system's maximum: programs that close all descriptors up to the limit take a minute for a thousand million.
static void raise_file_limit(void) {
    const rlim_t most = 1 << 20;
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
        return;
    rlim_t wanted = limit.rlim_max < most ? limit.rlim_max : most;
    if (limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = wanted;
    if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
        log_debug("the limit of open files stays as it is: %s", strerror(errno));
}

// Streams that share one of the GPU's queues wait for each other, and a rank has more of them than the 8 queues it gets
// by default: two for itself, some for each of its groups. Scripts for Megatron set 1, which is harmful here; a value
// above 8 is respected. It is read when CUDA is first used, which MPI may do as it starts.
static void widen_queues(void) {
    enum { TOO_FEW = 8 };
    const char *given = environment("CUDA_DEVICE_MAX_CONNECTIONS");
    if (!given || strtol(given, NULL, 10) <= TOO_FEW)
        setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);
}

const char *session_temporary_folder(void) {
    const char *folder = environment("TMPDIR");
    return folder && *folder ? folder : "/tmp";
}

static void note_machine(struct session *session) {
    free(session->mpi_note);
    session->mpi_note = mpi_leftovers_note(session_temporary_folder(), environment("OMPI_MCA_orte_jobfam_session_dir"),
                                           environment("PMIX_NAMESPACE"));
}

// A terminal that is not also standard input is the launcher's way of reading its ranks: Open MPI has one for their
// standard output. `srun --pty` connects all three.
static void await_launcher(void) {
    const double patience = 60;
    struct stat input, output;
    for (int file = STDOUT_FILENO; file <= STDERR_FILENO; file++) {
        bool is_own = isatty(STDIN_FILENO) && fstat(STDIN_FILENO, &input) == 0 && fstat(file, &output) == 0 &&
                      input.st_rdev == output.st_rdev;
        console_set_patience(file, is_own ? 0 : patience);
    }
}

static int start_mpi(struct session *session) {
    // MPI may need the memory still held by a dead run. One rank of each machine is enough to look for it.
    const char *local = environment("OMPI_COMM_WORLD_LOCAL_RANK"), *slurm = environment("SLURM_LOCALID");
    const char *rank = local ? local : slurm;
    bool is_first = rank && strcmp(rank, "0") == 0;
    if (is_first) {
        mpi_leftovers_sweep(session_temporary_folder());
        note_machine(session);
    }
    TRY(world_start(session->backend, &session->place));
    ranks_touch_mark(environment(RANKS_MARK));
    if (session->place.rank == 0)
        ranks_take_terminal(environment(RANKS_TERMINAL));
    else if (environment(RANKS_TERMINAL))
        log_share_terminal();
    if (is_first)
        note_machine(session);
    return 0;
}

int session_start(struct session *session) {
    *session = (struct session){.backend = "self", .place = {.size = 1, .local_size = 1}};
    TRY(ranks_detect(&session->ranks, environment));
    if (session->ranks.is_read)
        await_launcher();
    if (session->ranks.kind == RANKS_TCP || session->ranks.kind == RANKS_MPI) {
        raise_file_limit();
        widen_queues();
    }
    if (session->ranks.kind == RANKS_TCP) {
        session->backend = "tcp";
        session->place = session->ranks.place;
    } else {
        bool is_mpi = session->ranks.kind == RANKS_MPI;
        session->backend = is_mpi ? "mpi" : "self";
        TRY(is_mpi ? start_mpi(session) : world_start(session->backend, &session->place));
        if (is_mpi)
            TRY(ranks_check_mpi(&session->ranks, session->place.size));
    }
    log_set_rank(session->place.rank, session->place.size);
    return 0;
}

// The number of ranks that a launcher has started cannot change. Without one, a file may set it.
static int check_nproc(const struct session *session, const struct session_flags *flags) {
    bool is_launched = session->ranks.kind == RANKS_MPI || session->ranks.kind == RANKS_TCP;
    bool is_dry = flags->starts_none && *flags->starts_none;
    if (!is_launched || *flags->nproc == 1 || (is_dry && session->place.size == 1))
        return 0;
    if (flag_source(flags->given, "--nproc") == FLAG_FROM_COMMAND)
        return error_set_code(EXIT_CODE_USAGE,
                              "--nproc %" PRId64 ", but a launcher has already started the ranks; leave it out",
                              *flags->nproc);
    log_info("note: nproc in a --config file has no effect, because a launcher has started the ranks");
    return 0;
}

// Lets the command complete its options; `words` after the command line inform the ranks.
static int complete(const struct session_flags *flags, struct ranks_command *ranks, struct string_list *words) {
    struct launched_ranks launched;
    if (!flags->complete)
        return 0;
    bool is_alone = ranks_detect(&launched, environment) == 0 && launched.kind == RANKS_ALONE;
    error_clear();
    TRY(flags->complete(flags->options, is_alone, words));
    char **argv = memory_alloc(sizeof *argv * (size_t)(ranks->argc + words->count + 1));
    memcpy(argv, ranks->argv, sizeof *argv * (size_t)ranks->argc);
    for (int64_t i = 0; i < words->count; i++)
        argv[ranks->argc + i] = words->items[i];
    ranks->argv = argv;
    ranks->argc += (int)words->count;
    return 0;
}

int session_begin(struct session *session, const struct session_flags *flags, int *exit_code) {
    OWNED_BY(string_list_free) struct string_list notes = {0}, words = {0};
    int status = flags_read(flags->command, flags->options,
                            (struct flag_line){.argc = flags->argc, .argv = flags->argv, .notes = &notes});
    struct ranks_command ranks = {
        .before = flags->before, .argc = flags->argc, .argv = flags->argv, .nproc = *flags->nproc};
    if (status == 0)
        status = complete(flags, &ranks, &words);
    bool may_start = status == 0 && !(flags->starts_none && *flags->starts_none);
    bool is_over = may_start && ranks_start(&ranks, exit_code);
    if (!is_over && flags->is_watching)
        interrupt_watch();
    // The caller reports errors in flags; starting clears messages of its own.
    struct error_note *flaw = error_take();
    if (!is_over && session_start(session) < 0) {
        is_over = true;
        *exit_code = command_failed();
    }
    if (flaw && !is_over)
        (void)error_give(flaw);
    else
        error_drop(flaw);
    // The rank, and with it whether to print notes about the flags, is known only now.
    if (!is_over)
        flags_say_notes(&notes);
    if (!is_over && status == 0)
        status = check_nproc(session, flags);
    if (ranks.argv != flags->argv)
        free(ranks.argv);
    if (is_over)
        flags_free(flags->command, flags->options);
    return is_over ? SESSION_OVER : status;
}

// Ranks bound to processors use those; ranks that are not share the machine evenly.
static int choose_threads(const struct config *config, const struct world_place *place) {
    if (config->machine.threads > 0)
        return (int)config->machine.threads;
    int available = pool_available_processors();
    long all = sysconf(_SC_NPROCESSORS_ONLN);
    if (place->local_size > 1 && available >= all)
        available /= place->local_size;
    return available > 1 ? available : 1;
}

// Ranks with different flags would compute different results, or wait for each other forever. Rank 0 sends the others a
// digest of each of its values; a rank with another value names the flag.
static int check_same_flags(const struct session *session, const struct config *config) {
    struct flag_table table = config_flag_table(0);
    struct group *all = world_group_all(session->world);
    if (group_size(all) == 1)
        return 0;
    size_t count = flag_count(&table.rows);
    OWNED int64_t *digests = memory_alloc(sizeof *digests * count), *own = memory_alloc(sizeof *own * count);
    OWNED_BY(buffer_free) struct buffer text = {0};
    for (size_t i = 0; i < count; i++) {
        const struct flag *flag = flag_at(&table.rows, i);
        bool is_own_affair = flag->type == FLAG_GROUP || strcmp(flag->name, "--threads") == 0;
        buffer_clear(&text);
        if (!is_own_affair)
            flag_format(flag, config, &text);
        const char *value = buffer_string(&text);
        digests[i] = own[i] = (int64_t)hash_bytes(value, strlen(value), 0);
    }
    comm_broadcast_i64(all, digests, (int)count, 0, "flags of rank 0");
    int status = 0;
    for (size_t i = 0; i < count && status == 0; i++) {
        const struct flag *flag = flag_at(&table.rows, i);
        if (digests[i] == own[i])
            continue;
        buffer_clear(&text);
        flag_show(flag, config, &text);
        status =
            error_set("rank %d was started with %s %s, and rank 0 with another value; give all ranks the same flags",
                      session->place.rank, flag->name, buffer_string(&text));
    }
    return status;
}

char *session_user_cache(const char *name) {
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache == '/')
        return memory_printf("%s/bevatron/%s", cache, name);
    return home && *home == '/' ? memory_printf("%s/.cache/bevatron/%s", home, name) : NULL;
}

// File of a GPU's fastest algorithms, kept between runs. NULL if there is no folder and none can be created; the run is
// then equally fast and starts some seconds later. Freed by the caller.
static char *find_algorithm_cache(void) {
    char *path = session_user_cache("products");
    if (path && file_make_parent(path) < 0) {
        error_clear();
        free(path);
        path = NULL;
    }
    return path;
}

// Requirements of the flags that only the device itself can check.
static int check_device(const struct device *device, const struct config *config) {
    int most = device->ops->most_head_size;
    if (most > 0 && config->model.multi_latent_attention &&
        (config->model.kv_channels > most || config->model.v_head_dim > most))
        return error_set_code(EXIT_CODE_USAGE,
                              "a head of latent attention is %" PRId64 " channels wide (--qk-head-dim and "
                              "--qk-pos-emb-head-dim), its values %" PRId64 " (--v-head-dim), but attention on a GPU "
                              "takes %d at most; give less, or --device cpu",
                              config->model.kv_channels, config->model.v_head_dim, most);
    if (most > 0 && config->model.kv_channels > most)
        return error_set_code(EXIT_CODE_USAGE,
                              "a head is %" PRId64 " channels wide (--kv-channels, else --hidden-size / "
                              "--num-attention-heads), but attention on a GPU takes %d at most; give %" PRId64
                              " or more --num-attention-heads, or --device cpu",
                              config->model.kv_channels, most,
                              (config->model.num_attention_heads * config->model.kv_channels + most - 1) / most);
    return 0;
}

// Numbers of jobs and names of runs are public. The secret is then one that only this user's ranks can read.
static void choose_secret(const struct session *session, const struct config *config, struct world_meeting *meeting) {
    const struct launched_ranks *ranks = &session->ranks;
    if (ranks->kind != RANKS_TCP || ranks->is_secret)
        return;
    meeting->is_public_folder = ranks->is_on_one_machine;
    if (meeting->is_public_folder)
        meeting->secret_folder = session_temporary_folder();
    else if (config->run.save && *config->run.save)
        meeting->secret_folder = config->run.save;
    else if (ranks->place.rank == 0)
        log_warn(
            "this job has no secret, so whoever reaches %s port %d can join it as a rank; set BEVATRON_JOB_TOKEN to "
            "the same random text for all ranks",
            ranks->address, ranks->port);
}

int session_meet_early(struct session *session, const struct config *config) {
    const struct launched_ranks *ranks = &session->ranks;
    struct world_meeting meeting = {
        .place = ranks->place, .address = ranks->address, .port = ranks->port, .token = ranks->token};
    choose_secret(session, config, &meeting);
    OWNED char *algorithm_cache = device_times_algorithms(config->machine.device) ? find_algorithm_cache() : NULL;
    struct device_options options = {.name = config->machine.device,
                                     .threads = choose_threads(config, &session->place),
                                     .cpu_kernels = config->machine.cpu_kernels,
                                     .index = session->place.local_rank,
                                     .algorithm_cache = algorithm_cache,
                                     .allows_tf32 = config->run.tf32,
                                     .is_deterministic = config->machine.deterministic_mode,
                                     .has_fast_dropout = config->run.fast_attention_dropout};
    struct phase *phase = phase_begin("opening the device");
    int status = device_open(&session->device, &options);
    phase_end(phase);
    TRY(status);
    phase = session->place.size > 1 ? phase_begin("connecting the ranks") : NULL;
    status = world_open(
        &session->world,
        &(struct world_options){.backend = session->backend,
                                .meeting = &meeting,
                                .carrier = config->machine.distributed_backend,
                                .deadline_seconds = config->machine.distributed_timeout_minutes * 60,
                                .record_folder = config->run.save && *config->run.save ? config->run.save : NULL,
                                .temporary_folder = session_temporary_folder()},
        session->device);
    if (phase)
        phase_end(phase);
    return status;
}

static void warn_of_precision(const struct device *device, const struct config *config) {
    bool is_mx = config->run.fp8_format && strcmp(config->run.fp8_recipe, "mxfp8") == 0;
    if (config->run.fp8_format && device->ops->is_host_memory)
        log_warn("the CPU emulates fp8 number by number, which is slow; leave out --fp8-format, or give --device cuda");
    if (config->run.fp4_format && device->ops->is_host_memory)
        log_warn("the CPU emulates fp4 number by number, which is slow; leave out --fp4-format to train in bf16");
    if ((is_mx || config->run.fp4_format) && !device->ops->is_host_memory)
        log_warn("%s matmuls were not yet run on such a GPU; compare the loss with that of --bf16 alone",
                 is_mx ? "mxfp8" : "NVFP4");
    if (config->model.num_experts && config->run.fp8_format && strcmp(config->run.fp8_recipe, "blockwise") == 0 &&
        !device->ops->is_host_memory)
        log_warn("experts with --fp8-recipe blockwise were not yet run on a GPU; compare the loss with that of "
                 "--fp8-recipe delayed");
}

int session_meet(struct session *session, const struct config *config) {
    if (!session->world)
        TRY(session_meet_early(session, config));
    TRY(check_device(session->device, config));
    if (session->place.rank == 0)
        warn_of_precision(session->device, config);
    return check_same_flags(session, config);
}

int session_open(struct session *session, const struct config *config) {
    TRY(session_meet(session, config));
    TRY(mesh_place_config(&session->mesh, session->place.rank, session->place.size, config));
    return mesh_connect(&session->mesh, session->world);
}

// How long ranks that got the same signal may remove unfinished files, and how long a rank waits for the first one to
// report the error: longer if that one is known to have the same message and will end us.
static const double CLEAN_SECONDS = 1, SPEAK_SECONDS = 5, SHARED_SECONDS = 60;

// Waits in short naps: while a virtual machine is paused, the other ranks make no progress either; the pause costs them
// one nap.
static void wait_for_others(double seconds) {
    const double nap = 0.1;
    for (double waited = 0; waited < seconds; waited += nap)
        clock_sleep(nap);
}

int session_failed(const struct session *session) {
    bool is_stopped = interrupt_received() != 0;
    bool is_everybodys = error_exit_code() == EXIT_CODE_USAGE || error_is_shared() || is_stopped;
    bool is_said_elsewhere = is_everybodys && session->place.rank != 0;
    int code = is_said_elsewhere ? (int)error_exit_code() : command_failed();
    if (session->place.size > 1) {
        if (session->world)
            world_failed(session->world);
        // Ranks that got the same signal remove their unfinished files.
        if (is_stopped && !is_said_elsewhere)
            wait_for_others(CLEAN_SECONDS);
        // The first rank prints the message and ends all; a faster rank would end it before that. A rank that still
        // lives afterwards has other flags than the first one, which no other rank can report.
        if (is_said_elsewhere) {
            bool is_ended = error_is_shared() && session->ranks.kind == RANKS_MPI;
            wait_for_others(is_ended ? SHARED_SECONDS : SPEAK_SECONDS);
            (void)command_failed();
        }
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
    mpi_leftovers_forget(session->mpi_note);
    for (size_t i = 0; i < sizeof session->holds / sizeof session->holds[0]; i++)
        file_lock_release(&session->holds[i]);
}
