// The heads, forward and backward, and the loss they share. See head.h.
#include "model/head.h"
#include "model/context.h"
#include "model/embedding.h"
#include "ops/device.h"

#include <math.h>

void head_build(struct head *head, struct param_list *params, const struct config *config,
                const struct choices *choices) {
    int64_t V = config->model.padded_vocab_size, C = choices->C, E = config_word_embedding_size(&config->model);
    double deviation = choices->standard_deviation;
    float scale = config->model.scale_tied_output ? 1.0f / sqrtf((float)C) : 1.0f;
    *head = (struct head){.scale = scale / (float)config->model.logits_scaling,
                          .cap = (float)config->model.final_logit_softcapping,
                          .z = (float)config->model.z_loss_strength,
                          .C = C,
                          .E = E,
                          .rows_at_once = config->machine.logits_at_once,
                          .activation = config_head_activation(&config->model),
                          .has_transform = config->model.form == CONFIG_BERT};
    if (head->has_transform) {
        struct linear_options dense = {.weight = shard_whole(2, C, C),
                                       .has_bias = true,
                                       .standard_deviation = deviation,
                                       .sums_gradient = choices->splits_rows};
        linear_build(&head->dense, params, "lm_head.dense", &dense);
        norm_build(&head->norm, params, "lm_head.layer_norm", &choices->norm);
    }
    if (E != C)
        linear_build(&head->projection, params, "lm_head.projection",
                     &(struct linear_options){.weight = shard_whole(2, E, C),
                                              .standard_deviation = deviation,
                                              .sums_gradient = choices->splits_rows});
    if (!config->model.untie_embeddings_and_output_weights)
        head->weight = embedding_tokens(params, &config->model, choices);
    else
        head->weight = param_add(params, "output_layer.weight", choices_split(choices, shard_whole(2, V, E), 0),
                                 INIT_NORMAL, deviation);
    head->weight->is_vocabulary = true;
    if (config_has_output_bias(&config->model))
        head->bias =
            param_add(params, "output_layer.bias", choices_split(choices, shard_whole(1, V, 1), 0), INIT_ZERO, 0);
    head->V = shard_local_size(&head->weight->shard, 0);
    head->vocabulary_start = shard_local_start(&head->weight->shard);
    head->is_uneven = V % head->weight->shard.parts != 0;
    if (config->run.fp8_output_proj) {
        head->fp8 = choices->fp8;
        head->fp8_layer = fp8_add(choices->fp8, head->weight);
    }
}

static struct tensor transform(const struct head *head, const struct pass *pass, struct head_flight *flight,
                               struct tensor x) {
    int64_t rows = x.shape[0];
    flight->before = arena_2d(pass->activations, pass->dtype, rows, head->C);
    flight->after = arena_2d(pass->activations, pass->dtype, rows, head->C);
    norm_take(&head->norm, pass, &flight->norm, rows, (struct operand){0});
    linear_forward(&head->dense, pass, flight->before, operand_of(x), EPILOGUE_BIAS, (struct tensor){0});
    op_activation_forward(pass->device, &(struct op_activation_forward){
                                            .y = flight->after, .x = flight->before, .activation = head->activation});
    norm_forward(&head->norm, pass, &flight->norm, flight->after, &(struct residual){0});
    return flight->norm.y.value;
}

// The features (rows, E): operand of the matmul with the vocabulary's matrix.
static struct tensor features_of(const struct head *head, const struct pass *pass, struct head_flight *flight,
                                 struct tensor x) {
    if (head->has_transform)
        return transform(head, pass, flight, x);
    if (!head->projection.weight)
        return x;
    struct tensor narrow = arena_2d(pass->activations, pass->dtype, x.shape[0], head->E);
    linear_forward(&head->projection, pass, narrow, operand_of(x), EPILOGUE_NONE, (struct tensor){0});
    return narrow;
}

static bool is_in_fp8(const struct head *head, const struct pass *pass) {
    return head->fp8 && pass->is_training;
}

