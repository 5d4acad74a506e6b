// Pairs of neighbouring tokens while BPE is trained: how often each occurs, where, and which is the most frequent.
// Counts are weighted by how often a word occurs and need 64 bits. The queue is lazy: a pair whose count has fallen
// since it was put there goes back with its true count when it comes to the top.
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
    struct pair_place *places;  // rising; some may be gone
    int64_t place_count, place_capacity;
    bool touched;  // its count has risen since pair_queue_refresh
};

struct pair_queue {
    struct pair *pairs;
    int64_t count, capacity;
    int64_t *slots;  // hash table of pair numbers + 1, 0 where free
    size_t slot_mask;
    struct pair_candidate *heap;
    int64_t heap_count, heap_capacity;
    int64_t *touched;
    int64_t touched_count, touched_capacity;
};

void pair_queue_free(struct pair_queue *queue);

// Adds weight occurrences of a pair at a place.
void pair_queue_add(struct pair_queue *queue, int32_t left, int32_t right, int64_t weight, struct pair_place place);
// Takes weight occurrences away; places are left as they are.
void pair_queue_remove(struct pair_queue *queue, int32_t left, int32_t right, int64_t weight);
// Puts the pairs that were added to since the last call into the queue.
void pair_queue_refresh(struct pair_queue *queue);
// Takes out the most frequent pair, ties by the smaller (left, right). False if none is left that occurs at all. The
// caller frees pair->places, and says with pair_queue_settle that all occurrences are merged.
bool pair_queue_pop(struct pair_queue *queue, struct pair *pair);
void pair_queue_settle(struct pair_queue *queue, int32_t left, int32_t right);

#endif
