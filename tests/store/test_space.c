// Saving when space is short: on disk, the error says how much is missing, in suitable units for small and large
// models; in memory, a save in the background writes at once instead of making a copy.
#include "base/error.h"
#include "base/memory.h"
#include "store/checkpoint.h"
#include "store/share.h"
#include "store/temporary.h"
#include "test.h"

#include <sys/resource.h>

TEST(shortage) {
    const uint64_t besides = 1 << 20;
    EXPECT_OK(space_check("save", 1000, 1000 + besides));
    EXPECT_OK(space_check("save", 0, besides));
    EXPECT_ERROR(space_check("save", 524288, 524288 + besides - 1),
                 "save: its files need 524 kB plus 1.05 MB, but 1.57 MB are free, 1 bytes too few");
    EXPECT_ERROR(space_check("save", 1000, 0), "need 1.00 kB plus 1.05 MB, but 0 bytes are free, 1.05 MB too few");
    EXPECT_ERROR(space_check("save", 999499, besides), "need 999 kB");
    EXPECT_ERROR(space_check("save", 999500, besides), "need 1.00 MB");
    EXPECT_ERROR(space_check("save", 85300000000, 64000000000), "need 85.3 GB plus 1.05 MB, but 64.0 GB are free, "
                                                                "21.3 GB too few; remove old checkpoints");
    EXPECT_ERROR(space_check("save", UINT64_MAX, UINT64_MAX), "PB");
}

enum { LARGE_COUNT = 32 << 20 };

// Saves 128 MB with `room` bytes of memory; checks what is on disk when the first half returns.
static void save_with_room(const char *folder, uint64_t room, bool expect_written) {
    struct device *device = NULL;
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}));
    float *weight = memory_alloc(sizeof(float) * LARGE_COUNT);
    for (int64_t i = 0; i < LARGE_COUNT; i++)
        weight[i] = (float)i;
    struct checkpoint_tensor model = {.name = "w", .tensor = tensor_1d(weight, DTYPE_F32, LARGE_COUNT)};
    struct checkpoint_state state = {.iteration = (int64_t)room >> 20, .loss_scale = 1};
    struct rlimit before, tight;
    EXPECT_INT(getrlimit(RLIMIT_AS, &before), 0);
    tight = before;
    FILE *file = fopen("/proc/self/statm", "r");
    EXPECT(file != NULL);
    long long pages = 0;
    EXPECT_INT(fscanf(file, "%lld", &pages), 1);
    fclose(file);
    tight.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + room;
    EXPECT_INT(setrlimit(RLIMIT_AS, &tight), 0);
    struct checkpoint_job *job = NULL;
    int status = checkpoint_save_start(
        &job, &(struct checkpoint_save){
                  .folder = folder, .device = device, .model = &model, .model_count = 1, .state = &state});
    EXPECT_INT(setrlimit(RLIMIT_AS, &before), 0);
    EXPECT_INT(status, 0);
    if (expect_written)
        EXPECT(checkpoint_save_is_ready(job));
    // The saved values are those at the time of the call, in either case.
    weight[LARGE_COUNT - 1] = -1;
    EXPECT_OK(checkpoint_save_finish(job));
    char *path = checkpoint_path(folder, state.iteration);
    EXPECT_OK(checkpoint_verify(path, false));
    EXPECT_OK(checkpoint_load_tensors(&(struct checkpoint_load){
        .path = path, .part = CHECKPOINT_MODEL, .device = device, .tensors = &model, .count = 1}));
    EXPECT(weight[LARGE_COUNT - 1] == (float)(LARGE_COUNT - 1));
    free(path);
    free(weight);
    device_close(device);
}

// Without the check, the copy would end the process.
TEST(no_memory_for_a_copy) {
    struct temporary folder = temporary_create_fast();
    save_with_room(folder.path, 64 << 20, true);
    save_with_room(folder.path, 512 << 20, false);
    temporary_remove(&folder);
}

TEST_MAIN(TEST_CASE(no_memory_for_a_copy), TEST_CASE(shortage))
