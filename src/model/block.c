// A transformer block, forward and backward. See stack.h.
#include "model/stack.h"
#include "base/memory.h"

#include <stdlib.h>

struct norm_arrangement {
    bool is_before, is_after, is_of_results;  // places of norms around a sublayer
    bool is_parallel, is_shared;              // sublayers beside each other, with one norm before them
    // Takes the result of sublayer i in the residual stream's room; `out` is for the block's result, if that is
    // complete. NULL for parallel sublayers.
    void (*add)(const struct block *block, const struct pass *pass, struct block_saved *saved,
                struct residual_stream *stream, int i, struct tensor out);
    void (*backward)(const struct block *block, const struct pass *pass, const struct block_saved *saved,
                     struct stream_gradient *g, const struct block *before);
};
static const struct norm_arrangement arrangements[NORMS_COUNT];

void block_build(struct block *block, struct param_list *params, const char *name,
                 const struct sublayer_options *options) {
    const struct choices *choices = options->choices;
    const struct norm_arrangement *norms = &arrangements[choices->norms];
    *block = (struct block){
        .norms = norms, .factor = choices->addition_scale, .C = choices->C, .dropout = choices->hidden_dropout};
    struct norm_options output = choices->norm;
    output.epsilon = choices->epsilon;
    while (block->count < MOST_SUBLAYERS && options->layer->sublayers[block->count]) {
        const struct sublayer_kind *kind = options->layer->sublayers[block->count];
        struct sublayer *sublayer = memory_alloc(kind->bytes);
        char *before = memory_printf("%s.%s", name, kind->pre_norm);
        char *after = memory_printf("%s.%s", name, kind->post_norm);
        char *layer_name = memory_printf("%s.%s", name, kind->name);
        sublayer->kind = kind;
        if (norms->is_after || (norms->is_before && (block->count == 0 || !norms->is_shared)))
            norm_build(&sublayer->norm, params, norms->is_before ? before : after, &choices->norm);
        if (norms->is_of_results)
            norm_build(&sublayer->output_norm, params, after, &output);
        kind->build(sublayer, params, layer_name, options);
        block->sublayers[block->count++] = sublayer;
        free(before);
        free(after);
        free(layer_name);
    }
}

void block_free(struct block *block) {
    for (int i = 0; i < block->count; i++)
        free(block->sublayers[i]);
    *block = (struct block){0};
}

void block_saved_open(struct block_saved *saved, const struct block *block) {
    for (int i = 0; i < block->count; i++)
        saved->sublayers[i].own = memory_alloc(block->sublayers[i]->kind->saved_bytes);
}

void block_saved_close(struct block_saved *saved) {
    for (int i = 0; i < MOST_SUBLAYERS; i++)
        free(saved->sublayers[i].own);
}

void block_take_cache(const struct block *block, struct block_saved *saved, const struct cache_options *options) {
    for (int i = 0; i < block->count; i++)
        if (block->sublayers[i]->kind->take_cache)
            block->sublayers[i]->kind->take_cache(block->sublayers[i], saved->sublayers[i].own, options);
}

void block_hold(const struct block *block, const struct pass *pass, struct block_saved *saved) {
    for (int i = 0; i < block->count; i++)
        if (block->sublayers[i]->kind->hold)
            block->sublayers[i]->kind->hold(block->sublayers[i], pass, saved->sublayers[i].own);
}

const struct param *block_first_matrix(const struct block *block) {
    return block->sublayers[0]->first->weight;
}

const struct param *block_last_matrix(const struct block *block) {
    return block->sublayers[block->count - 1]->last->weight;
}

void block_await(const struct block *block, const struct pass *pass) {
    pass_await_param(pass, block_last_matrix(block));
    for (int i = 0; i < block->count; i++) {
        pass_await_param(pass, block->sublayers[i]->apart.last);
        pass_await_param(pass, block->sublayers[i]->apart.biases);
    }
}

void block_gradients_final(const struct block *block, const struct pass *pass) {
    pass_gradients_final(pass, block_first_matrix(block));
    for (int i = 0; i < block->count; i++)
        if (block->sublayers[i]->apart.first)
            pass_gradients_final(pass, block->sublayers[i]->apart.first);
}

static struct dropout dropout_after(const struct block *block, const struct pass *pass,
                                    const struct sublayer *sublayer) {
    return pass_dropout(pass, block->dropout, sublayer->dropout_layer, sublayer->kind->dropout_place);
}

