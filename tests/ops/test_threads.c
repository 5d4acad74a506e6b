// Pools of 1, 2, 3, 4 and 7 threads leave the same bytes in memory. All sizes are such that operations are split.
// label: slow
// cost: 15
#include "cases_float4.h"
#include "ops/cpu/kernel.h"

enum { ROWS = 300, CHANNELS = 200, VOCABULARY = 3000, HEADS = 4, HEAD_SIZE = 50, SEQUENCE = 150 };

static void run_matmuls(struct lab *lab) {
    struct tensor a = lab_2d(lab, ROWS, CHANNELS, 1).t, b = lab_2d(lab, VOCABULARY, CHANNELS, 1).t;
    struct tensor d = lab_2d(lab, ROWS, VOCABULARY, 1).t, aux = lab_2d(lab, ROWS, VOCABULARY, 1).t;
    struct tensor bias = lab_1d(lab, VOCABULARY, 1).t, da = lab_2d(lab, ROWS, CHANNELS, 1).t;
    struct tensor db = lab_2d(lab, VOCABULARY, CHANNELS, 1).t, row = lab_2d(lab, 1, VOCABULARY, 1).t;
    struct op_matmul forward = {.a = a,
                                .b = b,
                                .d = d,
                                .transpose_b = true,
                                .alpha = 1,
                                .bias = bias,
                                .aux = aux,
                                .epilogue = EPILOGUE_BIAS_ACTIVATION};
    op_matmul(lab->device, &forward);
    forward.epilogue = EPILOGUE_ACTIVATION_GRADIENT;
    op_matmul(lab->device, &forward);
    op_matmul(lab->device, &(struct op_matmul){.a = d, .b = b, .d = da, .alpha = 1});
    op_matmul(lab->device, &(struct op_matmul){.a = d, .b = a, .d = db, .transpose_a = true, .alpha = 1, .beta = 1});
    op_matmul(lab->device,
              &(struct op_matmul){.a = tensor_rows(a, 0, 1), .b = b, .d = row, .transpose_b = true, .alpha = 1});
    op_column_sum(lab->device, &(struct op_column_sum){.out = bias, .x = d});
}

static struct tensor half_2d(struct lab *lab, int64_t rows, int64_t columns) {
    return lab_sample(lab, arena_2d(&lab->arena, DTYPE_BF16, rows, columns), 1).t;
}

static void run_half_matmuls(struct lab *lab) {
    struct tensor a = half_2d(lab, ROWS, CHANNELS), b = half_2d(lab, VOCABULARY, CHANNELS);
    struct tensor d = half_2d(lab, ROWS, VOCABULARY), da = half_2d(lab, ROWS, CHANNELS);
    struct tensor db = lab_2d(lab, VOCABULARY, CHANNELS, 1).t;
    op_matmul(lab->device, &(struct op_matmul){.a = a, .b = b, .d = d, .transpose_b = true, .alpha = 1});
    op_matmul(lab->device, &(struct op_matmul){.a = d, .b = b, .d = da, .alpha = 1});
    op_matmul(lab->device, &(struct op_matmul){.a = d, .b = a, .d = db, .transpose_a = true, .alpha = 1, .beta = 1});
}

static void run_norms(struct lab *lab) {
    struct tensor x = lab_2d(lab, ROWS, CHANNELS, 1).t, y = lab_2d(lab, ROWS, CHANNELS, 1).t;
    struct tensor delta = lab_2d(lab, ROWS, CHANNELS, 1).t, dx = lab_2d(lab, ROWS, CHANNELS, 1).t;
    struct tensor gain = lab_1d(lab, CHANNELS, 1).t, bias = lab_1d(lab, CHANNELS, 1).t;
    struct tensor mean = lab_1d(lab, ROWS, 1).t, rstd = lab_1d(lab, ROWS, 1).t, dgain = lab_1d(lab, CHANNELS, 1).t;
    struct tensor dbias = lab_1d(lab, CHANNELS, 1).t, ddelta_bias = lab_1d(lab, CHANNELS, 1).t;
    struct dropout dropout = lab_dropout(lab, 0.1f, ROWS);
    op_norm_forward(lab->device, &(struct op_norm_forward){.y = y,
                                                           .mean = mean,
                                                           .rstd = rstd,
                                                           .x = x,
                                                           .gain = gain,
                                                           .bias = bias,
                                                           .epsilon = 1e-5f,
                                                           .delta = delta,
                                                           .sum = x,
                                                           .dropout = dropout});
    op_norm_backward(lab->device, &(struct op_norm_backward){.dx = dx,
                                                             .dgain = dgain,
                                                             .dbias = dbias,
                                                             .dy = y,
                                                             .x = x,
                                                             .gain = gain,
                                                             .mean = mean,
                                                             .rstd = rstd,
                                                             .dresidual = dx,
                                                             .ddelta = y,
                                                             .ddelta_bias = ddelta_bias,
                                                             .dropout = dropout});
    op_dropout_add(lab->device, &(struct op_dropout_add){.out = delta, .x = delta, .residual = x, .dropout = dropout});
    op_dropout_backward(lab->device,
                        &(struct op_dropout_backward){.dx = y, .dy = y, .dbias = dbias, .dropout = dropout});
}

