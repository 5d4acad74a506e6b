// The paper backend: a device that computes nothing and counts. The bytes of an operation are those of the operands in
// its contract, unless overridden below. Running a step on it takes no memory and counts the FLOPs and bytes of the
// same step on a real device. Addresses from its alloc are never read.
#include "ops/contract.h"
#include "ops/device.h"
#include "ops/instant.h"
#include "base/error.h"
#include "base/memory.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct paper_device {
    struct device base;
    uintptr_t next_address;
    const struct device *real;  // whose own memory is counted; NULL for none
    struct device_totals totals;
    struct own_need own;  // maximum over operations, of the real device
    bool has_rates;
    struct device_rates rates;
    double now, host;  // times: of the compute stream; when the host has started all operations so far
    // Copies to host memory: when the last one ended; when the last batch and the one before it were queued.
    double returned, queued, queued_before;
    double *stamps;  // the latest `most`; NULL while the clock is stopped
    int64_t stamped, most;
};

static struct paper_device *paper_of(struct device *device) {
    return (struct paper_device *)device;
}
// Raises the real device's own memory.
static void note_need(struct paper_device *paper, struct own_need need) {
    own_need_raise(&paper->own, &need);
    paper->totals.own_bytes = paper->totals.wide_bytes = paper->own.wide;
    for (int i = 0; i < OWN_ROOMS; i++)
        paper->totals.own_bytes += paper->own.rooms[i];
}

// An operation takes as long as its arithmetic or its bytes, whichever is longer.
static void spend(struct paper_device *paper, double arithmetic, double bytes) {
    const struct device_rates *rates = &paper->rates;
    if (!paper->has_rates)
        return;
    double moving = bytes / rates->bytes_per_second, seconds = arithmetic > moving ? arithmetic : moving;
    seconds = fmax(seconds, rates->seconds_per_operation) + rates->launch_seconds;
    seconds += arithmetic > moving ? 0 : rates->moving_seconds;
    double before = paper->now;
    paper->host += rates->host_seconds;
    paper->now = fmax(paper->now, rates->host_seconds > 0 ? paper->host : 0) + seconds;
    paper->totals.seconds += paper->now - before;
}

static void paper_close(struct device *device) {
    free(paper_of(device)->stamps);
    free(device);
}

static bool paper_supports(const struct device *device, enum dtype dtype) {
    (void)device;
    return dtype == DTYPE_F32 || dtype == DTYPE_BF16 || dtype == DTYPE_F16 || dtype_is_scaled(dtype);
}

static void paper_describe(const struct device *device, char *text, size_t size) {
    (void)device;
    (void)snprintf(text, size, "paper: nothing is computed");
}

// Addresses ascend from a high one, aligned like real ones, so that separate tensors do not appear to overlap.
static void *paper_alloc(struct device *device, size_t bytes) {
    struct paper_device *paper = paper_of(device);
    uintptr_t address = paper->next_address;
    paper->next_address += (bytes + 4095) & ~(size_t)4095;
    return (void *)address;
}

static void paper_free(struct device *device, void *memory) {
    (void)device, (void)memory;
}

// Host memory is real: steps write inputs to it and read results, which stay zero.
static void *paper_host_alloc(struct device *device, size_t bytes) {
    (void)device;
    return memory_alloc(bytes);
}

static void paper_host_free(struct device *device, void *memory) {
    (void)device;
    free(memory);
}

// The free memory of an imaginary device is unknown, unless its rates say it.
static size_t paper_room(struct device *device) {
    return (size_t)paper_of(device)->rates.memory_bytes;
}

static void paper_copy_in(struct device *device, void *to_device, const void *from_host, size_t bytes,
                          enum stream stream) {
    (void)to_device;
    (void)from_host;
    (void)stream;
    paper_of(device)->totals.bytes_moved += (double)bytes;
}

