// Side inputs of cuDNN's attention. See cudnn_side.h.
#include "ops/cuda/cudnn_side.h"

#include <math.h>

static int64_t bound_bytes(const struct plan_key *key) {
    return cudnn_align((int64_t)sizeof(int32_t) * key->B * key->Tq);
}

// Bounds and seeds lie at the beginning of a workspace, in this order: first keys, ends, a seed and an offset for each
// part.
int64_t side_bytes(const struct attention_cut *cut) {
    const struct plan_key *key = &cut->whole;
    int64_t rows = bound_bytes(key), seeds = cudnn_align(2 * (int64_t)sizeof(int64_t) * cut->count);
    return (key->has_first ? rows : 0) + (key->has_end ? rows : 0) + (key->keep < 1 ? seeds : 0);
}

struct side_inputs side_write(const struct attention_cut *cut, const struct attention_inputs *in, void *stream,
                              void *memory) {
    unsigned char *at = memory;
    const struct plan_key *key = &cut->whole;
    struct side_inputs side = {.B = key->B,
                               .Tq = key->Tq,
                               .Tk = key->Tk,
                               .part_samples = cut->part.B,
                               .part_heads = cut->part.H,
                               .parts = cut->count,
                               .head_parts = key->H / cut->part.H};
    if (key->has_first) {
        side.first = (int32_t *)at;
        at += bound_bytes(key);
    }
    if (key->has_end) {
        side.end = (int32_t *)at;
        at += bound_bytes(key);
    }
    if (key->keep < 1)
        side.draw = (int64_t *)at;
    if (side_bytes(cut) > 0)
        side_kernel(stream, &side, in->mask, in->dropout);
    return side;
}

static const float NEGATIVE = -INFINITY;

void side_bind(struct cudnn_bindings *bindings, const struct plan_key *key, const struct side_inputs *side,
               const int64_t at[2]) {
    if (key->is_causal)
        cudnn_bind(bindings, UID_NEGATIVE, &NEGATIVE);
    if (side->first) {
        cudnn_bind(bindings, UID_FIRST, side->first + at[0] * key->Tq);
        cudnn_bind(bindings, UID_FIRST_NEGATIVE, &NEGATIVE);
    }
    if (side->end) {
        cudnn_bind(bindings, UID_END, side->end + at[0] * key->Tq);
        cudnn_bind(bindings, UID_END_NEGATIVE, &NEGATIVE);
    }
    if (side->draw) {
        int64_t part = at[0] / side->part_samples * side->head_parts + at[1] / side->part_heads;
        cudnn_bind(bindings, UID_SEED, side->draw + 2 * part);
        cudnn_bind(bindings, UID_OFFSET, side->draw + 2 * part + 1);
    }
}
