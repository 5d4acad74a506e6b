// Checked entry points of attention and of what tells it positions. Each verifies the contract beside its struct
// in ops.h, then calls the device's table.
#include "ops/attention_parts.h"
#include "ops/check.h"

// What forward and backward share. The shapes of q and k set everything else.
struct attention_shape {
    struct tensor query, key, row;  // (B, Tq, H, D), (B, Tk, G, D), (B, H, Tq): descriptions only
    struct tensor value, out;       // (B, Tk, G, V), (B, Tq, H, V)
    bool is_causal;
};

static struct attention_shape check_attention_inputs(struct device *device, const char *op, struct tensor q,
                                                     struct tensor k, struct tensor v) {
    check_activation(device, op, "q", q, 4);
    check_activation(device, op, "k", k, 4);
    check_activation(device, op, "v", v, 4);
    int64_t heads = q.shape[2], groups = k.shape[2], head_size = q.shape[3], value_size = v.shape[3];
    struct attention_shape shape = {
        .query = tensor_4d(q.data, q.dtype, q.shape[0], q.shape[1], heads, head_size),
        .key = tensor_4d(k.data, q.dtype, q.shape[0], k.shape[1], groups, head_size),
        .row = tensor_3d(q.data, DTYPE_F32, q.shape[0], heads, q.shape[1]),
        .value = tensor_4d(v.data, q.dtype, q.shape[0], k.shape[1], groups, value_size),
        .out = tensor_4d(q.data, q.dtype, q.shape[0], q.shape[1], heads, value_size),
    };
    check_strided(op, "q", q, shape.query);
    check_strided(op, "k", k, shape.key);
    check_strided(op, "v", v, shape.value);
    int most = device->ops->most_head_size;
    int64_t widest = head_size > value_size ? head_size : value_size;
    check_rule(op, head_size >= 1 && value_size >= 1 && (most == 0 || widest <= most),
               "the device does not take heads of this size");
    check_rule(op, groups >= 1 && heads % groups == 0, "query heads must be a multiple of key/value heads");
    check_rule(op, k.shape[1] >= 1, "there must be at least one key");
    check_rule(op, heads <= 65535, "there may be no more than 65535 heads");
    return shape;
}

static void check_mask(const char *op, bool is_causal, const struct attention_mask *mask, struct tensor q,
                       struct tensor k) {
    check_rule(op, !is_causal || q.shape[1] <= k.shape[1], "causal attention needs at least as many keys as queries");
    check_rule(op, mask->window == 0 || (mask->window > 0 && is_causal), "a window belongs to causal attention");
    check_optional(op, "key_counts", mask->key_counts, check_1d(DTYPE_I32, q.shape[0]));
    check_optional(op, "first_keys", mask->first_keys, check_1d(DTYPE_I32, q.shape[0] * q.shape[1]));
    check_optional(op, "relative_bias", mask->relative_bias,
                   check_2d(DTYPE_F32, q.shape[2], q.shape[1] + k.shape[1] - 1));
}

static void check_scores(const char *op, const struct attention_scores *scores, const struct attention_mask *mask,
                         struct tensor q) {
    check_rule(op, scores->cap >= 0 && (scores->cap == 0 || !mask->relative_bias.data),
               "a cap is above 0 and does not go with a relative bias");
    check_optional(op, "sinks", scores->sinks, check_1d(q.dtype, q.shape[2]));
}

void op_attention_forward(struct device *device, const struct op_attention_forward *op) {
    const char *name = "op_attention_forward";
    struct attention_shape shape = check_attention_inputs(device, name, op->q, op->k, op->v);
    check_strided(name, "out", op->out, shape.out);
    check_optional(name, "lse", op->lse, shape.row);
    check_mask(name, op->is_causal, &op->mask, op->q, op->k);
    check_scores(name, &op->scores, &op->mask, op->q);
    check_apart(name, "out", op->out, "q", op->q);
    check_apart(name, "out", op->out, "k", op->k);
    check_apart(name, "out", op->out, "v", op->v);
    check_dropout(name, &op->dropout, op->q.shape[0] * op->q.shape[1]);
    device->ops->attention_forward(device, op);
}

