// Attention, forward and backward, and the matmul that follows it. See attention.h.
#include "model/attention.h"
#include "base/memory.h"
#include "model/context.h"
#include "model/qk_clip.h"

#include <math.h>
#include <stdlib.h>

struct linear_options attention_projection(const struct sublayer_options *options) {
    return (struct linear_options){.has_bias = options->choices->has_qkv_bias,
                                   .standard_deviation = options->choices->standard_deviation,
                                   .fp8 = options->layer->fp8};
}

void attention_build(struct attention *attention, struct param_list *params, const char *name,
                     const struct sublayer_options *options) {
    const struct choices *choices = options->choices;
    struct linear_options out = {.weight =
                                     choices_split(choices, shard_whole(2, choices->C, choices->H * choices->V), 1),
                                 .has_bias = choices->has_attention_bias,
                                 .sums_gradient = choices->splits_rows,
                                 .scale = choices->residual_scale,
                                 .standard_deviation = choices_output_deviation(choices, options->layers),
                                 .fp8 = options->layer->fp8};
    char *proj_name = memory_printf("%s.linear_proj", name);
    linear_build(&attention->proj, params, proj_name, &out);
    free(proj_name);
    attention->sublayer.last = &attention->proj;
    attention->H = choices->H / choices->parts;
    attention->kv_ranks = choices->kv_ranks;
    attention->G = choices->G * choices->kv_ranks / choices->parts;
    CHECK(attention->G > 0 && attention->H % attention->G == 0);
    attention->first_head = (int)attention->H * choices->part;
    attention->D = choices->D;
    attention->V = choices->V;
    attention->scale = choices->scale;
    attention->cap = choices->score_cap;
    attention->alibi_heads = choices->has_alibi ? choices->H : 0;
    attention->alibi_scale = choices->alibi_scale;
    attention->is_recomputed = choices->recomputes_attention;
    attention->dropout = choices->attention_dropout;
    attention->head_ranks = options->layer->head_ranks;
}

void attention_clip(struct attention *attention, const struct choices *choices) {
    attention->clip = choices->qk_clip;
    if (attention->clip)
        attention->clip_layer = qk_clip_add(attention->clip);
}

void attention_clip_rows(const struct attention *attention, struct param *weight, const struct param_clip *rows) {
    const struct qk_clip *clip = attention->clip;
    if (!clip)
        return;
    CHECK(weight->clip_count < PARAM_MOST_CLIPS);
    struct param_clip *own = &weight->clips[weight->clip_count++];
    *own = *rows;
    own->largest = &clip->largest;
    own->heads = attention->H * attention->kv_ranks;
    own->first_head = attention->clip_layer * clip->H + attention->first_head / own->heads * own->heads;
    own->threshold = clip->threshold;
}

struct tensor attention_columns(struct tensor packed, int64_t B, int64_t first, int64_t count, int64_t size) {
    int64_t T = packed.shape[0] / B, stride = packed.stride[0];
    return (struct tensor){.data = tensor_slice(packed, 1, first, count * size).data,
                           .dtype = packed.dtype,
                           .rank = 4,
                           .shape = {B, T, count, size},
                           .stride = {T * stride, stride, size, 1}};
}

struct tensor attention_heads(const struct attention *attention, struct tensor packed, int64_t B, int64_t first,
                              int64_t count) {
    return attention_columns(packed, B, first * attention->D, count, attention->D);
}

int64_t attention_key_columns(const struct attention *attention) {
    return attention->G * (attention->D + attention->V);
}

void attention_take_cache(const struct sublayer *sublayer, void *saved, const struct cache_options *options) {
    struct attention_saved *own = saved;
    own->cache = arena_2d(options->arena, options->dtype, options->capacity,
                          attention_key_columns((const struct attention *)sublayer));
}

// Queries of a strip, keys and values, shaped for the attention operations.
struct views {
    struct tensor q, k, v;  // (B, T, H, D), (B, Tk, G, D), (B, Tk, G, V)
};

