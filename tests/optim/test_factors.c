// Parameters with learning rates and weight decays of their own, in stretches of all kinds: beside PyTorch's groups of
// parameters (golden/param_groups.txt), whole and in pieces of two ranks, and in 16 bits.
#include "lab.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UPDATES = 10, MOST_PARAMS = 8, MOST_ELEMENTS = 128, MOST_KINDS = 8 };
static const struct pace PACE = {.lr = 1e-2, .weight_decay = 0.1, .decoupled_lr = 1e-2};

struct golden_param {
    char name[32];
    int rows, columns;
    double lr, decay;
    double expected[MOST_ELEMENTS];
};

// Reads the parameters of one optimizer.
static int read_golden(const char *optimizer, struct golden_param *golden) {
    FILE *file = fopen("tests/golden/param_groups.txt", "r");
    EXPECT(file);
    char word[32], name[32] = "";
    int count = 0;
    while (fscanf(file, " %31s", word) == 1) {
        if (strcmp(word, "optimizer") == 0) {
            EXPECT_INT(fscanf(file, " %31s", name), 1);
            continue;
        }
        struct golden_param param;
        EXPECT_INT(
            fscanf(file, " %31s %d %d %lf %lf", param.name, &param.rows, &param.columns, &param.lr, &param.decay), 5);
        int elements = param.rows * (param.columns > 0 ? param.columns : 1);
        EXPECT(elements <= MOST_ELEMENTS);
        for (int n = 0; n < elements; n++)
            EXPECT_INT(fscanf(file, " %lf", &param.expected[n]), 1);
        if (strcmp(name, optimizer) == 0)
            golden[count++] = param;
    }
    fclose(file);
    return count;
}

static void set_text(char **slot, const char *text) {
    free(*slot);
    *slot = memory_string(text);
}

static void configure(struct config *config, const char *optimizer) {
    set_text(&config->run.optimizer, optimizer);
    set_text(&config->run.muon_coefficient_type, "simple");
    set_text(&config->run.muon_scale_mode, "shape_scaling");
    config->run.muon_momentum = 0.95;
    config->run.muon_nesterov = true;
}

struct lab_options {
    const char *optimizer;
    enum dtype dtype;
    int parts, part;
};

