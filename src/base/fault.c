// The table of faults of this process, and their effects. See fault.h.
#include "base/fault.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct armed_fault {
    struct fault fault;
    int64_t iteration;  // the iteration that `reached` counts in, -1 for none
    int64_t reached;    // how many times the phase was reached there
    bool has_fired;     // in this process
    int64_t *past;      // iterations in which it fired in earlier starts
    int64_t past_count;
};

static struct {
    pthread_mutex_t lock;
    struct armed_fault *items;
    int64_t count;
    int rank;
    char *record;                     // NULL for none
    _Atomic int64_t iteration, save;  // set without the lock
} table = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_bool is_on;

bool fault_is_on(void) {
    return atomic_load_explicit(&is_on, memory_order_relaxed);
}

void fault_suspend(bool is_suspended) {
    pthread_mutex_lock(&table.lock);
    atomic_store(&is_on, !is_suspended && table.count > 0);
    pthread_mutex_unlock(&table.lock);
}

// ---- the record: WALL-SECONDS rank R iteration I fault TEXT ----

// Sets the iteration if the line records that this fault fired on this rank.
static bool read_line(const char *line, size_t length, const struct fault *fault, int64_t *iteration) {
    char begin[48];
    snprintf(begin, sizeof begin, "rank %d iteration ", table.rank);
    const char *end = line + length, *at = memchr(line, ' ', length);
    size_t begin_length = strlen(begin), text_length = strlen(fault->text);
    if (!at || (size_t)(end - ++at) < begin_length || memcmp(at, begin, begin_length) != 0)
        return false;
    int64_t value = 0;
    const char *digits = at += begin_length;
    for (; at < end && *at >= '0' && *at <= '9' && value < INT64_MAX / 16; at++)
        value = 10 * value + (*at - '0');
    const char between[] = " fault ";
    size_t between_length = sizeof between - 1;
    bool is_it = at > digits && (size_t)(end - at) == between_length + text_length &&
                 memcmp(at, between, between_length) == 0 && memcmp(at + between_length, fault->text, text_length) == 0;
    *iteration = value;
    return is_it;
}

static void read_record(struct armed_fault *armed, const struct file_map *map) {
    const char *at = (const char *)map->data, *end = at ? at + map->size : at;
    for (const char *newline; at < end && (newline = memchr(at, '\n', (size_t)(end - at))); at = newline + 1) {
        int64_t iteration;
        if (!read_line(at, (size_t)(newline - at), &armed->fault, &iteration))
            continue;
        armed->past = memory_realloc(armed->past, sizeof *armed->past * (size_t)(armed->past_count + 1));
        armed->past[armed->past_count++] = iteration;
    }
}

// Recorded before the fault takes effect, so that the next start knows of it in any case. The table is locked: nothing
// here may reach a phase.
static void write_record(const struct fault *fault, int64_t iteration) {
    if (!table.record)
        return;
    char *line = memory_printf("%.3f rank %d iteration %" PRId64 " fault %s\n", clock_wall_seconds(), table.rank,
                               iteration, fault->text);
    int descriptor = open(table.record, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0644);
    bool is_written = descriptor >= 0 && write(descriptor, line, strlen(line)) == (ssize_t)strlen(line);
    if (!is_written)
        log_warn("cannot write to %s: %s; the injected fault %s fires again after a restart", table.record,
                 strerror(errno), fault->text);
    if (descriptor >= 0)
        close(descriptor);
    free(line);
}

// ---- the table ----

int fault_open(const struct fault *faults, int64_t count, int rank, const char *record) {
    struct file_map map = {0};
    fault_close(true);
    if (count == 0)
        return 0;
    // A fault at the start fires before the folder of checkpoints is created.
    if (record)
        TRY(file_make_parent(record));
    if (record && file_exists(record))
        TRY(file_map_open(&map, record));
    pthread_mutex_lock(&table.lock);
    table.rank = rank;
    table.record = memory_string(record);
    table.iteration = 0;
    table.save = -1;
    table.items = memory_alloc(sizeof *table.items * (size_t)count);
    for (int64_t i = 0; i < count; i++) {
        if (faults[i].rank >= 0 && faults[i].rank != rank)
            continue;
        struct armed_fault *armed = &table.items[table.count++];
        *armed = (struct armed_fault){.fault = faults[i], .iteration = -1};
        read_record(armed, &map);
    }
    atomic_store(&is_on, table.count > 0);
    pthread_mutex_unlock(&table.lock);
    file_map_close(&map);
    return 0;
}

