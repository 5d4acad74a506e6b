// Matrix products through a micro-kernel of our own (kernel.h), in the order of Goto and van de Geijn (Anatomy of
// High-Performance Matrix Multiplication, 2008). A block of b, all columns of a chunk by some steps of the inner
// dimension, is packed once by all threads together and stays in the shared cache. Then each task packs a block of rows
// of a, which stays in its core's own cache, and multiplies it with all of b's panels.
//
// The inner dimension is cut by its length alone and an element's parts are added from first to last, so results do not
// depend on how rows and columns are cut or who computes them: that may follow the number of threads.
#include "ops/cpu/matmul.h"
#include "ops/cpu/pack.h"
#include "base/error.h"

// A block of a is at most BLOCK_ROWS by BLOCK_STEP_BYTES, half a megabyte; one of b that by CHUNK_COLUMNS, six.
enum { BLOCK_ROWS = 256, BLOCK_STEP_BYTES = 2048, CHUNK_COLUMNS = 3072 };
// Panels of b that one packing task takes, and columns after which the epilogue follows.
enum { PANELS_PER_TASK = 8, PANELS_PER_EPILOGUE = 8 };

struct packed_job {
    const struct op_matmul *op;
    const struct cpu_kernel *kernel;
    struct pack_source a, b;
    char *a_panels, *b_panels;  // a block for each thread; the chunk of b
    int64_t block_rows, block_columns;
    int64_t blocks_down;
    struct cpu_range columns, steps;  // the present chunk
    bool is_first, is_last;           // of the inner dimension
    float addend_factor;              // of what the product is added to
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
    return (size_t)(lines + KERNEL_MOST_COLUMNS) * (BLOCK_STEP_BYTES + KERNEL_STEP * sizeof(float)) +
           KERNEL_SLACK_BYTES;
}

size_t matmul_packed_bytes(int threads) {
    return block_bytes(CHUNK_COLUMNS) + (size_t)threads * block_bytes(BLOCK_ROWS);
}

// The distance between panels of the present steps.
static size_t panel_bytes(const struct packed_job *job, int64_t width) {
    return (size_t)pack_panel_size(width, job->steps.end - job->steps.first) * dtype_bytes(job->kernel->dtype);
}

static void pack_task(void *context, int64_t index, int thread) {
    (void)thread;
    const struct packed_job *job = context;
    int64_t width = job->kernel->columns;
    struct cpu_range piece = cpu_piece(job->columns.end - job->columns.first, PANELS_PER_TASK * width, index);
    struct cpu_range lines = {job->columns.first + piece.first, job->columns.first + piece.end};
    pack_panels(job->b_panels + (size_t)(index * PANELS_PER_TASK) * panel_bytes(job, width), &job->b, lines, job->steps,
                width);
}

// What the first or a later part of the sums is added to: zeros, the bias, or what is there.
static void set_addend(const struct packed_job *job, struct kernel_tile *tile, int64_t first_column) {
    tile->addend = tile->d;
    tile->addend_stride = tile->stride;
    if (!job->is_first || (job->op->beta != 0 && !matmul_has_bias(job->op)))
        return;
    tile->addend = matmul_has_bias(job->op) ? (const float *)job->op->bias.data + first_column : kernel_zeros;
    tile->addend_stride = 0;
}

// A block of packed rows times one panel of columns.
static void multiply_panel(const struct packed_job *job, const char *a, struct cpu_range rows,
                           struct cpu_range columns) {
    const struct cpu_kernel *kernel = job->kernel;
    const struct tensor *target = matmul_target(job->op);
    int64_t steps = job->steps.end - job->steps.first, panel = (columns.first - job->columns.first) / kernel->columns;
    struct kernel_tile tile = {
        .inner = round_up(steps, KERNEL_STEP),
        .b = job->b_panels + (size_t)panel * panel_bytes(job, kernel->columns),
        .stride = target->stride[0],
    };
    bool is_plain = job->op->alpha == 1 && job->addend_factor == 1 && columns.end - columns.first == kernel->columns;
    for (int64_t i = rows.first; i < rows.end; i += kernel->rows) {
        int64_t count = rows.end - i < kernel->rows ? rows.end - i : kernel->rows;
        tile.a = a;
        tile.d = (float *)target->data + i * tile.stride + columns.first;
        set_addend(job, &tile, columns.first);
        // The kernel runs for so long that these are there when it adds to them.
        for (int64_t row = 0; row < count; row++) {
            __builtin_prefetch(tile.d + row * tile.stride, 1);
            __builtin_prefetch(tile.d + row * tile.stride + (columns.end - columns.first - 1), 1);
        }
        if (is_plain && count == kernel->rows)
            kernel->multiply(&tile);
        else
            kernel_multiply_part(kernel, &tile,
                                 &(struct kernel_part){.rows = count,
                                                       .columns = columns.end - columns.first,
                                                       .alpha = job->op->alpha,
                                                       .addend_factor = job->addend_factor});
        a += panel_bytes(job, kernel->rows);
    }
}