// The number of a parameter in the golden file of all of them, by which its elements begin.
static int number_of(const char *name) {
    static const char *const names[] = {"first.weight", "first.bias", "second.weight", "second.bias",
                                        "third.weight", "third.bias", "frozen.weight", "fourth.weight"};
    for (int i = 0; i < MOST_PARAMS; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return -1;
}

static void open_lab(struct optim_lab *lab, const struct lab_options *options, const struct golden_param *golden,
                     int count) {
    optim_lab_open(lab);
    configure(&lab->config, options->optimizer);
    for (int i = 0; i < count; i++) {
        struct shard shard = golden[i].columns > 0 ? shard_whole(2, golden[i].rows, golden[i].columns)
                                                   : shard_whole(1, golden[i].rows, 1);
        struct param *param = param_add(&lab->params, golden[i].name, shard, INIT_ZERO, 0);
        param_set_factors(&lab->params, param, (struct param_factors){golden[i].lr, golden[i].decay});
    }
    optim_lab_build(lab, &(struct optim_lab_options){.rule = optimizer_find(options->optimizer),
                                                     .dtype = options->dtype,
                                                     .parts = options->parts,
                                                     .part = options->part,
                                                     .has_factors = true});
    for (int i = 0; i < count; i++) {
        const struct param *param = lab->params.items[i];
        float *weights = optim_lab_weights(lab, i);
        for (int64_t n = 0; n < tensor_count(param->value); n++)
            weights[n] = (float)sin((double)n + 100 * number_of(param->name));
    }
    if (updates_have_masters(&lab->updates))
        updates_take_weights(&lab->updates, &lab->update);
}

static void make_updates(struct optim_lab *lab) {
    float rates[UPDATES_MOST_RATES * RATE_LENGTH * MOST_KINDS];
    EXPECT(lab->params.factors_count < MOST_KINDS);
    for (int t = 1; t <= UPDATES; t++) {
        for (int i = 0; i < lab->params.count; i++) {
            float *grad = lab->params.items[i]->grad.data;
            for (int64_t n = 0; n < tensor_count(lab->params.items[i]->grad); n++)
                grad[n] = (float)cos(0.37 * (double)(n * n) + number_of(lab->params.items[i]->name) + 7 * t);
        }
        updates_make_rates(&lab->updates, &PACE, 1, rates);
        device_copy_in(lab->device, lab->updates.rates, rates);
        updates_begin(&lab->updates, &lab->update);
        // In two parts, of which one ends inside a parameter unless parameters are updated whole.
        int64_t middle = lab->updates.optimizers[0].rule->takes_matrices ? 0 : 64;
        updates_apply(&lab->updates, &lab->update, 0, middle);
        updates_apply(&lab->updates, &lab->update, middle, lab->params.total);
        updates_count(&lab->updates);
    }
}

// The length of differences in elements that were updated, over the way that they went.
static double error_of(struct optim_lab *lab, const struct golden_param *golden) {
    double differences = 0, travels = 0;
    struct tensor masters[PARAM_MOST_GROUPS];
    bool is_mixed = updates_have_masters(&lab->updates);
    if (is_mixed)
        updates_open_masters(&lab->updates, &lab->update, masters);
    const struct pieces *pieces = &lab->updates.optimizers[0].pieces;
    for (int i = 0; i < lab->params.count; i++) {
        const struct param *param = lab->params.items[i];
        struct piece run;
        for (int64_t at = param->offset, end = at + shard_local_count(&param->shard);
             pieces_next(pieces, &at, end, &run);)
            for (int64_t k = 0; k < run.count; k++) {
                int64_t n = run.flat_offset + k - param->offset;
                const float *found = is_mixed ? masters[0].data : lab->update.values.data;
                double start = (double)(float)sin((double)n + 100 * number_of(param->name));
                double now = (double)found[is_mixed ? run.local_offset + k : run.flat_offset + k];
                if (golden[i].lr == 0)
                    EXPECT(now == start);
                differences += pow(now - golden[i].expected[n], 2);
                travels += pow(start - golden[i].expected[n], 2);
            }
    }
    return sqrt(differences / travels);
}

// Bounds are those of rounding: of fp32, and of Newton-Schulz steps in bf16. A factor of another would be ten times as
// far off.
TEST(groups_of_torch) {
    static const struct {
        const char *optimizer;
        int params;
        double bound;
    } rows[] = {{"adam", 8, 2e-5}, {"sgd", 8, 2e-5}, {"muon", 5, 0.06}};
    for (size_t k = 0; k < sizeof rows / sizeof rows[0]; k++) {
        struct golden_param golden[MOST_PARAMS];
        int count = read_golden(rows[k].optimizer, golden);
        EXPECT_INT(count, rows[k].params);
        // Whole in fp32 and bf16, then what each of two ranks holds.
        for (int i = 0; i < 4; i++) {
            struct optim_lab lab;
            open_lab(&lab,
                     &(struct lab_options){.optimizer = rows[k].optimizer,
                                           .dtype = i == 1 ? DTYPE_BF16 : DTYPE_F32,
                                           .parts = i < 2 ? 1 : 2,
                                           .part = i == 3},
                     golden, count);
            make_updates(&lab);
            double error = error_of(&lab, golden);
            EXPECT(error < rows[k].bound);
            optim_lab_close(&lab);
        }
    }
}

// Factors of 1, and of 0 for the decay of vectors, are no factors.
TEST(usual_factors_are_none) {
    struct param_list params = {0};
    struct param *matrix = param_add(&params, "matrix", shard_whole(2, 3, 4), INIT_ZERO, 0);
    struct param *vector = param_add(&params, "vector", shard_whole(1, 5, 1), INIT_ZERO, 0);
    param_set_factors(&params, matrix, (struct param_factors){1, 1});
    param_set_factors(&params, vector, (struct param_factors){1, 0});
    EXPECT(params.factors_count == 0 && matrix->factors == 0 && vector->factors == 0);
    EXPECT_INT(updates_rate_count(&params, 3), 3 * RATE_LENGTH);
    param_set_factors(&params, matrix, (struct param_factors){0.5, 0});
    param_set_factors(&params, vector, (struct param_factors){0.5, 0});
    EXPECT(params.factors_count == 1 && matrix->factors == 1 && vector->factors == 1);
    EXPECT(param_factors(&params, vector).lr == 0.5);
    EXPECT_INT(updates_rate_count(&params, 3), 6 * RATE_LENGTH);
    param_list_free(&params);
}

TEST_MAIN(TEST_CASE(groups_of_torch), TEST_CASE(usual_factors_are_none))
