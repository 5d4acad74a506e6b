// Checked entry points of what a training step needs around the layers: loss, sums, the optimizer, copies. Each
// verifies the contract written beside its struct in ops.h, then calls the device's table.
#include "ops/check.h"
#include "tensor/moment8.h"

void op_softmax_stats(struct device *device, const struct op_softmax_stats *op) {
    const char *name = "op_softmax_stats";
    check_activation(device, name, "logits", op->logits, 2);
    int64_t rows = op->logits.shape[0], columns = op->logits.shape[1];
    struct tensor vector = check_1d(DTYPE_F32, rows);
    check_rule(name, columns >= 1, "the vocabulary must not be empty");
    check_tensor(name, "logits", op->logits, check_2d(op->logits.dtype, rows, columns));
    check_tensor(name, "row_max", op->row_max, vector);
    check_tensor(name, "row_sum", op->row_sum, vector);
    check_tensor(name, "row_target", op->row_target, vector);
    check_tensor(name, "labels", op->labels, check_1d(DTYPE_I32, rows));
    device->ops->softmax_stats(device, op);
}

void op_softmax_merge(struct device *device, const struct op_softmax_merge *op) {
    const char *name = "op_softmax_merge";
    check_rule(name, op->parts.rank == 3 && op->parts.shape[0] >= 1, "parts must be (P, 3, N)");
    int64_t rows = op->parts.shape[2];
    struct tensor vector = check_1d(DTYPE_F32, rows);
    check_rule(name, op->parts.dtype == DTYPE_F32 && op->parts.shape[1] == 3 && tensor_is_contiguous(op->parts),
               "parts must be (P, 3, N) fp32, contiguous");
    check_tensor(name, "row_max", op->row_max, vector);
    check_tensor(name, "row_sum", op->row_sum, vector);
    check_tensor(name, "row_target", op->row_target, vector);
    device->ops->softmax_merge(device, op);
}

void op_cross_entropy(struct device *device, const struct op_cross_entropy *op) {
    const char *name = "op_cross_entropy";
    check_activation(device, name, "logits", op->logits, 2);
    int64_t rows = op->logits.shape[0], columns = op->logits.shape[1];
    struct tensor vector = check_1d(DTYPE_F32, rows);
    check_tensor(name, "logits", op->logits, check_2d(op->logits.dtype, rows, columns));
    check_tensor(name, "losses", op->losses, vector);
    check_tensor(name, "row_max", op->row_max, vector);
    check_tensor(name, "row_sum", op->row_sum, vector);
    check_tensor(name, "row_target", op->row_target, vector);
    check_tensor(name, "labels", op->labels, check_1d(DTYPE_I32, rows));
    check_optional(name, "weights", op->weights, vector);
    if (op->makes_stats && !device->ops->fuses_stats)
        op_softmax_stats(device, &(struct op_softmax_stats){.row_max = op->row_max,
                                                            .row_sum = op->row_sum,
                                                            .row_target = op->row_target,
                                                            .logits = op->logits,
                                                            .labels = op->labels,
                                                            .vocabulary_start = op->vocabulary_start});
    device->ops->cross_entropy(device, op);
}

void op_softcap(struct device *device, const struct op_softcap *op) {
    const char *name = "op_softcap";
    check_activation(device, name, "x", op->x, 2);
    check_tensor(name, "x", op->x, check_2d(op->x.dtype, op->x.shape[0], op->x.shape[1]));
    check_rule(name, op->cap > 0, "a cap is above 0");
    device->ops->softcap(device, op);
}

void op_top_hits(struct device *device, const struct op_top_hits *op) {
    const char *name = "op_top_hits";
    check_rule(name, op->logits.rank == 2 && op->count >= 1 && op->count <= OPS_MOST_TOPS,
               "logits must be (N, V), and there must be 1 to OPS_MOST_TOPS tops");
    int64_t rows = op->logits.shape[0];
    check_tensor(name, "logits", op->logits, check_2d(DTYPE_F32, rows, op->logits.shape[1]));
    check_tensor(name, "labels", op->labels, check_1d(DTYPE_I32, rows));
    check_tensor(name, "hits", op->hits, check_1d(DTYPE_F32, op->count));
    device->ops->top_hits(device, op);
}