void op_largest_scores(struct device *device, const struct op_largest_scores *op) {
    const char *name = "op_largest_scores";
    (void)check_attention_inputs(device, name, op->q, op->k, op->k);
    check_tensor(name, "largest", op->largest, check_1d(DTYPE_F32, op->q.shape[2]));
    check_mask(name, op->is_causal, &op->mask, op->q, op->k);
    check_rule(name, !op->mask.relative_bias.data, "a relative bias is not taken");
    device->ops->largest_scores(device, op);
}

// In 16 bits a fused kernel accumulates dq in fp32, and with grouped queries dk and dv of every query head, all of one
// part at a time, and reads two bounds for each query and a seed for each part. One that has a bias by distance sums
// the bias's gradient along the distances of each tile of queries instead.
int64_t attention_workspace_bytes(struct tensor q, struct tensor k, struct tensor v,
                                  const struct attention_mask *mask) {
    enum { TILE = 64, SEED_BYTES = 16 };
    int64_t rows = q.shape[0] * q.shape[2], head_size = q.shape[3];
    if (q.dtype == DTYPE_F32 || tensor_count(q) == 0)
        return 1;
    struct attention_part part = attention_part(q, k, v, ATTENTION_PART_ELEMENTS);
    int64_t part_rows = part.samples * part.heads;
    int64_t bytes = 4 * part_rows * q.shape[1] * head_size + 8 * q.shape[0] * q.shape[1] + (1 << 20);
    if (k.shape[2] != q.shape[2])
        bytes += 2 * part_rows * k.shape[1] * (head_size + v.shape[3]);
    bytes += SEED_BYTES * (part.count - 1);
    int64_t tiles = (q.shape[1] + TILE - 1) / TILE, distances = (k.shape[1] + TILE - 1) / TILE * TILE + TILE;
    int64_t bias_bytes = mask->relative_bias.data ? 4 * rows * tiles * distances : 0;
    return bias_bytes > bytes ? bias_bytes : bytes;
}

void op_attention_backward(struct device *device, const struct op_attention_backward *op) {
    const char *name = "op_attention_backward";
    struct attention_shape shape = check_attention_inputs(device, name, op->q, op->k, op->v);
    check_strided(name, "dq", op->dq, shape.query);
    check_strided(name, "dk", op->dk, shape.key);
    check_strided(name, "dv", op->dv, shape.value);
    check_strided(name, "dout", op->dout, shape.out);
    check_strided(name, "out", op->out, shape.out);
    check_tensor(name, "lse", op->lse, shape.row);
    check_tensor(name, "scratch", op->scratch, shape.row);
    check_mask(name, op->is_causal, &op->mask, op->q, op->k);
    check_scores(name, &op->scores, &op->mask, op->q);
    check_rule(name, !op->dsinks.data == !op->scores.sinks.data, "sinks and dsinks go together");
    check_optional(name, "dsinks", op->dsinks, check_2d(DTYPE_F32, op->q.shape[0], op->q.shape[2]));
    check_rule(name, !op->drelative_bias.data || op->mask.relative_bias.data,
               "drelative_bias is the gradient of a relative_bias");
    check_optional(name, "drelative_bias", op->drelative_bias,
                   check_3d(DTYPE_F32, op->q.shape[0], op->q.shape[2], op->q.shape[1] + op->k.shape[1] - 1));
    check_apart(name, "scratch", op->scratch, "lse", op->lse);
    check_apart(name, "dq", op->dq, "q", op->q);
    check_apart(name, "dk", op->dk, "k", op->k);
    check_apart(name, "dv", op->dv, "v", op->v);
    check_apart(name, "dq", op->dq, "dout", op->dout);
    check_dropout(name, &op->dropout, op->q.shape[0] * op->q.shape[1]);
    device->ops->attention_backward(device, op);
}

