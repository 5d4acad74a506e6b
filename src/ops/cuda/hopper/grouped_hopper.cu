// Matmuls over ragged groups of rows on GPUs of compute capability 9.0. A block stays on its multiprocessor and takes
// one tile of 128 x 256 sums after the other. One warp copies boxes of the operands to shared memory, STAGES ahead of
// two groups of four warps that have 64 rows of sums each.
//
// A tile begins at a row of its expert. Its last box may reach into the next expert's rows: rows of the result beyond
// the expert's end are not stored. In gradients of weights the rows are the inner dimension: there the lines that
// belong to the next expert are set to 0 in shared memory.
//
// Tiles of an expert are taken in bands of BAND tiles of rows, column by column, so that those under way at the same
// time share operands in the second level of cache.
#include "ops/cuda/elements.cuh"
#include "ops/cuda/grouped.cuh"
#include "ops/cuda/hopper/hopper.cuh"

enum {
    HOPPER_THREADS = 384,
    COMPUTE_THREADS = 256,
    ROWS = 128,
    COLUMNS = 256,
    STEP = 64,
    STAGES = 4,
    BAND = 16,
    BOX_BYTES = BOX_COLUMNS * LINE_BYTES,  // 64 lines
    A_BYTES = ROWS * STEP * 2,
    STAGE_BYTES = A_BYTES + COLUMNS * STEP * 2,
    STAGE_BOXES = STAGE_BYTES / BOX_BYTES,
    PART = 64,  // columns of a result that a warp brings into order at once
    PART_FLOATS = 32,
    LINE = PART + 8,  // without conflicts of banks
    FLOAT_LINE = PART_FLOATS + 8,
    PART_BYTES = 16 * FLOAT_LINE * 4,
    HOPPER_BYTES = STAGES * STAGE_BYTES + COMPUTE_THREADS / 32 * PART_BYTES,
    ALIGNMENT = 1024,  // of patterns in shared memory
};

struct stages {
    uint8_t *memory;                       // STAGES * STAGE_BYTES
    uint64_t full[STAGES], empty[STAGES];  // barriers: a copy has come; both groups are done with it
};

// One tile of the result, and the inner dimension it sums over.
struct hopper_tile {
    int expert;
    int64_t row, rows_end;  // of the result; rows from rows_end on are not this tile's
    int64_t column;
    int64_t first, inner;  // where the inner dimension begins, and its length
};

// Which tile of a matrix of `down` x `across` tiles comes at place `at`.
static __device__ __forceinline__ void band_place(int64_t at, int64_t down, int64_t across, int64_t *row,
                                                  int64_t *column) {
    int64_t band = at / (BAND * across), within = at - band * BAND * across;
    int64_t rows = min((int64_t)BAND, down - band * BAND);
    *column = within / rows;
    *row = band * BAND + within - *column * rows;
}

template <enum grouped_kind KIND> struct hopper_tiles {
    const struct grouped_args &args;
    const int *before;
    int64_t across, down, count;

    __device__ __forceinline__ hopper_tiles(const struct grouped_args &a, const int *tiles_before)
        : args(a), before(tiles_before) {
        int64_t columns = KIND == GROUPED_FORWARD ? a.outputs : a.inputs;
        across = (columns + COLUMNS - 1) / COLUMNS;
        down = (a.outputs + ROWS - 1) / ROWS;
        count = (KIND == GROUPED_WEIGHT ? a.experts * down : before[a.experts]) * across;
    }

    __device__ __forceinline__ struct hopper_tile at(int64_t number) const {
        struct hopper_tile tile;
        int64_t row, column;
        if (KIND == GROUPED_WEIGHT) {
            tile.expert = (int)(number / (down * across));
            band_place(number - tile.expert * down * across, down, across, &row, &column);
            tile.row = row * ROWS;
            tile.rows_end = args.outputs;
            tile.first = args.offsets[tile.expert];
            tile.inner = args.offsets[tile.expert + 1] - tile.first;
        } else {
            tile.expert = expert_at(before, args.experts, number / across);
            int64_t start = before[tile.expert], tiles = before[tile.expert + 1] - start;
            band_place(number - start * across, tiles, across, &row, &column);
            tile.row = args.offsets[tile.expert] + row * ROWS;
            tile.rows_end = args.offsets[tile.expert + 1];
            tile.first = 0;
            tile.inner = KIND == GROUPED_FORWARD ? args.inputs : args.outputs;
        }
        tile.column = column * COLUMNS;
        return tile;
    }
};

// Which stage comes next, and the parity of its barriers' phase.
struct stage_turn {
    int stage;
    uint32_t parity;

