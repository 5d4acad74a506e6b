// Muon: the update of a matrix is its momentum, made nearly orthogonal by a few steps of a Newton-Schulz iteration. The
// iteration works on whole matrices on every layout: ranks that hold slices of matrices share out the matrices, see
// muon_shared.c, so the result does not depend on tensor parallelism. Replicas share them out too, see muon_replicas.c.
// Each expert is a separate matrix, updated by the ranks that hold it, and so are the queries', keys' and values' rows
// of a packed projection. AdaMuon and NorMuon (adaptive_muon) divide the orthogonal matrix by the root of a second
// moment: of every element or, for NorMuon, of the rows of a tall matrix and the columns of a wide one, and restore its
// norm. The state has a number for every element in both. Everything but matrices between activations uses
// --muon-scalar-optimizer.
#include "optim/muon.h"
#include "base/error.h"
#include "base/memory.h"
#include "ops/device.h"
#include "optim/newton_schulz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void muon_begin(const struct config *config, double lr, double weight_decay, int64_t t, float rate[RATE_GROUP]) {
    (void)config;
    (void)t;
    rate[FOLLOW_STEP] = (float)lr;
    rate[FOLLOW_DECAY] = (float)(lr * weight_decay);
}

// Scale of an orthogonal update of a whole matrix.
static double scale_of(const struct config *config, int64_t rows, int64_t columns) {
    double out = (double)rows, in = (double)columns;
    if (strcmp(config->run.muon_scale_mode, "shape_scaling") == 0)
        return sqrt(fmax(1, out / in));
    return strcmp(config->run.muon_scale_mode, "unit_rms_norm") == 0 ? sqrt(out / in) : sqrt(fmax(out, in));
}

static int64_t slice_rows(const struct shard *shard) {
    return shard_local_size(shard, shard->rank - 2);
}

static bool is_split_by_rows(const struct shard *shard) {
    return shard->dimension == shard->rank - 2;
}

int64_t muon_columns(const struct muon_matrix *matrix) {
    const struct shard *shard = &matrix->run.matrix->shard;
    return shard_local_size(shard, shard->rank - 1);
}

bool muon_is_split(const struct muon_matrix *matrix) {
    return shard_inner_parts(&matrix->run.matrix->shard) > 1;
}

bool muon_slices_follow(const struct muon_matrix *matrix) {
    return is_split_by_rows(&matrix->run.matrix->shard);
}

struct tensor muon_place(const struct muon_matrix *matrix, struct tensor whole, int rank) {
    int64_t rows = matrix->part.rows, columns = muon_columns(matrix);
    return is_split_by_rows(&matrix->run.matrix->shard) ? tensor_slice(whole, 0, rank * rows, rows)
                                                        : tensor_slice(whole, 1, rank * columns, columns);
}

// ---- second moments ----

static bool is_adaptive(const struct config *config) {
    return strcmp(config->run.optimizer, "adaptive_muon") == 0;
}

bool muon_keeps_norm(const struct config *config) {
    return is_adaptive(config) && strcmp(config->run.adaptive_muon_moment2_method, "normuon") == 0;
}

static bool has_means_of_columns(const struct muon_matrix *matrix) {
    return matrix->M < matrix->N;
}

bool muon_needs_means(const struct muon_matrix *matrix) {
    return muon_is_split(matrix) && is_split_by_rows(&matrix->run.matrix->shard) == has_means_of_columns(matrix);
}

void muon_mean_squares(const struct muon_matrix *matrix, struct tensor y, struct tensor x) {
    op_mean_squares(matrix->run.device,
                    &(struct op_mean_squares){.y = y, .x = x, .is_by_columns = has_means_of_columns(matrix)});
}

static struct tensor zeroed_scalar(const struct optimizer_run *run) {
    struct tensor scalar = arena_1d(run->scratch, DTYPE_F32, 1);
    device_zero(run->device, scalar);
    return scalar;
}

