// Parses a pattern into a tree and compiles the tree to instructions. Patterns come from files, so both are bounded.
#include "data/tokenizer/pattern_program.h"
#include "data/tokenizer/token_list.h"
#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>

// ---- sets ----

// Pages of bits for the sets of patterns, so that a lookup takes two loads for any number of ranges.

enum { PAGE_BYTES = 32, SMALL = 8 };

static unsigned char *new_page(struct pattern_set *set, uint32_t page, size_t *count) {
    set->pages = memory_realloc(set->pages, (*count + 1) * PAGE_BYTES);
    unsigned char *bits = set->pages + *count * PAGE_BYTES;
    for (int i = 0; i < PAGE_BYTES; i++)
        bits[i] = 0;
    set->index[page] = (uint16_t)(2 + (*count)++);
    return bits;
}

// Fills in the tables for fast lookup.
static void pattern_set_finish(struct pattern_set *set) {
    for (uint32_t c = 0; c < 128; c++)
        set->ascii[c] = character_set_has(&set->characters, c);
    if (set->characters.count <= SMALL)
        return;
    size_t count = 0;
    set->index = memory_alloc(PATTERN_PAGES * sizeof *set->index);
    for (size_t i = 0; i < set->characters.count; i++) {
        struct character_range range = set->characters.ranges[i];
        for (uint32_t page = range.first >> 8; page <= range.last >> 8; page++) {
            uint32_t first = range.first > page << 8 ? range.first : page << 8;
            uint32_t last = range.last < (page << 8 | 255) ? range.last : (page << 8 | 255);
            if (last - first == 255) {
                set->index[page] = 1;
                continue;
            }
            unsigned char *bits = set->index[page] ? set->pages + (size_t)(set->index[page] - 2) * PAGE_BYTES
                                                   : new_page(set, page, &count);
            for (uint32_t c = first; c <= last; c++)
                bits[c >> 3 & 31] |= (unsigned char)(1 << (c & 7));
        }
    }
}

// ---- instructions ----

enum { MOST_INSTRUCTIONS = 20000 };

static int32_t emit(struct pattern *pattern, struct pattern_instruction instruction) {
    MEMORY_GROW(pattern->program, pattern->count, pattern->capacity);
    pattern->program[pattern->count] = instruction;
    return pattern->count++;
}

// The program may move when it grows, so the place to write to is looked up afterwards.
static void end_part(struct pattern *pattern, int32_t part) {
    int32_t end = emit(pattern, (struct pattern_instruction){.operation = PATTERN_END});
    pattern->program[part].a = end;
}

static int write_node(struct pattern *pattern, const struct pattern_tree *tree, int32_t index);

static int write_part(struct pattern *pattern, const struct pattern_tree *tree, const struct pattern_node *node,
                      enum pattern_operation operation) {
    int32_t here =
        emit(pattern, (struct pattern_instruction){
                          .operation = operation, .min = node->min, .max = node->max, .negated = node->negated});
    TRY(write_node(pattern, tree, node->first));
    end_part(pattern, here);
    return 0;
}

// The set if a group is a single set; -1 if it is anything else.
static int32_t only_set(const struct pattern_tree *tree, int32_t index) {
    const struct pattern_node *node = &tree->nodes[index];
    if (node->kind == NODE_SET)
        return node->value;
    bool holds_one = (node->kind == NODE_SEQUENCE || node->kind == NODE_ALTERNATIVES) && node->first >= 0 &&
                     tree->nodes[node->first].next < 0;
    return holds_one ? only_set(tree, node->first) : -1;
}

static int write_behind(struct pattern *pattern, const struct pattern_tree *tree, const struct pattern_node *node) {
    int32_t set = only_set(tree, node->first);
    if (set < 0)
        return write_part(pattern, tree, node, PATTERN_BEHIND);
    emit(pattern, (struct pattern_instruction){.operation = PATTERN_BEFORE, .a = set, .negated = node->negated});
    return 0;
}

static int write_alternatives(struct pattern *pattern, const struct pattern_tree *tree,
                              const struct pattern_node *node) {
    int32_t jumps = -1;  // to the end, chained through their a
    for (int32_t child = node->first; child >= 0; child = tree->nodes[child].next) {
        bool last = tree->nodes[child].next < 0;
        int32_t split = last ? -1 : emit(pattern, (struct pattern_instruction){.operation = PATTERN_SPLIT});
        if (split >= 0)
            pattern->program[split].a = pattern->count;
        TRY(write_node(pattern, tree, child));
        if (!last) {
            jumps = emit(pattern, (struct pattern_instruction){.operation = PATTERN_JUMP, .a = jumps});
            pattern->program[split].b = pattern->count;
        }
    }
    while (jumps >= 0) {
        int32_t next = pattern->program[jumps].a;
        pattern->program[jumps].a = pattern->count;
        jumps = next;
    }
    return 0;
}

