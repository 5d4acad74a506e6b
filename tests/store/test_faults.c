// Saves that are killed or run out of space. A child saves under ptrace and is killed at its n-th system call, for
// every n: the result must always load as the old checkpoint or the new one. A file size limit stands in for a full
// disk.
// tier: all
// cost: 10
#include "base/log.h"
#include "store/small_run.h"
#include "store/temporary.h"
#include "test.h"
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

// Saves in a child that is killed at stop number `stop` (a system call stops at its entry and at its exit). True if the
// child finished before; the test is skipped if tracing is not allowed.
static bool save_killed_at(const char *folder, int64_t iteration, int64_t keep_last, int stop) {
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0)
            _exit(99);
        raise(SIGSTOP);
        _exit(small_save(folder, iteration, keep_last) < 0);
    }
    int status = 0;
    EXPECT_INT(waitpid(child, &status, 0), child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 99)
        test_skip("this machine does not allow ptrace");
    for (int i = 0; i < stop; i++) {
        EXPECT_INT(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
        EXPECT_INT(waitpid(child, &status, 0), child);
        if (WIFEXITED(status)) {
            EXPECT_INT(WEXITSTATUS(status), 0);
            return true;
        }
    }
    EXPECT_INT(kill(child, SIGKILL), 0);
    EXPECT_INT(waitpid(child, &status, 0), child);
    return false;
}

TEST(killed_anywhere) {
    log_set_level(LOG_ERROR);
    bool has_finished = false;
    int old = 0, new = 0, stop = 0;
    for (stop = 1; !has_finished; stop++) {
        struct temporary folder = temporary_create_fast();
        EXPECT_OK(small_save(folder.path, 10, 1));
        has_finished = save_killed_at(folder.path, 20, 1, stop);
        int64_t found = small_resume(folder.path, false);
        if (found != 10 && found != 20)
            test_fail("killed at stop %d: found iteration %" PRId64 ": %s", stop, found, error_message());
        old += found == 10;
        new += found == 20;
        // The next save works and removes the leftovers.
        EXPECT_OK(small_save(folder.path, 30, 1));
        EXPECT_INT(small_resume(folder.path, false), 30);
        EXPECT_INT(count_leftovers(folder.path), 0);
        temporary_remove(&folder);
    }
    // Most of a save is writing; its end, after the marker, removes the old checkpoint.
    EXPECT(old > 20 && new > 2);
    printf("    %d system call stops: %d times the old checkpoint, %d times the new one\n", stop - 1, old, new);
}

// Saving an existing iteration again must never lose it.
TEST(killed_while_replacing) {
    log_set_level(LOG_ERROR);
    bool has_finished = false;
    for (int stop = 1; !has_finished; stop += 3) {
        struct temporary folder = temporary_create_fast();
        EXPECT_OK(small_save(folder.path, 20, 1));
        has_finished = save_killed_at(folder.path, 20, 1, stop);
        EXPECT_INT(small_resume(folder.path, false), 20);
        temporary_remove(&folder);
    }
}

// Every write beyond the limit fails, as on a full disk (EFBIG instead of ENOSPC).
TEST(no_room) {
    struct temporary folder = temporary_create_fast();
    EXPECT_OK(small_save(folder.path, 10, 0));
    struct rlimit before, limit;
    EXPECT_INT(getrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, SIG_IGN);
    int failed = 0;
    for (rlim_t bytes = 0; bytes < 900; bytes += 13) {
        limit = before;
        limit.rlim_cur = bytes;
        EXPECT_INT(setrlimit(RLIMIT_FSIZE, &limit), 0);
        error_clear();
        int result = small_save(folder.path, 20, 1);
        EXPECT_INT(setrlimit(RLIMIT_FSIZE, &before), 0);
        if (result == 0)
            break;
        failed++;
        EXPECT(strstr(error_message(), "ulimit -f") != NULL);
        EXPECT_INT(count_leftovers(folder.path), 0);
        EXPECT_INT(small_resume(folder.path, false), 10);
    }
    EXPECT(failed > 30);
    signal(SIGXFSZ, SIG_DFL);
    temporary_remove(&folder);
}

// The space is checked before anything is written: a model larger than the disk. Its memory is reserved but never
// touched.
TEST(disk_too_small) {
    struct temporary folder = temporary_create_fast();
    EXPECT_OK(small_save(folder.path, 10, 0));
    float value = 0;
    int64_t huge = INT64_C(1) << 54;
    struct checkpoint_tensor model = {.name = "w", .tensor = tensor_1d(&value, DTYPE_F32, huge)};
    struct checkpoint_state state = {.iteration = 20, .loss_scale = 1};
    struct checkpoint_save save = {
        .folder = folder.path, .device = &small_device, .model = &model, .model_count = 1, .state = &state};
    EXPECT_ERROR(checkpoint_save(&save), " PB too few; remove old checkpoints");
    EXPECT_INT(count_leftovers(folder.path), 0);
    EXPECT_INT(small_resume(folder.path, false), 10);
    temporary_remove(&folder);
}

TEST_MAIN(TEST_CASE(killed_anywhere), TEST_CASE(killed_while_replacing), TEST_CASE(no_room), TEST_CASE(disk_too_small))