void fault_close(bool has_failed) {
    pthread_mutex_lock(&table.lock);
    atomic_store(&is_on, false);
    for (int64_t i = 0; i < table.count; i++) {
        const struct armed_fault *armed = &table.items[i];
        bool is_told_here = armed->fault.rank == table.rank || table.rank == 0;
        if (!has_failed && is_told_here && !armed->has_fired && armed->past_count == 0)
            log_warn("the injected fault %s did not fire: rank %d never reached phase %s there", armed->fault.text,
                     table.rank, fault_phase_name(armed->fault.phase));
        free(table.items[i].past);
    }
    free(table.items);
    free(table.record);
    table.items = NULL;
    table.record = NULL;
    table.count = 0;
    pthread_mutex_unlock(&table.lock);
}

void fault_set_iteration(int64_t iteration) {
    atomic_store(&table.iteration, iteration);
}

void fault_set_save(int64_t iteration) {
    atomic_store(&table.save, iteration);
}

static bool is_past(const struct armed_fault *armed, int64_t iteration) {
    if (armed->fault.every_start)
        return false;
    if (armed->fault.is_anywhere)
        return armed->past_count > 0;
    for (int64_t i = 0; i < armed->past_count; i++)
        if (armed->past[i] == iteration)
            return true;
    return false;
}

// Counts one arrival at the phase; returns whether the fault fires. *is_first: for the first time in this iteration.
static bool is_due(struct armed_fault *armed, int64_t iteration, bool *is_first) {
    const struct fault *fault = &armed->fault;
    bool is_elsewhere = fault->is_anywhere && armed->has_fired && armed->iteration != iteration;
    if (iteration < fault->first || iteration > fault->last || is_elsewhere || is_past(armed, iteration))
        return false;
    if (armed->iteration != iteration) {
        armed->iteration = iteration;
        armed->reached = 0;
    }
    int64_t place = ++armed->reached - fault->call;
    *is_first = place == 0;
    armed->has_fired |= place == 0;
    return place >= 0 && (fault->times == FAULT_ENDLESS || place < fault->times);
}

// ---- effects of faults ----

// Connecting to AF_UNSPEC resets the existing connection, and the peer is told at once.
static void reset_connections(void) {
    long most = sysconf(_SC_OPEN_MAX);
    for (int descriptor = 0; descriptor < (most > 0 && most < 1 << 16 ? (int)most : 1 << 16); descriptor++) {
        struct sockaddr_storage peer;
        socklen_t length = sizeof peer;
        bool is_connected = getpeername(descriptor, (struct sockaddr *)&peer, &length) == 0;
        if (!is_connected || (peer.ss_family != AF_INET && peer.ss_family != AF_INET6))
            continue;
        const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
        if (connect(descriptor, &nowhere, sizeof nowhere) < 0)
            (void)shutdown(descriptor, SHUT_RDWR);
    }
}

static void sleep_forever(void) {
    for (;;)
        clock_sleep(3600);
}