    __device__ __forceinline__ void next() {
        stage = stage + 1 == STAGES ? 0 : stage + 1;
        parity ^= stage == 0;
    }
};

// One thread: copies the operands of all tiles of this block.
template <enum grouped_kind KIND>
static __device__ __forceinline__ void copy_operands(struct stages &stages, const hopper_tiles<KIND> &tiles,
                                                     const CUtensorMap *a_map, const CUtensorMap *b_map) {
    struct stage_turn turn = {0, 1};
    prefetch_map(a_map);
    prefetch_map(b_map);
    for (int64_t number = blockIdx.x; number < tiles.count; number += gridDim.x) {
        struct hopper_tile tile = tiles.at(number);
        for (int64_t step = 0; step < tile.inner; step += STEP, turn.next()) {
            uint64_t *full = &stages.full[turn.stage];
            uint8_t *a = stages.memory + turn.stage * STAGE_BYTES, *b = a + A_BYTES;
            barrier_wait(&stages.empty[turn.stage], turn.parity);
            barrier_expect(full, STAGE_BYTES);
            if (KIND != GROUPED_WEIGHT)
                copy_box(a, a_map, full, step, tile.row, 0);
            if (KIND == GROUPED_FORWARD)
                copy_box(b, b_map, full, step, tile.column, tile.expert);
#pragma unroll
            for (int i = 0; i < COLUMNS / BOX_COLUMNS; i++) {
                int64_t aside = i * BOX_COLUMNS;
                if (KIND == GROUPED_INPUT)
                    copy_box(b + i * BOX_BYTES, b_map, full, tile.column + aside, step, tile.expert);
                if (KIND == GROUPED_WEIGHT && aside < ROWS)
                    copy_box(a + i * BOX_BYTES, a_map, full, tile.row + aside, tile.first + step, 0);
                if (KIND == GROUPED_WEIGHT)
                    copy_box(b + i * BOX_BYTES, b_map, full, tile.column + aside, tile.first + step, 0);
            }
        }
    }
}

// A group of warps is done with a stage.
static __device__ __forceinline__ void release_stage(uint64_t *empty) {
    if (threadIdx.x % 128 == 0)
        barrier_arrive(empty);
}

// Sets lines from `line` on of all boxes of a stage to 0; both groups together.
static __device__ __forceinline__ void clear_lines(uint8_t *stage, int line) {
    int chunks = (BOX_COLUMNS - line) * (LINE_BYTES / 16);
    for (int i = threadIdx.x - (HOPPER_THREADS - COMPUTE_THREADS); i < chunks * STAGE_BOXES; i += COMPUTE_THREADS)
        *(uint4 *)(stage + i / chunks * BOX_BYTES + line * LINE_BYTES + i % chunks * 16) = make_uint4(0, 0, 0, 0);
    fence_async();
    meet<1, COMPUTE_THREADS>();
}

template <typename T, enum grouped_kind KIND>
static __device__ __forceinline__ void multiply_tile(float (&sums)[128], struct stages &stages, struct stage_turn &turn,
                                                     int64_t inner, int group) {
    constexpr bool A_CROSSED = KIND == GROUPED_WEIGHT, B_CROSSED = KIND != GROUPED_FORWARD;
    int last = 0;
    for (int64_t step = 0; step < inner; step += STEP, turn.next()) {
        uint8_t *stage = stages.memory + turn.stage * STAGE_BYTES;
        barrier_wait(&stages.full[turn.stage], turn.parity);
        if (KIND == GROUPED_WEIGHT && inner - step < STEP)
            clear_lines(stage, (int)(inner - step));
        uint64_t a = describe_operand(stage + group * BOX_BYTES, BOX_BYTES);
        uint64_t b = describe_operand(stage + A_BYTES, BOX_BYTES);
        matmul_fence();
#pragma unroll
        for (int i = 0; i < STEP / 16; i++) {
            matmul_wide<A_CROSSED, B_CROSSED>(sums, a, b, step > 0 || i > 0, T());
            a = next_steps<A_CROSSED>(a);
            b = next_steps<B_CROSSED>(b);
        }
        matmul_commit();
        matmul_wait<1>();
        if (step > 0)
            release_stage(&stages.empty[last]);
        last = turn.stage;
    }
    matmul_wait<0>();
    if (inner > 0)
        release_stage(&stages.empty[last]);
}

