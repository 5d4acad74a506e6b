// Shared memory of an mpirun that is gone is removed, also if its ranks were killed while MPI started; that of one that
// lives, or of other jobs, is not.
// tier: all
#include "cli/session.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"
#include "test.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOB = 0x71000001 };

static char *segment(int job, int rank) {
    char host[256];
    process_host(host, sizeof host);
    return memory_printf("/dev/shm/vader_segment.%s.%ld.%x.%d", host, (long)geteuid(), job + (int)getpid() % 4096,
                         rank);
}

// A child that plays mpirun lives until a byte comes. Its child, the rank, writes the note and dies, which a byte to
// `ready` tells.
static pid_t play_mpirun(const char *base, int ready, int end) {
    char number[24];
    snprintf(number, sizeof number, "%d", JOB + (int)getpid() % 4096);
    fflush(NULL);
    pid_t child = fork();
    if (child != 0)
        return child;
    pid_t rank = fork();
    if (rank == 0) {
        free(mpi_leftovers_note(base, NULL, number));
        _exit(0);
    }
    char byte;
    (void)waitpid(rank, NULL, 0);
    (void)!write(ready, "x", 1);
    (void)!read(end, &byte, 1);
    _exit(0);
}

TEST(only_what_dead_ones_left_is_removed) {
    char base[] = "/tmp/bevatron-leftovers-XXXXXX";
    int ready[2], ends[2];
    char byte;
    if (access("/dev/shm", W_OK) < 0)
        test_skip("no /dev/shm");
    EXPECT(mkdtemp(base) != NULL && pipe(ready) == 0 && pipe(ends) == 0);
    log_set_level(LOG_ERROR);
    char *own[2] = {segment(JOB, 0), segment(JOB, 12)}, *other = segment(JOB + 4096, 0);
    char *notes = memory_printf("%s/bevatron-mpi-%ld", base, (long)geteuid());
    for (int i = 0; i < 2; i++)
        EXPECT_OK(file_write_all(own[i], "x", 1));
    EXPECT_OK(file_write_all(other, "x", 1));
    pid_t mpirun = play_mpirun(base, ready[1], ends[0]);
    EXPECT_INT(read(ready[0], &byte, 1), 1);
    EXPECT(file_is_folder(notes) && !file_is_empty_folder(notes));
    mpi_leftovers_sweep(base);
    EXPECT(file_exists(own[0]) && file_exists(own[1]) && file_exists(other));
    EXPECT(write(ends[1], "x", 1) == 1 && waitpid(mpirun, NULL, 0) == mpirun);
    // A note that is not one changes nothing.
    char *bad = memory_printf("%s/1", notes);
    EXPECT_OK(file_write_all(bad, "process 1\nstart 1\nplace x\nsegment /etc/passwd\nsession /\n", 54));
    mpi_leftovers_sweep(base);
    EXPECT(!file_exists(own[0]) && !file_exists(own[1]) && file_exists(other));
    EXPECT(file_exists("/etc/passwd"));
    unlink(other);
    for (int i = 0; i < 2; i++)
        free(own[i]);
    free(other);
    free(bad);
    free(notes);
    EXPECT_OK(file_remove_tree(base));
}

TEST_MAIN(TEST_CASE(only_what_dead_ones_left_is_removed))
