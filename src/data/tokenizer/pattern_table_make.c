// Makes the table of a pattern, in three steps.
//
// 1. Characters that no set of the pattern tells apart are one symbol. A state of the first automaton is the list of
//    places in the program at which a backtracking machine could be after the same text, in the order in which it
//    would try them. A place at END means that a match ends here; the places after it in the list are dropped, since
//    they would only be tried if it failed. Places are looked at when the next character is known, so a lookahead at
//    one character is simply a condition.
//
// 2. A match ends where the list was last at END when it becomes empty. The machine has read further than that, and
//    would have to read those characters again, from the match's end. Instead, the second automaton follows both at
//    once: the piece that may go on, and its `shadow`, the state in which it will be if the piece ended at the last
//    possible place. A flag marks that place when the text passes it; another one says later that it was the end.
//
// 3. States from which the same follows are merged.
//
// If the text is cut by another table first, a list also has the state of that one, and wherever it cuts, the pattern's
// text ends and another one begins.
#include "data/tokenizer/pattern_table.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

// ---- symbols ----

enum {
    MOST_SETS = 62,
    LINE_FEED = MOST_SETS,
    MOST_LISTS = 1000,
    MOST_CONFIGS = 1000,
    MOST_PLACES = 1 << 14,
    LONGEST_RUN = 63
};

// A state of the first automaton.
struct place_order {
    int32_t *places;
    int count;
    unsigned char cutter;  // the state of the table that cuts the text first
    bool is_start;         // no character was read
};

// A step of it: the next list, -1 if nothing goes on, and whether a match ends before the character.
struct list_step {
    int16_t next;
    unsigned char cutter;
    bool matches, is_cut, is_known;
};

// A state of the second automaton.
struct open_piece {
    int16_t list;    // of the piece in progress
    int16_t shadow;  // config since the end of the last match; NO_SHADOW if there was none, LOST if too much happened
    bool after_gap;  // the piece follows text without matches, and is marked: it belongs to that text unless it matches
    bool is_single;  // one character was read
    bool is_start;   // none was read, or, after a gap, the last one is in no match
};
enum { NO_SHADOW = -1, LOST = -2 };

struct piece_move {
    int config;
    unsigned flags;
};

struct maker {
    const struct pattern *pattern;
    const struct pattern_table *before;
    uint64_t used;                             // sets in the program
    uint64_t members[TABLE_SYMBOLS + 1];       // the sets that a symbol is in; the last symbol is the end of the text
    unsigned char columns[TABLE_SYMBOLS + 1];  // of the table before
    int symbol_count;
    struct place_order lists[MOST_LISTS];
    int list_count;
    struct list_step (*steps)[TABLE_SYMBOLS + 1];  // (MOST_LISTS)
    struct open_piece configs[MOST_CONFIGS];
    int config_count;
    struct piece_move *states;  // of the result, before merging
    int64_t state_count, state_capacity;
    int (*next)[TABLE_SYMBOLS + 3];  // (state_count) by symbol, the end, the tail of a character, a piece's begin
    bool *seen;                      // places in the list being made
    struct place_order open;
    int symbol;  // of the character being read
    bool has_gaps, failed;
};

static void add_number(uint32_t **numbers, size_t *count, int64_t *capacity, uint32_t number) {
    MEMORY_GROW(*numbers, *count, *capacity);
    (*numbers)[(*count)++] = number;
}

static int compare_numbers(const void *a, const void *b) {
    uint32_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return x < y ? -1 : x > y;
}

static unsigned char column_before(const struct maker *maker, uint32_t character) {
    const struct pattern_table *before = maker->before;
    return before ? before->pages[before->index[character >> 8]][character & 255] : 0;
}

static int symbol_of(struct maker *maker, uint32_t character) {
    uint64_t members = (uint64_t)(character == '\n') << LINE_FEED & maker->used;
    for (int32_t set = 0; set < maker->pattern->set_count && set < MOST_SETS; set++)
        if (maker->used >> set & 1 && character_set_has(&maker->pattern->sets[set].characters, character))
            members |= (uint64_t)1 << set;
    int symbol = 0;
    unsigned char column = column_before(maker, character);
    while (symbol < maker->symbol_count && (maker->members[symbol] != members || maker->columns[symbol] != column))
        symbol++;
    if (symbol == maker->symbol_count && symbol < TABLE_SYMBOLS) {
        maker->members[symbol] = members;
        maker->columns[symbol] = column;
        maker->symbol_count++;
    }
    maker->failed = maker->failed || symbol == TABLE_SYMBOLS;
    return symbol;
}

