// Muon: the update of a matrix is its momentum, made nearly orthogonal by a few steps of a Newton-Schulz iteration. The
// iteration sees the whole matrix on every layout: ranks that hold slices of it gather them first, so the result does
// not depend on tensor parallelism. Each expert is a matrix of its own, which the ranks that hold it update, and so are
// the queries', keys' and values' rows of a packed projection. AdaMuon and NorMuon (adaptive_muon) divide the
// orthogonal matrix by the root of a second moment: of every element or, for NorMuon, of the rows of a tall matrix and
// the columns of a wide one, which leaves its norm as it was. The state has a number for every element in both.
// Everything that is not a matrix between activations has another optimizer, --muon-scalar-optimizer.
#include "optim/optimizer.h"
#include "base/error.h"
#include "base/memory.h"
#include "ops/device.h"
#include "optim/coefficients.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void muon_begin(const struct config *config, double lr, double weight_decay, int64_t t, float rate[RATE_GROUP]) {
    (void)config;
    (void)t;
    rate[FOLLOW_STEP] = (float)lr;
    rate[FOLLOW_DECAY] = (float)(lr * weight_decay);
}

static enum dtype dtype_of(const struct config *config) {
    return strcmp(config->muon_fp32_matmul_prec, "high") == 0 ? DTYPE_F32 : DTYPE_BF16;
}

static int64_t short_side(int64_t M, int64_t N) {
    return M < N ? M : N;
}

// Whether two steps are made at once: if the matrix is so much longer than wide that products of its Gram matrix cost
// less than its own. Only with the rounding of bf16, which bounds how exact either way is, and with steps of moderate
// slope: a steep first one enlarges the rounding of the Gram matrix.
static bool takes_pairs(const struct config *config, int64_t M, int64_t N) {
    int64_t side = short_side(M, N), length = M + N - side;
    return length >= 2 * side && dtype_of(config) == DTYPE_BF16 &&
           coefficients_find(config->muon_coefficient_type)->has_pairs;
}

// What a matrix is divided by if its norm is less.
static const float LEAST_NORM = 1e-15f;

// Matrices on the way to orthogonal ones.
struct iteration {
    struct device *device;
    struct tensor x, next;  // (n, M, N)
    struct tensor gram, p;  // (n, side, side), symmetric
    struct tensor squares;  // (n): sums of squares of x, by whose roots it is still to be divided; none if it was
    bool is_wide;
};

static void multiply_symmetric(const struct iteration *it, struct tensor a, struct tensor b, struct tensor d) {
    op_matmul_many(it->device, &(struct op_matmul_many){.a = a, .b = b, .d = d, .alpha = 1, .is_symmetric = true});
}

// The Gram matrix of the shorter side.
static void make_gram(const struct iteration *it) {
    op_matmul_many(it->device, &(struct op_matmul_many){.a = it->x,
                                                        .b = it->x,
                                                        .d = it->gram,
                                                        .transpose_a = !it->is_wide,
                                                        .transpose_b = it->is_wide,
                                                        .alpha = 1,
                                                        .is_symmetric = true,
                                                        .sum_squares = it->squares,
                                                        .least = LEAST_NORM,
                                                        .is_twice = true});
}

// d = b G + c G^2 of G in it->gram.
static void make_polynomial(const struct iteration *it, struct polynomial step, struct tensor d) {
    op_matmul_many(it->device, &(struct op_matmul_many){.a = it->gram,
                                                        .b = it->gram,
                                                        .d = d,
                                                        .c = it->gram,
                                                        .alpha = step.c,
                                                        .beta = step.b,
                                                        .is_symmetric = true});
}