// The residual addition of this sublayer's result; the sum goes to `sum` (N, C).
static struct residual residual_of(const struct block *block, const struct pass *pass, const struct sublayer *sublayer,
                                   struct tensor delta, struct tensor sum) {
    return (struct residual){.delta = delta,
                             .bias = linear_bias(sublayer->last),
                             .sum = sum,
                             .dropout = dropout_after(block, pass, sublayer)};
}

static struct residual_gradient residual_gradient_of(const struct block *block, const struct pass *pass,
                                                     const struct sublayer *sublayer, struct tensor ddelta) {
    return (struct residual_gradient){.ddelta = ddelta,
                                      .dbias = linear_bias_gradient(sublayer->last),
                                      .dropout = dropout_after(block, pass, sublayer)};
}

// The input of a sublayer: norm(stream), after the addition that the stream leaves open, or the stream itself. The
// result of a norm shared by several sublayers is kept, since each needs it in the backward pass.
static struct operand input_of(const struct block *block, const struct pass *pass, struct block_saved *saved,
                               struct residual_stream *stream, int i) {
    const struct sublayer *sublayer = block->sublayers[i];
    struct sublayer_saved *s = &saved->sublayers[i];
    if (!block->norms->is_before)
        return operand_of(stream->x);
    if (!block->norms->is_shared)
        return linear_normalize(sublayer->first, pass, &sublayer->norm, &s->norm, stream->x, &stream->residual);
    if (i > 0)
        return saved->sublayers[0].input;
    norm_take(&sublayer->norm, pass, &s->norm, pass_stream_rows(pass), (struct operand){0});
    norm_forward(&sublayer->norm, pass, &s->norm, stream->x, &stream->residual);
    return s->norm.y;
}

// delta = sublayer(its input), without the last bias; the stream is complete afterwards.
static void forward_sublayer(const struct block *block, const struct pass *pass, struct block_saved *saved,
                             struct residual_stream *stream, int i, struct tensor delta) {
    const struct sublayer *sublayer = block->sublayers[i];
    struct sublayer_saved *s = &saved->sublayers[i];
    s->x = stream->x;
    if (stream->residual.delta.data)
        stream->residual.sum = s->x = arena_2d(pass->activations, pass->dtype, pass_stream_rows(pass), block->C);
    size_t mark = arena_mark(pass->scratch);
    s->input = input_of(block, pass, saved, stream, i);
    sublayer->kind->forward(sublayer, pass, s->own, delta, s->input);
    arena_release(pass->scratch, mark);
    stream->x = s->x;
    stream->residual = (struct residual){0};
}

// Leaves the addition to the next norm, or to the end of the block.
static void add_later(const struct block *block, const struct pass *pass, struct block_saved *saved,
                      struct residual_stream *stream, int i, struct tensor out) {
    (void)saved, (void)out;
    stream->residual = residual_of(block, pass, block->sublayers[i], stream->room, (struct tensor){0});
}

static void add_and_normalize(const struct block *block, const struct pass *pass, struct block_saved *saved,
                              struct residual_stream *stream, int i, struct tensor out) {
    const struct sublayer *sublayer = block->sublayers[i];
    struct sublayer_saved *s = &saved->sublayers[i];
    int64_t N = pass_stream_rows(pass);
    s->x = arena_2d(pass->activations, pass->dtype, N, block->C);
    norm_take(&sublayer->norm, pass, &s->norm, N, operand_of(i == block->count - 1 ? out : (struct tensor){0}));
    struct residual residual = residual_of(block, pass, sublayer, stream->room, s->x);
    norm_forward(&sublayer->norm, pass, &s->norm, stream->x, &residual);
    stream->x = s->norm.y.value;
}

// s->result, the input of the output norm, is the sublayer's result with its bias.
static void normalize_and_add(const struct block *block, const struct pass *pass, struct block_saved *saved,
                              struct residual_stream *stream, int i, struct tensor out) {
    const struct sublayer *sublayer = block->sublayers[i];
    struct sublayer_saved *s = &saved->sublayers[i];
    int64_t N = pass_stream_rows(pass);
    struct tensor bias = linear_bias(sublayer->last);
    if (bias.data)
        op_dropout_add(pass->device, &(struct op_dropout_add){.out = s->result, .x = s->result, .bias = bias});
    norm_take(&sublayer->output_norm, pass, &s->output_norm, N, operand_of(stream->room));
    norm_forward(&sublayer->output_norm, pass, &s->output_norm, s->result, &(struct residual){0});
    struct tensor next = i == block->count - 1 ? out : arena_2d(pass->activations, pass->dtype, N, block->C);
    op_dropout_add(pass->device, &(struct op_dropout_add){.out = next,
                                                          .x = stream->room,
                                                          .residual = stream->x,
                                                          .factor = block->factor,
                                                          .dropout = dropout_after(block, pass, sublayer)});
    stream->x = next;
}

