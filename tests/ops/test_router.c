// Routing and the balance of experts beside transformers: Mixtral, Qwen3-MoE and DeepSeek-V3 and -V4, see
// golden/make_router.py.
#include "lab.h"

struct golden_case {
    int score;
    int64_t rows, experts, chosen;
    struct router_rule rule;
    double bias;
};

static void read_numbers(FILE *file, double *to, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        EXPECT_INT(fscanf(file, "%lf", &to[i]), 1);
}

static struct sample golden_logits(struct lab *lab, const struct golden_case *c) {
    struct sample logits = lab_fp32_2d(lab, c->rows, c->experts, 0);
    for (int64_t i = 0; i < c->rows * c->experts; i++) {
        double n = (double)(i / c->experts), e = (double)(i % c->experts);
        logits.x[i] = 3 * sin(0.7 * n * n + 1.3 * e + 0.1 * n * e);
    }
    lab_write(lab, logits.t, logits.x);
    return logits;
}

// Forward and backward of the router. The lines hold experts, weights and the gradient.
static void expect_route(struct lab *lab, const struct golden_case *c, struct tensor logits, FILE *file) {
    int64_t slots = c->rows * c->chosen;
    struct sample bias = lab_fp32_1d(lab, c->experts, 0), dweights = lab_fp32_2d(lab, c->rows, c->chosen, 0);
    for (int64_t e = 0; e < c->experts; e++)
        bias.x[e] = c->bias * sin((double)e);
    lab_write(lab, bias.t, bias.x);
    struct op_route_forward forward = {.experts = arena_2d(&lab->arena, DTYPE_I32, c->rows, c->chosen),
                                       .weights = arena_2d(&lab->arena, DTYPE_F32, c->rows, c->chosen),
                                       .logits = logits,
                                       .rule = c->rule};
    if (c->bias != 0)
        forward.bias = bias.t;
    op_route_forward(lab->device, &forward);
    double *numbers = lab_doubles(lab, c->rows * c->experts);
    read_numbers(file, numbers, slots);
    const int32_t *experts = forward.experts.data;
    for (int64_t i = 0; i < slots; i++) {
        EXPECT_INT(experts[i], (int32_t)numbers[i]);
        dweights.x[i] = cos((double)(i / c->chosen) + 2 * (double)experts[i]);
    }
    lab_write(lab, dweights.t, dweights.x);
    read_numbers(file, numbers, slots);
    lab_expect(lab, forward.weights, numbers);
    struct op_route_backward backward = {.dlogits = arena_2d(&lab->arena, DTYPE_F32, c->rows, c->experts),
                                         .dweights = dweights.t,
                                         .logits = logits,
                                         .experts = forward.experts,
                                         .rule = c->rule};
    op_route_backward(lab->device, &backward);
    read_numbers(file, numbers, c->rows * c->experts);
    lab_expect(lab, backward.dlogits, numbers);
}

// The loss is experts / rows^2 * the sum over experts of counts times sums of shares. It is linear in the sums.
static void expect_balance(struct lab *lab, const struct golden_case *c, struct tensor logits, FILE *file) {
    struct tensor sums = lab_fp32_2d(lab, 1, c->experts, 0).t, counts = lab_fp32_2d(lab, 1, c->experts, 0).t;
    struct tensor dlogits = lab_fp32_2d(lab, c->rows, c->experts, 0).t;
    double loss = 0, expected, *gradient = lab_doubles(lab, c->rows * c->experts);
    read_numbers(file, &expected, 1);
    read_numbers(file, gradient, c->rows * c->experts);
    if (c->score != ROUTER_SOFTMAX)
        return;
    op_balance_forward(
        lab->device,
        &(struct op_balance_forward){
            .sums = sums, .counts = counts, .logits = logits, .score = c->rule.score, .chosen = c->chosen});
    float factor = (float)c->experts / (float)(c->rows * c->rows);
    op_scale(lab->device, &(struct op_scale){.x = counts, .factor = factor});
    for (int64_t e = 0; e < c->experts; e++)
        loss += (double)((const float *)counts.data)[e] * (double)((const float *)sums.data)[e];
    EXPECT_NEAR(loss, expected, 1e-5);
    op_balance_backward(
        lab->device,
        &(struct op_balance_backward){.dlogits = dlogits, .logits = logits, .slopes = counts, .score = c->rule.score});
    lab_expect(lab, dlogits, gradient);
}

TEST(routers_of_transformers) {
    FILE *file = fopen("tests/golden/router.txt", "r");
    EXPECT(file);
    struct device *device = NULL;
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cpu", .threads = 2}));
    struct lab lab;
    lab_open(&lab, device, DTYPE_F32, 1e-5);
    struct golden_case c = {0};
    int cases = 0;
    while (fscanf(file, " case %d %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %f %lf", &c.score,
                  &c.rows, &c.experts, &c.chosen, &c.rule.groups, &c.rule.chosen_groups, &c.rule.factor,
                  &c.bias) == 8) {
        c.rule.score = (enum router_score)c.score;
        struct sample logits = golden_logits(&lab, &c);
        expect_route(&lab, &c, logits.t, file);
        expect_balance(&lab, &c, logits.t, file);
        lab_clear(&lab);
        cases++;
    }
    (void)fclose(file);
    EXPECT_INT(cases, 8);
    lab_close(&lab);
    device_close(device);
}

TEST_MAIN(TEST_CASE(routers_of_transformers))
