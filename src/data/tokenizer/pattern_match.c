// The machine that runs a compiled pattern. A place to come back to is an instruction and a position; a run of one
// set is one place however long it is, which gives a character back each time, so that stacks stay small.
#include "data/tokenizer/pattern_program.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>

// Per start of a match. Patterns of real tokenizers take a few steps per character of a match.
static const int64_t most_steps = 1 << 22;  // and 16 per byte of the text

struct pattern_place {
    int32_t instruction;
    bool is_run;  // the instruction is a run under way; else it is where to go on
    size_t at;
    size_t other;  // of a run: the place it may shrink to, or, lazily, how many characters it may grow by
};

struct text {
    const unsigned char *bytes;
    size_t length;
};

void pattern_scratch_free(struct pattern_scratch *scratch) {
    free(scratch->places);
    *scratch = (struct pattern_scratch){0};
}

bool pattern_set_has(const struct pattern_set *set, const struct unicode_table *table, uint32_t character) {
    enum unicode_category category = unicode_category(table, character);
    bool has = set->categories >> category & 1;
    for (size_t i = 0; i < set->range_count && !has; i++)
        has = character >= set->ranges[i].first && character <= set->ranges[i].last;
    return has != set->negated;
}

static bool in_set(const struct pattern *pattern, int32_t set, struct text text, size_t at, size_t *bytes) {
    if (at >= text.length)
        return false;
    if (text.bytes[at] < 0x80) {
        *bytes = 1;
        return pattern->sets[set].ascii[text.bytes[at]];
    }
    uint32_t character;
    bool valid;
    *bytes = utf8_decode(text.bytes + at, text.length - at, &character, &valid);
    return pattern_set_has(&pattern->sets[set], pattern->table, valid ? character : UNICODE_LIMIT);
}

// Where the character before `at` > 0 begins, by the rule that takes ill-formed bytes one at a time.
static size_t step_back(struct text text, size_t at) {
    size_t lead = at - 1;
    while (lead > 0 && at - lead < 4 && (text.bytes[lead] & 0xC0) == 0x80)
        lead--;
    uint32_t character;
    return lead + utf8_decode(text.bytes + lead, text.length - lead, &character, NULL) == at ? lead : at - 1;
}

static bool is_word(const struct pattern *pattern, struct text text, size_t at) {
    size_t bytes;
    return in_set(pattern, pattern->word_set, text, at, &bytes);
}

static bool holds(const struct pattern *pattern, enum pattern_assertion assertion, struct text text, size_t at) {
    bool before, after;
    switch (assertion) {
    case ASSERT_BEGIN:
        return at == 0;
    case ASSERT_END:
        return at == text.length;
    case ASSERT_LINE_BEGIN:
        return at == 0 || (text.bytes[at - 1] == '\n' && at < text.length);
    case ASSERT_LINE_END:
        return at == text.length || text.bytes[at] == '\n';
    case ASSERT_EDGE:
    case ASSERT_NO_EDGE:
    default:
        before = at > 0 && is_word(pattern, text, step_back(text, at));
        after = at < text.length && is_word(pattern, text, at);
        return (before != after) == (assertion == ASSERT_EDGE);
    }
}

static void push(struct pattern_scratch *scratch, struct pattern_place place) {
    if (scratch->count == scratch->capacity) {
        scratch->capacity = scratch->capacity * 2 + 256;
        scratch->places = memory_realloc(scratch->places, scratch->capacity * sizeof *scratch->places);
    }
    scratch->places[scratch->count++] = place;
}

// Begins a run: false if there are too few characters. Moves *at over those it takes.
static bool begin_run(const struct pattern *pattern, struct pattern_scratch *scratch, int32_t here, struct text text,
                      size_t *at) {
    const struct pattern_instruction *run = &pattern->program[here];
    int32_t count = 0;
    size_t least = *at, bytes;
    int32_t first_stop = run->greed == GREED_LEAST ? run->min : run->max;
    while ((first_stop < 0 || count < first_stop) && in_set(pattern, run->a, text, *at, &bytes)) {
        *at += bytes;
        count++;
        if (count == run->min)
            least = *at;
    }
    if (count < run->min)
        return false;
    if (run->greed == GREED_MOST && *at > least)
        push(scratch, (struct pattern_place){here, true, *at, least});
    if (run->greed == GREED_LEAST && (run->max < 0 || run->max > run->min))
        push(scratch, (struct pattern_place){here, true, *at, run->max < 0 ? SIZE_MAX : (size_t)(run->max - run->min)});
    return true;
}

