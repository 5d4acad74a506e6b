// Optimizers that see one element at a time: Adam with decoupled weight decay; Lion, the sign of an interpolation
// between momentum and gradient, with decoupled weight decay; and stochastic gradient descent with momentum, like
// PyTorch's SGD: weight decay is added to the gradient.
#include "optim/optimizer.h"
#include <math.h>
#include <string.h>

enum { STATE_M, STATE_V };

// The learning rate is rounded to fp32 before it is divided, as in earlier versions.
static void adam_begin(const struct config *config, double rate_of_update, double weight_decay, int64_t t,
                       float rate[RATE_GROUP]) {
    double beta1 = (double)(float)config->run.adam_beta1, beta2 = (double)(float)config->run.adam_beta2;
    float lr = (float)rate_of_update;
    rate[ADAM_STEP] = (float)((double)lr / (1.0 - pow(beta1, (double)t)));
    rate[ADAM_CORRECTION] = (float)(1.0 / (1.0 - pow(beta2, (double)t)));
    rate[ADAM_DECAY] = lr * (float)weight_decay;
}

static void adam_apply(const struct config *config, const struct optimizer_run *run) {
    op_adam(run->device, &(struct op_adam){.master = run->master,
                                           .copy = run->copy,
                                           .grad = run->grad,
                                           .m = run->states[STATE_M],
                                           .v = run->states[STATE_V],
                                           .m_exponents = run->exponents[STATE_M],
                                           .v_exponents = run->exponents[STATE_V],
                                           .scale = run->scale,
                                           .rate = run->rate,
                                           .beta1 = (float)config->run.adam_beta1,
                                           .beta2 = (float)config->run.adam_beta2,
                                           .epsilon = (float)config->run.adam_eps,
                                           .is_decayed = run->is_decayed});
}

static enum dtype adam_dtype(const struct config *config, int state) {
    const char *name = state == STATE_M ? config->run.exp_avg_dtype : config->run.exp_avg_sq_dtype;
    return strcmp(name, "bf16") == 0 ? DTYPE_BF16 : strcmp(name, "fp8") == 0 ? DTYPE_U8 : DTYPE_F32;
}

const struct optimizer_rule optimizer_adam = {
    .name = "adam", .states = {"exp_avg", "exp_avg_sq"}, .dtype = adam_dtype, .begin = adam_begin, .apply = adam_apply};

static void lion_begin(const struct config *config, double lr, double weight_decay, int64_t t, float rate[RATE_GROUP]) {
    (void)config;
    (void)t;
    rate[LION_STEP] = (float)lr;
    rate[LION_DECAY] = (float)(lr * weight_decay);
}

static void lion_apply(const struct config *config, const struct optimizer_run *run) {
    op_lion(run->device, &(struct op_lion){.master = run->master,
                                           .copy = run->copy,
                                           .grad = run->grad,
                                           .m = run->states[0],
                                           .scale = run->scale,
                                           .rate = run->rate,
                                           .beta1 = (float)config->run.lion_beta1,
                                           .beta2 = (float)config->run.lion_beta2,
                                           .is_decayed = run->is_decayed});
}

const struct optimizer_rule optimizer_lion = {
    .name = "lion", .states = {"exp_avg"}, .begin = lion_begin, .apply = lion_apply};

static void sgd_begin(const struct config *config, double lr, double weight_decay, int64_t t, float rate[RATE_GROUP]) {
    (void)config;
    (void)t;
    rate[SGD_STEP] = (float)lr;
    rate[SGD_DECAY] = (float)weight_decay;
}

static void sgd_apply(const struct config *config, const struct optimizer_run *run) {
    op_sgd(run->device, &(struct op_sgd){.master = run->master,
                                         .copy = run->copy,
                                         .grad = run->grad,
                                         .m = run->states[0],
                                         .scale = run->scale,
                                         .rate = run->rate,
                                         .momentum = (float)config->run.sgd_momentum,
                                         .is_decayed = run->is_decayed});
}

const struct optimizer_rule optimizer_sgd = {
    .name = "sgd", .states = {"momentum_buffer"}, .begin = sgd_begin, .apply = sgd_apply};
