// The smallest run that can be saved: one weight and one Adam tensor of four numbers that encode their iteration.
#ifndef TESTS_STORE_SMALL_RUN_H
#define TESTS_STORE_SMALL_RUN_H

#include "store/checkpoint.h"
#include "store/devices.h"
#include "test.h"

static struct device small_device = {.ops = &host_ops};

static inline int small_save(const char *folder, int64_t iteration, int64_t keep_last) {
    float weight[4], m[4];
    for (int i = 0; i < 4; i++) {
        weight[i] = (float)iteration + (float)i;
        m[i] = -(float)iteration;
    }
    struct checkpoint_tensor model = {.name = "w", .tensor = tensor_1d(weight, DTYPE_F32, 4)};
    struct checkpoint_tensor optimizer = {.name = "m.w", .tensor = tensor_1d(m, DTYPE_F32, 4)};
    struct checkpoint_state state = {
        .iteration = iteration, .replicas_verified = 1, .loss_scale = 1, .config_json = "{\"num_layers\": 1}"};
    return checkpoint_save(&(struct checkpoint_save){.folder = folder,
                                                     .device = &small_device,
                                                     .model = &model,
                                                     .model_count = 1,
                                                     .optimizer = &optimizer,
                                                     .optimizer_count = 1,
                                                     .state = &state,
                                                     .keep_last = keep_last});
}

// Loads everything from an iter_… folder; returns 0 and the iteration of its tensors, on which all parts must agree.
static inline int small_load(const char *path, int64_t *iteration) {
    float weight[4] = {0}, m[4] = {0};
    struct checkpoint_tensor model = {.name = "w", .tensor = tensor_1d(weight, DTYPE_F32, 4)};
    struct checkpoint_tensor optimizer = {.name = "m.w", .tensor = tensor_1d(m, DTYPE_F32, 4)};
    struct checkpoint_load load = {
        .path = path, .part = CHECKPOINT_MODEL, .device = &small_device, .tensors = &model, .count = 1};
    struct checkpoint_state state;
    TRY(checkpoint_load_state(path, &state));
    int64_t saved = state.iteration;
    checkpoint_state_free(&state);
    TRY(checkpoint_load_tensors(&load));
    load.part = CHECKPOINT_OPTIMIZER;
    load.tensors = &optimizer;
    TRY(checkpoint_load_tensors(&load));
    *iteration = (int64_t)weight[0];
    return (int64_t)weight[0] == saved && (int64_t)-m[3] == saved ? 0 : error_set("parts of different iterations");
}

// Result for a resuming run: the iteration, or -1 with a message.
static inline int64_t small_resume(const char *folder, bool allow_fallback) {
    struct checkpoint_find find = {.folder = folder, .step = -1, .allow_fallback = allow_fallback};
    char *path = NULL;
    int64_t found = -1, loaded = -2;
    if (checkpoint_find(&find, &path, &found) < 0)
        return -1;
    if (small_load(path, &loaded) < 0 || loaded != found)
        test_fail("a verified checkpoint does not load: %s", error_message());
    free(path);
    return found;
}

#endif
