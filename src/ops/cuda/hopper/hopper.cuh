// Instructions of compute capability 9.0 only: barriers in shared memory that copies complete, copies of boxes of
// tensors, and matmuls of four warps with operands in shared memory.
//
// An operand is a row of boxes of 64 columns of 16 bits, or 128 of fp8, as the copies write them: lines of 128 bytes
// whose 16-byte chunks are permuted (the "128-byte swizzle"), eight lines a pattern. "Straight" ones have the inner
// dimension of the matmul along the line, "crossed" ones across lines.
#ifndef OPS_CUDA_HOPPER_HOPPER_CUH
#define OPS_CUDA_HOPPER_HOPPER_CUH

#include "ops/cuda/cuda.cuh"
#include "ops/cuda/elements.cuh"

#include <cuda.h>

static __device__ __forceinline__ uint32_t shared_address(const void *shared) {
    return (uint32_t)__cvta_generic_to_shared(shared);
}

// ---- Barriers ----

static __device__ __forceinline__ void barrier_init(uint64_t *barrier, int arrivals) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(barrier)), "r"(arrivals) : "memory");
}

// Call after all barriers were initialised, so that copies see them.
static __device__ __forceinline__ void barriers_ready(void) {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

static __device__ __forceinline__ void barrier_arrive(uint64_t *barrier) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(barrier)) : "memory");
}

// Arrives, and lets the phase end only after this many bytes were copied.
static __device__ __forceinline__ void barrier_expect(uint64_t *barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)), "r"(bytes)
                 : "memory");
}

// Waits for the end of the phase of this parity.
static __device__ __forceinline__ void barrier_wait(uint64_t *barrier, uint32_t parity) {
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n"
                 "@done bra over;\n"
                 "bra again;\n"
                 "over:\n"
                 "}" ::"r"(shared_address(barrier)),
                 "r"(parity)
                 : "memory");
}

// Synchronizes THREADS threads at one of the block's 16 hardware barriers; number 0 is that of __syncthreads.
template <int NUMBER, int THREADS> static __device__ __forceinline__ void meet(void) {
    asm volatile("bar.sync %0, %1;" ::"n"(NUMBER), "n"(THREADS) : "memory");
}

// Makes this thread's writes to shared memory visible to copies and matmuls; a barrier must follow.
static __device__ __forceinline__ void fence_async(void) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// ---- Copies ----

static __device__ __forceinline__ void prefetch_map(const CUtensorMap *map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// Copies the box at (column, row, matrix); elements beyond the tensor are 0.
static __device__ __forceinline__ void copy_box(void *shared, const CUtensorMap *map, uint64_t *barrier, int64_t column,
                                                int64_t row, int64_t matrix) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], "
        "[%2];" ::"r"(shared_address(shared)),
        "l"(map), "r"(shared_address(barrier)), "r"((int)column), "r"((int)row), "r"((int)matrix)
        : "memory");
}

// Stores a box; elements beyond the tensor are not stored. The writers must call fence_async first.
static __device__ __forceinline__ void store_box(const CUtensorMap *map, const void *shared, int column, int row,
                                                 int matrix) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
                 "r"(shared_address(shared)), "r"(column), "r"(row), "r"(matrix)
                 : "memory");
}

// Adds a box to the elements in memory.
static __device__ __forceinline__ void add_box(const CUtensorMap *map, const void *shared, int column, int row,
                                               int matrix) {
    asm volatile(
        "cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.bulk_group [%0, {%2, %3, %4}], [%1];" ::"l"(map),
        "r"(shared_address(shared)), "r"(column), "r"(row), "r"(matrix)
        : "memory");
}

static __device__ __forceinline__ void stores_commit(void) {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until all but the last UNDER_WAY committed store groups of this thread have been read, so that their shared
// memory may be overwritten.
template <int UNDER_WAY = 0> static __device__ __forceinline__ void stores_wait(void) {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(UNDER_WAY) : "memory");
}

// Stores four 8 x 8 matrices transposed, each in one register of all lanes as matmuls produce it: lane 8 m + c gives
// the address of column c of matrix m, 16 bytes.
static __device__ __forceinline__ void store_transposed(void *shared, const uint32_t matrices[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(shared)),
                 "r"(matrices[0]), "r"(matrices[1]), "r"(matrices[2]), "r"(matrices[3])
                 : "memory");
}

// ---- Matmuls ----

enum { BOX_COLUMNS = 64, LINE_BYTES = 128, PATTERN_BYTES = 8 * LINE_BYTES };

// The descriptor of an operand. `box_bytes` is the distance between neighbouring boxes of 64 columns of a crossed one.
static __device__ __forceinline__ uint64_t describe_operand(const void *shared, int box_bytes) {
    uint64_t address = shared_address(shared) & 0x3FFFF;
    return address >> 4 | (uint64_t)(box_bytes >> 4) << 16 | (uint64_t)(PATTERN_BYTES >> 4) << 32 | 1ULL << 62;
}

// Advances by 16 steps of the inner dimension: 32 bytes along a line, or 16 lines.
template <bool IS_CROSSED> static __device__ __forceinline__ uint64_t next_steps(uint64_t operand) {
    return operand + (IS_CROSSED ? 16 * LINE_BYTES >> 4 : 32 >> 4);
}

