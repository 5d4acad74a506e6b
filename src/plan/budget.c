// Compute-optimal sizes. See budget.h.
#include "plan/budget.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const struct budget_law budget_law = {
    .e = 1.8172,
    .a = 482.01,
    .alpha = 0.3478,
    .b = 2085.43,
    .beta = 0.3658,
    .source = "Hoffmann et al. 2022, arXiv 2203.15556, with the constants of Besiroglu et al. 2024, arXiv 2404.10102",
    .range = "the law was fitted to runs of about 6e18 to 3e21 FLOP",
};

bool budget_extrapolates(double flops) {
    return flops < 1e18 || flops > 1e22;
}

int budget_read(const char *text, double *flops) {
    static const char prefixes[] = "kMGTPEZY";
    char *end;
    double value = strtod(text, &end), unit = 1;
    const char *prefix = *end ? strchr(prefixes, *end) : NULL;
    if (prefix) {
        unit = pow(1000, (double)(prefix - prefixes + 1));
        end++;
    }
    bool is_unit = *end == 0 ? !prefix : strcasecmp(end, "FLOP") == 0 || strcasecmp(end, "FLOPs") == 0;
    *flops = value * unit;
    if (end == text || !is_unit || !isfinite(*flops))
        return error_set_code(EXIT_CODE_USAGE, "--budget %s is not an amount of compute; give e.g. 1e22FLOP", text);
    if (*flops < 1e15 || *flops > 1e30)
        return error_set_code(EXIT_CODE_USAGE,
                              "--budget %s is outside of 1e15 to 1e30 FLOP, and below 1e18 or above 1e22 the law is "
                              "an extrapolation; nearest: --budget %s",
                              text, *flops < 1e15 ? "1e15FLOP" : "1e30FLOP");
    return 0;
}

struct budget_size budget_size(double flops, double factor) {
    const struct budget_law *law = &budget_law;
    double sum = law->alpha + law->beta;
    double best = pow(law->alpha * law->a / (law->beta * law->b), 1 / sum) * pow(flops / 6, law->beta / sum);
    struct budget_size size = {.parameters = best * factor};
    size.tokens = flops / 6 / size.parameters;
    size.loss = law->e + law->a / pow(size.parameters, law->alpha) + law->b / pow(size.tokens, law->beta);
    return size;
}

static int64_t round_to(double value, int64_t unit) {
    int64_t rounded = (int64_t)(value / (double)unit + 0.5) * unit;
    return rounded > unit ? rounded : unit;
}

static struct budget_shape shape_of(int64_t layers, int64_t hidden) {
    struct budget_shape shape = {.layers = layers, .hidden = hidden, .heads = hidden / (hidden < 1024 ? 64 : 128)};
    shape.groups = shape.heads >= 32 && shape.heads % 8 == 0 ? 8 : shape.heads;
    shape.ffn = round_to(8.0 / 3 * (double)hidden, 256);
    return shape;
}

// For a model with a gated MLP and an untied output layer.
static double parameters_of(const struct budget_shape *shape, double vocabulary) {
    double hidden = (double)shape->hidden, keys = (double)shape->groups / (double)shape->heads;
    double layer = hidden * hidden * (2 + 2 * keys) + 3 * hidden * (double)shape->ffn + 2 * hidden;
    return (double)shape->layers * layer + 2 * vocabulary * hidden;
}

struct budget_shape budget_shape(double parameters, double vocabulary) {
    // 64 for 100 million parameters and 128 from 7 billion on.
    double aspect = fmin(128, fmax(64, 64 * pow(parameters / 1.2e8, 0.17)));
    struct budget_shape best = {0};
    double least = INFINITY;
    for (int64_t hidden = 256; hidden <= 65536; hidden += hidden < 1024 ? 64 : hidden < 8192 ? 128 : 1024)
        for (int64_t layers = 4; layers <= 256; layers += layers < 32 ? 2 : layers < 64 ? 4 : 8) {
            struct budget_shape shape = shape_of(layers, hidden);
            double ratio = (double)hidden / (double)layers / aspect;
            double score = fabs(log(parameters_of(&shape, vocabulary) / parameters)) + 0.5 * fabs(log(ratio)) +
                           (hidden >= 4096 && shape.heads % 8 != 0 ? 0.2 : 0) + (shape.heads % 4 != 0 ? 0.1 : 0);
            if (score < least) {
                least = score;
                best = shape;
            }
        }
    return best;
}

int64_t budget_batch(double flops, int64_t seq_length) {
    double tokens = 0.2920 * pow(flops, 0.3271);
    double power = round(log2(tokens / (double)seq_length));
    return power > 0 ? (int64_t)exp2(power) : 1;
}