// A causal strip sees no key after its last query.
static struct views views_of(const struct attention *attention, const struct strip *strip, struct tensor q,
                             struct tensor kv) {
    int64_t B = strip->B, G = attention->G, D = attention->D, first = kv.shape[1] - attention_key_columns(attention);
    struct views views = {attention_heads(attention, strip_rows(strip, q), B, 0, attention->H),
                          attention_columns(kv, B, first, G, D),
                          attention_columns(kv, B, first + G * D, G, attention->V)};
    if (attention->is_causal && strip->end < views.k.shape[1]) {
        views.k = tensor_slice(views.k, 1, 0, strip->end);
        views.v = tensor_slice(views.v, 1, 0, strip->end);
    }
    return views;
}

static struct attention_mask mask_of(const struct attention *attention, const struct pass *pass, int which) {
    struct strip strip = pass_strip(pass, which);
    return (struct attention_mask){.window = attention->window,
                                   .key_counts =
                                       pass->attends_memory ? pass->batch->lengths : pass_input(pass, BATCH_LENGTHS),
                                   .first_keys = strip_rows(&strip, pass_input(pass, BATCH_DOCUMENT_STARTS)),
                                   .relative_bias = pass->relative_bias[which]};
}

// The mask, in scratch memory, with ALiBi's biases for this rank's heads. Recomputing the biases is cheaper than
// keeping them; they have no gradient.
static struct attention_mask biased_mask(const struct attention *attention, const struct pass *pass, int which,
                                         int64_t keys) {
    struct attention_mask mask = mask_of(attention, pass, which);
    struct strip strip = pass_strip(pass, which);
    if (attention->alibi_heads == 0)
        return mask;
    mask.relative_bias = arena_2d(pass->scratch, DTYPE_F32, attention->H, strip.T + keys - 1);
    op_alibi(pass->device, &(struct op_alibi){.bias = mask.relative_bias,
                                              .heads = attention->alibi_heads,
                                              .first_head = attention->first_head,
                                              .first_distance = 1 - strip.end,
                                              .scale = attention->alibi_scale});
    return mask;
}

static struct attention_scores scores_of(const struct attention *attention) {
    return (struct attention_scores){.cap = attention->cap,
                                     .sinks = attention->sinks ? attention->sinks->value : (struct tensor){0}};
}

// Masks are keyed by the head's number in the whole layer.
static struct dropout dropout_of(const struct attention *attention, const struct pass *pass, int which) {
    struct dropout dropout =
        pass_dropout(pass, attention->dropout, attention->sublayer.dropout_layer, DROPOUT_ATTENTION);
    struct strip strip = pass_strip(pass, which);
    dropout.row_ids = strip_rows(&strip, dropout.row_ids);
    dropout.first_head = attention->first_head;
    return dropout;
}

// Attention's outputs for one strip of queries.
struct result {
    struct tensor out;  // (B, T, H, V)
    struct tensor lse;  // (B, H, T), or none
};
static struct result result_of(const struct attention *attention, const struct pass *pass, int which, struct tensor out,
                               struct tensor lse) {
    struct strip strip = pass_strip(pass, which);
    return (struct result){.out = attention_columns(strip_rows(&strip, out), strip.B, 0, attention->H, attention->V),
                           .lse = lse.data ? tensor_rows(lse, which * strip.B, strip.B) : lse};
}
static struct tensor take_lse(const struct attention *attention, const struct pass *pass, struct arena *arena) {
    int strips = pass_strips(pass);
    return arena_3d(arena, DTYPE_F32, strips * pass->B, attention->H, pass->T / strips);
}

// Records the largest scores for --qk-clip, without relative biases.
static void note_scores(const struct attention *attention, const struct pass *pass, const struct views *views,
                        int which) {
    struct attention_mask mask = mask_of(attention, pass, which);
    mask.relative_bias = (struct tensor){0};
    op_largest_scores(pass->device,
                      &(struct op_largest_scores){.largest = qk_clip_heads(attention->clip, attention->clip_layer,
                                                                           attention->first_head, attention->H),
                                                  .q = views->q,
                                                  .k = views->k,
                                                  .scale = attention->scale,
                                                  .is_causal = attention->is_causal,
                                                  .mask = mask});
}

