// Stochastic gradient descent with momentum, like PyTorch's SGD: weight decay is added to the gradient.
#include "optim/optimizer.h"

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