static void run_attention(struct lab *lab) {
    int64_t heads[4] = {2, SEQUENCE, HEADS, HEAD_SIZE}, groups[4] = {2, SEQUENCE, HEADS / 2, HEAD_SIZE};
    struct tensor q = lab_4d(lab, heads, 1).t, k = lab_4d(lab, groups, 1).t, v = lab_4d(lab, groups, 1).t;
    struct tensor out = lab_4d(lab, heads, 1).t, dout = lab_4d(lab, heads, 1).t, dq = lab_4d(lab, heads, 1).t;
    struct tensor dk = lab_4d(lab, groups, 1).t, dv = lab_4d(lab, groups, 1).t;
    struct tensor lse = arena_3d(&lab->arena, DTYPE_F32, 2, HEADS, SEQUENCE);
    struct tensor scratch = arena_3d(&lab->arena, DTYPE_F32, 2, HEADS, SEQUENCE);
    struct dropout dropout = lab_dropout(lab, 0.1f, 2 * SEQUENCE);
    op_attention_forward(
        lab->device,
        &(struct op_attention_forward){
            .out = out, .lse = lse, .q = q, .k = k, .v = v, .scale = 0.14f, .is_causal = true, .dropout = dropout});
    op_attention_backward(lab->device, &(struct op_attention_backward){.dq = dq,
                                                                       .dk = dk,
                                                                       .dv = dv,
                                                                       .dout = dout,
                                                                       .out = out,
                                                                       .lse = lse,
                                                                       .scratch = scratch,
                                                                       .q = q,
                                                                       .k = k,
                                                                       .v = v,
                                                                       .scale = 0.14f,
                                                                       .is_causal = true,
                                                                       .dropout = dropout});
}

static void run_clip(struct lab *lab) {
    int64_t heads[4] = {2, SEQUENCE, HEADS, HEAD_SIZE}, groups[4] = {2, SEQUENCE, HEADS / 2, HEAD_SIZE};
    struct tensor largest = lab_1d(lab, HEADS, 1).t, master = lab_1d(lab, HEADS * HEAD_SIZE * CHANNELS, 1).t;
    for (int i = 0; i < HEADS; i++)
        ((float *)largest.data)[i] = 0;
    op_largest_scores(lab->device, &(struct op_largest_scores){.largest = largest,
                                                               .q = lab_4d(lab, heads, 1).t,
                                                               .k = lab_4d(lab, groups, 1).t,
                                                               .scale = 0.14f,
                                                               .is_causal = true});
    struct tensor scale = lab_1d(lab, 1, 1).t;
    ((float *)scale.data)[0] = 1;
    op_clip_rows(lab->device, &(struct op_clip_rows){.master = master,
                                                     .largest = largest,
                                                     .scale = scale,
                                                     .columns = CHANNELS,
                                                     .unit_rows = HEAD_SIZE,
                                                     .count = HEAD_SIZE,
                                                     .threshold = 0.01f,
                                                     .power = 0.5f});
}

