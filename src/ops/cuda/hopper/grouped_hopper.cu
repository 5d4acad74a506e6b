// Matmuls over ragged groups of rows on GPUs of compute capability 9.0, see hopper.cuh.
//
// A tile begins at a row of its expert. Its last box may reach into the next expert's rows: rows of the result beyond
// the expert's end are not stored. In weight gradients the rows are the inner dimension: lines of the next expert are
// set to 0 in shared memory.
#include "ops/cuda/hopper/grouped_tiles.cuh"

template <typename T_, grouped_kind KIND_> struct halves_engine {
    typedef T_ T;
    typedef struct grouped_args ARGS;
    static const grouped_kind KIND = KIND_;
    static const int COPY_REGISTERS = 56, SUM_REGISTERS = 224;

    __device__ __forceinline__ halves_engine(const ARGS &) {}

    static __device__ __forceinline__ void copy(stages<GROUPED_STAGES> &stages, const hopper_tiles<KIND> &tiles,
                                                const CUtensorMap *a_map, const CUtensorMap *b_map) {
        stage_turn<GROUPED_STAGES> turn = {0, 1};
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

    __device__ __forceinline__ void multiply(float (&sums)[128], stages<GROUPED_STAGES> &stages,
                                             stage_turn<GROUPED_STAGES> &turn, const struct hopper_tile &tile,
                                             int group) const {
        constexpr bool IS_WEIGHT = KIND == GROUPED_WEIGHT;
#pragma unroll
        for (int i = 0; i < 128 && IS_WEIGHT && tile.inner == 0; i++)
            sums[i] = 0;
        multiply_tile<tile_kind<T, IS_WEIGHT, KIND != GROUPED_FORWARD, IS_WEIGHT>>(sums, stages, turn, tile.inner,
                                                                                   group, nothing_beside());
    }
};

bool grouped_run_hopper(struct cuda_device *cuda, const struct op_grouped_matmul *op, struct grouped_args args) {
    int64_t columns = op->d.shape[op->d.rank - 1], across = divide_up(columns, COLUMNS);
    // Mostly empty tiles cost more than the faster instructions save. A tensor map cannot be empty.
    if (!is_hopper(cuda->index) || op->a.shape[0] == 0 || across * COLUMNS > columns + columns / 2 || !map_encoder())
        return false;
    const int lines[2] = {op->kind == GROUPED_WEIGHT ? STEP : ROWS, op->kind == GROUPED_FORWARD ? COLUMNS : STEP};
#define IN_F16(KIND) grouped_launch<halves_engine<__half, KIND>>(cuda, op, args, lines, op->a.shape[0])
#define IN_BF16(KIND) grouped_launch<halves_engine<__nv_bfloat16, KIND>>(cuda, op, args, lines, op->a.shape[0])
    if (op->a.dtype == DTYPE_F16)
        WITH_GROUPED_KIND(op->kind, IN_F16);
    else
        WITH_GROUPED_KIND(op->kind, IN_BF16);
#undef IN_BF16
#undef IN_F16
    return true;
}
