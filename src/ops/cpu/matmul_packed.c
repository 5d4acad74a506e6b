// Matmuls through a micro-kernel of our own (kernel.h), in the order of Goto and van de Geijn (Anatomy of
// High-Performance Matrix Multiplication, 2008). A block of b, all columns of a chunk by some steps of the inner
// dimension, is packed once by all threads together and stays in the shared cache. Then each task packs a block of rows
// of a, which stays in its core's own cache, and multiplies it with all of b's panels. It does so in as many steps at a
// time as suit the kernel; what the result got so far is still in the core's cache when the next steps come.
//
// The inner dimension is cut by its length alone and an element's parts are added from first to last, so results do not
// depend on how rows and columns are cut or who computes them: that may follow the number of threads.
#include "ops/cpu/matmul.h"
#include "ops/cpu/pack.h"
#include <math.h>

// A block of a is at most BLOCK_ROWS by BLOCK_STEP_BYTES, half a megabyte; one of b that by CHUNK_COLUMNS, six.
enum { BLOCK_ROWS = 256, BLOCK_STEP_BYTES = 2048, CHUNK_COLUMNS = 3072 };
// Columns of b that one packing task takes, and after which the epilogue follows: whole panels of every kernel.
enum { GROUP_COLUMNS = 96 };

struct packed_job {
    const struct op_matmul *op;
    const struct cpu_kernel *kernel;
    struct pack_source a, b;
    char *a_panels, *b_panels;  // a block for each thread; the chunk of b
    float *results;  // where d is not fp32: room for the result of a block and GROUP_COLUMNS, for each thread
    int64_t block_rows, block_columns;
    int64_t blocks_down;
    int64_t pack_pieces, pack_steps;  // of the present steps, for packing b
    struct cpu_range columns, steps;  // the present chunk
    int64_t a_distance, b_distance;   // between panels of the present steps, in elements
    bool is_first, is_last;           // of the inner dimension
};

static int64_t round_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

// The size of the pieces when a length is cut into equal pieces of at most `largest`, up to a multiple of `unit`.
static int64_t even_piece(int64_t length, int64_t largest, int64_t unit) {
    return round_up(cpu_pieces(length, cpu_pieces(length, largest)), unit);
}

// Room for blocks that were rounded up to whole tiles, and for what a kernel reads behind a panel.
static size_t block_bytes(int64_t lines) {
    return (size_t)(lines + KERNEL_MOST_COLUMNS) * (BLOCK_STEP_BYTES + KERNEL_MOST_UNIT * sizeof(float)) +
           KERNEL_SLACK_BYTES;
}

enum { RESULT_SIZE = (BLOCK_ROWS + KERNEL_MOST_ROWS) * GROUP_COLUMNS };

size_t matmul_packed_bytes(int threads) {
    return block_bytes(CHUNK_COLUMNS) + (size_t)threads * (block_bytes(BLOCK_ROWS) + RESULT_SIZE * sizeof(float));
}

// Steps that a block holds.
static int64_t block_steps(const struct cpu_kernel *kernel) {
    return BLOCK_STEP_BYTES / (int64_t)dtype_bytes(kernel->dtype);
}

bool matmul_packed_writes_half(const struct op_matmul *op, const struct cpu_kernel *kernel) {
    bool is_half = op->d.dtype == DTYPE_BF16 && (!op->aux.data || op->aux.dtype == DTYPE_BF16);
    return is_half && op->beta == 0 && op->a.shape[op->transpose_a ? 0 : 1] <= block_steps(kernel);
}

// A piece of the steps of a group of b's columns.
static void pack_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct packed_job *job = context;
    const struct panel_shape *shape = &job->kernel->b;
    int64_t steps = job->steps.end - job->steps.first, group = index / job->pack_pieces;
    struct cpu_range columns = cpu_piece(job->columns.end - job->columns.first, GROUP_COLUMNS, group);
    struct cpu_range piece = cpu_piece(steps, job->pack_steps, index % job->pack_pieces);
    struct pack_part part = {.lines = {job->columns.first + columns.first, job->columns.first + columns.end},
                             .inner = {job->steps.first + piece.first, job->steps.first + piece.end},
                             .distance = job->b_distance};
    int64_t place = columns.first / shape->width * job->b_distance + piece.first * shape->width;
    pack_panels(job->b_panels + (size_t)place * dtype_bytes(job->kernel->dtype), shape, &job->b, &part);
}