// logits (rows, V) of features (rows, E), capped.
static void head_multiply(const struct head *head, const struct pass *pass, struct tensor features,
                          struct tensor logits) {
    op_matmul(pass->device, &(struct op_matmul){.a = features,
                                                .b = head->weight->value,
                                                .d = logits,
                                                .transpose_b = true,
                                                .alpha = head->scale,
                                                .epilogue = head->bias ? EPILOGUE_BIAS : EPILOGUE_NONE,
                                                .bias = head->bias ? head->bias->value : (struct tensor){0},
                                                .is_uneven = head->is_uneven});
    if (head->cap > 0)
        op_softcap(pass->device, &(struct op_softcap){.x = logits, .cap = head->cap});
}

void head_forward(const struct head *head, const struct pass *pass, struct head_flight *flight, struct tensor x,
                  struct tensor logits) {
    struct tensor features = features_of(head, pass, flight, x);
    bool is_fp8 = is_in_fp8(head, pass);
    int64_t rows = features.shape[0] * (pass->splits_rows ? pass_parts(pass) : 1);
    flight->x = x;
    flight->features = is_fp8 ? features : pass_gather(pass, pass->activations, features, "head input");
    flight->logits = logits;
    if (!logits.data && !is_fp8 && head_rows_at_once(head, pass, rows) < rows)
        return;
    if (!logits.data)
        flight->logits = arena_2d(pass->activations, pass->dtype, rows, head->V);
    if (!is_fp8) {
        head_multiply(head, pass, flight->features, flight->logits);
        return;
    }
    head_forward_fp8(head, pass, flight->logits, features);
    if (head->cap > 0)
        op_softcap(pass->device, &(struct op_softcap){.x = flight->logits, .cap = head->cap});
}

// Statistics of a softmax whose classes are split among ranks: each rank computes those of its own classes, gathers
// all, and merges them.
static void share_stats(const struct pass *pass, const struct op_cross_entropy *op) {
    int64_t rows = op->logits.shape[0], parts = pass_parts(pass);
    size_t mark = arena_mark(pass->scratch);
    struct tensor all = arena_3d(pass->scratch, DTYPE_F32, parts, 3, rows);
    struct tensor own = arena_2d(pass->scratch, DTYPE_F32, 3, rows);
    struct tensor flat = tensor_flat(own);
    op_softmax_stats(pass->device, &(struct op_softmax_stats){.row_max = tensor_rows(flat, 0, rows),
                                                              .row_sum = tensor_rows(flat, rows, rows),
                                                              .row_target = tensor_rows(flat, 2 * rows, rows),
                                                              .logits = op->logits,
                                                              .labels = op->labels,
                                                              .vocabulary_start = op->vocabulary_start});
    struct comm_request request =
        comm_all_gather_start(pass->mesh->group[AXIS_TENSOR], tensor_flat(all), flat, "softmax statistics");
    comm_wait(&request);
    op_softmax_merge(pass->device,
                     &(struct op_softmax_merge){
                         .row_max = op->row_max, .row_sum = op->row_sum, .row_target = op->row_target, .parts = all});
    arena_release(pass->scratch, mark);
}

// losses (rows) fp32 of logits; replaces the logits by their gradients, see head_add_loss.
static void head_losses(const struct head *head, const struct pass *pass, struct tensor logits,
                        const struct targets *targets, struct tensor losses) {
    int64_t rows = logits.shape[0];
    bool is_split = head && pass_parts(pass) > 1;
    const struct token_scores *kept = &targets->scores;
    size_t mark = arena_mark(pass->scratch);
    struct op_cross_entropy op = {
        .losses = losses,
        .logits = logits,
        .row_max = kept->largest.data ? kept->largest : arena_1d(pass->scratch, DTYPE_F32, rows),
        .row_sum = arena_1d(pass->scratch, DTYPE_F32, rows),
        .row_target = kept->target.data ? kept->target : arena_1d(pass->scratch, DTYPE_F32, rows),
        .makes_stats = !is_split,
        .labels = targets->labels,
        .weights = targets->weights,
        .vocabulary_start = is_split ? head->vocabulary_start : 0,
        .cap = head ? head->cap : 0,
        .z = head && targets->weights.data ? head->z : 0};
    if (!op.makes_stats)
        share_stats(pass, &op);
    op_cross_entropy(pass->device, &op);
    arena_release(pass->scratch, mark);
}