static void act(const struct fault *fault, struct fault_effect *effect) {
    static const int signals[FAULT_KINDS] = {[FAULT_KILL] = SIGKILL, [FAULT_SEGV] = SIGSEGV, [FAULT_ABORT] = SIGABRT,
                                             [FAULT_TERM] = SIGTERM, [FAULT_USR1] = SIGUSR1, [FAULT_STOP] = SIGSTOP};
    switch (fault->kind) {
    case FAULT_KILL:
    case FAULT_TERM:
    case FAULT_USR1:
    case FAULT_STOP:
        (void)kill(getpid(), signals[fault->kind]);
        break;
    case FAULT_SEGV:
    case FAULT_ABORT:
        (void)raise(signals[fault->kind]);
        break;
    case FAULT_HANG:
        sleep_forever();
        break;
    case FAULT_SLOW:
    case FAULT_STUCK_FSYNC:
        if (fault->seconds >= FAULT_FOREVER)
            sleep_forever();
        clock_sleep(fault->seconds);
        break;
    case FAULT_NAN:
        effect->makes_nan = true;
        break;
    case FAULT_FLIP:
        effect->flips_bit = true;
        break;
    case FAULT_ENOSPC:
        effect->error = ENOSPC;
        break;
    case FAULT_EIO:
        effect->error = EIO;
        break;
    case FAULT_RESET:
        reset_connections();
        break;
    case FAULT_CLOCK:
        clock_shift_wall(fault->seconds);
        break;
    case FAULT_KINDS:
        break;
    }
}

struct fault_effect fault_reach(enum fault_phase phase) {
    struct fault_effect effect = {0};
    pthread_mutex_lock(&table.lock);
    int64_t iteration = phase >= FAULT_AT_SAVE ? table.save : table.iteration;
    // Before the first save only other files reach these phases.
    int64_t count = phase >= FAULT_AT_SAVE && table.save < 0 ? 0 : table.count;
    for (int64_t i = 0; i < count; i++) {
        bool is_first = false;
        if (table.items[i].fault.phase != phase || !is_due(&table.items[i], iteration, &is_first))
            continue;
        const struct fault fault = table.items[i].fault;
        if (is_first) {
            write_record(&fault, iteration);
            log_warn("rank %d, iteration %" PRId64 ", phase %s: injecting the fault %s", table.rank, iteration,
                     fault_phase_name(phase), fault.text);
        }
        // The fault may not return soon, and other threads have their own phases. If the process ends here, its last
        // words name this phase, not the work begun before it.
        pthread_mutex_unlock(&table.lock);
        const char *name = fault_phase_name(phase), *before = run_position_set_phase(name);
        if (phase == FAULT_AT_STEP)
            run_position_set_iteration(iteration);
        act(&fault, &effect);
        run_position_change_phase(name, before);
        pthread_mutex_lock(&table.lock);
        // The table may have been closed in the meantime.
        count = count < table.count ? count : table.count;
    }
    pthread_mutex_unlock(&table.lock);
    return effect;
}

// ---- names of kinds of faults and phases, and which of them fit together ----

static const struct {
    const char *name, *help;
} kinds[FAULT_KINDS] = {
    [FAULT_KILL] = {"kill", "SIGKILL: the rank dies without a message, as on a lost machine"},
    [FAULT_SEGV] = {"segv", "SIGSEGV: the rank crashes"},
    [FAULT_ABORT] = {"abort", "SIGABRT: a library gives up"},
    [FAULT_TERM] = {"term", "SIGTERM: the run saves and stops"},
    [FAULT_USR1] = {"usr1", "SIGUSR1: the scheduler's warning; the run saves and stops"},
    [FAULT_STOP] = {"stop", "SIGSTOP: the rank is suspended with all its threads"},
    [FAULT_HANG] = {"hang", "the rank waits forever; its other threads keep running"},
    [FAULT_SLOW] = {"slow", "the rank sleeps for `seconds` (default 0.1)"},
    [FAULT_NAN] = {"nan", "a gradient (phase gradients, the default), a weight (weights) or the rank's copy of the "
                          "loss (results) becomes NaN"},
    [FAULT_FLIP] = {"flip", "a bit of a weight (phase weights, the default) or of a gradient (phase gradients) flips"},
    [FAULT_ENOSPC] = {"enospc", "a write (or rename) of a checkpoint fails: no space left on device"},
    [FAULT_EIO] = {"eio", "a write (or fsync, rename) of a checkpoint fails: input/output error"},
    [FAULT_STUCK_FSYNC] = {"stuck-fsync", "an fsync of a checkpoint takes `seconds` (default: forever)"},
    [FAULT_RESET] = {"reset", "all TCP connections of the rank are reset"},
    [FAULT_CLOCK] = {"clock", "the wall clock of the rank jumps by `seconds` (default 3600; may be negative)"},
};