// What other families add: gated units, RMSNorm, rotary positions, masks and biases.
static void run_families(struct lab *lab) {
    struct tensor x = lab_2d(lab, ROWS, 2 * CHANNELS, 1).t, y = lab_2d(lab, ROWS, CHANNELS, 1).t;
    struct tensor z = lab_2d(lab, ROWS, CHANNELS, 1).t, gain = lab_1d(lab, CHANNELS, 1).t;
    struct tensor rstd = lab_1d(lab, ROWS, 1).t, dgain = lab_1d(lab, CHANNELS, 1).t;
    op_glu_forward(lab->device, &(struct op_glu_forward){.y = y, .x = x, .activation = ACTIVATION_SILU});
    op_glu_backward(lab->device, &(struct op_glu_backward){.dx = x, .dy = y, .x = x, .activation = ACTIVATION_SILU});
    op_activation_forward(lab->device, &(struct op_activation_forward){.y = z, .x = y, .activation = ACTIVATION_GELU});
    op_activation_backward(lab->device,
                           &(struct op_activation_backward){.dx = z, .dy = z, .x = y, .activation = ACTIVATION_GELU});
    op_norm_forward(lab->device, &(struct op_norm_forward){
                                     .kind = NORM_RMS, .y = z, .rstd = rstd, .x = y, .gain = gain, .epsilon = 1e-5f});
    op_norm_backward(lab->device, &(struct op_norm_backward){.kind = NORM_RMS,
                                                             .dx = lab_2d(lab, ROWS, CHANNELS, 1).t,
                                                             .dgain = dgain,
                                                             .dy = z,
                                                             .x = y,
                                                             .gain = gain,
                                                             .rstd = rstd});
    int64_t shape[4] = {2, SEQUENCE, HEADS, HEAD_SIZE};
    struct tensor q = lab_4d(lab, shape, 1).t, k = lab_4d(lab, shape, 1).t, v = lab_4d(lab, shape, 1).t;
    struct tensor out = lab_4d(lab, shape, 1).t, dq = lab_4d(lab, shape, 1).t, dk = lab_4d(lab, shape, 1).t;
    struct tensor lse = arena_3d(&lab->arena, DTYPE_F32, 2, HEADS, SEQUENCE);
    static const int32_t counts[2] = {SEQUENCE - 5, SEQUENCE / 2};
    static const double frequencies[3] = {1, 0.1, 0.01};
    int32_t positions[2 * SEQUENCE];
    for (int32_t i = 0; i < 2 * SEQUENCE; i++)
        positions[i] = i;
    op_rope(lab->device,
            &(struct op_rope){
                .x = q, .positions = lab_ints(lab, 2 * SEQUENCE, positions), .frequencies = frequencies, .pairs = 3});
    struct tensor kv = lab_2d(lab, ROWS, CHANNELS + 2 * 6, 1).t, shared = lab_2d(lab, ROWS, 6, 1).t;
    op_latent_forward(lab->device,
                      &(struct op_latent_forward){.kv = kv, .up = y, .shared = shared, .heads = 2, .value_size = 3});
    op_latent_backward(
        lab->device, &(struct op_latent_backward){.dup = y, .dshared = shared, .dkv = kv, .heads = 2, .value_size = 3});
    struct attention_mask mask = {.key_counts = lab_ints(lab, 2, counts),
                                  .relative_bias = lab_2d(lab, HEADS, 2 * SEQUENCE - 1, 1).t};
    op_attention_forward(lab->device, &(struct op_attention_forward){
                                          .out = out, .lse = lse, .q = q, .k = k, .v = v, .scale = 0.1f, .mask = mask});
    op_attention_backward(
        lab->device,
        &(struct op_attention_backward){
            .dq = dq,
            .dk = dk,
            .dv = lab_4d(lab, shape, 1).t,
            .drelative_bias = lab_sample(lab, arena_3d(&lab->arena, DTYPE_F32, 2, HEADS, 2 * SEQUENCE - 1), 1).t,
            .dout = lab_4d(lab, shape, 1).t,
            .out = out,
            .lse = lse,
            .scratch = arena_3d(&lab->arena, DTYPE_F32, 2, HEADS, SEQUENCE),
            .q = q,
            .k = k,
            .v = v,
            .scale = 0.1f,
            .mask = mask,
        });
}

static void run_loss(struct lab *lab) {
    int32_t tokens[ROWS];
    for (int i = 0; i < ROWS; i++)
        tokens[i] = i * 37 % 100;
    struct tensor labels = lab_ints(lab, ROWS, tokens), logits = lab_2d(lab, ROWS, VOCABULARY, 5).t;
    struct tensor max = lab_1d(lab, ROWS, 1).t, sum = lab_1d(lab, ROWS, 1).t, target = lab_1d(lab, ROWS, 1).t;
    struct tensor losses = lab_1d(lab, ROWS, 1).t, weights = lab_1d(lab, ROWS, 1).t, total = lab_1d(lab, 1, 1).t;
    op_softmax_stats(lab->device,
                     &(struct op_softmax_stats){
                         .row_max = max, .row_sum = sum, .row_target = target, .logits = logits, .labels = labels});
    if (logits.dtype == DTYPE_F32)
        op_top_hits(lab->device,
                    &(struct op_top_hits){.hits = total, .logits = logits, .labels = labels, .tops = {3}, .count = 1});
    op_softcap(lab->device, &(struct op_softcap){.x = logits, .cap = 5});
    op_cross_entropy(lab->device, &(struct op_cross_entropy){.losses = losses,
                                                             .logits = logits,
                                                             .row_max = max,
                                                             .row_sum = sum,
                                                             .row_target = target,
                                                             .labels = labels,
                                                             .weights = weights});
    op_dot(lab->device, &(struct op_dot){.out = total, .a = losses, .b = weights});
    struct tensor table = lab_2d(lab, 100, CHANNELS, 1).t, out = lab_2d(lab, ROWS, CHANNELS, 1).t;
    struct dropout dropout = lab_dropout(lab, 0.1f, ROWS);
    op_embedding_forward(
        lab->device, &(struct op_embedding_forward){.out = out, .tokens = labels, .table = table, .dropout = dropout});
    op_embedding_backward(lab->device, &(struct op_embedding_backward){
                                           .dtable = table, .dout = out, .tokens = labels, .dropout = dropout});
}

