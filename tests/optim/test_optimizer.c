// Optimizers behind their table: Adam, SGD and Lion against loops in double, and a test rule that needs whole matrices
// and has a state with another name, alone and distributed.
#include "lab.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct pace PACE = {.lr = 1e-2, .weight_decay = 0.1, .decoupled_lr = 3e-3};

// Two matrices, one of which is the vocabulary's, and a vector.
static void open_lab(struct optim_lab *lab, const struct optimizer_rule *rule, int parts, int part) {
    optim_lab_open(lab);
    lab->config.run.decoupled_lr = PACE.decoupled_lr;
    (void)param_add(&lab->params, "matrix", shard_whole(2, 9, 11), INIT_ZERO, 0);
    (void)param_add(&lab->params, "vector", shard_whole(1, 13, 1), INIT_ZERO, 0);
    param_add(&lab->params, "words", shard_whole(2, 17, 9), INIT_ZERO, 0)->is_vocabulary = true;
    optim_lab_build(lab, &(struct optim_lab_options){.rule = rule, .dtype = DTYPE_F32, .parts = parts, .part = part});
    for (int i = 0; i < lab->params.count; i++) {
        float *value = lab->params.items[i]->value.data, *grad = lab->params.items[i]->grad.data;
        for (int64_t n = 0; n < tensor_count(lab->params.items[i]->value); n++) {
            value[n] = (float)sin((double)(n + 100 * i));
            grad[n] = (float)cos((double)(3 * n + i));
        }
    }
}

static void make_update(struct optim_lab *lab) {
    float rates[UPDATES_MOST_RATES * RATE_LENGTH];
    updates_make_rates(&lab->updates, &PACE, 1, rates);
    device_copy_in(lab->device, lab->updates.rates, rates);
    updates_begin(&lab->updates, &lab->update);
    updates_apply(&lab->updates, &lab->update, 0, lab->params.total);
    updates_count(&lab->updates);
}

// Two updates from the same gradient.
static double adam_twice(const struct config *config, double value, double grad, double lr, double decay) {
    double m = 0, v = 0;
    for (int t = 1; t <= 2; t++) {
        m = config->run.adam_beta1 * m + (1 - config->run.adam_beta1) * grad;
        v = config->run.adam_beta2 * v + (1 - config->run.adam_beta2) * grad * grad;
        double first = m / (1 - pow(config->run.adam_beta1, t)), second = v / (1 - pow(config->run.adam_beta2, t));
        value -= lr * first / (sqrt(second) + config->run.adam_eps) + lr * decay * value;
    }
    return value;
}

// Both learning rates, and weight decay where it applies.
static void expect_two_updates(struct optim_lab *lab,
                               double (*expect)(const struct config *, double, double, double, double)) {
    make_update(lab);
    make_update(lab);
    for (int i = 0; i < lab->params.count; i++) {
        const struct param *param = lab->params.items[i];
        const float *value = param->value.data, *grad = param->grad.data;
        double lr = param->is_vocabulary ? PACE.decoupled_lr : PACE.lr, decay = param->has_decay ? 0.1 : 0;
        for (int64_t n = 0; n < tensor_count(param->value); n++) {
            double expected = expect(&lab->config, sin((double)(n + 100 * i)), (double)grad[n], lr, decay);
            EXPECT(fabs((double)value[n] - expected) < 1e-6);
        }
    }
}

TEST(adam_is_a_row_of_the_table) {
    struct optim_lab lab;
    const struct optimizer_rule *rule = optimizer_find("adam");
    open_lab(&lab, rule, 1, 0);
    EXPECT_INT(lab.updates.optimizers[0].state_count, 2);
    EXPECT_STRING(lab.updates.optimizers[0].states[0].name, "exp_avg");
    EXPECT_STRING(lab.updates.optimizers[0].states[1].name, "exp_avg_sq");
    expect_two_updates(&lab, adam_twice);
    EXPECT_INT(lab.updates.made, 2);
    optim_lab_close(&lab);
}

// PyTorch's SGD: the buffer starts as the gradient with weight decay, and then becomes momentum * itself + that.
static double sgd_twice(const struct config *config, double value, double grad, double lr, double decay) {
    double buffer = 0;
    for (int t = 1; t <= 2; t++) {
        double g = grad + decay * value;
        buffer = t == 1 ? g : config->run.sgd_momentum * buffer + g;
        value -= lr * buffer;
    }
    return value;
}

TEST(sgd_is_another) {
    struct optim_lab lab;
    open_lab(&lab, optimizer_find("sgd"), 1, 0);
    EXPECT_INT(lab.updates.optimizers[0].state_count, 1);
    EXPECT_STRING(lab.updates.optimizers[0].states[0].name, "momentum_buffer");
    expect_two_updates(&lab, sgd_twice);
    optim_lab_close(&lab);
}

