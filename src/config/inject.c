// Faults as text. See inject.h.
#include "config/inject.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/rng.h"
#include "base/words.h"
#include "config/validate.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A part of the text: a kind, a key or a value.
struct inject_word {
    const char *at;
    size_t length;
};

// Ends every error about the syntax.
#define INJECT_REMEDY "`bevatron train --inject list` lists kinds, phases and keys"

static int refuse(const char *text, const char *at, const char *what, const char *remedy) {
    return error_set_code(EXIT_CODE_USAGE, "--inject %s, character %zu: %s; %s", text, (size_t)(at - text) + 1, what,
                          remedy);
}

// Equal up to - and _, which users confuse.
static bool is_word(struct inject_word word, const char *name) {
    size_t at = 0;
    for (;; name++) {
        while (at < word.length && (word.at[at] == '-' || word.at[at] == '_'))
            at++;
        while (*name == '-' || *name == '_')
            name++;
        if (at == word.length || *name == '\0')
            return at == word.length && *name == '\0';
        if (word.at[at++] != *name)
            return false;
    }
}

static const char *kind_name(int index) {
    return fault_kind_name((enum fault_kind)index);
}

static const char *phase_name(int index) {
    return fault_phase_name((enum fault_phase)index);
}

enum inject_key { KEY_RANK, KEY_STEP, KEY_PHASE, KEY_CALL, KEY_TIMES, KEY_SECONDS, KEY_EVERY_START, KEY_COUNT };

static const char *key_name(int index) {
    static const char *const names[KEY_COUNT] = {[KEY_RANK] = "rank",
                                                 [KEY_STEP] = "step",
                                                 [KEY_PHASE] = "phase",
                                                 [KEY_CALL] = "call",
                                                 [KEY_TIMES] = "times",
                                                 [KEY_SECONDS] = "seconds",
                                                 [KEY_EVERY_START] = "every-start"};
    return names[index];
}

// The index of the name; -1 after an error that proposes the nearest one. `name` is a table of names as a function of
// the index.
static int find_name(const char *text, struct inject_word word, const char *what, const char *(*name)(int), int count) {
    struct nearest nearest = nearest_begin(word.at, word.length);
    for (int i = 0; i < count; i++) {
        if (is_word(word, name(i)))
            return i;
        nearest_consider(&nearest, name(i));
    }
    char *said = memory_printf("\"%.*s\" is not a %s%s%s%s", (int)word.length, word.at, what,
                               nearest.best ? "; did you mean \"" : "", nearest.best ? nearest.best : "",
                               nearest.best ? "\"" : "");
    int result = refuse(text, word.at, said, INJECT_REMEDY);
    free(said);
    return result;
}

static bool read_int(struct inject_word word, int64_t least, int64_t *value) {
    char digits[32];
    if (word.length == 0 || word.length >= sizeof digits)
        return false;
    memcpy(digits, word.at, word.length);
    digits[word.length] = '\0';
    return number_read_int(digits, value) && *value >= least;
}

static int read_rank(const char *text, struct inject_word word, struct fault *fault) {
    int64_t rank;
    fault->rank = -1;
    if (is_word(word, "all"))
        return 0;
    if (!read_int(word, 0, &rank) || rank > INT32_MAX)
        return refuse(text, word.at, "this is not a rank", "give its number, from 0 on, or all");
    fault->rank = (int)rank;
    return 0;
}

// "7", "7-20".
static int read_steps(const char *text, struct inject_word word, struct fault *fault) {
    const char *dash = memchr(word.at, '-', word.length);
    struct inject_word first = word, last = word;
    if (dash) {
        first.length = (size_t)(dash - word.at);
        last = (struct inject_word){dash + 1, word.length - first.length - 1};
    }
    if (!read_int(first, 0, &fault->first) || !read_int(last, fault->first, &fault->last))
        return refuse(text, word.at, "this is not an iteration",
                      "give its number, 0 for the start of the run, or a range like 7-20");
    fault->is_anywhere = false;
    return 0;
}

static int read_times(const char *text, struct inject_word word, struct fault *fault) {
    if (is_word(word, "all")) {
        fault->times = FAULT_ENDLESS;
        return 0;
    }
    if (!read_int(word, 1, &fault->times))
        return refuse(text, word.at, "this is not how many times it fires", "give a number from 1 on, or all");
    return 0;
}

