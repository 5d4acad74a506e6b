// Code common to matmuls on GPUs of compute capability 9.0. Blocks are persistent: each takes one tile of 128 x 256
// sums after the other. One warp copies boxes of the operands to shared memory, STAGES ahead of two groups of four
// warps that have 64 rows of sums each.
#ifndef OPS_CUDA_HOPPER_TILES_CUH
#define OPS_CUDA_HOPPER_TILES_CUH

#include "ops/cuda/elements.cuh"
#include "ops/cuda/hopper/hopper.cuh"

enum {
    HOPPER_THREADS = 384,
    COMPUTE_THREADS = 256,
    ROWS = 128,
    COLUMNS = 256,
    STEP = 64,
    BAND = 16,
    BOX_BYTES = BOX_COLUMNS * LINE_BYTES,  // 64 lines
    A_BYTES = ROWS * STEP * 2,
    STAGE_BYTES = A_BYTES + COLUMNS * STEP * 2,
    STAGE_BOXES = STAGE_BYTES / BOX_BYTES,
    PART = 64,         // columns of a result that a warp rearranges at once
    ALIGNMENT = 1024,  // of patterns in shared memory
};

template <int STAGES> struct stages {
    uint8_t *memory;                       // STAGES * STAGE_BYTES, followed by the kernel's own memory
    uint64_t full[STAGES], empty[STAGES];  // barriers: a copy has arrived; both groups are done with it
};

// Run by the first thread of a block; the others must wait for it.
template <int STAGES> static __device__ __forceinline__ void stages_open(stages<STAGES> &stages, uint8_t *memory) {
    if (threadIdx.x > 0)
        return;
    stages.memory = (uint8_t *)(((uintptr_t)memory + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    for (int i = 0; i < STAGES; i++) {
        barrier_init(&stages.full[i], 1);
        barrier_init(&stages.empty[i], 2);
    }
    barriers_ready();
}

// The tile at place `at` in the order of a matrix of `down` x `across` tiles.
template <typename N> static __device__ __forceinline__ void band_place(N at, N down, N across, N *row, N *column) {
    N band = at / (BAND * across), within = at - band * BAND * across;
    N rows = min((N)BAND, down - band * BAND);
    *column = within / rows;
    *row = band * BAND + within - *column * rows;
}

// The next stage, and the parity of its barriers' phase.
template <int STAGES> struct stage_turn {
    int stage;
    uint32_t parity;

    __device__ __forceinline__ void next() {
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        parity ^= stage == 0;
    }
};

// Signals that a group of warps is done with a stage.
static __device__ __forceinline__ void release_stage(uint64_t *empty) {
    if (threadIdx.x % 128 == 0)
        barrier_arrive(empty);
}

// Zeroes lines from `line` on of all boxes of a stage; both groups together.
static __device__ __forceinline__ void clear_lines(uint8_t *stage, int line) {
    int chunks = (BOX_COLUMNS - line) * (LINE_BYTES / 16);
    for (int i = threadIdx.x - (HOPPER_THREADS - COMPUTE_THREADS); i < chunks * STAGE_BOXES; i += COMPUTE_THREADS)
        *(uint4 *)(stage + i / chunks * BOX_BYTES + line * LINE_BYTES + i % chunks * 16) = make_uint4(0, 0, 0, 0);
    fence_async();
    meet<1, COMPUTE_THREADS>();
}

// Variants of a tile's sums. With HAS_TAIL, lines beyond the end of the inner dimension belong to another matrix.
template <typename T_, bool A_CROSSED_, bool B_CROSSED_, bool HAS_TAIL_, int WIDTH_ = COLUMNS> struct tile_kind {
    typedef T_ T;
    static const bool A_CROSSED = A_CROSSED_, B_CROSSED = B_CROSSED_, HAS_TAIL = HAS_TAIL_;
    static const int WIDTH = WIDTH_;  // columns
};

struct nothing_beside {
    __device__ __forceinline__ void operator()() const {}
};

// The sums of a tile over its inner dimension. `beside` is called once, early, while sums are computed.
template <typename KIND, int STAGES, typename BESIDE>
static __device__ __forceinline__ void multiply_tile(float (&sums)[128], stages<STAGES> &stages,
                                                     stage_turn<STAGES> &turn, int64_t inner, int group,
                                                     const BESIDE &beside) {
    int last = 0;
    int64_t beside_step = inner > 4 * STEP ? 3 * STEP : 0;
    for (int64_t step = 0; step < inner; step += STEP, turn.next()) {
        uint8_t *stage = stages.memory + turn.stage * STAGE_BYTES;
        barrier_wait(&stages.full[turn.stage], turn.parity);
        if (KIND::HAS_TAIL && inner - step < STEP)
            clear_lines(stage, (int)(inner - step));
        uint64_t a = describe_operand(stage + group * BOX_BYTES, BOX_BYTES);
        uint64_t b = describe_operand(stage + A_BYTES, BOX_BYTES);
        matmul_fence();
#pragma unroll
        for (int i = 0; i < STEP / 16; i++) {
            matmul_wide<KIND::WIDTH, KIND::A_CROSSED, KIND::B_CROSSED>(sums, a, b, step > 0 || i > 0,
                                                                       typename KIND::T());
            a = next_steps<KIND::A_CROSSED>(a);
            b = next_steps<KIND::B_CROSSED>(b);
        }
        matmul_commit();
        if (step == beside_step)
            beside();
        matmul_wait<1>();
        if (step > 0)
            release_stage(&stages.empty[last]);
        last = turn.stage;
    }
    matmul_wait<0>();
    if (inner > 0)
        release_stage(&stages.empty[last]);
}

// The driver's cuTensorMapEncodeTiled; NULL if it has none.
static decltype(&cuTensorMapEncodeTiled) map_encoder(void) {
    void *function = NULL;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    cudaError_t status =
        cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault, &found);
#else
    cudaError_t status = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
#endif
    if (status != cudaSuccess)
        cudaGetLastError();
    return status == cudaSuccess && found == cudaDriverEntryPointSuccess ? (decltype(&cuTensorMapEncodeTiled))function
                                                                         : NULL;
}

static CUtensorMapDataType map_type(enum dtype dtype) {
    if (dtype_is_float8(dtype))
        return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    if (dtype == DTYPE_F32)
        return CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
    return dtype == DTYPE_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
}

// Boxes of a line's columns and `lines` rows of a tensor of fp8, 16-bit or fp32 elements, (rows, columns) or (matrices,
// rows, columns).
static CUtensorMap map_tensor(struct tensor t, int lines) {
    CUtensorMap map;
    int last = t.rank - 1;
    cuuint64_t bytes = (cuuint64_t)dtype_bytes(t.dtype), columns = (cuuint64_t)t.shape[last];
    cuuint64_t rows = (cuuint64_t)t.shape[last - 1];
    cuuint64_t sizes[3] = {columns, rows, last == 2 ? (cuuint64_t)t.shape[0] : 1};
    cuuint64_t strides[2] = {columns * bytes, columns * bytes * rows};
    cuuint32_t box[3] = {(cuuint32_t)(LINE_BYTES / bytes), (cuuint32_t)lines, 1}, steps[3] = {1, 1, 1};
    CUresult status = map_encoder()(&map, map_type(t.dtype), 3, t.data, sizes, strides, box, steps,
                                    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                    CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    CHECK(status == CUDA_SUCCESS);
    return map;
}

static bool is_hopper(int index) {
    int major = 0, minor = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, index));
    CHECK_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, index));
    return major == 9 && minor == 0;
}

#endif
