// The elementary functions of the CPU backend against double-precision libm over their whole range, and the conversions
// to 16-bit floats against exact rules.
#include "test.h"
#include "ops/cpu/cpu.h"
#include "ops/cpu/vector_math.h"

static float float_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

// The distance between neighbouring floats at this value; for subnormal numbers, their smallest distance.
static double ulp_at(double value) {
    int exponent;
    (void)frexp(value, &exponent);
    return ldexp(1.0, exponent < -125 ? -149 : exponent - 24);
}

TEST(exp_everywhere) {
    double worst = 0;
    // Every 641st of all floats: both signs, all magnitudes.
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32; bits += 641) {
        float x = float_of((uint32_t)bits);
        if (isnan(x) || x > 88.0f || x < -87.33f)
            continue;
        double expected = exp((double)x), error = fabs((double)vector_exp(x) - expected) / ulp_at(expected);
        worst = error > worst ? error : worst;
    }
    for (float x = -87.33f; x < 88.0f; x += 0.000731f) {
        double expected = exp((double)x), error = fabs((double)vector_exp(x) - expected) / ulp_at(expected);
        worst = error > worst ? error : worst;
    }
    printf("    largest error of exp: %.3f ulp\n", worst);
    EXPECT(worst < 1.5);
}

TEST(exp_at_the_ends) {
    EXPECT(vector_exp(0.0f) == 1.0f);
    EXPECT(vector_exp(-0.0f) == 1.0f);
    EXPECT(vector_exp(-INFINITY) == 0.0f);
    EXPECT(vector_exp(-1e30f) == 0.0f);
    EXPECT(vector_exp(-88.1f) == 0.0f);
    EXPECT(isnan(vector_exp(NAN)));
    EXPECT(isnan(vector_exp(-NAN)));
    // In the subnormal range it only decreases, and never below 0.
    float last = vector_exp(-87.3f);
    for (float x = -87.3f; x > -90.0f; x -= 0.001f) {
        float now = vector_exp(x);
        EXPECT(now >= 0 && now <= last && fabs((double)now - exp((double)x)) < 1.2e-38);
        last = now;
    }
}

