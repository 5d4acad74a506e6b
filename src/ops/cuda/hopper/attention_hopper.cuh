// Code common to the attention kernels for GPUs of compute capability 9.0. They support heads of 64 and 128, all masks,
// sinks, and dropout with our own masks. See attention_tensor.cuh for the layout of scores and hopper.cuh for the
// instructions.
//
// A block has 128 rows of one side (queries or keys): two groups of four warps have 64 each, and a third group copies
// tiles of the other side and draws dropout, stages ahead of them. Scores stay in registers: rounded, they are the
// first operand of the next matmul.
#ifndef OPS_CUDA_HOPPER_ATTENTION_HOPPER_CUH
#define OPS_CUDA_HOPPER_ATTENTION_HOPPER_CUH

#include "ops/cuda/attention_tensor.cuh"
#include "ops/cuda/hopper/hopper.cuh"

enum {
    BLOCK_ROWS = 128,
    GROUP_ROWS = 64,
    ATTENTION_WARPS = 8,
};

// ---- Matmuls of one group ----

#define SUMS8(i)                                                                                                       \
    "+f"(d[i]), "+f"(d[(i) + 1]), "+f"(d[(i) + 2]), "+f"(d[(i) + 3]), "+f"(d[(i) + 4]), "+f"(d[(i) + 5]),              \
        "+f"(d[(i) + 6]), "+f"(d[(i) + 7])
#define SUMS16(i) SUMS8(i), SUMS8((i) + 8)
#define SUMS32(i) SUMS16(i), SUMS16((i) + 16)
#define PLACES16 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define PLACES32 PLACES16 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define PLACES64                                                                                                       \
    PLACES32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "                      \
             "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// d = (keeps ? d : 0) + a times b, both straight: 64 rows by n rows over 16 columns.
#define SCORE_MATMUL(n, places, type, a_place, b_place, keeps_place, ...)                                              \
    asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, " keeps_place ", 0;\n"                                        \
                 "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " " places "}, " a_place ", " b_place  \
                 ", keep, 1, 1, 0, 0;\n}"                                                                              \
                 : __VA_ARGS__                                                                                         \
                 : "l"(a), "l"(b), "r"((int)keeps))

// d += a, 64 rows of weights over 16 steps in registers, times b, crossed.
#define VALUE_MATMUL(n, places, type, a_places, b_place, ...)                                                          \
    asm volatile("{\n.reg .pred keep;\nsetp.ne.b32 keep, 1, 0;\n"                                                      \
                 "wgmma.mma_async.sync.aligned.m64n" n "k16.f32." type "." type " " places "}, " a_places ", " b_place \
                 ", keep, 1, 1, 1;\n}"                                                                                 \
                 : __VA_ARGS__                                                                                         \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b))

#define MATMULS(T, type)                                                                                               \
    static __device__ __forceinline__ void matmul_scores(float(&d)[16], uint64_t a, uint64_t b, bool keeps, T) {       \
        SCORE_MATMUL("32", PLACES16, type, "%16", "%17", "%18", SUMS16(0));                                            \
    }                                                                                                                  \
    static __device__ __forceinline__ void matmul_scores(float(&d)[32], uint64_t a, uint64_t b, bool keeps, T) {       \
        SCORE_MATMUL("64", PLACES32, type, "%32", "%33", "%34", SUMS32(0));                                            \
    }                                                                                                                  \
    static __device__ __forceinline__ void matmul_scores(float(&d)[64], uint64_t a, uint64_t b, bool keeps, T) {       \
        SCORE_MATMUL("128", PLACES64, type, "%64", "%65", "%66", SUMS32(0), SUMS32(32));                               \
    }                                                                                                                  \
    static __device__ __forceinline__ void matmul_values(float(&d)[32], const uint32_t *a, uint64_t b, T) {            \
        VALUE_MATMUL("64", PLACES32, type, "{%32, %33, %34, %35}", "%36", SUMS32(0));                                  \
    }                                                                                                                  \
    static __device__ __forceinline__ void matmul_values(float(&d)[64], const uint32_t *a, uint64_t b, T) {            \
        VALUE_MATMUL("128", PLACES64, type, "{%64, %65, %66, %67}", "%68", SUMS32(0), SUMS32(32));                     \
    }
