// The paper backend: a device that computes nothing and keeps account. Running a step on it costs no memory and tells
// how many FLOPs and bytes the same step costs on a real device. Addresses it hands out are never read.
#include "ops/device.h"
#include "base/error.h"
#include "base/memory.h"
#include <stdio.h>
#include <stdlib.h>

struct paper_device {
    struct device base;
    uintptr_t next_address;
    const struct device *real;  // see paper_stand_for; NULL for no device
    struct paper_totals totals;
};

static struct paper_device *paper_of(struct device *device) {
    return (struct paper_device *)device;
}

static void paper_close(struct device *device) {
    free(device);
}

static bool paper_supports(const struct device *device, enum dtype dtype) {
    (void)device;
    return dtype == DTYPE_F32 || dtype == DTYPE_BF16 || dtype == DTYPE_F16 || dtype_is_float8(dtype);
}

static void paper_describe(const struct device *device, char *text, size_t size) {
    (void)device;
    (void)snprintf(text, size, "paper: nothing is computed");
}

// Blocks follow each other from a high address on, each aligned like real ones, so that tensors that would not share
// memory do not seem to.
static void *paper_alloc(struct device *device, size_t bytes) {
    struct paper_device *paper = paper_of(device);
    uintptr_t address = paper->next_address;
    paper->next_address += (bytes + 4095) & ~(size_t)4095;
    return (void *)address;
}

static void paper_free(struct device *device, void *memory) {
    (void)device;
    (void)memory;
}

static void paper_copy_in(struct device *device, void *to_device, const void *from_host, size_t bytes,
                          enum stream stream) {
    (void)to_device;
    (void)from_host;
    (void)stream;
    paper_of(device)->totals.bytes_moved += (double)bytes;
}

// The host gets no numbers: what it finds in its memory is what was there.
static void paper_copy_out(struct device *device, void *to_host, const void *from_device, size_t bytes,
                           enum stream stream) {
    (void)to_host;
    (void)from_device;
    (void)stream;
    paper_of(device)->totals.bytes_moved += (double)bytes;
}

static void paper_zero(struct device *device, void *memory, size_t bytes, enum stream stream) {
    (void)memory;
    (void)stream;
    paper_of(device)->totals.bytes_moved += (double)bytes;
}

struct event {
    char unused;
};

static struct event *paper_event_create(struct device *device) {
    (void)device;
    return memory_alloc(sizeof(struct event));
}

static void paper_event_free(struct device *device, struct event *event) {
    (void)device;
    free(event);
}

static void paper_event_record(struct device *device, struct event *event, enum stream stream) {
    (void)device;
    (void)event;
    (void)stream;
}

static void paper_stream_wait(struct device *device, enum stream stream, struct event *event) {
    (void)device;
    (void)stream;
    (void)event;
}

static void paper_event_wait(struct device *device, struct event *event) {
    (void)device;
    (void)event;
}

static void paper_synchronize(struct device *device) {
    (void)device;
}

// One operation that touches these tensors, each once; accumulated ones are named twice, being read and written.
static void count_bytes(struct device *device, const struct tensor *tensors, size_t count) {
    struct paper_totals *totals = &paper_of(device)->totals;
    totals->operations++;
    for (size_t i = 0; i < count; i++)
        totals->bytes_moved += (double)tensor_bytes(tensors[i]);
}
#define COUNT_BYTES(device, ...)                                                                                       \
    count_bytes(device, (const struct tensor[]){__VA_ARGS__},                                                          \
                sizeof((const struct tensor[]){__VA_ARGS__}) / sizeof(struct tensor))

static void keep_own_bytes(struct device *device, enum op_kind kind, const void *op) {
    struct paper_device *paper = paper_of(device);
    if (!paper->real || !paper->real->ops->own_bytes)
        return;
    size_t bytes = paper->real->ops->own_bytes(paper->real, kind, op);
    if (bytes > paper->totals.own_bytes)
        paper->totals.own_bytes = bytes;
}

