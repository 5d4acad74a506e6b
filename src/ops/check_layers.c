// Checked entry points of what layers are made of: matmuls, norms, embeddings, dropout. Each verifies the contract
// written beside its struct in ops.h, then calls the device's table.
#include "ops/check.h"
#include "ops/device.h"
#include <math.h>

static void check_matmul_epilogue(const char *op, const struct op_matmul *m, int64_t rows, int64_t columns) {
    enum dtype dtype = m->a.dtype;
    bool has_bias = m->epilogue == EPILOGUE_BIAS || m->epilogue == EPILOGUE_BIAS_ACTIVATION;
    check_rule(op, m->epilogue == EPILOGUE_NONE || m->beta == 0, "beta must be 0 with an epilogue");
    if (has_bias)
        check_tensor(op, "bias", m->bias, check_1d(dtype, columns));
    if (m->epilogue == EPILOGUE_BIAS_ACTIVATION)
        check_optional(op, "aux", m->aux, check_2d(dtype, rows, columns));
    if (m->epilogue == EPILOGUE_ACTIVATION_GRADIENT)
        check_tensor(op, "aux", m->aux, check_2d(dtype, rows, columns));
    if (m->epilogue == EPILOGUE_BIAS_ACTIVATION || m->epilogue == EPILOGUE_ACTIVATION_GRADIENT) {
        check_apart(op, "d", m->d, "aux", m->aux);
        check_rule(op, m->activation == ACTIVATION_GELU_TANH, "a matmul fuses only the tanh form of GELU");
    }
}

void op_matmul(struct device *device, const struct op_matmul *op) {
    const char *name = "op_matmul";
    if (dtype_is_scaled(op->a.dtype)) {
        check_matmul_float8(device, name, op);
        device->ops->matmul(device, op);
        return;
    }
    check_activation(device, name, "a", op->a, 2);
    check_activation(device, name, "d", op->d, 2);
    int64_t rows = op->d.shape[0], columns = op->d.shape[1];
    int64_t inner = op->a.shape[op->transpose_a ? 0 : 1];
    enum dtype dtype = op->a.dtype;
    check_strided(name, "a", op->a, op->transpose_a ? check_2d(dtype, inner, rows) : check_2d(dtype, rows, inner));
    check_strided(name, "b", op->b,
                  op->transpose_b ? check_2d(dtype, columns, inner) : check_2d(dtype, inner, columns));
    check_strided(name, "d", op->d, check_2d(op->d.dtype == DTYPE_F32 ? DTYPE_F32 : dtype, rows, columns));
    check_matmul_epilogue(name, op, rows, columns);
    check_apart(name, "d", op->d, "a", op->a);
    check_apart(name, "d", op->d, "b", op->b);
    device->ops->matmul(device, op);
}

static struct tensor one_of(struct tensor many, int64_t i) {
    return many.data ? tensor_reshape_2d(tensor_rows(many, i, 1), many.shape[1], many.shape[2]) : many;
}

static void multiply_each(struct device *device, const struct op_matmul_many *op) {
    for (int64_t i = 0; i < op->d.shape[0]; i++) {
        if (op->beta != 0)
            op_copy(device, &(struct op_copy){.dst = one_of(op->d, i), .src = one_of(op->c, i)});
        // Ranks that split an optimizer have other matrices.
        op_matmul(device, &(struct op_matmul){.a = one_of(op->a, i),
                                              .b = one_of(op->b, i),
                                              .d = one_of(op->d, i),
                                              .transpose_a = op->transpose_a,
                                              .transpose_b = op->transpose_b,
                                              .alpha = op->alpha,
                                              .beta = op->beta,
                                              .is_uneven = true});
        if (op->sum_squares.data) {
            struct tensor flat = tensor_flat(one_of(op->d, i));
            op_normalize(device, &(struct op_normalize){.y = flat,
                                                        .x = flat,
                                                        .sum_squares = tensor_rows(op->sum_squares, i, 1),
                                                        .least = op->least,
                                                        .is_twice = op->is_twice});
        }
    }
}

