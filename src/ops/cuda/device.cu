// Opening a GPU, its memory, streams and events, and the table of the CUDA backend. A device has several streams, so
// that copies overlap computation; only events order them. All scratch memory is allocated here: no operation
// allocates.
#include "ops/cuda/cuda.cuh"

extern "C" {
#include "ops/attention_parts.h"
#include "ops/cuda/host_memory.h"
}

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OLDEST_COMPUTE_CAPABILITY = 8 };  // for bf16 arithmetic; the oldest target of the build

// Every device is one of these: the common struct, then members that only this file needs.
struct cuda_machine {
    struct cuda_device cuda;  // first
    struct host_memory large;
};

static void cuda_close(struct device *device) {
    struct cuda_device *cuda = cuda_use(device);
    CHECK_CUDA(cudaDeviceSynchronize());
    cuda_clock_table.stop(device);
    cudnn_attention_close(cuda->cudnn);
    matmul_plans_free(cuda->plans);
    matmul_memory_close(cuda->memory);
    CHECK_CUDA(cudaFree(cuda->scratch));
    CHECK_CUDA(cudaFree(cuda->blas_workspace));
    if (cuda->blas)
        CHECK_CUBLAS(cublasLtDestroy(cuda->blas));
    for (int i = 0; i < STREAM_COUNT; i++)
        if (cuda->streams[i])
            CHECK_CUDA(cudaStreamDestroy(cuda->streams[i]));
    free(cuda);
}

static bool cuda_supports(const struct device *device, enum dtype dtype) {
    const struct cuda_device *cuda = (const struct cuda_device *)device;
    return dtype == DTYPE_F32 || dtype == DTYPE_BF16 || dtype == DTYPE_F16 ||
           (dtype_is_float8(dtype) && cuda->has_float8) ||
           (dtype == DTYPE_E2M1X2 && cuda->has_float8 && CUDART_VERSION >= CUDA_WITH_BLOCKS);
}

// As in cuBLASLt: blocks of 128 on Hopper alone, of 16 and 32 from Blackwell on. Any GPU with fp8 can quantize by
// blocks and multiply slowly, for tests.
static bool cuda_supports_scaling(const struct device *device, enum scaling scaling) {
    const struct cuda_device *cuda = (const struct cuda_device *)device;
    if (scaling == SCALING_TENSOR)
        return cuda->has_float8;
    if (CUDART_VERSION < CUDA_WITH_BLOCKS)
        return false;
    bool is_short = scaling == SCALING_VECTOR32 || scaling_is_float4(scaling);
    return is_short ? cuda->capability >= 100 : cuda->capability == 90;
}

static bool cuda_multiplies_groups8(const struct device *device, enum scaling scaling) {
#ifdef BEVATRON_HOPPER
    bool is_known = scaling == SCALING_TENSOR || scaling == SCALING_VECTOR128;
    return is_known && ((const struct cuda_device *)device)->capability == 90;
#else
    (void)device, (void)scaling;
    return false;
#endif
}

static void cuda_describe(const struct device *device, char *text, size_t size) {
    const struct cuda_device *cuda = (const struct cuda_device *)device;
    struct cudaDeviceProp properties;
    int runtime = 0;
    CHECK_CUDA(cudaGetDeviceProperties(&properties, cuda->index));
    CHECK_CUDA(cudaRuntimeGetVersion(&runtime));
    char cudnn[32];
    cudnn_attention_describe(cuda->cudnn, cudnn, sizeof cudnn);
    snprintf(text, size, "GPU %d: %s, %.0f GiB, CUDA %d.%d, cuBLASLt %zu%s%s", cuda->index, properties.name,
             (double)properties.totalGlobalMem / (1 << 30), runtime / 1000, runtime % 1000 / 10,
             cublaslt()->cublasLtGetVersion(), cudnn[0] ? ", " : "", cudnn);
}

