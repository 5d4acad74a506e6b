// Micro-batches for one data-parallel rank, prepared ahead of time by a thread.
//
// The order is that of Megatron's default sampler: counted from the consumed samples c, micro-batch m of rank r of dp
// ranks holds samples c + m (b dp) + r b … + b - 1. Since the next iteration goes on where the last one ended, and
// a global batch is a whole number of b dp, the order does not depend on how many micro-batches make an iteration: a
// batch size that ramps up needs nothing here, the caller just takes more micro-batches. The trailing incomplete b dp
// is left out.
#ifndef DATA_LOADER_H
#define DATA_LOADER_H

#include "data/sample/batch.h"
#include "data/sample/source.h"
#include <stdbool.h>
#include <stdint.h>

struct loader_options {
    struct sample_source source;  // must outlive the loader
    int64_t consumed_samples;     // where to begin: what all ranks have consumed together
    int64_t micro_batch_size;     // b
    int64_t dp_rank, dp_size;
    int64_t depth;              // micro-batches prepared ahead, at least 1
    int32_t eod;                // the end-of-document id; only for the three below, which only running text has
    bool eod_mask_loss;         // no loss for what is predicted at an end of document
    bool reset_position_ids;    // positions begin at 0 again after an end of document
    bool reset_attention_mask;  // batches say where each token's document begins
    bool pad_last;              // evaluation: the last incomplete b dp is given too, missing rows have loss_mask 0
};

struct loader;

int loader_open(struct loader **loader, const struct loader_options *options);
// The next micro-batch; it is valid until the next call. Past the last sample, and where reading failed, an error.
int loader_next(struct loader *loader, const struct batch **batch);
// A number that tells apart what two loaders have given so far: the same for the same rows in the same order.
uint64_t loader_digest(const struct loader *loader);
void loader_close(struct loader *loader);  // NULL is fine

// How many micro-batches a loader with these options gives.
int64_t loader_batch_count(const struct loader_options *options);

#endif