// Optimizer states go to host memory piece by piece, while the next piece is computed and as much is copied in. Copies
// queued together overlap with the time since the previous batch; only the rest takes time.
static void spend_returning(struct paper_device *paper, double bytes) {
    const struct device_rates *rates = &paper->rates;
    if (!paper->has_rates)
        return;
    double speed = rates->bus_bytes_per_second > 0 ? rates->bus_bytes_per_second : rates->bytes_per_second;
    if (paper->now > paper->queued) {
        paper->queued_before = paper->queued;
        paper->queued = paper->now;
    }
    double start = paper->returned > paper->queued_before ? paper->returned : paper->queued_before;
    paper->returned = start + bytes / speed;
    if (paper->returned > paper->now) {
        paper->totals.seconds += paper->returned - paper->now;
        paper->now = paper->returned;
    }
}

// Host memory stays unchanged. Only copies on STREAM_BACK take time.
static void paper_copy_out(struct device *device, void *to_host, const void *from_device, size_t bytes,
                           enum stream stream) {
    (void)to_host;
    (void)from_device;
    struct paper_device *paper = paper_of(device);
    paper->totals.bytes_moved += (double)bytes;
    if (stream == STREAM_BACK)
        spend_returning(paper, (double)bytes);
}

static void paper_zero(struct device *device, void *memory, size_t bytes, enum stream stream) {
    (void)memory;
    paper_of(device)->totals.bytes_moved += (double)bytes;
    if (stream == STREAM_COMPUTE)
        spend(paper_of(device), 0, (double)bytes);
}

// Counts one operation, whose arithmetic takes that many seconds.
static void count_work(struct device *device, double arithmetic, double bytes) {
    struct device_totals *totals = &paper_of(device)->totals;
    totals->operations++;
    totals->bytes_moved += bytes;
    spend(paper_of(device), arithmetic, bytes);
}
// Bytes by the contract of the operation at `op`, and of one tensor.
#define BYTES(name_) contract_bytes(contract_##name_(), op)
static double bytes_of(struct tensor t) {
    return (double)tensor_bytes(t);
}

// Whether rows are aligned for tensor cores, which access 16 bytes at a time.
static bool is_aligned(struct tensor x) {
    enum { ALIGNMENT_BYTES = 16 };
    return (size_t)x.shape[1] * dtype_bytes(x.dtype) % ALIGNMENT_BYTES == 0;
}

static double matmul_seconds(const struct paper_device *paper, const struct op_matmul *op, double inner) {
    const struct device_rates *rates = &paper->rates;
    double rows = (double)op->d.shape[0], columns = (double)tensor_count(op->d) / fmax(rows, 1);
    if (!paper->has_rates)
        return 0;
    bool is_slow = rates->unaligned > 0 && op->a.dtype != DTYPE_F32 &&
                   !(is_aligned(op->a) && is_aligned(op->b) && is_aligned(op->d));
    return device_rates_matmul(rates, op->a.dtype, rows, columns, inner) / (is_slow ? rates->unaligned : 1);
}

static void paper_matmul(struct device *device, const struct op_matmul *op) {
    double inner = (double)op->a.shape[op->transpose_a ? 0 : 1] * (op->a.dtype == DTYPE_E2M1X2 ? 2 : 1);
    paper_of(device)->totals.matmul_flops += 2.0 * (double)tensor_count(op->d) * inner;
    count_work(device, matmul_seconds(paper_of(device), op, inner), BYTES(matmul));
}

// A host that starts operations one by one waits here for the number of rows of each expert.
static void paper_route_forward(struct device *device, const struct op_route_forward *op) {
    struct paper_device *paper = paper_of(device);
    count_work(device, 0, BYTES(route_forward));
    paper->host = fmax(paper->host, paper->now);
}

// Adds the time of separate kernels that another program would run besides the operation itself.
static void spend_apart(struct paper_device *paper, double seconds) {
    if (paper->has_rates && seconds > 0)
        spend(paper, seconds, 0);
}

