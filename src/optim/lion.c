// Lion: the sign of an interpolation between momentum and gradient, with decoupled weight decay.
#include "optim/optimizer.h"

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