void op_column_sum(struct device *device, const struct op_column_sum *op) {
    const char *name = "op_column_sum";
    check_activation(device, name, "x", op->x, 2);
    check_tensor(name, "x", op->x, check_2d(op->x.dtype, op->x.shape[0], op->x.shape[1]));
    check_tensor(name, "out", op->out, check_1d(DTYPE_F32, op->x.shape[1]));
    check_apart(name, "out", op->out, "x", op->x);
    device->ops->column_sum(device, op);
}

void op_dot(struct device *device, const struct op_dot *op) {
    const char *name = "op_dot";
    int64_t count = tensor_count(op->a);
    check_flat(name, "a", op->a, count);
    check_flat(name, "b", op->b, count);
    check_tensor(name, "out", op->out, check_1d(DTYPE_F32, 1));
    device->ops->dot(device, op);
}

void op_sum_squares(struct device *device, const struct op_sum_squares *op) {
    const char *name = "op_sum_squares";
    check_flat(name, "x", op->x, tensor_count(op->x));
    check_tensor(name, "out", op->out, check_1d(DTYPE_F32, 1));
    device->ops->sum_squares(device, op);
}

void op_digest(struct device *device, const struct op_digest *op) {
    const char *name = "op_digest";
    check_rule(name, op->x.data && tensor_is_contiguous(op->x), "x must be there and contiguous");
    check_tensor(name, "out", op->out, check_1d(DTYPE_I64, 1));
    check_apart(name, "out", op->out, "x", op->x);
    device->ops->digest(device, op);
}

void op_clip_scale(struct device *device, const struct op_clip_scale *op) {
    const char *name = "op_clip_scale";
    check_tensor(name, "scale", op->scale, check_1d(DTYPE_F32, 1));
    check_tensor(name, "norm", op->norm, check_1d(DTYPE_F32, 1));
    check_tensor(name, "sum_squares", op->sum_squares, check_1d(DTYPE_F32, 1));
    if (op->loss_scale.data)
        check_tensor(name, "loss_scale", op->loss_scale, check_1d(DTYPE_F32, LOSS_SCALE_LENGTH));
    if (op->rate.data) {
        check_tensor(name, "rate", op->rate, check_1d(DTYPE_F32, tensor_count(op->rate)));
        check_tensor(name, "rates", op->rates, check_2d(DTYPE_F32, op->rates.shape[0], tensor_count(op->rate)));
        check_tensor(name, "skipped", op->skipped, check_1d(DTYPE_F32, 1));
    }
    device->ops->clip_scale(device, op);
}

// What updates have in common: the master, in fp32 or in halves, its copy, the gradient, scale and rate.
static void check_update(struct device *device, const char *name, const struct op_sgd *op) {
    int64_t count = tensor_count(op->master);
    if (op->master.dtype == DTYPE_I16) {
        check_tensor(name, "master", op->master, check_1d(DTYPE_I16, count));
        check_tensor(name, "copy", op->copy, check_1d(DTYPE_BF16, count));
    } else {
        check_flat(name, "master", op->master, count);
    }
    check_flat(name, "grad", op->grad, count);
    check_flat(name, "m", op->m, count);
    check_tensor(name, "scale", op->scale, check_1d(DTYPE_F32, 1));
    check_tensor(name, "rate", op->rate, check_1d(DTYPE_F32, RATE_GROUP));
    if (op->copy.data) {
        check_activation(device, name, "copy", op->copy, 1);
        check_tensor(name, "copy", op->copy, check_1d(op->copy.dtype, count));
        check_apart(name, "copy", op->copy, "master", op->master);
    }
}

static void check_moment(const char *name, const char *which, struct tensor moment, struct tensor exponents) {
    check_rule(name, moment.dtype == DTYPE_F32 || moment.dtype == DTYPE_BF16 || moment.dtype == DTYPE_U8,
               "moments must be fp32, bf16 or uint8");
    if (moment.dtype == DTYPE_U8)
        check_tensor(name, which, exponents,
                     check_1d(DTYPE_U8, (tensor_count(moment) + MOMENT8_SHARE - 1) / MOMENT8_SHARE));
}

