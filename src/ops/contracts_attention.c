// Contracts and checked entry points of attention and of position encodings.
#include "ops/attention_parts.h"
#include "ops/contract.h"
#include "base/error.h"

// Q queries and K keys in each of B samples.
#define QUERIES_AND_KEYS IN(q, ACT, "B Q H D", STRIDED), IN(k, ACT, "B K G D", STRIDED)
#define MASK(...)                                                                                                      \
    IN(mask.key_counts, I32, "B", MAYBE, FREE), IN(mask.first_keys, I32, "BQ", MAYBE, FREE),                           \
        IN(mask.relative_bias, F32, "H Q+K-1", MAYBE)

static void heads_rules(const struct contract_call *call, struct tensor q, struct tensor k, int64_t value_size) {
    int most = call->device->ops->most_head_size;
    int64_t heads = q.shape[2], groups = k.shape[2], head_size = q.shape[3];
    int64_t widest = head_size > value_size ? head_size : value_size;
    RULE(call, head_size >= 1 && value_size >= 1 && (most == 0 || widest <= most),
         "the device does not take heads of this size");
    RULE(call, groups >= 1 && heads % groups == 0, "query heads must be a multiple of key/value heads");
    RULE(call, k.shape[1] >= 1, "there must be at least one key");
    RULE(call, heads <= 65535, "there may be no more than 65535 heads");
}

static void mask_rules(const struct contract_call *call, bool is_causal, const struct attention_mask *mask) {
    RULE(call, !is_causal || SIZE(call, Q) <= SIZE(call, K), "causal attention needs at least as many keys as queries");
    RULE(call, mask->window == 0 || (mask->window > 0 && is_causal), "a window belongs to causal attention");
}

static void cap_rule(const struct contract_call *call, float cap, const struct attention_mask *mask) {
    RULE(call, cap >= 0 && (cap == 0 || !mask->relative_bias.data),
         "a cap is above 0 and does not go with a relative bias");
}

RULED(attention_forward, QUERIES_AND_KEYS, IN(v, ACT, "B K G V", STRIDED), OUT(out, ACT, "B Q H V", STRIDED),
      OUT(lse, F32, "B H Q", MAYBE), MASK(), IN(scores.sinks, ACT, "H", MAYBE, FREE), DROPOUT("BQ"), APART(out, q),
      APART(out, k), APART(out, v));

static void attention_forward_rules(struct contract_call *call, const struct op_attention_forward *op) {
    heads_rules(call, op->q, op->k, SIZE(call, V));
    mask_rules(call, op->is_causal, &op->mask);
    cap_rule(call, op->scores.cap, &op->mask);
}

RULED(largest_scores, QUERIES_AND_KEYS, CHANGED(largest, F32, "H", ONCE), MASK());

static void largest_scores_rules(struct contract_call *call, const struct op_largest_scores *op) {
    heads_rules(call, op->q, op->k, SIZE(call, D));
    mask_rules(call, op->is_causal, &op->mask);
    RULE(call, !op->mask.relative_bias.data, "a relative bias is not taken");
}

// Of a part of a 16-bit operand, if its extent is beyond a limit.
static int64_t packed_bytes(struct tensor t, const struct attention_part *part, int64_t heads, int64_t most) {
    struct tensor first = attention_first_part(t, part->samples, heads);
    return attention_extent(first) > most ? (int64_t)tensor_bytes(first) : 0;
}

// In 16 bits a fused kernel accumulates dq in fp32 (with grouped queries also dk and dv of every query head), one part
// at a time, and reads two bounds per query and a seed per part. With a relative bias, a kernel instead sums the bias's
// gradient along the distances of each tile of queries.
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
    struct tensor out = tensor_4d(q.data, q.dtype, q.shape[0], q.shape[1], q.shape[2], v.shape[3]);
    bytes += packed_bytes(q, &part, part.heads, ATTENTION_WRITTEN_EXTENT) +
             packed_bytes(k, &part, part.key_heads, ATTENTION_WRITTEN_EXTENT) +
             packed_bytes(v, &part, part.key_heads, ATTENTION_WRITTEN_EXTENT) +
             2 * packed_bytes(out, &part, part.heads, ATTENTION_SUMMED_EXTENT);
    int64_t tiles = (q.shape[1] + TILE - 1) / TILE, distances = (k.shape[1] + TILE - 1) / TILE * TILE + TILE;
    int64_t bias_bytes = mask->relative_bias.data ? 4 * rows * tiles * distances : 0;
    return bias_bytes > bytes ? bias_bytes : bytes;
}