// Gives characters of one page their symbol.
static void fill_columns(struct pattern_table *table, uint32_t first, uint32_t end, int symbol, int *page_count) {
    uint32_t page = first >> 8;
    if (table->index[page] == UINT16_MAX) {
        table->pages = memory_realloc(table->pages, (size_t)(*page_count + 1) * sizeof *table->pages);
        table->index[page] = (uint16_t)(*page_count)++;
    }
    memset(table->pages[table->index[page]] + (first & 255), 128 + symbol, end - first);
}

// A page that equals the one before it is not kept twice, and most do.
static void share_page(struct pattern_table *table, uint32_t page, int *page_count) {
    int last = *page_count - 1;
    if (page > 0 && table->index[page] == last && table->index[page - 1] != last &&
        memcmp(table->pages[last], table->pages[table->index[page - 1]], sizeof *table->pages) == 0) {
        table->index[page] = table->index[page - 1];
        --*page_count;
    }
}

// Cuts all characters where a set of the program begins or ends, and gives each stretch its symbol.
static void make_symbols(struct maker *maker, struct pattern_table *table) {
    const struct pattern *pattern = maker->pattern;
    uint32_t *cuts = NULL;
    size_t count = 0;
    int64_t capacity = 0;
    add_number(&cuts, &count, &capacity, 0);
    add_number(&cuts, &count, &capacity, '\n');
    add_number(&cuts, &count, &capacity, '\n' + 1);
    for (uint32_t c = 1; maker->before && c <= UNICODE_LIMIT; c++)
        if (column_before(maker, c) != column_before(maker, c - 1))
            add_number(&cuts, &count, &capacity, c);
    for (int32_t set = 0; set < pattern->set_count && set < MOST_SETS; set++)
        for (size_t i = 0; maker->used >> set & 1 && i < pattern->sets[set].characters.count; i++) {
            add_number(&cuts, &count, &capacity, pattern->sets[set].characters.ranges[i].first);
            add_number(&cuts, &count, &capacity, pattern->sets[set].characters.ranges[i].last + 1);
        }
    qsort(cuts, count, sizeof *cuts, compare_numbers);
    memset(table->index, 0xFF, sizeof table->index);
    int page_count = 0;
    for (size_t i = 0; i < count && cuts[i] <= UNICODE_LIMIT && !maker->failed; i++) {
        uint32_t end = i + 1 < count && cuts[i + 1] <= UNICODE_LIMIT ? cuts[i + 1] : UNICODE_LIMIT + 1;
        if (end > cuts[i])
            for (uint32_t from = cuts[i], to; from < end; from = to) {
                to = end < (from | 255) + 1 ? end : (from | 255) + 1;
                fill_columns(table, from, to, symbol_of(maker, cuts[i]), &page_count);
                if ((to & 255) == 0)
                    share_page(table, from >> 8, &page_count);
            }
    }
    free(cuts);
}

// ---- the first automaton ----

static bool is_in(const struct maker *maker, int32_t set, int symbol) {
    return maker->members[symbol] >> set & 1;
}

static bool is_at_end(const struct maker *maker) {
    return maker->symbol == maker->symbol_count;
}

// Whether a lookahead is at one character, and of which set.
static bool looks_at_one(const struct pattern *pattern, int32_t here) {
    return pattern->program[here].a == here + 2 && pattern->program[here + 1].operation == PATTERN_SET;
}

