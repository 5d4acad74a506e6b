// The machine that runs a compiled pattern, by backtracking. An entry of its stack is an instruction and a position. A
// run of one set is a single entry of any length, which shrinks by a character each time, so stacks stay small.
//
// In patterns that backtrack much, the machine remembers places (an instruction and a position) from which it has
// failed: it would again, also from another start. So the steps stay proportional to the text for most patterns. Not
// remembered, and ended by the limit: the inside of LOOK, BEHIND or ATOMIC, and what depends on the path.
#include "data/tokenizer/pattern_program.h"
#include "data/tokenizer/token_list.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>

// Steps allowed for a text, plus a number per byte. Patterns of real tokenizers take a few steps per character.
static const int64_t most_steps = 1 << 22, usual_steps = 1 << 12;
enum { MOST_PER_BYTE = 256, USUAL_PER_BYTE = 64 };
// Limit of the memory for tried places of SPLIT.
static const size_t most_bits = (size_t)1 << 29;

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

// Memory of a RUN without an upper limit. A run that begins within the stretch ends at the stretch's end.
struct run_memory {
    size_t stretch_begin, stretch_end;
    // For every position: 0; or, if the machine has failed from there after this run, 1 + `above` of a lower position
    // from which it may not have failed. `above` of a position is the position + 1, and 0 for none. NULL: not needed
    // yet, or too large.
    uint32_t *below;
};

struct pattern_memory {
    const struct pattern *pattern;  // of the search in progress
    struct text text;
    size_t next;              // where it can continue at the earliest
    int64_t most;             // steps
    bool is_on;               // the rest is in use
    int parts;                // parts that the machine is in
    int32_t count;            // instructions
    struct run_memory *runs;  // (count)
    unsigned char *tried;     // bits for SPLIT: instruction * (length + 1) + position; NULL if too many
};

static void forget(struct pattern_memory *memory) {
    for (int32_t i = 0; i < memory->count; i++)
        free(memory->runs[i].below);
    free(memory->runs);
    free(memory->tried);
}

void pattern_scratch_free(struct pattern_scratch *scratch) {
    free(scratch->places);
    free(scratch->marks);
    if (scratch->memory)
        forget(scratch->memory);
    free(scratch->memory);
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
    MEMORY_GROW(scratch->places, scratch->count, scratch->capacity);
    scratch->places[scratch->count++] = place;
}

// ---- memory ----

// Starts to remember once a text takes more steps than usual.
static void remember(const struct pattern *pattern, struct pattern_scratch *scratch) {
    struct pattern_memory *memory = scratch->memory;
    size_t count = (size_t)pattern->count, bits;
    int64_t usual = usual_steps + USUAL_PER_BYTE * (int64_t)memory->text.length;
    if (memory->is_on || pattern->depends_on_path || scratch->steps < usual)
        return;
    memory->is_on = true;
    memory->runs = memory_alloc(count * sizeof *memory->runs);
    memory->count = pattern->count;
    if (size_mul(count, memory->text.length + 1, &bits) && bits <= most_bits)
        memory->tried = memory_alloc(bits / 8 + 1);
}

// The memory of a RUN without an upper limit; NULL if there is none.
static struct run_memory *run_memory_of(const struct pattern *pattern, const struct pattern_scratch *scratch,
                                        int32_t here) {
    const struct pattern_instruction *run = &pattern->program[here];
    bool is_known = scratch->memory->is_on && run->max < 0 && run->greed != GREED_LEAST;
    return is_known ? &scratch->memory->runs[here] : NULL;
}

// Whether the machine has already failed from this SPLIT; marks it as tried.
static bool was_tried(const struct pattern_scratch *scratch, int32_t here, size_t at) {
    const struct pattern_memory *memory = scratch->memory;
    if (!memory->is_on || !memory->tried || memory->parts > 0)
        return false;
    size_t bit = (size_t)here * (memory->text.length + 1) + at;
    bool was = memory->tried[bit / 8] >> (bit % 8) & 1;
    memory->tried[bit / 8] |= (unsigned char)(1u << (bit % 8));
    return was;
}

// Moves *at, a possible end of a run, back to the first position that was not tried; false if there is none down to
// `least`. Marks it as tried.
static bool skip_tried(struct pattern_scratch *scratch, int32_t here, size_t *at, size_t least) {
    struct pattern_memory *memory = scratch->memory;
    struct run_memory *known = memory->parts == 0 ? run_memory_of(memory->pattern, scratch, here) : NULL;
    size_t bytes = (memory->text.length + 1) * sizeof *known->below;
    if (known && !known->below && bytes <= most_bits / 8)
        known->below = memory_alloc(bytes);
    if (!known || !known->below)
        return true;
    uint32_t *below = known->below, above = (uint32_t)*at + 1;
    while (above > 0 && below[above - 1] > 0) {
        // Path halving: shortens the walk for later calls.
        uint32_t next = below[above - 1] - 1;
        if (next > 0 && below[next - 1] > 0)
            below[above - 1] = below[next - 1];
        above = next;
        scratch->steps++;
    }
    // Positions before the current search do not matter, and the links may lead past its beginning.
    bool is_at_begin = above <= memory->next && below[memory->next] == 0;
    size_t found = is_at_begin ? memory->next : (size_t)above - 1;
    if ((above == 0 && !is_at_begin) || found < least)
        return false;
    below[found] = found > 0 ? (uint32_t)step_back(memory->text, found) + 2 : 1;
    *at = found;
    return true;
}