static void paper_matmul(struct device *device, const struct op_matmul *op) {
    keep_own_bytes(device, OP_MATMUL, op);
    double inner = (double)op->a.shape[op->transpose_a ? 0 : 1];
    paper_of(device)->totals.matmul_flops += 2.0 * (double)tensor_count(op->d) * inner;
    struct tensor none = {0};
    bool has_bias = op->epilogue == EPILOGUE_BIAS || op->epilogue == EPILOGUE_BIAS_ACTIVATION;
    bool has_aux = op->epilogue == EPILOGUE_BIAS_ACTIVATION || op->epilogue == EPILOGUE_ACTIVATION_GRADIENT;
    COUNT_BYTES(device, op->a, op->b, op->d, op->beta != 0 ? op->d : none, has_bias ? op->bias : none,
                has_aux ? op->aux : none);
}

static void paper_quantize(struct device *device, const struct op_quantize *op) {
    COUNT_BYTES(device, op->y, op->transposed, op->x, op->dy, op->bias, op->dbias, op->dbias);
}

static void paper_transpose(struct device *device, const struct op_transpose *op) {
    COUNT_BYTES(device, op->y, op->x);
}

static void paper_move_ranges(struct device *device, const struct op_move_ranges *op) {
    COUNT_BYTES(device, op->ranges, op->ranges, op->scaled, op->history);
}

static void paper_activation_forward(struct device *device, const struct op_activation_forward *op) {
    keep_own_bytes(device, OP_ACTIVATION_FORWARD, op);
    COUNT_BYTES(device, op->y, op->x);
}

static void paper_activation_backward(struct device *device, const struct op_activation_backward *op) {
    keep_own_bytes(device, OP_ACTIVATION_BACKWARD, op);
    COUNT_BYTES(device, op->dx, op->y, op->dy, op->x);
}

static void paper_glu_forward(struct device *device, const struct op_glu_forward *op) {
    keep_own_bytes(device, OP_GLU_FORWARD, op);
    COUNT_BYTES(device, op->y, op->x);
}

static void paper_glu_backward(struct device *device, const struct op_glu_backward *op) {
    keep_own_bytes(device, OP_GLU_BACKWARD, op);
    COUNT_BYTES(device, op->dx, op->y, op->dy, op->x);
}

static void paper_rope(struct device *device, const struct op_rope *op) {
    keep_own_bytes(device, OP_ROPE, op);
    COUNT_BYTES(device, op->x, op->x, op->positions);
}

static void paper_relative_bias_forward(struct device *device, const struct op_relative_bias_forward *op) {
    keep_own_bytes(device, OP_RELATIVE_BIAS_FORWARD, op);
    COUNT_BYTES(device, op->bias, op->table);
}

static void paper_relative_bias_backward(struct device *device, const struct op_relative_bias_backward *op) {
    COUNT_BYTES(device, op->dtable, op->dtable, op->dbias);
}

static void paper_norm_forward(struct device *device, const struct op_norm_forward *op) {
    keep_own_bytes(device, OP_NORM_FORWARD, op);
    COUNT_BYTES(device, op->y, op->mean, op->rstd, op->x, op->gain, op->bias, op->delta, op->delta_bias, op->sum);
}

static void paper_norm_backward(struct device *device, const struct op_norm_backward *op) {
    keep_own_bytes(device, OP_NORM_BACKWARD, op);
    // Where they are one, ddelta is written as dx.
    struct tensor none = {0}, ddelta = op->ddelta.data == op->dx.data ? none : op->ddelta;
    COUNT_BYTES(device, op->dx, op->dgain, op->dgain, op->dbias, op->dbias, op->dy, op->x, op->gain, op->mean, op->rstd,
                op->y, op->bias, op->dresidual, ddelta, op->ddelta_bias, op->ddelta_bias);
}