// Computes out (N, H V) and, for a backward pass, lse from the projections.
static void attend(const struct attention *attention, const struct pass *pass, struct tensor q, struct tensor kv,
                   struct tensor out, struct tensor lse) {
    for (int which = 0; which < pass_strips(pass); which++) {
        struct strip strip = pass_strip(pass, which);
        struct views views = views_of(attention, &strip, q, kv);
        struct result result = result_of(attention, pass, which, out, lse);
        size_t mark = arena_mark(pass->scratch);
        op_attention_forward(pass->device, &(struct op_attention_forward){
                                               .out = result.out,
                                               .lse = result.lse,
                                               .q = views.q,
                                               .k = views.k,
                                               .v = views.v,
                                               .scale = attention->scale,
                                               .scores = scores_of(attention),
                                               .is_causal = attention->is_causal,
                                               .mask = biased_mask(attention, pass, which, views.k.shape[1]),
                                               .dropout = dropout_of(attention, pass, which),
                                           });
        arena_release(pass->scratch, mark);
        if (attention->clip && pass->is_training)
            note_scores(attention, pass, &views, which);
    }
}

struct arena *attention_input_arena(const struct attention *attention, const struct pass *pass) {
    bool is_read = !heads_are_exchanged(attention, pass) || attention->is_recomputed;
    return is_read && !attention->recomputes_input ? pass->activations : pass->scratch;
}

// Whether attention's result was kept from an earlier forward pass.
static bool is_held(const struct pass *pass) {
    return pass->holds_attention && pass->is_again;
}

void attention_hold(const struct sublayer *sublayer, const struct pass *pass, void *own) {
    const struct attention *attention = (const struct attention *)sublayer;
    struct attention_saved *saved = own;
    struct heads heads;
    const struct pass *all = pass;
    if (heads_are_exchanged(attention, pass)) {
        heads_open(&heads, attention, pass);
        attention = &heads.attention;
        all = &heads.pass;
    }
    saved->held_out = arena_2d(pass->activations, pass->dtype, pass_rows(all), attention->H * attention->V);
    saved->held_lse = take_lse(attention, all, pass->activations);
}

// Like attend, but exchanges heads for tokens. Stores in `saved`, in memory from the arena, what the backward pass
// needs. Returns the gathered keys and values, in scratch.
static struct gathered attend_heads(const struct attention *attention, const struct pass *pass,
                                    struct attention_saved *saved, struct arena *arena,
                                    const struct attention_input *input) {
    struct gathered gathered = {0};
    struct heads heads;
    heads_open(&heads, attention, pass);
    const struct attention *own = &heads.attention;
    int64_t rows = pass_rows(&heads.pass);
    struct head_columns columns = heads_columns(attention, input), out = {{saved->out}};
    saved->heads = arena_2d(attention->recomputes_input ? pass->scratch : arena, pass->dtype, rows,
                            own->H * own->D + attention_key_columns(own));
    if (pass->holds_attention) {
        saved->heads_out = saved->held_out;
        saved->lse = saved->held_lse;
    } else {
        saved->heads_out = arena_2d(arena, pass->dtype, rows, own->H * own->V);
        saved->lse = pass->is_training ? take_lse(own, &heads.pass, arena) : (struct tensor){0};
    }
    heads_take(&heads, saved->heads, &columns, "heads");
    if (!is_held(pass)) {
        gathered = context_gather_start(&heads.pass, saved->heads, attention_key_columns(own));
        attend(own, &heads.pass, saved->heads, context_gathered(&heads.pass, &gathered), saved->heads_out, saved->lse);
    }
    heads_return(&heads, &out, saved->heads_out, "results of heads");
    return gathered;
}

