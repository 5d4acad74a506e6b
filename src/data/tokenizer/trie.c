// Builds a double array: nodes are placed in order of depth, each with all its children at the first base where their
// units are free. Free units are linked, so that full stretches are not searched repeatedly.
#include "data/tokenizer/trie.h"
#include "data/tokenizer/token_list.h"
#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

enum { NO_NODE = -1, ROOT_PARENT = -2, BYTES = 256 };

// A node whose children are not placed yet: keys[first…end) pass through it.
struct pending {
    int32_t node;
    int64_t first, end;
    size_t depth;
};

struct trie_builder {
    struct trie *trie;
    const struct trie_key *keys;
    struct pending *queue;
    int64_t queued, done, queue_capacity;
    int32_t *next_free;  // (size) the next free unit after each free one
    int32_t first_free;
};

static int compare_keys(const void *left, const void *right) {
    const struct trie_key *a = left, *b = right;
    size_t shorter = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->text, b->text, shorter);
    if (order != 0)
        return order;
    if (a->length != b->length)
        return a->length < b->length ? -1 : 1;
    return (a->value > b->value) - (a->value < b->value);
}

static void grow(struct trie_builder *builder, int64_t needed) {
    struct trie *trie = builder->trie;
    int64_t old = trie->size, size = old ? old : 4 * BYTES;
    while (size < needed)
        size *= 2;
    if (size == old)
        return;
    if (size > (int64_t)1 << 30)
        die("a trie of more than 2^30 units");
    trie->units = memory_realloc(trie->units, (size_t)size * sizeof *trie->units);
    trie->values = memory_realloc(trie->values, (size_t)size * sizeof *trie->values);
    builder->next_free = memory_realloc(builder->next_free, (size_t)size * sizeof *builder->next_free);
    for (int64_t i = old; i < size; i++) {
        trie->units[i] = (struct trie_unit){0, NO_NODE};
        trie->values[i] = -1;
        builder->next_free[i] = (int32_t)i + 1;
    }
    trie->size = size;
}

// The bytes that follow, and the first key of each; returns their number. *value is that of the key that ends here.
static int children_of(const struct trie_builder *builder, const struct pending *node, unsigned char *bytes,
                       int64_t *firsts, int32_t *value) {
    int count = 0;
    *value = -1;
    for (int64_t i = node->first; i < node->end; i++) {
        const struct trie_key *key = &builder->keys[i];
        if (key->length == node->depth) {
            if (*value < 0)
                *value = key->value;
            continue;
        }
        unsigned char byte = (unsigned char)key->text[node->depth];
        if (count == 0 || bytes[count - 1] != byte) {
            bytes[count] = byte;
            firsts[count++] = i;
        }
    }
    return count;
}

// The next unit at or after `unit` without a node. Links over units that were taken meanwhile are shortened on the way.
static int32_t free_from(struct trie_builder *builder, int32_t unit) {
    int32_t found = unit;
    while (found < builder->trie->size && builder->trie->units[found].parent != NO_NODE)
        found = builder->next_free[found];
    while (unit < found) {
        int32_t next = builder->next_free[unit];
        builder->next_free[unit] = found;
        unit = next;
    }
    return found;
}

static int32_t find_base(struct trie_builder *builder, const unsigned char *bytes, int count) {
    int32_t slot = builder->first_free > bytes[0] ? builder->first_free : (int32_t)bytes[0] + 1;
    int tries = 0;
    for (slot = free_from(builder, slot);; slot = free_from(builder, slot + 1)) {
        int32_t base = slot - bytes[0];
        grow(builder, (int64_t)base + 2 * BYTES);
        int i = 1;
        while (i < count && builder->trie->units[base + bytes[i]].parent == NO_NODE)
            i++;
        if (i == count)
            break;
        // After many failures, leave this stretch to single children, and search from its end on.
        if (++tries == BYTES && count > 1)
            builder->first_free = free_from(builder, builder->first_free + BYTES / 4);
    }
    return slot - bytes[0];
}

static void enqueue(struct trie_builder *builder, struct pending node) {
    MEMORY_GROW(builder->queue, builder->queued, builder->queue_capacity);
    builder->queue[builder->queued++] = node;
}

static void place_children(struct trie_builder *builder, struct pending node) {
    unsigned char bytes[BYTES];
    int64_t firsts[BYTES];
    int32_t value;
    int count = children_of(builder, &node, bytes, firsts, &value);
    builder->trie->values[node.node] = value;
    if (count == 0)
        return;
    int32_t base = find_base(builder, bytes, count);
    builder->trie->units[node.node].base = base;
    for (int i = 0; i < count; i++) {
        int32_t child = base + bytes[i];
        builder->trie->units[child].parent = node.node;
        int64_t end = i + 1 < count ? firsts[i + 1] : node.end;
        enqueue(builder, (struct pending){child, firsts[i], end, node.depth + 1});
    }
}

void trie_build(struct trie *trie, struct trie_key *keys, int64_t count) {
    *trie = (struct trie){0};
    if (count > 0)
        qsort(keys, (size_t)count, sizeof *keys, compare_keys);
    struct trie_builder builder = {.trie = trie, .keys = keys, .first_free = 1};
    grow(&builder, 2 * BYTES);
    trie->units[TRIE_ROOT].parent = ROOT_PARENT;
    enqueue(&builder, (struct pending){TRIE_ROOT, 0, count, 0});
    while (builder.done < builder.queued)
        place_children(&builder, builder.queue[builder.done++]);
    free(builder.queue);
    free(builder.next_free);
}

void trie_free(struct trie *trie) {
    free(trie->units);
    free(trie->values);
    *trie = (struct trie){0};
}

int32_t trie_walk(const struct trie *trie, const char *text, size_t length) {
    int32_t node = TRIE_ROOT;
    for (size_t i = 0; i < length && node >= 0; i++)
        node = trie_step(trie, node, (unsigned char)text[i]);
    return node;
}

int32_t trie_find(const struct trie *trie, const char *text, size_t length) {
    int32_t node = trie_walk(trie, text, length);
    return node < 0 ? -1 : trie->values[node];
}

struct trie_match trie_longest(const struct trie *trie, const char *text, size_t length, int most) {
    struct trie_match match = {0, -1};
    int32_t node = TRIE_ROOT;
    for (size_t i = 0; i < length && most > 0; i++) {
        node = trie_step(trie, node, (unsigned char)text[i]);
        if (node < 0)
            break;
        if (trie->values[node] >= 0) {
            match = (struct trie_match){i + 1, trie->values[node]};
            most--;
        }
    }
    return match;
}