// Scores that are computed: all, or with a causal mask those at or below its diagonal, of which a window leaves a band.
// Padding and the borders of documents are not known on paper.
static double attention_scores(struct tensor q, struct tensor k, bool is_causal, int64_t window) {
    double queries = (double)q.shape[1], keys = (double)k.shape[1];
    double seen = is_causal ? queries * (keys - queries) + queries * (queries + 1) / 2 : queries * keys;
    double hidden = window > 0 && keys > (double)window ? keys - (double)window : 0;  // of the last query
    double first = hidden > queries ? hidden - queries : 0;                           // of the one before the first
    if (is_causal && hidden > 0)
        seen -= (hidden * (hidden + 1) - first * (first + 1)) / 2;
    return (double)q.shape[0] * (double)q.shape[2] * seen;
}

static void paper_attention_forward(struct device *device, const struct op_attention_forward *op) {
    keep_own_bytes(device, OP_ATTENTION_FORWARD, op);
    double products = 2;  // scores, values
    paper_of(device)->totals.attention_flops +=
        products * 2.0 * attention_scores(op->q, op->k, op->is_causal, op->mask.window) * (double)op->q.shape[3];
    COUNT_BYTES(device, op->out, op->lse, op->q, op->k, op->v, op->mask.relative_bias);
}

static void paper_attention_backward(struct device *device, const struct op_attention_backward *op) {
    keep_own_bytes(device, OP_ATTENTION_BACKWARD, op);
    double products = 5;  // scores again, dV, dP, dQ, dK
    paper_of(device)->totals.attention_flops +=
        products * 2.0 * attention_scores(op->q, op->k, op->is_causal, op->mask.window) * (double)op->q.shape[3];
    COUNT_BYTES(device, op->dq, op->dk, op->dv, op->dout, op->out, op->lse, op->scratch, op->q, op->k, op->v,
                op->mask.relative_bias, op->drelative_bias, op->drelative_bias);
}

static void paper_embedding_forward(struct device *device, const struct op_embedding_forward *op) {
    keep_own_bytes(device, OP_EMBEDDING_FORWARD, op);
    // Of each table, as many rows are read as there are tokens.
    COUNT_BYTES(device, op->out, op->out, op->position_table.data ? op->out : (struct tensor){0}, op->tokens,
                op->positions);
}

static void paper_embedding_backward(struct device *device, const struct op_embedding_backward *op) {
    keep_own_bytes(device, OP_EMBEDDING_BACKWARD, op);
    struct tensor position_rows = op->dposition_table.data ? op->dout : (struct tensor){0};
    COUNT_BYTES(device, op->dout, op->dout, op->dout, position_rows, position_rows, op->tokens, op->positions);
}

static void paper_softmax_stats(struct device *device, const struct op_softmax_stats *op) {
    COUNT_BYTES(device, op->row_max, op->row_sum, op->row_target, op->logits, op->labels);
}

static void paper_softmax_merge(struct device *device, const struct op_softmax_merge *op) {
    COUNT_BYTES(device, op->row_max, op->row_sum, op->row_target, op->parts);
}

static void paper_cross_entropy(struct device *device, const struct op_cross_entropy *op) {
    struct tensor logits = op->weights.data ? op->logits : (struct tensor){0};
    COUNT_BYTES(device, op->losses, logits, logits, op->row_max, op->row_sum, op->row_target, op->labels, op->weights);
}

static void paper_dropout_add(struct device *device, const struct op_dropout_add *op) {
    keep_own_bytes(device, OP_DROPOUT_ADD, op);
    COUNT_BYTES(device, op->out, op->x, op->residual, op->bias);
}

static void paper_dropout_backward(struct device *device, const struct op_dropout_backward *op) {
    keep_own_bytes(device, OP_DROPOUT_BACKWARD, op);
    // What is dropped nowhere and stays in its place is not touched, only summed if there is a bias.
    bool is_moved = op->dropout.rate > 0 || op->dx.data != op->dy.data;
    struct tensor none = {0}, read = is_moved || op->dbias.data ? op->dy : none;
    COUNT_BYTES(device, is_moved ? op->dx : none, read, op->dbias, op->dbias);
}

static void paper_column_sum(struct device *device, const struct op_column_sum *op) {
    keep_own_bytes(device, OP_COLUMN_SUM, op);
    COUNT_BYTES(device, op->out, op->out, op->x);
}

