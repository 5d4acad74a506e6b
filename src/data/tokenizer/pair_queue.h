// Pairs of neighbouring tokens during BPE training: how often each occurs, where, and which is the most frequent.
// Counts are weighted by the frequency of words and need 64 bits. The queue is lazy: a pair whose count has fallen
// since it was added is reinserted with its true count when it comes to the top.
#ifndef DATA_TOKENIZER_PAIR_QUEUE_H
#define DATA_TOKENIZER_PAIR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct pair_place {
    uint32_t position;  // of the pair's first token in the symbols
    uint32_t word;
};

struct pair {
    int32_t left, right;
    int64_t count;
    struct pair_place *places;  // increasing; some may no longer exist
    int64_t place_count, place_capacity;
    bool touched;  // its count has risen since pair_queue_refresh
};

struct pair_queue {
    struct pair *pairs;
    int64_t count, capacity;
    int64_t *slots;  // hash table of pair numbers + 1, 0 if free
    size_t slot_mask;
    struct pair_candidate *heap;
    int64_t heap_count, heap_capacity;
    int64_t *touched;
    int64_t touched_count, touched_capacity;
};

void pair_queue_free(struct pair_queue *queue);

// Adds weight occurrences of a pair at a place.
void pair_queue_add(struct pair_queue *queue, int32_t left, int32_t right, int64_t weight, struct pair_place place);
// Removes `weight` occurrences; places are unchanged.
void pair_queue_remove(struct pair_queue *queue, int32_t left, int32_t right, int64_t weight);
// Inserts the pairs that have grown since the last call into the queue.
void pair_queue_refresh(struct pair_queue *queue);
// Removes the most frequent pair, ties by the smaller (left, right). False if no pair occurs any more. The caller frees
// pair->places, and calls pair_queue_settle when all occurrences are merged.
bool pair_queue_pop(struct pair_queue *queue, struct pair *pair);
void pair_queue_settle(struct pair_queue *queue, int32_t left, int32_t right);

#endif
