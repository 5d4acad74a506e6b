// The machine that runs a compiled pattern, by backtracking. An entry of its stack is an instruction and a position. A
// run of one set is one entry however long it is, which shrinks by a character each time, so stacks stay small.
#include "data/tokenizer/pattern_program.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>

// Limit per start of a match. Patterns of real tokenizers take a few steps per character.
static const int64_t most_steps = 1 << 22;  // plus 16 per byte of the text

enum place_kind {
    PLACE_BRANCH,  // continue at the instruction
    PLACE_RUN,     // the instruction is a run in progress
    PLACE_MARK,    // the instruction is the number of a mark, which was `at` before; backtrack further
};

struct pattern_place {
    int32_t instruction;
    enum place_kind kind;
    size_t at;
    size_t other;  // for a run: the position it may shrink to, or, if lazy, how many characters it may grow by
};

struct text {
    const unsigned char *bytes;
    size_t length;
};

void pattern_scratch_free(struct pattern_scratch *scratch) {
    free(scratch->places);
    free(scratch->marks);
    *scratch = (struct pattern_scratch){0};
}

static inline bool in_set(const struct pattern *pattern, int32_t set, struct text text, size_t at, size_t *bytes) {
    if (at >= text.length)
        return false;
    if (text.bytes[at] < 0x80) {
        *bytes = 1;
        return pattern->sets[set].ascii[text.bytes[at]];
    }
    uint32_t character;
    bool valid;
    *bytes = utf8_decode(text.bytes + at, text.length - at, &character, &valid);
    return pattern_set_has(&pattern->sets[set], valid ? character : UNICODE_LIMIT);
}

// Where the character before `at` > 0 begins; ill-formed bytes count one at a time.
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

