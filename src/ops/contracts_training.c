// Contracts and checked entry points of a training step's operations outside the layers: loss, sums, updates, copies.
#include "ops/contract.h"
#include "base/error.h"
#include "tensor/moment8.h"

RULED(softmax_stats, IN(logits, ACT, "N V"), OUT(row_max, F32, "N"), OUT(row_sum, F32, "N"), OUT(row_target, F32, "N"),
      IN(labels, I32, "N"));

static void softmax_stats_rules(struct contract_call *call, const struct op_softmax_stats *op) {
    (void)op;
    RULE(call, SIZE(call, V) >= 1, "the vocabulary must not be empty");
}

RULED(softmax_merge, IN(parts, F32, "P 3 N"), OUT(row_max, F32, "N"), OUT(row_sum, F32, "N"),
      OUT(row_target, F32, "N"));

static void softmax_merge_rules(struct contract_call *call, const struct op_softmax_merge *op) {
    (void)op;
    RULE(call, SIZE(call, P) >= 1, "there must be at least one part");
}

// The statistics are outputs with makes_stats.
CONTRACT(cross_entropy, CHANGED(logits, ACT, "N V", IF(weights.data)),
         IN(logits, ACT, "N V", FREE, UNLESS(weights.data)), OUT(losses, F32, "N"), CHANGED(row_max, F32, "N", ONCE),
         CHANGED(row_sum, F32, "N", ONCE), CHANGED(row_target, F32, "N", ONCE), IN(labels, I32, "N"),
         IN(weights, F32, "N", MAYBE));

void op_cross_entropy(struct device *device, const struct op_cross_entropy *op) {
    struct contract_call call;
    contract_begin(&call, device, contract_cross_entropy(), op);
    contract_check(&call);
    if (op->makes_stats && !device->ops->fuses_stats)
        op_softmax_stats(device, &(struct op_softmax_stats){.row_max = op->row_max,
                                                            .row_sum = op->row_sum,
                                                            .row_target = op->row_target,
                                                            .logits = op->logits,
                                                            .labels = op->labels,
                                                            .vocabulary_start = op->vocabulary_start});
    device->ops->cross_entropy(device, op);
}

RULED(softcap, CHANGED(x, ACT, "N V"));

static void softcap_rules(struct contract_call *call, const struct op_softcap *op) {
    RULE(call, op->cap > 0, "a cap is above 0");
}

SIZED(top_hits, IN(logits, F32, "N V"), IN(labels, I32, "N"), ADDED(hits, F32, "T"));

static void top_hits_sizes(struct contract_call *call, const struct op_top_hits *op) {
    RULE(call, op->count >= 1 && op->count <= OPS_MOST_TOPS, "there must be 1 to OPS_MOST_TOPS tops");
    contract_set(call, 'T', op->count);
}

OPERATION(column_sum, IN(x, ACT, "N C"), ADDED(out, F32, "C"), APART(out, x));
OPERATION(dot, IN(a, F32, "#n"), IN(b, F32, "#n"), ADDED(out, F32, "1"));
OPERATION(sum_squares, IN(x, F32, "#n"), ADDED(out, F32, "1"));
OPERATION(digest, IN(x, ANY, "*"), ADDED(out, I64, "1"), APART(out, x));
OPERATION(clip_scale, OUT(scale, F32, "1"), OUT(norm, F32, "1"), IN(sum_squares, F32, "1"),
          CHANGED(loss_scale, F32, "3", MAYBE, FREE), OUT(rate, F32, "n", MAYBE), IN(rates, F32, "R n", IF(rate.data)),
          CHANGED(skipped, F32, "1", FREE, IF(rate.data)));

// Flat ranges common to all updates. The copy of a master in halves is a part of the master.
#define HALVES IF_ONE_OF(master.dtype, I16)
#define WHOLE HALVES, .is_unless = true
#define MASTER(use_) use_(master, F32, "#n", WHOLE), use_(master, I16, "n", HALVES), APART(copy, master)
#define UPDATED                                                                                                        \
    MASTER(CHANGED), OUT(copy, ACT_ANY, "n", MAYBE, WHOLE), CHANGED(copy, BF16, "n", HALVES), IN(scale, F32, "1")
#define RATE IN(rate, F32, "4")

#define BETAS_RULE(call_, op_)                                                                                         \
    RULE(call_, (op_)->beta1 >= 0 && (op_)->beta1 < 1 && (op_)->beta2 >= 0 && (op_)->beta2 < 1,                        \
         "beta1 and beta2 must be at least 0 and below 1")
// 8-bit moments have e exponents, one for each MOMENT8_SHARE of them.
#define MOMENTS (F32 | BF16 | U8)
#define EXPONENTS(call_, op_)                                                                                          \
    contract_set(call_, 'e', (tensor_count((op_)->master) + MOMENT8_SHARE - 1) / MOMENT8_SHARE)