// Assumes that all rows have an expert, and that experts have equally many rows.
static void paper_grouped_matmul(struct device *device, const struct op_grouped_matmul *op) {
    const struct paper_device *paper = paper_of(device);
    bool is_weight = op->kind == GROUPED_WEIGHT, is_turned = is_weight && dtype_is_float8(op->a.dtype);
    const struct device_grouped shape = {.dtype = op->a.dtype,
                                         .is_weight = is_weight,
                                         .experts = (double)op->offsets.shape[0] - 1,
                                         .rows = (double)op->a.shape[is_turned ? 1 : 0],
                                         .from = (double)op->a.shape[is_turned ? 0 : 1],
                                         .to = (double)(is_weight ? op->d.shape[2] : op->d.shape[1])};
    paper_of(device)->totals.matmul_flops += 2.0 * shape.rows * shape.from * shape.to;
    count_work(device, paper->has_rates ? device_rates_grouped(&paper->rates, &shape) : 0,
               BYTES(grouped_matmul) + (op->beta != 0 ? bytes_of(op->d) : 0));
    spend_apart(paper_of(device), device_rates_quantize(&paper->rates, &shape));
}

// Counts a permutation of rows to or from the order of experts; `bytes` in all.
static void count_permute(struct paper_device *paper, double bytes) {
    double part = paper->rates.permute > 0 ? paper->rates.permute : 1;
    paper->totals.operations++;
    paper->totals.bytes_moved += bytes;
    spend(paper, 0, bytes / part);
}

// As many rows are read as written, some of them several times.
static void paper_gather_slots(struct device *device, const struct op_gather_slots *op) {
    count_permute(paper_of(device), BYTES(gather_slots) + bytes_of(op->y));
}

static void paper_sum_slots(struct device *device, const struct op_sum_slots *op) {
    struct paper_device *paper = paper_of(device);
    count_permute(paper, BYTES(sum_slots));
    if (op->bias.data)
        spend_apart(paper, device_rates_biases(&paper->rates, (double)tensor_count(op->y), (double)op->bias.shape[0]));
}

static void paper_slot_bias_backward(struct device *device, const struct op_slot_bias_backward *op) {
    struct paper_device *paper = paper_of(device);
    double elements = (double)op->sources.shape[0] * (double)op->bias.shape[1];
    count_work(device, 0, BYTES(slot_bias_backward));
    spend_apart(paper, device_rates_biases(&paper->rates, elements, (double)op->bias.shape[0]));
}

// Adds the time of kernels that clamp the inputs of a gated activation; `y` is its result or the result's gradient.
static void spend_limits(struct paper_device *paper, struct glu_rule rule, struct tensor y) {
    const struct device_rates *rates = &paper->rates;
    if (rule.limit > 0)
        spend_apart(paper, (double)tensor_count(y) * rates->expert_limit_bytes / 2 / rates->bytes_per_second);
}

static void paper_expert_activation_forward(struct device *device, const struct op_expert_activation_forward *op) {
    count_work(device, 0, BYTES(expert_activation_forward));
    spend_limits(paper_of(device), op->rule, op->y);
}

static void paper_expert_activation_backward(struct device *device, const struct op_expert_activation_backward *op) {
    count_work(device, 0, BYTES(expert_activation_backward));
    spend_limits(paper_of(device), op->rule, op->dy);
}

// A device without a real one and without rates assumes the batched way, which takes more memory.
static bool paper_gains_by_many(const struct device *device) {
    const struct paper_device *paper = (const struct paper_device *)device;
    return paper->real ? device_gains_by_many(paper->real) : !paper->has_rates || paper->rates.gains_by_many;
}

// Half of a symmetric result is computed. The addend counts among the bytes.
static bool paper_matmul_many(struct device *device, const struct op_matmul_many *op) {
    const struct paper_device *paper = paper_of(device);
    double count = (double)op->d.shape[0], share = op->is_symmetric ? 0.5 : 1;
    double inner = (double)op->a.shape[op->transpose_a ? 1 : 2], rows = share * count * (double)op->d.shape[1];
    double columns = (double)op->d.shape[2];
    paper_of(device)->totals.matmul_flops += 2.0 * rows * columns * inner;
    double seconds = paper->has_rates ? device_rates_matmul(&paper->rates, op->d.dtype, rows, columns, inner) : 0;
    count_work(device, seconds, BYTES(matmul_many));
    return true;
}

static void paper_norm_backward(struct device *device, const struct op_norm_backward *op) {
    // If they alias, ddelta and dx are written once.
    count_work(device, 0, BYTES(norm_backward) - (op->ddelta.data == op->dx.data ? bytes_of(op->dx) : 0));
}