void op_matmul_many(struct device *device, const struct op_matmul_many *op) {
    const char *name = "op_matmul_many";
    check_activation(device, name, "d", op->d, 3);
    enum dtype dtype = op->d.dtype;
    int64_t count = op->d.shape[0], rows = op->d.shape[1], columns = op->d.shape[2];
    int64_t inner = op->a.shape[op->transpose_a ? 1 : 2];
    check_tensor(name, "a", op->a,
                 op->transpose_a ? check_3d(dtype, count, inner, rows) : check_3d(dtype, count, rows, inner));
    check_tensor(name, "b", op->b,
                 op->transpose_b ? check_3d(dtype, count, columns, inner) : check_3d(dtype, count, inner, columns));
    check_tensor(name, "d", op->d, check_3d(dtype, count, rows, columns));
    check_apart(name, "d", op->d, "a", op->a);
    check_apart(name, "d", op->d, "b", op->b);
    if (op->beta != 0) {
        check_tensor(name, "c", op->c, check_3d(dtype, count, rows, columns));
        check_apart(name, "d", op->d, "c", op->c);
    }
    check_rule(name, !op->is_symmetric || rows == columns, "a symmetric result must be square");
    if (op->sum_squares.data) {
        check_tensor(name, "sum_squares", op->sum_squares, check_1d(DTYPE_F32, count));
        check_rule(name, op->least > 0, "least must be above 0");
    }
    if (dtype == DTYPE_F32 || !device_gains_by_many(device) || !device->ops->matmul_many(device, op))
        multiply_each(device, op);
}

static void check_function(const char *op, enum activation activation) {
    check_rule(op, activation >= 0 && activation < ACTIVATION_COUNT, "unknown activation");
}

static void check_glu_rule(const char *op, struct glu_rule rule) {
    check_rule(op, rule.limit >= 0 && isfinite(rule.limit) && isfinite(rule.offset), "a rule that is not finite");
}

void op_activation_forward(struct device *device, const struct op_activation_forward *op) {
    const char *name = "op_activation_forward";
    check_activation(device, name, "x", op->x, 2);
    struct tensor matrix = check_2d(op->x.dtype, op->x.shape[0], op->x.shape[1]);
    check_tensor(name, "x", op->x, matrix);
    check_tensor(name, "y", op->y, matrix);
    check_apart_or_same(name, "y", op->y, "x", op->x);
    check_function(name, op->activation);
    device->ops->activation_forward(device, op);
}

void op_activation_backward(struct device *device, const struct op_activation_backward *op) {
    const char *name = "op_activation_backward";
    check_activation(device, name, "x", op->x, 2);
    struct tensor matrix = check_2d(op->x.dtype, op->x.shape[0], op->x.shape[1]);
    check_tensor(name, "x", op->x, matrix);
    check_tensor(name, "dy", op->dy, matrix);
    check_tensor(name, "dx", op->dx, matrix);
    check_optional(name, "y", op->y, matrix);
    check_apart_or_same(name, "dx", op->dx, "dy", op->dy);
    check_apart_or_same(name, "dx", op->dx, "x", op->x);
    check_apart_or_same(name, "y", op->y, "dy", op->dy);
    check_apart(name, "y", op->y, "x", op->x);
    check_apart(name, "y", op->y, "dx", op->dx);
    check_function(name, op->activation);
    device->ops->activation_backward(device, op);
}

void op_glu_forward(struct device *device, const struct op_glu_forward *op) {
    const char *name = "op_glu_forward";
    check_activation(device, name, "y", op->y, 2);
    int64_t rows = op->y.shape[0], width = op->y.shape[1];
    check_tensor(name, "y", op->y, check_2d(op->y.dtype, rows, width));
    check_tensor(name, "x", op->x, check_2d(op->y.dtype, rows, 2 * width));
    check_apart(name, "y", op->y, "x", op->x);
    check_function(name, op->activation);
    check_glu_rule(name, op->rule);
    device->ops->glu_forward(device, op);
}