// Comes back to a run: one character less, or lazily one more. False if that cannot be.
static bool resume_run(const struct pattern *pattern, struct pattern_scratch *scratch, struct pattern_place place,
                       struct text text, size_t *at) {
    const struct pattern_instruction *run = &pattern->program[place.instruction];
    size_t bytes;
    if (run->greed == GREED_MOST) {
        *at = step_back(text, place.at);
        if (*at > place.other)
            push(scratch, (struct pattern_place){place.instruction, true, *at, place.other});
        return true;
    }
    if (!in_set(pattern, run->a, text, place.at, &bytes))
        return false;
    *at = place.at + bytes;
    if (place.other > 1)
        push(scratch, (struct pattern_place){place.instruction, true, *at,
                                             place.other == SIZE_MAX ? SIZE_MAX : place.other - 1});
    return true;
}

static int run_program(const struct pattern *pattern, struct pattern_scratch *scratch, struct text text, int32_t here,
                       size_t *at);

// A part in LOOK or ATOMIC, by itself; its places are forgotten. Patterns nest no deeper than their text is long.
static int run_part(const struct pattern *pattern, struct pattern_scratch *scratch, struct text text, int32_t here,
                    size_t *at) {
    size_t kept = scratch->count;
    int matched = run_program(pattern, scratch, text, here + 1, at);
    scratch->count = kept;
    return matched;
}

// One instruction other than END, SPLIT and JUMP at *at: 1 if it holds, *at moved.
static int run_instruction(const struct pattern *pattern, struct pattern_scratch *scratch, struct text text,
                           int32_t here, size_t *at) {
    const struct pattern_instruction *instruction = &pattern->program[here];
    size_t bytes, before = *at;
    int matched;
    switch (instruction->operation) {
    case PATTERN_SET:
        if (!in_set(pattern, instruction->a, text, *at, &bytes))
            return 0;
        *at += bytes;
        return 1;
    case PATTERN_RUN:
        return begin_run(pattern, scratch, here, text, at);
    case PATTERN_LOOK:
        matched = run_part(pattern, scratch, text, here, at);
        *at = before;
        return matched < 0 ? -1 : (matched == 1) != instruction->negated;
    case PATTERN_ATOMIC:
        return run_part(pattern, scratch, text, here, at);
    case PATTERN_BEFORE:
        return (*at > 0 && in_set(pattern, instruction->a, text, step_back(text, *at), &bytes)) != instruction->negated;
    case PATTERN_ASSERT:
        return holds(pattern, (enum pattern_assertion)instruction->a, text, *at);
    default:
        die("broken pattern program");
    }
}

// Runs from an instruction to END: 1 and where it ended, 0 if nothing matches.
static int run_program(const struct pattern *pattern, struct pattern_scratch *scratch, struct text text, int32_t here,
                       size_t *at) {
    const size_t bottom = scratch->count;
    for (;;) {
        if (++scratch->steps > most_steps + 16 * (int64_t)text.length)
            return error_set("%s: matching takes too many steps at one place of a text; the pattern goes back too "
                             "often",
                             pattern->name);
        const struct pattern_instruction *instruction = &pattern->program[here];
        int matched = 1;
        if (instruction->operation == PATTERN_END) {
            return 1;
        } else if (instruction->operation == PATTERN_SPLIT) {
            push(scratch, (struct pattern_place){instruction->b, false, *at, 0});
            here = instruction->a;
        } else if (instruction->operation == PATTERN_JUMP) {
            here = instruction->a;
        } else {
            matched = run_instruction(pattern, scratch, text, here, at);
            bool part = instruction->operation == PATTERN_LOOK || instruction->operation == PATTERN_ATOMIC;
            here = part ? instruction->a + 1 : here + 1;
        }
        if (matched < 0)
            return -1;
        while (!matched) {
            if (scratch->count == bottom)
                return 0;
            struct pattern_place place = scratch->places[--scratch->count];
            scratch->steps++;
            if (place.is_run) {
                matched = resume_run(pattern, scratch, place, text, at);
                here = place.instruction + 1;
            } else {
                matched = 1;
                here = place.instruction;
                *at = place.at;
            }
        }
    }
}

int pattern_find(const struct pattern *pattern, struct pattern_scratch *scratch, const unsigned char *bytes,
                 size_t length, size_t from, struct pattern_match *match) {
    struct text text = {bytes, length};
    for (size_t begin = from; begin <= length;) {
        size_t end = begin;
        scratch->count = 0;
        scratch->steps = 0;
        int matched = run_program(pattern, scratch, text, 0, &end);
        if (matched != 0) {
            *match = (struct pattern_match){begin, end};
            return matched;
        }
        uint32_t character;
        begin += begin < length ? utf8_decode(bytes + begin, length - begin, &character, NULL) : 1;
    }
    return 0;
}
