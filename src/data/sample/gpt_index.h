// The three arrays that turn a stream of documents into GPT training samples, as Megatron builds them:
//
//   documents (E * n)       the documents of one epoch, E times, shuffled: the order in which they are concatenated
//   samples   (total+1, 2)  where sample k begins: position in `documents` and token offset there; it ends one token
//                           after the beginning of sample k+1, so that neighbours share one token
//   order     (total)       the order in which samples are delivered
//
// A sample may span documents. If less than 80 % of the last epoch is needed, it is shuffled separately, so that each
// earlier document is seen before any of them repeats.
#ifndef DATA_SAMPLE_GPT_INDEX_H
#define DATA_SAMPLE_GPT_INDEX_H

#include "data/index/index.h"
#include <stdbool.h>
#include <stdint.h>

// Values that follow from sizes alone.
struct gpt_shape {
    int64_t seq_length;           // s
    int64_t documents_per_epoch;  // n
    int64_t tokens_per_epoch;     // T
    int64_t epochs;               // E, the smallest with E T >= requested s + 1
    int64_t samples;              // total = (E T - 1) / s
    int64_t samples_before_last;  // ((E - 1) T - 1) / s: samples without tokens of the last epoch; 0 if E = 1
    bool is_last_separate;
    bool wide_samples;  // int64 instead of int32
    bool wide_order;    // int64 instead of uint32
};

// The documents of one split.
struct gpt_range {
    const struct index_reader *reader;
    int64_t begin, end;  // sequences
};

struct gpt_index {
    int32_t *documents;
    void *samples;  // int32_t or int64_t
    void *order;    // uint32_t or int64_t
};

// requested = 0 means one epoch. Fails if there are no tokens or a number exceeds 63 bits.
int gpt_shape_make(struct gpt_shape *shape, struct gpt_range range, int64_t seq_length, int64_t requested);
int64_t gpt_shape_documents(const struct gpt_shape *shape);  // entries of `documents`

int gpt_index_build(struct gpt_index *index, const struct gpt_shape *shape, struct gpt_range range, uint32_t seed);
void gpt_index_free(struct gpt_index *index);  // a zeroed one is fine

#endif
