// Parameters on one rank with the updates of an optimizer, for the tests of this folder: open, add parameters with
// param_add, build, close.
#ifndef TESTS_OPTIM_LAB_H
#define TESTS_OPTIM_LAB_H

#include "optim/updates.h"
#include "ops/device.h"
#include "test.h"

struct optim_lab {
    struct device *device;
    struct world *world;
    struct mesh mesh;
    struct arena arena, scratch;
    struct config config;  // defaults without clipping; freed with the lab
    struct param_list params;
    struct pieces pieces;
    struct updates updates;
    struct update update;
    struct pace pace;  // where updates of a test differ in it
};

struct optim_lab_options {
    const struct optimizer_rule *rule;
    enum dtype dtype;
    int parts, part;   // the ranks that share the parameters, and which this one is
    bool has_factors;  // parameters have learning rates and weight decays of their own
};

static inline void optim_lab_open(struct optim_lab *lab) {
    enum { LAB_BYTES = 1 << 20 };
    static _Alignas(256) unsigned char memory[LAB_BYTES], scratch[LAB_BYTES];
    *lab = (struct optim_lab){0};
    arena_init(&lab->arena, "optimizer", memory, sizeof memory);
    arena_init(&lab->scratch, "scratch", scratch, sizeof scratch);
    EXPECT_OK(device_open(&lab->device, &(struct device_options){.name = "cpu", .threads = 1}));
    EXPECT_OK(world_open(&lab->world, &(struct world_options){.backend = "self"}, lab->device));
    EXPECT_OK(mesh_place(&lab->mesh, 0, 1, NULL));
    EXPECT_OK(mesh_connect(&lab->mesh, lab->world));
    config_defaults(&lab->config);
    lab->config.run.clip_grad = 0;
}

// Values and gradients are zero then.
static inline void optim_lab_build(struct optim_lab *lab, const struct optim_lab_options *options) {
    pieces_divide(
        &lab->params,
        &(struct division){
            .parts = options->parts, .part = options->part, .bucket = 64, .keeps_whole = options->rule->takes_matrices},
        &lab->pieces);
    lab->update = (struct update){.device = lab->device,
                                  .mesh = &lab->mesh,
                                  .params = &lab->params,
                                  .values = arena_1d(&lab->arena, options->dtype, lab->params.total),
                                  .grads = arena_1d(&lab->arena, DTYPE_F32, lab->params.total),
                                  .scratch = &lab->scratch};
    param_list_bind(&lab->params, lab->update.values, lab->update.grads);
    updates_build(&lab->updates, &lab->arena,
                  &(struct optimizer_options){.rule = options->rule,
                                              .config = &lab->config,
                                              .lr_multiplier = 1,
                                              .pieces = lab->pieces,
                                              .dtype = options->dtype,
                                              .params = options->has_factors ? &lab->params : NULL},
                  1);
    updates_reset(&lab->updates, lab->device);
    device_zero(lab->device, lab->update.values);
    device_zero(lab->device, lab->update.grads);
}

// Where the first weights of a parameter are written: in the gradients if masters are apart, which take them from
// there (updates_take_weights).
static inline float *optim_lab_weights(const struct optim_lab *lab, int index) {
    const struct param *param = lab->params.items[index];
    return updates_have_masters(&lab->updates) ? param->grad.data : param->value.data;
}

static inline void optim_lab_close(struct optim_lab *lab) {
    param_list_free(&lab->params);
    config_free(&lab->config);
    world_close(lab->world);
    device_close(lab->device);
}

#endif