// x = a x + b p x, with p from the side of the Gram matrix. Then x has been divided by its norm.
static void apply_polynomial(struct iteration *it, struct tensor p, float a, float b) {
    op_matmul_many(it->device, &(struct op_matmul_many){.a = it->is_wide ? p : it->x,
                                                        .b = it->is_wide ? it->x : p,
                                                        .d = it->next,
                                                        .c = it->x,
                                                        .alpha = b,
                                                        .beta = a,
                                                        .sum_squares = it->squares,
                                                        .least = LEAST_NORM});
    struct tensor before = it->x;
    it->x = it->next;
    it->next = before;
    it->squares = (struct tensor){0};
}

static void take_step(struct iteration *it, struct polynomial step) {
    make_gram(it);
    if (step.c == 0) {
        apply_polynomial(it, it->gram, step.a, step.b);
        return;
    }
    make_polynomial(it, step, it->p);
    apply_polynomial(it, it->p, step.a, 1);
}

// Two steps. The first would make P X of X, with P = a + b G + c G^2, and so P G P of the Gram matrix G; the second, by
// its polynomial P' of that, P' P X. Polynomials of one matrix commute, so all of these are symmetric.
static void take_pair(struct iteration *it, struct polynomial first, struct polynomial second) {
    // Where the next x will be there is room for one more of them: x is long.
    struct tensor h = it->gram;
    h.data = it->next.data;
    make_gram(it);
    make_polynomial(it, first, it->p);
    op_add_diagonal(it->device, &(struct op_add_diagonal){.x = it->p, .value = first.a});
    multiply_symmetric(it, it->p, it->gram, h);
    multiply_symmetric(it, it->p, h, it->gram);
    make_polynomial(it, second, h);
    op_add_diagonal(it->device, &(struct op_add_diagonal){.x = h, .value = second.a});
    multiply_symmetric(it, h, it->p, it->gram);
    apply_polynomial(it, it->gram, 0, 1);
}

// Makes every matrix of x (n, M, N) nearly orthogonal, with memory of the arena; returns where the result is, there or
// in x. Squares are those of struct iteration.
static struct tensor orthogonalize(const struct config *config, const struct optimizer_run *run, struct tensor x,
                                   struct tensor squares) {
    int64_t n = x.shape[0], M = x.shape[1], N = x.shape[2], side = short_side(M, N);
    bool is_paired = takes_pairs(config, M, N);
    struct iteration it = {.device = run->device, .x = x, .squares = squares, .is_wide = M <= N};
    it.next = arena_3d(run->scratch, x.dtype, n, M, N);
    it.gram = arena_3d(run->scratch, x.dtype, n, side, side);
    it.p = arena_3d(run->scratch, x.dtype, n, side, side);
    const struct coefficients *set = coefficients_find(config->muon_coefficient_type);
    int64_t count = config->muon_num_ns_steps, i = 0;
    for (; is_paired && i + 1 < count; i += 2)
        take_pair(&it, coefficients_step(set, i), coefficients_step(set, i + 1));
    for (; i < count; i++)
        take_step(&it, coefficients_step(set, i));
    return it.x;
}

// How far an orthogonal update of a whole matrix goes.
static double scale_of(const struct config *config, int64_t rows, int64_t columns) {
    double out = (double)rows, in = (double)columns;
    if (strcmp(config->muon_scale_mode, "shape_scaling") == 0)
        return sqrt(fmax(1, out / in));
    return strcmp(config->muon_scale_mode, "unit_rms_norm") == 0 ? sqrt(out / in) : sqrt(fmax(out, in));
}

// Rows of this rank's slice that belong to a matrix of their own: all, a segment, or those of one of several matrices.
struct matrix_part {
    int64_t first, rows;
};

static int64_t slice_rows(const struct shard *shard) {
    return shard_local_size(shard, shard->rank - 2);
}

static int64_t slice_columns(const struct shard *shard) {
    return shard_local_size(shard, shard->rank - 1);
}

static bool is_split_by_rows(const struct shard *shard) {
    return shard->dimension == shard->rank - 2;
}