void op_adam(struct device *device, const struct op_adam *op) {
    const char *name = "op_adam";
    check_update(device, name,
                 &(struct op_sgd){.master = op->master,
                                  .copy = op->copy,
                                  .grad = op->grad,
                                  .m = op->grad,
                                  .scale = op->scale,
                                  .rate = op->rate});
    check_tensor(name, "m", op->m, check_1d(op->m.dtype, tensor_count(op->master)));
    check_tensor(name, "v", op->v, check_1d(op->v.dtype, tensor_count(op->master)));
    check_moment(name, "exponents of m", op->m, op->m_exponents);
    check_moment(name, "exponents of v", op->v, op->v_exponents);
    check_rule(name, op->beta1 >= 0 && op->beta1 < 1 && op->beta2 >= 0 && op->beta2 < 1,
               "beta1 and beta2 must be at least 0 and below 1");
    device->ops->adam(device, op);
}

void op_sgd(struct device *device, const struct op_sgd *op) {
    check_update(device, "op_sgd", op);
    check_rule("op_sgd", op->momentum >= 0 && op->momentum < 1, "momentum must be at least 0 and below 1");
    device->ops->sgd(device, op);
}

void op_lion(struct device *device, const struct op_lion *op) {
    const char *name = "op_lion";
    check_update(device, name,
                 &(struct op_sgd){.master = op->master,
                                  .copy = op->copy,
                                  .grad = op->grad,
                                  .m = op->m,
                                  .scale = op->scale,
                                  .rate = op->rate});
    check_rule(name, op->beta1 >= 0 && op->beta1 < 1 && op->beta2 >= 0 && op->beta2 < 1,
               "beta1 and beta2 must be at least 0 and below 1");
    device->ops->lion(device, op);
}

static void check_halves(const char *name, struct tensor x, struct tensor value, struct tensor rest) {
    int64_t count = tensor_count(x);
    check_flat(name, "x", x, count);
    check_tensor(name, "value", value, check_1d(DTYPE_BF16, count));
    check_tensor(name, "rest", rest, check_1d(DTYPE_I16, count));
    check_apart(name, "value", value, "x", x);
    check_apart(name, "rest", rest, "x", x);
    check_apart(name, "rest", rest, "value", value);
}

void op_split(struct device *device, const struct op_split *op) {
    check_halves("op_split", op->x, op->value, op->rest);
    device->ops->split(device, op);
}

void op_merge(struct device *device, const struct op_merge *op) {
    check_halves("op_merge", op->x, op->value, op->rest);
    device->ops->merge(device, op);
}

static bool is_float(enum dtype dtype) {
    return dtype == DTYPE_F32 || dtype == DTYPE_BF16 || dtype == DTYPE_F16;
}

void op_momentum(struct device *device, const struct op_momentum *op) {
    const char *name = "op_momentum";
    int64_t count = tensor_count(op->m);
    check_flat(name, "m", op->m, count);
    check_flat(name, "grad", op->grad, count);
    check_tensor(name, "y", op->y, check_1d(op->y.dtype, count));
    check_rule(name, is_float(op->y.dtype), "y must be of a float dtype");
    check_tensor(name, "scale", op->scale, check_1d(DTYPE_F32, 1));
    check_apart(name, "y", op->y, "m", op->m);
    check_apart(name, "y", op->y, "grad", op->grad);
    if (op->sum_squares.data)
        check_tensor(name, "sum_squares", op->sum_squares, check_1d(DTYPE_F32, 1));
    check_rule(name, op->momentum >= 0 && op->momentum < 1, "momentum must be at least 0 and below 1");
    device->ops->momentum(device, op);
}

void op_normalize(struct device *device, const struct op_normalize *op) {
    const char *name = "op_normalize";
    int64_t count = tensor_count(op->x);
    if (op->x.data != op->y.data)
        check_flat(name, "x", op->x, count);
    check_tensor(name, "y", op->y, check_1d(op->y.dtype, count));
    check_tensor(name, "sum_squares", op->sum_squares, check_1d(DTYPE_F32, 1));
    check_rule(name, is_float(op->y.dtype), "y must be of a float dtype");
    check_rule(name, op->least > 0, "least must be above 0");
    check_apart_or_same(name, "y", op->y, "x", op->x);
    device->ops->normalize(device, op);
}

void op_add_diagonal(struct device *device, const struct op_add_diagonal *op) {
    const char *name = "op_add_diagonal";
    check_tensor(name, "x", op->x, check_3d(op->x.dtype, op->x.shape[0], op->x.shape[1], op->x.shape[1]));
    check_rule(name, is_float(op->x.dtype), "x must be of a float dtype");
    device->ops->add_diagonal(device, op);
}

