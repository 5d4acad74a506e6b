// Two ranks that share a GPU fall back to MPI, and the first of them says so. Run under mpirun; the GPU is a CPU that
// claims to be one.
// tier: all
// ranks: 2
#include "comm/backend.h"
#include "ops/device.h"
#include "test.h"

#include <string.h>
#include <unistd.h>

static struct world *world;
static struct world_place place;
static char said[4096];  // stderr while the world was opened

static void identify(struct device *device, int64_t words[2]) {
    (void)device;
    words[0] = words[1] = 7;
}

static int open_and_listen(struct device *device) {
    FILE *file = tmpfile();
    int before = dup(STDERR_FILENO);
    if (!file || before < 0 || dup2(fileno(file), STDERR_FILENO) < 0)
        return error_set("cannot redirect stderr");
    int status = world_open(&world, &(struct world_options){.backend = "mpi", .deadline_seconds = 300}, device);
    dup2(before, STDERR_FILENO);
    close(before);
    rewind(file);
    said[fread(said, 1, sizeof said - 1, file)] = '\0';
    fclose(file);
    return status;
}

TEST(sharing_is_said_once) {
    EXPECT_STRING(world_backend(world), "mpi");
    EXPECT((strstr(said, " share a GPU (2 ranks use 1), so ranks communicate over MPI") != NULL) == (place.rank == 0));
    EXPECT((strstr(said, "--distributed-backend mpi silences this") != NULL) == (place.rank == 0));
    int64_t most = place.rank;
    comm_max_i64(world_group_all(world), &most, 1, "most");
    EXPECT_INT(most, place.size - 1);
}

int main(void) {
    const struct test_case cases[] = {TEST_CASE(sharing_is_said_once)};
    struct device *device;
    if (world_start("mpi", &place) < 0 ||
        device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}) < 0) {
        printf("%s\n", error_message());
        return 1;
    }
    struct ops table = *device->ops;
    table.identity = identify;
    device->ops = &table;
    if (open_and_listen(device) < 0) {
        printf("%s\n", error_message());
        return 1;
    }
    int status = test_main(cases, sizeof cases / sizeof cases[0]);
    world_close(world);
    device_close(device);
    return status;
}
