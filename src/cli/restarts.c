// When a failed run is restarted. See launch.h.
#include "cli/launch.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/lifeline.h"
#include "base/log.h"
#include "base/memory.h"
#include "formats/contents.h"
#include "store/checkpoint.h"

#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- runs without progress ----

// Time since a run last made progress.

double stall_look(struct stall *stall, int64_t beats) {
    double now = clock_now(stall->clock), passed = stall->looked > 0 ? now - stall->looked : 0;
    stall->waited = beats == stall->beats ? stall->waited + fmin(passed, 2 * STALL_LOOK_SECONDS) : 0;
    stall->beats = beats;
    stall->looked = now;
    return stall->waited;
}

char *stall_describe(const struct lifeline_state *state, double seconds) {
    OWNED_BY(buffer_free) struct buffer place = {0};
    if (state->iteration >= 0)
        buffer_printf(&place, " after iteration %lld", (long long)state->iteration);
    else if (!state->is_attached)
        buffer_append_string(&place, " and has not started");
    if (state->phase[0])
        buffer_printf(&place, ", %s", state->phase);
    char *text = memory_printf("the run has completed nothing for %.0f s%s; ending it (--progress-timeout-minutes)",
                               seconds, buffer_string(&place));
    return text;
}

// ---- the state between jobs ----

// The state of a supervisor between attempts.

enum { STATE_LIMIT_BYTES = 1 << 18 };

// A count whose exact value no longer matters.
static int64_t counted(int count) {
    return count < RESTARTS_MOST ? count : RESTARTS_MOST;
}

void restarts_state_write(const struct restarts_state *state, struct buffer *out) {
    const struct restarts *restarts = &state->restarts;
    struct json_writer json = {.out = out};
    json_begin_object(&json);
    json_put_string(&json, "job", state->job);
    json_put_bool(&json, "is_running", state->is_running);
    json_put_string(&json, "progress", state->progress);
    json_put_int(&json, "place", restarts->place);
    json_put_int(&json, "at_one_place", counted(restarts->at_one_place));
    json_put_int(&json, "unstarted", counted(restarts->unstarted));
    json_put_int(&json, "in_vain", counted(restarts->in_vain));
    json_key(&json, "times");
    json_begin_array(&json);
    for (int64_t i = 0; i < restarts->count; i++)
        json_double(&json, restarts->times[i]);
    json_end_array(&json);
    json_end_object(&json);
    buffer_append_byte(out, '\n');
}

static int read_text(const struct json *root, const char *key, char *text, size_t size) {
    const char *value;
    TRY(json_get_string(root, key, &value));
    if (strlen(value) >= size)
        return error_set("\"%s\" is longer than %zu bytes", key, size - 1);
    snprintf(text, size, "%s", value);
    return 0;
}

static int read_count(const struct json *root, const char *key, int *count) {
    int64_t value;
    TRY(json_get_int(root, key, &value));
    if (value < 0 || value > RESTARTS_MOST)
        return error_set("\"%s\" is %" PRId64 ", which is not from 0 to %d", key, value, RESTARTS_MOST);
    *count = (int)value;
    return 0;
}

static int read_fields(struct restarts_state *state, const struct json *root) {
    struct restarts *restarts = &state->restarts;
    const struct json *running = json_member(root, "is_running"), *times = json_member(root, "times");
    TRY(read_text(root, "job", state->job, sizeof state->job));
    TRY(read_text(root, "progress", state->progress, sizeof state->progress));
    TRY(json_get_int(root, "place", &restarts->place));
    TRY(read_count(root, "at_one_place", &restarts->at_one_place));
    TRY(read_count(root, "unstarted", &restarts->unstarted));
    TRY(read_count(root, "in_vain", &restarts->in_vain));
    if (!running || (running->type != JSON_TRUE && running->type != JSON_FALSE))
        return error_set("\"is_running\" is not true or false");
    state->is_running = running->type == JSON_TRUE;
    if (!times || times->type != JSON_ARRAY || times->count > RESTARTS_MOST)
        return error_set("\"times\" is not an array of at most %d numbers", RESTARTS_MOST);
    for (size_t i = 0; i < times->count; i++) {
        if (times->items[i].type != JSON_NUMBER || !isfinite(times->items[i].number))
            return error_set("\"times\" has something that is not a number");
        restarts->times[restarts->count++] = times->items[i].number;
    }
    return 0;
}

int restarts_state_read(struct restarts_state *state, const char *text, size_t length, const char *name) {
    OWNED struct json *root = NULL;
    *state = (struct restarts_state){0};
    TRY(json_parse(&root, text, length, name));
    int status = read_fields(state, root);
    if (status < 0)
        error_set("%s is not a state of restarts: %s", name, error_message());
    return status;
}

// A damaged file loses only the counts so far, never the run.
static void read_state(const struct restarts_file *file, struct restarts_state *state) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    bool is_read = file_is_regular(file->path) && file_read_all(file->path, STATE_LIMIT_BYTES, &text) == 0 &&
                   restarts_state_read(state, buffer_string(&text), text.length, file->path) == 0;
    if (!is_read && file_exists(file->path))
        log_warn("counting restarts from the beginning: %s", error_message());
    error_clear();
    if (!is_read || strcmp(state->job, file->job) != 0)
        *state = (struct restarts_state){0};
    snprintf(state->job, sizeof state->job, "%s", file->job);
    // Fields that may differ between calls of a job.
    state->restarts.most = file->most;
    state->restarts.window_seconds = file->window_seconds;
    state->restarts.continues_stopped = true;
}