// Marks the sets of the program; false if it has an instruction that a table has no place for.
static bool check_program(struct maker *maker) {
    const struct pattern *pattern = maker->pattern;
    for (int32_t here = 0; here < pattern->count; here++) {
        const struct pattern_instruction *at = &pattern->program[here];
        bool fits = at->operation == PATTERN_SPLIT || at->operation == PATTERN_JUMP || at->operation == PATTERN_END ||
                    (at->operation == PATTERN_ASSERT && (at->a == ASSERT_END || at->a == ASSERT_LINE_END)) ||
                    (at->operation == PATTERN_LOOK && looks_at_one(pattern, here));
        if (at->operation == PATTERN_SET || at->operation == PATTERN_RUN) {
            fits = at->a < MOST_SETS && at->min <= LONGEST_RUN && at->max <= LONGEST_RUN;
            maker->used |= fits ? (uint64_t)1 << at->a : 0;
        }
        if (at->operation == PATTERN_ASSERT)
            maker->used |= (uint64_t)1 << LINE_FEED;
        if (!fits)
            return false;
    }
    return pattern->count * (LONGEST_RUN + 1) <= MOST_PLACES;
}

static void add_place(struct place_order *list, int32_t place) {
    for (int i = 0; i < list->count; i++)
        if (list->places[i] == place)
            return;
    list->places[list->count++] = place;
}

static bool follow(struct maker *maker, int32_t here, int count);

// A run of which `count` characters were read, or enough if it has no upper limit.
static bool follow_run(struct maker *maker, int32_t here, int count) {
    const struct pattern_instruction *run = &maker->pattern->program[here];
    bool enough = count >= run->min;
    bool takes = (run->max < 0 || count < run->max) && is_in(maker, run->a, maker->symbol);
    int32_t more = here * (LONGEST_RUN + 1) + (run->max < 0 && enough ? count : count + 1);
    if (run->greed == GREED_LEAST && enough && follow(maker, here + 1, 0))
        return true;
    if (takes)
        add_place(&maker->open, more);
    return run->greed != GREED_LEAST && enough && !(takes && run->greed == GREED_ALL) && follow(maker, here + 1, 0);
}

// Follows the program from a place up to where a character is read, in the order of a backtracking machine. True if it
// ends before that character: nothing that would be tried later counts.
static bool follow(struct maker *maker, int32_t here, int count) {
    int32_t place = here * (LONGEST_RUN + 1) + count;
    if (maker->seen[place])
        return false;
    maker->seen[place] = true;
    const struct pattern_instruction *at = &maker->pattern->program[here];
    switch (at->operation) {
    case PATTERN_SET:
        if (is_in(maker, at->a, maker->symbol))
            add_place(&maker->open, (here + 1) * (LONGEST_RUN + 1));
        return false;
    case PATTERN_RUN:
        return follow_run(maker, here, count);
    case PATTERN_SPLIT:
        return follow(maker, at->a, 0) || follow(maker, at->b, 0);
    case PATTERN_JUMP:
        return follow(maker, at->a, 0);
    case PATTERN_LOOK:
        return is_in(maker, at[1].a, maker->symbol) != at->negated && follow(maker, at->a + 1, 0);
    case PATTERN_ASSERT:
        return (is_at_end(maker) || (at->a == ASSERT_LINE_END && is_in(maker, LINE_FEED, maker->symbol))) &&
               follow(maker, here + 1, 0);
    default:
        return true;
    }
}

// The number of the list in maker->open.
static int16_t list_number(struct maker *maker) {
    const struct place_order *open = &maker->open;
    if (open->count == 0)
        return -1;
    for (int i = 0; i < maker->list_count; i++)
        if (maker->lists[i].count == open->count && maker->lists[i].cutter == open->cutter &&
            maker->lists[i].is_start == open->is_start &&
            memcmp(maker->lists[i].places, open->places, (size_t)open->count * sizeof *open->places) == 0)
            return (int16_t)i;
    if (maker->list_count == MOST_LISTS) {
        maker->failed = true;
        return -1;
    }
    struct place_order *list = &maker->lists[maker->list_count];
    list->places = memory_alloc((size_t)open->count * sizeof *open->places);
    memcpy(list->places, open->places, (size_t)open->count * sizeof *open->places);
    list->count = open->count;
    list->cutter = open->cutter;
    list->is_start = open->is_start;
    return (int16_t)maker->list_count++;
}