void op_mean_squares(struct device *device, const struct op_mean_squares *op) {
    const char *name = "op_mean_squares";
    int64_t M = op->y.shape[0], N = op->y.shape[1];
    check_tensor(name, "y", op->y, check_2d(DTYPE_F32, M, N));
    struct tensor x =
        op->is_by_columns ? check_2d(DTYPE_F32, op->x.shape[0], N) : check_2d(DTYPE_F32, M, op->x.shape[1]);
    check_strided(name, "x", op->x, x);
    check_rule(name, op->x.shape[0] > 0 && op->x.shape[1] > 0, "x must not be empty");
    check_apart(name, "y", op->y, "x", op->x);
    device->ops->mean_squares(device, op);
}

void op_adapt(struct device *device, const struct op_adapt *op) {
    const char *name = "op_adapt";
    int64_t count = tensor_count(op->x);
    check_flat(name, "x", op->x, count);
    check_flat(name, "v", op->v, count);
    if (op->squares.data)
        check_flat(name, "squares", op->squares, count);
    check_tensor(name, "scale", op->scale, check_1d(DTYPE_F32, 1));
    check_apart(name, "v", op->v, "x", op->x);
    check_rule(name, op->beta2 >= 0 && op->beta2 < 1, "beta2 must be at least 0 and below 1");
    device->ops->adapt(device, op);
}

void op_follow(struct device *device, const struct op_follow *op) {
    const char *name = "op_follow";
    struct tensor x = op->x;
    check_rule(name, x.dtype == DTYPE_F32 || x.dtype == DTYPE_BF16, "x must be fp32 or bf16");
    check_apart(name, "master", op->master, "x", x);
    x.dtype = DTYPE_F32;
    check_update(device, name,
                 &(struct op_sgd){
                     .master = op->master, .copy = op->copy, .grad = x, .m = x, .scale = op->scale, .rate = op->rate});
    device->ops->follow(device, op);
}

void op_average(struct device *device, const struct op_average *op) {
    const char *name = "op_average";
    struct tensor average = op->average;
    check_update(device, name,
                 &(struct op_sgd){.master = op->master,
                                  .copy = op->copy,
                                  .grad = average,
                                  .m = average,
                                  .scale = op->scale,
                                  .rate = tensor_1d(op->scale.data, DTYPE_F32, RATE_GROUP)});
    check_apart(name, "average", average, "master", op->master);
    check_rule(name, op->decay >= 0 && op->decay < 1, "decay must be at least 0 and below 1");
    device->ops->average(device, op);
}

void op_clip_rows(struct device *device, const struct op_clip_rows *op) {
    const char *name = "op_clip_rows";
    int64_t count = tensor_count(op->master), unit = op->unit_rows * op->columns, heads = tensor_count(op->largest);
    struct tensor other = tensor_1d(op->scale.data, DTYPE_F32, count);
    check_update(device, name,
                 &(struct op_sgd){.master = op->master,
                                  .copy = op->copy,
                                  .grad = other,
                                  .m = other,
                                  .scale = op->scale,
                                  .rate = tensor_1d(op->scale.data, DTYPE_F32, RATE_GROUP)});
    check_flat(name, "largest", op->largest, heads);
    check_rule(name, unit > 0 && count % unit == 0 && (count == 0 || heads % (count / unit) == 0),
               "the rows must be whole units, and units must have equally many heads");
    check_rule(name, op->first >= 0 && op->count >= 0 && op->first + op->count <= op->unit_rows,
               "the rows must lie within a unit");
    check_rule(name, op->threshold > 0, "the threshold must be above 0");
    device->ops->clip_rows(device, op);
}

void op_copy(struct device *device, const struct op_copy *op) {
    const char *name = "op_copy";
    struct tensor expected = op->src;
    expected.dtype = op->dst.dtype;
    check_strided(name, "src", op->src, op->src);
    check_strided(name, "dst", op->dst, expected);
    check_rule(name, op->src.dtype == op->dst.dtype || (is_float(op->src.dtype) && is_float(op->dst.dtype)),
               "only float dtypes are converted");
    check_apart(name, "dst", op->dst, "src", op->src);
    device->ops->copy(device, op);
}

void op_scale(struct device *device, const struct op_scale *op) {
    const char *name = "op_scale";
    check_flat(name, "x", op->x, tensor_count(op->x));
    if (op->by.data)
        check_tensor(name, "by", op->by, check_1d(DTYPE_F32, 1));
    device->ops->scale(device, op);
}