// What the sizes of one direction must be: kv is what is packed, `up` has the heads' own channels.
static void check_latent(const char *op, struct tensor kv, struct tensor up, struct tensor shared, int64_t heads,
                         int64_t value_size) {
    check_tensor(op, "kv", kv, kv);
    check_tensor(op, "up", up, check_2d(kv.dtype, kv.shape[0], up.shape[1]));
    check_strided(op, "shared", shared, check_2d(kv.dtype, kv.shape[0], shared.shape[1]));
    check_rule(op, heads >= 1 && value_size >= 1 && shared.shape[1] >= 1, "sizes must be at least 1");
    check_rule(op,
               up.shape[1] % heads == 0 && up.shape[1] / heads > value_size &&
                   kv.shape[1] == up.shape[1] + heads * shared.shape[1],
               "kv must have the channels of all heads and those that they share");
    check_apart(op, "kv", kv, "up", up);
    check_apart(op, "kv", kv, "shared", shared);
}

void op_latent_forward(struct device *device, const struct op_latent_forward *op) {
    const char *name = "op_latent_forward";
    check_activation(device, name, "kv", op->kv, 2);
    check_activation(device, name, "up", op->up, 2);
    check_activation(device, name, "shared", op->shared, 2);
    check_latent(name, op->kv, op->up, op->shared, op->heads, op->value_size);
    device->ops->latent_forward(device, op);
}

void op_latent_backward(struct device *device, const struct op_latent_backward *op) {
    const char *name = "op_latent_backward";
    check_activation(device, name, "dkv", op->dkv, 2);
    check_activation(device, name, "dup", op->dup, 2);
    check_activation(device, name, "dshared", op->dshared, 2);
    check_latent(name, op->dkv, op->dup, op->dshared, op->heads, op->value_size);
    device->ops->latent_backward(device, op);
}

void op_rope(struct device *device, const struct op_rope *op) {
    const char *name = "op_rope";
    check_activation(device, name, "x", op->x, 4);
    check_strided(name, "x", op->x, op->x);
    check_tensor(name, "positions", op->positions, check_1d(DTYPE_I32, op->x.shape[0] * op->x.shape[1]));
    check_rule(name,
               op->frequencies && op->pairs >= 1 && op->pairs <= ROPE_MOST_PAIRS && 2 * op->pairs <= op->x.shape[3],
               "pairs must be from 1 to half the head size");
    device->ops->rope(device, op);
}

static void check_relative_rule(const char *op, const struct relative_rule *rule) {
    int64_t side = rule->is_bidirectional ? rule->buckets / 2 : rule->buckets;
    check_rule(op, rule->buckets <= RELATIVE_MOST_BUCKETS && (!rule->is_bidirectional || rule->buckets % 2 == 0),
               "there are too many buckets, or an odd number for two directions");
    check_rule(op, side >= 2 && rule->max_distance > side / 2, "there are too few buckets, or too near a distance");
}

void op_relative_bias_forward(struct device *device, const struct op_relative_bias_forward *op) {
    const char *name = "op_relative_bias_forward";
    check_activation(device, name, "table", op->table, 2);
    check_relative_rule(name, &op->rule);
    check_rule(name, op->bias.rank == 2, "bias must have rank 2");
    int64_t heads = op->bias.shape[0];
    check_tensor(name, "bias", op->bias, check_2d(DTYPE_F32, heads, op->bias.shape[1]));
    check_tensor(name, "table", op->table, check_2d(op->table.dtype, op->rule.buckets, heads));
    device->ops->relative_bias_forward(device, op);
}

void op_relative_bias_backward(struct device *device, const struct op_relative_bias_backward *op) {
    const char *name = "op_relative_bias_backward";
    check_relative_rule(name, &op->rule);
    check_rule(name, op->dbias.rank == 3, "dbias must have rank 3");
    int64_t heads = op->dbias.shape[1];
    check_tensor(name, "dbias", op->dbias, check_3d(DTYPE_F32, op->dbias.shape[0], heads, op->dbias.shape[2]));
    check_tensor(name, "dtable", op->dtable, check_2d(DTYPE_F32, op->rule.buckets, heads));
    device->ops->relative_bias_backward(device, op);
}

void op_alibi(struct device *device, const struct op_alibi *op) {
    const char *name = "op_alibi";
    check_rule(name, op->bias.rank == 2, "bias must have rank 2");
    check_tensor(name, "bias", op->bias, check_2d(DTYPE_F32, op->bias.shape[0], op->bias.shape[1]));
    check_rule(name, op->first_head >= 0 && op->first_head + op->bias.shape[0] <= op->heads,
               "the rows must be heads of the layer");
    device->ops->alibi(device, op);
}