static void run_optimizer(struct lab *lab) {
    enum { COUNT = 300001 };
    struct tensor master = lab_1d(lab, COUNT, 1).t, grad = lab_1d(lab, COUNT, 1).t, m = lab_1d(lab, COUNT, 1).t;
    struct tensor v = lab_1d(lab, COUNT, 0).t, squares = lab_1d(lab, 1, 0).t, norm = lab_1d(lab, 1, 1).t;
    struct tensor scale = lab_1d(lab, 1, 1).t, copy = lab_1d(lab, COUNT, 1).t, rate = lab_1d(lab, RATE_GROUP, 1e-3).t;
    op_sum_squares(lab->device, &(struct op_sum_squares){.out = squares, .x = grad});
    op_clip_scale(lab->device,
                  &(struct op_clip_scale){.scale = scale, .norm = norm, .sum_squares = squares, .max_norm = 1});
    op_adam(lab->device, &(struct op_adam){.master = master,
                                           .grad = grad,
                                           .m = m,
                                           .v = v,
                                           .scale = scale,
                                           .rate = rate,
                                           .beta1 = 0.9f,
                                           .beta2 = 0.95f,
                                           .epsilon = 1e-8f,
                                           .is_decayed = true});
    op_sgd(lab->device,
           &(struct op_sgd){.master = master, .grad = grad, .m = m, .scale = scale, .rate = rate, .momentum = 0.9f});
    op_lion(lab->device, &(struct op_lion){.master = master,
                                           .grad = grad,
                                           .m = m,
                                           .scale = scale,
                                           .rate = rate,
                                           .beta1 = 0.95f,
                                           .beta2 = 0.98f,
                                           .is_decayed = true});
    struct tensor along = arena_1d(&lab->arena, DTYPE_F32, tensor_count(master));
    op_momentum(lab->device, &(struct op_momentum){.y = along, .grad = grad, .m = m, .scale = scale, .momentum = 0.9f});
    op_normalize(lab->device, &(struct op_normalize){.y = copy, .x = along, .sum_squares = squares, .least = 1e-3f});
    struct tensor matrix = tensor_reshape_2d(tensor_rows(along, 0, 300000), 300, 1000);
    struct tensor means = arena_2d(&lab->arena, DTYPE_F32, 300, 1000);
    for (int i = 0; i < 2; i++)
        op_mean_squares(lab->device, &(struct op_mean_squares){.y = means, .x = matrix, .is_by_columns = i});
    struct tensor pieces = lab_sample(lab, arena_3d(&lab->arena, DTYPE_BF16, 30, 100, 100), 1).t;
    op_add_diagonal(lab->device, &(struct op_add_diagonal){.x = pieces, .value = 0.5f});
    op_adapt(lab->device, &(struct op_adapt){.x = along, .v = v, .scale = scale, .beta2 = 0.9f, .epsilon = 1e-8f});
    op_follow(lab->device,
              &(struct op_follow){
                  .master = master, .x = along, .scale = scale, .rate = rate, .factor = 2, .is_decayed = true});
    op_average(lab->device, &(struct op_average){.average = v, .master = master, .scale = scale, .decay = 0.9f});
    op_digest(lab->device, &(struct op_digest){.out = arena_1d(&lab->arena, DTYPE_I64, 1), .x = master, .seed = 1});
    op_copy(lab->device, &(struct op_copy){.dst = copy, .src = master});
    op_scale(lab->device, &(struct op_scale){.x = copy, .factor = 0.7f});
}