CHECKED(adam, EXPONENTS, BETAS_RULE, UPDATED, RATE, IN(grad, F32, "#n"), CHANGED(m, MOMENTS, "n"),
        CHANGED(v, MOMENTS, "n"), CHANGED(m_exponents, U8, "e", CALLED("exponents of m"), IF_ONE_OF(m.dtype, U8)),
        CHANGED(v_exponents, U8, "e", CALLED("exponents of v"), IF_ONE_OF(v.dtype, U8)));

#define MOMENTUM_RULE(call_, op_)                                                                                      \
    RULE(call_, (op_)->momentum >= 0 && (op_)->momentum < 1, "momentum must be at least 0 and below 1")

CHECKED(sgd, NOTHING, MOMENTUM_RULE, UPDATED, RATE, IN(grad, F32, "#n"), CHANGED(m, F32, "#n"));
CHECKED(lion, NOTHING, BETAS_RULE, UPDATED, RATE, IN(grad, F32, "#n"), CHANGED(m, F32, "#n"));

OPERATION(split, IN(x, F32, "#n"), OUT(value, BF16, "n"), OUT(rest, I16, "n"), APART(value, x), APART(rest, x),
          APART(rest, value));
OPERATION(merge, OUT(x, F32, "#n"), IN(value, BF16, "n"), IN(rest, I16, "n"), APART(value, x), APART(rest, x),
          APART(rest, value));

CHECKED(momentum, NOTHING, MOMENTUM_RULE, CHANGED(m, F32, "#n"), IN(grad, F32, "#n"), OUT(y, FLOATS, "n"),
        IN(scale, F32, "1"), ADDED(sum_squares, F32, "1", MAYBE, ONCE), APART(y, m), APART(y, grad));

RULED(normalize, IN(x, FLOATS, "#n"), OUT(y, FLOATS, "n"), IN(sum_squares, F32, "1"), APART_OR_SAME(y, x));

static void normalize_rules(struct contract_call *call, const struct op_normalize *op) {
    RULE(call, op->x.data == op->y.data || op->x.dtype == DTYPE_F32, "x must be fp32, or y");
    RULE(call, op->least > 0, "least must be above 0");
}

OPERATION(add_diagonal, CHANGED(x, FLOATS, "n M M"));

RULED(mean_squares, OUT(y, F32, "M N"), IN(x, F32, "M K", STRIDED, UNLESS(is_by_columns)),
      IN(x, F32, "K N", STRIDED, IF(is_by_columns)), APART(y, x));

static void mean_squares_rules(struct contract_call *call, const struct op_mean_squares *op) {
    RULE(call, op->x.shape[0] > 0 && op->x.shape[1] > 0, "x must not be empty");
}

RULED(adapt, CHANGED(x, F32, "#n"), CHANGED(v, F32, "#n"), IN(squares, F32, "#n", MAYBE), IN(scale, F32, "1"),
      APART(v, x));

static void adapt_rules(struct contract_call *call, const struct op_adapt *op) {
    RULE(call, op->beta2 >= 0 && op->beta2 < 1, "beta2 must be at least 0 and below 1");
}

OPERATION(follow, UPDATED, RATE, IN(x, F32 | BF16, "#n"), APART(master, x));

RULED(average, MASTER(IN), IN(copy, ACT_ANY, "n", MAYBE, FREE, WHOLE), IN(copy, BF16, "n", HALVES),
      CHANGED(average, F32, "#n"), IN(scale, F32, "1"), APART(average, master));

static void average_rules(struct contract_call *call, const struct op_average *op) {
    RULE(call, op->decay >= 0 && op->decay < 1, "decay must be at least 0 and below 1");
}

RULED(clip_rows, UPDATED, IN(largest, F32, "#h"));

static void clip_rows_rules(struct contract_call *call, const struct op_clip_rows *op) {
    int64_t count = SIZE(call, n), unit = op->unit_rows * op->columns;
    RULE(call, unit > 0 && count % unit == 0 && (count == 0 || SIZE(call, h) % (count / unit) == 0),
         "the rows must be whole units, and units must have equally many heads");
    RULE(call, op->first >= 0 && op->count >= 0 && op->first + op->count <= op->unit_rows,
         "the rows must lie within a unit");
    RULE(call, op->threshold > 0, "the threshold must be above 0");
}

RULED(copy, IN(src, ANY, "*", STRIDED), OUT(dst, ANY, "*", STRIDED), APART(dst, src));

static void copy_rules(struct contract_call *call, const struct op_copy *op) {
    RULE(call, op->src.dtype == op->dst.dtype || (FLOATS >> op->src.dtype & 1 && FLOATS >> op->dst.dtype & 1),
         "only float dtypes are converted");
}

OPERATION(scale, CHANGED(x, F32, "#n"), IN(by, F32, "1", MAYBE, FREE));
