// When a failed run is restarted. See restarts.h.
#include "cli/restarts.h"
#include "base/error.h"
#include "base/memory.h"
#include "formats/contents.h"
#include "store/checkpoint.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double LONGEST_DELAY = 60;

// A wrong flag, numbers that are not finite, bad data or a requested stop will be the same at the next attempt.
static bool may_retry(int exit_code) {
    switch (exit_code) {
    case EXIT_CODE_OK:
    case EXIT_CODE_USAGE:
    case EXIT_CODE_STOPPED:
    case EXIT_CODE_NOT_FINITE:
    case EXIT_CODE_OUT_OF_MEMORY:
    case EXIT_CODE_BAD_DATA:
    case EXIT_CODE_NO_CHECKPOINT:
    case EXIT_CODE_NO_PROGRESS:
        return false;
    default:
        return true;
    }
}

static void forget_old(struct restarts *restarts, double now) {
    int64_t old = 0;
    // A clock that was set back must not keep restarts in the window for longer.
    for (int64_t i = 0; i < restarts->count; i++)
        restarts->times[i] = fmin(restarts->times[i], now);
    while (old < restarts->count && now - restarts->times[old] > restarts->window_seconds)
        old++;
    restarts->count -= old;
    memmove(restarts->times, restarts->times + old, sizeof restarts->times[0] * (size_t)restarts->count);
}

enum restarts_decision restarts_decide(struct restarts *restarts, const struct restarts_attempt *attempt,
                                       double *delay) {
    *delay = 0;
    // The next job of a chain has not failed yet.
    if (attempt->exit_code == EXIT_CODE_OK)
        restarts->at_one_place = restarts->unstarted = restarts->in_vain = 0;
    bool was_stopped = restarts->continues_stopped && attempt->exit_code == EXIT_CODE_STOPPED;
    if (!may_retry(attempt->exit_code) && !was_stopped)
        return RESTARTS_NEVER;
    restarts->in_vain = attempt->has_new_checkpoint ? 0 : restarts->in_vain + 1;
    if (restarts->in_vain > 0)
        *delay = fmin(LONGEST_DELAY, exp2(restarts->in_vain - 1));
    if (restarts->most == 0)
        return RESTARTS_TOO_OFTEN;
    // Nothing was lost, and the fault is not the run's.
    restarts->unstarted = attempt->has_started ? 0 : restarts->unstarted + 1;
    if (!attempt->has_started)
        return restarts->unstarted < RESTARTS_UNSTARTED ? RESTARTS_AGAIN : RESTARTS_NO_START;
    bool is_same = restarts->at_one_place > 0 && attempt->reached == restarts->place && !attempt->has_new_checkpoint;
    restarts->at_one_place = is_same ? restarts->at_one_place + 1 : 1;
    restarts->place = attempt->reached;
    forget_old(restarts, attempt->now);
    bool is_full = restarts->count >= restarts->most || restarts->count >= RESTARTS_MOST;
    if (is_full && !was_stopped)
        return RESTARTS_TOO_OFTEN;
    if (restarts->at_one_place >= RESTARTS_AT_ONE_PLACE)
        return RESTARTS_STUCK;
    if (!was_stopped)
        restarts->times[restarts->count++] = attempt->now;
    return RESTARTS_AGAIN;
}

// "at iteration 12", "before its first iteration".
static const char *place_of(const struct restarts_attempt *attempt, char *text, size_t size) {
    snprintf(text, size, "at iteration %llu", (unsigned long long)attempt->reached + 1);
    return attempt->reached >= 0 ? text : "before its first iteration";
}

static char *describe_restart(const struct restarts *restarts, const struct restarts_attempt *attempt,
                              int64_t checkpoint) {
    char where[48], from[64];
    snprintf(from, sizeof from, "from iteration %lld%s", (long long)checkpoint,
             attempt->resumes_from_memory ? " in host memory" : "");
    const char *start = checkpoint < 0 ? "from the beginning" : from;
    if (restarts->continues_stopped && attempt->exit_code == EXIT_CODE_STOPPED)
        return memory_printf("the run was stopped %s; it continues %s", place_of(attempt, where, sizeof where), start);
    if (!attempt->has_started)
        return memory_printf("the run ended with code %d before its ranks connected; starting it again",
                             attempt->exit_code);
    return memory_printf("the run failed with code %d %s; starting again %s (restart %lld of %lld within %.0f minutes)",
                         attempt->exit_code, place_of(attempt, where, sizeof where), start, (long long)restarts->count,
                         (long long)restarts->most, restarts->window_seconds / 60);
}

char *restarts_describe(const struct restarts *restarts, enum restarts_decision decision,
                        const struct restarts_attempt *attempt, int64_t checkpoint) {
    char where[48];
    const char *place = place_of(attempt, where, sizeof where);
    switch (decision) {
    case RESTARTS_AGAIN:
        return describe_restart(restarts, attempt, checkpoint);
    case RESTARTS_STUCK:
        return memory_printf("the run %s %d times %s without a new checkpoint, with code %d; giving up",
                             attempt->exit_code == EXIT_CODE_STOPPED ? "stopped" : "failed", restarts->at_one_place,
                             place, attempt->exit_code);
    case RESTARTS_TOO_OFTEN:
        return restarts->most == 0
                   ? NULL
                   : memory_printf("the run failed with code %d %s, after %lld restarts within %.0f minutes; giving up "
                                   "(--max-restarts; --max-requeues on Slurm)",
                                   attempt->exit_code, place, (long long)restarts->count,
                                   restarts->window_seconds / 60);
    case RESTARTS_NO_START:
        return memory_printf("the run did not start in %d attempts; giving up", restarts->unstarted);
    case RESTARTS_NEVER:
        break;
    }
    return NULL;
}

int restarts_exit_code(enum restarts_decision decision, int exit_code) {
    return decision == RESTARTS_STUCK || decision == RESTARTS_NO_START ? EXIT_CODE_NO_PROGRESS : exit_code;
}

static int64_t newest_in(const char *folder) {
    char *path = NULL;
    int64_t iteration = -1;
    struct contents contents;
    struct checkpoint_find find = {.folder = folder, .step = -1, .allow_fallback = true, .skip_checksums = true};
    if (folder && contents_look(&contents, folder, -1) == 0 && contents.owner == OWNER_OURS &&
        contents.iteration >= 0 && checkpoint_find(&find, &path, &iteration) < 0)
        iteration = -1;
    free(path);
    return iteration;
}

int64_t restarts_checkpoint(const char *save, const char *fallback) {
    int64_t first = newest_in(save), second = newest_in(fallback);
    return first > second ? first : second;
}

bool restarts_trust_memory(const struct restarts *restarts, const struct restarts_attempt *attempt) {
    int code = attempt->exit_code;
    bool is_lost = code == EXIT_CODE_PEER_LOST || code == EXIT_CODE_HANG || (code > 128 && code < 128 + NSIG);
    bool is_first = restarts->at_one_place <= 1;
    if (is_lost)
        return is_first;
    bool failed_to_start = attempt->reached < 0 && (is_first || !attempt->has_started);
    return (failed_to_start || attempt->cannot_save) && code != EXIT_CODE_CORRUPT;
}
