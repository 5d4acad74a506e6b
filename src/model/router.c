// Routing rows to experts, forward and backward. See experts.h.
#include "model/experts.h"
#include "base/error.h"
#include "base/memory.h"
#include "model/context.h"
#include "ops/device.h"

#include <stdlib.h>

void router_build(struct router *router, struct param_list *params, const char *name,
                  const struct sublayer_options *options) {
    const struct choices *choices = options->choices;
    const struct expert_choices *experts = &choices->experts;
    char *router_name = memory_printf("%s.router", name);
    linear_build(&router->linear, params, router_name,
                 &(struct linear_options){.weight = shard_whole(2, experts->E, choices->C),
                                          .has_bias = choices->has_mlp_bias,
                                          .standard_deviation = choices->standard_deviation,
                                          .sums_gradient = choices->parts > 1});
    router->choices = experts;
    router->number = options->layer->expert_layer;
    router->dropout_layer = options->dropout_layer;
    free(router_name);
}

// Sites of dropout are smaller.
enum { JITTER_SITES = 1 << 15 };

static struct dropout jitter_of(const struct router *router, const struct pass *pass) {
    struct dropout jitter =
        pass_dropout(pass, (double)router->choices->jitter, router->dropout_layer, DROPOUT_AFTER_MLP);
    CHECK(jitter.site < JITTER_SITES);
    jitter.site += JITTER_SITES;
    return jitter;
}

static void add_jitter(const struct pass *pass, const struct dropout *jitter, struct tensor out, struct tensor x,
                       struct tensor residual) {
    op_jitter(pass->device, &(struct op_jitter){.out = out,
                                                .x = x,
                                                .residual = residual,
                                                .row_ids = jitter->row_ids,
                                                .seed = jitter->seed,
                                                .site = jitter->site,
                                                .epsilon = jitter->rate});
}

struct tensor router_jitter(const struct pass *pass, const struct dropout *jitter, struct tensor x) {
    struct tensor out = arena_2d(pass->scratch, x.dtype, x.shape[0], x.shape[1]);
    add_jitter(pass, jitter, out, x, (struct tensor){0});
    return out;
}

static bool has_loss(const struct router *router, enum balance_kind kind) {
    return router->choices->coefficients[kind] > 0;
}

// Input of the balance operations: a run of rows of whole sequences, or of part of one: this rank's rows [first, first
// + count), of `sequences` sequences from number `sequence` on. Sequences lie in strips if ranks share them. If the
// stream is split, a rank may have any part of a sequence; sequences are then processed one by one.
struct sequence_rows {
    int64_t first, count, sequence, sequences;
};

static int count_sequence_rows(const struct pass *pass) {
    return pass_strips(pass) * (pass->splits_rows ? (int)pass->B : 1);
}

static struct sequence_rows sequence_rows(const struct pass *pass, int which) {
    struct strip strip = pass_strip(pass, pass->splits_rows ? which / (int)pass->B : which);
    if (!pass->splits_rows)
        return (struct sequence_rows){strip.first_row, strip.B * strip.T, 0, strip.B};
    int64_t n = pass_stream_rows(pass), sequence = which % pass->B, own = n * pass->mesh->place[AXIS_TENSOR];
    int64_t first = strip.first_row + sequence * strip.T, end = first + strip.T;
    first = first > own ? first : own;
    end = end < own + n ? end : own + n;
    return (struct sequence_rows){first - own, end > first ? end - first : 0, sequence, 1};
}

// Adds up the shares and the choices of this rank's rows.
static void sum_shares(const struct router *router, const struct pass *pass, const struct router_saved *saved,
                       enum balance_kind kind) {
    bool is_by_sequence = kind == BALANCE_SEQUENCE;
    struct sequence_rows all = {0, saved->logits.shape[0], 0, 1};
    for (int which = 0; which < (is_by_sequence ? count_sequence_rows(pass) : 1); which++) {
        struct sequence_rows rows = is_by_sequence ? sequence_rows(pass, which) : all;
        if (rows.count == 0)
            continue;
        op_balance_forward(pass->device, &(struct op_balance_forward){
                                             .sums = tensor_rows(saved->sums[kind], rows.sequence, rows.sequences),
                                             .counts = tensor_rows(saved->slopes[kind], rows.sequence, rows.sequences),
                                             .logits = tensor_rows(saved->logits, rows.first, rows.count),
                                             .score = router->choices->rule.score,
                                             .chosen = router->choices->K});
    }
}

// Sums x over the ranks that have other rows of the micro-batch.
static void sum_over_rows(const struct pass *pass, struct tensor x, const char *name) {
    if (pass->splits_rows)
        comm_all_reduce(pass->mesh->group[AXIS_TENSOR], x, REDUCE_SUM, name);
    if (pass->mesh->length[AXIS_CONTEXT] > 1)
        comm_all_reduce(pass->mesh->group[AXIS_CONTEXT], x, REDUCE_SUM, name);
}