// Distances and their biases, the statistics of a vocabulary in parts, master weights in two halves.
static void run_parts(struct lab *lab) {
    enum { BUCKETS = 32, PARTS = 4, COUNT = 300001 };
    struct relative_rule rule = {.first_distance = -99, .buckets = BUCKETS, .max_distance = 128, .is_bidirectional = 1};
    struct tensor bias = lab_2d(lab, HEADS, 2 * SEQUENCE - 1, 1).t, table = lab_2d(lab, BUCKETS, HEADS, 1).t;
    struct tensor dbias = lab_sample(lab, arena_3d(&lab->arena, DTYPE_F32, 2, HEADS, 2 * SEQUENCE - 1), 1).t;
    op_relative_bias_forward(lab->device,
                             &(struct op_relative_bias_forward){.bias = bias, .table = table, .rule = rule});
    op_relative_bias_backward(lab->device,
                              &(struct op_relative_bias_backward){.dtable = table, .dbias = dbias, .rule = rule});
    op_alibi(lab->device, &(struct op_alibi){.bias = bias, .heads = HEADS, .scale = 1});
    struct tensor parts = lab_sample(lab, arena_3d(&lab->arena, DTYPE_F32, PARTS, 3, ROWS), 1).t;
    op_softmax_merge(lab->device, &(struct op_softmax_merge){.row_max = lab_1d(lab, ROWS, 1).t,
                                                             .row_sum = lab_1d(lab, ROWS, 1).t,
                                                             .row_target = lab_1d(lab, ROWS, 1).t,
                                                             .parts = parts});
    struct tensor x = lab_1d(lab, COUNT, 1).t, value = arena_1d(&lab->arena, DTYPE_BF16, COUNT);
    struct tensor rest = arena_1d(&lab->arena, DTYPE_I16, COUNT);
    op_split(lab->device, &(struct op_split){.value = value, .rest = rest, .x = x});
    op_merge(lab->device, &(struct op_merge){.x = x, .value = value, .rest = rest});
}

enum { MANY_EXPERTS = 40, CHOSEN = 3, SLOTS = ROWS * CHOSEN, EXPERT_WIDTH = 70 };

// Which experts rows go to; some of these tensors are read and written by several operations.
struct routed {
    struct router_rule rule;
    struct tensor logits, dlogits;             // (ROWS, MANY_EXPERTS)
    struct tensor experts, weights, dweights;  // (ROWS, CHOSEN)
    struct tensor sums;                        // (3, MANY_EXPERTS)
};

static struct routed run_router(struct lab *lab) {
    struct routed r = {.rule = {.score = ROUTER_SIGMOID, .factor = 2, .groups = 4, .chosen_groups = 2},
                       .logits = lab_2d(lab, ROWS, MANY_EXPERTS, 2).t,
                       .dlogits = lab_2d(lab, ROWS, MANY_EXPERTS, 1).t,
                       .experts = arena_2d(&lab->arena, DTYPE_I32, ROWS, CHOSEN),
                       .weights = lab_2d(lab, ROWS, CHOSEN, 1).t,
                       .dweights = lab_2d(lab, ROWS, CHOSEN, 1).t,
                       .sums = lab_2d(lab, 3, MANY_EXPERTS, 1).t};
    struct tensor counts = lab_2d(lab, 1, MANY_EXPERTS, 1).t, bias = lab_2d(lab, 1, MANY_EXPERTS, 0.1).t;
    op_route_forward(lab->device, &(struct op_route_forward){.experts = r.experts,
                                                             .weights = r.weights,
                                                             .counts = tensor_flat(counts),
                                                             .logits = r.logits,
                                                             .bias = tensor_flat(bias),
                                                             .rule = r.rule});
    op_balance_forward(lab->device, &(struct op_balance_forward){.sums = r.sums,
                                                                 .counts = lab_2d(lab, 3, MANY_EXPERTS, 1).t,
                                                                 .z = lab_1d(lab, 1, 1).t,
                                                                 .logits = r.logits,
                                                                 .chosen = CHOSEN});
    op_balance_bias(lab->device, &(struct op_balance_bias){.bias = bias, .counts = counts, .rate = 0.01f});
    op_balance_load(lab->device, &(struct op_balance_load){.load = lab_2d(lab, counts.shape[0], MANY_EXPERTS, 1).t,
                                                           .counts = counts});
    op_sinkhorn(lab->device, &(struct op_sinkhorn){.bias = lab_1d(lab, MANY_EXPERTS, 1).t, .logits = r.logits});
    return r;
}

static void run_router_backward(struct lab *lab, const struct routed *r) {
    op_route_backward(lab->device, &(struct op_route_backward){.dlogits = r->dlogits,
                                                               .dweights = r->dweights,
                                                               .logits = r->logits,
                                                               .experts = r->experts,
                                                               .rule = r->rule});
    op_balance_backward(lab->device, &(struct op_balance_backward){.dlogits = r->dlogits,
                                                                   .logits = r->logits,
                                                                   .slopes = r->sums,
                                                                   .z_factor = 0.1f,
                                                                   .score = ROUTER_SQRT_SOFTPLUS});
}

struct sorted {
    struct tensor offsets, sources, places;  // rows of each expert, and where they come from
};

