// Probing links. See link_probe.h.
#include "recovery/link_probe.h"
#include "base/clock.h"
#include "base/memory.h"
#include "ops/device.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MESSAGE_BYTES = 256 << 10, REPEATS = 3, PHASES = 3 };
static const double TIMES_SLOWER = 2;

// Number of ranks of the first host, if all hosts have as many consecutive ranks; else 1.
static int find_stride(const struct group *all) {
    int size = group_size(all), first = 1;
    while (first < size && strcmp(group_host(all, first), group_host(all, 0)) == 0)
        first++;
    bool is_even = size % first == 0 && first < size;
    for (int i = 0; i < size && is_even; i++)
        is_even = strcmp(group_host(all, i), group_host(all, i / first * first)) == 0;
    return is_even ? first : 1;
}

static void transfer(struct group *all, struct tensor x, int peer, bool sends) {
    struct comm_request request =
        sends ? comm_send_start(all, x, peer, "link probe") : comm_receive_start(all, x, peer, "link probe");
    comm_wait(&request);
}

// Back and forth with one peer; the shortest of some tries, in seconds one way.
static double exchange(struct group *all, struct device *device, struct tensor x, int peer, bool is_first) {
    double least = INFINITY;
    for (int i = 0; i < REPEATS; i++) {
        double started = clock_seconds();
        transfer(all, x, peer, is_first);
        transfer(all, x, peer, !is_first);
        device_synchronize(device);
        double took = (clock_seconds() - started) / 2;
        least = took < least ? took : least;
    }
    return least;
}

// In which phase the link from a rank to the next of its ring is measured: no rank has two links in one phase.
static int phase_of(int place, int length) {
    return place == length - 1 ? 2 : place % 2;
}

static void measure_links(struct group *all, struct device *device, struct tensor x, int stride, double *own) {
    int size = group_size(all), rank = group_rank(all), length = size / stride, place = rank / stride;
    int next = (rank + stride) % size, previous = (rank + size - stride) % size;
    for (int phase = 0; phase < PHASES; phase++) {
        comm_barrier(all, "link probe");
        if (phase_of(place, length) == phase)
            *own = exchange(all, device, x, next, true);
        else if (phase_of((place + length - 1) % length, length) == phase)
            (void)exchange(all, device, x, previous, false);
    }
}

int link_probe_measure(struct group *all, struct device *device, double *links, int *stride) {
    int size = group_size(all);
    void *memory = device_alloc(device, MESSAGE_BYTES);
    if (comm_agree(all, memory ? 0 : -1, "link probe") < 0) {
        device_free(device, memory);
        return -1;
    }
    struct tensor x = tensor_1d(memory, DTYPE_F32, MESSAGE_BYTES / 4);
    device_zero(device, x);
    *stride = find_stride(all);
    double own = 0;
    if (size / *stride >= 3)
        measure_links(all, device, x, *stride, &own);
    OWNED int64_t *table = memory_alloc(sizeof *table * (size_t)size);
    table[group_rank(all)] = (int64_t)(own * 1e9);
    comm_all_gather_i64(all, table, 1, "link probe");
    for (int i = 0; i < size; i++)
        links[i] = (double)table[i] * 1e-9;
    device_free(device, memory);
    return 0;
}

struct straggler link_probe_find(const double *links, int count, int stride) {
    struct straggler found = {.rank = -1, .cause = CAUSE_LINK};
    if (count / stride < 3)
        return found;
    OWNED double *sorted = memory_alloc(sizeof *sorted * (size_t)count);
    memcpy(sorted, links, sizeof *sorted * (size_t)count);
    // Two of three links may belong to the slow rank; the lower quartile is a sound link as long as one in four is.
    found.peers = stragglers_value_at(sorted, count, (count - 1) / 4);
    for (int i = 0; i < count; i++) {
        double before = links[(i + count - stride) % count], least = links[i] < before ? links[i] : before;
        if (least >= TIMES_SLOWER * found.peers && least > found.theirs && found.peers > 0) {
            found.rank = i;
            found.theirs = least;
        }
    }
    found.late = found.theirs - found.peers;
    return found;
}