// cudaGetLastError clears the error of a failed allocation, so that the check of an unrelated launch does not find it.
static void *cuda_alloc(struct device *device, size_t bytes) {
    struct cuda_device *cuda = cuda_use(device);
    void *memory = NULL;
    cudaError_t status = cudaMalloc(&memory, bytes ? bytes : 1);
    if (status == cudaSuccess)
        return memory;
    cudaGetLastError();
    size_t available = 0, total = 0;
    CHECK_CUDA(cudaMemGetInfo(&available, &total));
    error_set_code(
        EXIT_CODE_OUT_OF_MEMORY,
        "cannot allocate %zu bytes on GPU %d (%zu of %zu are free): %s; nvidia-smi shows what else uses that GPU",
        bytes, cuda->index, available, total, cudaGetErrorString(status));
    return NULL;
}

static void cuda_free(struct device *device, void *memory) {
    cuda_use(device);
    CHECK_CUDA(cudaFree(memory));
}

static size_t cuda_room(struct device *device) {
    cuda_use(device);
    size_t available = 0, total = 0;
    CHECK_CUDA(cudaMemGetInfo(&available, &total));
    return available;
}

static void *cuda_host_alloc(struct device *device, size_t bytes) {
    struct cuda_machine *machine = (struct cuda_machine *)cuda_use(device);
    void *memory = host_memory_take(&machine->large, machine->cuda.index, bytes);
    if (memory)
        return memory;
    cudaError_t status = cudaHostAlloc(&memory, bytes ? bytes : 1, cudaHostAllocDefault);
    if (status == cudaSuccess)
        return memory;
    cudaGetLastError();
    error_set_code(EXIT_CODE_OUT_OF_MEMORY,
                   "cannot allocate %zu bytes of page-locked host memory: %s; free host memory or raise the limit of "
                   "locked memory (ulimit -l)",
                   bytes, cudaGetErrorString(status));
    return NULL;
}

static void cuda_host_free(struct device *device, void *memory) {
    struct cuda_machine *machine = (struct cuda_machine *)cuda_use(device);
    if (!host_memory_give(&machine->large, memory))
        CHECK_CUDA(cudaFreeHost(memory));
}

// Either side of a copy may be page-locked host memory instead of device memory; the driver finds out which.
static void cuda_copy_in(struct device *device, void *to_device, const void *from_host, size_t bytes,
                         enum stream stream) {
    struct cuda_device *cuda = cuda_use(device);
    if (bytes > 0)
        CHECK_CUDA(cudaMemcpyAsync(to_device, from_host, bytes, cudaMemcpyDefault, cuda->streams[stream]));
}

static void cuda_copy_out(struct device *device, void *to_host, const void *from_device, size_t bytes,
                          enum stream stream) {
    struct cuda_device *cuda = cuda_use(device);
    if (bytes > 0)
        CHECK_CUDA(cudaMemcpyAsync(to_host, from_device, bytes, cudaMemcpyDefault, cuda->streams[stream]));
}

static void cuda_zero(struct device *device, void *memory, size_t bytes, enum stream stream) {
    struct cuda_device *cuda = cuda_use(device);
    if (bytes > 0)
        CHECK_CUDA(cudaMemsetAsync(memory, 0, bytes, cuda->streams[stream]));
}

// A struct event is CUDA's own event under another name: nothing else belongs to it.
static struct event *cuda_event_create(struct device *device) {
    cuda_use(device);
    cudaEvent_t event;
    CHECK_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return (struct event *)event;
}

static void cuda_event_free(struct device *device, struct event *event) {
    cuda_use(device);
    if (event)
        CHECK_CUDA(cudaEventDestroy((cudaEvent_t)event));
}

static void cuda_event_record(struct device *device, struct event *event, enum stream stream) {
    struct cuda_device *cuda = cuda_use(device);
    CHECK_CUDA(cudaEventRecord((cudaEvent_t)event, cuda->streams[stream]));
}

static void cuda_stream_wait(struct device *device, enum stream stream, struct event *event) {
    struct cuda_device *cuda = cuda_use(device);
    CHECK_CUDA(cudaStreamWaitEvent(cuda->streams[stream], (cudaEvent_t)event, 0));
}

static void cuda_event_wait(struct device *device, struct event *event) {
    cuda_use(device);
    CHECK_CUDA(cudaEventSynchronize((cudaEvent_t)event));
}

static void cuda_identity(struct device *device, int64_t words[2]) {
    struct cudaDeviceProp properties;
    CHECK_CUDA(cudaGetDeviceProperties(&properties, cuda_use(device)->index));
    static_assert(sizeof properties.uuid == 2 * sizeof words[0], "a UUID has 128 bits");
    memcpy(words, &properties.uuid, sizeof properties.uuid);
}