// The loss, E / (K T^2) * sum over experts of (tokens that chose it * sum of its shares), where T is the number of
// tokens: of the micro-batch, or of each sequence, and then it is the mean over sequences. Its slope in a share is the
// number of tokens that chose the expert, times the factor.
static void begin_balance(const struct router *router, const struct pass *pass, struct router_saved *saved,
                          enum balance_kind kind) {
    const struct expert_choices *choices = router->choices;
    int64_t S = kind == BALANCE_SEQUENCE ? pass->B : 1;
    double tokens = (double)(pass_whole_length(pass, pass->T) * pass->B / S);
    saved->sums[kind] = arena_2d(pass->activations, DTYPE_F32, S, choices->E);
    saved->slopes[kind] = arena_2d(pass->activations, DTYPE_F32, S, choices->E);
    device_zero(pass->device, saved->sums[kind]);
    device_zero(pass->device, saved->slopes[kind]);
    sum_shares(router, pass, saved, kind);
    sum_over_rows(pass, saved->slopes[kind], "tokens of experts");
    double factor = (double)choices->E / ((double)choices->K * tokens * tokens * (double)S);
    op_scale(pass->device, &(struct op_scale){.x = tensor_flat(saved->slopes[kind]), .factor = (float)factor});
}

// This router's part of a tensor of all routers; none if that is none.
static struct tensor own_part(const struct router *router, struct tensor all) {
    int64_t E = router->choices->E;
    return all.data ? tensor_rows(all, router->number * E, E) : (struct tensor){0};
}

// Where the pass counts each expert's rows: once for each row, in training only; else none.
static struct tensor counts_of(const struct router *router, const struct pass *pass) {
    bool counts = pass->is_training && !pass->is_again;
    return counts ? own_part(router, pass->batch->expert_counts) : (struct tensor){0};
}

// Adds up the shares and counts for the loss over the global batch, once for each row.
static void add_global(const struct router *router, const struct pass *pass, const struct router_saved *saved) {
    int64_t E = router->choices->E;
    struct tensor sums = own_part(router, pass->batch->global_sums);
    struct tensor counts = own_part(router, pass->batch->global_counts);
    if (!pass->is_again)
        op_balance_forward(pass->device, &(struct op_balance_forward){.sums = tensor_reshape_2d(sums, 1, E),
                                                                      .counts = tensor_reshape_2d(counts, 1, E),
                                                                      .logits = saved->logits,
                                                                      .score = router->choices->rule.score,
                                                                      .chosen = router->choices->K});
}

static struct op_route_forward route_of(const struct router *router, const struct pass *pass,
                                        const struct router_saved *saved) {
    struct op_route_forward op = {.experts = saved->experts,
                                  .weights = saved->weights,
                                  .counts = counts_of(router, pass),
                                  .logits = saved->logits,
                                  .bias = own_part(router, pass->batch->expert_bias),
                                  .rule = router->choices->rule};
    if (!router->choices->has_sinkhorn || !pass->is_training)
        return op;
    op.bias = arena_1d(pass->scratch, DTYPE_F32, router->choices->E);
    op.biases_logits = true;
    op_sinkhorn(pass->device, &(struct op_sinkhorn){.bias = op.bias,
                                                    .logits = expert_rows_gather_all(pass, saved->logits, "logits")});
    return op;
}

void router_forward(const struct router *router, const struct pass *pass, struct router_saved *saved, struct tensor x) {
    const struct expert_choices *choices = router->choices;
    const struct linear *linear = &router->linear;
    int64_t N = x.shape[0];
    saved->logits = arena_2d(pass->activations, DTYPE_F32, N, choices->E);
    saved->experts = arena_2d(pass->activations, DTYPE_I32, N, choices->K);
    saved->weights = arena_2d(pass->activations, DTYPE_F32, N, choices->K);
    size_t mark = arena_mark(pass->scratch);
    struct dropout jitter = jitter_of(router, pass);
    if (jitter.rate > 0)
        x = router_jitter(pass, &jitter, x);
    op_matmul(pass->device, &(struct op_matmul){.a = x,
                                                .b = linear->weight->value,
                                                .d = saved->logits,
                                                .transpose_b = true,
                                                .alpha = 1,
                                                .epilogue = linear->bias ? EPILOGUE_BIAS : EPILOGUE_NONE,
                                                .bias = linear_bias(linear)});
    struct op_route_forward route = route_of(router, pass, saved);
    op_route_forward(pass->device, &route);
    arena_release(pass->scratch, mark);
    if (pass->is_training && has_loss(router, BALANCE_GLOBAL))
        add_global(router, pass, saved);
    for (int kind = BALANCE_BATCH; pass->is_training && kind <= BALANCE_SEQUENCE; kind++)
        if (has_loss(router, (enum balance_kind)kind))
            begin_balance(router, pass, saved, (enum balance_kind)kind);
}

