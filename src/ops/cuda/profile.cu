// The profile of a step: the profile's entries record an event before and after the real operation. Events cost some
// microseconds per step and do not stall the compute stream.
#include "ops/cuda/cuda.cuh"

#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>
#include <stdlib.h>

extern "C" {
#include "ops/profile.h"
}

enum { MOST_MARKS = 1 << 15 };  // calls that are timed; later ones are not

struct profile_mark {
    cudaEvent_t start, end;
    int row;
};

struct cuda_profile {
    struct profile base;
    struct profile_mark marks[MOST_MARKS];
    int count;
};

static struct profile_mark *mark_begin(struct cuda_device *cuda, const char *operation, const void *op) {
    struct cuda_profile *profile = cuda->profile;
    if (profile->count == MOST_MARKS)
        return NULL;
    struct profile_mark *mark = &profile->marks[profile->count++];
    CHECK_CUDA(cudaEventCreate(&mark->start));
    CHECK_CUDA(cudaEventCreate(&mark->end));
    mark->row = profile_row(&profile->base, operation, op);
    CHECK_CUDA(cudaEventRecord(mark->start, cuda->streams[STREAM_COMPUTE]));
    return mark;
}

static void mark_end(struct cuda_device *cuda, struct profile_mark *mark, struct device_totals before) {
    if (!mark)
        return;
    CHECK_CUDA(cudaEventRecord(mark->end, cuda->streams[STREAM_COMPUTE]));
    profile_add(&cuda->profile->base, mark->row, before);
}

// A table entry that runs the real one between two events, and then on paper.
#define PROFILED(name_)                                                                                                \
    static void profiled_##name_(struct device *device, const struct op_##name_ *op) {                                 \
        struct cuda_device *cuda = cuda_use(device);                                                                   \
        struct profile *profile = &cuda->profile->base;                                                                \
        struct device_totals before = device_totals(profile->paper);                                                   \
        struct profile_mark *mark = mark_begin(cuda, #name_, op);                                                      \
        profile->real->name_(device, op);                                                                              \
        profile->paper->ops->name_(profile->paper, op);                                                                \
        mark_end(cuda, mark, before);                                                                                  \
    }
OPERATIONS(PROFILED)

static bool profiled_matmul_many(struct device *device, const struct op_matmul_many *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct profile *profile = &cuda->profile->base;
    struct device_totals before = device_totals(profile->paper);
    struct profile_mark *mark = mark_begin(cuda, "matmul_many", op);
    bool is_done = profile->real->matmul_many(device, op);
    if (is_done)
        profile->paper->ops->matmul_many(profile->paper, op);
    mark_end(cuda, mark, before);
    return is_done;
}

static void profiled_zero(struct device *device, void *memory, size_t bytes, enum stream stream) {
    struct cuda_device *cuda = cuda_use(device);
    struct profile *profile = &cuda->profile->base;
    struct device_totals before = device_totals(profile->paper);
    struct profile_mark *mark = stream == STREAM_COMPUTE ? mark_begin(cuda, "zero", NULL) : NULL;
    profile->real->zero(device, memory, bytes, stream);
    profile->paper->ops->zero(profile->paper, memory, bytes, stream);
    mark_end(cuda, mark, before);
}

extern "C" void cuda_profile_start(struct device *device) {
    struct cuda_device *cuda = cuda_use(device);
    CHECK(!cuda->profile);
    struct cuda_profile *profile = (struct cuda_profile *)memory_alloc(sizeof *profile);
    cuda->profile = profile;
    profile_begin(&profile->base, device);
#define REPLACE(name_) profile->base.table.name_ = profiled_##name_;
    OPERATIONS(REPLACE)
    REPLACE(zero)
    REPLACE(matmul_many)
#undef REPLACE
    // The operations of a replay cannot be timed separately.
    profile->base.table.record_begin = NULL;
}

extern "C" int cuda_profile_stop(struct device *device, struct profile_row *rows, int most) {
    struct cuda_device *cuda = cuda_use(device);
    struct cuda_profile *profile = cuda->profile;
    CHECK(profile);
    CHECK_CUDA(cudaDeviceSynchronize());
    for (int i = 0; i < profile->count; i++) {
        struct profile_mark *mark = &profile->marks[i];
        float ms = 0;
        CHECK_CUDA(cudaEventElapsedTime(&ms, mark->start, mark->end));
        profile->base.rows[mark->row].seconds += (double)ms * 1e-3;
        CHECK_CUDA(cudaEventDestroy(mark->start));
        CHECK_CUDA(cudaEventDestroy(mark->end));
    }
    int count = profile_end(&profile->base, device, rows, most);
    cuda->profile = NULL;
    free(profile);
    return count;
}

// ---- clock ----

