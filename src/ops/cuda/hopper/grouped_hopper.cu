// Matmuls over ragged groups of rows on GPUs of compute capability 9.0, see tiles.cuh.
//
// A tile begins at a row of its expert. Its last box may reach into the next expert's rows: rows of the result beyond
// the expert's end are not stored. In weight gradients the rows are the inner dimension: lines of the next expert are
// set to 0 in shared memory.
#include "ops/cuda/hopper/grouped_tiles.cuh"

// One thread: copies the operands of all tiles of this block.
template <enum grouped_kind KIND>
static __device__ __forceinline__ void copy_operands(stages<GROUPED_STAGES> &stages, const hopper_tiles<KIND> &tiles,
                                                     const CUtensorMap *a_map, const CUtensorMap *b_map) {
    stage_turn<GROUPED_STAGES> turn = {0, 1};
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

template <typename T, enum grouped_kind KIND>
static __device__ __forceinline__ void compute_tiles(const struct grouped_args &args, stages<GROUPED_STAGES> &stages,
                                                     const hopper_tiles<KIND> &tiles, const CUtensorMap *d_map) {
    stage_turn<GROUPED_STAGES> turn = {0, 0};
    int group = threadIdx.x / 128 - 1, warp = threadIdx.x / 32 - 4;
    uint8_t *part = stages.memory + GROUPED_STAGES * STAGE_BYTES + warp * store_memory<KIND>::WARP_BYTES;
    float sums[128];
    for (int64_t number = blockIdx.x; number < tiles.count; number += gridDim.x) {
        struct hopper_tile tile = tiles.at(number);
        tile.row += group * 64;
        if (KIND == GROUPED_WEIGHT && tile.inner == 0 && args.adds)
            continue;
        if (KIND == GROUPED_WEIGHT && args.adds)
            prefetch_floats(tile, args);
#pragma unroll
        for (int i = 0; i < 128 && KIND == GROUPED_WEIGHT && tile.inner == 0; i++)
            sums[i] = 0;
        multiply_tile<tile_kind<T, KIND == GROUPED_WEIGHT, KIND != GROUPED_FORWARD, KIND == GROUPED_WEIGHT>>(
            sums, stages, turn, tile.inner, group, nothing_beside());
        if (KIND == GROUPED_WEIGHT)
            store_boxes(d_map, sums, part, tile, args);
        else
            store_halves((T *)args.d, sums, (T *)part, tile, KIND == GROUPED_FORWARD ? args.outputs : args.inputs);
    }
    if (KIND == GROUPED_WEIGHT && threadIdx.x % 32 == 0)
        stores_wait();
}

template <typename T, enum grouped_kind KIND>
static __global__ void __launch_bounds__(HOPPER_THREADS, 1)
    grouped_hopper_kernel(struct grouped_args args, const __grid_constant__ CUtensorMap a_map,
                          const __grid_constant__ CUtensorMap b_map, const __grid_constant__ CUtensorMap d_map) {
    extern __shared__ uint8_t memory[];
    __shared__ int before[KIND == GROUPED_WEIGHT ? 1 : ROUTER_MOST_EXPERTS + 1];
    __shared__ stages<GROUPED_STAGES> stages;
    stages_open(stages, memory);
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
        compute_tiles<T, KIND>(args, stages, tiles, &d_map);
    }
}

typedef void (*hopper_kernel)(struct grouped_args, CUtensorMap, CUtensorMap, CUtensorMap);

template <typename T> static hopper_kernel kernel_of(enum grouped_kind kind) {
    if (kind == GROUPED_WEIGHT)
        return grouped_hopper_kernel<T, GROUPED_WEIGHT>;
    return kind == GROUPED_INPUT ? grouped_hopper_kernel<T, GROUPED_INPUT> : grouped_hopper_kernel<T, GROUPED_FORWARD>;
}

bool grouped_run_hopper(struct cuda_device *cuda, const struct op_grouped_matmul *op, struct grouped_args args) {
    int64_t columns = op->d.shape[op->d.rank - 1], across = divide_up(columns, COLUMNS);
    // Mostly empty tiles cost more than the faster instructions save. A tensor map cannot be empty.
    if (!is_hopper(cuda->index) || op->a.shape[0] == 0 || across * COLUMNS > columns + columns / 2 || !map_encoder())
        return false;
    bool is_weight = op->kind == GROUPED_WEIGHT;
    CUtensorMap a_map = map_tensor(op->a, is_weight ? (int)STEP : (int)ROWS);
    CUtensorMap b_map = map_tensor(op->b, op->kind == GROUPED_FORWARD ? (int)COLUMNS : (int)STEP);
    CUtensorMap d_map = is_weight ? map_tensor(op->d, WARP_ROWS) : a_map;
    int64_t down = is_weight ? args.experts * divide_up(args.outputs, ROWS) : op->a.shape[0] / ROWS + args.experts;
    int processors = 0, bytes = hopper_bytes(op->kind);
    CHECK_CUDA(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, cuda->index));
    hopper_kernel kernel = op->a.dtype == DTYPE_F16 ? kernel_of<__half>(op->kind) : kernel_of<__nv_bfloat16>(op->kind);
    CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    LAUNCH(cuda, kernel, grid_x(min(down * across, (int64_t)processors)), HOPPER_THREADS, (size_t)bytes, args, a_map,
           b_map, d_map);
    return true;
}
