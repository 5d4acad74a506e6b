// A stack of blocks, forward and backward, with recompute. See stack.h.
#include "model/stack.h"
#include "base/error.h"
#include "base/memory.h"
#include "ops/device.h"

#include <stdlib.h>

void stack_build(struct stack *stack, struct param_list *params, const struct stack_options *options) {
    const struct choices *choices = options->choices;
    *stack = (struct stack){
        .L = options->L, .choices = choices, .is_causal = options->is_causal, .has_final_norm = !choices->is_post_norm};
    stack->blocks = memory_alloc(sizeof *stack->blocks * (size_t)stack->L);
    stack->saved = memory_alloc(sizeof *stack->saved * (size_t)stack->L);
    stack->inputs = memory_alloc(sizeof *stack->inputs * (size_t)stack->L);
    stack->marks = memory_alloc(sizeof *stack->marks * (size_t)stack->L);
    if (choices->has_relative_bias) {
        char *name = memory_printf("%s.relative_attention_bias.weight", options->name);
        stack->relative =
            param_add(params, name, choices_split(choices, shard_whole(2, choices->relative.buckets, choices->H), 1),
                      INIT_NORMAL, choices->standard_deviation);
        free(name);
    }
    for (int64_t layer = 0; layer < stack->L; layer++) {
        struct block_options block = {.choices = choices,
                                      .layer = layer,
                                      .layers = stack->L,
                                      .is_causal = options->is_causal,
                                      .has_cross = options->has_cross,
                                      .dropout_layer = options->first_dropout_layer + layer,
                                      .cross_dropout_layer = options->first_cross_dropout_layer + layer};
        char *name = memory_printf("%s.layers.%lld", options->name, (long long)layer);
        block_build(&stack->blocks[layer], params, name, &block);
        free(name);
    }
    if (stack->has_final_norm) {
        char *name = memory_printf("%s.final_layernorm", options->name);
        norm_build(&stack->final_norm, params, name, &choices->norm);
        free(name);
    }
}

void stack_free(struct stack *stack) {
    free(stack->blocks);
    free(stack->saved);
    free(stack->inputs);
    free(stack->marks);
    *stack = (struct stack){0};
}

// Blocks [first, first + count) are kept or recomputed together.
struct group {
    int64_t count;
    bool is_recomputed;
};

static struct group group_at(const struct stack *stack, const struct pass *pass, int64_t first) {
    const struct choices *choices = stack->choices;
    int64_t recomputed = choices->recomputed_layers;
    if (!pass->is_training || recomputed == 0 || (!choices->is_recompute_uniform && first >= recomputed))
        return (struct group){1, false};
    int64_t together = choices->is_recompute_uniform ? recomputed : 1, left = stack->L - first;
    return (struct group){together < left ? together : left, true};
}

// The blocks of a group from its input; the last one writes to out.
static void forward_group(struct stack *stack, const struct pass *pass, int64_t first, int64_t count,
                          struct tensor out) {
    struct tensor x = stack->inputs[first];
    for (int64_t layer = first; layer < first + count; layer++) {
        bool is_last = layer == first + count - 1;
        struct tensor next =
            is_last ? out : arena_2d(pass->saved, pass->dtype, pass_stream_rows(pass), stack->choices->C);
        block_forward(&stack->blocks[layer], pass, &stack->saved[layer], next, x);
        x = next;
    }
}

static struct relative_rule rule_of(const struct stack *stack, int64_t keys) {
    struct relative_rule rule = stack->choices->relative;
    rule.is_bidirectional = !stack->is_causal;
    rule.first_distance = 1 - keys;
    return rule;
}

static void set_relative_bias(struct stack *stack, struct pass *pass) {
    if (!stack->relative)
        return;
    int64_t keys = pass->T + (pass->cache ? pass->cache->length : 0);
    stack->relative_bias =
        arena_2d(pass->saved, DTYPE_F32, stack->choices->H / stack->choices->parts, pass->T + keys - 1);
    op_relative_bias_forward(pass->device, &(struct op_relative_bias_forward){.bias = stack->relative_bias,
                                                                              .table = stack->relative->value,
                                                                              .rule = rule_of(stack, keys)});
    pass->relative_bias = stack->relative_bias;
}

struct tensor stack_forward(struct stack *stack, const struct pass *pass, struct tensor x) {
    struct pass inner = *pass;
    set_relative_bias(stack, &inner);
    for (int64_t layer = 0; layer < stack->L;) {
        struct group group = group_at(stack, &inner, layer);
        struct tensor out = arena_2d(inner.saved, inner.dtype, pass_stream_rows(&inner), stack->choices->C);
        stack->inputs[layer] = x;
        stack->marks[layer] = arena_mark(inner.saved);
        forward_group(stack, &inner, layer, group.count, out);
        if (group.is_recomputed)
            arena_release(inner.saved, stack->marks[layer]);
        layer += group.count;
        x = out;
    }
    return x;
}

struct tensor stack_normalize(struct stack *stack, const struct pass *pass, struct tensor x) {
    if (!stack->has_final_norm)
        return x;
    stack->x = x;
    norm_take(&stack->final_norm, pass, &stack->final_saved, x.shape[0], (struct tensor){0});
    norm_forward(&stack->final_norm, pass, &stack->final_saved, x, &(struct residual){0});
    return stack->final_saved.y;
}

// The first layer of the group that ends before `end`.
static int64_t group_before(const struct stack *stack, const struct pass *pass, int64_t end) {
    int64_t first = 0;
    for (int64_t layer = 0; layer < end; layer += group_at(stack, pass, layer).count)
        first = layer;
    return first;
}

static void backward_group(struct stack *stack, const struct pass *pass, int64_t first, int64_t end, struct tensor dx) {
    if (group_at(stack, pass, first).is_recomputed) {
        // What was kept after this group belongs to layers whose backward is done, the heads included.
        arena_release(pass->saved, stack->marks[first]);
        struct tensor out = arena_2d(pass->saved, pass->dtype, pass_stream_rows(pass), stack->choices->C);
        forward_group(stack, pass, first, end - first, out);
    }
    for (int64_t layer = end - 1; layer >= first; layer--)
        block_backward(&stack->blocks[layer], pass, &stack->saved[layer], dx);
}

void stack_backward(struct stack *stack, const struct pass *pass, struct tensor dx, struct tensor dy) {
    CHECK((dx.data != dy.data) == stack->has_final_norm);
    struct pass inner = *pass;
    size_t mark = arena_mark(pass->scratch);
    if (stack->has_final_norm)
        norm_backward(&stack->final_norm, &inner, &stack->final_saved,
                      &(struct norm_gradient){.dx = dx, .dy = dy, .x = stack->x});
    if (stack->relative) {
        inner.relative_bias = stack->relative_bias;
        inner.drelative_bias =
            arena_3d(pass->scratch, DTYPE_F32, pass->B, stack->choices->H / stack->choices->parts, 2 * pass->T - 1);
        device_zero(pass->device, inner.drelative_bias);
    }
    for (int64_t end = stack->L; end > 0;) {
        int64_t first = group_before(stack, &inner, end);
        backward_group(stack, &inner, first, end, dx);
        end = first;
    }
    if (stack->relative)
        op_relative_bias_backward(pass->device, &(struct op_relative_bias_backward){.dtable = stack->relative->grad,
                                                                                    .dbias = inner.drelative_bias,
                                                                                    .rule = rule_of(stack, pass->T)});
    arena_release(pass->scratch, mark);
}