void op_glu_backward(struct device *device, const struct op_glu_backward *op) {
    const char *name = "op_glu_backward";
    check_activation(device, name, "dy", op->dy, 2);
    int64_t rows = op->dy.shape[0], width = op->dy.shape[1];
    struct tensor packed = check_2d(op->dy.dtype, rows, 2 * width);
    check_tensor(name, "dy", op->dy, check_2d(op->dy.dtype, rows, width));
    check_tensor(name, "x", op->x, packed);
    check_tensor(name, "dx", op->dx, packed);
    check_apart_or_same(name, "dx", op->dx, "x", op->x);
    check_apart(name, "dx", op->dx, "dy", op->dy);
    check_optional(name, "y", op->y, check_2d(op->dy.dtype, rows, width));
    check_apart_or_same(name, "y", op->y, "dy", op->dy);
    check_apart(name, "y", op->y, "x", op->x);
    check_apart(name, "y", op->y, "dx", op->dx);
    check_function(name, op->activation);
    check_glu_rule(name, op->rule);
    device->ops->glu_backward(device, op);
}

static void check_norm_kind(const char *op, enum norm_kind kind, struct tensor mean, struct tensor bias) {
    check_rule(op, kind == NORM_LAYER || kind == NORM_RMS, "unknown kind of norm");
    check_rule(op, kind == NORM_LAYER || (!mean.data && !bias.data), "an RMSNorm has neither mean nor bias");
}

void op_norm_forward(struct device *device, const struct op_norm_forward *op) {
    const char *name = "op_norm_forward";
    check_activation(device, name, "x", op->x, 2);
    int64_t rows = op->x.shape[0], channels = op->x.shape[1];
    struct tensor matrix = check_2d(op->x.dtype, rows, channels), vector = check_1d(op->x.dtype, channels);
    check_rule(name, channels >= 1, "there must be at least one channel");
    check_tensor(name, "x", op->x, matrix);
    if (dtype_is_float8(op->y.dtype)) {
        check_float8(device, name, "y", op->y);
        check_range(name, op->y_range);
        check_rule(name, device->ops->fuses_quantize, "this device cannot store the result in fp8; use op_quantize");
        check_rule(name, op->y.dtype == DTYPE_E4M3 && channels % 16 == 0,
                   "an fp8 result must be E4M3, with a multiple of 16 columns");
        check_tensor(name, "y", op->y, check_2d(op->y.dtype, rows, channels));
    } else {
        check_tensor(name, "y", op->y, matrix);
    }
    check_tensor(name, "rstd", op->rstd, check_1d(DTYPE_F32, rows));
    check_tensor(name, "gain", op->gain, vector);
    check_norm_kind(name, op->kind, op->mean, op->bias);
    if (op->kind == NORM_LAYER) {
        check_tensor(name, "mean", op->mean, check_1d(DTYPE_F32, rows));
        check_optional(name, "bias", op->bias, vector);
    }
    check_apart(name, "y", op->y, "x", op->x);
    if (op->delta.data) {
        check_tensor(name, "delta", op->delta, matrix);
        check_optional(name, "delta_bias", op->delta_bias, vector);
        check_tensor(name, "sum", op->sum, matrix);
        check_apart_or_same(name, "sum", op->sum, "x", op->x);
        check_apart(name, "sum", op->sum, "delta", op->delta);
        check_apart(name, "y", op->y, "sum", op->sum);
        check_apart(name, "y", op->y, "delta", op->delta);
        check_dropout(name, &op->dropout, rows);
    } else {
        check_rule(name, !op->sum.data && !op->delta_bias.data && op->dropout.rate == 0,
                   "sum, delta_bias and dropout belong to a delta");
    }
    device->ops->norm_forward(device, op);
}

