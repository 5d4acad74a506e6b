// A stack of blocks, forward and backward, with recompute. See stack.h.
#include "model/stack.h"
#include "base/error.h"
#include "base/memory.h"
#include "ops/device.h"

#include <stdlib.h>

// Frees the name.
static void add_table(struct stack *stack, struct param_list *params, char *name) {
    const struct choices *choices = stack->choices;
    stack->relative[stack->tables++] =
        param_obtain(params, name, choices_split(choices, shard_whole(2, choices->relative.buckets, choices->H), 1),
                     INIT_NORMAL, choices->standard_deviation);
    stack->relative[stack->tables - 1]->is_table = true;
    free(name);
}

void stack_build(struct stack *stack, struct param_list *params, const struct stack_options *options) {
    const struct choices *choices = options->choices;
    *stack = (struct stack){.first = options->first,
                            .L = options->L,
                            .layers = options->layers,
                            .begins = options->begins,
                            .ends = options->ends,
                            .choices = choices,
                            .is_causal = options->is_causal};
    stack->has_final_norm = choices->norms != NORMS_AFTER && stack->ends;
    stack->blocks = memory_alloc(sizeof *stack->blocks * (size_t)stack->L);
    stack->relative = memory_alloc(sizeof(struct param *) * (size_t)(stack->L + 1));
    if (choices->has_relative_bias && !choices->has_layer_tables && stack->L > 0)
        add_table(stack, params, memory_printf("%s.relative_attention_bias.weight", options->name));
    for (int64_t i = 0; i < stack->L; i++) {
        int64_t layer = stack->first + i;
        // Declared before its block, so that it is awaited with the block's matrices.
        if (choices->has_layer_tables)
            add_table(stack, params,
                      memory_printf("%s.layers.%lld.self_attention.relative_attention_bias.weight", options->name,
                                    (long long)layer));
        struct sublayer_options block = {.choices = choices,
                                         .layer = &options->each[i],
                                         .layers = stack->layers,
                                         .is_causal = options->is_causal,
                                         .dropout_layer = options->first_dropout_layer + layer,
                                         .cross_dropout_layer = options->first_cross_dropout_layer + layer};
        char *name = options->block ? memory_printf("%s.%s", options->name, options->block)
                                    : memory_printf("%s.layers.%lld", options->name, (long long)layer);
        block_build(&stack->blocks[i], params, name, &block);
        free(name);
    }
    if (stack->has_final_norm) {
        char *name = memory_printf("%s.final_layernorm", options->name);
        norm_build(&stack->final_norm, params, name, &choices->norm);
        free(name);
    }
}

void stack_free(struct stack *stack) {
    for (int64_t i = 0; i < stack->L; i++)
        block_free(&stack->blocks[i]);
    free(stack->blocks);
    free(stack->relative);
    *stack = (struct stack){0};
}

void stack_flight_open(struct stack_flight *flight, const struct stack *stack) {
    size_t layers = (size_t)stack->L;
    *flight = (struct stack_flight){.L = stack->L,
                                    .saved = memory_alloc(sizeof *flight->saved * layers),
                                    .inputs = memory_alloc(sizeof *flight->inputs * layers),
                                    .marks = memory_alloc(sizeof *flight->marks * (layers + 1)),
                                    .relative_bias =
                                        memory_alloc(sizeof *flight->relative_bias * (size_t)(stack->tables + 1))};
    for (int64_t i = 0; i < stack->L; i++)
        block_saved_open(&flight->saved[i], &stack->blocks[i]);
}

void stack_take_cache(const struct stack *stack, struct stack_flight *flight, const struct cache_options *options) {
    for (int64_t i = 0; i < stack->L; i++)
        block_take_cache(&stack->blocks[i], &flight->saved[i], options);
}

void stack_flight_close(struct stack_flight *flight) {
    for (int64_t i = 0; i < flight->L; i++)
        block_saved_close(&flight->saved[i]);
    free(flight->saved);
    free(flight->inputs);
    free(flight->marks);
    free(flight->relative_bias);
    *flight = (struct stack_flight){0};
}

// Blocks [first, end) are kept or recomputed together.
struct block_group {
    int64_t first, end;
    bool is_recomputed;
};

static struct block_group group_at(const struct stack *stack, const struct pass *pass, int64_t first) {
    const struct choices *choices = stack->choices;
    int64_t recomputed = choices->recomputed_layers;
    if (!pass->is_training || recomputed == 0 || (!choices->is_recompute_uniform && first >= recomputed))
        return (struct block_group){first, first + 1, false};
    int64_t together = choices->is_recompute_uniform ? recomputed : 1, left = stack->L - first;
    return (struct block_group){first, first + (together < left ? together : left), true};
}

