// Checkpoints in shared memory: what a rank leaves is found by the next one, whole or not at all.
// tier: all
#include "store/vault.h"
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BYTES = 3 * 65536 + 1000 };

static const struct vault_request usual = {.rank = 1, .bytes = BYTES, .fingerprint = 7};

static struct vault_region take(const struct vault *vault, const struct vault_request *request) {
    struct vault_region region;
    EXPECT_INT(vault_take(vault, &region, request), 0);
    return region;
}

static void save(struct vault_region *region, int64_t iteration) {
    memset(vault_begin(region), (int)(iteration & 255), region->bytes);
    vault_commit(region, iteration);
}

static bool holds(const struct vault_region *region, int64_t iteration) {
    const unsigned char *bytes = vault_find(region, iteration);
    for (size_t i = 0; bytes && i < region->bytes; i++)
        if (bytes[i] != (iteration & 255))
            return false;
    return bytes != NULL;
}

// The vault as another process would open it.
static struct vault *open_again(const struct vault *vault) {
    struct vault *again;
    EXPECT_INT(vault_open(&again, vault_path(vault)), 0);
    return again;
}

TEST(the_next_process_finds_it) {
    struct vault *vault = vault_create(2);
    EXPECT(vault != NULL);
    struct stat status;
    EXPECT(stat(vault_path(vault), &status) == 0 && (status.st_mode & 0777) == 0600);
    EXPECT_INT(vault_newest(vault), -1);
    for (int rank = 0; rank < 2; rank++) {
        pid_t child = fork();
        if (child == 0) {
            struct vault *opened;
            struct vault_region region;
            struct vault_request request = usual;
            request.rank = rank;
            if (vault_open(&opened, vault_path(vault)) < 0 || vault_take(opened, &region, &request) < 0)
                _exit(1);
            for (int64_t i = 5; i < 8 + rank; i++)
                save(&region, i);
            raise(SIGKILL);
        }
        int ended;
        EXPECT(waitpid(child, &ended, 0) == child && WIFSIGNALED(ended));
    }
    // Rank 0 has 6 and 7, rank 1 has 7 and 8.
    EXPECT_INT(vault_newest(vault), 7);
    struct vault *opened = open_again(vault);
    EXPECT(vault_has(opened, &usual));
    struct vault_region region = take(opened, &usual);
    EXPECT(holds(&region, 7) && holds(&region, 8) && !vault_find(&region, 6) && !vault_find(&region, -1));
    vault_drop(&region, 8);
    EXPECT(!vault_find(&region, 8) && holds(&region, 7));
    save(&region, 9);
    EXPECT(holds(&region, 7) && holds(&region, 9));
    vault_drop_all(&region);
    EXPECT(!vault_find(&region, 7) && !vault_find(&region, 9));
    vault_release(&region);
    vault_close(opened);
    vault_close(vault);
}

// A slot that is being written does not count; the other one stays.
TEST(an_unfinished_write_does_not_count) {
    struct vault *vault = vault_create(2);
    struct vault_region region = take(vault, &usual), again;
    save(&region, 3);
    save(&region, 4);
    memset(vault_begin(&region), 5, BYTES / 2);
    again = take(vault, &usual);
    int64_t claims[VAULT_SLOTS];
    vault_claims(&again, claims);
    EXPECT(claims[0] + claims[1] == 3);  // 4 and -1
    EXPECT(holds(&again, 4) && !vault_find(&again, 3));
    save(&again, 5);
    EXPECT(holds(&again, 4) && holds(&again, 5));
    vault_release(&region);
    vault_release(&again);
    vault_close(vault);
}

// A run that is resumed from an earlier checkpoint than this rank's last one: the later one is dropped, and the next
// write replaces it, not the one that the run was resumed from.
TEST(what_is_abandoned_is_dropped) {
    struct vault *vault = vault_create(2);
    struct vault_region region = take(vault, &usual);
    save(&region, 7);
    save(&region, 8);
    vault_drop_after(&region, 8);
    EXPECT(holds(&region, 7) && holds(&region, 8));
    vault_drop_after(&region, 7);
    EXPECT(holds(&region, 7) && !vault_find(&region, 8));
    memset(vault_begin(&region), 8, BYTES / 2);
    EXPECT(holds(&region, 7) && !vault_find(&region, 8));
    vault_commit(&region, 8);
    vault_drop_all(&region);
    // Twice the same iteration: the last one counts, also if it is damaged.
    save(&region, 4);
    memset(vault_begin(&region), 99, BYTES);
    vault_commit(&region, 4);
    unsigned char *bytes = (unsigned char *)(uintptr_t)vault_find(&region, 4);
    EXPECT(bytes && bytes[0] == 99);
    if (bytes)
        bytes[17] ^= 1;
    EXPECT(!vault_find(&region, 4));
    vault_release(&region);
    vault_close(vault);
}

