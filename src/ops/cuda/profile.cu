// Where the time of a step goes: while a profile is on, the device's table is a copy whose entries record an event
// before and after the real one, and the account of what the operation needs is kept by a paper device that runs it
// too. Events cost some microseconds a step; the compute stream is not held up.
#include "ops/cuda/cuda.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_MARKS = 1 << 15 };  // calls that are timed; those after them are not

struct profile_mark {
    cudaEvent_t start, end;
    int row;
};

struct cuda_profile {
    struct ops table;
    const struct ops *real;
    struct device *paper;
    struct profile_mark marks[MOST_MARKS];
    int count;
    struct profile_row rows[PROFILE_MOST_ROWS];
    int row_count;
};

// The row of this name and dtype. The last one is for all that come when the others are taken.
static int row_find(struct cuda_profile *profile, const char *name, enum dtype dtype) {
    for (int i = 0; i < profile->row_count; i++)
        if (strcmp(profile->rows[i].name, name) == 0 && profile->rows[i].dtype == dtype)
            return i;
    if (profile->row_count == PROFILE_MOST_ROWS)
        return PROFILE_MOST_ROWS - 1;
    struct profile_row *row = &profile->rows[profile->row_count];
    bool is_last = profile->row_count == PROFILE_MOST_ROWS - 1;
    snprintf(row->name, sizeof row->name, "%s", is_last ? "others" : name);
    row->dtype = dtype;
    return profile->row_count++;
}

static struct profile_mark *mark_begin(struct cuda_device *cuda, const char *name, enum dtype dtype) {
    struct cuda_profile *profile = cuda->profile;
    if (profile->count == MOST_MARKS)
        return NULL;
    struct profile_mark *mark = &profile->marks[profile->count++];
    CHECK_CUDA(cudaEventCreate(&mark->start));
    CHECK_CUDA(cudaEventCreate(&mark->end));
    mark->row = row_find(profile, name, dtype);
    CHECK_CUDA(cudaEventRecord(mark->start, cuda->streams[STREAM_COMPUTE]));
    return mark;
}

static void mark_end(struct cuda_device *cuda, struct profile_mark *mark, struct device_totals before) {
    struct cuda_profile *profile = cuda->profile;
    if (!mark)
        return;
    CHECK_CUDA(cudaEventRecord(mark->end, cuda->streams[STREAM_COMPUTE]));
    struct device_totals after = device_totals(profile->paper);
    struct profile_row *row = &profile->rows[mark->row];
    row->calls++;
    row->flops += after.matmul_flops + after.attention_flops - before.matmul_flops - before.attention_flops;
    row->bytes += after.bytes_moved - before.bytes_moved;
}

// Names the row of an operation and returns the dtype of the factors that it multiplies. Operations whose rows say more
// than their name have a function of their own below; the others share this one.
static enum dtype row_name(char *text, size_t size, const char *name, const void *op) {
    (void)op;
    snprintf(text, size, "%s", name);
    return DTYPE_F32;
}

static enum dtype row_name(char *text, size_t size, const char *name, const struct op_matmul *op) {
    static const char *const endings[] = {"", " bias", " bias gelu", " dgelu"};
    bool is_float4 = op->a.dtype == DTYPE_E2M1X2;
    int64_t inner = op->a.shape[op->transpose_a ? 0 : 1] * (is_float4 ? 2 : 1);
    snprintf(text, size, "%s%s %lld x %lld x %lld%s%s", name,
             is_float4                      ? " 4"
             : dtype_is_float8(op->a.dtype) ? " 8"
                                            : "",
             (long long)op->d.shape[0], (long long)op->d.shape[1], (long long)inner,
             op->transpose_a   ? " T"
             : op->transpose_b ? ""
                               : " N",
             endings[op->epilogue]);
    return op->a.dtype;
}

static enum dtype row_name(char *text, size_t size, const char *name, const struct op_attention_forward *op) {
    snprintf(text, size, "%s", name);
    return op->q.dtype;
}

static enum dtype row_name(char *text, size_t size, const char *name, const struct op_attention_backward *op) {
    snprintf(text, size, "%s", name);
    return op->q.dtype;
}

static enum dtype row_name(char *text, size_t size, const char *name, const struct op_quantize *op) {
    static const char *const kinds[] = {"", " activation", " glu", " activation gradient", " glu gradient"};
    snprintf(text, size, "%s%s %lld x %lld%s%s", name, kinds[op->kind], (long long)op->x.shape[0],
             (long long)op->x.shape[1], op->y.value.data ? "" : " -y", op->y.transposed.data ? "" : " -t");
    return DTYPE_F32;
}

