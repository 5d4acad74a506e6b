// QK-clip (Kimi K2, 2025): attention records the largest score of each head. After an update, the rows of queries and
// keys of heads above a threshold are scaled down so that their largest score would be the threshold. The rows are
// listed with the parameters (struct param_clip), and the optimizer scales them.
#ifndef MODEL_QK_CLIP_H
#define MODEL_QK_CLIP_H

#include "config/config.h"
#include "ops/ops.h"
#include "parallel/mesh.h"
#include "parallel/param.h"
#include "tensor/arena.h"

struct qk_clip {
    int64_t layers, H;      // layers with attention of its own, and all heads of one
    struct tensor largest;  // (layers * H) fp32: the largest scores of this step so far
    double alpha, threshold;
};

void qk_clip_set(struct qk_clip *clip, const struct config *config);
// Adds a layer; returns its number.
int64_t qk_clip_add(struct qk_clip *clip);
// Largest scores of a rank's heads in a layer, (heads).
struct tensor qk_clip_heads(const struct qk_clip *clip, int64_t layer, int64_t first_head, int64_t heads);
// Takes its tensor from the arena; nothing without layers.
void qk_clip_lay_out(struct qk_clip *clip, struct arena *arena);
// qk_clip_begin_step clears all scores; after qk_clip_end_step all ranks that hold a layer have the largest scores of
// all its heads. All ranks call both.
void qk_clip_begin_step(const struct qk_clip *clip, struct device *device);
void qk_clip_end_step(const struct qk_clip *clip, const struct mesh *mesh);

#endif