void head_add_loss(const struct head *head, const struct pass *pass, struct tensor logits,
                   const struct targets *targets) {
    size_t mark = arena_mark(pass->scratch);
    struct tensor losses =
        targets->scores.losses.data ? targets->scores.losses : arena_1d(pass->scratch, DTYPE_F32, logits.shape[0]);
    head_losses(head, pass, logits, targets, losses);
    op_dot(pass->device, &(struct op_dot){.out = targets->loss_sum, .a = losses, .b = targets->mask});
    arena_release(pass->scratch, mark);
}

// Computes from the gradient of logits (rows, V) dfeatures (rows, E), before the sum over ranks, and the gradients of
// weight and bias, which are added to unless the pass is the first.
static void head_multiply_backward(const struct head *head, const struct pass *pass, struct tensor dlogits,
                                   struct tensor features, struct tensor dfeatures) {
    op_matmul(pass->device, &(struct op_matmul){.a = dlogits,
                                                .b = head->weight->value,
                                                .d = dfeatures,
                                                .alpha = head->scale,
                                                .is_uneven = head->is_uneven});
    op_matmul(pass->device, &(struct op_matmul){.a = dlogits,
                                                .b = features,
                                                .d = head->weight->grad,
                                                .transpose_a = true,
                                                .alpha = head->scale,
                                                .beta = pass->is_first ? 0 : 1,
                                                .is_uneven = head->is_uneven});
    if (head->bias)
        op_column_sum(pass->device, &(struct op_column_sum){.out = head->bias->grad, .x = dlogits});
}

// ---- some rows at a time ----

// The head some rows at a time: logits, losses and, in training, all gradients before the next rows. Logits and losses
// equal those of all rows at once, except for the rounding of matmul kernels chosen for fewer rows; the gradients of
// weight and bias are added up part by part.

// Parts of this size keep a GPU busy: a matmul of thousands of rows. Each reads and writes the weight's gradient once
// more, 0.08 ms for that of GPT-2 124M on an H200.
enum { LOGITS_AT_ONCE_BYTES = 1 << 30, ROW_MULTIPLE = 128 };

int64_t head_rows_at_once(const struct head *head, const struct pass *pass, int64_t rows) {
    const struct shard *shard = &head->weight->shard;
    if (head->rows_at_once > 0)
        return rows < head->rows_at_once ? rows : head->rows_at_once;
    // Ranks that share the vocabulary sum statistics of each part, so all count with the largest share.
    int64_t most = (shard->global[0] + shard->parts - 1) / shard->parts;
    int64_t row_bytes = most * (int64_t)dtype_bytes(pass->dtype);
    int64_t parts = (rows * row_bytes + LOGITS_AT_ONCE_BYTES - 1) / LOGITS_AT_ONCE_BYTES;
    if (parts <= 1)
        return rows;
    int64_t each = ((rows + parts - 1) / parts + ROW_MULTIPLE - 1) / ROW_MULTIPLE * ROW_MULTIPLE;
    return each < rows ? each : rows;
}

static struct tensor some_rows(struct tensor all, int64_t first, int64_t count) {
    return all.data ? tensor_rows(all, first, count) : all;
}

static struct targets some_targets(const struct targets *all, int64_t first, int64_t count) {
    return (struct targets){.labels = tensor_rows(all->labels, first, count),
                            .mask = tensor_rows(all->mask, first, count),
                            .weights = some_rows(all->weights, first, count),
                            .loss_sum = all->loss_sum,
                            .scores = {.largest = some_rows(all->scores.largest, first, count),
                                       .target = some_rows(all->scores.target, first, count)}};
}

