// Ranks whose clocks differ find out by how much, and ranks that share a clock find no difference. Run under mpirun.
// tier: all
#include "base/clock.h"
#include "comm/clocks.h"
#include "ops/device.h"
#include "test.h"

#include <unistd.h>

static struct device *device;
static struct world *world;
static struct group *all;
static double shift;

static double read_shifted(void) {
    return clock_seconds() + shift;
}

TEST(clocks_that_differ) {
    int rank = group_rank(all);
    shift = 1000.25 * rank;
    struct rank_clock clock = {.read = read_shifted, .identity = {rank, 1}};
    struct clock_offset offset = clocks_compare(all, &clock);
    EXPECT(fabs(offset.seconds - shift) <= offset.error + 1e-6);
    if (rank == 0)
        EXPECT(offset.seconds == 0);
    // However busy the machine is, one of the exchanges is over in less than this.
    EXPECT(offset.error < 60);
}

TEST(one_clock) {
    struct rank_clock clock = clocks_own();
    struct clock_offset offset = clocks_compare(all, &clock);
    EXPECT(offset.seconds == 0 && offset.error == 0);
}

TEST(every_rank_knows_the_hosts) {
    char name[65] = "";
    gethostname(name, sizeof name - 1);
    for (int i = 0; i < group_size(all); i++)
        EXPECT_STRING(group_host(all, i), name);
}

int main(void) {
    const struct test_case cases[] = {TEST_CASE(clocks_that_differ), TEST_CASE(one_clock),
                                      TEST_CASE(every_rank_knows_the_hosts)};
    struct world_place place;
    if (world_start("mpi", &place) < 0 ||
        device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}) < 0 ||
        world_open(&world, &(struct world_options){.backend = "mpi", .deadline_seconds = 300}, device) < 0) {
        printf("%s\n", error_message());
        return 1;
    }
    all = world_group_all(world);
    int status = test_main(cases, sizeof cases / sizeof cases[0]);
    world_close(world);
    device_close(device);
    return status;
}
