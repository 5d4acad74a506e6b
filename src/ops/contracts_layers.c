// Contracts and checked entry points of the operations of layers: matmuls, norms, activations, embeddings, dropout. See
// contract.h for rows; the comment at an operation's struct in ops.h says what it computes.
#include "ops/contract.h"
#include "ops/device.h"
#include "base/error.h"
#include <math.h>

enum {
    ADDS_BIAS = 1 << EPILOGUE_BIAS | 1 << EPILOGUE_BIAS_ACTIVATION,
    ACTIVATES = 1 << EPILOGUE_BIAS_ACTIVATION,
    IS_GRADIENT = 1 << EPILOGUE_ACTIVATION_GRADIENT
};
CONTRACT(matmul, IN(a, ACT, "M K", STRIDED, UNLESS(transpose_a)), IN(a, ACT, "K M", STRIDED, IF(transpose_a)),
         OUT(d, ACT | OR_F32, "M N", STRIDED, UNLESS(beta)), CHANGED(d, ACT | OR_F32, "M N", STRIDED, IF(beta)),
         IN(b, ACT, "K N", STRIDED, UNLESS(transpose_b)), IN(b, ACT, "N K", STRIDED, IF(transpose_b)),
         IN(bias, ACT, "N", IF_ONE_OF(epilogue, ADDS_BIAS)),
         OUT(aux, ACT, "M N", MAYBE, IF_ONE_OF(epilogue, ACTIVATES)),
         IN(aux, ACT, "M N", IF_ONE_OF(epilogue, IS_GRADIENT)),
         APART(d, aux, IF_ONE_OF(epilogue, ACTIVATES | IS_GRADIENT)), APART(d, a), APART(d, b));

void op_matmul(struct device *device, const struct op_matmul *op) {
    struct contract_call call;
    bool is_scaled = dtype_is_scaled(op->a.dtype);
    contract_begin(&call, device, is_scaled ? contract_matmul_float8() : contract_matmul(), op);
    contract_check(&call);
    if (is_scaled)
        contract_matmul_scaled(&call, op);
    RULE(&call, op->epilogue == EPILOGUE_NONE || op->beta == 0, "beta must be 0 with an epilogue");
    RULE(&call, op->epilogue <= EPILOGUE_BIAS || op->activation == ACTIVATION_GELU_TANH,
         "a matmul fuses only the tanh form of GELU");
    device->ops->matmul(device, op);
}

static struct tensor one_of(struct tensor many, int64_t i) {
    return many.data ? tensor_reshape_2d(tensor_rows(many, i, 1), many.shape[1], many.shape[2]) : many;
}

