// Saving in the background leaves nothing slow to the training thread: every call returns even if writing the tensors,
// writing the manifest or removing an old checkpoint takes arbitrarily long.
#include <time.h>

static int be_held(const struct timespec *time, struct timespec *rest);
#define nanosleep be_held
#include "parallel/slow_files.c"
#undef nanosleep

#include "base/clock.h"
#include "base/file.h"
#include "store/checkpoint.h"
#include "store/temporary.h"
#include "test.h"

#include <pthread.h>
#include <stdatomic.h>

// Operations of the slow file system are held until the caller, back from whatever it called, releases them. A caller
// that waits for them instead is detected after some minutes.
static struct {
    pthread_t caller;
    atomic_int held, let_go;
    atomic_bool is_callers, is_waited_for;
} slow;

static int be_held(const struct timespec *time, struct timespec *rest) {
    (void)time;
    (void)rest;
    if (pthread_equal(pthread_self(), slow.caller)) {
        atomic_store(&slow.is_callers, true);
        return 0;
    }
    int number = atomic_fetch_add(&slow.held, 1);
    double until = clock_seconds() + 200;
    while (atomic_load(&slow.let_go) <= number && clock_seconds() < until)
        clock_sleep(1e-3);
    if (atomic_load(&slow.let_go) <= number)
        atomic_store(&slow.is_waited_for, true);
    return 0;
}

static void save_on_slow_files(struct device *device, const char *folder, int64_t iteration) {
    float values[64] = {1};
    struct checkpoint_tensor model = {.name = "weight", .tensor = tensor_1d(values, DTYPE_F32, 64)};
    struct checkpoint_state state = {.iteration = iteration};
    struct checkpoint_job *job = NULL;
    EXPECT_OK(checkpoint_save_start(
        &job,
        &(struct checkpoint_save){
            .folder = folder, .device = device, .model = &model, .model_count = 1, .state = &state, .keep_last = 1}));
    while (job) {
        while (!checkpoint_save_is_ready(job)) {
            atomic_store(&slow.let_go, atomic_load(&slow.held));
            clock_sleep(1e-3);
        }
        EXPECT_OK(checkpoint_save_advance(&job));
    }
}

TEST(the_caller_never_waits_for_files) {
    struct temporary temporary = temporary_create();
    const char *folder = temporary.path;
    struct device *device;
    slow.caller = pthread_self();
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}));
    save_on_slow_files(device, folder, 1);
    EXPECT_INT(atomic_load(&slow.held), 0);
    setenv("SLOW_SECONDS", "1", 1);
    const char *const cases[][2] = {{"SLOW_WRITES", "model"}, {"SLOW_WRITES", "manifest"}, {"SLOW_REMOVALS", "/model"}};
    for (int i = 0; i < 3; i++) {
        int before = atomic_load(&slow.held);
        setenv(cases[i][0], cases[i][1], 1);
        save_on_slow_files(device, folder, i + 2);
        unsetenv(cases[i][0]);
        EXPECT(atomic_load(&slow.held) > before);
        EXPECT(!atomic_load(&slow.is_callers));
        EXPECT(!atomic_load(&slow.is_waited_for));
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