// Returns the matrix in fp32.
static struct tensor widen(const struct optimizer_run *run, struct tensor x) {
    if (x.dtype == DTYPE_F32)
        return x;
    struct tensor wide = arena_2d(run->scratch, DTYPE_F32, x.shape[0], x.shape[1]);
    op_copy(run->device, &(struct op_copy){.dst = wide, .src = x});
    return wide;
}

// Divides x (n) fp32 by the root of the second moment.
static void divide(const struct config *config, const struct optimizer_run *run, struct tensor x,
                   struct tensor squares) {
    op_adapt(run->device, &(struct op_adapt){.x = x,
                                             .v = run->states[1],
                                             .squares = squares,
                                             .scale = run->scale,
                                             .beta2 = (float)config->run.adaptive_muon_beta2,
                                             .epsilon = (float)config->run.adaptive_muon_eps,
                                             .is_bounded = squares.data != NULL});
}

void muon_adapt(const struct config *config, const struct muon_matrix *matrix, struct muon_piece *piece) {
    const struct optimizer_run *run = &matrix->run;
    piece->own = widen(run, piece->own);
    if (!piece->before.data) {
        piece->before = zeroed_scalar(run);
        op_sum_squares(run->device, &(struct op_sum_squares){.out = piece->before, .x = tensor_flat(piece->own)});
    }
    size_t mark = arena_mark(run->scratch);
    struct tensor squares = piece->squares;
    if (!squares.data) {
        squares = arena_2d(run->scratch, DTYPE_F32, piece->own.shape[0], piece->own.shape[1]);
        muon_mean_squares(matrix, squares, piece->own);
    }
    divide(config, run, tensor_flat(piece->own), tensor_flat(squares));
    op_sum_squares(run->device, &(struct op_sum_squares){.out = piece->after, .x = tensor_flat(piece->own)});
    arena_release(run->scratch, mark);
}

// Rescales the piece to its norm before the division.
static void restore_norm(const struct config *config, const struct optimizer_run *run, const struct muon_piece *piece) {
    struct tensor x = tensor_flat(piece->own), norm = zeroed_scalar(run);
    op_clip_scale(run->device,
                  &(struct op_clip_scale){.scale = zeroed_scalar(run), .norm = norm, .sum_squares = piece->before});
    op_normalize(run->device,
                 &(struct op_normalize){
                     .y = x, .x = x, .sum_squares = piece->after, .least = (float)config->run.adaptive_muon_eps});
    op_scale(run->device, &(struct op_scale){.x = x, .factor = 1, .by = norm});
}

// ---- an update ----

// The run of one part of a parameter.
static struct optimizer_run part_of(const struct optimizer_run *run, struct matrix_part part) {
    struct optimizer_run own = *run;
    struct tensor *flat[] = {&own.master, &own.copy, &own.grad, &own.states[0], &own.states[1], &own.states[2]};
    int64_t columns = shard_local_size(&run->matrix->shard, run->matrix->shard.rank - 1);
    _Static_assert(OPTIMIZER_MOST_STATES == 3, "all states are listed");
    for (size_t i = 0; i < sizeof flat / sizeof flat[0]; i++)
        if (flat[i]->data)
            *flat[i] = tensor_rows(*flat[i], part.first * columns, part.rows * columns);
    return own;
}

void muon_move_momentum(const struct config *config, const struct muon_matrix *matrix, struct tensor y,
                        struct tensor squares) {
    const struct optimizer_run *run = &matrix->run;
    op_momentum(run->device, &(struct op_momentum){.y = y,
                                                   .m = run->states[0],
                                                   .grad = run->grad,
                                                   .scale = run->scale,
                                                   .sum_squares = squares,
                                                   .momentum = (float)config->run.muon_momentum,
                                                   .is_nesterov = config->run.muon_nesterov});
}