static struct list_step step_list(struct maker *maker, int list, int symbol) {
    struct list_step *move = &maker->steps[list][symbol];
    if (move->is_known)
        return *move;
    memset(maker->seen, 0, (size_t)maker->pattern->count * (LONGEST_RUN + 1) * sizeof *maker->seen);
    const struct pattern_table *before = maker->before;
    bool is_start = maker->lists[list].is_start;
    if (before && symbol < maker->symbol_count) {
        unsigned char cutter = before->next[maker->lists[list].cutter][maker->columns[symbol]];
        move->is_cut = before->flags[cutter] & TABLE_HERE;
        move->cutter = before->next[cutter][TABLE_TAIL];  // the same without flags
    }
    maker->open.count = 0;
    maker->open.cutter = move->cutter;
    maker->open.is_start = false;
    maker->symbol = move->is_cut && !is_start ? maker->symbol_count : symbol;
    for (int i = 0; i < maker->lists[list].count && !move->matches; i++) {
        int32_t place = maker->lists[list].places[i];
        move->matches = follow(maker, place / (LONGEST_RUN + 1), place % (LONGEST_RUN + 1));
    }
    move->next = list_number(maker);
    move->is_known = true;
    return *move;
}

// The list before the first character of a piece.
static int16_t start_list(struct maker *maker, unsigned char cutter) {
    maker->open.count = 1;
    maker->open.places[0] = 0;
    maker->open.cutter = cutter;
    maker->open.is_start = true;
    return list_number(maker);
}

// Whether a match ends after the text of this list, whatever follows.
static bool always_matches(struct maker *maker, int list) {
    for (int symbol = 0; symbol <= maker->symbol_count; symbol++)
        if (!step_list(maker, list, symbol).matches)
            return false;
    return true;
}

// ---- the second automaton ----

static int config_number(struct maker *maker, struct open_piece config) {
    for (int i = 0; i < maker->config_count; i++) {
        const struct open_piece *known = &maker->configs[i];
        if (known->list == config.list && known->shadow == config.shadow && known->after_gap == config.after_gap &&
            known->is_single == config.is_single && known->is_start == config.is_start)
            return i;
    }
    if (maker->config_count == MOST_CONFIGS) {
        maker->failed = true;
        return 0;
    }
    maker->configs[maker->config_count] = config;
    return maker->config_count++;
}

// Whether a mark set earlier may still turn out to be the beginning of a piece.
static bool waits(const struct maker *maker, int config) {
    const struct open_piece *open = config >= 0 ? &maker->configs[config] : NULL;
    return open && (open->shadow != NO_SHADOW || (open->after_gap && !open->is_start));
}

// The shadow becomes the piece in progress, and its marks the first ones, so those set earlier are lost.
static struct piece_move promote(struct maker *maker, struct piece_move shadow) {
    unsigned flags = TABLE_MARKED | (shadow.flags & (TABLE_HERE | TABLE_MARK | TABLE_SECOND_MARK | TABLE_FAIL));
    if (shadow.flags & TABLE_MARKED)
        flags |= TABLE_SECOND;
    if (shadow.flags & TABLE_SECOND || (waits(maker, shadow.config) && !(shadow.flags & TABLE_MARK)))
        flags |= TABLE_FAIL;
    struct open_piece config = maker->configs[shadow.config];
    if (waits(maker, config.shadow) && !(shadow.flags & TABLE_SECOND_MARK))
        config.shadow = LOST;
    return (struct piece_move){config_number(maker, config), flags};
}

// The piece goes on. A piece that began inside the shadow cannot be followed any further.
static struct piece_move go_on(struct maker *maker, struct open_piece config, int16_t list, bool matches,
                               struct piece_move shadow) {
    bool had = config.shadow != NO_SHADOW;
    struct piece_move result = {0};
    if (matches)
        result.flags = TABLE_MARK | (config.after_gap && !had ? TABLE_MARKED : 0);
    else if (had && shadow.flags & (TABLE_HERE | TABLE_LATE | TABLE_FAIL))
        shadow.config = LOST;
    else if (had && shadow.flags & TABLE_MARK)
        result.flags = TABLE_SECOND_MARK;
    bool after_gap = config.after_gap && !had && !matches;
    int16_t number = matches || had ? (int16_t)shadow.config : NO_SHADOW;
    result.config = config_number(maker, (struct open_piece){.list = list, .shadow = number, .after_gap = after_gap});
    return result;
}

