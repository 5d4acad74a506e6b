// A mapped file that is truncated is named, with the byte and the remedy, when it is read.
#include "base/crash.h"
#include "base/error.h"
#include "base/file.h"
#include "test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILE_BYTES = 1 << 20, LEFT_BYTES = 5000, READ_AT = 100000 };

static char path[] = "/tmp/test_file_fault-XXXXXX";
static const char zeros[FILE_BYTES];

static void make_file(void) {
    char *bytes = calloc(FILE_BYTES, 1);
    int file = mkstemp(path);
    EXPECT(file >= 0 && bytes && write(file, bytes, FILE_BYTES) == FILE_BYTES);
    close(file);
    free(bytes);
}

static void hear(void *context, int number) {
    (void)context, (void)number;
    _exit(77);
}

enum bus_error { TRUNCATED, REPLACED, ANOTHER };

// In a child: maps the file, truncates it, perhaps puts another one in its place, and reads beyond its end; or dies of
// another SIGBUS.
static int read_truncated(bool has_crash_watch, enum bus_error fault, char *said, size_t size) {
    int ends[2], status = 0;
    EXPECT_INT(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        struct file_map map;
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        file_fault_watch();
        if (has_crash_watch)
            crash_watch(hear, NULL);
        if (file_map_open(&map, path) < 0 || truncate(path, LEFT_BYTES) < 0)
            _exit(1);
        if (fault == ANOTHER)
            raise(SIGBUS);
        if (fault == REPLACED) {
            char old[sizeof path + 4];
            snprintf(old, sizeof old, "%s.old", path);
            if (rename(path, old) < 0 || file_write_all(path, zeros, FILE_BYTES) < 0 || unlink(old) < 0)
                _exit(1);
        }
        volatile unsigned char byte = map.data[READ_AT];
        _exit(byte);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t got; length + 1 < size && (got = read(ends[0], said + length, size - 1 - length)) > 0;)
        length += (size_t)got;
    said[length] = '\0';
    close(ends[0]);
    EXPECT_INT(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

TEST(a_truncated_file_is_named) {
    static char said[4096];
    for (int i = 0; i < 2; i++) {
        memcpy(path + sizeof path - 7, "XXXXXX", 6);
        make_file();
        EXPECT_INT(read_truncated(i == 1, TRUNCATED, said, sizeof said), EXIT_CODE_BAD_DATA);
        EXPECT(strstr(said, path) &&
               strstr(said, "was truncated to 5000 bytes while it was in use, and byte 100000 is"));
        EXPECT(strstr(said, "restore the file"));
        unlink(path);
        // A whole file that cannot be read is no damage: another attempt may help.
        memcpy(path + sizeof path - 7, "XXXXXX", 6);
        make_file();
        EXPECT_INT(read_truncated(i == 1, REPLACED, said, sizeof said), EXIT_CODE_ERROR);
        EXPECT(strstr(said, path) && strstr(said, "cannot be read at byte 100000: its disk or file system has failed"));
        EXPECT(strstr(said, "run dmesg, then run the same command again"));
        unlink(path);
    }
}

TEST(other_faults_are_as_before) {
    static char said[4096];
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    make_file();
    EXPECT_INT(read_truncated(false, ANOTHER, said, sizeof said), -SIGBUS);
    unlink(path);
    memcpy(path + sizeof path - 7, "XXXXXX", 6);
    make_file();
    EXPECT_INT(read_truncated(true, ANOTHER, said, sizeof said), 77);
    unlink(path);
}

TEST(maps_come_and_go) {
    static char bytes[8][4096];
    char text[FILE_FAULT_BYTES];
    enum exit_code code;
    for (int i = 0; i < 8; i++)
        file_fault_add(bytes[i], sizeof bytes[i], i % 2 ? "/odd" : "/even");
    EXPECT(file_fault_describe(bytes[3] + 17, text, &code) > 0 && strstr(text, "/odd cannot be read at byte 17"));
    EXPECT(file_fault_describe(bytes[4] + 4095, text, &code) > 0 && strstr(text, "/even"));
    for (int i = 0; i < 8; i += 2)
        file_fault_remove(bytes[i]);
    EXPECT_INT(file_fault_describe(bytes[4] + 1, text, &code), 0);
    EXPECT(file_fault_describe(bytes[5] + 1, text, &code) > 0);
    for (int i = 1; i < 8; i += 2)
        file_fault_remove(bytes[i]);
    EXPECT_INT(file_fault_describe(bytes[5] + 1, text, &code), 0);
    EXPECT(file_fault_describe(bytes + 8, text, &code) == 0 && text[0] == '\0');
}

TEST_MAIN(TEST_CASE(a_truncated_file_is_named), TEST_CASE(other_faults_are_as_before), TEST_CASE(maps_come_and_go))