// The places on the path of a match were tried, but did not fail. The search continues at the match's end.
static void forget_match(struct pattern_scratch *scratch, size_t end) {
    struct pattern_memory *memory = scratch->memory;
    memory->next = end;
    for (int32_t i = 0; i < memory->count; i++) {
        size_t bit = (size_t)i * (memory->text.length + 1) + end;
        if (memory->tried)
            memory->tried[bit / 8] &= (unsigned char)~(1u << (bit % 8));
        if (memory->runs[i].below)
            memory->runs[i].below[end] = 0;
    }
}

// ---- runs ----

// The end of the characters of a run from here on.
static size_t end_of_stretch(const struct pattern *pattern, struct pattern_scratch *scratch, int32_t here,
                             struct text text, size_t at) {
    struct run_memory *known = run_memory_of(pattern, scratch, here);
    size_t begin = at, bytes;
    // A character does not begin at a continuation byte, except in ill-formed text.
    if (known && at >= known->stretch_begin && at < known->stretch_end && (text.bytes[at] & 0xC0) != 0x80)
        return known->stretch_end;
    while (in_set(pattern, pattern->program[here].a, text, at, &bytes)) {
        at += bytes;
        scratch->steps++;
        if (known && at == known->stretch_begin && known->stretch_end > at) {
            at = known->stretch_end;
            break;
        }
    }
    if (known) {
        known->stretch_begin = begin;
        known->stretch_end = at;
    }
    return at;
}

// Begins a run: false if there are too few characters. Moves *at past those it takes.
static bool begin_run(const struct pattern *pattern, struct pattern_scratch *scratch, int32_t here, struct text text,
                      size_t *at) {
    const struct pattern_instruction *run = &pattern->program[here];
    int32_t count = 0, first_stop = run->max < 0 || run->greed == GREED_LEAST ? run->min : run->max;
    size_t least = *at, bytes;
    while (count < first_stop && in_set(pattern, run->a, text, *at, &bytes)) {
        *at += bytes;
        scratch->steps++;
        if (++count == run->min)
            least = *at;
    }
    if (count < run->min)
        return false;
    if (run->max < 0 && run->greed != GREED_LEAST)
        *at = end_of_stretch(pattern, scratch, here, text, *at);
    if (run->greed == GREED_MOST && !skip_tried(scratch, here, at, least))
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
        if (!skip_tried(scratch, place.instruction, at, place.other))
            return false;
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
    scratch->memory->parts++;
    int matched = run_program(pattern, scratch, text, part, at);
    scratch->memory->parts--;
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
        scratch->steps++;
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
        if (++scratch->steps > scratch->memory->most)
            return error_set("%s: matching takes too many steps in a text of %zu bytes; the pattern backtracks too "
                             "much for it: split the text, or leave it out",
                             pattern->name, text.length);
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
            remember(pattern, scratch);
            matched = !was_tried(scratch, here, *at);
            if (matched)
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

// A search that does not continue where the last one ended is taken for another text.
static void prepare(const struct pattern *pattern, struct pattern_scratch *scratch, struct text text, size_t from) {
    size_t count = (size_t)pattern->mark_count;
    if (scratch->mark_capacity < count) {
        scratch->marks = memory_realloc(scratch->marks, count * sizeof *scratch->marks);
        scratch->mark_capacity = count;
    }
    for (size_t i = 0; i < count; i++)
        scratch->marks[i] = 0;
    scratch->from = from;
    if (!scratch->memory)
        scratch->memory = memory_alloc(sizeof *scratch->memory);
    struct pattern_memory *memory = scratch->memory;
    bool goes_on = from > 0 && from >= memory->next && memory->pattern == pattern && memory->text.bytes == text.bytes &&
                   memory->text.length == text.length;
    if (goes_on)
        return;
    forget(memory);
    *memory = (struct pattern_memory){
        .pattern = pattern, .text = text, .most = most_steps + MOST_PER_BYTE * (int64_t)text.length};
    scratch->steps = 0;
}

int pattern_find(const struct pattern *pattern, struct pattern_scratch *scratch, const unsigned char *bytes,
                 size_t length, size_t from, struct pattern_match *match) {
    struct text text = {bytes, length};
    size_t step;
    prepare(pattern, scratch, text, from);
    for (size_t begin = from; begin <= length; begin += step) {
        size_t end = begin;
        step = 1;
        if (pattern->first_set >= 0 && !in_set(pattern, pattern->first_set, text, begin, &step))
            continue;
        remember(pattern, scratch);
        scratch->count = 0;
        scratch->memory->parts = 0;
        scratch->marks[PATTERN_KEEP] = begin;
        int matched = run_program(pattern, scratch, text, (struct pattern_part){0, (size_t)ANYWHERE}, &end);
        if (matched != 0) {
            *match = (struct pattern_match){scratch->marks[PATTERN_KEEP], end};
            forget_match(scratch, end);
            return matched;
        }
        uint32_t character;
        step = begin < length ? utf8_decode(bytes + begin, length - begin, &character, NULL) : 1;
    }
    return 0;
}
