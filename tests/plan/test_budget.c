// Compute-optimal sizes against Chinchilla itself, and shapes against published models.
#include "plan/budget.h"
#include "test.h"

#include <math.h>

// Hoffmann et al. 2022: 70B parameters and 1.4T tokens for 5.76e23 FLOPs; by their first method 10B for 1.23e22 and 1B
// for 1.21e20.
TEST(chinchilla) {
    struct budget_size size = budget_size(5.76e23, 1);
    EXPECT_NEAR(size.parameters, 70e9, 7e9);
    EXPECT_NEAR(size.tokens, 1.4e12, 0.14e12);
    EXPECT_NEAR(budget_size(1.23e22, 1).parameters, 10e9, 1e9);
    EXPECT_NEAR(budget_size(1.21e20, 1).parameters, 1e9, 0.15e9);
}

// The best is better than its neighbours, and all cost the same.
TEST(the_optimum_is_one) {
    for (double flops = 1e18; flops < 1e27; flops *= 31) {
        struct budget_size best = budget_size(flops, 1);
        EXPECT(budget_size(flops, 0.9).loss > best.loss && budget_size(flops, 1.1).loss > best.loss);
        EXPECT_NEAR(6 * best.parameters * best.tokens, flops, 1e-9 * flops);
    }
}

TEST(shapes_are_sensible) {
    for (double parameters = 1e8; parameters < 2e12; parameters *= 1.7) {
        struct budget_shape shape = budget_shape(parameters, 32000);
        double hidden = (double)shape.hidden, layers = (double)shape.layers;
        double keys = (double)shape.groups / (double)shape.heads;
        double made = layers * (hidden * hidden * (2 + 2 * keys) + 3 * hidden * (double)shape.ffn) + 64000 * hidden;
        EXPECT_NEAR(made, parameters, 0.12 * parameters);
        EXPECT(hidden / layers > 45 && hidden / layers < 230);
        EXPECT(shape.hidden % shape.heads == 0 && shape.heads % shape.groups == 0);
    }
}

TEST(texts) {
    double flops = 0;
    EXPECT_OK(budget_read("1e22FLOP", &flops));
    EXPECT_NEAR(flops, 1e22, 1e10);
    EXPECT_OK(budget_read("10ZFLOPs", &flops));
    EXPECT_NEAR(flops, 1e22, 1e10);
    EXPECT_OK(budget_read("3e21", &flops));
    EXPECT_ERROR(budget_read("a lot", &flops), "give e.g. 1e22FLOP");
    EXPECT_ERROR(budget_read("5 dollars", &flops), "give e.g. 1e22FLOP");
    EXPECT_ERROR(budget_read("1000FLOP", &flops), "nearest: --budget 1e15FLOP");
    EXPECT_ERROR(budget_read("1e31", &flops), "the law is an extrapolation; nearest: --budget 1e30FLOP");
    EXPECT(budget_extrapolates(1e17) && !budget_extrapolates(1e20) && budget_extrapolates(1e23));
    EXPECT_ERROR(budget_read("", &flops), "give e.g. 1e22FLOP");
}

TEST_MAIN(TEST_CASE(chinchilla), TEST_CASE(the_optimum_is_one), TEST_CASE(shapes_are_sensible), TEST_CASE(texts))