static void forward_in_turn(const struct block *block, const struct pass *pass, struct block_saved *saved,
                            struct residual_stream *stream, struct tensor out) {
    for (int i = 0; i < block->count; i++) {
        struct tensor delta = stream->room;
        if (block->norms->is_of_results)
            delta = saved->sublayers[i].result =
                arena_2d(pass->activations, pass->dtype, pass_stream_rows(pass), block->C);
        forward_sublayer(block, pass, saved, stream, i, delta);
        block->norms->add(block, pass, saved, stream, i, out);
    }
}

// Dropout and bias come before the sum over the ranks that share the block, so that one sum serves all sublayers: each
// rank has all rows, and one of them adds the biases.
static void forward_parallel(const struct block *block, const struct pass *pass, struct block_saved *saved,
                             struct residual_stream *stream) {
    size_t mark = arena_mark(pass->scratch);
    struct pass inner = *pass, whole = *pass;
    inner.leaves_sums = true;
    whole.splits_rows = false;
    struct tensor total = {0};
    for (int i = 0; i < block->count; i++) {
        const struct sublayer *sublayer = block->sublayers[i];
        struct tensor delta = stream->room;
        if (i > 0 || pass->splits_rows)
            delta = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), block->C);
        forward_sublayer(block, &inner, saved, stream, i, delta);
        struct op_dropout_add add = {.out = i > 0 ? total : delta,
                                     .x = delta,
                                     .residual = total,
                                     .dropout = dropout_after(block, &whole, sublayer)};
        if (pass->mesh->place[AXIS_TENSOR] == 0)
            add.bias = linear_bias(sublayer->last);
        if (i > 0 || add.bias.data || add.dropout.rate > 0)
            op_dropout_add(pass->device, &add);
        total = add.out;
    }
    pass_sum(pass, stream->room, total, "block output");
    stream->residual = (struct residual){.delta = stream->room};
    arena_release(pass->scratch, mark);
}

void block_forward(const struct block *block, const struct pass *pass, struct block_saved *saved,
                   struct residual_stream *stream, struct tensor out) {
    size_t kept = arena_mark(pass->activations);
    if (block->norms->is_parallel)
        forward_parallel(block, pass, saved, stream);
    else
        forward_in_turn(block, pass, saved, stream, out);
    if (stream->residual.delta.data && out.data) {
        op_dropout_add(pass->device, &(struct op_dropout_add){.out = out,
                                                              .x = stream->residual.delta,
                                                              .residual = stream->x,
                                                              .bias = stream->residual.bias,
                                                              .dropout = stream->residual.dropout});
        stream->x = out;
        stream->residual = (struct residual){0};
    }
    if (!pass->is_training)
        arena_release(pass->activations, kept);
}

// Computes in g->ddelta the gradient of sublayer i's contribution to the residual stream.
static void backward_addition(const struct block *block, const struct pass *pass, const struct stream_gradient *g,
                              int i) {
    const struct sublayer *sublayer = block->sublayers[i];
    op_dropout_backward(pass->device, &(struct op_dropout_backward){.dx = g->ddelta,
                                                                    .dy = g->dx,
                                                                    .dbias = linear_bias_gradient(sublayer->last),
                                                                    .dropout = dropout_after(block, pass, sublayer)});
}

// The weight gradients of the matmuls that read a sublayer's input x.
static void backward_first(const struct sublayer *sublayer, const struct pass *pass, struct first_gradients gradients,
                           struct operand x) {
    size_t mark = arena_mark(pass->scratch);
    if (gradients.jitter.rate > 0)
        x = operand_of(router_jitter(pass, &gradients.jitter, x.value));
    if (sublayer->second)
        x = linear_shared_rows(sublayer->first, sublayer->second, pass, x);
    linear_backward_weight(sublayer->first, pass, gradients.first, x);
    if (sublayer->second)
        linear_backward_weight(sublayer->second, pass, gradients.second, x);
    arena_release(pass->scratch, mark);
}