static void *cuda_native_stream(struct device *device, enum stream stream) {
    return cuda_use(device)->streams[stream];
}

static void cuda_synchronize(struct device *device) {
    cuda_use(device);
    CHECK_CUDA(cudaDeviceSynchronize());
}

// clang-format off
static const struct ops cuda_ops = {
    .name = "cuda",
    .is_host_memory = false,
    .is_imaginary = false,
    .most_head_size = MOST_HEAD_SIZE,
    .fuses_stats = true,
    .fuses_quantize = true,
    .standing_bytes = (size_t)BLAS_WORKSPACE_BYTES + SCRATCH_BYTES,
    .close = cuda_close,
    .supports = cuda_supports,
    .supports_scaling = cuda_supports_scaling,
    .multiplies_groups8 = cuda_multiplies_groups8,
    .is_fast = nullptr,
    .describe = cuda_describe,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .room = cuda_room,
    .library_bytes = (size_t)512 << 20,
    .own_bytes = NULL,
    .host_alloc = cuda_host_alloc,
    .host_free = cuda_host_free,
    .copy_in = cuda_copy_in,
    .copy_out = cuda_copy_out,
    .zero = cuda_zero,
    .event_create = cuda_event_create,
    .event_free = cuda_event_free,
    .event_record = cuda_event_record,
    .stream_wait = cuda_stream_wait,
    .event_wait = cuda_event_wait,
    .synchronize = cuda_synchronize,
    .native_stream = cuda_native_stream,
    .identity = cuda_identity,
    .share_processors = NULL,
    .join = cuda_join,
    .record_begin = cuda_record_begin,
    .record_end = cuda_record_end,
    .replay = cuda_replay,
    .recording_free = cuda_recording_free,
#ifdef BEVATRON_HOPPER
    .gains_by_many = cuda_gains_by_many,
    .matmul_many = cuda_matmul_many,
#else
    .gains_by_many = NULL,
    .matmul_many = NULL,
#endif
    .clock = &cuda_clock_table,
    .profile_start = cuda_profile_start,
    .profile_stop = cuda_profile_stop,
#define ENTRY(name_) .name_ = cuda_##name_,
    OPERATIONS(ENTRY)
#undef ENTRY
};
// clang-format on

// A machine without GPUs or without a driver has none, which is not an error; GPUs that fail are one.
extern "C" int cuda_count(void) {
    int count = 0;
    if (library_load(cuda_driver_library()) < 0) {
        error_clear();
        return 0;
    }
    cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaSuccess)
        return count;
    cudaGetLastError();
    if (status == cudaErrorNoDevice || status == cudaErrorStubLibrary)
        return 0;
    return error_set(
        "cannot use the GPUs of this machine: %s (%s); check the driver with nvidia-smi, or use --device cpu",
        cudaGetErrorString(status), cudaGetErrorName(status));
}

static __global__ void probe_kernel(void) {}

static int cannot_open(int index, cudaError_t status) {
    cudaGetLastError();
    return error_set_code(cuda_exit_code(status),
                          "cannot open GPU %d: %s; run nvidia-smi to see whether another process holds it", index,
                          cudaGetErrorString(status));
}

// Fails if the build has no code for the current GPU.
static int cuda_check_build(int index) {
    struct cudaFuncAttributes attributes;
    cudaError_t status = cudaFuncGetAttributes(&attributes, probe_kernel);
    if (status == cudaSuccess)
        return 0;
    if (status != cudaErrorNoKernelImageForDevice && status != cudaErrorInvalidDeviceFunction &&
        status != cudaErrorInvalidKernelImage && status != cudaErrorUnsupportedPtxVersion)
        return cannot_open(index, status);
    cudaGetLastError();
    int major = 0, minor = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
    CHECK_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
    return error_set_code(cuda_exit_code(status),
                          "this bevatron has no code that GPU %d, of compute capability %d.%d, can run: %s; configure "
                          "with -DBEVATRON_CUDA_ARCHS=%d%d (or a list, such as \"80;90\") and build it again",
                          index, major, minor, cudaGetErrorString(status), major, minor);
}