static void paper_attention_forward(struct device *device, const struct op_attention_forward *op) {
    double matmuls = 2;  // scores, values
    double scores = device_attention_scores(op->q, op->k, op->is_causal, op->mask.window);
    struct device_attention shape = device_attention_of(op->q, scores, (double)(op->q.shape[3] + op->v.shape[3]));
    struct paper_device *paper = paper_of(device);
    paper->totals.attention_flops += shape.flops;
    double seconds = device_rates_attention(&paper->rates, &shape);
    // Scores out; softmax in and out; values in.
    if (paper->has_rates && paper->rates.writes_scores)
        seconds =
            device_rates_written_scores(&paper->rates, op->q, op->k, op->v, op->dropout.rate > 0 ? 6.5 : 4, matmuls);
    count_work(device, seconds, BYTES(attention_forward));
}

// Recomputed scores, which do not count as the model's arithmetic.
static void paper_largest_scores(struct device *device, const struct op_largest_scores *op) {
    double scores = device_attention_scores(op->q, op->k, op->is_causal, op->mask.window);
    struct device_attention shape = device_attention_of(op->q, scores, (double)op->q.shape[3]);
    double seconds = device_rates_attention(&paper_of(device)->rates, &shape);
    count_work(device, seconds, BYTES(largest_scores));
}

static void paper_attention_backward(struct device *device, const struct op_attention_backward *op) {
    double matmuls = 5;  // scores again, dV, dP, dQ, dK
    double scores = device_attention_scores(op->q, op->k, op->is_causal, op->mask.window);
    double channels = (double)(3 * op->q.shape[3] + 2 * op->v.shape[3]);
    struct paper_device *paper = paper_of(device);
    paper->totals.attention_flops += 2 * scores * channels;
    scores += paper->rates.outside_window * (device_attention_scores(op->q, op->k, op->is_causal, 0) - scores);
    struct device_attention shape = device_attention_of(op->q, scores, channels);
    shape.is_backward = true;
    double seconds = device_rates_attention(&paper->rates, &shape);
    // dV reads them, dP writes them; softmax reads two and writes one; dQ and dK read them. None is recomputed.
    if (paper->has_rates && paper->rates.writes_scores)
        seconds = device_rates_written_scores(&paper->rates, op->q, op->k, op->v, op->dropout.rate > 0 ? 9.5 : 7,
                                              matmuls - 1);
    count_work(device, seconds, BYTES(attention_backward));
}

static void paper_embedding_forward(struct device *device, const struct op_embedding_forward *op) {
    // Each table has as many rows read as there are tokens.
    count_work(device, 0, BYTES(embedding_forward) + (op->position_table.data ? 2 : 1) * bytes_of(op->out));
}

static void paper_embedding_backward(struct device *device, const struct op_embedding_backward *op) {
    count_work(device, 0, BYTES(embedding_backward) + (op->dposition_table.data ? 4 : 2) * bytes_of(op->dout));
}

// The rates' separate kernels of the loss (per logit, both passes) and of rotation (per element, one pass).
static void paper_softmax_stats(struct device *device, const struct op_softmax_stats *op) {
    const struct device_rates *rates = &paper_of(device)->rates;
    count_work(device, 0, BYTES(softmax_stats));
    spend_apart(paper_of(device), (double)tensor_count(op->logits) * rates->loss_bytes / rates->bytes_per_second);
}
static void paper_rope(struct device *device, const struct op_rope *op) {
    const struct device_rates *rates = &paper_of(device)->rates;
    count_work(device, 0, BYTES(rope));
    spend_apart(paper_of(device), (double)tensor_count(op->x) * rates->rope_bytes / 2 / rates->bytes_per_second);
}

static void paper_dropout_backward(struct device *device, const struct op_dropout_backward *op) {
    // Without dropout and in place, elements are not touched, only summed if there is a bias.
    bool is_scaled = op->factor != 0 && op->factor != 1;
    bool is_moved = op->dropout.rate > 0 || is_scaled || op->dx.data != op->dy.data;
    double spared = is_moved ? 0 : bytes_of(op->dx) + (op->dbias.data ? 0 : bytes_of(op->dy));
    count_work(device, 0, BYTES(dropout_backward) - spared);
}