static void paper_dot(struct device *device, const struct op_dot *op) {
    COUNT_BYTES(device, op->out, op->out, op->a, op->b);
}

static void paper_sum_squares(struct device *device, const struct op_sum_squares *op) {
    COUNT_BYTES(device, op->out, op->out, op->x);
}

static void paper_clip_scale(struct device *device, const struct op_clip_scale *op) {
    COUNT_BYTES(device, op->scale, op->norm, op->sum_squares, op->rate, op->rates);
}

static void paper_adam(struct device *device, const struct op_adam *op) {
    struct tensor halves = op->master.dtype == DTYPE_I16 ? op->copy : (struct tensor){0};
    COUNT_BYTES(device, op->master, op->master, op->copy, halves, op->grad, op->m, op->m, op->v, op->v, op->scale,
                op->rate);
}

static void paper_split(struct device *device, const struct op_split *op) {
    COUNT_BYTES(device, op->value, op->rest, op->x);
}

static void paper_merge(struct device *device, const struct op_merge *op) {
    COUNT_BYTES(device, op->x, op->value, op->rest);
}

static void paper_copy(struct device *device, const struct op_copy *op) {
    COUNT_BYTES(device, op->dst, op->src);
}

static void paper_scale(struct device *device, const struct op_scale *op) {
    COUNT_BYTES(device, op->x, op->x);
}

static const struct ops paper_ops = {
    .name = "paper",
    .is_paper = true,
    .close = paper_close,
    .supports = paper_supports,
    .describe = paper_describe,
    .alloc = paper_alloc,
    .free = paper_free,
    .host_alloc = paper_alloc,
    .host_free = paper_free,
    .copy_in = paper_copy_in,
    .copy_out = paper_copy_out,
    .zero = paper_zero,
    .event_create = paper_event_create,
    .event_free = paper_event_free,
    .event_record = paper_event_record,
    .stream_wait = paper_stream_wait,
    .event_wait = paper_event_wait,
    .synchronize = paper_synchronize,
    .matmul = paper_matmul,
    .quantize = paper_quantize,
    .transpose = paper_transpose,
    .move_ranges = paper_move_ranges,
    .activation_forward = paper_activation_forward,
    .activation_backward = paper_activation_backward,
    .glu_forward = paper_glu_forward,
    .glu_backward = paper_glu_backward,
    .rope = paper_rope,
    .relative_bias_forward = paper_relative_bias_forward,
    .relative_bias_backward = paper_relative_bias_backward,
    .norm_forward = paper_norm_forward,
    .norm_backward = paper_norm_backward,
    .attention_forward = paper_attention_forward,
    .attention_backward = paper_attention_backward,
    .embedding_forward = paper_embedding_forward,
    .embedding_backward = paper_embedding_backward,
    .softmax_stats = paper_softmax_stats,
    .softmax_merge = paper_softmax_merge,
    .cross_entropy = paper_cross_entropy,
    .dropout_add = paper_dropout_add,
    .dropout_backward = paper_dropout_backward,
    .column_sum = paper_column_sum,
    .dot = paper_dot,
    .sum_squares = paper_sum_squares,
    .clip_scale = paper_clip_scale,
    .adam = paper_adam,
    .split = paper_split,
    .merge = paper_merge,
    .copy = paper_copy,
    .scale = paper_scale,
};

int paper_open(struct device **device) {
    struct paper_device *paper = memory_alloc(sizeof *paper);
    *paper = (struct paper_device){.base = {&paper_ops}, .next_address = (uintptr_t)1 << 40};
    *device = &paper->base;
    return 0;
}

struct paper_totals paper_totals(const struct device *device) {
    CHECK(device->ops == &paper_ops);
    return ((const struct paper_device *)device)->totals;
}

void paper_stand_for(struct device *paper, const struct device *real) {
    paper_of(paper)->real = real->ops->is_paper ? ((const struct paper_device *)real)->real : real;
}
