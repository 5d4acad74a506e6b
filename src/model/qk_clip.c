// The largest scores of a step. See qk_clip.h.
#include "model/qk_clip.h"
#include "ops/device.h"

void qk_clip_set(struct qk_clip *clip, const struct config *config) {
    *clip = (struct qk_clip){.H = config->model.num_attention_heads,
                             .alpha = config->run.qk_clip_alpha,
                             .threshold = config->run.qk_clip_threshold};
}

int64_t qk_clip_add(struct qk_clip *clip) {
    return clip->layers++;
}

struct tensor qk_clip_heads(const struct qk_clip *clip, int64_t layer, int64_t first_head, int64_t heads) {
    return tensor_rows(clip->largest, layer * clip->H + first_head, heads);
}

void qk_clip_lay_out(struct qk_clip *clip, struct arena *arena) {
    if (clip->layers > 0)
        clip->largest = arena_1d(arena, DTYPE_F32, clip->layers * clip->H);
}

void qk_clip_begin_step(const struct qk_clip *clip, struct device *device) {
    if (clip->layers > 0)
        device_zero(device, clip->largest);
}

// Each rank has the scores of its own heads and tokens, and 0 for all others.
void qk_clip_end_step(const struct qk_clip *clip, const struct mesh *mesh) {
    if (clip->layers > 0)
        comm_all_reduce(mesh->stage, clip->largest, REDUCE_MAX, "largest scores");
}
