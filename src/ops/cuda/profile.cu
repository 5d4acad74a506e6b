// The profile of a step: the profile's entries record an event before and after the real operation. Events cost some
// microseconds per step and do not stall the compute stream.
#include "ops/cuda/cuda.cuh"

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