static double exact_gelu(double x) {
    return x / (1 + exp(-2 * sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

TEST(gelu_everywhere) {
    double worst = 0, worst_gradient = 0;
    for (float x = -13.0f; x < 13.0f; x += 0.00031f) {
        double exact = exact_gelu((double)x), step = 1e-5;
        double slope = (exact_gelu((double)x + step) - exact_gelu((double)x - step)) / (2 * step);
        double error = fabs((double)vector_gelu(x) - exact) / (fabs(exact) + 1e-30);
        double gradient_error = fabs((double)vector_gelu_gradient(x) - slope);
        worst = error > worst && fabs(exact) > 1e-6 ? error : worst;
        worst_gradient = gradient_error > worst_gradient ? gradient_error : worst_gradient;
    }
    printf("    largest relative error of gelu: %.2g, absolute of its gradient: %.2g\n", worst, worst_gradient);
    EXPECT(worst < 4e-6);
    EXPECT(worst_gradient < 5e-7);
    for (float x = 16.0f; x < 1e15f; x *= 3) {
        EXPECT(vector_gelu(x) == x && fabsf(vector_gelu(-x)) < 1e-30f);
        EXPECT(vector_gelu_gradient(x) == 1 && fabsf(vector_gelu_gradient(-x)) < 1e-30f);
    }
    EXPECT(isnan(vector_gelu(NAN)) && isnan(vector_gelu_gradient(NAN)));
}

static double exact_gelu_erf(double x) {
    return 0.5 * x * erfc(-x / sqrt(2));
}

static double exact_silu(double x) {
    return x / (1 + exp(-x));
}

// The largest error of a function, relative if its value is above 1e-6, and of its gradient.
static void expect_function(const char *name, float (*value)(float), float (*gradient)(float),
                            double (*exact)(double)) {
    double worst = 0, worst_gradient = 0;
    for (float x = -12.9f; x < 12.9f; x += 0.00031f) {
        double want = exact((double)x), step = 1e-5;
        double slope = (exact((double)x + step) - exact((double)x - step)) / (2 * step);
        double error = fabs(want) > 1e-6 ? fabs((double)value(x) - want) / fabs(want) : 0;
        double gradient_error = fabs((double)gradient(x) - slope);
        worst = error > worst ? error : worst;
        worst_gradient = gradient_error > worst_gradient ? gradient_error : worst_gradient;
    }
    printf("    largest relative error of %s: %.2g, absolute of its gradient: %.2g\n", name, worst, worst_gradient);
    EXPECT(worst < 4e-6);
    EXPECT(worst_gradient < 5e-7);
    EXPECT(value(0.0f) == 0 && fabsf(gradient(0.0f) - 0.5f) < 1e-6f);
    for (float x = 88.0f; x < 1e15f; x *= 3) {
        EXPECT(value(x) == x && fabsf(value(-x)) < 1e-30f);
        EXPECT(gradient(x) == 1 && fabsf(gradient(-x)) < 1e-30f);
    }
    EXPECT(isnan(value(NAN)) && isnan(gradient(NAN)));
}

static float gelu_erf(float x) {
    return vector_gelu_erf(x);
}
static float gelu_erf_gradient(float x) {
    return vector_gelu_erf_gradient(x);
}
static float silu(float x) {
    return vector_silu(x);
}
static float silu_gradient(float x) {
    return vector_silu_gradient(x);
}

TEST(exact_gelu_and_silu) {
    expect_function("the exact gelu", gelu_erf, gelu_erf_gradient, exact_gelu_erf);
    expect_function("silu", silu, silu_gradient, exact_silu);
}

TEST(tanh_everywhere) {
    double worst = 0;
    for (uint64_t bits = 0; bits < (uint64_t)1 << 32; bits += 641) {
        float x = float_of((uint32_t)bits);
        if (isnan(x) || fabsf(x) < 1e-30f)
            continue;
        double expected = tanh((double)x), error = fabs((double)vector_tanh(x) - expected) / ulp_at(expected);
        worst = error > worst ? error : worst;
    }
    for (float x = -10.0f; x < 10.0f; x += 0.0000731f) {
        double expected = tanh((double)x), error = fabs((double)vector_tanh(x) - expected) / ulp_at(expected);
        worst = error > worst ? error : worst;
    }
    printf("    largest error of tanh: %.3f ulp\n", worst);
    EXPECT(worst < 2);
    EXPECT(vector_tanh(0.0f) == 0 && vector_tanh(INFINITY) == 1 && vector_tanh(-INFINITY) == -1);
    EXPECT(isnan(vector_tanh(NAN)));
}

TEST(bf16_rounding) {
    static const struct {
        uint32_t from;
        uint16_t to;
    } rows[] = {
        {0x3F800000, 0x3F80}, {0x3F808000, 0x3F80},  // a tie goes to the even one below
        {0x3F818000, 0x3F82},                        // and above
        {0x3F808001, 0x3F81}, {0x7F7FFFFF, 0x7F80},  // rounds up to infinity
        {0x7F800000, 0x7F80}, {0xFF800000, 0xFF80}, {0x80000000, 0x8000}, {0x00000001, 0x0000}, {0x00018000, 0x0002},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        float from = float_of(rows[i].from);
        uint16_t to;
        cpu_convert(&to, DTYPE_BF16, &from, DTYPE_F32, 1);
        EXPECT_INT(to, rows[i].to);
    }
    static const uint32_t nans[] = {0x7F800001, 0xFFFFFFFF, 0x7FC00000};
    for (size_t i = 0; i < 3; i++) {
        float from = float_of(nans[i]), back;
        uint16_t to;
        cpu_convert(&to, DTYPE_BF16, &from, DTYPE_F32, 1);
        cpu_convert(&back, DTYPE_F32, &to, DTYPE_BF16, 1);
        EXPECT(isnan(back));
    }
}

// The value of a half-precision number by the definition of the format.
static double half_value(uint32_t half) {
    int exponent = (int)(half >> 10 & 31), fraction = (int)(half & 1023);
    double sign = half & 0x8000 ? -1 : 1;
    if (exponent == 31)
        return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

TEST(f16_all_values) {
    for (uint32_t half = 0; half < 65536; half++) {
        uint16_t from = (uint16_t)half, back;
        float single;
        cpu_convert(&single, DTYPE_F32, &from, DTYPE_F16, 1);
        cpu_convert(&back, DTYPE_F16, &single, DTYPE_F32, 1);
        double expected = half_value(half);
        if (isnan(expected)) {
            EXPECT(isnan(single));
            EXPECT(isnan(half_value(back)));
            continue;
        }
        EXPECT((double)single == expected && !signbit(single) == (half < 0x8000));
        EXPECT_INT(back, from);
        // Between this value and the next one up, everything rounds to the nearer one, the middle to the even one.
        uint32_t next = half + 1;
        if (half >= 0x8000 || isinf(expected) || isinf(half_value(next)))
            continue;
        float middle = (float)((expected + half_value(next)) / 2);
        float sides[3] = {float_of(bits_of(middle) - 1), middle, float_of(bits_of(middle) + 1)};
        uint16_t rounded[3];
        cpu_convert(rounded, DTYPE_F16, sides, DTYPE_F32, 3);
        EXPECT_INT(rounded[0], half);
        EXPECT_INT(rounded[1], half % 2 ? next : half);
        EXPECT_INT(rounded[2], next);
    }
    float large[3] = {65519.0f, 65520.0f, 1e30f};
    uint16_t halves[3];
    cpu_convert(halves, DTYPE_F16, large, DTYPE_F32, 3);
    EXPECT_INT(halves[0], 0x7BFF);
    EXPECT_INT(halves[1], 0x7C00);
    EXPECT_INT(halves[2], 0x7C00);
}

TEST(between_the_16_bit_types) {
    uint16_t from[600], to[600], back[600];
    for (int i = 0; i < 600; i++) {
        float value = (float)(i - 300) * 0.125f;
        cpu_convert(&from[i], DTYPE_BF16, &value, DTYPE_F32, 1);
    }
    cpu_convert(to, DTYPE_F16, from, DTYPE_BF16, 600);
    cpu_convert(back, DTYPE_BF16, to, DTYPE_F16, 600);
    for (int i = 0; i < 600; i++)
        EXPECT_INT(back[i], from[i]);
}

TEST_MAIN(TEST_CASE(exp_everywhere), TEST_CASE(exp_at_the_ends), TEST_CASE(gelu_everywhere),
          TEST_CASE(exact_gelu_and_silu), TEST_CASE(tanh_everywhere), TEST_CASE(bf16_rounding),
          TEST_CASE(f16_all_values), TEST_CASE(between_the_16_bit_types))
