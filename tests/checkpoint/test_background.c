// Saving in the background leaves nothing slow to the thread that trains: on a file system where writing the tensors,
// writing the manifest and removing an old checkpoint each take long, every call returns at once.
#include "parallel/slow_files.c"

#include "base/clock.h"
#include "base/file.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/temporary.h"
#include "test.h"

static void save_on_slow_files(struct device *device, const char *folder, int64_t iteration, double *busy,
                               double *whole) {
    float values[64] = {1};
    struct checkpoint_tensor model = {.name = "weight", .tensor = tensor_1d(values, DTYPE_F32, 64)};
    struct checkpoint_state state = {.iteration = iteration};
    struct checkpoint_job *job = NULL;
    double begun = clock_seconds();
    EXPECT_OK(checkpoint_save_start(
        &job,
        &(struct checkpoint_save){
            .folder = folder, .device = device, .model = &model, .model_count = 1, .state = &state, .keep_last = 1}));
    *busy = clock_seconds() - begun;
    while (job) {
        while (!checkpoint_save_is_ready(job))
            clock_sleep(0.01);
        double before = clock_seconds();
        EXPECT_OK(checkpoint_save_advance(&job));
        *busy += clock_seconds() - before;
    }
    *whole = clock_seconds() - begun;
}

TEST(the_caller_never_waits_for_files) {
    enum { SECONDS = 2 };
    struct temporary temporary = temporary_create();
    const char *folder = temporary.path;
    struct device *device;
    double busy, whole;
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}));
    save_on_slow_files(device, folder, 1, &busy, &whole);
    EXPECT(whole < SECONDS);
    setenv("SLOW_SECONDS", "2", 1);
    const char *const cases[][2] = {{"SLOW_WRITES", "model"}, {"SLOW_WRITES", "manifest"}, {"SLOW_REMOVALS", "/model"}};
    for (int i = 0; i < 3; i++) {
        setenv(cases[i][0], cases[i][1], 1);
        save_on_slow_files(device, folder, i + 2, &busy, &whole);
        unsetenv(cases[i][0]);
        EXPECT(whole >= SECONDS);
        EXPECT(busy < SECONDS);
        char *path = checkpoint_path(folder, i + 2), *old = checkpoint_path(folder, i + 1);
        EXPECT_OK(checkpoint_verify(path, false));
        EXPECT(!file_exists(old));
        free(path);
        free(old);
    }
    device_close(device);
    temporary_remove(&temporary);
}

TEST_MAIN(TEST_CASE(the_caller_never_waits_for_files))