// Between two pieces, or after a character that is in no match.
static int start_config(struct maker *maker, unsigned char cutter, bool after_gap) {
    return config_number(
        maker, (struct open_piece){
                   .list = start_list(maker, cutter), .shadow = NO_SHADOW, .after_gap = after_gap, .is_start = true});
}

// The first character of a piece, before which a piece is known to begin unless the text before it has no matches.
static struct piece_move start(struct maker *maker, unsigned char cutter, bool after_gap, int symbol) {
    struct list_step move = step_list(maker, start_list(maker, cutter), symbol);
    maker->failed = maker->failed || move.matches;  // a match of nothing
    unsigned flags = after_gap && move.is_cut ? TABLE_HERE : 0;
    after_gap = after_gap && !move.is_cut;
    if (move.next < 0) {
        maker->has_gaps = maker->has_gaps || symbol < maker->symbol_count;
        return (struct piece_move){start_config(maker, move.cutter, true), flags};
    }
    bool is_certain = !after_gap || always_matches(maker, move.next);
    if (after_gap)
        flags |= is_certain ? TABLE_HERE : TABLE_MARK;
    struct open_piece piece = {.list = move.next, .shadow = NO_SHADOW, .after_gap = !is_certain, .is_single = true};
    return (struct piece_move){config_number(maker, piece), flags};
}

static struct piece_move step_config(struct maker *maker, int number, int symbol) {
    const struct open_piece config = maker->configs[number];
    unsigned char cutter = maker->lists[config.list].cutter;
    if (config.is_start)
        return start(maker, cutter, config.after_gap, symbol);
    struct list_step move = step_list(maker, config.list, symbol);
    struct piece_move shadow = {.config = LOST};
    bool had = config.shadow != NO_SHADOW, is_end = symbol == maker->symbol_count;
    if (move.matches && !is_end)
        shadow = start(maker, cutter, false, symbol);
    else if (had && !move.matches && config.shadow != LOST)
        shadow = step_config(maker, config.shadow, symbol);
    if (move.next >= 0)
        return go_on(maker, config, move.next, move.matches, shadow);
    if (move.matches)
        return (struct piece_move){is_end ? 0 : shadow.config,
                                   TABLE_HERE | (config.after_gap && !had ? TABLE_MARKED : 0)};
    if (had)
        return shadow.config == LOST ? (struct piece_move){0, TABLE_FAIL} : promote(maker, shadow);
    // No match after all: a single character joins the text without matches, more would have to be read again.
    maker->has_gaps = true;
    if (!config.is_single)
        return (struct piece_move){0, TABLE_FAIL};
    return is_end ? (struct piece_move){0, 0} : start(maker, cutter, true, symbol);
}

// ---- the states of the table ----

static int state_number(struct maker *maker, struct piece_move state) {
    for (int64_t i = 0; i < maker->state_count; i++)
        if (maker->states[i].config == state.config && maker->states[i].flags == state.flags)
            return (int)i;
    MEMORY_GROW(maker->states, maker->state_count, maker->state_capacity);
    maker->states[maker->state_count] = state;
    return (int)maker->state_count++;
}

// All states that a text leads to.
static void find_states(struct maker *maker) {
    size_t capacity = 0;
    state_number(maker, (struct piece_move){start_config(maker, 0, false), 0});
    for (int64_t i = 0; i < maker->state_count && !maker->failed; i++) {
        if ((size_t)i >= capacity) {
            capacity = capacity ? 2 * capacity : 64;
            maker->next = memory_realloc(maker->next, capacity * sizeof *maker->next);
        }
        for (int symbol = 0; symbol <= maker->symbol_count; symbol++) {
            struct piece_move outcome = step_config(maker, maker->states[i].config, symbol);
            maker->failed = maker->failed || outcome.flags & TABLE_FAIL;
            maker->next[i][symbol] = state_number(maker, outcome);
        }
        int now = maker->states[i].config;
        maker->next[i][maker->symbol_count + 1] = state_number(maker, (struct piece_move){now, 0});
        now = start_config(maker, maker->lists[maker->configs[now].list].cutter, false);
        maker->next[i][maker->symbol_count + 2] = state_number(maker, (struct piece_move){now, 0});
        maker->failed = maker->failed || maker->state_count > MOST_CONFIGS;
    }
}