// Lion of its paper, 20 updates with gradients that change their signs.
TEST(lion_is_a_third) {
    enum { COUNT = 20 };
    struct optim_lab lab;
    open_lab(&lab, optimizer_find("lion"), 1, 0);
    EXPECT_INT(lab.updates.optimizers[0].state_count, 1);
    EXPECT_STRING(lab.updates.optimizers[0].states[0].name, "exp_avg");
    for (int t = 1; t <= COUNT; t++) {
        for (int i = 0; i < lab.params.count; i++)
            for (int64_t n = 0; n < tensor_count(lab.params.items[i]->grad); n++)
                ((float *)lab.params.items[i]->grad.data)[n] = (float)cos((double)(3 * n + i) + 0.61 * t * (double)n);
        make_update(&lab);
    }
    for (int i = 0; i < lab.params.count; i++) {
        const struct param *param = lab.params.items[i];
        double lr = param->is_vocabulary ? PACE.decoupled_lr : PACE.lr, decay = param->has_decay ? 0.1 : 0;
        for (int64_t n = 0; n < tensor_count(param->value); n++) {
            double value = sin((double)(n + 100 * i)), m = 0;
            for (int t = 1; t <= COUNT; t++) {
                double g = cos((double)(3 * n + i) + 0.61 * t * (double)n), along = 0.95 * m + 0.05 * g;
                m = 0.98 * m + 0.02 * g;
                value = value * (1 - lr * decay) - lr * ((along > 0) - (along < 0));
            }
            EXPECT(fabs((double)((const float *)param->value.data)[n] - value) < 1e-5);
        }
    }
    optim_lab_close(&lab);
}

// ---- a rule of another kind: value -= lr * (the sum of all gradients so far) / rows ----

static void drift_begin(const struct config *config, double lr, double weight_decay, int64_t t, float *rate) {
    (void)config;
    (void)weight_decay;
    rate[RATE_OWN] = (float)(lr * (double)t);
}

static void drift_apply(const struct optimizer_run *run) {
    float *value = run->master.data, *sum = run->states[0].data;
    const float *grad = run->grad.data, *scale = run->scale.data, *rate = run->rate.data;
    int64_t rows = run->matrix->value.shape[0];
    EXPECT_INT(tensor_count(run->master), tensor_count(run->matrix->value));
    EXPECT(run->master.data == run->matrix->value.data && !run->states[1].data);
    for (int64_t n = 0; n < tensor_count(run->master); n++) {
        sum[n] += grad[n] * *scale;
        value[n] -= rate[RATE_OWN] * sum[n] / (float)rows;
    }
}

static void drift_apply_all(const struct config *config, const struct optimizer_run *runs, int64_t count) {
    (void)config;
    for (int64_t i = 0; i < count; i++)
        drift_apply(&runs[i]);
}

static const struct optimizer_rule drift = {
    .name = "drift", .states = {"sum"}, .takes_matrices = true, .begin = drift_begin, .apply_all = drift_apply_all};

TEST(a_rule_may_take_whole_matrices) {
    enum { MOST_PARTS = 3 };
    for (int parts = 1; parts <= MOST_PARTS; parts++) {
        int updated[3] = {0};
        for (int part = 0; part < parts; part++) {
            struct optim_lab lab;
            open_lab(&lab, &drift, parts, part);
            EXPECT_INT(lab.updates.optimizers[0].state_count, 1);
            EXPECT_STRING(lab.updates.optimizers[0].states[0].name, "sum");
            EXPECT_INT(tensor_count(lab.updates.optimizers[0].states[0].tensor), lab.params.total / parts);
            make_update(&lab);
            for (int i = 0; i < lab.params.count; i++) {
                const struct param *param = lab.params.items[i];
                const float *value = param->value.data, *grad = param->grad.data;
                double lr = param->is_vocabulary ? PACE.decoupled_lr : PACE.lr;
                bool is_updated = value[0] != (float)sin(100.0 * i);
                updated[i] += is_updated;
                for (int64_t n = 0; n < tensor_count(param->value); n++) {
                    double expected = sin((double)(n + 100 * i));
                    if (is_updated)
                        expected -= lr * (double)grad[n] / (double)param->value.shape[0];
                    EXPECT(fabs((double)value[n] - expected) < 1e-6);
                }
            }
            optim_lab_close(&lab);
        }
        for (int i = 0; i < 3; i++)
            EXPECT_INT(updated[i], 1);
    }
}

TEST_MAIN(TEST_CASE(adam_is_a_row_of_the_table), TEST_CASE(sgd_is_another), TEST_CASE(lion_is_a_third),
          TEST_CASE(a_rule_may_take_whole_matrices))
