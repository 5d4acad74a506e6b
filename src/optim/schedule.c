// The schedules of Megatron-LM, old and new, and fairseq's polynomial decay, counted in samples. M is the highest rate,
// m the lowest, W the warm-up, D the decay, A the tail of WSD.
#include "optim/schedule.h"
#include "base/error.h"

#include <math.h>
#include <string.h>

static const double PI = 3.14159265358979323846;

// Remaining fraction of (M - m) at q in [0, 1] of the tail of warmup-stable-decay.
static double wsd_coefficient(const char *style, double q) {
    if (strcmp(style, "linear") == 0)
        return 1 - q;
    if (strcmp(style, "cosine") == 0)
        return 0.5 * (cos(PI * q) + 1);
    if (strcmp(style, "minus_sqrt") == 0)
        return 1 - sqrt(q);
    return 2 * pow(0.5, q) - 1;
}

static double decay_coefficient(const struct config *config, double n) {
    double W = config->run.lr_warmup_steps, D = (double)config->run.lr_decay_steps;
    double r = (n - W) / (D - W);
    if (strcmp(config->run.lr_decay_style, "linear") == 0)
        return 1 - r;
    if (strcmp(config->run.lr_decay_style, "cosine") == 0)
        return 0.5 * (cos(PI * r) + 1);
    if (strcmp(config->run.lr_decay_style, "polynomial_decay") == 0)
        return pow(1 - r, config->run.lr_decay_power);
    double A = (double)config->run.lr_wsd_decay_steps;
    return n <= D - A ? 1 : wsd_coefficient(config->run.lr_wsd_decay_style, (n - (D - A)) / A);
}

static double lr_between(const struct config *config, double M, double m, int64_t samples) {
    double n = (double)samples;
    double W = config->run.lr_warmup_steps, D = (double)config->run.lr_decay_steps;
    if (W > 0 && n <= W)
        return config->run.lr_warmup_init + (M - config->run.lr_warmup_init) * n / W;
    if (strcmp(config->run.lr_decay_style, "constant") == 0)
        return M;
    // As in Megatron-LM v1.1: half of the rate after D, but the rate is constant over the last W.
    if (strcmp(config->run.lr_decay_style, "exponential") == 0)
        return fmax(m, M * exp(-0.693 * (fmin(n, D - W) - W) / D));
    if (n > D)
        return m;
    if (strcmp(config->run.lr_decay_style, "inverse-square-root") == 0)
        return fmax(m, M * sqrt(fmax(W, 1)) / sqrt(fmax(n, 1)));
    return m + decay_coefficient(config, n) * (M - m);
}

double schedule_lr(const struct config *config, int64_t samples) {
    return lr_between(config, config->run.lr, config->run.min_lr, samples);
}

double schedule_decoupled_lr(const struct config *config, int64_t samples) {
    return config->run.decoupled_lr > 0
               ? lr_between(config, config->run.decoupled_lr, config->run.decoupled_min_lr, samples)
               : schedule_lr(config, samples);
}

double schedule_weight_decay(const struct config *config, int64_t samples) {
    double start = config->run.start_weight_decay, end = config->run.end_weight_decay;
    if (strcmp(config->run.weight_decay_incr_style, "constant") == 0)
        return config->run.weight_decay;
    if (samples > config->run.wd_incr_steps)
        return end;
    double r = (double)samples / (double)config->run.wd_incr_steps;
    double c = strcmp(config->run.weight_decay_incr_style, "linear") == 0 ? r : 0.5 * (cos(PI * (1 - r)) + 1);
    return start + c * (end - start);
}