static void block_task(void *context, int64_t index, int thread) {
    const struct packed_job *job = context;
    int64_t width = job->kernel->columns;
    struct cpu_range rows = cpu_piece(job->op->d.shape[0], job->block_rows, index % job->blocks_down);
    struct cpu_range columns =
        cpu_piece(job->columns.end - job->columns.first, job->block_columns, index / job->blocks_down);
    char *a = job->a_panels + (size_t)thread * block_bytes(BLOCK_ROWS);
    pack_panels(a, &job->a, rows, job->steps, job->kernel->rows);
    columns.first += job->columns.first;
    columns.end += job->columns.first;
    for (int64_t j = columns.first; j < columns.end; j += PANELS_PER_EPILOGUE * width) {
        int64_t end = j + PANELS_PER_EPILOGUE * width < columns.end ? j + PANELS_PER_EPILOGUE * width : columns.end;
        for (int64_t first = j; first < end; first += width)
            multiply_panel(job, a, rows, (struct cpu_range){first, first + width < end ? first + width : end});
        if (job->is_last)
            matmul_finish(job->op, rows, (struct cpu_range){j, end});
    }
}

// Blocks of rows of which every thread gets equally many, and where those would be too low to be worth packing, blocks
// of columns as well.
static void cut_blocks(struct packed_job *job, int64_t threads, int64_t chunk_columns) {
    enum { LEAST_ROWS = 64, LEAST_COLUMNS = 96 };
    int64_t rows = job->op->d.shape[0], tile_rows = job->kernel->rows;
    job->block_columns = chunk_columns;
    if (matmul_size(job->op) <= MATMUL_SMALL)
        threads = 1;
    int64_t blocks = threads * cpu_pieces(rows, threads * BLOCK_ROWS);
    job->block_rows = round_up(cpu_pieces(rows, blocks), tile_rows);
    if (job->block_rows < LEAST_ROWS && rows > job->block_rows) {
        job->block_rows = LEAST_ROWS;
        int64_t across = cpu_pieces(threads, cpu_pieces(rows, LEAST_ROWS));
        int64_t block = round_up(cpu_pieces(chunk_columns, across), job->kernel->columns);
        job->block_columns = block > LEAST_COLUMNS ? block : LEAST_COLUMNS;
    }
    job->blocks_down = cpu_pieces(rows, job->block_rows);
}

void matmul_packed(struct device *device, const struct op_matmul *op, const struct cpu_kernel *kernel) {
    struct cpu_device *cpu = (struct cpu_device *)device;
    int64_t columns = op->d.shape[1], inner = op->a.shape[op->transpose_a ? 0 : 1];
    struct packed_job job = {
        .op = op,
        .kernel = kernel,
        .a = {op->a.data, op->a.dtype, op->a.stride[0], op->transpose_a},
        .b = {op->b.data, op->b.dtype, op->b.stride[0], !op->transpose_b},
        .b_panels = cpu->workspace,
        .a_panels = cpu->workspace + block_bytes(CHUNK_COLUMNS),
    };
    int64_t chunk = even_piece(columns, CHUNK_COLUMNS, kernel->columns * PANELS_PER_TASK);
    int64_t most_steps = BLOCK_STEP_BYTES / (int64_t)dtype_bytes(kernel->dtype);
    int64_t steps = inner > 0 ? even_piece(inner, most_steps, KERNEL_STEP) : 1;
    int64_t parts = inner > 0 ? cpu_pieces(inner, steps) : 1;
    cut_blocks(&job, pool_threads(cpu->pool), chunk < columns ? chunk : columns);
    for (int64_t j = 0; j < cpu_pieces(columns, chunk); j++) {
        job.columns = cpu_piece(columns, chunk, j);
        int64_t count = job.columns.end - job.columns.first;
        for (int64_t part = 0; part < parts; part++) {
            job.steps = cpu_piece(inner, steps, part);
            job.is_first = part == 0;
            job.is_last = part == parts - 1;
            bool is_scaled = job.is_first && op->beta != 0 && !matmul_has_bias(op);
            job.addend_factor = is_scaled ? op->beta : 1.0f;
            cpu_run(device, cpu_pieces(count, PANELS_PER_TASK * kernel->columns), pack_task, &job);
            cpu_run(device, job.blocks_down * cpu_pieces(count, job.block_columns), block_task, &job);
        }
    }
}