// Adds the losses without their coefficients to the step's sums.
static void report_losses(const struct router *router, const struct pass *pass, const struct router_saved *saved) {
    struct tensor totals = pass->batch->balance_sums;
    for (int kind = BALANCE_BATCH; kind <= BALANCE_SEQUENCE; kind++)
        if (has_loss(router, (enum balance_kind)kind))
            op_dot(pass->device, &(struct op_dot){.out = tensor_rows(totals, kind, 1),
                                                  .a = tensor_flat(saved->sums[kind]),
                                                  .b = tensor_flat(saved->slopes[kind])});
    if (has_loss(router, BALANCE_Z))
        op_balance_forward(pass->device, &(struct op_balance_forward){.z = tensor_rows(totals, BALANCE_Z, 1),
                                                                      .logits = saved->logits,
                                                                      .score = router->choices->rule.score,
                                                                      .chosen = router->choices->K});
}

// The gradients of one loss. The z-loss is the mean of logsumexp^2 over the tokens of the micro-batch.
static void balance_backward(const struct router *router, const struct pass *pass, const struct router_saved *saved,
                             enum balance_kind kind, struct tensor dlogits) {
    const struct expert_choices *choices = router->choices;
    bool is_by_sequence = kind == BALANCE_SEQUENCE;
    struct op_balance_backward op = {
        .dlogits = dlogits, .logits = saved->logits, .by = pass->batch->balance_share, .score = choices->rule.score};
    double tokens = (double)(pass_whole_length(pass, pass->T) * pass->B);
    if (kind == BALANCE_Z) {
        op.z_factor = (float)(choices->coefficients[kind] / tokens);
    } else {
        bool is_global = kind == BALANCE_GLOBAL;
        struct tensor slopes = saved->slopes[kind];
        if (is_global)
            slopes = tensor_reshape_2d(own_part(router, pass->batch->expert_load), 1, choices->E);
        op.slopes = arena_2d(pass->scratch, DTYPE_F32, slopes.shape[0], choices->E);
        op_copy(pass->device, &(struct op_copy){.dst = op.slopes, .src = slopes});
        double factor = choices->coefficients[kind] / (is_global ? tokens : 1);
        op_scale(pass->device, &(struct op_scale){.x = tensor_flat(op.slopes), .factor = (float)factor});
    }
    struct tensor slopes = op.slopes;
    for (int which = 0; which < (is_by_sequence ? count_sequence_rows(pass) : 1); which++) {
        struct sequence_rows rows = {0, dlogits.shape[0], 0, 1};
        if (is_by_sequence)
            rows = sequence_rows(pass, which);
        if (rows.count == 0)
            continue;
        if (is_by_sequence)
            op.slopes = tensor_rows(slopes, rows.sequence, rows.sequences);
        op.dlogits = tensor_rows(dlogits, rows.first, rows.count);
        op.logits = tensor_rows(saved->logits, rows.first, rows.count);
        op_balance_backward(pass->device, &op);
    }
}

struct first_gradients router_backward(const struct router *router, const struct pass *pass,
                                       const struct router_saved *saved, struct tensor dx, struct tensor dweights) {
    const struct linear *linear = &router->linear;
    int64_t N = saved->logits.shape[0], E = router->choices->E;
    struct tensor exact = arena_2d(pass->scratch, DTYPE_F32, N, E), dlogits = exact;
    op_route_backward(pass->device, &(struct op_route_backward){.dlogits = exact,
                                                                .dweights = dweights,
                                                                .logits = saved->logits,
                                                                .experts = saved->experts,
                                                                .rule = router->choices->rule});
    report_losses(router, pass, saved);
    bool adds_losses = pass->splits_rows || pass->mesh->place[AXIS_TENSOR] == 0;
    for (int kind = 0; kind < BALANCE_COUNT && adds_losses; kind++)
        if (has_loss(router, (enum balance_kind)kind))
            balance_backward(router, pass, saved, (enum balance_kind)kind, exact);
    if (linear->bias)
        op_column_sum(pass->device, &(struct op_column_sum){.out = linear->bias->grad, .x = exact});
    if (pass->dtype != DTYPE_F32) {
        dlogits = arena_2d(pass->scratch, pass->dtype, N, E);
        op_copy(pass->device, &(struct op_copy){.dst = dlogits, .src = exact});
    }
    struct dropout jitter = jitter_of(router, pass);
    struct op_matmul op = {.a = dlogits, .b = linear->weight->value, .d = dx, .alpha = 1, .beta = 1};
    if (jitter.rate > 0) {
        op.d = arena_2d(pass->scratch, pass->dtype, N, dx.shape[1]);
        op.beta = 0;
    }
    op_matmul(pass->device, &op);
    if (jitter.rate > 0)
        add_jitter(pass, &jitter, dx, op.d, dx);
    return (struct first_gradients){.first = operand_of(dlogits), .jitter = jitter};
}
