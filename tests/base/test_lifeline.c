// A run reports to its supervisor through a file that both map.
#include "base/clock.h"
#include "base/lifeline.h"
#include "base/phase.h"
#include "test.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(a_child_is_seen) {
    struct lifeline *lifeline = lifeline_create("/tmp");
    EXPECT(lifeline != NULL);
    struct lifeline_state state = lifeline_look(lifeline);
    EXPECT(!state.is_attached);
    EXPECT_INT(state.iteration, -1);
    struct stat status;
    EXPECT(stat(lifeline_path(lifeline), &status) == 0 && (status.st_mode & 0777) == 0600);
    pid_t child = fork();
    if (child == 0) {
        lifeline_attach(lifeline_path(lifeline));
        lifeline_iteration(41);
        lifeline_iteration(42);
        lifeline_told_end();
        lifeline_phase("a label that is longer than what there is room for in the page");
        _exit(0);
    }
    EXPECT(waitpid(child, NULL, 0) == child);
    state = lifeline_look(lifeline);
    EXPECT(state.is_attached && state.has_told_end);
    EXPECT_INT(state.iteration, 42);
    EXPECT_INT(state.beats, 4);
    EXPECT_INT(strlen(state.phase), sizeof state.phase - 1);
    lifeline_reset(lifeline);
    EXPECT(!lifeline_look(lifeline).is_attached && lifeline_look(lifeline).iteration == -1);
    EXPECT(!lifeline_look(lifeline).has_told_end);
    char *path = strdup(lifeline_path(lifeline));
    lifeline_free(lifeline);
    EXPECT(access(path, F_OK) < 0);
    free(path);
}

// A supervisor that is killed leaves its file; the next one removes it, and not that of a living one.
TEST(the_dead_leave_nothing) {
    char folder[] = "/tmp/test-lifeline-XXXXXX", left[256] = "";
    int ends[2];
    EXPECT(mkdtemp(folder) && pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        const char *path = lifeline_path(lifeline_create(folder));
        _exit(write(ends[1], path, strlen(path)) < 0);
    }
    EXPECT(waitpid(child, NULL, 0) == child && read(ends[0], left, sizeof left - 1) > 0);
    EXPECT(access(left, F_OK) == 0);
    struct lifeline *first = lifeline_create(folder), *second = lifeline_create(folder);
    EXPECT(access(left, F_OK) < 0);
    EXPECT(access(lifeline_path(first), F_OK) == 0 && access(lifeline_path(second), F_OK) == 0);
    lifeline_free(first);
    lifeline_free(second);
    EXPECT_INT(rmdir(folder), 0);
    close(ends[0]);
    close(ends[1]);
}

// Phases report by themselves.
TEST(phases_are_seen) {
    struct lifeline *lifeline = lifeline_create("/tmp");
    pid_t child = fork();
    if (child == 0) {
        lifeline_attach(lifeline_path(lifeline));
        struct phase *phase = phase_begin("doing something");
        phase_advance(phase, 1);
        _exit(0);
    }
    EXPECT(waitpid(child, NULL, 0) == child);
    struct lifeline_state state = lifeline_look(lifeline);
    EXPECT(strcmp(state.phase, "doing something") == 0);
    EXPECT_INT(state.beats, 3);
    lifeline_free(lifeline);
}

// A process reports to the file of its supervisor and to one that it makes itself, in the place of an old one.
TEST(a_node_is_told_too) {
    struct lifeline *lifeline = lifeline_create("/tmp");
    char path[] = "/tmp/test-lifeline-XXXXXX";
    int old = mkstemp(path);
    EXPECT(write(old, "old", 3) == 3);
    pid_t child = fork();
    if (child == 0) {
        lifeline_publish(NULL);
        lifeline_publish("");
        lifeline_publish("/no/such/folder/x");
        lifeline_attach(lifeline_path(lifeline));
        lifeline_publish(path);
        lifeline_iteration(5);
        _exit(0);
    }
    EXPECT(waitpid(child, NULL, 0) == child);
    struct lifeline_state state;
    EXPECT(lifeline_read(path, &state) && state.is_attached);
    EXPECT_INT(state.iteration, 5);
    EXPECT(state.beat_at > 0 && state.beat_at <= clock_seconds());
    EXPECT_INT(lifeline_look(lifeline).iteration, 5);
    EXPECT(lifeline_look(lifeline).beat_at > 0);
    lifeline_reset(lifeline);
    EXPECT(lifeline_look(lifeline).beat_at == 0);
    EXPECT_INT(lseek(old, 0, SEEK_END), 3);
    close(old);
    unlink(path);
    lifeline_free(lifeline);
}

// Another file, a short one or a link is not written to.
TEST(only_such_a_file_is_taken) {
    char path[] = "/tmp/test-lifeline-XXXXXX", link[64];
    int file = mkstemp(path);
    for (int size = 0; size < 5000; size += 7) {
        EXPECT(ftruncate(file, size) == 0);
        lifeline_attach(path);
        lifeline_iteration(7);
    }
    char bytes[5000];
    EXPECT(ftruncate(file, sizeof bytes) == 0 && pread(file, bytes, sizeof bytes, 0) == sizeof bytes);
    for (size_t i = 0; i < sizeof bytes; i++)
        EXPECT(bytes[i] == 0);
    struct lifeline *lifeline = lifeline_create("/tmp");
    snprintf(link, sizeof link, "%s.link", path);
    EXPECT(symlink(lifeline_path(lifeline), link) == 0);
    lifeline_attach(link);
    lifeline_attach(NULL);
    lifeline_attach("/no/such/file");
    lifeline_iteration(7);
    EXPECT_INT(lifeline_look(lifeline).iteration, -1);
    lifeline_free(lifeline);
    EXPECT(lifeline_create("/no/such/folder") == NULL);
    unlink(link);
    unlink(path);
    close(file);
}

TEST_MAIN(TEST_CASE(a_child_is_seen), TEST_CASE(the_dead_leave_nothing), TEST_CASE(phases_are_seen),
          TEST_CASE(a_node_is_told_too), TEST_CASE(only_such_a_file_is_taken))