static const struct {
    const char *name, *help;
} phases[FAULT_PHASES] = {
    [FAULT_AT_RENDEZVOUS] = {"rendezvous", "before the rank connects to the others"},
    [FAULT_AT_LOAD] = {"load", "before the rank reads a checkpoint"},
    [FAULT_AT_STEP] = {"step", "before an iteration (the default of most kinds)"},
    [FAULT_AT_DATA] = {"data", "while it waits for a micro-batch"},
    [FAULT_AT_FORWARD] = {"forward", "before a forward pass"},
    [FAULT_AT_BACKWARD] = {"backward", "before a backward pass"},
    [FAULT_AT_GRADIENTS] = {"gradients", "after the last backward pass, before gradients are reduced"},
    [FAULT_AT_ALL_REDUCE] = {"allreduce", "at the start of an all-reduce"},
    [FAULT_AT_ALL_GATHER] = {"allgather", "at the start of an all-gather"},
    [FAULT_AT_REDUCE_SCATTER] = {"reducescatter", "at the start of a reduce-scatter"},
    [FAULT_AT_ALL_TO_ALL] = {"alltoall", "at the start of an all-to-all"},
    [FAULT_AT_BROADCAST] = {"broadcast", "at the start of a broadcast"},
    [FAULT_AT_SEND] = {"send", "before activations or gradients are sent to another stage"},
    [FAULT_AT_RECEIVE] = {"receive", "before activations or gradients are received from another stage"},
    [FAULT_AT_AGREE] = {"agree", "when ranks agree on a decision, e.g. whether to stop"},
    [FAULT_AT_OPTIMIZER] = {"optimizer", "before an update of the weights"},
    [FAULT_AT_WEIGHTS] = {"weights", "after the update"},
    [FAULT_AT_RESULTS] = {"results", "after the update, when the rank knows the loss"},
    [FAULT_AT_EVALUATE] = {"evaluate", "before each batch of an evaluation"},
    [FAULT_AT_MEMORY] = {"memory",
                         "in a checkpoint in memory: before its copy (call=1), within (call=2), after (call=3)"},
    [FAULT_AT_SAVE] = {"save", "before a checkpoint is written"},
    [FAULT_AT_WRITE] = {"write", "before each write to a file of a checkpoint"},
    [FAULT_AT_FSYNC] = {"fsync", "before each fsync of a file or folder of a checkpoint"},
    [FAULT_AT_RENAME] = {"rename", "before each rename of a file or folder of a checkpoint"},
};

const char *fault_kind_name(enum fault_kind kind) {
    return kinds[kind].name;
}

const char *fault_kind_help(enum fault_kind kind) {
    return kinds[kind].help;
}

const char *fault_phase_name(enum fault_phase phase) {
    return phases[phase].name;
}

const char *fault_phase_help(enum fault_phase phase) {
    return phases[phase].help;
}

bool fault_fits(enum fault_kind kind, enum fault_phase phase) {
    switch (kind) {
    case FAULT_NAN:
        return phase == FAULT_AT_GRADIENTS || phase == FAULT_AT_WEIGHTS || phase == FAULT_AT_RESULTS;
    case FAULT_FLIP:
        return phase == FAULT_AT_GRADIENTS || phase == FAULT_AT_WEIGHTS;
    case FAULT_ENOSPC:
        return phase == FAULT_AT_WRITE || phase == FAULT_AT_RENAME;
    case FAULT_EIO:
        return phase == FAULT_AT_WRITE || phase == FAULT_AT_FSYNC || phase == FAULT_AT_RENAME;
    case FAULT_STUCK_FSYNC:
        return phase == FAULT_AT_FSYNC;
    default:
        return true;
    }
}
