// Times on the streams, for traces. A stamp is a timed event from a ring that is allocated at the start: recording one
// costs the host about a microsecond and the stream next to nothing. The device's clock is aligned with the host's by
// an event that the host waits for at the start.
#include "ops/cuda/cuda.cuh"

#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>
#include <stdlib.h>

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