static bool holds(const struct pattern *pattern, enum pattern_assertion assertion, struct text text, size_t from,
                  size_t at) {
    bool before, after;
    switch (assertion) {
    case ASSERT_BEGIN:
        return at == 0;
    case ASSERT_END:
        return at == text.length;
    case ASSERT_LAST_END:
        return at == text.length || (at + 1 == text.length && text.bytes[at] == '\n');
    case ASSERT_SEARCH:
        return at == from;
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

// Begins a run: false if there are too few characters. Moves *at past those it takes.
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
        push(scratch, (struct pattern_place){here, PLACE_RUN, *at, least});
    if (run->greed == GREED_LEAST && (run->max < 0 || run->max > run->min))
        push(scratch,
             (struct pattern_place){here, PLACE_RUN, *at, run->max < 0 ? SIZE_MAX : (size_t)(run->max - run->min)});
    return true;
}

// Backtracks into a run: one character less, or one more if lazy. False if that is not possible.
static bool resume_run(const struct pattern *pattern, struct pattern_scratch *scratch, struct pattern_place place,
                       struct text text, size_t *at) {
    const struct pattern_instruction *run = &pattern->program[place.instruction];
    size_t bytes;
    if (run->greed == GREED_MOST) {
        *at = step_back(text, place.at);
        if (*at > place.other)
            push(scratch, (struct pattern_place){place.instruction, PLACE_RUN, *at, place.other});
        return true;
    }
    if (!in_set(pattern, run->a, text, place.at, &bytes))
        return false;
    *at = place.at + bytes;
    if (place.other > 1)
        push(scratch, (struct pattern_place){place.instruction, PLACE_RUN, *at,
                                             place.other == SIZE_MAX ? SIZE_MAX : place.other - 1});
    return true;
}

// A part: instructions that run separately. `target` is where it must end, ANYWHERE if that does not matter.
struct pattern_part {
    int32_t begin;
    size_t target;
};
enum { ANYWHERE = -1 };

static int run_program(const struct pattern *pattern, struct pattern_scratch *scratch, struct text text,
                       struct pattern_part part, size_t *at);

// A part in LOOK, BEHIND or ATOMIC; its stack entries are dropped. Patterns do not nest deeper than their text is long.
static int run_part(const struct pattern *pattern, struct pattern_scratch *scratch, struct text text,
                    struct pattern_part part, size_t *at) {
    size_t kept = scratch->count;
    int matched = run_program(pattern, scratch, text, part, at);
    scratch->count = kept;
    return matched;
}

static void set_mark(struct pattern_scratch *scratch, int32_t mark, size_t at) {
    push(scratch, (struct pattern_place){mark, PLACE_MARK, scratch->marks[mark], 0});
    scratch->marks[mark] = at;
}

// Whether a part matches from some place min…max characters back up to here.
static int look_behind(const struct pattern *pattern, struct pattern_scratch *scratch, struct text text, int32_t here,
                       size_t at) {
    const struct pattern_instruction *behind = &pattern->program[here];
    size_t begin = at;
    for (int32_t back = 0; behind->max < 0 || back <= behind->max; back++) {
        size_t end = begin;
        int matched = 0;
        if (back >= behind->min)
            matched = run_part(pattern, scratch, text, (struct pattern_part){here + 1, at}, &end);
        if (matched != 0)
            return matched;
        if (begin == 0)
            return 0;
        begin = step_back(text, begin);
    }
    return 0;
}

// An instruction that run_program leaves to this function, at *at: 1 if it holds, with *at moved.
static int run_instruction(const struct pattern *pattern, struct pattern_scratch *scratch, struct text text,
                           int32_t here, size_t *at) {
    const struct pattern_instruction *instruction = &pattern->program[here];
    const struct pattern_part part = {here + 1, (size_t)ANYWHERE};
    size_t bytes, before = *at;
    int matched;
    switch (instruction->operation) {
    case PATTERN_LOOK:
        matched = run_part(pattern, scratch, text, part, at);
        *at = before;
        return matched < 0 ? -1 : (matched == 1) != instruction->negated;
    case PATTERN_BEHIND:
        matched = look_behind(pattern, scratch, text, here, *at);
        return matched < 0 ? -1 : (matched == 1) != instruction->negated;
    case PATTERN_ATOMIC:
        if (pattern->keeps)  // backtracking past the part undoes what it keeps
            set_mark(scratch, PATTERN_KEEP, scratch->marks[PATTERN_KEEP]);
        return run_part(pattern, scratch, text, part, at);
    case PATTERN_BEFORE:
        return (*at > 0 && in_set(pattern, instruction->a, text, step_back(text, *at), &bytes)) != instruction->negated;
    case PATTERN_MARK:
        set_mark(scratch, instruction->b, *at);
        return 1;
    case PATTERN_ASSERT:
        return holds(pattern, (enum pattern_assertion)instruction->a, text, scratch->from, *at);
    default:
        die("broken pattern program");
    }
}

// Backtracks to the last place with another branch: 1 with where to continue, 0 if there is none above bottom.
static inline int go_back(const struct pattern *pattern, struct pattern_scratch *scratch, struct text text,
                          size_t bottom, int32_t *here, size_t *at) {
    while (scratch->count > bottom) {
        struct pattern_place place = scratch->places[--scratch->count];
        scratch->steps--;
        if (place.kind == PLACE_MARK) {
            scratch->marks[place.instruction] = place.at;
        } else if (place.kind == PLACE_BRANCH) {
            *here = place.instruction;
            *at = place.at;
            return 1;
        } else if (resume_run(pattern, scratch, place, text, at)) {
            *here = place.instruction + 1;
            return 1;
        }
    }
    return 0;
}

static bool has_part(enum pattern_operation operation) {
    return operation == PATTERN_LOOK || operation == PATTERN_BEHIND || operation == PATTERN_ATOMIC;
}

// Runs from an instruction to END: 1 and where it ended, 0 if nothing matches.
static int run_program(const struct pattern *pattern, struct pattern_scratch *scratch, struct text text,
                       struct pattern_part part, size_t *at) {
    const size_t bottom = scratch->count;
    int32_t here = part.begin;
    for (;;) {
        if (--scratch->steps < 0)
            return error_set("%s: matching takes too many steps at one position; the pattern backtracks too much",
                             pattern->name);
        const struct pattern_instruction *instruction = &pattern->program[here];
        int matched = 1;
        if (instruction->operation == PATTERN_RUN) {
            matched = begin_run(pattern, scratch, here++, text, at);
        } else if (instruction->operation == PATTERN_SET) {
            size_t bytes = 0;
            matched = in_set(pattern, instruction->a, text, *at, &bytes);
            *at += matched ? bytes : 0;
            here++;
        } else if (instruction->operation == PATTERN_END) {
            if (part.target == (size_t)ANYWHERE || part.target == *at)
                return 1;
            matched = 0;
        } else if (instruction->operation == PATTERN_SPLIT) {
            push(scratch, (struct pattern_place){instruction->b, PLACE_BRANCH, *at, 0});
            here = instruction->a;
        } else if (instruction->operation == PATTERN_JUMP) {
            here = instruction->a;
        } else if (instruction->operation == PATTERN_MOVED) {
            here = scratch->marks[instruction->b] == *at ? instruction->a : here + 1;
        } else {
            matched = run_instruction(pattern, scratch, text, here, at);
            here = has_part(instruction->operation) ? instruction->a + 1 : here + 1;
        }
        if (matched < 0)
            return -1;
        if (!matched && !go_back(pattern, scratch, text, bottom, &here, at))
            return 0;
    }
}

static void prepare(const struct pattern *pattern, struct pattern_scratch *scratch) {
    size_t count = (size_t)pattern->mark_count;
    if (scratch->mark_capacity < count) {
        scratch->marks = memory_realloc(scratch->marks, count * sizeof *scratch->marks);
        scratch->mark_capacity = count;
    }
    for (size_t i = 0; i < count; i++)
        scratch->marks[i] = 0;
}

int pattern_find(const struct pattern *pattern, struct pattern_scratch *scratch, const unsigned char *bytes,
                 size_t length, size_t from, struct pattern_match *match) {
    struct text text = {bytes, length};
    size_t step;
    prepare(pattern, scratch);
    scratch->from = from;
    for (size_t begin = from; begin <= length; begin += step) {
        size_t end = begin;
        step = 1;
        if (pattern->first_set >= 0 && !in_set(pattern, pattern->first_set, text, begin, &step))
            continue;
        scratch->count = 0;
        scratch->steps = most_steps + 16 * (int64_t)length;
        scratch->marks[PATTERN_KEEP] = begin;
        int matched = run_program(pattern, scratch, text, (struct pattern_part){0, (size_t)ANYWHERE}, &end);
        if (matched != 0) {
            *match = (struct pattern_match){scratch->marks[PATTERN_KEEP], end};
            return matched;
        }
        uint32_t character;
        step = begin < length ? utf8_decode(bytes + begin, length - begin, &character, NULL) : 1;
    }
    return 0;
}