// Whether ranks that share layers each keep only some rows of a recomputed group's input, and gather it for the
// recompute. Not the first group's input, which is kept whole anyway, nor a split residual stream, whose rows each rank
// keeps.
static bool divides_input(const struct stack *stack, const struct pass *pass, int64_t first) {
    return stack->choices->divides_inputs && first > 0 && first < stack->L && !pass->splits_rows &&
           pass_rows(pass) % pass_parts(pass) == 0 && group_at(stack, pass, first).is_recomputed;
}

// Whether a recomputed group's input goes to host memory. The first group's does not: it belongs to the embedding.
static bool sends_input(const struct stack *stack, const struct pass *pass, int64_t first) {
    return pass->away && first > 0 && first < stack->L && first <= stack->choices->offloaded_layers &&
           group_at(stack, pass, first).is_recomputed;
}

// Keeps this rank's rows of x (N, C).
static struct tensor keep_own_rows(const struct pass *pass, struct tensor x) {
    int64_t rows = x.shape[0] / pass_parts(pass);
    struct tensor own = arena_2d(pass->activations, x.dtype, rows, x.shape[1]);
    op_copy(pass->device,
            &(struct op_copy){.dst = own, .src = tensor_rows(x, rows * pass->mesh->place[AXIS_TENSOR], rows)});
    return own;
}

static struct tensor gather_rows(const struct pass *pass, struct tensor own) {
    struct pass divided = *pass;
    divided.splits_rows = true;
    return pass_gather(&divided, pass->activations, own, "saved input");
}

// Memory for a residual stream (N, C).
static struct tensor take_stream(const struct stack *stack, const struct pass *pass, struct arena *arena) {
    return arena_2d(arena, pass->dtype, pass_stream_rows(pass), stack->choices->C);
}

// Whether a block leaves its residual addition to the next block's norm. Not without a backward pass: then nothing of a
// block is kept, not even the residual stream.
static bool leaves_open(const struct stack *stack, const struct pass *pass) {
    enum norm_places norms = stack->choices->norms;
    return pass->is_training && norms != NORMS_AFTER && norms != NORMS_RESULTS && norms != NORMS_BOTH;
}

// Column 0 of a strip's biases is the distance from its last query to the first key of the sequence.
static struct relative_rule rule_of(const struct stack *stack, const struct strip *strip) {
    struct relative_rule rule = stack->choices->relative;
    rule.is_bidirectional = !stack->is_causal;
    rule.first_distance = 1 - strip->end;
    return rule;
}

// The number of distances between the queries of a strip and the keys they see.
static int64_t distances(const struct stack *stack, const struct pass *pass, const struct strip *strip) {
    return strip->T + (stack->is_causal ? strip->end : pass_whole_length(pass, pass->T)) - 1;
}

// Computes the biases of one table, for the pass and for its backward.
static void set_relative_bias(const struct stack *stack, struct pass *pass, struct stack_flight *flight,
                              int64_t table) {
    struct tensor *biases = flight->relative_bias[table].strips;
    for (int which = 0; which < pass_strips(pass); which++) {
        struct strip strip = pass_strip(pass, which);
        biases[which] = arena_2d(pass->activations, DTYPE_F32, stack->choices->H / stack->choices->parts,
                                 distances(stack, pass, &strip));
        op_relative_bias_forward(pass->device,
                                 &(struct op_relative_bias_forward){.bias = biases[which],
                                                                    .table = stack->relative[table]->value,
                                                                    .rule = rule_of(stack, &strip)});
        pass->relative_bias[which] = biases[which];
    }
}

// Scratch memory for the gradients of the biases of a table.
static void take_bias_gradients(const struct stack *stack, struct pass *pass) {
    for (int which = 0; stack->tables > 0 && which < pass_strips(pass); which++) {
        struct strip strip = pass_strip(pass, which);
        pass->drelative_bias[which] =
            arena_3d(pass->scratch, DTYPE_F32, pass->B, stack->choices->H / stack->choices->parts,
                     distances(stack, pass, &strip));
    }
}

// Gives the pass the biases of a table; their gradients start at zero.
static void begin_bias_gradients(const struct stack_flight *flight, struct pass *pass, int64_t table) {
    for (int which = 0; which < pass_strips(pass); which++) {
        pass->relative_bias[which] = flight->relative_bias[table].strips[which];
        device_zero(pass->device, pass->drelative_bias[which]);
    }
}