// Cuts the packing of the present steps so that every thread has several tasks, but none a few steps only.
static int64_t cut_packing(struct packed_job *job, int64_t threads) {
    enum { TASKS_PER_THREAD = 4, LEAST_STEPS = 64 };
    int64_t groups = cpu_pieces(job->columns.end - job->columns.first, GROUP_COLUMNS);
    int64_t steps = job->steps.end - job->steps.first, wanted = cpu_pieces(TASKS_PER_THREAD * threads, groups);
    int64_t piece = cpu_pieces(steps, wanted);
    job->pack_steps = round_up(piece > LEAST_STEPS ? piece : LEAST_STEPS, job->kernel->b.unit);
    job->pack_pieces = steps > 0 ? cpu_pieces(steps, job->pack_steps) : 1;
    return groups * job->pack_pieces;
}

// What the first or a later part of the sums is added to: zeros, the bias, or what is there.
static void set_addend(const struct packed_job *job, struct kernel_tile *tile, int64_t first_column, bool is_first) {
    tile->addend = tile->d;
    tile->addend_stride = tile->stride;
    if (!is_first || (job->op->beta != 0 && !matmul_has_bias(job->op)))
        return;
    tile->addend = matmul_has_bias(job->op) ? (const float *)job->op->bias.data + first_column : kernel_zeros;
    tile->addend_stride = 0;
}

// A block of packed rows, one panel of columns, and where the result goes.
struct packed_block {
    const char *a;
    struct cpu_range rows, columns;
    float *d;
    int64_t stride;
};

// Their matmul over some of the present steps.
static void multiply_steps(const struct packed_job *job, const struct packed_block *block, struct cpu_range steps) {
    const struct cpu_kernel *kernel = job->kernel;
    int64_t size = (int64_t)dtype_bytes(kernel->dtype), columns = block->columns.end - block->columns.first;
    int64_t panel = (block->columns.first - job->columns.first) / kernel->b.width * job->b_distance;
    bool is_first = job->is_first && steps.first == 0;
    float addend_factor = is_first && job->op->beta != 0 && !matmul_has_bias(job->op) ? job->op->beta : 1.0f;
    struct kernel_tile tile = {
        .inner = steps.end - steps.first,
        .a = block->a + steps.first * kernel->a.width * size,
        .b = job->b_panels + (panel + steps.first * kernel->b.width) * size,
        .d = block->d,
        .stride = block->stride,
    };
    bool is_plain = job->op->alpha == 1 && addend_factor == 1 && columns == kernel->b.width;
    for (int64_t i = block->rows.first; i < block->rows.end; i += kernel->a.width) {
        int64_t count = block->rows.end - i < kernel->a.width ? block->rows.end - i : kernel->a.width;
        set_addend(job, &tile, block->columns.first, is_first);
        // The kernel runs for so long that these are there when it adds to them.
        for (int64_t row = 0; row < count; row++) {
            __builtin_prefetch(tile.d + row * tile.stride, 1);
            __builtin_prefetch(tile.d + row * tile.stride + columns - 1, 1);
        }
        if (is_plain && count == kernel->a.width)
            kernel->multiply(&tile);
        else
            kernel_multiply_part(kernel, &tile, &(struct kernel_part){count, columns, job->op->alpha, addend_factor});
        tile.a = (const char *)tile.a + job->a_distance * size;
        tile.d += kernel->a.width * tile.stride;
    }
}

static void multiply_block(const struct packed_job *job, const struct packed_block *block) {
    const struct cpu_kernel *kernel = job->kernel;
    int64_t steps = round_up(job->steps.end - job->steps.first, kernel->a.unit);
    int64_t piece = steps > 0 ? even_piece(steps, kernel->most_steps, kernel->a.unit) : 1;
    int64_t count = steps > 0 ? cpu_pieces(steps, piece) : 1;
    for (int64_t i = 0; i < count; i++)
        multiply_steps(job, block, cpu_piece(steps, piece, i));
}

// A block of packed rows times at most GROUP_COLUMNS columns, and the epilogue.
static void multiply_group(const struct packed_job *job, const char *a, const struct matmul_part *part) {
    int64_t width = job->kernel->b.width;
    for (int64_t first = part->columns.first; first < part->columns.end; first += width) {
        struct packed_block block = {
            .a = a,
            .rows = part->rows,
            .columns = {first, first + width < part->columns.end ? first + width : part->columns.end},
            .d = part->result + first - part->columns.first,
            .stride = part->stride,
        };
        multiply_block(job, &block);
    }
    if (job->is_last)
        matmul_finish(job->op, part);
}

