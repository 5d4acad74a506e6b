// Finding stragglers. See stragglers.h.
#include "recovery/stragglers.h"

#include "base/clock.h"
#include "base/memory.h"
#include "base/number.h"
#include "ops/device.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double LEAST_SHARE = 0.1;

enum measure { MEASURE_OWN, MEASURE_DATA, MEASURE_STALL, MEASURE_CLOCK };

static double measure(const struct rank_times *times, enum measure what) {
    if (what == MEASURE_DATA)
        return times->data;
    if (what == MEASURE_CLOCK)
        return times->clock;
    return what == MEASURE_STALL ? times->stall : times->step - times->wait;
}

double stragglers_value_at(double *values, int count, int index) {
    qsort(values, (size_t)count, sizeof *values, number_compare);
    return values[index];
}

static int count_stage(const struct rank_times *ranks, int count, int stage) {
    int found = 0;
    for (int i = 0; i < count; i++)
        found += ranks[i].stage == stage;
    return found;
}

// The median over the rank's peers, without itself; the lower one of two.
static double find_median(const struct rank_times *ranks, int count, int rank, enum measure what) {
    bool is_alone = count_stage(ranks, count, ranks[rank].stage) == 1;
    OWNED double *values = memory_alloc(sizeof *values * (size_t)count);
    int found = 0;
    for (int i = 0; i < count; i++)
        if (i != rank && (is_alone || ranks[i].stage == ranks[rank].stage))
            values[found++] = measure(&ranks[i], what);
    return found > 0 ? stragglers_value_at(values, found, (found - 1) / 2) : 0;
}

// The rank whose own time is longest; the first of equals, and any rank that is slow enough stands out against the
// median, so the others need not be looked at.
static int find_slowest(const struct rank_times *ranks, int count) {
    int slowest = 0;
    for (int i = 1; i < count; i++)
        if (measure(&ranks[i], MEASURE_OWN) > measure(&ranks[slowest], MEASURE_OWN))
            slowest = i;
    return slowest;
}

// A rank that computes for longer, on a GPU whose clock is lower than that of its peers: what it computed would have
// taken less at theirs. The clock is the cause if that is at least half of the delay.
static void find_clock(struct straggler *straggler, const struct rank_times *ranks, int count) {
    double clock = ranks[straggler->rank].clock, peers = find_median(ranks, count, straggler->rank, MEASURE_CLOCK);
    if (straggler->cause != CAUSE_COMPUTE || !(clock > 0) || clock >= peers)
        return;
    double own = measure(&ranks[straggler->rank], MEASURE_OWN);
    if (own * (1 - clock / peers) < straggler->late / 2)
        return;
    straggler->cause = CAUSE_CLOCK;
    straggler->theirs = clock;
    straggler->peers = peers;
}

// The cause of at least half of the delay.
static void find_cause(struct straggler *straggler, const struct rank_times *ranks, int count) {
    static const struct {
        enum straggler_cause cause;
        enum measure what;
    } causes[] = {{CAUSE_DATA, MEASURE_DATA}, {CAUSE_HOST, MEASURE_STALL}, {CAUSE_COMPUTE, MEASURE_OWN}};
    for (int i = 0; i < 3; i++) {
        straggler->cause = causes[i].cause;
        straggler->theirs = measure(&ranks[straggler->rank], causes[i].what);
        straggler->peers = find_median(ranks, count, straggler->rank, causes[i].what);
        if (straggler->theirs - straggler->peers >= straggler->late / 2)
            return;
    }
}

struct straggler stragglers_find(const struct rank_times *ranks, int count) {
    struct straggler straggler = {.rank = -1};
    if (count < 2)
        return straggler;
    int slowest = find_slowest(ranks, count);
    double step = ranks[slowest].step;
    double late = measure(&ranks[slowest], MEASURE_OWN) - find_median(ranks, count, slowest, MEASURE_OWN);
    if (!(step > 0) || late < LEAST_SHARE * step)
        return straggler;
    straggler = (struct straggler){.rank = slowest, .late = late, .share = late / step};
    find_cause(&straggler, ranks, count);
    find_clock(&straggler, ranks, count);
    return straggler;
}

const char *straggler_cause_name(enum straggler_cause cause) {
    static const char *const names[] = {[CAUSE_DATA] = "data",
                                        [CAUSE_COMPUTE] = "compute",
                                        [CAUSE_LINK] = "link",
                                        [CAUSE_HOST] = "host",
                                        [CAUSE_CLOCK] = "clock"};
    return names[cause];
}

void straggler_describe(const struct straggler *straggler, const char *host, struct buffer *out) {
    static const struct {
        const char *what, *remedy;
    } texts[] = {
        [CAUSE_DATA] = {"it waits for data", "check the storage that its host reads from"},
        [CAUSE_COMPUTE] = {"it computes for longer", "check clocks, temperature and other jobs on its host"},
        [CAUSE_HOST] = {"its process is not running or launches late", "check for other processes on its host"},
    };
    if (straggler->cause == CAUSE_LINK) {
        buffer_printf(out,
                      "rank %d on %s has slow links: a message takes %.2f ms (others %.2f ms); check the network of "
                      "its host",
                      straggler->rank, host, straggler->theirs * 1e3, straggler->peers * 1e3);
        return;
    }
    if (straggler->cause == CAUSE_CLOCK) {
        buffer_printf(out,
                      "rank %d on %s is %.1f ms (%.0f %%) of a step late: its GPU runs at %.0f MHz (others %.0f MHz); "
                      "run nvidia-smi -q -d PERFORMANCE on its host for the reason",
                      straggler->rank, host, straggler->late * 1e3, straggler->share * 100, straggler->theirs,
                      straggler->peers);
        return;
    }
    buffer_printf(out, "rank %d on %s is %.1f ms (%.0f %%) of a step late: %s (%.1f ms, others %.1f ms); %s",
                  straggler->rank, host, straggler->late * 1e3, straggler->share * 100, texts[straggler->cause].what,
                  straggler->theirs * 1e3, straggler->peers * 1e3, texts[straggler->cause].remedy);
}

// ---- slow links ----

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