static void backward_relative_bias(const struct stack *stack, const struct pass *pass, int64_t table) {
    for (int which = 0; which < pass_strips(pass); which++) {
        struct strip strip = pass_strip(pass, which);
        op_relative_bias_backward(pass->device,
                                  &(struct op_relative_bias_backward){.dtable = stack->relative[table]->grad,
                                                                      .dbias = pass->drelative_bias[which],
                                                                      .rule = rule_of(stack, &strip)});
    }
}

// Whether all layers share one table, rather than having one each.
static bool shares_table(const struct stack *stack) {
    return stack->tables > 0 && !stack->choices->has_layer_tables;
}

// Takes the residual stream through the blocks of a group. The last one writes to `out`, or leaves its addition open if
// there is none.
static void forward_group(const struct stack *stack, const struct pass *pass, struct stack_flight *flight,
                          struct residual_stream *stream, struct block_group group, struct tensor out) {
    struct pass inner = *pass;
    inner.holds_attention = group.is_recomputed && stack->choices->holds_attention;
    for (int64_t layer = group.first; layer < group.end; layer++) {
        struct tensor next = out;
        if (layer < group.end - 1)
            next = leaves_open(stack, pass) ? (struct tensor){0} : take_stream(stack, pass, pass->activations);
        block_await(&stack->blocks[layer], pass);
        if (stack->choices->has_layer_tables)
            set_relative_bias(stack, &inner, flight, layer);
        block_forward(&stack->blocks[layer], &inner, &flight->saved[layer], stream, next);
    }
}

// Keeps the input x (N, C) of a group; returns what is kept. Groups alternate between two tensors: group number `turn`
// reads its input from one and writes to the other, whose earlier input must have been sent.
static struct tensor keep_input(const struct stack *stack, const struct pass *pass, int64_t first, struct tensor x,
                                int64_t turn) {
    if (divides_input(stack, pass, first))
        return keep_own_rows(pass, x);
    if (pass->away)
        away_await_left(pass->away, (int)(turn % AWAY_SLOTS));
    return sends_input(stack, pass, first) ? away_send(pass->away, x, (int)((turn + 1) % AWAY_SLOTS)) : x;
}

struct tensor stack_forward(const struct stack *stack, const struct pass *pass, struct stack_flight *flight,
                            struct tensor x) {
    struct pass inner = *pass;
    size_t mark = arena_mark(pass->scratch);
    struct tensor turns[AWAY_SLOTS] = {{0}};  // (N, C): inputs that are not kept as they are, used alternately
    bool has_turns = stack->choices->divides_inputs || pass->away;
    for (int i = 0; has_turns && i < AWAY_SLOTS; i++)
        turns[i] = take_stream(stack, pass, pass->scratch);
    if (shares_table(stack)) {
        pass_await_param(pass, stack->relative[0]);
        set_relative_bias(stack, &inner, flight, 0);
    }
    struct residual_stream stream = {.x = x, .room = take_stream(stack, pass, pass->scratch)};
    for (int64_t layer = 0, turn = 0, next; layer < stack->L; turn++, layer = next) {
        struct block_group group = group_at(stack, &inner, layer);
        next = group.end;
        // Recomputed groups begin and end with a complete stream.
        struct tensor out = {0};
        bool is_passed_on = pass->away && !pass->is_training && next < stack->L;  // not read again
        if (is_passed_on || divides_input(stack, &inner, next) || sends_input(stack, &inner, next))
            out = turns[turn % AWAY_SLOTS];
        else if (next == stack->L || group.is_recomputed || group_at(stack, &inner, next).is_recomputed ||
                 !leaves_open(stack, &inner))
            out = take_stream(stack, &inner, inner.activations);
        flight->inputs[layer] = keep_input(stack, &inner, layer, stream.x, turn);
        if (group.is_recomputed && stack->choices->holds_attention)
            for (int64_t i = layer; i < next; i++)
                block_hold(&stack->blocks[i], &inner, &flight->saved[i]);
        flight->marks[layer] = arena_mark(inner.activations);
        forward_group(stack, &inner, flight, &stream, group, out);
        if (group.is_recomputed)
            arena_release(inner.activations, flight->marks[layer]);
    }
    flight->marks[stack->L] = arena_mark(inner.activations);
    for (int i = 0; pass->away && i < AWAY_SLOTS; i++)
        away_await_left(pass->away, i);
    arena_release(pass->scratch, mark);
    return stream.x;
}

struct tensor stack_normalize(const struct stack *stack, const struct pass *pass, struct stack_flight *flight,
                              struct tensor x) {
    if (!stack->has_final_norm)
        return x;
    flight->x = x;
    norm_take(&stack->final_norm, pass, &flight->final_saved, x.shape[0], (struct operand){0});
    norm_forward(&stack->final_norm, pass, &flight->final_saved, x, &(struct residual){0});
    return flight->final_saved.y.value;
}

