// The lock of --save that is held elsewhere: a run on this machine that is alive ends the new one for good; the lock of
// another machine may be what is left of a run, so it is waited for, and then another attempt is allowed.
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "store/temporary.h"
#include "test.h"
#include "train/saver.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Replaces the C library's function: naps are counted, and end at once. The holder dies after some of them.
static int naps, naps_until_death;
static pid_t holder;

int nanosleep(const struct timespec *wanted, struct timespec *left) {
    (void)wanted;
    (void)left;
    if (++naps == naps_until_death) {
        kill(holder, SIGKILL);
        waitpid(holder, NULL, 0);
    }
    return 0;
}

// A process that holds the lock of a folder until it is killed. `text` is what the file says of it, NULL: the truth.
static void hold(const char *folder, const char *text) {
    char *path = file_join(folder, ".bevatron-lock"), byte;
    int pipes[2];
    naps = 0;
    EXPECT(pipe(pipes) == 0);
    holder = fork();
    if (holder == 0) {
        struct file_lock lock;
        byte = file_lock_try(&lock, path) == FILE_LOCK_HELD;
        if (text && (ftruncate(lock.descriptor, 0) < 0 || pwrite(lock.descriptor, text, strlen(text), 0) < 0))
            byte = 0;
        byte = write(pipes[1], &byte, 1) == 1;
        for (;;)
            pause();
    }
    EXPECT(read(pipes[0], &byte, 1) == 1 && byte == 1);
    close(pipes[0]);
    close(pipes[1]);
    free(path);
}

static void end_holder(void) {
    kill(holder, SIGKILL);
    waitpid(holder, NULL, 0);
}

static const char elsewhere[] = "another-machine 4711 0123/pid:[1]\n";

TEST(a_run_that_is_alive_here_ends_the_second) {
    struct temporary t = temporary_create();
    struct config config = {.run.save = t.path};
    struct mesh mesh = {.size = 1};
    struct save_folder folder = {0};
    hold(t.path, NULL);
    EXPECT_ERROR(save_folder_open(&folder, &config, &mesh), "is writing to");
    EXPECT_INT(naps, 0);
    (void)save_folder_open(&folder, &config, &mesh);
    EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    error_clear();
    end_holder();
    EXPECT_OK(save_folder_open(&folder, &config, &mesh));
    save_folder_close(&folder);
    temporary_remove(&t);
}

TEST(the_lock_of_another_machine_allows_another_attempt) {
    struct temporary t = temporary_create();
    struct config config = {.run.save = t.path};
    struct mesh mesh = {.size = 1};
    struct save_folder folder = {0};
    hold(t.path, elsewhere);
    EXPECT_INT(save_folder_open(&folder, &config, &mesh), -1);
    EXPECT_INT(error_exit_code(), EXIT_CODE_ERROR);
    EXPECT(strstr(error_message(), "another run (process 4711 on another-machine) is writing to ") != NULL);
    EXPECT(strstr(error_message(), "; if that machine is gone, remove ") != NULL);
    // The lease of an NFS server is 90 s; a nap is a tenth of a second.
    EXPECT(naps >= 900 && naps <= 3000);
    error_clear();
    // The remedy works while the lock is still held.
    char *path = file_join(t.path, ".bevatron-lock");
    EXPECT_INT(unlink(path), 0);
    EXPECT_OK(save_folder_open(&folder, &config, &mesh));
    save_folder_close(&folder);
    free(path);
    end_holder();
    temporary_remove(&t);
}

TEST(a_lock_that_is_dropped_meanwhile_is_taken) {
    struct temporary t = temporary_create();
    struct config config = {.run.save = t.path};
    struct mesh mesh = {.size = 1};
    struct save_folder folder = {0};
    hold(t.path, elsewhere);
    naps_until_death = 300;
    EXPECT_OK(save_folder_open(&folder, &config, &mesh));
    EXPECT_INT(naps, 300);
    naps_until_death = 0;
    save_folder_close(&folder);
    temporary_remove(&t);
}

// A run whose lock was removed by hand takes it again, unless a second run has it: then the first writes no more.
TEST(a_lock_that_is_removed_is_noticed) {
    struct temporary t = temporary_create();
    struct config config = {.run.save = t.path};
    struct mesh mesh = {.size = 1};
    struct save_folder folder = {0}, second = {0};
    char *path = file_join(t.path, ".bevatron-lock");
    EXPECT_OK(save_folder_open(&folder, &config, &mesh));
    EXPECT_OK(save_folder_keep(&folder));
    EXPECT_INT(unlink(path), 0);
    EXPECT_OK(save_folder_keep(&folder));
    EXPECT(file_exists(path));
    EXPECT_ERROR(save_folder_open(&second, &config, &mesh), "is writing to");
    EXPECT_INT(unlink(path), 0);
    hold(t.path, NULL);
    EXPECT_ERROR(save_folder_keep(&folder), "another run (process ");
    EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    save_folder_close(&folder);
    // The lock of the second run is still its own.
    EXPECT(file_exists(path));
    end_holder();
    free(path);
    temporary_remove(&t);
}

TEST_MAIN(TEST_CASE(a_run_that_is_alive_here_ends_the_second),
          TEST_CASE(the_lock_of_another_machine_allows_another_attempt),
          TEST_CASE(a_lock_that_is_dropped_meanwhile_is_taken), TEST_CASE(a_lock_that_is_removed_is_noticed))