// Between the matmuls: g (SLOTS, EXPERT_WIDTH) from h (SLOTS, 2 EXPERT_WIDTH), and the gradient in place of h.
static void run_expert_activation(struct lab *lab, const struct routed *r, const struct sorted *s, struct tensor h) {
    struct tensor g = lab_2d(lab, SLOTS, EXPERT_WIDTH, 1).t, bias = lab_2d(lab, MANY_EXPERTS, 2 * EXPERT_WIDTH, 1).t;
    op_expert_activation_forward(lab->device, &(struct op_expert_activation_forward){.y = g,
                                                                                     .x = h,
                                                                                     .bias = bias,
                                                                                     .weights = r->weights,
                                                                                     .offsets = s->offsets,
                                                                                     .sources = s->sources,
                                                                                     .is_gated = true});
    op_expert_activation_backward(
        lab->device, &(struct op_expert_activation_backward){.dx = h,
                                                             .dweights = r->dweights,
                                                             .dbias = lab_2d(lab, MANY_EXPERTS, 2 * EXPERT_WIDTH, 1).t,
                                                             .dy = g,
                                                             .x = h,
                                                             .bias = bias,
                                                             .weights = r->weights,
                                                             .offsets = s->offsets,
                                                             .sources = s->sources,
                                                             .is_gated = true});
}

static void run_sums(struct lab *lab, const struct routed *r, const struct sorted *s, struct tensor y) {
    struct tensor out = lab_2d(lab, ROWS, CHANNELS, 1).t, bias = lab_2d(lab, MANY_EXPERTS, CHANNELS, 1).t;
    op_sum_slots(
        lab->device,
        &(struct op_sum_slots){
            .out = out, .y = y, .places = s->places, .bias = bias, .experts = r->experts, .weights = r->weights});
    op_slot_bias_backward(lab->device,
                          &(struct op_slot_bias_backward){.dbias = lab_2d(lab, MANY_EXPERTS, CHANNELS, 1).t,
                                                          .dweights = r->dweights,
                                                          .dout = out,
                                                          .bias = bias,
                                                          .weights = r->weights,
                                                          .offsets = s->offsets,
                                                          .sources = s->sources});
}

// Rows to experts and back, in fp32 and in the dtype of the lab; one expert has none.
static void run_experts(struct lab *lab) {
    struct routed r = run_router(lab);
    struct sorted s = {arena_1d(&lab->arena, DTYPE_I32, MANY_EXPERTS + 1), arena_1d(&lab->arena, DTYPE_I32, SLOTS),
                       arena_2d(&lab->arena, DTYPE_I32, ROWS, CHOSEN)};
    struct tensor x = lab_2d(lab, ROWS, CHANNELS, 1).t, y = lab_2d(lab, SLOTS, CHANNELS, 1).t;
    struct tensor h = lab_2d(lab, SLOTS, 2 * EXPERT_WIDTH, 1).t;
    struct tensor w = lab_sample(lab, arena_3d(&lab->arena, DTYPE_F32, MANY_EXPERTS, 2 * EXPERT_WIDTH, CHANNELS), 1).t;
    struct dropout keys = lab_dropout(lab, 0.5f, ROWS);
    op_jitter(lab->device,
              &(struct op_jitter){
                  .out = x, .x = x, .row_ids = keys.row_ids, .seed = keys.seed, .site = keys.site, .epsilon = 0.1f});
    op_sort_slots(lab->device, &(struct op_sort_slots){.offsets = s.offsets,
                                                       .sources = s.sources,
                                                       .places = s.places,
                                                       .experts = r.experts,
                                                       .weights = r.weights,
                                                       .capacity = 25});
    op_gather_slots(lab->device, &(struct op_gather_slots){.y = y, .x = x, .sources = s.sources, .per_row = CHOSEN});
    op_grouped_matmul(lab->device, &(struct op_grouped_matmul){.d = h, .a = y, .b = w, .offsets = s.offsets});
    run_expert_activation(lab, &r, &s, h);
    op_grouped_matmul(lab->device,
                      &(struct op_grouped_matmul){.kind = GROUPED_INPUT, .d = y, .a = h, .b = w, .offsets = s.offsets});
    run_sums(lab, &r, &s, y);
    op_grouped_matmul(
        lab->device,
        &(struct op_grouped_matmul){.kind = GROUPED_WEIGHT, .d = w, .a = h, .b = y, .offsets = s.offsets, .beta = 1});
    run_router_backward(lab, &r);
}