static bool same_row(const struct maker *maker, const int *groups, int64_t a, int64_t b) {
    if (groups[a] != groups[b])
        return false;
    for (int symbol = 0; symbol < maker->symbol_count + 3; symbol++)
        if (groups[maker->next[a][symbol]] != groups[maker->next[b][symbol]])
            return false;
    return true;
}

// Puts states into groups, at first by their flags, until those of a group lead to the same groups. Groups are numbered
// by the first of their states, and the number of groups is returned.
static int merge_states(const struct maker *maker, int *groups) {
    int count = 0, before = -1;
    int *finer = memory_alloc((size_t)maker->state_count * sizeof *finer);
    for (int64_t i = 0; i < maker->state_count; i++)
        groups[i] = (int)maker->states[i].flags;
    while (count != before) {
        before = count;
        count = 0;
        for (int64_t i = 0; i < maker->state_count; i++) {
            int64_t k = 0;
            while (k < i && !same_row(maker, groups, i, k))
                k++;
            finer[i] = k < i ? finer[k] : count++;
        }
        memcpy(groups, finer, (size_t)maker->state_count * sizeof *groups);
    }
    free(finer);
    return count;
}

// Orders the groups so that those without flags that matter at once come first.
static void fill_table(const struct maker *maker, const int *groups, int count, struct pattern_table *table) {
    unsigned char numbers[TABLE_STATES];
    int number = 0;
    for (int kind = 0; kind < 3; kind++) {
        if (kind == 1)
            table->first_here = number;
        if (kind == 2)
            table->first_late = number;
        for (int group = 0; group < count; group++) {
            int64_t i = 0;
            while (groups[i] != group)
                i++;
            unsigned flags = maker->states[i].flags;
            if (kind != (flags & TABLE_LATE ? 2 : flags & TABLE_HERE ? 1 : 0))
                continue;
            numbers[group] = (unsigned char)number;
            table->flags[number++] = (unsigned char)flags;
        }
    }
    for (int64_t i = 0; i < maker->state_count; i++) {
        unsigned char *row = table->next[numbers[groups[i]]];
        for (int byte = 0; byte < 128; byte++)
            row[byte] = numbers[groups[maker->next[i][table->pages[table->index[0]][byte] - 128]]];
        for (int symbol = 0; symbol < maker->symbol_count; symbol++)
            row[128 + symbol] = numbers[groups[maker->next[i][symbol]]];
        table->restart[numbers[groups[i]]] = numbers[groups[maker->next[i][maker->symbol_count + 2]]];
        row[TABLE_END] = numbers[groups[maker->next[i][maker->symbol_count]]];
        row[TABLE_TAIL] = numbers[groups[maker->next[i][maker->symbol_count + 1]]];
    }
    table->covers = !maker->has_gaps;
    table->looks_ahead = table->first_late < number;
}

static bool make_table(struct maker *maker, struct pattern_table *table) {
    if (!check_program(maker) || (maker->before && maker->before->looks_ahead))
        return false;
    make_symbols(maker, table);
    size_t places = (size_t)maker->pattern->count * (LONGEST_RUN + 1);
    maker->seen = memory_alloc(places * sizeof *maker->seen);
    maker->open.places = memory_alloc(places * sizeof *maker->open.places);
    maker->steps = memory_alloc(MOST_LISTS * sizeof *maker->steps);
    find_states(maker);
    if (maker->failed)
        return false;
    int *groups = memory_alloc((size_t)maker->state_count * sizeof *groups);
    int count = merge_states(maker, groups);
    if (count <= TABLE_STATES)
        fill_table(maker, groups, count, table);
    free(groups);
    return count <= TABLE_STATES;
}

struct pattern_table *pattern_table_create(const struct pattern *pattern, const struct pattern_table *before) {
    struct maker *maker = memory_alloc(sizeof *maker);
    struct pattern_table *table = memory_alloc(sizeof *table);
    maker->pattern = pattern;
    maker->before = before;
    bool made = make_table(maker, table);
    for (int i = 0; i < maker->list_count; i++)
        free(maker->lists[i].places);
    free(maker->steps);
    free(maker->states);
    free(maker->next);
    free(maker->seen);
    free(maker->open.places);
    free(maker);
    if (made)
        return table;
    pattern_table_free(table);
    return NULL;
}
