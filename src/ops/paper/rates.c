// Times of arithmetic on a device given by a few rates. See struct device_rates.
#include "ops/device.h"

#include <math.h>

double device_rates_of(const struct device_rates *rates, enum dtype dtype) {
    return rates->matmul[dtype == DTYPE_E2M1X2 ? 3 : dtype_is_scaled(dtype) ? 2 : dtype == DTYPE_F32 ? 0 : 1];
}

// Tiles that do not fill the last round leave processors idle, and short inner loops do not fill the pipeline.
double device_rates_matmul(const struct device_rates *rates, enum dtype dtype, double rows, double columns,
                           double inner) {
    double tiles = ceil(rows / rates->tile) * ceil(columns / rates->tile);
    double area = tiles * rates->tile * rates->tile, rounds = ceil(tiles / rates->processors);
    // Rounds overlap, so half of the last one's idle time is lost.
    double filled = (tiles / rates->processors + rounds) / 2;
    double whole = 2 * area * (inner + rates->half_inner) / device_rates_of(rates, dtype);
    return whole * filled / (tiles / rates->processors);
}

// As one matmul over all rows, or over the weights of all experts side by side, but slower the fewer rows an expert
// has: its last tile is partial, or its sums are short.
double device_rates_grouped(const struct device_rates *rates, const struct device_grouped *shape) {
    double each = shape->rows / shape->experts, seconds;
    enum dtype dtype = rates->expert_quantize_bytes > 0 ? DTYPE_E4M3 : shape->dtype;
    if (shape->is_weight) {
        seconds = device_rates_matmul(rates, dtype, shape->experts * shape->from, shape->to, each);
        seconds *= (each + fmax(rates->expert_inner, rates->half_inner)) / (each + rates->half_inner);
    } else {
        seconds = device_rates_matmul(rates, dtype, shape->rows, shape->to, shape->from);
        seconds *= 1 + rates->expert_rows / each;
    }
    return fmax(seconds, shape->experts * rates->expert_seconds);
}

// Every row of tiles has a start and an end, which cost as much as some more keys per query.
double device_rates_attention(const struct device_rates *rates, const struct device_attention *shape) {
    enum { NARROW = 64 };
    double rate = rates->attention[shape->is_backward] * (shape->head <= NARROW ? rates->narrow : 1);
    if (rate <= 0 || shape->scores <= 0)
        return 0;
    return shape->flops / rate * (1 + rates->attention_keys * shape->queries / shape->scores);
}

double device_rates_biases(const struct device_rates *rates, double elements, double experts) {
    // Forward: the product of bias and weight, and its addition. Backward: the products of the gradient with both, the
    // sum of each, and conversions.
    enum { KERNELS = 4 };
    if (rates->expert_bias_bytes <= 0)
        return 0;
    return fmax(elements * rates->expert_bias_bytes / 2 / rates->bytes_per_second,
                KERNELS * experts * rates->expert_seconds);
}

// Weight gradients reuse the operands quantized for the other two matmuls.
double device_rates_quantize(const struct device_rates *rates, const struct device_grouped *shape) {
    if (rates->expert_quantize_bytes <= 0 || shape->is_weight)
        return 0;
    return fmax(shape->rows * shape->from * rates->expert_quantize_bytes / rates->bytes_per_second,
                shape->experts * rates->expert_seconds);
}

double device_attention_scores(struct tensor q, struct tensor k, bool is_causal, int64_t window) {
    double queries = (double)q.shape[1], keys = (double)k.shape[1];
    double seen = is_causal ? queries * (keys - queries) + queries * (queries + 1) / 2 : queries * keys;
    double hidden = window > 0 && keys > (double)window ? keys - (double)window : 0;  // keys hidden from the last query
    double first = hidden > queries ? hidden - queries : 0;                           // from the one before the first
    if (is_causal && hidden > 0)
        seen -= (hidden * (hidden + 1) - first * (first + 1)) / 2;
    return (double)q.shape[0] * (double)q.shape[2] * seen;
}

struct device_attention device_attention_of(struct tensor q, double scores, double channels) {
    return (struct device_attention){.flops = 2 * scores * channels,
                                     .scores = scores,
                                     .queries = (double)tensor_count(q) / (double)q.shape[3],
                                     .head = q.shape[3]};
}

double device_rates_written_scores(const struct device_rates *rates, struct tensor q, struct tensor k, struct tensor v,
                                   double passes, double matmuls) {
    double scores = device_attention_scores(q, k, false, 0), width = (double)dtype_bytes(q.dtype);
    double flops = 2 * scores * ((double)(q.shape[3] + v.shape[3]) / 2 + rates->half_inner);
    return passes * width * scores / rates->bytes_per_second + matmuls * flops / device_rates_of(rates, q.dtype);
}