static void multiply_each(struct device *device, const struct op_matmul_many *op) {
    for (int64_t i = 0; i < op->d.shape[0]; i++) {
        if (op->beta != 0)
            op_copy(device, &(struct op_copy){.dst = one_of(op->d, i), .src = one_of(op->c, i)});
        // With a distributed optimizer, ranks have different matrices.
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

CONTRACT(matmul_many, OUT(d, ACT, "n M N"), IN(a, ACT, "n M K", UNLESS(transpose_a)),
         IN(a, ACT, "n K M", IF(transpose_a)), IN(b, ACT, "n K N", UNLESS(transpose_b)),
         IN(b, ACT, "n N K", IF(transpose_b)), IN(c, ACT, "n M N", IF(beta)), IN(sum_squares, F32, "n", MAYBE, FREE),
         APART(d, a), APART(d, b), APART(d, c, IF(beta)));

void op_matmul_many(struct device *device, const struct op_matmul_many *op) {
    struct contract_call call;
    contract_begin(&call, device, contract_matmul_many(), op);
    contract_check(&call);
    RULE(&call, !op->is_symmetric || SIZE(&call, M) == SIZE(&call, N), "a symmetric result must be square");
    RULE(&call, !op->sum_squares.data || op->least > 0, "least must be above 0");
    if (op->d.dtype == DTYPE_F32 || !device_gains_by_many(device) || !device->ops->matmul_many(device, op))
        multiply_each(device, op);
}

void contract_activation(const struct contract_call *call, enum activation activation) {
    RULE(call, activation >= 0 && activation < ACTIVATION_COUNT, "unknown activation");
}

// Rules of operations with an activation, and with a gated one.
#define KNOWN_ACTIVATION(call_, op_) contract_activation(call_, (op_)->activation)
#define KNOWN_GLU(call_, op_) glu_rules(call_, (op_)->activation, &(op_)->rule)
static void glu_rules(const struct contract_call *call, enum activation activation, const struct glu_rule *rule) {
    contract_activation(call, activation);
    RULE(call, rule->limit >= 0 && isfinite(rule->limit) && isfinite(rule->offset), "a rule that is not finite");
}

CHECKED(activation_forward, NOTHING, KNOWN_ACTIVATION, IN(x, ACT, "N F"), OUT(y, ACT, "N F"), APART_OR_SAME(y, x));
CHECKED(activation_backward, NOTHING, KNOWN_ACTIVATION, IN(x, ACT, "N F"), IN(dy, ACT, "N F"), OUT(dx, ACT, "N F"),
        OUT(y, ACT, "N F", MAYBE), APART_OR_SAME(dx, dy), APART_OR_SAME(dx, x), APART_OR_SAME(y, dy), APART(y, x),
        APART(y, dx));
CHECKED(glu_forward, NOTHING, KNOWN_GLU, OUT(y, ACT, "N F"), IN(x, ACT, "N 2F"), APART(y, x));
CHECKED(glu_backward, NOTHING, KNOWN_GLU, IN(dy, ACT, "N F"), IN(x, ACT, "N 2F"), OUT(dx, ACT, "N 2F"),
        OUT(y, ACT, "N F", MAYBE), APART_OR_SAME(dx, x), APART(dx, dy), APART_OR_SAME(y, dy), APART(y, x),
        APART(y, dx));

static void norm_rules(const struct contract_call *call, enum norm_kind kind, bool has_mean_or_bias) {
    RULE(call, kind == NORM_LAYER || kind == NORM_RMS, "unknown kind of norm");
    RULE(call, kind == NORM_LAYER || !has_mean_or_bias, "an RMSNorm has neither mean nor bias");
    RULE(call, SIZE(call, C) >= 1, "there must be at least one channel");
}

RULED(norm_forward, IN(x, ACT, "N C"), OUT(y, ACT | E4M3, "N C"),
      CHANGED(y_range, F32, "4", FREE, CALLED("range"), IF_ONE_OF(y.dtype, FP8)), OUT(rstd, F32, "N"),
      IN(gain, ACT, "C"), OUT(mean, F32, "N", UNLESS(kind)), IN(bias, ACT, "C", MAYBE, UNLESS(kind)),
      IN(delta, ACT, "N C", MAYBE), IN(delta_bias, ACT, "C", MAYBE, IF(delta.data)),
      OUT(sum, ACT, "N C", IF(delta.data)), DROPOUT("N", IF(delta.data)), APART(y, x),
      APART_OR_SAME(sum, x, IF(delta.data)), APART(sum, delta, IF(delta.data)), APART(y, sum, IF(delta.data)),
      APART(y, delta));

static void norm_forward_rules(struct contract_call *call, const struct op_norm_forward *op) {
    norm_rules(call, op->kind, op->mean.data || op->bias.data);
    if (dtype_is_float8(op->y.dtype)) {
        contract_range(call, op->y_range);
        RULE(call, call->device->ops->fuses_quantize, "this device cannot store the result in fp8; use op_quantize");
        RULE(call, SIZE(call, C) % 16 == 0, "an fp8 result must have a multiple of 16 columns");
    }
    RULE(call, op->delta.data || (!op->sum.data && !op->delta_bias.data && op->dropout.rate == 0),
         "sum, delta_bias and dropout belong to a delta");
}

RULED(norm_backward, IN(x, ACT, "N C"), OUT(dx, ACT, "N C"), IN(dy, ACT, "N C"), IN(gain, ACT, "C"),
      ADDED(dgain, F32, "C"), IN(rstd, F32, "N"), IN(mean, F32, "N", UNLESS(kind)),
      ADDED(dbias, F32, "C", MAYBE, UNLESS(kind)), OUT(y, ACT, "N C", MAYBE), IN(bias, ACT, "C", MAYBE, UNLESS(kind)),
      IN(dresidual, ACT, "N C", MAYBE), OUT(ddelta, ACT, "N C", MAYBE),
      ADDED(ddelta_bias, F32, "C", MAYBE, IF(ddelta.data)), DROPOUT("N", IF(ddelta.data)), APART_OR_SAME(y, dy),
      APART(y, x), APART(y, dx), APART(y, ddelta), APART(y, dresidual), APART_OR_SAME(dx, dresidual), APART(dx, dy),
      APART(dx, x), APART_OR_SAME(ddelta, dy), APART_OR_SAME(ddelta, dx), APART(ddelta, x));

static void norm_backward_rules(struct contract_call *call, const struct op_norm_backward *op) {
    norm_rules(call, op->kind, op->mean.data || op->dbias.data || op->bias.data);
    RULE(call, op->y.data || !op->bias.data, "the bias belongs to y");
    RULE(call, !op->y.data || op->bias.data || !op->dbias.data,
         "y is computed again with the bias that dbias belongs to");
    RULE(call, !op->ddelta.data || op->ddelta.data != op->dx.data || op->dropout.rate == 0,
         "ddelta may alias dx only where the dropout is off");
    RULE(call, op->ddelta.data || (!op->ddelta_bias.data && op->dropout.rate == 0),
         "ddelta_bias and dropout belong to a ddelta");
}

RULED(embedding_forward, OUT(out, ACT, "N C"), IN(table, ACT, "V C", SPARSE), IN(tokens, I32, "N"),
      IN(positions, I32, "N", MAYBE), IN(position_table, ACT, "P C", MAYBE, SPARSE), DROPOUT("N"));

static void embedding_forward_rules(struct contract_call *call, const struct op_embedding_forward *op) {
    RULE(call, !op->positions.data == !op->position_table.data, "positions and position_table go together");
}

RULED(embedding_backward, IN(dout, ACT, "N C"), ADDED(dtable, F32, "V C", SPARSE), IN(tokens, I32, "N"),
      IN(positions, I32, "N", MAYBE), ADDED(dposition_table, F32, "P C", MAYBE, SPARSE), DROPOUT("N"));

static void embedding_backward_rules(struct contract_call *call, const struct op_embedding_backward *op) {
    RULE(call, !op->dposition_table.data || op->positions.data, "dposition_table needs positions");
}

RULED(jitter, IN(x, ACT, "N C"), OUT(out, ACT, "N C"), IN(residual, ACT, "N C", MAYBE),
      IN(row_ids, I64, "N", FREE, IF(epsilon)), APART_OR_SAME(out, x), APART_OR_SAME(out, residual));

static void jitter_rules(struct contract_call *call, const struct op_jitter *op) {
    RULE(call, op->epsilon >= 0 && op->epsilon < 1, "epsilon must be at least 0 and below 1");
    RULE(call, op->epsilon == 0 || op->site < 65536, "the site must be below 65536");
}

OPERATION(dropout_add, IN(x, ACT, "N C"), OUT(out, ACT, "N C"), IN(residual, ACT, "N C", MAYBE),
          IN(bias, ACT, "C", MAYBE), APART_OR_SAME(out, x), APART_OR_SAME(out, residual), DROPOUT("N"));
OPERATION(dropout_backward, IN(dy, ACT, "N C"), OUT(dx, ACT, "N C"), ADDED(dbias, F32, "C", MAYBE),
          APART_OR_SAME(dx, dy), DROPOUT("N"));