// Scales down rows of the matrix, see model/qk_clip.h.
static void clip_rows(const struct muon_matrix *matrix) {
    const struct optimizer_run *run = &matrix->run;
    const struct param *param = run->matrix;
    int64_t columns = muon_columns(matrix);
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

enum dtype muon_result_dtype(const struct config *config) {
    return muon_keeps_norm(config) ? DTYPE_F32 : newton_schulz_dtype(config);
}

void muon_follow(const struct config *config, const struct muon_matrix *matrix, struct tensor x) {
    const struct optimizer_run *run = &matrix->run;
    size_t mark = arena_mark(run->scratch);
    if (is_adaptive(config) && !muon_keeps_norm(config)) {
        x = widen(run, x);
        divide(config, run, tensor_flat(x), (struct tensor){0});
    }
    double factor = scale_of(config, matrix->M, matrix->N) * config->run.muon_extra_scale_factor;
    op_follow(run->device, &(struct op_follow){.master = run->master,
                                               .copy = run->copy,
                                               .x = tensor_flat(x),
                                               .scale = run->scale,
                                               .rate = run->rate,
                                               .factor = (float)factor,
                                               .is_decayed = run->is_decayed});
    clip_rows(matrix);
    arena_release(run->scratch, mark);
}

void muon_deliver(const struct config *config, const struct muon_matrix *matrix, const struct muon_piece *piece) {
    size_t mark = arena_mark(matrix->run.scratch);
    if (muon_keeps_norm(config))
        restore_norm(config, &matrix->run, piece);
    if (matrix->bundle)
        replicas_keep(matrix, piece->own);
    else
        muon_follow(config, matrix, piece->own);
    arena_release(matrix->run.scratch, mark);
}

void muon_direct(const struct config *config, const struct muon_matrix *matrix, struct tensor x, struct tensor y,
                 struct tensor squares) {
    struct device *device = matrix->run.device;
    if (newton_schulz_divides(config, device))
        op_copy(device, &(struct op_copy){.dst = x, .src = y});
    else
        op_normalize(device, &(struct op_normalize){.y = tensor_flat(x),
                                                    .x = tensor_flat(y),
                                                    .sum_squares = squares,
                                                    .least = NEWTON_SCHULZ_LEAST});
}

struct tensor muon_orthogonalize(const struct config *config, const struct optimizer_run *run, struct tensor x,
                                 struct tensor squares) {
    bool is_late = newton_schulz_divides(config, run->device);
    return newton_schulz(config, &(struct newton_schulz){.device = run->device,
                                                         .scratch = run->scratch,
                                                         .x = x,
                                                         .squares = is_late ? squares : (struct tensor){0}});
}

int64_t muon_most_together(const struct config *config, const struct muon_matrix *matrix) {
    const struct optimizer_run *run = &matrix->run;
    int64_t own = tensor_count(run->grad), most = newton_schulz_together(config, run->device, matrix->M, matrix->N);
    if (run->offload && own > 0 && run->optimizer->hosted_piece / own < most)
        most = run->optimizer->hosted_piece / own;
    return most < 1 ? 1 : most > OPTIMIZER_MOST_TOGETHER ? OPTIMIZER_MOST_TOGETHER : most;
}

// ---- matrices held whole by one rank ----

static struct tensor matrix_of(struct tensor x, int64_t i) {
    return tensor_reshape_2d(tensor_rows(x, i, 1), x.shape[1], x.shape[2]);
}

// Updates the momentum. Sets x (M, N) to its direction, of norm 1 unless it is divided late, and squares (1), zero
// before, to the sum of its squares.
static void direct_alone(const struct config *config, const struct muon_matrix *matrix, struct tensor x,
                         struct tensor squares) {
    const struct optimizer_run *run = &matrix->run;
    if (newton_schulz_divides(config, run->device)) {
        muon_move_momentum(config, matrix, tensor_flat(x), squares);
        return;
    }
    size_t mark = arena_mark(run->scratch);
    struct tensor y = arena_2d(run->scratch, DTYPE_F32, matrix->M, matrix->N);
    muon_move_momentum(config, matrix, tensor_flat(y), squares);
    muon_direct(config, matrix, x, y, squares);
    arena_release(run->scratch, mark);
}

static void deliver_alone(const struct config *config, const struct muon_matrix *matrix, struct tensor x) {
    const struct optimizer_run *run = &matrix->run;
    size_t mark = arena_mark(run->scratch);
    struct muon_piece piece = {.own = x};
    if (muon_keeps_norm(config)) {
        piece.after = zeroed_scalar(run);
        muon_adapt(config, matrix, &piece);
    }
    muon_deliver(config, matrix, &piece);
    arena_release(run->scratch, mark);
}

// Updates matrices of one shape, orthogonalized together.
static void update_alike(const struct config *config, struct muon_matrix *const *alike, int64_t n) {
    const struct optimizer_run *run = &alike[0]->run;
    struct optimizer_run *visitors[OPTIMIZER_MOST_TOGETHER];
    for (int64_t i = 0; i < n; i++)
        visitors[i] = &alike[i]->run;
    optimizer_bring(visitors, n);
    size_t mark = arena_mark(run->scratch);
    struct tensor x = arena_3d(run->scratch, newton_schulz_dtype(config), n, alike[0]->M, alike[0]->N);
    struct tensor squares = arena_1d(run->scratch, DTYPE_F32, n);
    device_zero(run->device, squares);
    for (int64_t i = 0; i < n; i++)
        direct_alone(config, alike[i], matrix_of(x, i), tensor_rows(squares, i, 1));
    x = muon_orthogonalize(config, run, x, squares);
    for (int64_t i = 0; i < n; i++) {
        deliver_alone(config, alike[i], matrix_of(x, i));
        alike[i]->is_done = true;
    }
    arena_release(run->scratch, mark);
    if (!alike[0]->bundle)
        optimizer_return(visitors, n);
}

static void update_alone(const struct config *config, struct muon_matrix *list, int64_t total) {
    for (int64_t first = 0; first < total; first++) {
        if (list[first].is_done)
            continue;
        struct muon_matrix *alike[OPTIMIZER_MOST_TOGETHER] = {&list[first]};
        int64_t n = 1, most = muon_most_together(config, &list[first]);
        for (int64_t i = first + 1; i < total && n < most; i++)
            if (!list[i].is_done && list[i].M == list[first].M && list[i].N == list[first].N)
                alike[n++] = &list[i];
        update_alike(config, alike, n);
    }
}

static int64_t matrix_count(const struct config *config, const struct shard *shard) {
    bool is_split = shard->segment_count == 3 && !config->run.muon_no_split_qkv;
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

// Moves the matrices that have the same sharers as the first next to it, and returns their end.
static int64_t gather_sharers(struct muon_matrix *list, int64_t first, int64_t total) {
    int64_t end = first + 1;
    for (int64_t i = end; i < total; i++)
        if (list[i].run.slices == list[first].run.slices) {
            struct muon_matrix other = list[end];
            list[end++] = list[i];
            list[i] = other;
        }
    return end;
}

static void update_list(const struct config *config, struct muon_matrix *list, int64_t total) {
    if (total > 0 && optimizer_has_sharers(&list[0].run))
        muon_update_shared(config, list, total);
    else
        update_alone(config, list, total);
}

static void update_own(const struct config *config, const struct muon_matrix *list, int64_t total) {
    struct arena *scratch = list[0].run.scratch;
    size_t mark = arena_mark(scratch);
    struct muon_replicas replicas;
    replicas_open(&replicas, config, list, total);
    update_list(config, replicas.list, replicas.own_count);
    replicas_close(&replicas);
    arena_release(scratch, mark);
}

static void muon_apply_all(const struct config *config, const struct optimizer_run *runs, int64_t count) {
    int64_t total;
    struct muon_matrix *list = list_matrices(config, runs, count, &total);
    for (int64_t first = 0, end; first < total; first = end) {
        end = gather_sharers(list, first, total);
        if (replicas_share(&list[first].run))
            update_own(config, list + first, end - first);
        else
            update_list(config, list + first, end - first);
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
