// Instructions of compute capability 9.0 only: barriers in shared memory that copies complete, copies of boxes of
// tensors, and matmuls of four warps with operands in shared memory.
//
// An operand is a row of boxes of 64 columns of 16 bits, or 128 of fp8, as the copies write them: lines of 128 bytes
// whose 16-byte chunks are permuted (the "128-byte swizzle"), eight lines a pattern. "Straight" ones have the inner
// dimension of the matmul along the line, "crossed" ones across lines.
#ifndef OPS_CUDA_HOPPER_HOPPER_CUH
#define OPS_CUDA_HOPPER_HOPPER_CUH

#include "ops/cuda/cuda.cuh"

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

#endif