MATMULS(__nv_bfloat16, "bf16")
MATMULS(__half, "f16")
#undef MATMULS
#undef VALUE_MATMUL
#undef SCORE_MATMUL
#undef PLACES64
#undef PLACES32
#undef PLACES16
#undef SUMS32
#undef SUMS16
#undef SUMS8

// Scores of the group's 64 rows, which begin at `first` in a tile of BLOCK_ROWS, by a tile of N rows.
template <typename T, int D, int N>
static __device__ __forceinline__ void start_scores(float (&score)[N / 2], const uint8_t *first,
                                                    const uint8_t *second) {
    matmul_fence();
#pragma unroll
    for (int column = 0; column < D; column += 16) {
        int box = column / BOX_COLUMNS, within = column % BOX_COLUMNS * 2;
        uint64_t a = describe_operand(first + box * BLOCK_ROWS * LINE_BYTES + within, 0);
        uint64_t b = describe_operand(second + box * N * LINE_BYTES + within, 0);
        matmul_scores(score, a, b, column > 0, T());
    }
    matmul_commit();
}

// sum += weight, 64 rows by N, times a tile of N rows.
template <typename T, int D, int N>
static __device__ __forceinline__ void start_values(float (&sum)[D / 2], const uint32_t (&weight)[N / 4],
                                                    const uint8_t *rows) {
    matmul_fence();
#pragma unroll
    for (int row = 0; row < N; row += 16)
        matmul_values(sum, weight + row / 4, describe_operand(rows + row * LINE_BYTES, N * LINE_BYTES), T());
    matmul_commit();
}

// ---- Memory ----

// Copies the box at a column and row of a place (head, sample); elements beyond the tensor are 0.
static __device__ __forceinline__ void copy_head_box(void *shared, const CUtensorMap *map, uint64_t *barrier,
                                                     int column, int row, const int place[2]) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
                 "%6}], [%2];" ::"r"(shared_address(shared)),
                 "l"(map), "r"(shared_address(barrier)), "r"(column), "r"(place[0]), "r"(row), "r"(place[1])
                 : "memory");
}

// Boxes of 64 columns and `lines` tokens of a (B, T, heads, D) view of 16-bit elements.
static CUtensorMap map_heads(struct tensor t, int lines) {
    CUtensorMap map;
    cuuint64_t sizes[4] = {(cuuint64_t)t.shape[3], (cuuint64_t)t.shape[2], (cuuint64_t)t.shape[1],
                           (cuuint64_t)t.shape[0]};
    cuuint64_t strides[3] = {2 * (cuuint64_t)t.stride[2], 2 * (cuuint64_t)t.stride[1], 2 * (cuuint64_t)t.stride[0]};
    cuuint32_t box[4] = {BOX_COLUMNS, 1, (cuuint32_t)lines, 1}, steps[4] = {1, 1, 1, 1};
    CUresult status =
        map_encoder()(&map, t.dtype == DTYPE_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                      4, t.data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    CHECK(status == CUDA_SUCCESS);
    return map;
}

// ---- Scores of queries by keys ----

// Sets the scores of keys that a thread's two rows do not see to -infinity.
template <int KEYS>
static __device__ __forceinline__ void hide_scores(float (&score)[KEYS / 2], const struct key_range rows[2],
                                                   int first_key) {
    int column = first_key + 2 * (threadIdx.x & 3);
#pragma unroll
    for (int n = 0; n < KEYS / 2; n++) {
        struct key_range range = rows[n / 2 & 1];
        int key = column + n / 4 * 8 + (n & 1);
        score[n] = key >= range.first && key < range.end ? score[n] : -INFINITY;
    }
}

#endif
