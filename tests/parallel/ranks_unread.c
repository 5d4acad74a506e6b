// A file that one rank cannot read: all ranks learn that this is no proof of damage, and none takes an older one.
#include "base/file_patience.h"
#include "base/log.h"
#include "comm/comm.h"
#include "failing_calls.h"
#include "moved_clock.h"
#include "store/small_run.h"

#include "base/file.h"
#include <stdlib.h>

static struct device *device;
static struct group *all;
static char folder[256];
enum { FOR_EVER = 1 << 30 };

// Result on all ranks while the files of one rank, whose names contain `name`, cannot be opened.
static int find_while(int rank, const char *name, int times, int64_t *iteration) {
    struct moved_clock moved;
    moved_clock_open(&moved, true);
    struct file_patience patience = {.clock = &moved.clock};
    struct checkpoint_find find = {.folder = folder, .step = -1, .allow_fallback = true, .all = all};
    char *path = NULL;
    *iteration = -1;
    error_clear();
    file_patience_begin(&patience);
    if (group_rank(all) == rank)
        failing = (struct failing_calls){.error = EIO, .first = 1, .times = times, .name = name};
    int result = checkpoint_find(&find, &path, iteration);
    failing.error = 0;
    file_patience_end(&patience);
    free(path);
    return result;
}

TEST(an_error_of_one_rank_is_nobodys_damage) {
    static const char *const names[] = {"iter_0000020/model", "iter_0000020/optimizer", "iter_0000020/manifest",
                                        "iter_0000020/state.json"};
    int64_t iteration;
    for (int rank = 0; rank < group_size(all); rank++)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
            EXPECT_INT(find_while(rank, names[i], 2, &iteration), 0);
            EXPECT_INT(iteration, 20);
            int result = find_while(rank, names[i], FOR_EVER, &iteration);
            // Only the rank that verifies the file can have met the error; all ranks agree.
            int64_t unread[2] = {result == CHECKPOINT_UNREAD, result == 0};
            comm_max_i64(all, unread, 2, "unread");
            EXPECT_INT(unread[0] + unread[1], 1);
            EXPECT(result == 0 ? iteration == 20 : strstr(error_message(), "Input/output error") != NULL);
        }
    EXPECT_INT(find_while(0, "latest_checkpointed", FOR_EVER, &iteration), CHECKPOINT_UNREAD);
    EXPECT_INT(find_while(group_size(all) - 1, "iter_0000020/manifest", FOR_EVER, &iteration), CHECKPOINT_UNREAD);
    EXPECT_INT(error_exit_code(), EXIT_CODE_ERROR);
}

int main(void) {
    const struct test_case cases[] = {TEST_CASE(an_error_of_one_rank_is_nobodys_damage)};
    struct world_place place;
    struct world *world;
    if (world_start("mpi", &place) < 0 ||
        device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}) < 0 ||
        world_open(&world, &(struct world_options){.backend = "mpi", .deadline_seconds = 300}, device) < 0) {
        printf("%s\n", error_message());
        return 1;
    }
    all = world_group_all(world);
    log_set_level(LOG_ERROR);
    int64_t process = place.rank == 0 ? (int64_t)getpid() : 0;
    comm_max_i64(all, &process, 1, "folder");
    snprintf(folder, sizeof folder, "/tmp/bevatron-ranks-unread-%lld", (long long)process);
    if (place.rank == 0 &&
        (file_remove_tree(folder) < 0 || small_save(folder, 10, 0) < 0 || small_save(folder, 20, 0) < 0))
        printf("%s\n", error_message());
    comm_barrier(all, "folder");
    int status = test_main(cases, sizeof cases / sizeof cases[0]);
    comm_barrier(all, "end");
    if (place.rank == 0)
        file_remove_tree(folder);
    world_close(world);
    device_close(device);
    return status;
}