// Points SPLIT at the next instruction (or, if lazy, past it first); the caller fills in the other branch.
static void aim_split(struct pattern *pattern, int32_t split, bool lazy, int32_t past) {
    pattern->program[split].a = lazy ? past : split + 1;
    pattern->program[split].b = lazy ? split + 1 : past;
}

// Any number of times. An empty iteration is the last one.
static int write_loop(struct pattern *pattern, const struct pattern_tree *tree, const struct pattern_node *node) {
    bool may_be_empty = tree->nodes[node->first].least == 0;
    int32_t split = emit(pattern, (struct pattern_instruction){.operation = PATTERN_SPLIT});
    int32_t mark = pattern->mark_count, moved = -1;
    if (may_be_empty) {
        pattern->mark_count++;
        emit(pattern, (struct pattern_instruction){.operation = PATTERN_MARK, .b = mark});
    }
    TRY(write_node(pattern, tree, node->first));
    if (may_be_empty)
        moved = emit(pattern, (struct pattern_instruction){.operation = PATTERN_MOVED, .b = mark});
    emit(pattern, (struct pattern_instruction){.operation = PATTERN_JUMP, .a = split});
    aim_split(pattern, split, node->greed == GREED_LEAST, pattern->count);
    if (moved >= 0)
        pattern->program[moved].a = pattern->count;
    return 0;
}

static int write_repeat(struct pattern *pattern, const struct pattern_tree *tree, const struct pattern_node *node) {
    const struct pattern_node *child = &tree->nodes[node->first];
    if (child->kind == NODE_SET) {
        emit(
            pattern,
            (struct pattern_instruction){
                .operation = PATTERN_RUN, .a = child->value, .min = node->min, .max = node->max, .greed = node->greed});
        return 0;
    }
    int32_t atomic = -1;
    if (node->greed == GREED_ALL)
        atomic = emit(pattern, (struct pattern_instruction){.operation = PATTERN_ATOMIC});
    bool lazy = node->greed == GREED_LEAST, is_empty = child->longest == 0;
    // A second empty match changes nothing.
    int32_t min = is_empty && node->min > 1 ? 1 : node->min, max = is_empty && node->max > min ? min + 1 : node->max;
    for (int32_t i = 0; i < min; i++)
        TRY(write_node(pattern, tree, node->first));
    for (int32_t i = min; i < max; i++) {  // each is optional, and so are those after it
        int32_t split = emit(pattern, (struct pattern_instruction){.operation = PATTERN_SPLIT});
        TRY(write_node(pattern, tree, node->first));
        aim_split(pattern, split, lazy, pattern->count);
    }
    if (node->max < 0)
        TRY(write_loop(pattern, tree, node));
    if (atomic >= 0)
        end_part(pattern, atomic);
    return 0;
}

static int write_node(struct pattern *pattern, const struct pattern_tree *tree, int32_t index) {
    const struct pattern_node *node = &tree->nodes[index];
    if (pattern->count > MOST_INSTRUCTIONS)
        return error_set("%s is too long once its repetitions are expanded", pattern->name);
    switch (node->kind) {
    case NODE_SET:
        emit(pattern, (struct pattern_instruction){.operation = PATTERN_SET, .a = node->value});
        return 0;
    case NODE_SEQUENCE:
        for (int32_t child = node->first; child >= 0; child = tree->nodes[child].next)
            TRY(write_node(pattern, tree, child));
        return 0;
    case NODE_ALTERNATIVES:
        return write_alternatives(pattern, tree, node);
    case NODE_REPEAT:
        return write_repeat(pattern, tree, node);
    case NODE_LOOK:
        return write_part(pattern, tree, node, PATTERN_LOOK);
    case NODE_ATOMIC:
        return write_part(pattern, tree, node, PATTERN_ATOMIC);
    case NODE_BEHIND:
        return write_behind(pattern, tree, node);
    case NODE_KEEP:
        emit(pattern, (struct pattern_instruction){.operation = PATTERN_MARK, .b = PATTERN_KEEP});
        return 0;
    case NODE_ASSERT:
    default:
        emit(pattern, (struct pattern_instruction){.operation = PATTERN_ASSERT, .a = node->value});
        return 0;
    }
}