// Where the part of a rank's slice lies in the whole matrix.
static struct tensor place_of(const struct shard *shard, struct tensor whole, int rank, struct matrix_part part) {
    int64_t columns = slice_columns(shard);
    return is_split_by_rows(shard) ? tensor_slice(whole, 0, rank * part.rows, part.rows)
                                   : tensor_slice(whole, 1, rank * columns, columns);
}

// Whether it takes a second moment, and whether that is NorMuon's.
static bool is_adaptive(const struct config *config) {
    return strcmp(config->optimizer, "adaptive_muon") == 0;
}

static bool is_normuon(const struct config *config) {
    return strcmp(config->adaptive_muon_moment2_method, "normuon") == 0;
}

static struct tensor zeroed_scalar(const struct optimizer_run *run) {
    struct tensor scalar = arena_1d(run->scratch, DTYPE_F32, 1);
    device_zero(run->device, scalar);
    return scalar;
}

// A matrix that was made orthogonal, in fp32, and this rank's part of it.
struct orthogonal {
    struct tensor whole;  // (M, N)
    struct tensor own;    // (rows, columns), as it is stored
    struct tensor v;      // (rows * columns): the second moment
    struct matrix_part part;
};

// The mean squares of the whole matrix's rows or columns that this rank's elements lie in, (rows, columns).
static struct tensor mean_squares(const struct optimizer_run *run, const struct orthogonal *x) {
    const struct shard *shard = &run->matrix->shard;
    bool is_by_columns = x->whole.shape[0] < x->whole.shape[1];
    struct tensor from = x->whole;
    if (shard_inner_parts(shard) > 1 && is_split_by_rows(shard) != is_by_columns)
        from = place_of(shard, x->whole, shard_inner_part(shard), x->part);
    struct tensor squares = arena_2d(run->scratch, DTYPE_F32, x->own.shape[0], x->own.shape[1]);
    op_mean_squares(run->device, &(struct op_mean_squares){.y = squares, .x = from, .is_by_columns = is_by_columns});
    return squares;
}

// Divides by the root of the second moment. Returns where the result is, flat.
static struct tensor adapt(const struct config *config, const struct optimizer_run *run, const struct orthogonal *x) {
    float epsilon = (float)config->adaptive_muon_eps;
    struct op_adapt op = {.x = tensor_flat(x->own),
                          .v = x->v,
                          .scale = run->scale,
                          .beta2 = (float)config->adaptive_muon_beta2,
                          .epsilon = epsilon};
    if (!is_normuon(config)) {
        op_adapt(run->device, &op);
        return op.x;
    }
    struct tensor before = zeroed_scalar(run), after = zeroed_scalar(run), norm = zeroed_scalar(run);
    op_sum_squares(run->device, &(struct op_sum_squares){.out = before, .x = tensor_flat(x->whole)});
    op.squares = tensor_flat(mean_squares(run, x));
    op.is_bounded = true;
    op_adapt(run->device, &op);
    op_sum_squares(run->device, &(struct op_sum_squares){.out = after, .x = op.x});
    if (shard_inner_parts(&run->matrix->shard) > 1)
        comm_all_reduce(run->slices, after, REDUCE_SUM, "norm of an update");
    // To the norm that it had: over its own, times that.
    op_clip_scale(run->device,
                  &(struct op_clip_scale){.scale = zeroed_scalar(run), .norm = norm, .sum_squares = before});
    op_normalize(run->device,
                 &(struct op_normalize){.y = op.squares, .x = op.x, .sum_squares = after, .least = epsilon});
    op_scale(run->device, &(struct op_scale){.x = op.squares, .factor = 1, .by = norm});
    return op.squares;
}

// One matrix of an update.
struct muon_matrix {
    struct optimizer_run run;  // its part of the parameter's
    struct matrix_part part;
    int64_t M, N;  // of the whole
    bool is_done;
};

