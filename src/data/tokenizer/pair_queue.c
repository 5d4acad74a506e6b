// A hash table of pairs, and a binary heap of (count, pair) over it.
#include "data/tokenizer/pair_queue.h"
#include "base/error.h"
#include "base/memory.h"
#include <stdlib.h>

struct pair_candidate {
    int64_t count;  // when it was added
    int64_t pair;
};

void pair_queue_free(struct pair_queue *queue) {
    for (int64_t i = 0; i < queue->count; i++)
        free(queue->pairs[i].places);
    free(queue->pairs);
    free(queue->slots);
    free(queue->heap);
    free(queue->touched);
    *queue = (struct pair_queue){0};
}

// ---- the table ----

static size_t slot_of(const struct pair_queue *queue, int32_t left, int32_t right) {
    uint64_t key = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9E3779B97F4A7C15u;
    key ^= key >> 32;
    size_t slot = (size_t)key & queue->slot_mask;
    while (queue->slots[slot]) {
        const struct pair *pair = &queue->pairs[queue->slots[slot] - 1];
        if (pair->left == left && pair->right == right)
            break;
        slot = (slot + 1) & queue->slot_mask;
    }
    return slot;
}

static void grow_slots(struct pair_queue *queue) {
    size_t slots = queue->slots ? 2 * (queue->slot_mask + 1) : 1024;
    free(queue->slots);
    queue->slots = memory_alloc(slots * sizeof *queue->slots);
    queue->slot_mask = slots - 1;
    for (int64_t i = 0; i < queue->count; i++)
        queue->slots[slot_of(queue, queue->pairs[i].left, queue->pairs[i].right)] = i + 1;
}

static int64_t find_or_create(struct pair_queue *queue, int32_t left, int32_t right) {
    if (!queue->slots || 2 * (size_t)queue->count >= queue->slot_mask)
        grow_slots(queue);
    size_t slot = slot_of(queue, left, right);
    if (!queue->slots[slot]) {
        if (queue->count == queue->capacity) {
            queue->capacity = queue->capacity ? 2 * queue->capacity : 1024;
            queue->pairs = memory_realloc(queue->pairs, (size_t)queue->capacity * sizeof *queue->pairs);
        }
        queue->pairs[queue->count++] = (struct pair){.left = left, .right = right};
        queue->slots[slot] = queue->count;
    }
    return queue->slots[slot] - 1;
}

void pair_queue_add(struct pair_queue *queue, int32_t left, int32_t right, int64_t weight, struct pair_place place) {
    int64_t number = find_or_create(queue, left, right);
    struct pair *pair = &queue->pairs[number];
    if (pair->place_count == pair->place_capacity) {
        pair->place_capacity = pair->place_capacity ? 2 * pair->place_capacity : 2;
        pair->places = memory_realloc(pair->places, (size_t)pair->place_capacity * sizeof *pair->places);
    }
    pair->places[pair->place_count++] = place;
    pair->count += weight;
    if (pair->touched)
        return;
    pair->touched = true;
    if (queue->touched_count == queue->touched_capacity) {
        queue->touched_capacity = queue->touched_capacity ? 2 * queue->touched_capacity : 1024;
        queue->touched = memory_realloc(queue->touched, (size_t)queue->touched_capacity * sizeof *queue->touched);
    }
    queue->touched[queue->touched_count++] = number;
}

void pair_queue_remove(struct pair_queue *queue, int32_t left, int32_t right, int64_t weight) {
    size_t slot = slot_of(queue, left, right);
    CHECK(queue->slots[slot]);
    queue->pairs[queue->slots[slot] - 1].count -= weight;
}

// ---- the heap ----

static bool goes_before(const struct pair_queue *queue, struct pair_candidate a, struct pair_candidate b) {
    if (a.count != b.count)
        return a.count > b.count;
    const struct pair *x = &queue->pairs[a.pair], *y = &queue->pairs[b.pair];
    return x->left != y->left ? x->left < y->left : x->right < y->right;
}

static void heap_push(struct pair_queue *queue, struct pair_candidate candidate) {
    if (queue->heap_count == queue->heap_capacity) {
        queue->heap_capacity = queue->heap_capacity ? 2 * queue->heap_capacity : 1024;
        queue->heap = memory_realloc(queue->heap, (size_t)queue->heap_capacity * sizeof *queue->heap);
    }
    int64_t at = queue->heap_count++;
    for (; at > 0 && goes_before(queue, candidate, queue->heap[(at - 1) / 2]); at = (at - 1) / 2)
        queue->heap[at] = queue->heap[(at - 1) / 2];
    queue->heap[at] = candidate;
}

static struct pair_candidate heap_pop(struct pair_queue *queue) {
    struct pair_candidate top = queue->heap[0], last = queue->heap[--queue->heap_count];
    int64_t at = 0;
    for (;;) {
        int64_t child = 2 * at + 1;
        if (child >= queue->heap_count)
            break;
        if (child + 1 < queue->heap_count && goes_before(queue, queue->heap[child + 1], queue->heap[child]))
            child++;
        if (!goes_before(queue, queue->heap[child], last))
            break;
        queue->heap[at] = queue->heap[child];
        at = child;
    }
    queue->heap[at] = last;
    return top;
}

void pair_queue_refresh(struct pair_queue *queue) {
    for (int64_t i = 0; i < queue->touched_count; i++) {
        struct pair *pair = &queue->pairs[queue->touched[i]];
        pair->touched = false;
        if (pair->count > 0)
            heap_push(queue, (struct pair_candidate){pair->count, queue->touched[i]});
    }
    queue->touched_count = 0;
}

bool pair_queue_pop(struct pair_queue *queue, struct pair *out) {
    while (queue->heap_count > 0) {
        struct pair_candidate top = heap_pop(queue);
        struct pair *pair = &queue->pairs[top.pair];
        if (pair->count > 0 && pair->count != top.count) {
            heap_push(queue, (struct pair_candidate){pair->count, top.pair});
            continue;
        }
        *out = *pair;
        pair->places = NULL;
        pair->place_count = pair->place_capacity = 0;
        if (out->count > 0)
            return true;
        free(out->places);
    }
    return false;
}

void pair_queue_settle(struct pair_queue *queue, int32_t left, int32_t right) {
    size_t slot = slot_of(queue, left, right);
    CHECK(queue->slots[slot]);
    queue->pairs[queue->slots[slot] - 1].count = 0;
}
