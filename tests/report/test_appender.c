// Records at the end of a file: whole or not there, on a disk that is full for a while, in a pipe that is not read, and
// in one whose reader is gone.
#include "report/appender.h"
#include "../base/capture.h"
#include "base/file.h"
#include "base/log.h"
#include "test.h"
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

static char folder[64], path[128];

static void begin(void) {
    snprintf(folder, sizeof folder, "/tmp/bevatron_appender_XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/file", folder);
}

static void end(void) {
    EXPECT_OK(file_remove_tree(folder));
}

static void limit_files(rlim_t bytes) {
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_FSIZE, &limit) == 0);
    limit.rlim_cur = bytes;
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
}

// A limit on the size of files does what a full disk does: the last write is cut short, then none succeeds.
static void fill_and_free(void) {
    struct appender appender;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(appender_open(&appender, path, "metrics", APPENDER_APPEND) == 0);
    CHECK(appender_write(&appender, "one\n", 4));
    limit_files(10);
    CHECK(appender_write(&appender, "two\n", 4));
    CHECK(!appender_write(&appender, "three\n", 6));
    CHECK(!appender_write(&appender, "four\n", 5));
    limit_files(1000);
    CHECK(appender_write(&appender, "five\n", 5));
    appender_close(&appender);
    appender_close(&appender);
    CHECK(!appender_write(&appender, "six\n", 4));
}

TEST(full_for_a_while) {
    static struct capture capture;
    begin();
    capture_run(&capture, fill_and_free);
    EXPECT_INT(capture.status, 0);
    struct buffer text = {0};
    EXPECT_OK(file_read_all(path, 1000, &text));
    EXPECT_STRING(buffer_string(&text), "one\ntwo\nfive\n");
    buffer_free(&text);
    const char *first = strstr(capture.text, "warning: cannot write metrics to ");
    EXPECT(first != NULL && strstr(first + strlen("warning: c"), "cannot write") == NULL);
    EXPECT(strstr(first, "; the run continues without them until it can\n") != NULL);
    EXPECT(strstr(first, "metrics are written to") != NULL && strstr(first, "again; 2 are missing\n") != NULL);
    end();
}

// Half a record is removed, and another process may append meanwhile.
static void share_the_file(void) {
    struct appender appender;
    signal(SIGXFSZ, SIG_IGN);
    CHECK(appender_open(&appender, path, "metrics", APPENDER_APPEND) == 0);
    CHECK(appender_write(&appender, "one\n", 4));
    limit_files(6);
    int other = open(path, O_WRONLY | O_APPEND);
    CHECK(!appender_write(&appender, "two\n", 4));
    limit_files(1000);
    CHECK(write(other, "two\n", 4) == 4);
    CHECK(appender_write(&appender, "three\n", 6));
    appender_close(&appender);
}

TEST(another_writer) {
    static struct capture capture;
    begin();
    capture_run(&capture, share_the_file);
    EXPECT_INT(capture.status, 0);
    struct buffer text = {0};
    EXPECT_OK(file_read_all(path, 1000, &text));
    EXPECT_STRING(buffer_string(&text), "one\ntwo\nthree\n");
    buffer_free(&text);
    end();
}

TEST(pipes) {
    begin();
    log_set_level(LOG_ERROR);
    signal(SIGPIPE, SIG_IGN);
    EXPECT_INT(mkfifo(path, 0600), 0);
    struct appender appender;
    // Nobody reads: neither opening nor writing waits.
    EXPECT_OK(appender_open(&appender, path, "metrics", APPENDER_APPEND));
    EXPECT(!appender.is_regular);
    char block[4096];
    memset(block, 'x', sizeof block);
    int written = 0;
    while (written < 10000 && appender_write(&appender, block, sizeof block))
        written++;
    EXPECT(written > 0 && written < 10000);
    EXPECT_INT(appender.lost, 1);
    appender_close(&appender);
    // The reader is gone.
    int ends[2];
    char name[64];
    EXPECT_INT(pipe(ends), 0);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[1]);
    EXPECT_OK(appender_open(&appender, name, "metrics", APPENDER_APPEND));
    close(ends[0]);
    close(ends[1]);
    (void)appender_write(&appender, "x", 1);
    appender_close(&appender);
    end();
}

TEST(refusals) {
    begin();
    struct appender appender;
    EXPECT_ERROR(appender_open(&appender, folder, "metrics", APPENDER_APPEND), folder);
    EXPECT_OK(file_write_all(path, "x", 1));
    EXPECT_ERROR(appender_open(&appender, path, "metrics", APPENDER_NEW), path);
    EXPECT_ERROR(appender_open(&appender, "/proc/none", "metrics", APPENDER_APPEND), "/proc/none");
    appender_close(&appender);
    appender = (struct appender){0};
    appender_close(&appender);
    end();
}

TEST_MAIN(TEST_CASE(full_for_a_while), TEST_CASE(another_writer), TEST_CASE(pipes), TEST_CASE(refusals))