// Rows of experts in fp8; of the last ones none has an expert.
static void run_experts8(struct lab *lab) {
    enum { EXPERTS = 5, FILLED = 190, PLACES = 208, C = 48, F = 80 };
    static const int32_t offsets[EXPERTS + 1] = {0, 0, 71, 72, 150, FILLED};
    int32_t *source = lab_host(lab, sizeof *source * PLACES);
    for (int32_t i = 0; i < PLACES; i++)
        source[i] = i < FILLED ? (i * 7) % FILLED : -1;
    struct tensor sources = lab_ints(lab, PLACES, source), starts = lab_ints(lab, EXPERTS + 1, offsets);
    struct tensor weights = lab_fp32_2d(lab, FILLED, 1, 1).t, dweights = lab_fp32_2d(lab, FILLED, 1, 1).t;
    struct tensor rows = half_2d(lab, FILLED, C), before = half_2d(lab, PLACES, 2 * F),
                  dafter = half_2d(lab, PLACES, F);
    struct operand x = float8_operand(lab, DTYPE_E4M3, PLACES, C, 2),
                   after = float8_operand(lab, DTYPE_E4M3, PLACES, F, 2);
    struct operand dbefore = float8_operand(lab, DTYPE_E5M2, PLACES, 2 * F, 2),
                   w = float8_operand(lab, DTYPE_E4M3, EXPERTS * 2 * F, C, 2);
    struct tensor dw = lab_sample(lab, arena_3d(&lab->arena, DTYPE_F32, EXPERTS, 2 * F, C), 1).t;
    op_quantize(lab->device, &(struct op_quantize){.y = w, .x = half_2d(lab, EXPERTS * 2 * F, C)});
    op_quantize_slots(lab->device, &(struct op_quantize_slots){.y = x, .x = rows, .sources = sources, .per_row = 1});
    op_quantize_expert_forward(lab->device, &(struct op_quantize_expert_forward){.y = after,
                                                                                 .x = before,
                                                                                 .weights = weights,
                                                                                 .offsets = starts,
                                                                                 .sources = sources,
                                                                                 .activation = ACTIVATION_SILU,
                                                                                 .is_gated = true});
    op_quantize_expert_backward(lab->device, &(struct op_quantize_expert_backward){.dx = dbefore,
                                                                                   .y = after,
                                                                                   .dweights = dweights,
                                                                                   .dy = dafter,
                                                                                   .x = before,
                                                                                   .weights = weights,
                                                                                   .offsets = starts,
                                                                                   .sources = sources,
                                                                                   .activation = ACTIVATION_SILU,
                                                                                   .is_gated = true});
    struct op_grouped_matmul op = {.kind = GROUPED_FORWARD, .d = before, .a = x.value, .offsets = starts};
    op.b = tensor_3d(w.value.data, DTYPE_E4M3, EXPERTS, 2 * F, C);
    op.a_range = x.range;
    op.b_range = w.range;
    op_grouped_matmul(lab->device, &op);
    op = (struct op_grouped_matmul){.kind = GROUPED_INPUT, .d = half_2d(lab, PLACES, C), .a = dbefore.value};
    op.b = w.transposed;
    op.a_range = dbefore.range;
    op.b_range = w.range;
    op.offsets = starts;
    op_grouped_matmul(lab->device, &op);
    op = (struct op_grouped_matmul){.kind = GROUPED_WEIGHT, .d = dw, .a = dbefore.transposed, .b = x.transposed};
    op.a_range = dbefore.range;
    op.b_range = x.range;
    op.offsets = starts;
    op_grouped_matmul(lab->device, &op);
}

static void run_fp8(struct lab *lab) {
    enum { TOKENS = 304, WIDTH = 208, RANGES = 3, STEPS = 5 };
    struct tensor x = half_2d(lab, TOKENS, WIDTH), dy = half_2d(lab, TOKENS, WIDTH), d = half_2d(lab, TOKENS, TOKENS);
    struct operand y = {.value = arena_2d(&lab->arena, DTYPE_E4M3, TOKENS, WIDTH),
                        .transposed = arena_2d(&lab->arena, DTYPE_E4M3, WIDTH, TOKENS),
                        .range = float8_range(lab, DTYPE_E4M3, 3)};
    struct operand dx = {.value = arena_2d(&lab->arena, DTYPE_E5M2, TOKENS, WIDTH),
                         .range = float8_range(lab, DTYPE_E5M2, 3)};
    struct tensor turned = arena_2d(&lab->arena, DTYPE_E5M2, WIDTH, TOKENS), dbias = lab_1d(lab, WIDTH, 1).t;
    op_quantize(lab->device,
                &(struct op_quantize){.kind = QUANTIZE_ACTIVATION, .activation = ACTIVATION_GELU, .y = y, .x = x});
    op_quantize(lab->device, &(struct op_quantize){.kind = QUANTIZE_ACTIVATION_GRADIENT,
                                                   .activation = ACTIVATION_GELU,
                                                   .y = dx,
                                                   .x = x,
                                                   .dy = dy,
                                                   .dbias = dbias});
    op_transpose(lab->device, &(struct op_transpose){.y = turned, .x = dx.value});
    op_matmul(lab->device, &(struct op_matmul){.a = dx.value,
                                               .b = y.value,
                                               .d = d,
                                               .a_range = dx.range,
                                               .b_range = y.range,
                                               .transpose_b = true,
                                               .alpha = 1});
    static const enum scaling scalings[] = {SCALING_VECTOR128, SCALING_BLOCK128, SCALING_VECTOR32};
    for (int i = 0; i < 3; i++)
        op_quantize_blocks(lab->device, &(struct op_quantize_blocks){
                                            .y = blocks_operand(lab, scalings[i], DTYPE_E4M3, TOKENS, WIDTH), .x = x});
    op_quantize_blocks(lab->device, &(struct op_quantize_blocks){.y = float4_operand(lab, SCALING_VECTOR16, 32, 64),
                                                                 .x = half_2d(lab, 32, 64),
                                                                 .rounding = float4_rounding(lab, 32, 1),
                                                                 .mixes = true});
    op_move_ranges(lab->device, &(struct op_move_ranges){.ranges = lab_2d(lab, RANGES, RANGE_LENGTH, 1).t,
                                                         .history = lab_2d(lab, RANGES, STEPS, 1).t,
                                                         .place = 2,
                                                         .takes_largest = true});
}