// Adds the losses of logits that are not kept; if dfeatures (N, E) is given, computes it and the gradients of weight
// and bias.
static void head_by_rows(const struct head *head, const struct pass *pass, const struct head_flight *flight,
                         struct tensor dfeatures) {
    int64_t N = flight->features.shape[0], each = head_rows_at_once(head, pass, N);
    size_t mark = arena_mark(pass->scratch);
    const struct token_scores *scores = &flight->targets.scores;
    struct tensor losses = scores->losses.data ? scores->losses : arena_1d(pass->scratch, DTYPE_F32, N);
    struct tensor room = arena_2d(pass->scratch, pass->dtype, each, head->V);
    struct pass part = *pass;
    for (int64_t first = 0; first < N; first += each) {
        int64_t count = N - first < each ? N - first : each;
        struct tensor logits = tensor_rows(room, 0, count), features = tensor_rows(flight->features, first, count);
        struct targets targets = some_targets(&flight->targets, first, count);
        head_multiply(head, pass, features, logits);
        head_losses(head, pass, logits, &targets, tensor_rows(losses, first, count));
        if (dfeatures.data)
            head_multiply_backward(head, &part, logits, features, tensor_rows(dfeatures, first, count));
        part.is_first = false;
    }
    op_dot(pass->device, &(struct op_dot){.out = flight->targets.loss_sum, .a = losses, .b = flight->targets.mask});
    arena_release(pass->scratch, mark);
}

void head_loss(const struct head *head, const struct pass *pass, struct head_flight *flight,
               const struct targets *targets) {
    flight->targets = *targets;
    if (!flight->logits.data) {
        if (!targets->weights.data)
            head_by_rows(head, pass, flight, (struct tensor){0});
        return;
    }
    head_add_loss(head, pass, flight->logits, targets);
}

static void backward_transform(const struct head *head, const struct pass *pass, const struct head_flight *flight,
                               struct tensor dx, struct tensor dfeatures) {
    size_t mark = arena_mark(pass->scratch);
    struct tensor dafter = arena_2d(pass->scratch, pass->dtype, dx.shape[0], head->C);
    norm_backward(&head->norm, pass, &flight->norm,
                  &(struct norm_gradient){.dx = dafter, .dy = dfeatures, .x = flight->after});
    op_activation_backward(pass->device,
                           &(struct op_activation_backward){
                               .dx = dafter, .dy = dafter, .x = flight->before, .activation = head->activation});
    struct operand dbefore = linear_gradient(&head->dense, pass, dafter);
    linear_backward_input(&head->dense, pass, dx, dbefore, (struct tensor){0});
    linear_backward_weight(&head->dense, pass, dbefore, operand_of(flight->x));
    arena_release(pass->scratch, mark);
}

void head_backward(const struct head *head, const struct pass *pass, const struct head_flight *flight,
                   struct tensor dx) {
    size_t mark = arena_mark(pass->scratch);
    bool is_direct = !head->has_transform && !head->projection.weight;
    struct tensor dfeatures = is_direct ? dx : arena_2d(pass->scratch, pass->dtype, dx.shape[0], head->E);
    int64_t rows = dx.shape[0] * (pass->splits_rows ? pass_parts(pass) : 1);
    struct tensor whole = pass->splits_rows ? arena_2d(pass->scratch, pass->dtype, rows, head->E) : dfeatures;
    if (!flight->logits.data)
        head_by_rows(head, pass, flight, whole);
    else if (is_in_fp8(head, pass))
        head_backward_fp8(head, pass, flight, whole);
    else
        head_multiply_backward(head, pass, flight->logits, flight->features, whole);
    pass_sum(pass, dfeatures, whole, "head input gradient");
    if (head->has_transform)
        backward_transform(head, pass, flight, dx, dfeatures);
    if (head->projection.weight) {
        linear_backward_input(&head->projection, pass, dx, operand_of(dfeatures), (struct tensor){0});
        linear_backward_weight(&head->projection, pass, operand_of(dfeatures), operand_of(flight->x));
    }
    arena_release(pass->scratch, mark);
}

