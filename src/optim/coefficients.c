// The table of sets of coefficients. See coefficients.h.
#include "optim/coefficients.h"
#include "base/error.h"

#include <stddef.h>
#include <string.h>

static const struct polynomial quintic[] = {{4.0848f, -6.8946f, 2.9270f},
                                            {3.9505f, -6.3029f, 2.6377f},
                                            {3.7418f, -5.5913f, 2.3037f},
                                            {2.8769f, -3.1427f, 1.2046f},
                                            {2.8366f, -3.0525f, 1.2012f}};
static const struct polynomial simple[] = {{3.4445f, -4.7750f, 2.0315f}};
// From "The Polar Express" (arXiv 2505.16932), for singular values from 1e-3 to 1; all but the last step allow for
// values of 1.01.
static const struct polynomial polar_express[] = {{8.2051f, -22.9019f, 16.4607f}, {4.0664f, -2.8612f, 0.5184f},
                                                  {3.9096f, -2.8234f, 0.5250f},   {3.2856f, -2.4153f, 0.4853f},
                                                  {2.2779f, -1.6198f, 0.3985f},   {1.8726f, -1.2307f, 0.3585f},
                                                  {1.8564f, -1.2132f, 0.3568f},   {1.8750f, -1.2500f, 0.3750f}};
// Chebyshev-type polynomials (arXiv 2506.10935).
static const struct polynomial cans[] = {{8.4703f, -25.1081f, 18.6293f},
                                         {4.1828f, -3.1087f, 0.5806f},
                                         {3.9619f, -2.9541f, 0.5630f},
                                         {3.2866f, -2.4647f, 0.5074f},
                                         {2.2737f, -1.6447f, 0.4162f}};
// The steps of Turbo-Muon, without its first division by sums of rows of the Gram matrix: as in all other sets,
// matrices are divided by their norms.
static const struct polynomial aol[] = {{4.0098f, -7.0585f, 2.4635f},
                                        {3.4585f, -5.5479f, 2.5959f},
                                        {2.7573f, -3.2939f, 1.4254f},
                                        {2.7215f, -3.0494f, 1.3169f}};
static const struct polynomial deepseekv4[] = {{3.4445f, -4.7750f, 2.0315f}, {3.4445f, -4.7750f, 2.0315f},
                                               {3.4445f, -4.7750f, 2.0315f}, {3.4445f, -4.7750f, 2.0315f},
                                               {3.4445f, -4.7750f, 2.0315f}, {3.4445f, -4.7750f, 2.0315f},
                                               {3.4445f, -4.7750f, 2.0315f}, {3.4445f, -4.7750f, 2.0315f},
                                               {2.0f, -1.5f, 0.5f},          {2.0f, -1.5f, 0.5f}};
// Cubic: one matmul fewer in each step (arXiv 2606.00371).
static const struct polynomial cubic5[] = {{3.3656576f, -3.3420992f, 0},
                                           {2.5744352f, -1.4957376f, 0},
                                           {2.5368962f, -1.4312570f, 0},
                                           {2.4418906f, -1.2764040f, 0},
                                           {2.2230472f, -0.9630650f, 0}};

#define ROW(name_, repeats_last_, has_pairs_)                                                                          \
    { #name_, name_, sizeof name_ / sizeof name_[0], repeats_last_, has_pairs_ }
// No pairs with a steep first step, which amplifies the rounding of the Gram matrix; cubic steps gain little from them.
static const struct coefficients table[] = {
    ROW(quintic, false, true), ROW(simple, false, true),    ROW(polar_express, true, false), ROW(cans, true, false),
    ROW(aol, false, true),     ROW(deepseekv4, true, true), ROW(cubic5, false, false)};

const struct coefficients *coefficients_find(const char *name) {
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].name, name) == 0)
            return &table[i];
    die("no coefficients are called %s", name);
}

struct polynomial coefficients_step(const struct coefficients *set, int64_t step) {
    if (step >= set->count)
        step = set->repeats_last ? set->count - 1 : step % set->count;
    return set->steps[step];
}
