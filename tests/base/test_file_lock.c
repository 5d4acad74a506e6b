// The lock of a folder: it has one holder, is released when that dies, and its file means nothing by itself.
#include "test.h"

#include "base/file.h"
#include "base/file_lock.h"
#include "base/memory.h"
#include <errno.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

// Replaces the C library's function: a file system without locks.
static bool has_no_locks;

int flock(int descriptor, int operation) {
    if (has_no_locks) {
        errno = ENOSYS;
        return -1;
    }
    return (int)syscall(SYS_flock, descriptor, operation);
}

static char *make_path(char place[32]) {
    memcpy(place, "/tmp/bevatron-test-XXXXXX", sizeof "/tmp/bevatron-test-XXXXXX");
    EXPECT(mkdtemp(place) != NULL);
    return file_join(place, "lock");
}

// A process that holds the lock until it is killed.
static pid_t start_holder(const char *path) {
    int ends[2];
    char answer = 0;
    EXPECT(pipe(ends) == 0);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        struct file_lock lock;
        char held = file_lock_try(&lock, path) == FILE_LOCK_HELD;
        if (write(ends[1], &held, 1) == 1)
            pause();
        _exit(0);
    }
    EXPECT(read(ends[0], &answer, 1) == 1 && answer == 1);
    close(ends[0]), close(ends[1]);
    return child;
}

TEST(one_holder) {
    char place[32], *path = make_path(place);
    struct file_lock lock = {0};
    struct file_lock_holder holder;
    pid_t child = start_holder(path);
    EXPECT_INT(file_lock_try(&lock, path), FILE_LOCK_TAKEN);
    file_lock_holder(&holder, path);
    EXPECT_INT(holder.process, child);
    EXPECT(holder.is_here && !holder.is_ending);
    kill(child, SIGKILL);
    EXPECT(waitpid(child, NULL, 0) == child);
    EXPECT(file_exists(path));
    EXPECT_INT(file_lock_try(&lock, path), FILE_LOCK_HELD);
    file_lock_holder(&holder, path);
    EXPECT_INT(holder.process, getpid());
    file_lock_release(&lock);
    file_lock_release(&lock);
    EXPECT(!file_exists(path));
    file_remove_tree(place);
    free(path);
}

TEST(holders_that_end) {
    char place[32], *path = make_path(place);
    struct file_lock_holder holder;
    pid_t child = start_holder(path);
    kill(child, SIGKILL);
    siginfo_t info;
    EXPECT(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT) == 0);
    file_lock_holder(&holder, path);  // a zombie
    EXPECT(holder.is_here && holder.is_ending);
    EXPECT(waitpid(child, NULL, 0) == child);
    file_lock_holder(&holder, path);  // gone
    EXPECT(holder.is_here && holder.is_ending);
    EXPECT_OK(file_write_all(path, "another-machine 12\n", 19));
    file_lock_holder(&holder, path);
    EXPECT(!holder.is_here && !holder.is_ending);
    EXPECT_STRING(holder.host, "another-machine");
    // A container or a machine with the same name, whose process numbers mean nothing here.
    char host[65] = "", same[128];
    EXPECT(gethostname(host, sizeof host - 1) == 0);
    int length = snprintf(same, sizeof same, "%s %d 0123/pid:[1]\n", host, (int)getpid());
    EXPECT_OK(file_write_all(path, same, (size_t)length));
    file_lock_holder(&holder, path);
    EXPECT_STRING(holder.host, host);
    EXPECT(!holder.is_here && !holder.is_ending);
    EXPECT_OK(file_write_all(path, "\0\0\0", 3));
    file_lock_holder(&holder, path);
    EXPECT(!holder.is_here && holder.host[0] == '\0');
    file_remove_tree(place);
    free(path);
}

// A lock on a file that was removed does not count.
TEST(a_file_that_was_removed) {
    char place[32], *path = make_path(place);
    struct file_lock lock = {0};
    pid_t child = start_holder(path);
    EXPECT(unlink(path) == 0);
    EXPECT_INT(file_lock_try(&lock, path), FILE_LOCK_HELD);
    file_lock_release(&lock);
    kill(child, SIGKILL);
    EXPECT(waitpid(child, NULL, 0) == child);
    EXPECT_ERROR(file_lock_try(&lock, "/nonexistent/lock"), "/nonexistent/lock");
    file_remove_tree(place);
    free(path);
}

// Any number may share it, which keeps those out who want it alone; the last one removes the file.
TEST(shared) {
    char place[32], *path = make_path(place);
    struct file_lock first = {0}, second = {0}, alone = {0};
    EXPECT_INT(file_lock_share(&first, path), FILE_LOCK_HELD);
    EXPECT_INT(file_lock_share(&second, path), FILE_LOCK_HELD);
    EXPECT_INT(file_lock_try(&alone, path), FILE_LOCK_TAKEN);
    file_lock_release(&first);
    EXPECT(file_exists(path));
    EXPECT_INT(file_lock_try(&alone, path), FILE_LOCK_TAKEN);
    file_lock_release(&second);
    EXPECT(!file_exists(path));
    EXPECT_INT(file_lock_try(&alone, path), FILE_LOCK_HELD);
    EXPECT_INT(file_lock_share(&first, path), FILE_LOCK_TAKEN);
    file_lock_release(&alone);
    file_remove_tree(place);
    free(path);
}

// Kept until the process ends; the file stays and tells when it was last used.
TEST(kept) {
    char place[32], *path = make_path(place);
    struct file_lock alone = {0};
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0)
        _exit(file_lock_keep(path) == FILE_LOCK_HELD && file_lock_keep(path) == FILE_LOCK_HELD &&
                      file_lock_try(&alone, path) == FILE_LOCK_TAKEN
                  ? 0
                  : 1);
    int status = -1;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT_INT(status, 0);
    EXPECT(file_exists(path));
    EXPECT_INT(file_lock_try(&alone, path), FILE_LOCK_HELD);
    EXPECT_INT(file_lock_keep(path), FILE_LOCK_TAKEN);
    file_lock_release(&alone);
    file_remove_tree(place);
    EXPECT_ERROR(file_lock_keep(path), "cannot create");
    free(path);
}

TEST(no_locks) {
    char place[32], *path = make_path(place);
    struct file_lock lock = {0};
    has_no_locks = true;
    int result = file_lock_try(&lock, path);
    has_no_locks = false;
    EXPECT_INT(result, FILE_LOCK_ABSENT);
    EXPECT(file_exists(path));
    file_lock_release(&lock);
    EXPECT(!file_exists(path));
    file_remove_tree(place);
    free(path);
}

TEST_MAIN(TEST_CASE(one_holder), TEST_CASE(holders_that_end), TEST_CASE(a_file_that_was_removed), TEST_CASE(shared),
          TEST_CASE(kept), TEST_CASE(no_locks))
