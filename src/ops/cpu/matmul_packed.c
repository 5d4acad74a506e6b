// Matmuls through a micro-kernel of our own (kernel.h), in the order of Goto and van de Geijn (Anatomy of
// High-Performance Matrix Multiplication, 2008), in rounds. For a round all threads together pack some rows of a and
// some columns of b, over as many steps of the inner dimension as there is room for. Then they share its blocks: small
// ones, several for each thread, so that none waits long for the last. A thread that finds no block left packs for the
// next round, into other memory, so there is one barrier between two rounds.
//
// A block is multiplied a part of the inner dimension at a time. That part's rows of a stay in the core's own cache,
// and so do the result's sums so far.
//
// The inner dimension is cut by its length alone and an element's parts are added from first to last, so results do not
// depend on how rows and columns are cut or on which thread computes them. Both may follow the number of threads.
#include "ops/cpu/matmul.h"
#include "ops/cpu/pack.h"
#include <math.h>

// A part has PART_BYTES of each line, a round LINE_BYTES of each line, and all lines of a round fit into ROOM_BYTES.
enum { PART_BYTES = 2048, LINE_BYTES = 4 * PART_BYTES, ROOM_BYTES = 4 << 20, ROOM_MULTIPLE = 2 << 20 };
// The largest block: its rows of a part take half a megabyte, its result less.
enum { BLOCK_ROWS = 256, BLOCK_SIZE = BLOCK_ROWS * 384 };
// Lines that one packing task takes, and columns after which the epilogue follows: whole panels of every kernel.
enum { GROUP_LINES = 96 };

// One operand of a matmul and two buffers ("rooms") for its panels, used alternately by rounds that pack.
struct packed_operand {
    struct pack_source source;
    const struct panel_shape *shape;
    char *rooms[2];
    int turn;           // the room that the next packing round uses
    int64_t part_size;  // between parts in a room, in elements
    int64_t lines;      // of a round
};

struct packed_round {
    struct cpu_range rows, columns, parts;
    const char *a, *b;
    int64_t a_tasks, b_tasks;  // of packing; 0 if the panels of the previous round are reused
    int64_t pieces, piece;     // pieces that each part is cut into for packing, and steps per piece
};

struct packed_job {
    const struct op_matmul *op;
    const struct cpu_kernel *kernel;
    struct packed_operand a, b;
    float *results;               // if d is not fp32: a buffer per thread for the sums of a block
    int64_t inner, steps, parts;  // the inner dimension, of a part, and how many of them
    int64_t round_parts;
    int64_t block_rows, block_columns;
    struct packed_round now, next;
    int64_t blocks_down, blocks;  // of the current round
};