void attention_forward(const struct attention *attention, const struct pass *pass, struct attention_saved *saved,
                       struct tensor delta, const struct attention_input *input) {
    int64_t N = pass_rows(pass), width = attention->proj.in;
    bool is_kept = pass->is_training && !attention->is_recomputed;
    size_t mark = arena_mark(pass->scratch);
    struct arena *arena = attention->is_recomputed ? pass->scratch : pass->activations;
    if (heads_are_exchanged(attention, pass)) {
        saved->out = arena_2d(arena, pass->dtype, N, width);
        (void)attend_heads(attention, pass, saved, arena, input);
    } else if (pass->holds_attention) {
        saved->out = saved->held_out;
        saved->lse = saved->held_lse;
        if (!is_held(pass)) {
            struct gathered gathered = context_gather_start(pass, input->kv, attention_key_columns(attention));
            attend(attention, pass, input->q, context_gathered(pass, &gathered), saved->out, saved->lse);
        }
    } else {
        struct gathered gathered = context_gather_start(pass, input->kv, attention_key_columns(attention));
        saved->out = arena_2d(arena, pass->dtype, N, width);
        saved->lse = is_kept ? take_lse(attention, pass, pass->activations) : (struct tensor){0};
        attend(attention, pass, input->q, context_gathered(pass, &gathered), saved->out, saved->lse);
    }
    linear_forward(&attention->proj, pass, delta, operand_of(saved->out), EPILOGUE_NONE, (struct tensor){0});
    arena_release(pass->scratch, mark);
}

// The inputs and outputs of the backward of attention itself, for all strips.
struct attention_gradient {
    struct tensor q, kv;     // packed: the queries of this rank, and the keys and values that they see
    struct tensor out, lse;  // as in the forward pass
    struct tensor dout;      // (N, H V)
    struct tensor dq, dkv;   // packed, out: for this rank's tokens
};

// Backward of one strip; returns its queries' contribution to the gradients of keys and values.
static struct tensor backward_strip(const struct attention *attention, const struct pass *pass,
                                    const struct attention_gradient *g, int which) {
    struct strip strip = pass_strip(pass, which);
    struct views views = views_of(attention, &strip, g->q, g->kv);
    struct tensor dkv = context_gradient(pass, g->dkv, views.k.shape[1], attention_key_columns(attention));
    struct views gradients = views_of(attention, &strip, g->dq, dkv);
    struct result result = result_of(attention, pass, which, g->out, g->lse);
    size_t mark = arena_mark(pass->scratch);
    struct attention_mask mask = biased_mask(attention, pass, which, views.k.shape[1]), learned = mask;
    if (attention->alibi_heads > 0)
        learned.relative_bias = (struct tensor){0};
    struct tensor dsinks = {0};
    if (attention->sinks)
        dsinks = arena_2d(pass->scratch, DTYPE_F32, strip.B, attention->H);
    op_attention_backward(
        pass->device,
        &(struct op_attention_backward){
            .dq = gradients.q,
            .dk = gradients.k,
            .dv = gradients.v,
            .drelative_bias = learned.relative_bias.data ? pass->drelative_bias[which] : (struct tensor){0},
            .dsinks = dsinks,
            .dout = attention_columns(strip_rows(&strip, g->dout), strip.B, 0, attention->H, attention->V),
            .out = result.out,
            .lse = result.lse,
            .scratch = arena_3d(pass->scratch, DTYPE_F32, strip.B, attention->H, strip.T),
            .workspace =
                arena_1d(pass->scratch, DTYPE_U8, attention_workspace_bytes(views.q, views.k, views.v, &learned)),
            .q = views.q,
            .k = views.k,
            .v = views.v,
            .scale = attention->scale,
            .scores = scores_of(attention),
            .is_causal = attention->is_causal,
            .mask = mask,
            .dropout = dropout_of(attention, pass, which),
        });
    if (dsinks.data)
        op_column_sum(pass->device, &(struct op_column_sum){.out = attention->sinks->grad, .x = dsinks});
    arena_release(pass->scratch, mark);
    return dkv;
}

