// Comparing clocks. See clocks.h.
#include "comm/clocks.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/memory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ROUNDS = 16 };

// A rank's words in one exchange.
enum { WORD_BEFORE, WORD_AFTER, WORD_IDENTITY, WORDS = WORD_IDENTITY + 2 };

struct clock_offset clocks_solve(const struct clock_round *rounds, int count) {
    int64_t low = INT64_MIN, high = INT64_MAX;
    for (int i = 0; i < count; i++) {
        int64_t least = rounds[i].before - rounds[i].first_after, most = rounds[i].after - rounds[i].first_before;
        low = least > low ? least : low;
        high = most < high ? most : high;
    }
    if (count == 0)
        return (struct clock_offset){0};
    double middle = ((double)low + (double)high) / 2, half = ((double)high - (double)low) / 2;
    return (struct clock_offset){.seconds = middle * 1e-9, .error = (half > 0 ? half : 0) * 1e-9};
}

// The clock starts with the kernel, and a namespace of time may shift it.
struct rank_clock clocks_own(void) {
    struct rank_clock clock = {.read = clock_seconds};
    char boot[64], space[128];
    int descriptor = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t length = descriptor >= 0 ? read(descriptor, boot, sizeof boot) : 0;
    if (descriptor >= 0)
        close(descriptor);
    ssize_t more = readlink("/proc/self/ns/time", space, sizeof space);
    uint64_t hash = hash_bytes(boot, length > 0 ? (size_t)length : 0, 1);
    clock.identity[0] = (int64_t)hash_bytes(space, more > 0 ? (size_t)more : 0, hash);
    // Without a boot id nothing tells machines apart.
    clock.identity[1] = length > 0 ? 0 : (int64_t)getpid();
    return clock;
}

static int64_t read_nanoseconds(const struct rank_clock *clock) {
    return (int64_t)(clock->read() * 1e9);
}

// An exchange sends the clock read before it and the one read after the previous exchange: one more than rounds.
struct clock_offset clocks_compare(struct group *group, const struct rank_clock *clock) {
    int size = group_size(group), rank = group_rank(group);
    if (size == 1)
        return (struct clock_offset){0};
    struct clock_round rounds[ROUNDS + 1] = {0};
    int64_t *table = memory_alloc(sizeof *table * WORDS * (size_t)size);
    int64_t *own = table + (size_t)rank * WORDS;
    for (int i = 0; i <= ROUNDS; i++) {
        memcpy(own + WORD_IDENTITY, clock->identity, sizeof clock->identity);
        own[WORD_AFTER] = i > 0 ? rounds[i - 1].after : 0;
        own[WORD_BEFORE] = rounds[i].before = read_nanoseconds(clock);
        comm_all_gather_i64(group, table, WORDS, "clocks");
        rounds[i].after = read_nanoseconds(clock);
        rounds[i].first_before = table[WORD_BEFORE];
        if (i > 0)
            rounds[i - 1].first_after = table[WORD_AFTER];
    }
    bool is_same = memcmp(table + WORD_IDENTITY, clock->identity, sizeof clock->identity) == 0;
    free(table);
    return is_same ? (struct clock_offset){0} : clocks_solve(rounds, ROUNDS);
}
