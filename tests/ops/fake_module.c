// Stands in for the module for GPUs: it has one GPU, which cannot be opened.
#include "ops/cuda_module.h"

#ifndef FAKE_VERSION
#define FAKE_VERSION BEVATRON_VERSION
#endif
#ifndef FAKE_HEADERS
#define FAKE_HEADERS cuda_module_headers
#endif

static int fake_open(struct device **device, const struct device_options *options) {
    *device = NULL;
    return -100 - options->index;
}

static int fake_count(void) {
    return 3;
}

static int fake_libraries(const struct library **list) {
    static const struct library fake = {.name = "fake"};
    list[0] = &fake;
    return 1;
}

const struct cuda_module *bevatron_cuda_module(void) {
    static struct cuda_module module = {
        .version = FAKE_VERSION,
        .toolkit = "99.1",
        .architectures = "sm_80, sm_90",
        .open = fake_open,
        .count = fake_count,
        .libraries = fake_libraries,
    };
    module.headers = FAKE_HEADERS;
    return &module;
}
