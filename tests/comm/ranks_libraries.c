// Two ranks with a GPU each, one of which cannot load NCCL: both refuse, and say which. Run under mpirun; the GPUs are
// CPUs that claim to be GPUs.
// tier: all
// ranks: 2
#include "comm/backend.h"
#include "ops/device.h"
#include "test.h"

#include <string.h>

static struct device *device;
static struct world_place place;

static void identify(struct device *of, int64_t words[2]) {
    (void)of;
    words[0] = words[1] = 7 + place.rank;
}

// The second rank is told to search for NCCL where there is none.
static const char *environment(const char *name) {
    return place.rank == 1 && strcmp(name, "BEVATRON_NCCL_LIBRARY") == 0 ? "/nonexistent/libnccl.so.2" : NULL;
}

TEST(one_rank_lacks_nccl) {
    struct world *world;
    if (!nccl_library())
        test_skip("no module for GPUs, or one without NCCL");
    library_set_environment(environment);
    struct world_options options = {.backend = "mpi", .deadline_seconds = 300};
    EXPECT(world_open(&world, &options, device) < 0);
    EXPECT(error_is_shared());
    if (place.rank == 0)
        EXPECT(strstr(error_message(), "NCCL cannot be loaded by rank ") != NULL);
    if (place.rank == 0)
        EXPECT(strstr(error_message(), "rank 1 on ") != NULL);
    if (place.rank == 1)
        EXPECT(strstr(error_message(), "BEVATRON_NCCL_LIBRARY is /nonexistent/libnccl.so.2") != NULL);
    EXPECT(strstr(error_message(), "--distributed-backend mpi") != NULL);
}

int main(void) {
    const struct test_case cases[] = {TEST_CASE(one_rank_lacks_nccl)};
    if (world_start("mpi", &place) < 0 ||
        device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}) < 0) {
        printf("%s\n", error_message());
        return 1;
    }
    struct ops table = *device->ops;
    table.identity = identify;
    device->ops = &table;
    int status = test_main(cases, sizeof cases / sizeof cases[0]);
    if (!nccl_library())
        world_stop("mpi");
    device_close(device);
    return status;
}