// The group that ends before `end`, which is above 0.
static struct block_group group_before(const struct stack *stack, const struct pass *pass, int64_t end) {
    struct block_group group = group_at(stack, pass, 0);
    while (group.end < end)
        group = group_at(stack, pass, group.end);
    return group;
}

static void backward_group(const struct stack *stack, const struct pass *pass, struct stack_flight *flight,
                           struct stream_gradient *gradient, struct block_group group) {
    int64_t first = group.first;
    if (group.is_recomputed) {
        // Memory taken after this group belongs to layers whose backward is done, including the heads.
        arena_release(pass->activations, flight->marks[first]);
        if (divides_input(stack, pass, first))
            flight->inputs[first] = gather_rows(pass, flight->inputs[first]);
        size_t mark = arena_mark(pass->scratch);
        struct residual_stream stream = {.x = flight->inputs[first], .room = take_stream(stack, pass, pass->scratch)};
        // The recompute's result is not read.
        struct tensor out = {0};
        if (!leaves_open(stack, pass))
            out = take_stream(stack, pass, pass->activations);
        struct pass again = *pass;
        again.is_again = true;
        forward_group(stack, &again, flight, &stream, group, out);
        arena_release(pass->scratch, mark);
    }
    struct pass inner = *pass;
    for (int64_t layer = group.end - 1; layer >= first; layer--) {
        const struct block *before = layer > 0 ? &stack->blocks[layer - 1] : NULL;
        if (stack->choices->has_layer_tables)
            begin_bias_gradients(flight, &inner, layer);
        block_backward(&stack->blocks[layer], &inner, &flight->saved[layer], gradient, before);
        if (stack->choices->has_layer_tables)
            backward_relative_bias(stack, &inner, layer);
        block_gradients_final(&stack->blocks[layer], pass);
    }
}

// Inputs that come back from host memory.
struct return_home {
    struct tensor rooms[AWAY_SLOTS];  // (N, C) on the device
    int slot;                         // slot of the input being copied
};

// Starts to bring back the last sent input of a group before `end`.
static void bring_before(const struct stack *stack, const struct pass *pass, const struct stack_flight *flight,
                         const struct return_home *home, int64_t end) {
    while (end > 0) {
        int64_t first = group_before(stack, pass, end).first;
        if (sends_input(stack, pass, first)) {
            away_bring(pass->away, home->rooms[home->slot], flight->inputs[first], home->slot);
            return;
        }
        end = first;
    }
}

// Waits for the input of a group, and starts to bring the previous one, which arrives while the group computes.
static void receive_input(const struct stack *stack, const struct pass *pass, struct stack_flight *flight,
                          struct return_home *home, int64_t first) {
    if (!sends_input(stack, pass, first))
        return;
    away_await_arrived(pass->away, home->slot);
    flight->inputs[first] = home->rooms[home->slot];
    home->slot = (home->slot + 1) % AWAY_SLOTS;
    bring_before(stack, pass, flight, home, first);
}

void stack_backward(const struct stack *stack, const struct pass *pass, struct stack_flight *flight, struct tensor dx,
                    struct tensor dy) {
    CHECK((dx.data != dy.data) == stack->has_final_norm);
    struct pass inner = *pass;
    size_t mark = arena_mark(pass->scratch);
    if (stack->has_final_norm)
        norm_backward(&stack->final_norm, &inner, &flight->final_saved,
                      &(struct norm_gradient){.dx = dx, .dy = dy, .x = flight->x});
    take_bias_gradients(stack, &inner);
    if (shares_table(stack))
        begin_bias_gradients(flight, &inner, 0);
    // Without dropout, the gradient of a sublayer's contribution is that of the residual stream itself.
    struct stream_gradient gradient = {.dx = dx, .ddelta = dx};
    if (stack->choices->norms == NORMS_AFTER || stack->choices->hidden_dropout > 0)
        gradient.ddelta = take_stream(stack, pass, pass->scratch);
    struct return_home home = {0};
    for (int i = 0; pass->away && i < AWAY_SLOTS; i++)
        home.rooms[i] = take_stream(stack, pass, pass->scratch);
    bring_before(stack, &inner, flight, &home, stack->L);
    for (int64_t end = stack->L; end > 0;) {
        struct block_group group = group_before(stack, &inner, end);
        receive_input(stack, &inner, flight, &home, group.first);
        backward_group(stack, &inner, flight, &gradient, group);
        end = group.first;
    }
    if (shares_table(stack))
        backward_relative_bias(stack, &inner, 0);
    arena_release(pass->scratch, mark);
}