// The output that the backward pass stores again.
static void check_norm_again(const char *name, const struct op_norm_backward *op, struct tensor matrix) {
    check_rule(name, op->y.data || !op->bias.data, "the bias belongs to y");
    if (!op->y.data)
        return;
    check_tensor(name, "y", op->y, matrix);
    if (op->kind == NORM_LAYER)
        check_optional(name, "bias", op->bias, check_1d(op->x.dtype, op->x.shape[1]));
    check_rule(name, op->bias.data || !op->dbias.data, "y is computed again with the bias that dbias belongs to");
    check_apart_or_same(name, "y", op->y, "dy", op->dy);
    check_apart(name, "y", op->y, "x", op->x);
    check_apart(name, "y", op->y, "dx", op->dx);
    check_apart(name, "y", op->y, "ddelta", op->ddelta);
    check_apart(name, "y", op->y, "dresidual", op->dresidual);
}

void op_norm_backward(struct device *device, const struct op_norm_backward *op) {
    const char *name = "op_norm_backward";
    check_activation(device, name, "x", op->x, 2);
    int64_t rows = op->x.shape[0], channels = op->x.shape[1];
    struct tensor matrix = check_2d(op->x.dtype, rows, channels), vector = check_1d(DTYPE_F32, channels);
    check_rule(name, channels >= 1, "there must be at least one channel");
    check_tensor(name, "x", op->x, matrix);
    check_tensor(name, "dx", op->dx, matrix);
    check_tensor(name, "dy", op->dy, matrix);
    check_tensor(name, "gain", op->gain, check_1d(op->x.dtype, channels));
    check_tensor(name, "dgain", op->dgain, vector);
    check_tensor(name, "rstd", op->rstd, check_1d(DTYPE_F32, rows));
    check_norm_kind(name, op->kind, op->mean, op->dbias);
    check_rule(name, op->kind == NORM_LAYER || !op->bias.data, "an RMSNorm has neither mean nor bias");
    check_norm_again(name, op, matrix);
    if (op->kind == NORM_LAYER) {
        check_tensor(name, "mean", op->mean, check_1d(DTYPE_F32, rows));
        check_optional(name, "dbias", op->dbias, vector);
    }
    check_optional(name, "dresidual", op->dresidual, matrix);
    check_apart_or_same(name, "dx", op->dx, "dresidual", op->dresidual);
    check_apart(name, "dx", op->dx, "dy", op->dy);
    check_apart(name, "dx", op->dx, "x", op->x);
    if (op->ddelta.data) {
        check_tensor(name, "ddelta", op->ddelta, matrix);
        check_optional(name, "ddelta_bias", op->ddelta_bias, vector);
        check_apart_or_same(name, "ddelta", op->ddelta, "dy", op->dy);
        check_apart_or_same(name, "ddelta", op->ddelta, "dx", op->dx);
        check_apart(name, "ddelta", op->ddelta, "x", op->x);
        check_rule(name, op->ddelta.data != op->dx.data || op->dropout.rate == 0,
                   "ddelta may alias dx only where the dropout is off");
        check_dropout(name, &op->dropout, rows);
    } else {
        check_rule(name, !op->ddelta_bias.data && op->dropout.rate == 0, "ddelta_bias and dropout belong to a ddelta");
    }
    device->ops->norm_backward(device, op);
}

void op_embedding_forward(struct device *device, const struct op_embedding_forward *op) {
    const char *name = "op_embedding_forward";
    check_activation(device, name, "out", op->out, 2);
    check_activation(device, name, "table", op->table, 2);
    int64_t rows = op->out.shape[0], channels = op->out.shape[1];
    check_tensor(name, "out", op->out, check_2d(op->out.dtype, rows, channels));
    check_tensor(name, "table", op->table, check_2d(op->out.dtype, op->table.shape[0], channels));
    check_tensor(name, "tokens", op->tokens, check_1d(DTYPE_I32, rows));
    check_rule(name, !op->positions.data == !op->position_table.data, "positions and position_table go together");
    if (op->positions.data) {
        check_tensor(name, "positions", op->positions, check_1d(DTYPE_I32, rows));
        check_activation(device, name, "position_table", op->position_table, 2);
        check_tensor(name, "position_table", op->position_table,
                     check_2d(op->out.dtype, op->position_table.shape[0], channels));
    }
    check_dropout(name, &op->dropout, rows);
    device->ops->embedding_forward(device, op);
}