static bool takes_seconds(enum fault_kind kind) {
    return kind == FAULT_SLOW || kind == FAULT_STUCK_FSYNC || kind == FAULT_CLOCK;
}

static int read_seconds(const char *text, struct inject_word word, struct fault *fault) {
    const double most = 1e9;
    char number[32];
    double value = 0;
    bool is_short = word.length < sizeof number;
    if (!takes_seconds(fault->kind))
        return refuse(text, word.at, "this kind of fault takes no time", "leave out seconds");
    memcpy(number, word.at, is_short ? word.length : 0);
    number[is_short ? word.length : 0] = '\0';
    bool is_number = number_read_double(number, &value) && value <= most && value >= -most;
    if (!is_number || (value < 0 && fault->kind != FAULT_CLOCK))
        return refuse(text, word.at, "this is not a number of seconds", "give a number like 0.5");
    fault->seconds = value;
    return 0;
}

static int read_value(const char *text, enum inject_key key, struct inject_word value, struct fault *fault) {
    switch (key) {
    case KEY_RANK:
        return read_rank(text, value, fault);
    case KEY_STEP:
        return read_steps(text, value, fault);
    case KEY_PHASE: {
        int phase = find_name(text, value, "phase", phase_name, FAULT_PHASES);
        if (phase < 0)
            return -1;
        fault->phase = (enum fault_phase)phase;
        if (!fault_fits(fault->kind, fault->phase))
            return refuse(text, value.at, "this kind of fault cannot happen in this phase", INJECT_REMEDY);
        return 0;
    }
    case KEY_CALL:
        if (!read_int(value, 1, &fault->call))
            return refuse(text, value.at, "this is not the number of a call", "give a number from 1 on");
        return 0;
    case KEY_TIMES:
        return read_times(text, value, fault);
    case KEY_SECONDS:
        return read_seconds(text, value, fault);
    case KEY_EVERY_START:
    case KEY_COUNT:
        break;
    }
    return 0;
}

static int read_part(const char *text, struct inject_word part, struct fault *fault) {
    const char *equals = memchr(part.at, '=', part.length);
    struct inject_word name = {part.at, equals ? (size_t)(equals - part.at) : part.length};
    int key = find_name(text, name, "key", key_name, KEY_COUNT);
    if (key < 0)
        return -1;
    if (key == KEY_EVERY_START) {
        fault->every_start = true;
        return equals ? refuse(text, equals, "every-start has no value", "leave out what follows it") : 0;
    }
    if (!equals)
        return refuse(text, part.at + part.length, "the value is missing", "give KEY=VALUE, e.g. rank=1");
    return read_value(text, (enum inject_key)key,
                      (struct inject_word){equals + 1, (size_t)(part.at + part.length - equals) - 1}, fault);
}

static enum fault_phase usual_phase(enum fault_kind kind) {
    switch (kind) {
    case FAULT_NAN:
        return FAULT_AT_GRADIENTS;
    case FAULT_FLIP:
        return FAULT_AT_WEIGHTS;
    case FAULT_ENOSPC:
    case FAULT_EIO:
        return FAULT_AT_WRITE;
    case FAULT_STUCK_FSYNC:
        return FAULT_AT_FSYNC;
    default:
        return FAULT_AT_STEP;
    }
}

static double usual_seconds(enum fault_kind kind) {
    return kind == FAULT_SLOW ? 0.1 : kind == FAULT_CLOCK ? 3600 : FAULT_FOREVER;
}