// Through shared memory, so that whole lines are written. `part` is the warp's own.
template <typename T>
static __device__ __forceinline__ void store_halves(T *d, const float (&sums)[128], T *part,
                                                    const struct hopper_tile &tile, int64_t columns) {
    int lane = threadIdx.x % 32;
    int64_t row = tile.row + threadIdx.x / 32 % 4 * 16;
#pragma unroll
    for (int first = 0; first < COLUMNS; first += PART) {
        T *to = part + lane / 4 * LINE + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < PART / 8; j++) {
            const float *four = sums + 4 * (first / 8 + j);
            *(uint32_t *)(to + 8 * j) = pack2(four[0], four[1], T());
            *(uint32_t *)(to + 8 * LINE + 8 * j) = pack2(four[2], four[3], T());
        }
        __syncwarp();
        int64_t column = tile.column + first + lane % 8 * 8;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int64_t down = i * 4 + lane / 8;
            if (row + down < tile.rows_end && column < columns)
                store_words(d + (row + down) * columns + column, *(const uint4 *)(part + down * LINE + lane % 8 * 8));
        }
        __syncwarp();
    }
}

// Where a lane reads and writes rows of an fp32 result, PART_FLOATS columns at a time.
struct float_place {
    float *to;        // of this lane's first row
    int64_t inputs;   // between rows
    int64_t rows;     // of the four, how many are there: those at 0, 4, 8 and 12 below
    int64_t columns;  // that are there from `to` on
};

static __device__ __forceinline__ struct float_place place_floats(float *d, const struct hopper_tile &tile,
                                                                  const struct grouped_args &args) {
    int lane = threadIdx.x % 32;
    int64_t row = tile.row + threadIdx.x / 32 % 4 * 16 + lane / 8, column = tile.column + lane % 8 * 4;
    struct float_place place;
    place.to = d + (tile.expert * args.outputs + row) * args.inputs + column;
    place.inputs = args.inputs;
    place.rows = (tile.rows_end - row + 3) / 4;
    place.columns = args.inputs - column;
    return place;
}

// What is added to later comes to the second level of cache while the sums are computed.
static __device__ __forceinline__ void prefetch_floats(const struct float_place &place) {
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int64_t aside = threadIdx.x % 8 * 28;  // eight lanes of a row: its lines of 32 columns
        if (i < place.rows && aside < place.columns)
            asm volatile("prefetch.global.L2 [%0];" ::"l"(place.to + 4 * i * place.inputs + aside));
    }
}

static __device__ __forceinline__ void store_floats(const struct float_place &place, const float (&sums)[128],
                                                    float *part, bool adds) {
    int lane = threadIdx.x % 32;
#pragma unroll
    for (int first = 0; first < COLUMNS; first += PART_FLOATS) {
        float x[4][4], old[4][4] = {};
#pragma unroll
        for (int i = 0; i < 4; i++)
            if (adds && i < place.rows && first < place.columns)
                load4_aligned(old[i], place.to + 4 * i * place.inputs + first);
        float *to = part + lane / 4 * FLOAT_LINE + lane % 4 * 2;
#pragma unroll
        for (int j = 0; j < PART_FLOATS / 8; j++) {
            const float *four = sums + 4 * (first / 8 + j);
            *(float2 *)(to + 8 * j) = make_float2(four[0], four[1]);
            *(float2 *)(to + 8 * FLOAT_LINE + 8 * j) = make_float2(four[2], four[3]);
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            load4_aligned(x[i], part + (4 * i + lane / 8) * FLOAT_LINE + lane % 8 * 4);
#pragma unroll
            for (int j = 0; j < 4; j++)
                x[i][j] += old[i][j];
            if (i < place.rows && first < place.columns)
                store4_aligned(place.to + 4 * i * place.inputs + first, x[i]);
        }
        __syncwarp();
    }
}

template <typename T, enum grouped_kind KIND>
static __device__ __forceinline__ void compute_tiles(const struct grouped_args &args, struct stages &stages,
                                                     const hopper_tiles<KIND> &tiles) {
    struct stage_turn turn = {0, 0};
    int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 - 4;
    uint8_t *part = stages.memory + STAGES * STAGE_BYTES + warp * PART_BYTES;
    float sums[128];
    for (int64_t number = blockIdx.x; number < tiles.count; number += gridDim.x) {
        struct hopper_tile tile = tiles.at(number);
        tile.row += group * 64;
        if (KIND != GROUPED_WEIGHT) {
            multiply_tile<T, KIND>(sums, stages, turn, tile.inner, group);
            store_halves((T *)args.d, sums, (T *)part, tile, KIND == GROUPED_FORWARD ? args.outputs : args.inputs);
        } else if (tile.inner > 0 || !args.adds) {
            if (args.adds)
                prefetch_floats(place_floats((float *)args.d, tile, args));
            if (tile.inner == 0) {
#pragma unroll
                for (int i = 0; i < 128; i++)
                    sums[i] = 0;
            }
            multiply_tile<T, KIND>(sums, stages, turn, tile.inner, group);
            store_floats(place_floats((float *)args.d, tile, args), sums, (float *)part, args.adds);
        }
    }
}