static void block_task(void *context, int64_t index, int thread) {
    const struct packed_job *job = context;
    const struct cpu_kernel *kernel = job->kernel;
    const struct tensor *target = matmul_target(job->op);
    struct cpu_range rows = cpu_piece(job->op->d.shape[0], job->block_rows, index % job->blocks_down);
    struct cpu_range columns =
        cpu_piece(job->columns.end - job->columns.first, job->block_columns, index / job->blocks_down);
    char *a = job->a_panels + (size_t)thread * block_bytes(BLOCK_ROWS);
    pack_panels(a, &kernel->a, &job->a, &(struct pack_part){rows, job->steps, job->a_distance});
    columns.first += job->columns.first;
    columns.end += job->columns.first;
    if (kernel->enter)
        kernel->enter();
    for (int64_t j = columns.first; j < columns.end; j += GROUP_COLUMNS) {
        bool is_fp32 = target->dtype == DTYPE_F32;
        int64_t stride = is_fp32 ? target->stride[0] : GROUP_COLUMNS;
        struct matmul_part part = {
            .rows = rows,
            .columns = {j, j + GROUP_COLUMNS < columns.end ? j + GROUP_COLUMNS : columns.end},
            .result = is_fp32 ? (float *)target->data + rows.first * stride + j
                              : job->results + (int64_t)thread * RESULT_SIZE,
            .stride = stride,
        };
        multiply_group(job, a, &part);
    }
    if (kernel->leave)
        kernel->leave();
}

// The time of a cut, in multiplications: a task multiplies, packs its rows of a and fetches its columns of b, and all
// threads wait for the last one.
static double cut_cost(const struct packed_job *job, int64_t tasks, int64_t threads) {
    double rows = (double)job->block_rows, columns = (double)job->block_columns;
    return (double)cpu_pieces(tasks, threads) * (rows * columns + (double)job->kernel->move_cost * (rows + columns));
}

// Cuts the result of a chunk into blocks, one task each, by the number of threads.
static void cut_blocks(struct packed_job *job, int64_t threads, int64_t chunk_columns) {
    int64_t rows = job->op->d.shape[0], least_down = cpu_pieces(rows, BLOCK_ROWS);
    if (matmul_size(job->op) <= MATMUL_SMALL)
        threads = 1;
    struct packed_job trial = *job;
    double best = INFINITY;
    for (int64_t across = 1; across <= threads && (across == 1 || chunk_columns / across >= GROUP_COLUMNS); across++) {
        trial.block_columns = round_up(cpu_pieces(chunk_columns, across), GROUP_COLUMNS);
        for (int64_t down = least_down; down < least_down + threads; down++) {
            trial.block_rows = round_up(cpu_pieces(rows, down), job->kernel->a.width);
            trial.blocks_down = cpu_pieces(rows, trial.block_rows);
            int64_t tasks = trial.blocks_down * cpu_pieces(chunk_columns, trial.block_columns);
            double cost = cut_cost(&trial, tasks, threads);
            if (cost < best) {
                best = cost;
                *job = trial;
            }
        }
    }
}

void matmul_packed(struct device *device, const struct op_matmul *op, const struct cpu_kernel *kernel) {
    struct cpu_device *cpu = (struct cpu_device *)device;
    int64_t threads = pool_threads(cpu->pool), columns = op->d.shape[1], inner = op->a.shape[op->transpose_a ? 0 : 1];
    struct packed_job job = {
        .op = op,
        .kernel = kernel,
        .a = {op->a.data, op->a.dtype, op->a.stride[0], op->transpose_a},
        .b = {op->b.data, op->b.dtype, op->b.stride[0], !op->transpose_b},
        .b_panels = cpu->workspace,
        .a_panels = cpu->workspace + block_bytes(CHUNK_COLUMNS),
        .results =
            (float *)(void *)(cpu->workspace + block_bytes(CHUNK_COLUMNS) + (size_t)threads * block_bytes(BLOCK_ROWS)),
    };
    int64_t chunk = even_piece(columns, CHUNK_COLUMNS, GROUP_COLUMNS);
    int64_t steps = inner > 0 ? even_piece(inner, block_steps(kernel), kernel->a.unit) : 1;
    int64_t parts = inner > 0 ? cpu_pieces(inner, steps) : 1;
    cut_blocks(&job, threads, chunk < columns ? chunk : columns);
    for (int64_t j = 0; j < cpu_pieces(columns, chunk); j++) {
        job.columns = cpu_piece(columns, chunk, j);
        int64_t count = job.columns.end - job.columns.first;
        for (int64_t part = 0; part < parts; part++) {
            job.steps = cpu_piece(inner, steps, part);
            job.a_distance = pack_panel_size(&kernel->a, job.steps.end - job.steps.first);
            job.b_distance = pack_panel_size(&kernel->b, job.steps.end - job.steps.first);
            job.is_first = part == 0;
            job.is_last = part == parts - 1;
            cpu_run(device, cut_packing(&job, threads), pack_task, &job);
            cpu_run(device, job.blocks_down * cpu_pieces(count, job.block_columns), block_task, &job);
        }
    }
}
