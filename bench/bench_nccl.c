// layer: comm
// What a small collective over NCCL costs a rank beyond its transfer: sums over a group of one rank, each between two
// operations on the same tensor, as inside a layer. Once the host waits for each sum, once only the device does.
//   bench_nccl [ELEMENTS [TIMES]]
#include "base/clock.h"
#include "comm/backend.h"
#include "comm/pump.h"
#include "ops/device.h"

#include <stdio.h>
#include <stdlib.h>

struct nccl_trial {
    struct device *device;
    struct group *group;
    struct tensor x;
    int times;
};

static void host_waits(struct group *group, void *handle) {
    const struct collective *collective = group->world->collective;
    CHECK(collective->order(group, handle));
    while (!collective->test(group, handle))
        continue;
}

static void device_waits(struct group *group, void *handle) {
    const struct collective *collective = group->world->collective;
    CHECK(collective->order(group, handle));
    struct comm_request request = {
        .group = group, .carrier = group, .name = "bench", .collective = collective, .handle = handle};
    CHECK(watch_add(group->world->watch, &request));
}

// Prints microseconds of one sum and one operation: until the host is past them, and until they are done.
static void measure(const struct nccl_trial *trial, const char *name, void (*wait)(struct group *group, void *handle)) {
    double start = clock_seconds();
    for (int i = 0; i < trial->times; i++) {
        op_scale(trial->device, &(struct op_scale){.x = trial->x, .factor = 1});
        wait(trial->group, trial->group->world->collective->all_reduce(trial->group, &trial->x, REDUCE_SUM));
    }
    double queued = clock_seconds() - start;
    device_synchronize(trial->device);
    double done = clock_seconds() - start;
    watch_settle(trial->group->world->watch);
    printf("%-14s %10.2f %10.2f\n", name, queued / trial->times * 1e6, done / trial->times * 1e6);
}

int main(int argc, char **argv) {
    int64_t elements = argc > 1 ? strtoll(argv[1], NULL, 10) : 16384;
    struct nccl_trial trial = {.times = argc > 2 ? (int)strtol(argv[2], NULL, 10) : 500};
    struct world *world = NULL;
    if (cuda_count() == 0 || device_open(&trial.device, &(struct device_options){.name = "cuda"}) < 0 ||
        !nccl_library() || nccl_world_open(&world, trial.device, NULL) < 0 ||
        world->collective->group_create(world, &trial.group, (int[]){0}, 1, "one") < 0) {
        fprintf(stderr, "this needs a GPU and NCCL (bevatron version)\n");
        return EXIT_FAILURE;
    }
    trial.x = tensor_1d(device_alloc(trial.device, sizeof(float) * (size_t)elements), DTYPE_F32, elements);
    printf("# %lld fp32 elements; microseconds of a sum and an operation\n%-14s %10s %10s\n", (long long)elements,
           "who waits", "host", "all");
    for (int round = 0; round < 3; round++) {
        measure(&trial, "the host", host_waits);
        measure(&trial, "the device", device_waits);
    }
    device_free(trial.device, trial.x.data);
    world->collective->group_free(trial.group);
    world->collective->world_free(world);
    device_close(trial.device);
    return EXIT_SUCCESS;
}