// Times on the streams, for traces. A stamp is a timed event from a ring that is allocated at the start: recording one
// costs the host about a microsecond and the stream next to nothing. The device's clock is aligned with the host's by
// an event that the host waits for at the start.

extern "C" {
#include "base/clock.h"
}

struct cuda_clock {
    cudaEvent_t *events;  // (capacity) stamp n is at n % capacity
    int64_t capacity, last;
    cudaEvent_t base;  // origin of times
    double base_seconds;
    int64_t base_stamp;  // which stamp the base was; 0 for none
};

enum { TRIES = 8 };
// Elapsed time is a float of milliseconds: beyond this it would be coarser than events are.
static const float FARTHEST_MS = 4000;

// Takes the best of several tries: the event lies between two reads of the host's clock.
static void tie_clocks(struct cuda_device *cuda, struct cuda_clock *clock) {
    double least = INFINITY;
    cudaEvent_t next;
    CHECK_CUDA(cudaEventCreate(&clock->base));
    CHECK_CUDA(cudaEventCreate(&next));
    for (int i = 0; i < TRIES; i++) {
        double before = clock_seconds();
        CHECK_CUDA(cudaEventRecord(next, cuda->streams[STREAM_COMPUTE]));
        CHECK_CUDA(cudaEventSynchronize(next));
        double took = clock_seconds() - before;
        if (took >= least)
            continue;
        cudaEvent_t other = clock->base;
        clock->base = next;
        next = other;
        clock->base_seconds = before + took / 2;
        least = took;
    }
    CHECK_CUDA(cudaEventDestroy(next));
}

static void clock_start(struct device *device, int64_t most) {
    struct cuda_device *cuda = cuda_use(device);
    CHECK(!cuda->clock && most > 0);
    CHECK_CUDA(cudaDeviceSynchronize());
    struct cuda_clock *clock = (struct cuda_clock *)memory_alloc(sizeof *clock);
    clock->capacity = most;
    clock->events = (cudaEvent_t *)memory_alloc((size_t)most * sizeof *clock->events);
    for (int64_t i = 0; i < most; i++)
        CHECK_CUDA(cudaEventCreate(&clock->events[i]));
    tie_clocks(cuda, clock);
    cuda->clock = clock;
}

static void clock_stop(struct device *device) {
    struct cuda_device *cuda = cuda_use(device);
    struct cuda_clock *clock = cuda->clock;
    if (!clock)
        return;
    CHECK_CUDA(cudaDeviceSynchronize());
    for (int64_t i = 0; i < clock->capacity; i++)
        CHECK_CUDA(cudaEventDestroy(clock->events[i]));
    CHECK_CUDA(cudaEventDestroy(clock->base));
    free(clock->events);
    free(clock);
    cuda->clock = NULL;
}

// A recording would keep the event and record it at every replay.
static int64_t clock_stamp(struct device *device, void *stream) {
    struct cuda_device *cuda = (struct cuda_device *)device;
    struct cuda_clock *clock = cuda->clock;
    if (!clock || cuda->is_recording)
        return 0;
    int64_t stamp = ++clock->last;
    CHECK_CUDA(cudaEventRecord(clock->events[stamp % clock->capacity], (cudaStream_t)stream));
    return stamp;
}

static bool clock_read(struct device *device, int64_t stamp, double *seconds) {
    struct cuda_clock *clock = cuda_use(device)->clock;
    if (!clock || stamp > clock->last || stamp <= clock->last - clock->capacity)
        return false;
    float ms = 0;
    cudaEvent_t *event = &clock->events[stamp % clock->capacity];
    // The last stamp of a step completes slightly after the host learns that the step is done.
    if (stamp != clock->base_stamp && (cudaEventSynchronize(*event) != cudaSuccess ||
                                       cudaEventElapsedTime(&ms, clock->base, *event) != cudaSuccess)) {
        cudaGetLastError();
        return false;
    }
    *seconds = clock->base_seconds + (double)ms * 1e-3;
    if (ms > FARTHEST_MS) {
        cudaEvent_t base = clock->base;
        clock->base = *event;
        *event = base;
        clock->base_seconds = *seconds;
        clock->base_stamp = stamp;
    }
    return true;
}

static void announce(struct device *device, bool is_on) {
    cuda_use(device);
    CHECK_CUDA(is_on ? cudaProfilerStart() : cudaProfilerStop());
}

static void push_range(const char *name) {
    nvtxRangePushA(name);
}

static void pop_range(void) {
    nvtxRangePop();
}

extern "C" const struct device_clock cuda_clock_table = {
    .start = clock_start,
    .stop = clock_stop,
    .stamp = clock_stamp,
    .read = clock_read,
    .announce = announce,
    .push_range = push_range,
    .pop_range = pop_range,
};