// Call before the first matmul, and whenever registers of sums were accessed.
static __device__ __forceinline__ void matmul_fence(void) {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

static __device__ __forceinline__ void matmul_commit(void) {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most UNDER_WAY committed groups are in flight.
template <int UNDER_WAY> static __device__ __forceinline__ void matmul_wait(void) {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(UNDER_WAY) : "memory");
}

#define SUMS4(i) "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3])
#define SUMS32(i)                                                                                                      \
    SUMS4(i), SUMS4((i) + 4), SUMS4((i) + 8), SUMS4((i) + 12), SUMS4((i) + 16), SUMS4((i) + 20), SUMS4((i) + 24),      \
        SUMS4((i) + 28)
#define SUMS_64 SUMS32(0)
#define SUMS_128 SUMS_64, SUMS32(32)
#define SUMS_192 SUMS_128, SUMS32(64)
#define SUMS_256 SUMS_192, SUMS32(96)
#define PLACES_64                                                                                                      \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "                                           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define PLACES_128                                                                                                     \
    PLACES_64 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                     \
              "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define PLACES_192                                                                                                     \
    PLACES_128 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "                    \
               "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define PLACES_256                                                                                                     \
    PLACES_192 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "        \
               "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
// `keeps_` etc. are the numbers of the asm operands after the sums.
#define WIDE_MATMUL(width, type, a_, b_, keeps_, a_crossed, b_crossed)                                                 \
    asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " keeps_ ", 0;\n"                                             \
                 "wgmma.mma_async.sync.aligned.m64n" #width "k16.f32." type "." type " {" PLACES_##width               \
                 "}, " a_ ", " b_ ", keep, 1, 1, " a_crossed ", " b_crossed ";\n}"                                     \
                 : SUMS_##width                                                                                        \
                 : "l"(a), "l"(b), "r"((int)keeps), "n"((int)A_CROSSED), "n"((int)B_CROSSED))
#define WIDE_MATMULS(type)                                                                                             \
    if constexpr (WIDTH == 256)                                                                                        \
        WIDE_MATMUL(256, type, "%128", "%129", "%130", "%131", "%132");                                                \
    else if constexpr (WIDTH == 192)                                                                                   \
        WIDE_MATMUL(192, type, "%96", "%97", "%98", "%99", "%100");                                                    \
    else if constexpr (WIDTH == 128)                                                                                   \
        WIDE_MATMUL(128, type, "%64", "%65", "%66", "%67", "%68");                                                     \
    else                                                                                                               \
        WIDE_MATMUL(64, type, "%32", "%33", "%34", "%35", "%36")

// d = (keeps ? d : 0) + a times b, 64 rows by WIDTH columns of sums over 16 steps. In thread t of the four warps, d[4
// j] and d[4 j + 1] are at row t / 32 * 16 + t % 32 / 4 and columns 8 j + t % 4 * 2 and the next; d[4 j + 2] and d[4 j
// + 3] are eight rows below.
template <int WIDTH, bool A_CROSSED, bool B_CROSSED>
static __device__ __forceinline__ void matmul_wide(float (&d)[128], uint64_t a, uint64_t b, bool keeps, __nv_bfloat16) {
    WIDE_MATMULS("bf16");
}

template <int WIDTH, bool A_CROSSED, bool B_CROSSED>
static __device__ __forceinline__ void matmul_wide(float (&d)[128], uint64_t a, uint64_t b, bool keeps, __half) {
    WIDE_MATMULS("f16");
}

// fp8 operands, both straight: 32 steps, which are 32 bytes of a line too. a is E4M3 or E5M2, b E4M3.
#define FLOAT8_MATMUL(width, type, a_, b_, keeps_)                                                                     \
    asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " keeps_ ", 0;\n"                                             \
                 "wgmma.mma_async.sync.aligned.m64n" #width "k32.f32." type ".e4m3 {" PLACES_##width                   \
                 "}, " a_ ", " b_ ", keep, 1, 1;\n}"                                                                   \
                 : SUMS_##width                                                                                        \
                 : "l"(a), "l"(b), "r"((int)keeps))
template <bool A_IS_E5M2>
static __device__ __forceinline__ void matmul_float8(float (&d)[128], uint64_t a, uint64_t b, bool keeps) {
    if constexpr (A_IS_E5M2)
        FLOAT8_MATMUL(256, "e5m2", "%128", "%129", "%130");
    else
        FLOAT8_MATMUL(256, "e4m3", "%128", "%129", "%130");
}

template <bool A_IS_E5M2>
static __device__ __forceinline__ void matmul_float8(float (&d)[64], uint64_t a, uint64_t b, bool keeps) {
    if constexpr (A_IS_E5M2)
        FLOAT8_MATMUL(128, "e5m2", "%64", "%65", "%66");
    else
        FLOAT8_MATMUL(128, "e4m3", "%64", "%65", "%66");
}
#undef FLOAT8_MATMUL
#undef WIDE_MATMULS
#undef WIDE_MATMUL
#undef PLACES_256
#undef PLACES_192
#undef PLACES_128
#undef PLACES_64
#undef SUMS_256
#undef SUMS_192
#undef SUMS_128
#undef SUMS_64
#undef SUMS32
#undef SUMS4

// ---- Registers ----

// Warps that only copy give registers to those that compute. All four warps of a group call one of these.
template <int COUNT> static __device__ __forceinline__ void give_registers(void) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT));
}

template <int COUNT> static __device__ __forceinline__ void take_registers(void) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT));
}

// Code common to matmuls on GPUs of compute capability 9.0. Blocks are persistent: each takes one tile of 128 x 256
// sums after the other. One warp copies boxes of the operands to shared memory, STAGES ahead of two groups of four
// warps that have 64 rows of sums each.

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