static int write_state(const struct restarts_file *file, const struct restarts_state *state) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    restarts_state_write(state, &text);
    TRY(file_make_parent(file->path));
    return file_write_here(file->path, text.data, text.length);
}

// Progress of the run: the iteration of its newest checkpoint, or a hash of its journal.
static void find_progress(const struct restarts_file *file, char *text, size_t size) {
    char hex[65];
    snprintf(text, size, "%s", "none");
    int64_t iteration = restarts_checkpoint(file->save, file->fallback);
    if (iteration >= 0)
        snprintf(text, size, "%" PRId64, iteration);
    else if (file->journal && file_is_regular(file->journal) && sha256_file(file->journal, hex) == 0)
        snprintf(text, size, "%s", hex);
    error_clear();
}

// Checkpoints of earlier iterations are not progress.
static bool is_further(const struct restarts_file *file, const char *before, const char *now) {
    if (!file->save)
        return strcmp(now, before) != 0;
    return strcmp(now, "none") != 0 &&
           (strcmp(before, "none") == 0 || strtoll(now, NULL, 10) > strtoll(before, NULL, 10));
}

static char *lifeline_of(const struct restarts_file *file) {
    return memory_printf("%s.lifeline", file->path);
}

static void tell(const struct restarts_file *file, const struct restarts *restarts, enum restarts_decision decision,
                 const struct restarts_attempt *attempt, const char *progress) {
    int64_t checkpoint = file->save && strcmp(progress, "none") != 0 ? strtoll(progress, NULL, 10) : -1;
    OWNED char *text = NULL;
    if (!file->journal)
        text = restarts_describe(restarts, decision, attempt, checkpoint);
    else if (decision == RESTARTS_STUCK)
        text = memory_printf("%d attempts made no progress; giving up", restarts->at_one_place);
    if (text && decision == RESTARTS_AGAIN)
        log_warn("%s", text);
    else if (text)
        log_error("%s", text);
}

// Decides on the attempt that is running according to the state, and tells the user.
static void decide(const struct restarts_file *file, struct restarts_state *state, int exit_code,
                   struct restarts_end *end) {
    char progress[sizeof state->progress], *path = lifeline_of(file);
    struct lifeline_state line;
    find_progress(file, progress, sizeof progress);
    // Only train reports. Unknown progress must not look like a failed start.
    bool is_told = lifeline_read(path, &line);
    struct restarts_attempt attempt = {.exit_code = exit_code,
                                       .has_started = !is_told || file->journal || line.is_attached,
                                       .reached = is_told ? line.iteration : -1,
                                       .has_new_checkpoint = is_further(file, state->progress, progress),
                                       .cannot_save = is_told && line.cannot_save,
                                       .now = clock_wall_seconds()};
    bool can_resume = file->save || file->journal || (is_told && attempt.reached < 0);
    enum restarts_decision decision = restarts_decide(&state->restarts, &attempt, &end->delay);
    // A run that stores nothing would start over each time.
    if (decision == RESTARTS_AGAIN && !can_resume)
        decision = RESTARTS_NEVER;
    tell(file, &state->restarts, decision, &attempt, progress);
    free(path);
    end->decision = decision;
    end->exit_code = restarts_exit_code(decision, exit_code);
    // If the next failure would be the last one, other machines may be better.
    bool is_last = state->restarts.at_one_place >= RESTARTS_AT_ONE_PLACE - 1 ||
                   state->restarts.unstarted >= RESTARTS_UNSTARTED - 1;
    end->is_nothing_lost = is_told && attempt.reached < 0 && !file->journal && !is_last;
    if (file->keeps_memory && decision == RESTARTS_AGAIN && attempt.reached >= 0 &&
        restarts_trust_memory(&state->restarts, &attempt))
        end->is_nothing_lost = true;
    state->is_running = false;
}

int restarts_file_begin(const struct restarts_file *file, enum restarts_decision *decision) {
    struct restarts_state state;
    *decision = RESTARTS_AGAIN;
    read_state(file, &state);
    if (state.is_running) {
        struct restarts_end end = {0};
        decide(file, &state, EXIT_CODE_PEER_LOST, &end);
        *decision = end.decision;
    }
    state.is_running = *decision == RESTARTS_AGAIN;
    find_progress(file, state.progress, sizeof state.progress);
    TRY(write_state(file, &state));
    OWNED char *path = lifeline_of(file);
    if (!lifeline_make(path))
        log_debug("cannot create %s", path);
    return 0;
}

int restarts_file_end(const struct restarts_file *file, int exit_code, struct restarts_end *end) {
    struct restarts_state state;
    *end = (struct restarts_end){0};
    read_state(file, &state);
    decide(file, &state, exit_code, end);
    return write_state(file, &state);
}

// ---- decisions ----

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
    OWNED char *path = NULL;
    int64_t iteration = -1;
    struct contents contents;
    struct checkpoint_find find = {.folder = folder, .step = -1, .allow_fallback = true, .skip_checksums = true};
    if (folder && contents_look(&contents, folder, -1) == 0 && contents.owner == OWNER_OURS &&
        contents.iteration >= 0 && checkpoint_find(&find, &path, &iteration) < 0)
        iteration = -1;
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
