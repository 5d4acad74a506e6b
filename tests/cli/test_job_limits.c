// What control groups of both versions say about a job: who was killed for want of memory, and how many processes it
// may have.
#include "cli/ranks.h"
#include "base/error.h"
#include "base/file.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct fixture {
    char root[32];
    char *membership;
    struct host_files files;
};

static void open_fixture(struct fixture *fixture) {
    memcpy(fixture->root, "/tmp/bevatron-test-XXXXXX", 26);
    EXPECT(mkdtemp(fixture->root));
    fixture->membership = file_join(fixture->root, "membership");
    fixture->files = (struct host_files){fixture->root, fixture->root, fixture->membership};
}

static void close_fixture(struct fixture *fixture) {
    EXPECT_OK(file_remove_tree(fixture->root));
    free(fixture->membership);
}

static void put(const struct fixture *fixture, const char *path, const char *text) {
    char *full = file_join(fixture->root, path);
    EXPECT_OK(file_make_parent(full));
    EXPECT_OK(file_write_all(full, text, strlen(text)));
    free(full);
}

static const char *reason(const struct job_kills *before, const struct job_kills *after) {
    static char text[JOB_REASON_BYTES];
    job_explain_kill(before, after, text, sizeof text);
    return text;
}

TEST(kills_in_version_2) {
    struct fixture f;
    open_fixture(&f);
    struct job_kills none = job_kills_in(&f.files);
    EXPECT(none.group == 0 && none.machine == 0 && none.limit_bytes == UINT64_MAX);
    put(&f, "membership", "0::/a/b\n");
    put(&f, "vmstat", "nr_free_pages 7\noom_kill 3\n");
    put(&f, "a/b/memory.events", "low 0\noom 1\noom_kill 1\noom_group_kill 0\n");
    put(&f, "a/b/memory.max", "max\n");
    put(&f, "a/memory.max", "2000000000\n");
    struct job_kills before = job_kills_in(&f.files);
    EXPECT(before.group == 1 && before.machine == 3 && before.limit_bytes == 2000000000);
    put(&f, "a/b/memory.events", "low 0\noom 1\noom_kill 2\n");
    put(&f, "vmstat", "oom_kill 4\n");
    struct job_kills after = job_kills_in(&f.files);
    EXPECT(strstr(reason(&before, &after), "this job's control group is limited to 2 GB of memory; raise the limit"));
    EXPECT(strstr(reason(&before, &before), "no kill by the OOM killer"));
    EXPECT_STRING(error_message(), "");
    close_fixture(&f);
}

TEST(kills_in_version_1) {
    struct fixture f;
    open_fixture(&f);
    put(&f, "membership", "9:name=systemd:/\n4:memory:/slurm/job_7\n3:cpu,cpuacct:/\n0::/\n");
    put(&f, "memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(&f, "memory/slurm/job_7/memory.limit_in_bytes", "500000000\n");
    put(&f, "memory/slurm/job_7/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 0\n");
    struct job_kills before = job_kills_in(&f.files);
    EXPECT(before.group == 0 && before.limit_bytes == 500000000);
    put(&f, "memory/slurm/job_7/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
    struct job_kills after = job_kills_in(&f.files);
    EXPECT(strstr(reason(&before, &after), "is limited to 0.5 GB of memory"));
    // Without a limit of the group it was the machine.
    put(&f, "memory/slurm/job_7/memory.limit_in_bytes", "9223372036854771712\n");
    after = job_kills_in(&f.files);
    EXPECT(after.limit_bytes == UINT64_MAX && strstr(reason(&before, &after), "the machine is out of memory"));
    close_fixture(&f);
}

TEST(processes) {
    struct fixture f;
    open_fixture(&f);
    EXPECT(job_process_room(&f.files) == INT64_MAX);
    put(&f, "membership", "8:pids:/x\n0::/a/b\n");
    put(&f, "a/pids.max", "max\n");
    put(&f, "a/pids.current", "5\n");
    EXPECT(job_process_room(&f.files) == INT64_MAX);
    put(&f, "a/pids.max", "100\n");
    EXPECT_INT(job_process_room(&f.files), 95);
    put(&f, "pids/x/pids.max", "20\n");
    put(&f, "pids/x/pids.current", "13\n");
    EXPECT_INT(job_process_room(&f.files), 7);
    close_fixture(&f);
}

// A soft limit is raised; a hard one is an error with the number that would do.
TEST(open_files) {
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {.rlim_cur = 16, .rlim_max = 256};
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || job_check_ranks(2) < 0 || getrlimit(RLIMIT_NOFILE, &limit) < 0 ||
            limit.rlim_cur != 256)
            _exit(1);
        limit.rlim_cur = limit.rlim_max = 32;
        if (setrlimit(RLIMIT_NOFILE, &limit) < 0 || job_check_ranks(2) == 0)
            _exit(2);
        if (!strstr(error_message(), "this process may open 32 files") || !strstr(error_message(), "ulimit -n 52"))
            _exit(3);
        _exit(0);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status));
    EXPECT_INT(WEXITSTATUS(status), 0);
}

TEST(small_files) {
    pid_t child = fork();
    if (child == 0) {
        struct rlimit limit = {.rlim_cur = 60000, .rlim_max = 60000};
        if (setrlimit(RLIMIT_FSIZE, &limit) < 0 || job_check_ranks(2) == 0)
            _exit(1);
        _exit(strstr(error_message(), "this process may write files of 60000 bytes") ? 0 : 2);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child && WIFEXITED(status));
    EXPECT_INT(WEXITSTATUS(status), 0);
}

TEST_MAIN(TEST_CASE(kills_in_version_2), TEST_CASE(kills_in_version_1), TEST_CASE(processes), TEST_CASE(open_files),
          TEST_CASE(small_files))