// Fails if the GPU does not exist or is too old.
static int cuda_check(int index) {
    int count = cuda_count();
    TRY(count);
    if (count == 0)
        return error_set(
            "cannot use a GPU: this machine shows none; check the driver with nvidia-smi, or use --device cpu");
    if (index < 0 || index >= count)
        return error_set(
            "there is no GPU %d: this machine shows %d, numbered from 0; start fewer ranks on it or look at "
            "CUDA_VISIBLE_DEVICES",
            index, count);
    int major = 0, minor = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
    CHECK_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
    if (major < OLDEST_COMPUTE_CAPABILITY)
        return error_set("GPU %d has compute capability %d.%d, but %d.0 is needed (A100 or later); use --device cpu",
                         index, major, minor, OLDEST_COMPUTE_CAPABILITY);
    return 0;
}

// Whether its matrix units take fp8: from compute capability 8.9 on (L4, H100).
enum { FIRST_WITH_FLOAT8 = 89 };

static int capability_of(int index) {
    int major = 0, minor = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
    CHECK_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
    return 10 * major + minor;
}

extern "C" int cuda_open(struct device **device, const struct device_options *options) {
    int index = options->index;
    TRY(library_load(cuda_driver_library()));
    TRY(library_load(cublaslt_library()));
    TRY(cuda_check(index));
    cudaError_t status = cudaSetDevice(index);
    if (status != cudaSuccess)
        return cannot_open(index, status);
    TRY(cuda_check_build(index));
    struct cuda_machine *machine = (struct cuda_machine *)memory_alloc(sizeof *machine);
    struct cuda_device *cuda = &machine->cuda;
    cuda->base.ops = &cuda_ops;
    cuda->index = index;
    cuda->allows_tf32 = options->allows_tf32;
    cuda->is_deterministic = options->is_deterministic;
    cuda->capability = capability_of(index);
    cuda->has_float8 = cuda->capability >= FIRST_WITH_FLOAT8;
    for (int i = 0; i < STREAM_COUNT; i++)
        CHECK_CUDA(cudaStreamCreateWithFlags(&cuda->streams[i], cudaStreamNonBlocking));
    CHECK_CUBLAS(cublasLtCreate(&cuda->blas));
    cuda->plans = matmul_plans_create();
    cuda->memory = matmul_memory_open(index, options->algorithm_cache, options->allows_tf32);
    cuda->blas_workspace = cuda_alloc(&cuda->base, BLAS_WORKSPACE_BYTES);
    cuda->scratch = cuda->blas_workspace ? (float *)cuda_alloc(&cuda->base, SCRATCH_BYTES) : NULL;
    if (!cuda->scratch) {
        cuda_close(&cuda->base);
        return -1;
    }
    struct cudnn_options cudnn = {};
    cudnn.gpu = index;
    cudnn.stream = cuda->streams[STREAM_COMPUTE];
    cudnn.workspace = cuda->blas_workspace;
    cudnn.workspace_bytes = (size_t)BLAS_WORKSPACE_BYTES;
    cudnn.draws_dropout = options->has_fast_dropout && !options->is_deterministic;
    cuda->cudnn = cudnn_attention_open(&cudnn);
    cuda->draws_fast = cudnn.draws_dropout && cudnn_attention_takes_masks(cuda->cudnn);
    if (cudnn.draws_dropout && !cuda->draws_fast)
        log_warn("--fast-attention-dropout does nothing here: it needs cuDNN 9.14 and a Hopper GPU");
    *device = &cuda->base;
    return 0;
}

extern "C" bool cuda_cudnn_takes_masks(const struct device *device) {
    return cudnn_attention_takes_masks(((const struct cuda_device *)device)->cudnn);
}

extern "C" int64_t cuda_cudnn_passes(const struct device *device) {
    return cudnn_attention_passes(((const struct cuda_device *)device)->cudnn);
}

extern "C" int64_t cuda_cudnn_parts(const struct device *device) {
    return cudnn_attention_parts(((const struct cuda_device *)device)->cudnn);
}

extern "C" void cuda_cudnn_cut(struct device *device, int64_t elements) {
    cudnn_attention_cut(((struct cuda_device *)device)->cudnn, elements);
}