// Adds the characters that a match of the node may begin with. Returns whether the match may be empty: then the next
// node's characters may begin it too.
static bool add_first(const struct pattern *pattern, const struct pattern_tree *tree, int32_t index,
                      struct character_set *set) {
    const struct pattern_node *node = &tree->nodes[index];
    bool is_empty = true;
    switch (node->kind) {
    case NODE_SET:
        character_set_add_set(set, &pattern->sets[node->value].characters);
        return false;
    case NODE_SEQUENCE:
        for (int32_t child = node->first; is_empty && child >= 0; child = tree->nodes[child].next)
            is_empty = add_first(pattern, tree, child, set);
        return is_empty;
    case NODE_ALTERNATIVES:
        is_empty = false;
        for (int32_t child = node->first; child >= 0; child = tree->nodes[child].next)
            is_empty = add_first(pattern, tree, child, set) || is_empty;
        return is_empty;
    case NODE_REPEAT:
        return node->max == 0 || add_first(pattern, tree, node->first, set) || node->min == 0;
    case NODE_ATOMIC:
        return add_first(pattern, tree, node->first, set);
    default:
        return true;
    }
}

static int find_first(struct pattern *pattern, const struct pattern_tree *tree, int32_t root) {
    struct character_set set = {0};
    pattern->first_set = -1;
    if (add_first(pattern, tree, root, &set)) {
        character_set_free(&set);
        return 0;
    }
    return pattern_add_set(pattern, &set, &pattern->first_set);
}

// Whether an empty match must come after a character, because of a lookbehind.
static bool is_never_first(const struct pattern_tree *tree, int32_t index) {
    const struct pattern_node *node = &tree->nodes[index];
    bool any = false, all = true;
    for (int32_t child = node->first; child >= 0; child = tree->nodes[child].next) {
        bool is_never = is_never_first(tree, child);
        any = any || is_never;
        all = all && (is_never || tree->nodes[child].least > 0);
    }
    switch (node->kind) {
    case NODE_BEHIND:
        return !node->negated && node->min > 0;
    case NODE_ALTERNATIVES:
        return all && node->first >= 0;
    case NODE_SEQUENCE:
    case NODE_ATOMIC:
        return any;
    case NODE_REPEAT:
        return any && node->min > 0;
    case NODE_LOOK:  // a lookahead is not part of the match
    case NODE_SET:
    case NODE_KEEP:
    case NODE_ASSERT:
    default:
        return false;
    }
}

int pattern_compile(struct pattern **pattern, enum pattern_syntax syntax, const char *text, size_t length,
                    const char *name) {
    struct pattern *compiled = memory_alloc(sizeof *compiled);
    compiled->syntax = syntax;
    compiled->name = memory_string(name);
    compiled->mark_count = PATTERN_KEEP + 1;
    struct character_set word = {0};
    pattern_add_word(compiled, &word);
    struct pattern_tree tree = {0};
    int32_t root = -1;
    int status = pattern_add_set(compiled, &word, &compiled->word_set);
    if (status == 0)
        status = pattern_parse(compiled, &tree, text, length, &root);
    if (status == 0)
        status = write_node(compiled, &tree, root);
    if (status == 0)
        status = find_first(compiled, &tree, root);
    if (status == 0)
        compiled->may_insert_first = compiled->keeps || (tree.nodes[root].least == 0 && !is_never_first(&tree, root));
    free(tree.nodes);
    if (status < 0) {
        pattern_free(compiled);
        *pattern = NULL;
        return -1;
    }
    emit(compiled, (struct pattern_instruction){.operation = PATTERN_END});
    compiled->depends_on_path = compiled->keeps || compiled->mark_count > PATTERN_KEEP + 1;
    for (int32_t i = 0; i < compiled->count; i++)
        if (compiled->program[i].operation == PATTERN_ASSERT && compiled->program[i].a == ASSERT_SEARCH)
            compiled->depends_on_path = true;
    for (int32_t i = 0; i < compiled->set_count; i++)
        pattern_set_finish(&compiled->sets[i]);
    *pattern = compiled;
    return 0;
}

bool pattern_may_insert_first(const struct pattern *pattern) {
    return pattern->may_insert_first;
}

void pattern_free(struct pattern *pattern) {
    if (!pattern)
        return;
    for (int32_t i = 0; i < pattern->set_count; i++) {
        character_set_free(&pattern->sets[i].characters);
        free(pattern->sets[i].index);
        free(pattern->sets[i].pages);
    }
    free(pattern->sets);
    free(pattern->program);
    free(pattern->name);
    free(pattern);
}