// Goes back through the norm before a sublayer, whose result has the gradient gradient.dy: the norm replaces it by the
// result itself, which the first matmuls' weight gradients need, unless that was kept.
static void backward_norm_before(const struct sublayer *sublayer, const struct pass *pass,
                                 const struct sublayer_saved *s, struct norm_gradient gradient,
                                 struct first_gradients dfirst) {
    bool is_kept = linear_keeps_norm(sublayer->first, pass);
    gradient.x = s->x;
    if (!is_kept)
        gradient.y = gradient.dy;
    norm_backward(&sublayer->norm, pass, &s->norm, &gradient);
    backward_first(sublayer, pass, dfirst, is_kept ? s->input : operand_of(gradient.dy));
}

// dnorm (N, C) is the gradient between a sublayer and its norm. The norm of one sublayer also computes the gradient of
// the previous sublayer's contribution.
static void backward_before(const struct block *block, const struct pass *pass, const struct block_saved *saved,
                            struct stream_gradient *g, const struct block *before) {
    struct tensor dnorm = arena_2d(pass->scratch, pass->dtype, pass_stream_rows(pass), block->C);
    if (!g->is_open)
        backward_addition(block, pass, g, block->count - 1);
    for (int i = block->count - 1; i >= 0; i--) {
        const struct sublayer_saved *s = &saved->sublayers[i];
        const struct sublayer *sublayer = block->sublayers[i];
        size_t mark = arena_mark(pass->scratch);
        struct first_gradients dfirst = sublayer->kind->backward(sublayer, pass, s->own, dnorm, g->ddelta);
        struct norm_gradient gradient = {.dx = g->dx, .dy = dnorm, .dresidual = g->dx};
        if (i > 0)
            gradient.residual = residual_gradient_of(block, pass, block->sublayers[i - 1], g->ddelta);
        else if (before)
            gradient.residual = residual_gradient_of(before, pass, before->sublayers[before->count - 1], g->ddelta);
        backward_norm_before(sublayer, pass, s, gradient, dfirst);
        arena_release(pass->scratch, mark);
    }
    g->is_open = before != NULL;
}

// dnorm (N, C) collects the gradients between the norm and the sublayers that share it.
static void backward_shared(const struct block *block, const struct pass *pass, const struct block_saved *saved,
                            struct stream_gradient *g, const struct block *before) {
    (void)before;
    int64_t N = pass_stream_rows(pass);
    struct tensor dnorm = arena_2d(pass->scratch, pass->dtype, N, block->C);
    struct tensor own = arena_2d(pass->scratch, pass->dtype, N, block->C);
    const struct sublayer_saved *first = &saved->sublayers[0];
    for (int i = block->count - 1; i >= 0; i--) {
        const struct sublayer *sublayer = block->sublayers[i];
        bool is_last = i == block->count - 1;
        backward_addition(block, pass, g, i);
        size_t mark = arena_mark(pass->scratch);
        struct first_gradients dfirst =
            sublayer->kind->backward(sublayer, pass, saved->sublayers[i].own, is_last ? dnorm : own, g->ddelta);
        backward_first(sublayer, pass, dfirst, first->input);
        if (!is_last)
            op_dropout_add(pass->device, &(struct op_dropout_add){.out = dnorm, .x = own, .residual = dnorm});
        arena_release(pass->scratch, mark);
    }
    norm_backward(&block->sublayers[0]->norm, pass, &first->norm,
                  &(struct norm_gradient){.dx = g->dx, .dy = dnorm, .x = first->x, .dresidual = g->dx});
    g->is_open = false;
}

// dsum (N, C) collects the gradient of the stream that all sublayers read; g->dx stays that of the block's output until
// the last of them has read it.
static void backward_parallel(const struct block *block, const struct pass *pass, const struct block_saved *saved,
                              struct stream_gradient *g, const struct block *before) {
    (void)before;
    int64_t N = pass_stream_rows(pass);
    struct tensor dnorm = arena_2d(pass->scratch, pass->dtype, N, block->C);
    struct tensor dsum = arena_2d(pass->scratch, pass->dtype, N, block->C);
    for (int i = block->count - 1; i >= 0; i--) {
        const struct sublayer_saved *s = &saved->sublayers[i];
        const struct sublayer *sublayer = block->sublayers[i];
        backward_addition(block, pass, g, i);
        size_t mark = arena_mark(pass->scratch);
        struct first_gradients dfirst = sublayer->kind->backward(sublayer, pass, s->own, dnorm, g->ddelta);
        struct norm_gradient gradient = {
            .dx = i == 0 ? g->dx : dsum, .dy = dnorm, .dresidual = i == block->count - 1 ? g->dx : dsum};
        backward_norm_before(sublayer, pass, s, gradient, dfirst);
        arena_release(pass->scratch, mark);
    }
    g->is_open = false;
}