static enum dtype row_name(char *text, size_t size, const char *name, const struct op_norm_forward *op) {
    snprintf(text, size, "%s%s", name, op->delta.data ? " + residual" : "");
    return DTYPE_F32;
}

static enum dtype row_name(char *text, size_t size, const char *name, const struct op_norm_backward *op) {
    snprintf(text, size, "%s%s", name, op->ddelta.data ? " + delta" : "");
    return DTYPE_F32;
}

static enum dtype row_name(char *text, size_t size, const char *name, const struct op_column_sum *op) {
    snprintf(text, size, "%s of %lld", name, (long long)op->x.shape[1]);
    return DTYPE_F32;
}

static enum dtype row_name(char *text, size_t size, const char *name, const struct op_matmul_many *op) {
    snprintf(text, size, "%s %lld of %lld x %lld x %lld%s", name, (long long)op->d.shape[0], (long long)op->d.shape[1],
             (long long)op->d.shape[2], (long long)op->a.shape[op->transpose_a ? 1 : 2],
             op->is_symmetric ? " symmetric" : "");
    return op->d.dtype;
}

// A table entry that runs the real one between two events, and then on paper.
#define PROFILED(name_)                                                                                                \
    static void profiled_##name_(struct device *device, const struct op_##name_ *op) {                                 \
        struct cuda_device *cuda = cuda_use(device);                                                                   \
        struct cuda_profile *profile = cuda->profile;                                                                  \
        struct device_totals before = device_totals(profile->paper);                                                   \
        char text[64];                                                                                                 \
        enum dtype dtype = row_name(text, sizeof text, #name_, op);                                                    \
        struct profile_mark *mark = mark_begin(cuda, text, dtype);                                                     \
        profile->real->name_(device, op);                                                                              \
        profile->paper->ops->name_(profile->paper, op);                                                                \
        mark_end(cuda, mark, before);                                                                                  \
    }
OPERATIONS(PROFILED)

static bool profiled_matmul_many(struct device *device, const struct op_matmul_many *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct cuda_profile *profile = cuda->profile;
    struct device_totals before = device_totals(profile->paper);
    char text[64];
    enum dtype dtype = row_name(text, sizeof text, "matmul_many", op);
    struct profile_mark *mark = mark_begin(cuda, text, dtype);
    bool is_done = profile->real->matmul_many(device, op);
    if (is_done)
        profile->paper->ops->matmul_many(profile->paper, op);
    mark_end(cuda, mark, before);
    return is_done;
}

static void profiled_zero(struct device *device, void *memory, size_t bytes, enum stream stream) {
    struct cuda_device *cuda = cuda_use(device);
    struct device_totals before = device_totals(cuda->profile->paper);
    struct profile_mark *mark = stream == STREAM_COMPUTE ? mark_begin(cuda, "zero", DTYPE_F32) : NULL;
    cuda->profile->real->zero(device, memory, bytes, stream);
    cuda->profile->paper->ops->zero(cuda->profile->paper, memory, bytes, stream);
    mark_end(cuda, mark, before);
}

extern "C" void cuda_profile_start(struct device *device) {
    struct cuda_device *cuda = cuda_use(device);
    CHECK(!cuda->profile);
    struct cuda_profile *profile = (struct cuda_profile *)memory_alloc(sizeof *profile);
    profile->real = device->ops;
    profile->table = *device->ops;
    if (device_open_twin(&profile->paper, NULL) < 0)
        die("%s", error_message());
#define REPLACE(name_) profile->table.name_ = profiled_##name_;
    OPERATIONS(REPLACE)
    REPLACE(zero)
    REPLACE(matmul_many)
#undef REPLACE
    // A replay cannot be told apart into its parts.
    profile->table.record_begin = NULL;
    cuda->profile = profile;
    device->ops = &profile->table;
}

static int slower_first(const void *a, const void *b) {
    double x = ((const struct profile_row *)a)->seconds, y = ((const struct profile_row *)b)->seconds;
    return x < y ? 1 : x > y ? -1 : 0;
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
        profile->rows[mark->row].seconds += (double)ms * 1e-3;
        CHECK_CUDA(cudaEventDestroy(mark->start));
        CHECK_CUDA(cudaEventDestroy(mark->end));
    }
    qsort(profile->rows, (size_t)profile->row_count, sizeof profile->rows[0], slower_first);
    int count = profile->row_count < most ? profile->row_count : most;
    memcpy(rows, profile->rows, (size_t)count * sizeof rows[0]);
    device->ops = profile->real;
    device_close(profile->paper);
    cuda->profile = NULL;
    free(profile);
    return count;
}
