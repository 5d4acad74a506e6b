// Parses a pattern into a tree and writes the tree out as instructions. Patterns come from files, so both are
// bounded.
#include "data/tokenizer/pattern_parse.h"
#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>

enum { MOST_INSTRUCTIONS = 20000 };

static int32_t emit(struct pattern *pattern, struct pattern_instruction instruction) {
    if (pattern->count == pattern->capacity) {
        pattern->capacity = pattern->capacity * 2 + 64;
        pattern->program = memory_realloc(pattern->program, (size_t)pattern->capacity * sizeof *pattern->program);
    }
    pattern->program[pattern->count] = instruction;
    return pattern->count++;
}

static int write_node(struct pattern *pattern, const struct pattern_tree *tree, int32_t index);

static int write_part(struct pattern *pattern, const struct pattern_tree *tree, const struct pattern_node *node,
                      enum pattern_operation operation) {
    int32_t here = emit(pattern, (struct pattern_instruction){.operation = operation, .negated = node->negated});
    TRY(write_node(pattern, tree, node->first));
    pattern->program[here].a = emit(pattern, (struct pattern_instruction){.operation = PATTERN_END});
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

// SPLIT to what follows here (or, lazily, past it first); the other way is filled in by the caller.
static void aim_split(struct pattern *pattern, int32_t split, bool lazy, int32_t past) {
    pattern->program[split].a = lazy ? past : split + 1;
    pattern->program[split].b = lazy ? split + 1 : past;
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
    bool lazy = node->greed == GREED_LEAST;
    for (int32_t i = 0; i < node->min; i++)
        TRY(write_node(pattern, tree, node->first));
    for (int32_t i = node->min; i < node->max; i++) {  // each optional, and those after it too
        int32_t split = emit(pattern, (struct pattern_instruction){.operation = PATTERN_SPLIT});
        TRY(write_node(pattern, tree, node->first));
        aim_split(pattern, split, lazy, pattern->count);
    }
    if (node->max < 0) {
        if (child->nullable)
            return error_set("%s: repeats a part that may be empty, which is not supported", pattern->name);
        int32_t split = emit(pattern, (struct pattern_instruction){.operation = PATTERN_SPLIT});
        TRY(write_node(pattern, tree, node->first));
        emit(pattern, (struct pattern_instruction){.operation = PATTERN_JUMP, .a = split});
        aim_split(pattern, split, lazy, pattern->count);
    }
    if (atomic >= 0)
        pattern->program[atomic].a = emit(pattern, (struct pattern_instruction){.operation = PATTERN_END});
    return 0;
}

static int write_node(struct pattern *pattern, const struct pattern_tree *tree, int32_t index) {
    const struct pattern_node *node = &tree->nodes[index];
    if (pattern->count > MOST_INSTRUCTIONS)
        return error_set("%s: is too long when its repetitions are written out", pattern->name);
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
    case NODE_BEFORE:
        emit(pattern,
             (struct pattern_instruction){.operation = PATTERN_BEFORE, .a = node->value, .negated = node->negated});
        return 0;
    case NODE_ASSERT:
    default:
        emit(pattern, (struct pattern_instruction){.operation = PATTERN_ASSERT, .a = node->value});
        return 0;
    }
}

static void fill_ascii(const struct pattern *pattern) {
    for (int32_t i = 0; i < pattern->set_count; i++)
        for (uint32_t c = 0; c < 128; c++)
            pattern->sets[i].ascii[c] = pattern_set_has(&pattern->sets[i], pattern->table, c);
}

int pattern_compile(struct pattern **pattern, const struct unicode_table *table, const char *text, size_t length,
                    const char *name) {
    struct pattern *compiled = memory_alloc(sizeof *compiled);
    compiled->table = table;
    compiled->name = memory_string(name);
    compiled->word_set = pattern_add_set(compiled);
    pattern_set_add_word(&compiled->sets[compiled->word_set]);
    struct pattern_tree tree = {0};
    int32_t root;
    int status = pattern_parse(compiled, &tree, text, length, &root);
    if (status == 0)
        status = write_node(compiled, &tree, root);
    free(tree.nodes);
    if (status < 0) {
        pattern_free(compiled);
        *pattern = NULL;
        return -1;
    }
    emit(compiled, (struct pattern_instruction){.operation = PATTERN_END});
    fill_ascii(compiled);
    *pattern = compiled;
    return 0;
}

void pattern_free(struct pattern *pattern) {
    if (!pattern)
        return;
    for (int32_t i = 0; i < pattern->set_count; i++)
        free(pattern->sets[i].ranges);
    free(pattern->sets);
    free(pattern->program);
    free(pattern->name);
    free(pattern);
}