// dx is the gradient of the residual stream after the norm; dsum (N, C) receives that before the norm, which flows both
// through the sublayer and around it.
static void backward_after(const struct block *block, const struct pass *pass, const struct block_saved *saved,
                           struct stream_gradient *g, const struct block *before) {
    (void)before;
    struct tensor dsum = arena_2d(pass->scratch, pass->dtype, pass_stream_rows(pass), block->C);
    for (int i = block->count - 1; i >= 0; i--) {
        const struct sublayer *sublayer = block->sublayers[i];
        const struct sublayer_saved *s = &saved->sublayers[i];
        struct norm_gradient gradient = {
            .dx = dsum, .dy = g->dx, .x = s->x, .residual = residual_gradient_of(block, pass, sublayer, g->ddelta)};
        norm_backward(&sublayer->norm, pass, &s->norm, &gradient);
        size_t mark = arena_mark(pass->scratch);
        struct first_gradients dfirst = sublayer->kind->backward(sublayer, pass, s->own, g->dx, g->ddelta);
        backward_first(sublayer, pass, dfirst, s->input);
        arena_release(pass->scratch, mark);
        op_dropout_add(pass->device, &(struct op_dropout_add){.out = g->dx, .x = g->dx, .residual = dsum});
    }
}

// dresult (N, C) is the gradient of a sublayer's result, dinput the gradient of its input.
static void backward_results(const struct block *block, const struct pass *pass, const struct block_saved *saved,
                             struct stream_gradient *g, const struct block *before) {
    (void)before;
    int64_t N = pass_stream_rows(pass);
    struct tensor dresult = arena_2d(pass->scratch, pass->dtype, N, block->C);
    struct tensor dinput = arena_2d(pass->scratch, pass->dtype, N, block->C);
    for (int i = block->count - 1; i >= 0; i--) {
        const struct sublayer *sublayer = block->sublayers[i];
        const struct sublayer_saved *s = &saved->sublayers[i];
        struct tensor dbias = linear_bias_gradient(sublayer->last), dsum = g->dx;
        struct dropout dropout = dropout_after(block, pass, sublayer);
        if (dropout.rate > 0 || block->factor != 1) {
            dsum = dinput;
            op_dropout_backward(
                pass->device,
                &(struct op_dropout_backward){.dx = dsum, .dy = g->dx, .factor = block->factor, .dropout = dropout});
        }
        norm_backward(&sublayer->output_norm, pass, &s->output_norm,
                      &(struct norm_gradient){.dx = dresult, .dy = dsum, .x = s->result});
        if (dbias.data)
            op_column_sum(pass->device, &(struct op_column_sum){.out = dbias, .x = dresult});
        size_t mark = arena_mark(pass->scratch);
        struct first_gradients dfirst = sublayer->kind->backward(sublayer, pass, s->own, dinput, dresult);
        // g->dx holds the gradient of the stream that bypasses the sublayer.
        if (block->norms->is_before) {
            struct norm_gradient gradient = {.dx = g->dx, .dy = dinput, .dresidual = g->dx};
            backward_norm_before(sublayer, pass, s, gradient, dfirst);
        } else {
            backward_first(sublayer, pass, dfirst, s->input);
            op_dropout_add(pass->device, &(struct op_dropout_add){.out = g->dx, .x = dinput, .residual = g->dx});
        }
        arena_release(pass->scratch, mark);
    }
}

static const struct norm_arrangement arrangements[NORMS_COUNT] = {
    [NORMS_BEFORE] = {.is_before = true, .add = add_later, .backward = backward_before},
    [NORMS_AFTER] = {.is_after = true, .add = add_and_normalize, .backward = backward_after},
    [NORMS_RESULTS] = {.is_of_results = true, .add = normalize_and_add, .backward = backward_results},
    [NORMS_BOTH] = {.is_before = true, .is_of_results = true, .add = normalize_and_add, .backward = backward_results},
    [NORMS_PARALLEL] = {.is_before = true, .is_parallel = true, .backward = backward_parallel},
    [NORMS_SHARED] = {.is_before = true, .is_parallel = true, .is_shared = true, .backward = backward_shared},
};

void block_backward(const struct block *block, const struct pass *pass, const struct block_saved *saved,
                    struct stream_gradient *gradient, const struct block *before) {
    size_t mark = arena_mark(pass->scratch);
    block->norms->backward(block, pass, saved, gradient, before);
    arena_release(pass->scratch, mark);
}