void op_embedding_backward(struct device *device, const struct op_embedding_backward *op) {
    const char *name = "op_embedding_backward";
    check_activation(device, name, "dout", op->dout, 2);
    check_rule(name, op->dtable.data && op->dtable.rank == 2, "dtable must have rank 2");
    int64_t rows = op->dout.shape[0], channels = op->dout.shape[1];
    check_tensor(name, "dout", op->dout, check_2d(op->dout.dtype, rows, channels));
    check_tensor(name, "dtable", op->dtable, check_2d(DTYPE_F32, op->dtable.shape[0], channels));
    check_tensor(name, "tokens", op->tokens, check_1d(DTYPE_I32, rows));
    if (op->dposition_table.data) {
        check_tensor(name, "positions", op->positions, check_1d(DTYPE_I32, rows));
        check_rule(name, op->dposition_table.rank == 2, "dposition_table must have rank 2");
        check_tensor(name, "dposition_table", op->dposition_table,
                     check_2d(DTYPE_F32, op->dposition_table.shape[0], channels));
    }
    check_dropout(name, &op->dropout, rows);
    device->ops->embedding_backward(device, op);
}

void op_jitter(struct device *device, const struct op_jitter *op) {
    const char *name = "op_jitter";
    check_activation(device, name, "x", op->x, 2);
    struct tensor matrix = check_2d(op->x.dtype, op->x.shape[0], op->x.shape[1]);
    check_tensor(name, "x", op->x, matrix);
    check_tensor(name, "out", op->out, matrix);
    check_optional(name, "residual", op->residual, matrix);
    check_apart_or_same(name, "out", op->out, "x", op->x);
    check_apart_or_same(name, "out", op->out, "residual", op->residual);
    if (op->epsilon != 0) {
        check_rule(name, op->epsilon > 0 && op->epsilon < 1, "epsilon must be at least 0 and below 1");
        check_rule(name, op->site < 65536, "the site must be below 65536");
        check_tensor(name, "row_ids", op->row_ids, check_1d(DTYPE_I64, op->x.shape[0]));
    }
    device->ops->jitter(device, op);
}

void op_dropout_add(struct device *device, const struct op_dropout_add *op) {
    const char *name = "op_dropout_add";
    check_activation(device, name, "x", op->x, 2);
    int64_t rows = op->x.shape[0], channels = op->x.shape[1];
    struct tensor matrix = check_2d(op->x.dtype, rows, channels);
    check_tensor(name, "x", op->x, matrix);
    check_tensor(name, "out", op->out, matrix);
    check_optional(name, "residual", op->residual, matrix);
    check_optional(name, "bias", op->bias, check_1d(op->x.dtype, channels));
    check_apart_or_same(name, "out", op->out, "x", op->x);
    check_apart_or_same(name, "out", op->out, "residual", op->residual);
    check_dropout(name, &op->dropout, rows);
    device->ops->dropout_add(device, op);
}

void op_dropout_backward(struct device *device, const struct op_dropout_backward *op) {
    const char *name = "op_dropout_backward";
    check_activation(device, name, "dy", op->dy, 2);
    int64_t rows = op->dy.shape[0], channels = op->dy.shape[1];
    struct tensor matrix = check_2d(op->dy.dtype, rows, channels);
    check_tensor(name, "dy", op->dy, matrix);
    check_tensor(name, "dx", op->dx, matrix);
    check_optional(name, "dbias", op->dbias, check_1d(DTYPE_F32, channels));
    check_apart_or_same(name, "dx", op->dx, "dy", op->dy);
    check_dropout(name, &op->dropout, rows);
    device->ops->dropout_backward(device, op);
}