// The part of a parameter's run.
static struct optimizer_run part_of(const struct optimizer_run *run, struct matrix_part part) {
    struct optimizer_run own = *run;
    struct tensor *flat[] = {&own.master, &own.copy, &own.grad, &own.states[0], &own.states[1], &own.states[2]};
    int64_t columns = slice_columns(&run->matrix->shard);
    _Static_assert(OPTIMIZER_MOST_STATES == 3, "all states are listed");
    for (size_t i = 0; i < sizeof flat / sizeof flat[0]; i++)
        if (flat[i]->data)
            *flat[i] = tensor_rows(*flat[i], part.first * columns, part.rows * columns);
    return own;
}

// Whether matrices are divided by their norms in the first matmuls, which a device that multiplies many at once does
// without another pass over memory. Rounded to 16 bits before or after that, they are as exact.
static bool is_divided_late(const struct config *config, struct device *device) {
    return device_gains_by_many(device) && dtype_of(config) == DTYPE_BF16;
}

// Moves the momentum on. Sets y to what is followed of this rank's slice, and adds its squares if asked to.
static void move_momentum(const struct config *config, const struct optimizer_run *run, struct tensor y,
                          struct tensor squares) {
    op_momentum(run->device, &(struct op_momentum){.y = y,
                                                   .m = run->states[0],
                                                   .grad = run->grad,
                                                   .scale = run->scale,
                                                   .sum_squares = squares,
                                                   .momentum = (float)config->muon_momentum,
                                                   .is_nesterov = config->muon_nesterov});
}

// The same of the whole matrix (M, N), gathered from all slices, in fp32.
static struct tensor gather_momentum(const struct config *config, const struct muon_matrix *matrix,
                                     struct tensor squares) {
    const struct optimizer_run *run = &matrix->run;
    const struct shard *shard = &run->matrix->shard;
    int64_t count = matrix->part.rows * slice_columns(shard), parts = shard_inner_parts(shard);
    struct tensor gathered = arena_1d(run->scratch, DTYPE_F32, count * parts);
    struct tensor own = tensor_rows(gathered, count * shard_inner_part(shard), count);
    if (parts == 1) {
        move_momentum(config, run, own, squares);
        return tensor_reshape_2d(gathered, matrix->M, matrix->N);
    }
    move_momentum(config, run, own, (struct tensor){0});
    struct comm_request request = comm_all_gather_start(run->slices, gathered, own, "momentum of a matrix");
    comm_wait(&request);
    struct tensor whole = arena_2d(run->scratch, DTYPE_F32, matrix->M, matrix->N);
    for (int i = 0; i < parts; i++)
        op_copy(run->device, &(struct op_copy){.dst = place_of(shard, whole, i, matrix->part),
                                               .src = tensor_reshape_2d(tensor_rows(gathered, i * count, count),
                                                                        matrix->part.rows, slice_columns(shard))});
    op_sum_squares(run->device, &(struct op_sum_squares){.out = squares, .x = tensor_flat(whole)});
    return whole;
}

// Moves the momentum on, and sets x (M, N) to its direction and squares (1), which are 0, to the sum of its squares: of
// length 1, unless it is divided late.
static void direct(const struct config *config, const struct muon_matrix *matrix, struct tensor x,
                   struct tensor squares) {
    const struct optimizer_run *run = &matrix->run;
    bool is_late = is_divided_late(config, run->device);
    if (is_late && shard_inner_parts(&run->matrix->shard) == 1) {
        move_momentum(config, run, tensor_flat(x), squares);
        return;
    }
    size_t mark = arena_mark(run->scratch);
    struct tensor whole = gather_momentum(config, matrix, squares);
    if (is_late)
        op_copy(run->device, &(struct op_copy){.dst = x, .src = whole});
    else
        op_normalize(run->device,
                     &(struct op_normalize){
                         .y = tensor_flat(x), .x = tensor_flat(whole), .sum_squares = squares, .least = LEAST_NORM});
    arena_release(run->scratch, mark);
}