RULED(attention_backward, QUERIES_AND_KEYS, IN(v, ACT, "B K G V", STRIDED), OUT(dq, ACT, "B Q H D", STRIDED),
      OUT(dk, ACT, "B K G D", STRIDED), OUT(dv, ACT, "B K G V", STRIDED), IN(dout, ACT, "B Q H V", STRIDED),
      IN(out, ACT, "B Q H V", STRIDED), IN(lse, F32, "B H Q"), OUT(scratch, F32, "B H Q"), MASK(),
      IN(scores.sinks, ACT, "H", MAYBE, FREE), OUT(dsinks, F32, "B H", MAYBE, FREE),
      ADDED(drelative_bias, F32, "B H Q+K-1", MAYBE), DROPOUT("BQ"), APART(scratch, lse), APART(dq, q), APART(dk, k),
      APART(dv, v), APART(dq, dout));

static void attention_backward_rules(struct contract_call *call, const struct op_attention_backward *op) {
    heads_rules(call, op->q, op->k, SIZE(call, V));
    mask_rules(call, op->is_causal, &op->mask);
    cap_rule(call, op->scores.cap, &op->mask);
    RULE(call, !op->dsinks.data == !op->scores.sinks.data, "sinks and dsinks go together");
    RULE(call, !op->drelative_bias.data || op->mask.relative_bias.data,
         "drelative_bias is the gradient of a relative_bias");
}

// H heads, each of P channels of keys and V of values; R more channels of keys that they share.
#define LATENT_SIZES(call_, op_) latent_sizes(call_, (op_)->heads, (op_)->value_size)
static void latent_sizes(struct contract_call *call, int64_t heads, int64_t value_size) {
    RULE(call, heads >= 1 && value_size >= 1, "sizes must be at least 1");
    contract_set(call, 'H', heads);
    contract_set(call, 'V', value_size);
}
#define LATENT_RULES(call_, op_)                                                                                       \
    RULE(call_, SIZE(call_, P) >= 1 && SIZE(call_, R) >= 1, "heads must have channels of keys, own and shared ones")

CHECKED(latent_forward, LATENT_SIZES, LATENT_RULES, IN(up, ACT, "N HP+HV"), IN(shared, ACT, "N R", STRIDED),
        OUT(kv, ACT, "N HP+HR+HV"), APART(kv, up), APART(kv, shared));
CHECKED(latent_backward, LATENT_SIZES, LATENT_RULES, OUT(dup, ACT, "N HP+HV", CALLED("up")),
        OUT(dshared, ACT, "N R", STRIDED, CALLED("shared")), IN(dkv, ACT, "N HP+HR+HV", CALLED("kv")), APART(dkv, dup),
        APART(dkv, dshared));

RULED(rope, CHANGED(x, ACT, "B T H D", STRIDED), IN(positions, I32, "BT"));

static void rope_rules(struct contract_call *call, const struct op_rope *op) {
    RULE(call, op->frequencies && op->pairs >= 1 && op->pairs <= ROPE_MOST_PAIRS && 2 * op->pairs <= SIZE(call, D),
         "pairs must be from 1 to half the head size");
}

// U buckets.
#define BUCKETS(call_, op_) relative_sizes(call_, &(op_)->rule)
static void relative_sizes(struct contract_call *call, const struct relative_rule *rule) {
    int64_t side = rule->is_bidirectional ? rule->buckets / 2 : rule->buckets;
    RULE(call, rule->buckets <= RELATIVE_MOST_BUCKETS && (!rule->is_bidirectional || rule->buckets % 2 == 0),
         "there are too many buckets, or an odd number for two directions");
    RULE(call, side >= 2 && rule->max_distance > side / 2, "there are too few buckets, or too near a distance");
    contract_set(call, 'U', rule->buckets);
}

CHECKED(relative_bias_forward, BUCKETS, NOTHING, OUT(bias, F32, "H W"), IN(table, ACT, "U H"));
CHECKED(relative_bias_backward, BUCKETS, NOTHING, IN(dbias, F32, "B H W"), ADDED(dtable, F32, "U H"));

RULED(alibi, OUT(bias, F32, "H W"));

static void alibi_rules(struct contract_call *call, const struct op_alibi *op) {
    RULE(call, op->first_head >= 0 && op->first_head + SIZE(call, H) <= op->heads,
         "the rows must be heads of the layer");
}