// A table that counts the calls of each operation, so that none is missing here.
static struct {
    struct ops table;
    const struct ops *real;
    struct {
#define CALLS(name_) int64_t name_;
        OPERATIONS(CALLS)
#undef CALLS
    } calls;
} counter;

#define COUNTING(name_)                                                                                                \
    static void count_##name_(struct device *device, const struct op_##name_ *op) {                                    \
        counter.calls.name_++;                                                                                         \
        counter.real->name_(device, op);                                                                               \
    }
OPERATIONS(COUNTING)

static void count_calls(struct device *device) {
    counter.real = device->ops;
    counter.table = *device->ops;
#define REPLACE(name_) counter.table.name_ = count_##name_;
    OPERATIONS(REPLACE)
#undef REPLACE
    device->ops = &counter.table;
}

// The memory after all operations, as a copy that the caller frees.
static unsigned char *run_all(int threads, const char *kernels, size_t *bytes) {
    struct device *device = NULL;
    EXPECT_OK(cpu_open(&device, &(struct device_options){.threads = threads, .cpu_kernels = kernels}));
    struct lab lab;
    count_calls(device);
    lab_open(&lab, device, DTYPE_F32, 0);
    device_zero(device, tensor_1d(lab.memory, DTYPE_U8, (int64_t)lab.arena.capacity));
    run_matmuls(&lab);
    run_half_matmuls(&lab);
    run_norms(&lab);
    run_attention(&lab);
    run_clip(&lab);
    run_families(&lab);
    run_loss(&lab);
    run_optimizer(&lab);
    run_parts(&lab);
    run_experts(&lab);
    run_experts8(&lab);
    run_fp8(&lab);
    *bytes = lab.arena.used;
    unsigned char *copy = malloc(*bytes);
    EXPECT(copy != NULL);
    memcpy(copy, lab.memory, *bytes);
    lab_close(&lab);
    device_close(device);
    return copy;
}

static void expect_same_bytes(const char *kernels) {
    static const int counts[] = {2, 3, 4, 7};
    size_t bytes = 0, other_bytes = 0;
    unsigned char *reference = run_all(1, kernels, &bytes);
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        unsigned char *other = run_all(counts[i], kernels, &other_bytes);
        EXPECT_INT(other_bytes, bytes);
        for (size_t at = 0; at < bytes; at++) {
            if (other[at] != reference[at])
                test_fail("byte %zu of %zu differs with %d threads by %s", at, bytes, counts[i], kernels);
        }
        free(other);
    }
    free(reference);
}

TEST(same_bytes_for_any_number_of_threads) {
    const struct cpu_kernel *kernels[KERNEL_MOST + 1];
    EXPECT_OK(kernel_choose(kernels, NULL));
    for (int i = 0; kernels[i]; i++)
        expect_same_bytes(kernels[i]->name);
    expect_same_bytes("openblas");
}

TEST(same_bytes_again) {
    size_t bytes = 0, other_bytes = 0;
    unsigned char *first = run_all(2, NULL, &bytes), *second = run_all(2, NULL, &other_bytes);
    EXPECT(bytes == other_bytes && memcmp(first, second, bytes) == 0);
    free(first);
    free(second);
}

TEST(every_operation_is_tried) {
    size_t bytes = 0;
    free(run_all(1, NULL, &bytes));
#define TRIED(name_)                                                                                                   \
    if (counter.calls.name_ == 0)                                                                                      \
        test_fail("op_%s was not called: add it to this test", #name_);
    OPERATIONS(TRIED)
#undef TRIED
}

TEST_MAIN(TEST_CASE(same_bytes_for_any_number_of_threads), TEST_CASE(same_bytes_again),
          TEST_CASE(every_operation_is_tried))
