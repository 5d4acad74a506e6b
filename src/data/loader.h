// Micro-batches for one data-parallel rank, prepared ahead of time by a thread.
//
// The order is that of Megatron's default sampler: counted from the consumed samples c, micro-batch m of rank r of dp
// ranks holds samples c + m (b dp) + r b … + b - 1. The next iteration continues where the last one ended, and a global
// batch is a multiple of b dp, so the order does not depend on how many micro-batches make up an iteration. Batch size
// ramp-up needs no code here: the caller takes more micro-batches. Trailing samples that do not fill b dp are dropped.
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include "data/batch.h"
#include "data/sample/source.h"
#include <stdbool.h>
#include <stdint.h>

struct loader_options {
    struct sample_source source;  // must outlive the loader
    int64_t consumed_samples;     // where to begin: samples that all ranks together have consumed
    int64_t micro_batch_size;     // b
    int64_t dp_rank, dp_size;
    int64_t depth;              // micro-batches prepared ahead, at least 1
    int32_t eod;                // the end-of-document id; only used by the next three, which only apply to running text
    bool eod_mask_loss;         // no loss for the prediction at the end of a document
    bool reset_position_ids;    // positions restart at 0 after the end of a document
    bool reset_attention_mask;  // batches give the start of each token's document
    bool pad_last;              // for evaluation: deliver trailing samples too; missing rows have loss_mask 0
};

struct loader;

int loader_open(struct loader **loader, const struct loader_options *options);
// The next micro-batch; valid until the next call. Reading past the last sample is an error, and so is a failed read.
int loader_next(struct loader *loader, const struct batch **batch);
// Identifies the rows that a loader has delivered so far: equal for the same rows in the same order.
uint64_t loader_digest(const struct loader *loader);
void loader_close(struct loader *loader);  // NULL is fine

// How many micro-batches a loader with these options delivers.
int64_t loader_batch_count(const struct loader_options *options);

#endif