void pair_head_build(struct pair_head *head, struct param_list *params, const struct choices *choices) {
    double deviation = choices->standard_deviation;
    int64_t C = choices->C;
    struct linear_options dense = {.weight = shard_whole(2, C, C), .has_bias = true, .standard_deviation = deviation};
    struct linear_options output = {.weight = shard_whole(2, 2, C), .has_bias = true, .standard_deviation = deviation};
    linear_build(&head->dense, params, "pooler.dense", &dense);
    linear_build(&head->output, params, "binary_head", &output);
}

// The rows of the first tokens of x (B * T, C). If ranks share sequences, the first rank has them; the others take the
// first tokens of their own first strips, for which their losses do not count.
static struct tensor first_tokens(const struct pass *pass, struct tensor x) {
    struct strip strip = pass_strip(pass, 0);
    int64_t C = x.shape[1];
    return tensor_slice(tensor_reshape_2d(strip_rows(&strip, x), pass->B, strip.T * C), 1, 0, C);
}

void pair_head_forward(const struct pair_head *head, const struct pass *pass, struct pair_head_flight *flight,
                       struct tensor x, const struct targets *targets) {
    struct tensor none = {0};
    flight->first = first_tokens(pass, pass_gather(pass, pass->activations, x, "pair head input"));
    flight->before = arena_2d(pass->activations, pass->dtype, pass->B, head->dense.out);
    flight->after = arena_2d(pass->activations, pass->dtype, pass->B, head->dense.out);
    flight->logits = arena_2d(pass->activations, pass->dtype, pass->B, head->output.out);
    linear_forward(&head->dense, pass, flight->before, operand_of(flight->first), EPILOGUE_BIAS, none);
    op_activation_forward(pass->device, &(struct op_activation_forward){
                                            .y = flight->after, .x = flight->before, .activation = ACTIVATION_TANH});
    linear_forward(&head->output, pass, flight->logits, operand_of(flight->after), EPILOGUE_BIAS, none);
    head_add_loss(NULL, pass, flight->logits, targets);
}

void pair_head_backward(const struct pair_head *head, const struct pass *pass, const struct pair_head_flight *flight,
                        struct tensor dx) {
    size_t mark = arena_mark(pass->scratch);
    struct tensor dbefore = arena_2d(pass->scratch, pass->dtype, pass->B, head->dense.out);
    struct operand dlogits = linear_gradient(&head->output, pass, flight->logits);
    linear_backward_input(&head->output, pass, dbefore, dlogits, (struct tensor){0});
    linear_backward_weight(&head->output, pass, dlogits, operand_of(flight->after));
    op_activation_backward(pass->device,
                           &(struct op_activation_backward){
                               .dx = dbefore, .dy = dbefore, .x = flight->before, .activation = ACTIVATION_TANH});
    struct operand dy = linear_gradient(&head->dense, pass, dbefore);
    if (pass->splits_rows) {
        // Every rank has the whole gradient; the residual stream gets this rank's rows.
        struct tensor whole = arena_2d(pass->scratch, pass->dtype, pass_rows(pass), dx.shape[1]);
        device_zero(pass->device, whole);
        linear_backward_input_add(&head->dense, pass, first_tokens(pass, whole), dy);
        op_dropout_add(pass->device,
                       &(struct op_dropout_add){.out = dx, .x = pass_own_rows(pass, whole), .residual = dx});
    } else {
        linear_backward_input_add(&head->dense, pass, first_tokens(pass, dx), dy);
    }
    linear_backward_weight(&head->dense, pass, dy, operand_of(flight->first));
    arena_release(pass->scratch, mark);
}