int inject_parse(const char *text, struct fault *fault) {
    size_t length = strlen(text);
    struct inject_word part = {text, strcspn(text, ":")};
    *fault = (struct fault){.is_anywhere = true, .last = INT64_MAX, .call = 1, .times = 1};
    if (length >= sizeof fault->text)
        return error_set_code(EXIT_CODE_USAGE, "--inject %.40s… is longer than %d characters; leave something out",
                              text, FAULT_TEXT_BYTES - 1);
    for (size_t i = 0; i < length; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return error_set_code(EXIT_CODE_USAGE,
                                  "--inject, character %zu: a fault has no spaces and no special characters; "
                                  "give several faults with several --inject",
                                  i + 1);
    int kind = find_name(text, part, "kind of fault", kind_name, FAULT_KINDS);
    if (kind < 0)
        return -1;
    fault->kind = (enum fault_kind)kind;
    fault->phase = usual_phase(fault->kind);
    fault->seconds = usual_seconds(fault->kind);
    while (part.at[part.length] == ':') {
        part.at += part.length + 1;
        part.length = strcspn(part.at, ":");
        TRY(read_part(text, part, fault));
    }
    // Without a step, a phase of iterations does not mean the start.
    bool is_of_start = fault->phase == FAULT_AT_RENDEZVOUS || fault->phase == FAULT_AT_LOAD;
    if (fault->is_anywhere)
        fault->first = is_of_start ? 0 : 1;
    else if (is_of_start && fault->first > 0)
        return refuse(text, text + length, "this phase comes before the first iteration",
                      "leave out step, or give step=0");
    memcpy(fault->text, text, length + 1);
    return 0;
}

int inject_open(const struct config *config, int rank) {
    struct fault *faults;
    int64_t count;
    TRY(inject_list(config, &faults, &count));
    char *record = config->run.save ? file_join(config->run.save, INJECT_RECORD) : NULL;
    int status = fault_open(faults, count, rank, record);
    free(record);
    free(faults);
    return status;
}

static void describe_names(struct buffer *out, const char *title, const char *(*name)(int), const char *(*help)(int),
                           int count) {
    buffer_printf(out, "%s\n", title);
    for (int i = 0; i < count; i++)
        buffer_printf(out, "  %-14s %s\n", name(i), help(i));
}

static const char *kind_help(int index) {
    return fault_kind_help((enum fault_kind)index);
}

static const char *phase_help(int index) {
    return fault_phase_help((enum fault_phase)index);
}

static const char *key_help(int index) {
    static const char *const help[KEY_COUNT] = {
        [KEY_RANK] = "the rank it happens on, or all; default 0",
        [KEY_STEP] = "the iteration, or a range like 7-20 in each of which it happens; default: the first that "
                     "reaches the phase. For files of a checkpoint, its iteration",
        [KEY_PHASE] = "one of the phases above",
        [KEY_CALL] = "the N-th time that the iteration reaches the phase; default 1",
        [KEY_TIMES] = "how many times in a row, or all; default 1",
        [KEY_SECONDS] = "for slow, stuck-fsync and clock",
        [KEY_EVERY_START] = "again after a restart; without it a fault happens once, see " INJECT_RECORD " in --save",
    };
    return help[index];
}

void inject_describe(struct buffer *out) {
    buffer_append_string(out, "--inject KIND[:KEY=VALUE]…[:every-start], e.g. "
                              "--inject kill:rank=1:step=7:phase=allreduce --allow-injected-faults\n\n");
    describe_names(out, "Kinds:", kind_name, kind_help, FAULT_KINDS);
    describe_names(out, "\nPhases:", phase_name, phase_help, FAULT_PHASES);
    describe_names(out, "\nKeys:", key_name, key_help, KEY_COUNT);
}

// ---- the list of a configuration ----

// The list of faults of a configuration: given ones, and those drawn from --inject-seed. Drawing is a pure function of
// the flags, so that all ranks, and all starts of a run, have the same faults.

// Kinds after which a restarted run ends with the same weights, and which do not depend on the connections of ranks.
static const char *const usual_kinds[] = {"kill", "segv",   "abort", "stop",       "hang",
                                          "slow", "enospc", "eio",   "stuck-fsync"};

// Phases that every rank of every layout reaches in each iteration; the last ones only if the iteration is saved.
static const char *const phases[] = {"step",      "data",  "forward", "backward", "gradients",
                                     "optimizer", "agree", "write",   "fsync",    "rename"};
enum { PHASES = sizeof phases / sizeof phases[0], FILE_PHASES = 3, ALONE_PHASES = PHASES - FILE_PHASES - 1 };

struct draw {
    uint64_t seed;
    uint32_t number, word;
};

// Uniform in [0, count).
static int64_t draw_below(struct draw *draw, int64_t count) {
    struct philox bits = philox4x32(draw->seed, draw->number, draw->word++, 0, 0x1F);
    uint64_t value = (uint64_t)bits.word[0] << 32 | bits.word[1];
    return count > 1 ? (int64_t)(value % (uint64_t)count) : 0;
}

static const char *draw_kind(struct draw *draw, const struct string_list *given) {
    int64_t usual = sizeof usual_kinds / sizeof usual_kinds[0];
    return given->count > 0 ? given->items[draw_below(draw, given->count)] : usual_kinds[draw_below(draw, usual)];
}

static bool is_of_files(enum fault_kind kind) {
    return kind == FAULT_ENOSPC || kind == FAULT_EIO || kind == FAULT_STUCK_FSYNC;
}

// One of the saved iterations, if there are any.
static int64_t draw_save(struct draw *draw, const struct config *config) {
    int64_t saves = config->run.save_interval > 0 ? config->run.train_iters / config->run.save_interval : 0;
    return saves > 0 ? config->run.save_interval * (1 + draw_below(draw, saves)) : config->run.train_iters;
}

static int draw_fault(const struct config *config, uint32_t number, struct fault *fault) {
    struct draw draw = {.seed = (uint64_t)config->machine.inject_seed, .number = number};
    const char *kind = draw_kind(&draw, &config->machine.inject_kinds);
    char text[FAULT_TEXT_BYTES];
    TRY(inject_parse(kind, fault));
    int64_t rank = draw_below(&draw, config->machine.world_size), step = 1 + draw_below(&draw, config->run.train_iters);
    const char *phase = fault_phase_name(fault->phase);
    bool is_alone = config->machine.world_size == 1;
    if (is_of_files(fault->kind)) {
        // The first rank writes in every layout.
        rank = 0;
        step = draw_save(&draw, config);
    } else if (fault->kind != FAULT_NAN && fault->kind != FAULT_FLIP) {
        int64_t which = draw_below(&draw, config->run.save ? PHASES : PHASES - FILE_PHASES);
        which = is_alone && which == ALONE_PHASES ? 0 : which;
        phase = phases[which];
        if (which >= PHASES - FILE_PHASES) {
            rank = 0;
            step = draw_save(&draw, config);
        }
    }
    snprintf(text, sizeof text, "%s:rank=%" PRId64 ":step=%" PRId64 ":phase=%s", kind, rank, step, phase);
    return inject_parse(text, fault);
}

int inject_list(const struct config *config, struct fault **faults, int64_t *count) {
    const struct string_list *given = &config->machine.inject;
    int64_t drawn = config->machine.inject_count;
    *count = given->count + drawn;
    *faults = memory_alloc(sizeof **faults * (size_t)(*count + 1));
    int status = 0;
    for (int64_t i = 0; status == 0 && i < given->count; i++)
        status = inject_parse(given->items[i], &(*faults)[i]);
    for (int64_t i = 0; status == 0 && i < drawn; i++)
        status = draw_fault(config, (uint32_t)i, &(*faults)[given->count + i]);
    if (status < 0) {
        free(*faults);
        *faults = NULL;
    }
    return status;
}

static void validate_fault(const struct config *config, const char *text, struct complaints *complaints) {
    struct fault fault;
    if (inject_parse(text, &fault) < 0)
        complain(complaints, "%s", error_message());
    else if (config->machine.world_size > 0 && fault.rank >= config->machine.world_size)
        complain(complaints, "--inject %s: the ranks of this run are 0 to %" PRId64, text,
                 config->machine.world_size - 1);
    error_clear();
}

void validate_inject(const struct config *config, enum config_use use, struct complaints *complaints) {
    bool is_drawn = config->machine.inject_count > 0;
    if (use != CONFIG_TRAIN)
        return;
    for (int64_t i = 0; i < config->machine.inject.count; i++)
        validate_fault(config, config->machine.inject.items[i], complaints);
    for (int64_t i = 0; i < config->machine.inject_kinds.count; i++)
        validate_fault(config, config->machine.inject_kinds.items[i], complaints);
    if (is_drawn && config->run.train_iters <= 0)
        complain(complaints, "--inject-count needs --train-iters, the iterations to draw from");
}