// Killed at any moment, a writer leaves at least one whole checkpoint, and never a mixed one.
TEST(killed_writers_leave_whole_checkpoints) {
    struct vault *vault = vault_create(2);
    struct vault_region region = take(vault, &usual);
    save(&region, 1);
    for (int round = 0; round < 60; round++) {
        int64_t claims[VAULT_SLOTS], before;
        vault_claims(&region, claims);
        before = claims[0] > claims[1] ? claims[0] : claims[1];
        pid_t child = fork();
        if (child == 0) {
            for (int64_t i = before + 1;; i++)
                save(&region, i);
        }
        struct timespec pause = {.tv_nsec = 100000 + 37000 * (round % 23)};
        nanosleep(&pause, NULL);
        kill(child, SIGKILL);
        EXPECT(waitpid(child, NULL, 0) == child);
        vault_claims(&region, claims);
        int whole = 0;
        for (int i = 0; i < VAULT_SLOTS; i++) {
            EXPECT(claims[i] < 0 || holds(&region, claims[i]));
            whole += claims[i] >= before;
        }
        EXPECT(whole >= 1);
    }
    vault_release(&region);
    vault_close(vault);
}

// Every flipped bit of a page is noticed; sampled, because the hash covers all bytes alike.
TEST(damage_is_found) {
    struct vault *vault = vault_create(2);
    struct vault_region region = take(vault, &usual);
    save(&region, 1);
    save(&region, 2);
    unsigned char *bytes = (unsigned char *)(uintptr_t)vault_find(&region, 2);
    for (size_t at = 0; at < BYTES; at += 1237) {
        bytes[at] ^= (unsigned char)(1 << at % 8);
        EXPECT(vault_find(&region, 2) == NULL);
        EXPECT(holds(&region, 1));
        bytes[at] ^= (unsigned char)(1 << at % 8);
    }
    bytes[BYTES - 1] ^= 128;
    EXPECT(vault_find(&region, 2) == NULL);
    bytes[BYTES - 1] ^= 128;
    EXPECT(holds(&region, 2));
    vault_release(&region);
    vault_close(vault);
}

// Another model, another rank or other data do not take a checkpoint.
TEST(other_requests_start_empty) {
    struct vault *vault = vault_create(2);
    struct vault_region region = take(vault, &usual);
    save(&region, 1);
    vault_release(&region);
    struct vault_request other = usual;
    other.fingerprint++;
    EXPECT(!vault_has(vault, &other));
    region = take(vault, &other);
    EXPECT(!vault_find(&region, 1));
    save(&region, 2);
    vault_release(&region);
    other.bytes += 100000;
    region = take(vault, &other);
    EXPECT(!vault_find(&region, 2));
    save(&region, 3);
    EXPECT(holds(&region, 3));
    vault_release(&region);
    vault_clear(vault);
    EXPECT(!vault_has(vault, &other));
    other.rank = 2;
    EXPECT_INT(vault_take(vault, &region, &other), -1);
    other = (struct vault_request){.bytes = (size_t)1 << 50};
    EXPECT_INT(vault_take(vault, &region, &other), -1);
    vault_close(vault);
}

TEST(the_newest_that_all_have) {
    const int64_t one_apart[] = {8, 9, 9, 10, 8, 9}, none[] = {1, 2, 3, 4}, empty[] = {-1, -1},
                  partly[] = {4, 5, -1, 4};
    EXPECT_INT(vault_common(one_apart, 3), 9);
    EXPECT_INT(vault_common(none, 2), -1);
    EXPECT_INT(vault_common(empty, 1), -1);
    EXPECT_INT(vault_common(partly, 2), 4);
}

// Other files, and vaults that are not what they say, are refused.
TEST(other_files_are_refused) {
    struct vault *opened;
    EXPECT_INT(vault_open(&opened, "/nowhere/at/all"), -1);
    EXPECT_INT(vault_open(&opened, "/dev/null"), -1);
    struct vault *vault = vault_create(3);
    int file = open(vault_path(vault), O_RDWR | O_CLOEXEC);
    const int64_t ranks[] = {-1, 0, 2, 1 << 20, INT64_MAX};
    for (size_t i = 0; i < sizeof ranks / sizeof ranks[0]; i++) {
        EXPECT_INT(pwrite(file, &ranks[i], sizeof ranks[i], 8), sizeof ranks[i]);
        EXPECT_INT(vault_open(&opened, vault_path(vault)), -1);
    }
    EXPECT_INT(ftruncate(file, 4), 0);
    EXPECT_INT(vault_open(&opened, vault_path(vault)), -1);
    close(file);
    vault_close(vault);
}

TEST_MAIN(TEST_CASE(the_next_process_finds_it), TEST_CASE(an_unfinished_write_does_not_count),
          TEST_CASE(what_is_abandoned_is_dropped), TEST_CASE(killed_writers_leave_whole_checkpoints),
          TEST_CASE(damage_is_found), TEST_CASE(other_requests_start_empty), TEST_CASE(the_newest_that_all_have),
          TEST_CASE(other_files_are_refused))