template <typename T, enum grouped_kind KIND>
static __global__ void __launch_bounds__(HOPPER_THREADS, 1)
    grouped_hopper_kernel(struct grouped_args args, const __grid_constant__ CUtensorMap a_map,
                          const __grid_constant__ CUtensorMap b_map) {
    extern __shared__ uint8_t memory[];
    __shared__ int before[KIND == GROUPED_WEIGHT ? 1 : ROUTER_MOST_EXPERTS + 1];
    __shared__ struct stages stages;
    if (threadIdx.x == 0) {
        stages.memory = (uint8_t *)(((uintptr_t)memory + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
        for (int i = 0; i < STAGES; i++) {
            barrier_init(&stages.full[i], 1);
            barrier_init(&stages.empty[i], 2);
        }
        barriers_ready();
    }
    if (KIND != GROUPED_WEIGHT)
        count_tiles<HOPPER_THREADS>(before, args, ROWS);
    __syncthreads();
    hopper_tiles<KIND> tiles(args, before);
    if (threadIdx.x < HOPPER_THREADS - COMPUTE_THREADS) {
        give_registers<56>();
        if (threadIdx.x == 0)
            copy_operands<KIND>(stages, tiles, &a_map, &b_map);
    } else {
        take_registers<224>();
        compute_tiles<T, KIND>(args, stages, tiles);
    }
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

// Boxes of 64 columns and `lines` rows of a tensor of 16-bit elements, (rows, columns) or (matrices, rows, columns).
static CUtensorMap map_tensor(struct tensor t, int lines) {
    CUtensorMap map;
    int last = t.rank - 1;
    cuuint64_t columns = (cuuint64_t)t.shape[last], rows = (cuuint64_t)t.shape[last - 1];
    cuuint64_t sizes[3] = {columns, rows, last == 2 ? (cuuint64_t)t.shape[0] : 1};
    cuuint64_t strides[2] = {columns * 2, columns * 2 * rows};
    cuuint32_t box[3] = {BOX_COLUMNS, (cuuint32_t)lines, 1}, steps[3] = {1, 1, 1};
    CUresult status =
        map_encoder()(&map, t.dtype == DTYPE_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
                      3, t.data, sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
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

typedef void (*hopper_kernel)(struct grouped_args args, const CUtensorMap a_map, const CUtensorMap b_map);

template <typename T> static hopper_kernel kernel_of(enum grouped_kind kind) {
    if (kind == GROUPED_WEIGHT)
        return grouped_hopper_kernel<T, GROUPED_WEIGHT>;
    return kind == GROUPED_INPUT ? grouped_hopper_kernel<T, GROUPED_INPUT> : grouped_hopper_kernel<T, GROUPED_FORWARD>;
}

bool grouped_run_hopper(struct cuda_device *cuda, const struct op_grouped_matmul *op, struct grouped_args args) {
    int64_t columns = op->d.shape[op->d.rank - 1], across = divide_up(columns, COLUMNS);
    // Tiles that are mostly empty cost more than the faster instructions save. A map cannot be of nothing.
    if (!is_hopper(cuda->index) || op->a.shape[0] == 0 || across * COLUMNS > columns + columns / 2 || !map_encoder())
        return false;
    bool is_weight = op->kind == GROUPED_WEIGHT;
    CUtensorMap a_map = map_tensor(op->a, is_weight ? (int)STEP : (int)ROWS);
    CUtensorMap b_map = map_tensor(op->b, op->kind == GROUPED_FORWARD ? (int)COLUMNS : (int)STEP);
    int64_t down = is_weight ? args.experts * divide_up(args.outputs, ROWS) : op->a.shape[0] / ROWS + args.experts;
    int processors = 0, bytes = HOPPER_BYTES + ALIGNMENT;
    CHECK_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, cuda->index));
    hopper_kernel kernel = op->a.dtype == DTYPE_F16 ? kernel_of<__half>(op->kind) : kernel_of<__nv_bfloat16>(op->kind);
    CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    LAUNCH(cuda, kernel, grid_x(min(down * across, (int64_t)processors)), HOPPER_THREADS, (size_t)bytes, args, a_map,
           b_map);
    return true;
}