static int64_t round_up(int64_t value, int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

// The size of the pieces when a length is cut into equal pieces of at most `largest`, up to a multiple of `unit`.
static int64_t even_piece(int64_t length, int64_t largest, int64_t unit) {
    return round_up(cpu_pieces(length, cpu_pieces(length, largest)), unit);
}

// Lines are padded to whole groups, steps to whole units, and a kernel reads a little past a panel. Rooms begin on huge
// pages; only pages that are written use memory.
static size_t room_bytes(void) {
    size_t bytes = (size_t)GROUP_LINES * (LINE_BYTES + 8 * KERNEL_MOST_UNIT * sizeof(float)) + KERNEL_SLACK_BYTES;
    return (size_t)round_up((int64_t)(ROOM_BYTES + bytes), ROOM_MULTIPLE);
}

size_t matmul_packed_bytes(int threads) {
    return 4 * room_bytes() + (size_t)threads * BLOCK_SIZE * sizeof(float);
}

static int64_t element_bytes(const struct packed_job *job) {
    return (int64_t)dtype_bytes(job->kernel->dtype);
}

static void cut_inner(struct packed_job *job) {
    int64_t size = element_bytes(job);
    job->inner = job->op->a.shape[job->op->transpose_a ? 0 : 1];
    job->steps = job->inner > 0 ? even_piece(job->inner, PART_BYTES / size, job->kernel->a.unit) : 1;
    job->parts = job->inner > 0 ? cpu_pieces(job->inner, job->steps) : 1;
    job->round_parts = even_piece(job->parts, LINE_BYTES / PART_BYTES, 1);
}

bool matmul_packed_writes_half(const struct op_matmul *op, const struct cpu_kernel *kernel) {
    struct packed_job job = {.op = op, .kernel = kernel};
    cut_inner(&job);
    bool is_half = op->d.dtype == DTYPE_BF16 && (!op->aux.data || op->aux.dtype == DTYPE_BF16);
    return is_half && op->beta == 0 && job.round_parts == job.parts;
}

static struct cpu_range steps_of(const struct packed_job *job, int64_t part) {
    return job->inner > 0 ? cpu_piece(job->inner, job->steps, part) : (struct cpu_range){0, 0};
}

static int64_t panel_distance(const struct packed_job *job, const struct panel_shape *shape, int64_t part) {
    struct cpu_range steps = steps_of(job, part);
    return pack_panel_size(shape, steps.end - steps.first);
}

// Packs a piece of the steps of a part, for a group of an operand's lines.
static void pack_piece(const struct packed_job *job, const struct packed_operand *operand, struct cpu_range lines,
                       int64_t index) {
    const struct packed_round *round = &job->next;
    int64_t number = index / round->pieces % (round->parts.end - round->parts.first);
    int64_t part = round->parts.first + number, width = operand->shape->width;
    struct cpu_range steps = steps_of(job, part);
    struct cpu_range piece = cpu_piece(steps.end - steps.first, round->piece, index % round->pieces);
    struct cpu_range group = cpu_piece(lines.end - lines.first, GROUP_LINES,
                                       index / round->pieces / (round->parts.end - round->parts.first));
    if (piece.first > 0 && piece.first >= piece.end)
        return;  // the last part is shorter
    struct pack_part packed = {.lines = {lines.first + group.first, lines.first + group.end},
                               .inner = {steps.first + piece.first, steps.first + piece.end},
                               .distance = panel_distance(job, operand->shape, part)};
    int64_t place = number * operand->part_size + group.first / width * packed.distance + piece.first * width;
    const char *room = operand == &job->a ? round->a : round->b;
    pack_panels((char *)(uintptr_t)room + place * element_bytes(job), operand->shape, &operand->source, &packed);
}

static void pack_task(const struct packed_job *job, int64_t index) {
    if (index < job->next.a_tasks)
        pack_piece(job, &job->a, job->next.rows, index);
    else
        pack_piece(job, &job->b, job->next.columns, index - job->next.a_tasks);
}

// Sets the addend of a part: zeros or the bias for the first part, the sums so far for later ones.
static void set_addend(const struct packed_job *job, struct kernel_tile *tile, int64_t first_column, bool is_first) {
    tile->addend = tile->d;
    tile->addend_stride = tile->stride;
    if (!is_first || (job->op->beta != 0 && !matmul_has_bias(job->op)))
        return;
    tile->addend = matmul_has_bias(job->op) ? (const float *)job->op->bias.data + first_column : kernel_zeros;
    tile->addend_stride = 0;
}

// A part of the inner dimension of some packed rows, one panel of columns, and where the result goes.
struct packed_block {
    const char *a, *b;
    int64_t a_distance;  // between panels of rows, in elements
    struct cpu_range rows, columns;
    float *d;
    int64_t stride;
    bool is_first;
};

// Multiplies a block over some of the part's steps.
static void multiply_steps(const struct packed_job *job, const struct packed_block *block, struct cpu_range steps) {
    const struct cpu_kernel *kernel = job->kernel;
    int64_t size = element_bytes(job), columns = block->columns.end - block->columns.first;
    bool is_first = block->is_first && steps.first == 0;
    float addend_factor = is_first && job->op->beta != 0 && !matmul_has_bias(job->op) ? job->op->beta : 1.0f;
    struct kernel_tile tile = {
        .inner = steps.end - steps.first,
        .a = block->a + steps.first * kernel->a.width * size,
        .b = block->b + steps.first * kernel->b.width * size,
        .d = block->d,
        .stride = block->stride,
    };
    bool is_plain = job->op->alpha == 1 && addend_factor == 1 && columns == kernel->b.width;
    for (int64_t i = block->rows.first; i < block->rows.end; i += kernel->a.width) {
        int64_t count = block->rows.end - i < kernel->a.width ? block->rows.end - i : kernel->a.width;
        set_addend(job, &tile, block->columns.first, is_first);
        // The kernel runs long enough for these to arrive before it adds to them.
        for (int64_t row = 0; row < count; row++) {
            __builtin_prefetch(tile.d + row * tile.stride, 1);
            __builtin_prefetch(tile.d + row * tile.stride + columns - 1, 1);
        }
        if (is_plain && count == kernel->a.width)
            kernel->multiply(&tile);
        else
            kernel_multiply_part(kernel, &tile, &(struct kernel_part){count, columns, job->op->alpha, addend_factor});
        tile.a = (const char *)tile.a + block->a_distance * size;
        tile.d += kernel->a.width * tile.stride;
    }
}

// Multiplies a block over all steps of the part, at most most_steps at a time.
static void multiply_panel(const struct packed_job *job, const struct packed_block *block, int64_t steps) {
    const struct cpu_kernel *kernel = job->kernel;
    int64_t whole = round_up(steps, kernel->a.unit);
    int64_t piece = whole > 0 ? even_piece(whole, kernel->most_steps, kernel->a.unit) : 1;
    int64_t count = whole > 0 ? cpu_pieces(whole, piece) : 1;
    for (int64_t i = 0; i < count; i++)
        multiply_steps(job, block, cpu_piece(whole, piece, i));
}

// One part of the inner dimension for at most GROUP_LINES columns of a block, with the epilogue after the last part.
static void multiply_group(const struct packed_job *job, const struct matmul_part *result, int64_t part) {
    const struct packed_round *round = &job->now;
    const struct cpu_kernel *kernel = job->kernel;
    int64_t size = element_bytes(job), number = part - round->parts.first;
    int64_t a_distance = panel_distance(job, &kernel->a, part), b_distance = panel_distance(job, &kernel->b, part);
    int64_t row_panel = (result->rows.first - round->rows.first) / kernel->a.width;
    struct cpu_range steps = steps_of(job, part);
    for (int64_t first = result->columns.first; first < result->columns.end; first += kernel->b.width) {
        int64_t end = first + kernel->b.width, panel = (first - round->columns.first) / kernel->b.width;
        struct packed_block block = {
            .a = round->a + (number * job->a.part_size + row_panel * a_distance) * size,
            .b = round->b + (number * job->b.part_size + panel * b_distance) * size,
            .a_distance = a_distance,
            .rows = result->rows,
            .columns = {first, end < result->columns.end ? end : result->columns.end},
            .d = result->result + first - result->columns.first,
            .stride = result->stride,
            .is_first = part == 0,
        };
        multiply_panel(job, &block, steps.end - steps.first);
    }
    if (part == job->parts - 1)
        matmul_finish(job->op, result);
}

static struct cpu_range piece_of(struct cpu_range range, int64_t size, int64_t index) {
    struct cpu_range piece = cpu_piece(range.end - range.first, size, index);
    return (struct cpu_range){range.first + piece.first, range.first + piece.end};
}

static void block_task(const struct packed_job *job, int64_t index, int thread) {
    const struct cpu_kernel *kernel = job->kernel;
    const struct tensor *target = matmul_target(job->op);
    struct cpu_range rows = piece_of(job->now.rows, job->block_rows, index % job->blocks_down);
    struct cpu_range columns = piece_of(job->now.columns, job->block_columns, index / job->blocks_down);
    bool is_fp32 = target->dtype == DTYPE_F32;
    struct matmul_part part = {.rows = rows, .stride = is_fp32 ? target->stride[0] : job->block_columns};
    if (kernel->enter)
        kernel->enter();
    for (int64_t number = job->now.parts.first; number < job->now.parts.end; number++) {
        for (int64_t j = columns.first; j < columns.end; j += GROUP_LINES) {
            part.columns = (struct cpu_range){j, j + GROUP_LINES < columns.end ? j + GROUP_LINES : columns.end};
            part.result = is_fp32 ? (float *)target->data + rows.first * part.stride + j
                                  : job->results + (int64_t)thread * BLOCK_SIZE + j - columns.first;
            multiply_group(job, &part, number);
        }
    }
    if (kernel->leave)
        kernel->leave();
}

// The blocks of the current round, then the packing of the next one.
static void round_task(void *context, int64_t index, int thread) {
    const struct packed_job *job = context;
    if (index < job->blocks)
        block_task(job, index, thread);
    else
        pack_task(job, index - job->blocks);
}

// The time of a cut, in multiplications: a task multiplies and fetches its rows of a and columns of b. Threads finish
// at different times, so they wait for about one task at the end.
static double cut_cost(const struct packed_job *job, int64_t tasks, int64_t threads) {
    double rows = (double)job->block_rows, columns = (double)job->block_columns;
    double turns = (double)cpu_pieces(tasks, threads) + (threads > 1 ? 1 : 0);
    return turns * (rows * columns + (double)job->kernel->move_cost * (rows + columns));
}

// Cuts a round's rows and columns into blocks, one task each, by the number of threads.
static void cut_blocks(struct packed_job *job, int64_t threads) {
    enum { MOST_TASKS_PER_THREAD = 8 };
    int64_t rows = job->a.lines, columns = job->b.lines, width = job->kernel->a.width;
    if (matmul_size(job->op) <= MATMUL_SMALL)
        threads = 1;
    struct packed_job trial = *job;
    double best = INFINITY;
    for (trial.block_columns = GROUP_LINES;; trial.block_columns += GROUP_LINES) {
        int64_t most_rows = BLOCK_SIZE / trial.block_columns / width * width, across;
        across = cpu_pieces(columns, trial.block_columns);
        most_rows = most_rows < BLOCK_ROWS / width * width ? most_rows : BLOCK_ROWS / width * width;
        for (int64_t down = cpu_pieces(rows, most_rows); most_rows > 0; down++) {
            trial.block_rows = round_up(cpu_pieces(rows, down), width);
            int64_t tasks = cpu_pieces(rows, trial.block_rows) * across;
            double cost = cut_cost(&trial, tasks, threads);
            if (cost < best) {
                best = cost;
                *job = trial;
            }
            if (trial.block_rows == width || tasks > MOST_TASKS_PER_THREAD * threads)
                break;
        }
        if (across == 1 || most_rows <= width)
            break;
    }
}

// Sets the rows and columns of a round by the size of a room.
static void cut_lines(struct packed_job *job, int64_t rows, int64_t columns) {
    int64_t steps = round_up(job->steps, job->kernel->a.unit), line = steps * job->round_parts * element_bytes(job);
    int64_t most = ROOM_BYTES / line / GROUP_LINES * GROUP_LINES;
    job->a.lines = even_piece(rows, most, GROUP_LINES);
    job->b.lines = even_piece(columns, most, GROUP_LINES);
    job->a.part_size = round_up(job->a.lines, job->kernel->a.width) * steps;
    job->b.part_size = round_up(job->b.lines, job->kernel->b.width) * steps;
    job->a.lines = job->a.lines < rows ? job->a.lines : rows;
    job->b.lines = job->b.lines < columns ? job->b.lines : columns;
}

// Elements moved per step of the inner dimension if it takes several rounds: lines, packed again for each chunk of the
// other operand, and results, which every round adds to.
static double moves(const struct packed_job *job, int64_t rows, int64_t columns) {
    double packed = (double)(rows * cpu_pieces(columns, job->b.lines) + columns * cpu_pieces(rows, job->a.lines));
    return packed + (double)rows * (double)columns / (double)(job->round_parts * job->steps);
}

// Cuts an inner dimension that does not fit into one round so that little is packed twice.
static void cut_rounds(struct packed_job *job, int64_t rows, int64_t columns) {
    cut_lines(job, rows, columns);
    if (job->round_parts == job->parts)
        return;
    for (struct packed_job trial = *job; --trial.round_parts > 0;) {
        cut_lines(&trial, rows, columns);
        if (moves(&trial, rows, columns) < moves(job, rows, columns))
            *job = trial;
    }
}

// If the round's panels are not in a room yet: the number of packing tasks, and the room to pack into.
static int64_t plan_packing(struct packed_operand *operand, struct cpu_range lines, const struct packed_round *round,
                            const char **room) {
    *room = operand->rooms[operand->turn];
    operand->turn = !operand->turn;
    return cpu_pieces(lines.end - lines.first, GROUP_LINES) * (round->parts.end - round->parts.first) * round->pieces;
}

// Cuts the packing of a round so that every thread has several tasks, but no task has only a few steps.
static void cut_packing(const struct packed_job *job, struct packed_round *round, int64_t threads) {
    enum { TASKS_PER_THREAD = 4, LEAST_STEPS = 64 };
    int64_t groups = cpu_pieces(job->a.lines, GROUP_LINES) + cpu_pieces(job->b.lines, GROUP_LINES);
    int64_t wanted = cpu_pieces(TASKS_PER_THREAD * threads, groups * (round->parts.end - round->parts.first));
    int64_t piece = cpu_pieces(job->steps, wanted), unit = job->kernel->a.unit;
    round->piece = round_up(piece > LEAST_STEPS ? piece : LEAST_STEPS, unit);
    round->pieces = cpu_pieces(job->steps, round->piece);
}

// Rounds go over the inner dimension first, then over columns, then over rows.
static void plan_round(struct packed_job *job, int64_t number, int64_t threads) {
    int64_t rows = job->op->d.shape[0], columns = job->op->d.shape[1];
    int64_t inner_rounds = cpu_pieces(job->parts, job->round_parts), across = cpu_pieces(columns, job->b.lines);
    int64_t chunk = number / inner_rounds % across;
    struct packed_round *round = &job->next;
    round->parts = cpu_piece(job->parts, job->round_parts, number % inner_rounds);
    round->columns = cpu_piece(columns, job->b.lines, chunk);
    round->rows = cpu_piece(rows, job->a.lines, number / inner_rounds / across);
    cut_packing(job, round, threads);
    round->a_tasks = round->b_tasks = 0;
    if (inner_rounds > 1 || chunk == 0)
        round->a_tasks = plan_packing(&job->a, round->rows, round, &round->a);
    if (inner_rounds > 1 || across > 1 || number == 0)
        round->b_tasks = plan_packing(&job->b, round->columns, round, &round->b);
}

static void run_tasks(struct device *device, const struct packed_job *job, int64_t tasks) {
    if (matmul_size(job->op) > MATMUL_SMALL) {
        cpu_run(device, tasks, round_task, job);
        return;
    }
    struct packed_job same = *job;
    for (int64_t i = 0; i < tasks; i++)
        round_task(&same, i, 0);
}

// Bytes of each room in whole pages. An operand that is packed once does not use its second room.
struct own_need matmul_packed_rooms(const struct device *device, const struct op_matmul *op) {
    const struct cpu_kernel *kernel = matmul_kernel(device, op);
    int64_t rows = op->d.shape[0], columns = op->d.shape[1];
    if (!kernel || rows == 0 || columns == 0)
        return (struct own_need){0};
    struct packed_job job = {.op = op, .kernel = kernel};
    cut_inner(&job);
    cut_rounds(&job, rows, columns);
    int64_t inner = cpu_pieces(job.parts, job.round_parts), down = cpu_pieces(rows, job.a.lines);
    int64_t across = cpu_pieces(columns, job.b.lines), rounds = inner * down * across;
    int64_t room = job.round_parts * element_bytes(&job),
            threads = pool_threads(((const struct cpu_device *)device)->pool);
    int64_t bytes[OWN_ROOMS] = {job.a.part_size * room, 0, job.b.part_size * room, 0, 0};
    if ((inner > 1 ? rounds : down) > 1)
        bytes[1] = bytes[0];
    if (rounds > 1 && (inner > 1 || across > 1))
        bytes[3] = bytes[2];
    if (matmul_target(op)->dtype != DTYPE_F32)
        bytes[4] = threads * BLOCK_SIZE * (int64_t)sizeof(float);
    struct own_need need = {0};
    for (int i = 0; i < OWN_ROOMS; i++)
        need.rooms[i] = (size_t)round_up(bytes[i], ROOM_MULTIPLE);
    return need;
}

void matmul_packed(struct device *device, const struct op_matmul *op, const struct cpu_kernel *kernel) {
    struct cpu_device *cpu = (struct cpu_device *)device;
    int64_t threads = pool_threads(cpu->pool), rows = op->d.shape[0], columns = op->d.shape[1];
    char *room = cpu->workspace;
    struct packed_job job = {
        .op = op,
        .kernel = kernel,
        .a = {.source = {op->a.data, op->a.dtype, op->a.stride[0], op->transpose_a},
              .shape = &kernel->a,
              .rooms = {room, room + room_bytes()}},
        .b = {.source = {op->b.data, op->b.dtype, op->b.stride[0], !op->transpose_b},
              .shape = &kernel->b,
              .rooms = {room + 2 * room_bytes(), room + 3 * room_bytes()}},
        .results = (float *)(void *)(room + 4 * room_bytes()),
    };
    cut_inner(&job);
    cut_rounds(&job, rows, columns);
    cut_blocks(&job, threads);
    int64_t rounds =
        cpu_pieces(job.parts, job.round_parts) * cpu_pieces(rows, job.a.lines) * cpu_pieces(columns, job.b.lines);
    plan_round(&job, 0, threads);
    run_tasks(device, &job, job.next.a_tasks + job.next.b_tasks);
    for (int64_t number = 0; number < rounds; number++) {
        job.now = job.next;
        job.blocks_down = cpu_pieces(job.now.rows.end - job.now.rows.first, job.block_rows);
        job.blocks = job.blocks_down * cpu_pieces(job.now.columns.end - job.now.columns.first, job.block_columns);
        job.next.a_tasks = job.next.b_tasks = 0;
        if (number + 1 < rounds)
            plan_round(&job, number + 1, threads);
        run_tasks(device, &job, job.blocks + job.next.a_tasks + job.next.b_tasks);
    }
}