// Backward of the last matmul: returns dout (N, H V), the gradient of attention's result `out`.
static struct tensor backward_proj(const struct attention *attention, const struct pass *pass, struct tensor out,
                                   struct tensor ddelta) {
    struct operand dy = linear_output_gradient(&attention->proj, pass, ddelta);
    struct tensor dout = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), attention->proj.in);
    linear_backward_input(&attention->proj, pass, dout, dy, (struct tensor){0});
    linear_backward_weight(&attention->proj, pass, dy, operand_of(out));
    return dout;
}

// Backward of all strips. Gradients of keys and values are summed over the ranks that gathered them.
static void backward_strips(const struct attention *attention, const struct pass *pass,
                            const struct attention_gradient *g) {
    struct tensor parts[CONTEXT_MOST_STRIPS] = {0};
    for (int which = 0; which < pass_strips(pass); which++)
        parts[which] = backward_strip(attention, pass, g, which);
    context_scatter(pass, g->dkv, attention_key_columns(attention), parts);
}

// Backward with exchanged heads: dout is exchanged for heads, gradients of queries, keys and values are returned.
static void backward_heads(const struct attention *attention, const struct pass *pass,
                           const struct attention_saved *kept, const struct attention_input *input,
                           const struct attention_input *gradient, struct tensor ddelta) {
    struct attention_saved saved = *kept;
    struct gathered gathered = {0};
    if (attention->is_recomputed) {
        saved.out = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), attention->proj.in);
        gathered = attend_heads(attention, pass, &saved, pass->scratch, input);
    }
    struct heads heads;
    heads_open(&heads, attention, pass);
    const struct attention *own = &heads.attention;
    if (attention->recomputes_input && !attention->is_recomputed) {
        struct head_columns again = heads_columns(attention, input);
        saved.heads = arena_2d(pass->scratch, pass->dtype, kept->heads.shape[0], kept->heads.shape[1]);
        heads_take(&heads, saved.heads, &again, "heads");
    }
    if (!gathered.kv.data)
        gathered = context_gather_start(&heads.pass, saved.heads, attention_key_columns(own));
    struct attention_gradient g = {.q = saved.heads, .out = saved.heads_out, .lse = saved.lse};
    struct head_columns dout = {{backward_proj(attention, pass, saved.out, ddelta)}};
    g.dout = arena_2d(pass->scratch, pass->dtype, saved.heads_out.shape[0], saved.heads_out.shape[1]);
    heads_take(&heads, g.dout, &dout, "gradients of results of heads");
    g.kv = context_gathered(&heads.pass, &gathered);
    g.dq = g.dkv = arena_2d(pass->scratch, pass->dtype, saved.heads.shape[0], saved.heads.shape[1]);
    backward_strips(own, &heads.pass, &g);
    struct head_columns columns = heads_columns(attention, gradient);
    heads_return(&heads, &columns, g.dq, "gradients of heads");
}

void attention_backward(const struct attention *attention, const struct pass *pass, const struct attention_saved *saved,
                        const struct attention_input *input, const struct attention_input *gradient,
                        struct tensor ddelta) {
    if (heads_are_exchanged(attention, pass)) {
        backward_heads(attention, pass, saved, input, gradient, ddelta);
        return;
    }
    struct gathered gathered = context_gather_start(pass, input->kv, attention_key_columns(attention));
    struct attention_gradient g = {
        .q = input->q, .out = saved->out, .lse = saved->lse, .dq = gradient->q, .dkv = gradient->kv};
    if (attention->is_recomputed) {
        g.out = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), attention->proj.in);
        g.lse = take_lse(attention, pass, pass->scratch);
        attend(attention, pass, g.q, context_gathered(pass, &gathered), g.out, g.lse);
    }
    g.dout = backward_proj(attention, pass, g.out, ddelta);
    g.kv = context_gathered(pass, &gathered);
    backward_strips(attention, pass, &g);
}