// Other programs update many tensors with one kernel: no additional host time.
static void start_with_last(struct device *device) {
    paper_of(device)->host -= paper_of(device)->rates.host_seconds;
}

static void paper_sum_squares(struct device *device, const struct op_sum_squares *op) {
    start_with_last(device);
    count_work(device, 0, BYTES(sum_squares));
}

static void paper_adam(struct device *device, const struct op_adam *op) {
    start_with_last(device);
    count_work(device, 0, BYTES(adam));
}

static void paper_sgd(struct device *device, const struct op_sgd *op) {
    start_with_last(device);
    count_work(device, 0, BYTES(sgd));
}

// Each element on the diagonal counts as a separate piece of memory.
static void paper_add_diagonal(struct device *device, const struct op_add_diagonal *op) {
    enum { PIECE = 16 };
    struct tensor pieces = tensor_slice(op->x, 2, 0, op->x.shape[2] < PIECE ? op->x.shape[2] : PIECE);
    count_work(device, 0, 2 * bytes_of(pieces));
}

static void paper_quantize_blocks(struct device *device, const struct op_quantize_blocks *op) {
    count_work(device, 0, BYTES(quantize_blocks) + bytes_of(op->y.range) + bytes_of(op->y.transposed_range));
}

// Both fp8 orders together have as many bytes as the 16-bit rows that are read.
static void paper_quantize_slots(struct device *device, const struct op_quantize_slots *op) {
    count_work(device, 0, BYTES(quantize_slots) + bytes_of(op->y.value) + bytes_of(op->y.transposed));
}

// Stamps for traces of a twin that tells the time.
static void paper_clock_start(struct device *device, int64_t most) {
    struct paper_device *paper = paper_of(device);
    free(paper->stamps);
    paper->stamps = memory_realloc(NULL, sizeof *paper->stamps * (size_t)most);  // zeros would touch all pages
    paper->most = most;
}

static void paper_clock_stop(struct device *device) {
    struct paper_device *paper = paper_of(device);
    free(paper->stamps);
    paper->stamps = NULL;
}

static int64_t paper_stamp(struct device *device, void *stream) {
    (void)stream;
    struct paper_device *paper = paper_of(device);
    if (!paper->stamps || !paper->has_rates)
        return 0;
    paper->stamps[paper->stamped++ % paper->most] = paper->now;
    return paper->stamped;
}

static bool paper_read_stamp(struct device *device, int64_t stamp, double *seconds) {
    const struct paper_device *paper = paper_of(device);
    if (!paper->stamps || stamp < 1 || stamp > paper->stamped || stamp <= paper->stamped - paper->most)
        return false;
    *seconds = paper->stamps[(stamp - 1) % paper->most];
    return true;
}

static void paper_announce(struct device *device, bool is_on) {
    (void)device, (void)is_on;
}

static void paper_push_range(const char *name) {
    (void)name;
}
static void paper_pop_range(void) {}

static void *paper_native_stream(struct device *device, enum stream stream) {
    (void)device, (void)stream;
    return NULL;
}

static const struct device_clock paper_clock = {paper_clock_start, paper_clock_stop, paper_stamp,    paper_read_stamp,
                                                paper_announce,    paper_push_range, paper_pop_range};

// The operations that only move the bytes of their contracts.
#define BYTES_ONLY(name_)                                                                                              \
    static void paper_##name_(struct device *device, const struct op_##name_ *op) {                                    \
        count_work(device, 0, BYTES(name_));                                                                           \
    }
