// NCCL on one GPU: a communicator of one rank, asked directly, since comm.c lets groups of one do nothing. What
// several ranks compute is tested with the wrapped MPI world (tests/parallel); this shows that streams, types and
// requests are right.
#include "comm/backend.h"
#include "ops/device.h"
#include "test.h"

enum { COUNT = 1 << 20 };

static void finish(struct group *group, void *handle) {
    while (!group->world->collective->test(group, handle))
        ;
}

TEST(one_rank) {
    struct device *device;
    struct world *world;
    struct group *group;
    if (cuda_count() == 0)
        test_skip("no GPU");
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cuda"}));
    if (!nccl_fits(device, NULL))
        test_skip("built without NCCL");
    EXPECT_OK(nccl_world_open(&world, device, NULL));
    EXPECT_OK(world->collective->group_create(world, &group, (int[]){0}, 1, "one"));
    const struct collective *nccl = world->collective;
    float *values = malloc(sizeof *values * COUNT), *back = malloc(sizeof *back * COUNT);
    for (int i = 0; i < COUNT; i++)
        values[i] = (float)i * 0.5f;
    struct tensor x = tensor_1d(device_alloc(device, sizeof *values * COUNT), DTYPE_F32, COUNT);
    struct tensor y = tensor_1d(device_alloc(device, sizeof *values * COUNT), DTYPE_F32, COUNT);
    device_copy_in(device, x, values);
    op_scale(device, &(struct op_scale){.x = x, .factor = 2});  // the collective must come after it
    finish(group, nccl->all_reduce(group, &x, REDUCE_SUM));
    finish(group, nccl->all_reduce(group, &x, REDUCE_MAX));
    finish(group, nccl->all_gather(group, &y, &x));
    finish(group, nccl->reduce_scatter(group, &x, &y));
    finish(group, nccl->broadcast(group, &x, 0));
    op_scale(device, &(struct op_scale){.x = x, .factor = 3});  // and before this
    device_copy_out(device, back, x);
    for (int i = 0; i < COUNT; i++)
        EXPECT(back[i] == (float)i * 3);
    free(values);
    free(back);
    device_free(device, x.data);
    device_free(device, y.data);
    nccl->group_free(group);
    nccl->world_free(world);
    device_close(device);
}

TEST_MAIN(TEST_CASE(one_rank))