// Moves this rank's part of the weights along x (M, N).
static void follow(const struct config *config, const struct muon_matrix *matrix, struct tensor x) {
    const struct optimizer_run *run = &matrix->run;
    const struct shard *shard = &run->matrix->shard;
    size_t mark = arena_mark(run->scratch);
    bool is_taken = shard_inner_parts(shard) == 1 && !is_adaptive(config);
    struct tensor along = x;
    if (!is_taken) {
        along = arena_2d(run->scratch, DTYPE_F32, matrix->part.rows, slice_columns(shard));
        op_copy(run->device,
                &(struct op_copy){.dst = along, .src = place_of(shard, x, shard_inner_part(shard), matrix->part)});
    }
    if (is_adaptive(config)) {
        struct tensor own = along, whole = own;
        if (shard_inner_parts(shard) > 1) {
            whole = arena_2d(run->scratch, DTYPE_F32, matrix->M, matrix->N);
            op_copy(run->device, &(struct op_copy){.dst = whole, .src = x});
        }
        along = adapt(config, run,
                      &(struct orthogonal){.whole = whole, .own = own, .v = run->states[1], .part = matrix->part});
    }
    double factor = scale_of(config, matrix->M, matrix->N) * config->muon_extra_scale_factor;
    op_follow(run->device, &(struct op_follow){.master = run->master,
                                               .copy = run->copy,
                                               .x = tensor_flat(along),
                                               .scale = run->scale,
                                               .rate = run->rate,
                                               .factor = (float)factor,
                                               .is_decayed = run->is_decayed});
    arena_release(run->scratch, mark);
}

static int64_t matrix_count(const struct config *config, const struct shard *shard) {
    bool is_split = shard->segment_count == 3 && !config->muon_no_split_qkv;
    return shard->rank == 3 ? shard_local_size(shard, 0) : is_split ? shard->segment_count : 1;
}

static struct muon_matrix *list_matrices(const struct config *config, const struct optimizer_run *runs, int64_t count,
                                         int64_t *total) {
    *total = 0;
    for (int64_t i = 0; i < count; i++)
        *total += matrix_count(config, &runs[i].matrix->shard);
    struct muon_matrix *list = memory_alloc(sizeof *list * (size_t)*total), *next = list;
    for (int64_t i = 0; i < count; i++) {
        const struct shard *shard = &runs[i].matrix->shard;
        bool is_split = shard->rank != 3 && matrix_count(config, shard) > 1;
        struct matrix_part part = {.rows = slice_rows(shard)};
        for (int64_t m = 0; m < matrix_count(config, shard); m++, next++) {
            if (is_split)
                part.rows = shard->segments[m] / shard_inner_parts(shard);
            *next =
                (struct muon_matrix){.run = part_of(&runs[i], part),
                                     .part = part,
                                     .M = is_split_by_rows(shard) ? part.rows * shard_inner_parts(shard) : part.rows,
                                     .N = shard->global[shard->rank - 1]};
            part.first += part.rows;
        }
    }
    return list;
}

// How many matrices of this shape are made orthogonal together: one, or on a device that gains by more as many as fit
// into a gigabyte beside their powers. If states visit the device, no more than it has room for. The bits of a matrix
// do not depend on it.
static int64_t most_together(const struct config *config, const struct muon_matrix *matrix) {
    const struct optimizer_run *run = &matrix->run;
    if (!device_gains_by_many(run->device) || dtype_of(config) == DTYPE_F32)
        return 1;
    int64_t side = short_side(matrix->M, matrix->N), own = tensor_count(run->grad);
    int64_t most = ((int64_t)1 << 30) / (2 * (2 * matrix->M * matrix->N + 2 * side * side));
    if (run->offload && own > 0 && run->optimizer->hosted_piece / own < most)
        most = run->optimizer->hosted_piece / own;
    return most < 1 ? 1 : most > OPTIMIZER_MOST_TOGETHER ? OPTIMIZER_MOST_TOGETHER : most;
}

