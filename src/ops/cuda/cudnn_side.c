// Side inputs of cuDNN's attention. See cudnn_side.h.
#include "ops/cuda/cudnn_side.h"

#include <math.h>

// Bounds and the seed lie at the beginning of a workspace, in this order: first keys, ends, seed and offset.
int64_t side_bytes(const struct plan_key *key) {
    int64_t rows = cudnn_align((int64_t)sizeof(int32_t) * key->B * key->Tq);
    return (key->has_first ? rows : 0) + (key->has_end ? rows : 0) + (key->keep < 1 ? CUDNN_ALIGNMENT : 0);
}

struct side_inputs side_write(const struct plan_key *key, const struct attention_inputs *in, void *stream,
                              void *memory) {
    unsigned char *at = memory;
    int64_t rows = cudnn_align((int64_t)sizeof(int32_t) * key->B * key->Tq);
    struct side_inputs side = {.B = key->B, .Tq = key->Tq, .Tk = key->Tk};
    if (key->has_first) {
        side.first = (int32_t *)at;
        at += rows;
    }
    if (key->has_end) {
        side.end = (int32_t *)at;
        at += rows;
    }
    if (key->keep < 1)
        side.draw = (int64_t *)at;
    if (side_bytes(key) > 0)
        side_kernel(stream, &side, in->mask, in->dropout);
    return side;
}

static const float NEGATIVE = -INFINITY;

void side_bind(struct cudnn_bindings *bindings, const struct plan_key *key, const struct side_inputs *side,
               int64_t sample) {
    if (key->is_causal)
        cudnn_bind(bindings, UID_NEGATIVE, &NEGATIVE);
    if (side->first) {
        cudnn_bind(bindings, UID_FIRST, side->first + sample * key->Tq);
        cudnn_bind(bindings, UID_FIRST_NEGATIVE, &NEGATIVE);
    }
    if (side->end) {
        cudnn_bind(bindings, UID_END, side->end + sample * key->Tq);
        cudnn_bind(bindings, UID_END_NEGATIVE, &NEGATIVE);
    }
    if (side->draw) {
        cudnn_bind(bindings, UID_SEED, side->draw);
        cudnn_bind(bindings, UID_OFFSET, side->draw + 1);
    }
}
