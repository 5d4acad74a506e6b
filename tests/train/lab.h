// A small model on the CPU, ready to be stepped, from a line of flags.
#ifndef TESTS_TRAIN_LAB_H
#define TESTS_TRAIN_LAB_H

#include "golden_model.h"

struct train_lab {
    struct config config;
    struct device *device;
    struct world *world;
    struct step *step;
};

static inline void lab_open(struct train_lab *lab, const char *flags) {
    struct golden_model words = {0};
    struct safetensors_text text = {"flags", flags};
    struct mesh mesh;
    words.file = (struct safetensors){.metadata = &text, .metadata_count = 1};
    golden_parse(&words, "");
    lab->config = words.config;
    EXPECT_OK(device_open(&lab->device, &(struct device_options){.name = "cpu", .threads = 1}));
    EXPECT_OK(world_open(&lab->world, &(struct world_options){.backend = "self"}, lab->device));
    EXPECT_OK(mesh_place(&mesh, 0, 1, NULL));
    EXPECT_OK(mesh_connect(&mesh, lab->world));
    EXPECT_OK(setup_step(&lab->step, &(struct setup){&lab->config, lab->device, &mesh, STEP_TRAIN}));
    step_initialize(lab->step);
}

static inline void lab_close(struct train_lab *lab) {
    step_close(lab->step);
    world_close(lab->world);
    device_close(lab->device);
    config_free(&lab->config);
}

#endif
