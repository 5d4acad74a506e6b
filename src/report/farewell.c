// The last event of a run that fails. See report.h.
#include "report/report.h"

#include "base/clock.h"
#include "base/crash.h"
#include "base/lifeline.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/interrupt.h"
#include "base/watchdog.h"
#include "report/metrics_file.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

// Time for the last message of a dying process to be written, since the file system may be the cause of death; longer
// with a command of --on-event.
static const double DYING_SECONDS = 1, COMMAND_SECONDS = 4;
// All ranks notice a lost or hanging rank, or a loss that is not finite. The reporting rank reports first, then one of
// these ranks, if none has.
enum { LAST_SPEAKER = 7 };
static const double TURN_SECONDS = 0.2;

static const char *cause_of(enum exit_code code) {
    return code == EXIT_CODE_HANG ? "hang" : code == EXIT_CODE_NOT_FINITE ? "nan" : NULL;
}

static void tell_elsewhere(const struct farewell *farewell, const struct metrics_event *event) {
    const char *path = farewell->metrics_path;
    if (path && metrics_file_add_event(path, event, farewell->rank == 0) < 0)
        log_debug("%s", error_message());
    // Without the file, ranks would not know of each other's messages.
    if (path || farewell->rank == 0)
        on_event_tell(farewell->on_event, event);
    if (metrics_event_is_end(event->name))
        lifeline_told_end();
}

static void tell(const struct farewell *farewell, const struct metrics_event *event, bool is_known) {
    if (farewell->report && is_known)
        report_known_event(farewell->report, event);
    else if (farewell->report)
        report_event(farewell->report, event);
    else if (!is_known)
        tell_elsewhere(farewell, event);
}

// Waits for this rank's turn to report; false if it does not report.
static bool awaits_turn(const struct farewell *farewell, enum exit_code code) {
    bool is_everybodys = code == EXIT_CODE_PEER_LOST || code == EXIT_CODE_HANG || code == EXIT_CODE_NOT_FINITE;
    if (farewell->rank == 0 || !is_everybodys || watchdog_has_fired())
        return true;
    if (farewell->rank <= LAST_SPEAKER)
        clock_pause(farewell->clock, TURN_SECONDS * farewell->rank);
    return farewell->rank <= LAST_SPEAKER;
}

void farewell_say(struct farewell *farewell, enum exit_code code, const char *text) {
    // A user with wrong flags sees the message.
    if (atomic_flag_test_and_set(&farewell->is_said) || code == EXIT_CODE_USAGE || !awaits_turn(farewell, code))
        return;
    char host[256], *full;
    process_host(host, sizeof host);
    if (farewell->rank > 0)
        full = memory_printf("rank %d on %s: %s", farewell->rank, host, text);
    else
        full = memory_string(text);
    // The text may be the thread's own message, which this call sets aside.
    struct error_note *note = error_take();
    bool is_stopped = code == EXIT_CODE_STOPPED || (code > 128 && code <= 128 + 64);
    bool is_known = farewell->ranks > 1 && farewell->metrics_path &&
                    metrics_file_has_end(farewell->metrics_path, farewell->started);
    struct metrics_event event = {
        .name = cause_of(code), .iteration = atomic_load(&farewell->iteration), .text = full, .exit_code = (int)code};
    if (event.name)
        tell(farewell, &event, is_known);
    event.name = is_stopped ? "stopped" : "failed";
    tell(farewell, &event, is_known);
    free(full);
    error_clear();
    if (note)
        (void)error_give(note);
}

struct farewell_words {
    struct farewell *farewell;
    enum exit_code code;
    char *text;
};

static void *say_words(void *opaque) {
    struct farewell_words *words = opaque;
    farewell_say(words->farewell, words->code, words->text);
    on_event_wait(words->farewell->on_event, COMMAND_SECONDS);
    return NULL;
}

// Waits in short naps: while a virtual machine is paused the thread makes no progress either; the pause costs one nap.
static void await_thread(pthread_t thread, double seconds) {
    const double nap = 0.1;
    int status = ETIMEDOUT;
    for (double waited = 0; waited < seconds && status == ETIMEDOUT; waited += nap) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        int64_t nanoseconds = until.tv_nsec + (int64_t)(nap * 1e9);
        until.tv_sec += (time_t)(nanoseconds / 1000000000);
        until.tv_nsec = (long)(nanoseconds % 1000000000);
        status = pthread_timedjoin_np(thread, NULL, &until);
    }
}

// A dying thread may hold a lock that is needed here, or the file system may hang, so another thread does it and may be
// abandoned: the process ends then, and nothing is freed.
static void witness(void *context, enum exit_code code, const char *text) {
    struct farewell_words *words = memory_alloc(sizeof *words);
    *words = (struct farewell_words){.farewell = context, .code = code, .text = memory_string(text)};
    pthread_t thread;
    if (!thread_start(&thread, say_words, words))
        return;
    double seconds = DYING_SECONDS + (words->farewell->on_event ? COMMAND_SECONDS : 0);
    if (words->farewell->rank <= LAST_SPEAKER && !watchdog_has_fired())
        seconds += TURN_SECONDS * words->farewell->rank;
    await_thread(thread, seconds);
}

static const char *name_of(int number) {
    return number == SIGSEGV ? "SIGSEGV" : number == SIGBUS ? "SIGBUS" : number == SIGABRT ? "SIGABRT" : "a fault";
}

// For users, on stderr: the log of a crashing rank may end long before.
static void tell_crash(const char *where, int number) {
    char text[512];
    int length = snprintf(text, sizeof text, "error: bevatron: this process was ended by signal %d (%s)%s%s\n", number,
                          name_of(number), *where ? " at " : "", where);
    if (length > 0 && (size_t)length < sizeof text)
        (void)!write(STDERR_FILENO, text, (size_t)length);
}

// In the handler of a fault: one line, written without memory, locks or streams. snprintf needs none of them for whole
// numbers and strings.
static void hear_crash(void *context, int number) {
    const struct farewell *farewell = context;
    char line[512], where[256];
    tell_crash(run_position_text(where, sizeof where), number);
    struct timespec now;
    // Opening a pipe without a reader would block.
    int flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NONBLOCK;
    int file =
        farewell->metrics_path ? open(farewell->metrics_path, flags | appender_link_flag(farewell->metrics_path)) : -1;
    if (file < 0)
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    int length =
        snprintf(line, sizeof line,
                 "{\"kind\":\"event\",\"time\":%lld.%03d,\"iteration\":%lld,\"event\":\"failed\",\"text\":\"rank %d "
                 "was ended by signal %d (%s)%s%s\",\"exit_code\":%d}\n",
                 (long long)now.tv_sec, (int)(now.tv_nsec / 1000000), (long long)atomic_load(&farewell->iteration),
                 farewell->rank, number, name_of(number), *where ? " at " : "", where, 128 + number);
    (void)!write(file, line, (size_t)length);
    close(file);
}

void farewell_open(struct farewell *farewell) {
    farewell->started = clock_wall_seconds();
    atomic_flag_clear(&farewell->is_said);
    die_set_witness(witness, farewell);
    crash_watch(hear_crash, farewell);
}

void farewell_close(struct farewell *farewell) {
    (void)farewell;
    crash_watch(NULL, NULL);
    die_set_witness(NULL, NULL);
}