// clang-format off
BYTES_ONLY(quantize) BYTES_ONLY(transpose) BYTES_ONLY(move_ranges) BYTES_ONLY(activation_forward)
BYTES_ONLY(activation_backward) BYTES_ONLY(glu_forward) BYTES_ONLY(glu_backward) BYTES_ONLY(latent_forward)
BYTES_ONLY(latent_backward) BYTES_ONLY(relative_bias_forward) BYTES_ONLY(relative_bias_backward) BYTES_ONLY(alibi)
BYTES_ONLY(norm_forward) BYTES_ONLY(top_hits) BYTES_ONLY(softmax_merge) BYTES_ONLY(dropout_add) BYTES_ONLY(jitter)
BYTES_ONLY(column_sum) BYTES_ONLY(dot) BYTES_ONLY(digest) BYTES_ONLY(clip_scale) BYTES_ONLY(split) BYTES_ONLY(merge)
BYTES_ONLY(copy) BYTES_ONLY(scale) BYTES_ONLY(route_backward) BYTES_ONLY(balance_forward) BYTES_ONLY(balance_backward)
BYTES_ONLY(balance_bias) BYTES_ONLY(balance_load) BYTES_ONLY(sinkhorn) BYTES_ONLY(sort_slots)
BYTES_ONLY(quantize_expert_forward) BYTES_ONLY(quantize_expert_backward) BYTES_ONLY(softcap) BYTES_ONLY(cross_entropy)
BYTES_ONLY(lion) BYTES_ONLY(momentum) BYTES_ONLY(normalize) BYTES_ONLY(mean_squares) BYTES_ONLY(adapt)
BYTES_ONLY(follow) BYTES_ONLY(clip_rows) BYTES_ONLY(average)
// clang-format on

// Entries of the table that also ask the real device how much of its own memory it would take.
#define ASKING(name_)                                                                                                  \
    static void asking_##name_(struct device *device, const struct op_##name_ *op) {                                   \
        struct paper_device *paper = paper_of(device);                                                                 \
        const struct own_bytes *own = paper->real ? paper->real->ops->own_bytes : NULL;                                \
        if (own)                                                                                                       \
            note_need(paper, own->name_(paper->real, op));                                                             \
        paper_##name_(device, op);                                                                                     \
    }
                                                ACTIVATION_OPERATIONS(ASKING)

    // clang-format off
static const struct ops paper_ops = {
    .name = "paper",
    .is_imaginary = true,
    .close = paper_close,
    .supports = paper_supports,
    .describe = paper_describe,
    .alloc = paper_alloc,
    .free = paper_free,
    .room = paper_room,
    .host_alloc = paper_host_alloc,
    .host_free = paper_host_free,
    .copy_in = paper_copy_in,
    .copy_out = paper_copy_out,
    .zero = paper_zero,
    INSTANT_ENTRIES,
    .native_stream = paper_native_stream,
    .gains_by_many = paper_gains_by_many,
    .matmul_many = paper_matmul_many,
    .clock = &paper_clock,
#define ENTRY_ASKING(name_) .name_ = asking_##name_,
#define ENTRY(name_) .name_ = paper_##name_,
    ACTIVATION_OPERATIONS(ENTRY_ASKING)
    OTHER_OPERATIONS(ENTRY)
#undef ENTRY_ASKING
#undef ENTRY
};
// clang-format on

const struct device *device_behind(const struct device *device) {
    return device->ops == &paper_ops ? ((const struct paper_device *)device)->real : device;
}

int paper_open(struct device **device, const struct device *real) {
    struct paper_device *paper = memory_alloc(sizeof *paper);
    real = real ? device_behind(real) : NULL;
    *paper = (struct paper_device){.base = {.ops = &paper_ops}, .next_address = (uintptr_t)1 << 40, .real = real};
    *device = &paper->base;
    return 0;
}

struct device_totals device_totals(const struct device *device) {
    CHECK(device->ops == &paper_ops);
    return ((const struct paper_device *)device)->totals;
}

void device_set_rates(struct device *twin, const struct device_rates *rates) {
    CHECK(twin->ops == &paper_ops);
    paper_of(twin)->rates = *rates;
    paper_of(twin)->has_rates = true;
}

bool device_tells_time(const struct device *twin) {
    return twin->ops == &paper_ops && ((const struct paper_device *)twin)->has_rates;
}

double device_twin_time(const struct device *twin) {
    CHECK(twin->ops == &paper_ops);
    return ((const struct paper_device *)twin)->now;
}

void device_twin_await(struct device *twin, double seconds) {
    CHECK(twin->ops == &paper_ops);
    paper_of(twin)->now = fmax(paper_of(twin)->now, seconds);
}