// Scales down rows of the matrix, see model/qk_clip.h.
static void clip_rows(const struct muon_matrix *matrix) {
    const struct optimizer_run *run = &matrix->run;
    const struct param *param = run->matrix;
    int64_t columns = slice_columns(&param->shard);
    for (int i = 0; i < param->clip_count; i++) {
        const struct param_clip *clip = &param->clips[i];
        int64_t row = clip->first_row - matrix->part.first, rows = clip->units * clip->unit_rows;
        if (row < 0 || row >= matrix->part.rows)
            continue;
        CHECK(row + rows <= matrix->part.rows);
        int64_t first = row * columns, count = rows * columns;
        op_clip_rows(run->device,
                     &(struct op_clip_rows){.master = tensor_rows(run->master, first, count),
                                            .copy = run->copy.data ? tensor_rows(run->copy, first, count) : run->copy,
                                            .largest = tensor_rows(*clip->largest, clip->first_head, clip->heads),
                                            .scale = run->scale,
                                            .columns = columns,
                                            .unit_rows = clip->unit_rows,
                                            .first = clip->first,
                                            .count = clip->count,
                                            .threshold = (float)clip->threshold,
                                            .power = (float)clip->power});
    }
}

// Updates matrices of one shape, which are made orthogonal together.
static void update_alike(const struct config *config, struct muon_matrix *const *alike, int64_t n) {
    const struct optimizer_run *run = &alike[0]->run;
    struct optimizer_run *visitors[OPTIMIZER_MOST_TOGETHER];
    for (int64_t i = 0; i < n; i++)
        visitors[i] = &alike[i]->run;
    optimizer_bring(visitors, n);
    size_t mark = arena_mark(run->scratch);
    struct tensor x = arena_3d(run->scratch, dtype_of(config), n, alike[0]->M, alike[0]->N);
    struct tensor squares = arena_1d(run->scratch, DTYPE_F32, n);
    device_zero(run->device, squares);
    for (int64_t i = 0; i < n; i++)
        direct(config, alike[i], tensor_reshape_2d(tensor_rows(x, i, 1), x.shape[1], x.shape[2]),
               tensor_rows(squares, i, 1));
    x = orthogonalize(config, run, x, is_divided_late(config, run->device) ? squares : (struct tensor){0});
    for (int64_t i = 0; i < n; i++) {
        follow(config, alike[i], tensor_reshape_2d(tensor_rows(x, i, 1), x.shape[1], x.shape[2]));
        clip_rows(alike[i]);
        alike[i]->is_done = true;
    }
    arena_release(run->scratch, mark);
    optimizer_return(visitors, n);
}

static void muon_apply_all(const struct config *config, const struct optimizer_run *runs, int64_t count) {
    int64_t total;
    struct muon_matrix *list = list_matrices(config, runs, count, &total);
    for (int64_t first = 0; first < total; first++) {
        if (list[first].is_done)
            continue;
        struct muon_matrix *alike[OPTIMIZER_MOST_TOGETHER] = {&list[first]};
        int64_t n = 1, most = most_together(config, &list[first]);
        for (int64_t i = first + 1; i < total && n < most; i++)
            if (!list[i].is_done && list[i].M == list[first].M && list[i].N == list[first].N)
                alike[n++] = &list[i];
        update_alike(config, alike, n);
    }
    free(list);
}

const struct optimizer_rule optimizer_muon = {.name = "muon",
                                              .states = {"momentum_buffer"},
                                              .takes_matrices = true,
                                              .leaves_rest = true,
                                              .begin = muon_begin,
                                              .apply_all = muon_apply_all};

const struct optimizer_rule optimizer_adaptive_muon = {.name = "adaptive_muon",
                                                       .states = {"momentum_buffer", "moment2_buffer"},
                                                       .takes_matrices = true,
                                                       .leaves_rest = true,
                                                       .begin = muon_begin,
                                                       .apply_all = muon_apply_all};
