// Attention by cuDNN with masks, in parts, and with dropout that it draws itself, against the formula in double
// precision. Skipped without a GPU; on a GPU whose cuDNN does not get these, our own kernels must pass.
#include "cases_attention.h"
#include "ops/attention_parts.h"
#include "ops/cuda_module.h"
#include "twin.h"

// cuDNN needs lengths of 128 and more.
static struct device *open_for_large(struct device_options options) {
    if (lab_is_tiny())
        test_skip("all of it is too large for this");
    return gpu_open_as(options);
}

// cuDNN rounds the weights to the dtype before multiplying by the values: if a query sees few keys and the values
// cancel, a single error in bf16 is relatively large. So the bound is tight for all values together, and loose for
// single values.
static void open_cudnn_lab(struct lab *lab, struct device *gpu, enum dtype dtype) {
    lab_open(lab, gpu, dtype, dtype == DTYPE_BF16 ? 0.1 : FP16_TOLERANCE);
    lab->length_tolerance = dtype == DTYPE_BF16 ? 8e-3 : 1e-3;
}

static void expect_cudnn(struct device *gpu, int64_t passes_before, int64_t passes) {
    int64_t done = cuda_module()->cudnn_passes(gpu) - passes_before;
    printf("    cuDNN did %d of %d passes\n", (int)done, (int)passes);
    EXPECT(done == (cuda_module()->cudnn_takes_masks(gpu) ? passes : 0));
}

// Masks of all kinds, alone and together; the last sample sees nothing. Documents of heads of 64 and 128 are left to
// our kernels.
static void run_cudnn_masks(enum dtype dtype, bool is_deterministic) {
    static const struct attention_case cases[] = {
        {3, 128, 128, 2, 2, 64, .is_causal = false, .is_packed = true, .has_counts = true},
        {3, 128, 256, 4, 2, 64, .is_causal = false, .has_counts = true},
        {3, 256, 128, 2, 2, 96, .is_causal = false, .has_counts = true},
        {3, 256, 256, 4, 4, 64, .is_causal = true, .is_packed = true, .has_counts = true},
        {2, 256, 256, 4, 2, 128, .is_causal = true, .is_packed = true, .has_starts = true},
        {2, 128, 128, 2, 2, 256, .is_causal = true, .has_starts = true},
        {3, 256, 256, 4, 2, 64, .is_causal = true, .has_counts = true, .has_starts = true},
        {2, 256, 256, 2, 2, 64, .is_causal = true, .is_packed = true, .window = 100},
        {2, 256, 256, 2, 1, 64, .is_causal = true, .window = 150, .has_starts = true},
        {2, 256, 256, 2, 2, 64, .is_causal = true, .window = 1000},  // hides nothing
    };
    struct device *gpu = open_for_large((struct device_options){.is_deterministic = is_deterministic});
    struct lab lab;
    open_cudnn_lab(&lab, gpu, dtype);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t before = cuda_module()->cudnn_passes(gpu);
        attention_variant(&lab, &cases[i]);
        bool is_ours = cases[i].has_starts && (cases[i].D == 64 || cases[i].D == 128);
        if (cases[i].window < 1000)
            expect_cudnn(gpu, before, is_ours ? 0 : 3);
    }
    lab_close(&lab);
    device_close(gpu);
}

TEST(bf16_cudnn_masks) {
    run_cudnn_masks(DTYPE_BF16, false);
}
TEST(fp16_cudnn_masks) {
    run_cudnn_masks(DTYPE_F16, false);
}
TEST(bf16_cudnn_masks_deterministic) {
    run_cudnn_masks(DTYPE_BF16, true);
}

// ---- Parts ----

enum { RESULT_OUT, RESULT_LSE, RESULT_DQ, RESULT_DK, RESULT_DV, RESULT_COUNT };
static const char *const result_names[RESULT_COUNT] = {"out", "lse", "dq", "dk", "dv"};

struct attention_results {
    const double *values[RESULT_COUNT];
    int64_t counts[RESULT_COUNT];
};

// Both passes, with parts of at most this many elements.
static struct attention_results run_in_parts(struct lab *lab, struct attention_setup *s, struct sample dout,
                                             int64_t most) {
    struct device *gpu = lab->device;
    int64_t count = attention_part(s->q, s->k, s->v, most).count, passes = cuda_module()->cudnn_passes(gpu);
    int64_t parts = cuda_module()->cudnn_parts(gpu);
    double *gradients[5];
    cuda_module()->cudnn_cut(gpu, most);
    attention_run_forward(lab, s, true);
    const double *out = heads_gather(lab, s->out, s->whole[3], lab_read(lab, s->whole[3]));
    const double *lse = lab_read(lab, s->lse);
    attention_run_backward(lab, s, dout, gradients);
    cuda_module()->cudnn_cut(gpu, ATTENTION_PART_ELEMENTS);
    printf("    %d parts: cuDNN did %d passes in %d calls\n", (int)count,
           (int)(cuda_module()->cudnn_passes(gpu) - passes), (int)(cuda_module()->cudnn_parts(gpu) - parts));
    // A deterministic plan may be cut further, where its workspace is small.
    EXPECT(cuda_module()->cudnn_parts(gpu) - parts >= (cuda_module()->cudnn_passes(gpu) - passes) * count);
    return (struct attention_results){
        {out, lse, gradients[0], gradients[1], gradients[2]},
        {tensor_count(s->out), tensor_count(s->lse), tensor_count(s->q), tensor_count(s->k), tensor_count(s->v)}};
}

// cuDNN sums dq with atomics unless it must be deterministic: then the order of additions may change the last bits.
static void expect_same(struct lab *lab, const struct attention_results *actual,
                        const struct attention_results *expected, bool is_deterministic) {
    for (int i = 0; i < RESULT_COUNT; i++) {
        int64_t differing = 0;
        for (int64_t n = 0; n < expected->counts[i]; n++)
            differing += memcmp(&actual->values[i][n], &expected->values[i][n], sizeof(double)) != 0;
        if (i == RESULT_DQ && !is_deterministic)
            lab_compare(lab, result_names[i], actual->values[i], expected->values[i], expected->counts[i], __LINE__);
        else if (differing > 0)
            test_fail("%lld of %lld values of %s differ from those of attention in one part", (long long)differing,
                      (long long)expected->counts[i], result_names[i]);
    }
}

// Cut into samples, into some heads and into single heads of keys: the bits of attention in one part, and the formula.
static void run_parts(bool is_deterministic) {
    static const struct attention_case cases[] = {
        {4, 256, 256, 4, 4, 64, .is_causal = true, .is_packed = true},
        {2, 256, 256, 8, 4, 128, .is_causal = true, .is_packed = true},
        {1, 256, 256, 6, 6, 128, .is_causal = true},
        {2, 128, 256, 4, 2, 64, .is_causal = false},
        {3, 256, 256, 4, 4, 64, .is_causal = true, .is_packed = true, .has_counts = true},
        {2, 256, 256, 4, 2, 128, .is_causal = true, .is_packed = true, .has_starts = true},
        {2, 256, 256, 4, 4, 64, .is_causal = true, .is_packed = true, .window = 100},
        {2, 256, 256, 4, 2, 64, .is_causal = true, .window = 150, .has_starts = true},
        {2, 256, 256, 4, 4, 192, .is_causal = true, .V = 128},          // latent attention
        {2, 256, 256, 4, 2, 64, .is_causal = true, .has_sinks = true},  // not for cuDNN
    };
    struct device *gpu = open_for_large((struct device_options){.is_deterministic = is_deterministic});
    struct lab lab;
    open_cudnn_lab(&lab, gpu, DTYPE_BF16);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct attention_setup s;
        attention_setup(&lab, &s, &cases[i]);
        struct sample dout = lab_3d(&lab, s.c.B, s.c.Tq, s.c.H * attention_value_size(&s.c), 1);
        struct attention_results whole = run_in_parts(&lab, &s, dout, ATTENTION_PART_ELEMENTS);
        int64_t all = attention_part(s.q, s.k, s.v, ATTENTION_PART_ELEMENTS).elements;
        const int64_t limits[] = {all / s.c.B, all / s.c.B / 2, 1};
        for (size_t n = 0; n < sizeof limits / sizeof limits[0]; n++) {
            struct attention_results parts = run_in_parts(&lab, &s, dout, limits[n]);
            expect_same(&lab, &parts, &whole, is_deterministic);
        }
        cuda_module()->cudnn_cut(gpu, 1);
        attention_compare(&lab, &s);
        cuda_module()->cudnn_cut(gpu, ATTENTION_PART_ELEMENTS);
        lab_clear(&lab);
    }
    lab_close(&lab);
    device_close(gpu);
}

TEST(bf16_cudnn_parts) {
    run_parts(false);
}
TEST(bf16_cudnn_parts_deterministic) {
    run_parts(true);
}

// ---- Dropout ----

// Probabilities before dropout, (B, H, Tq, Tk), of all queries.
static double *all_probabilities(struct lab *lab, const struct attention_setup *s) {
    const struct attention_case *c = &s->c;
    int64_t rows = c->B * c->H * c->Tq;
    double *all = lab_doubles(lab, rows * c->Tk), *p = lab_doubles(lab, 2 * c->Tk);
    for (int64_t n = 0; n < rows; n++) {
        naive_probabilities(s, s->values, (const int64_t[3]){n / c->Tq / c->H, n / c->Tq % c->H, n % c->Tq}, p);
        memcpy(all + n * c->Tk, p, (size_t)c->Tk * sizeof *p);
    }
    return all;
}

// The mask that the device draws: with values that are columns of the identity, the output is the weights themselves.
// Fails if one is neither 0 nor the weight divided by the kept share.
static unsigned char *seen_mask(struct lab *lab, struct attention_setup *s, const double *p) {
    const struct attention_case *c = &s->c;
    unsigned char *kept = lab_host(lab, (size_t)(c->B * c->H * c->Tq * c->Tk));
    double *values = lab_doubles(lab, c->B * c->Tk * c->G * c->D);
    for (int64_t first = 0; first < c->Tk; first += c->D) {
        for (int64_t n = 0; n < c->B * c->Tk * c->G * c->D; n++)
            values[n] = n / (c->G * c->D) % c->Tk == first + n % c->D;
        lab_write(lab, s->whole[2], values);
        attention_run_forward(lab, s, false);
        const double *out = lab_read(lab, s->whole[3]);
        for (int64_t n = 0; n < c->B * c->H * c->Tq; n++) {
            int64_t at[3] = {n / c->Tq / c->H, n / c->Tq % c->H, n % c->Tq};
            for (int64_t d = 0; d < c->D && first + d < c->Tk; d++) {
                double weight = out[((at[0] * c->Tq + at[2]) * c->H + at[1]) * c->D + d];
                double whole = p[n * c->Tk + first + d] / (1 - (double)c->rate);
                kept[n * c->Tk + first + d] = weight != 0;
                EXPECT(weight == 0 || fabs(weight - whole) <= 0.02 * whole + 1e-6);  // fp16 loses bits there
            }
        }
    }
    lab_write(lab, s->whole[2], s->values[2]);
    return kept;
}

// The share of weights on which two masks agree, of `all` weights.
static double agreement(const struct attention_setup *s, const unsigned char *a, const unsigned char *b, double *all) {
    int64_t same = 0, seen = 0, rows = s->c.B * s->c.H * s->c.Tq;
    for (int64_t n = 0; n < rows * s->c.Tk; n++)
        if (attention_sees(s, n / s->c.Tk / s->c.Tq / s->c.H, n / s->c.Tk % s->c.Tq, n % s->c.Tk)) {
            same += a[n] == b[n];
            seen++;
        }
    *all = (double)seen;
    return (double)same / (double)seen;
}

// The same for the queries i and i + 2.
static double agreement_two_apart(const struct attention_setup *s, const unsigned char *kept) {
    int64_t same = 0, seen = 0, Tq = s->c.Tq, Tk = s->c.Tk;
    for (int64_t n = 0; n < s->c.B * s->c.H * Tq * Tk; n++) {
        int64_t b = n / Tk / Tq / s->c.H, i = n / Tk % Tq, j = n % Tk;
        if (i + 2 < Tq && attention_sees(s, b, i, j) && attention_sees(s, b, i + 2, j)) {
            same += kept[n] == kept[n + 2 * Tk];
            seen++;
        }
    }
    return (double)same / (double)seen;
}

// The same for neighbouring heads.
static double agreement_of_heads(const struct attention_setup *s, const unsigned char *kept, double *all) {
    int64_t same = 0, seen = 0, scores = s->c.Tq * s->c.Tk;
    for (int64_t n = 0; n < s->c.B * s->c.H * scores; n++)
        if (n / scores % s->c.H + 1 < s->c.H &&
            attention_sees(s, n / scores / s->c.H, n / s->c.Tk % s->c.Tq, n % s->c.Tk)) {
            same += kept[n] == kept[n + scores];
            seen++;
        }
    *all = (double)seen;
    return (double)same / (double)seen;
}

// Five standard deviations from the expected share `chance`. In cuDNN 9.14 groups of four neighbouring queries share
// masks: fewer draws than weights.
static double most_by_chance(double chance, double all) {
    return 5 * sqrt(chance * (1 - chance) * 4 / all);
}

// Other tokens.
static struct tensor other_rows(struct lab *lab, int64_t count) {
    struct tensor rows = arena_1d(&lab->arena, DTYPE_I64, count);
    int64_t *ids = lab_host(lab, (size_t)count * sizeof *ids);
    for (int64_t i = 0; i < count; i++)
        ids[i] = ((int64_t)5 << 32) + i;
    device_copy_in(lab->device, rows, ids);
    device_synchronize(lab->device);
    return rows;
}

// A mask has the right rate; the same operation draws it again; another seed, place in the model, head or token draws
// another one.
static unsigned char *check_draws(struct lab *lab, struct attention_setup *s) {
    const struct attention_case *c = &s->c;
    int64_t weights = c->B * c->H * c->Tq * c->Tk;
    const double *p = all_probabilities(lab, s);
    unsigned char *kept = seen_mask(lab, s, p), *everything = lab_host(lab, (size_t)weights);
    memset(everything, 1, (size_t)weights);
    double all = 0, keep = 1 - (double)c->rate, chance = keep * keep + (1 - keep) * (1 - keep);
    double share = agreement(s, kept, everything, &all);
    printf("    kept %.4f of %.1f; queries two apart agree in %.4f, by chance %.4f\n", share, keep,
           agreement_two_apart(s, kept), chance);
    EXPECT(fabs(share - keep) < most_by_chance(keep, all));
    EXPECT(agreement(s, kept, seen_mask(lab, s, p), &all) == 1);
    double of_heads = agreement_of_heads(s, kept, &all);
    printf("    neighbouring heads agree in %.4f\n", of_heads);
    EXPECT(fabs(of_heads - chance) < most_by_chance(chance, all));
    const struct dropout first = s->dropout;
    struct dropout others[] = {first, first, first, first};
    others[0].seed++;
    others[1].site++;
    others[2].first_head++;
    others[3].row_ids = other_rows(lab, c->B * c->Tq);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        s->dropout = others[i];
        double common = agreement(s, kept, seen_mask(lab, s, p), &all);
        printf("    another one agrees in %.4f, by chance %.4f\n", common, chance);
        EXPECT(fabs(common - chance) < most_by_chance(chance, all));
    }
    s->dropout = first;
    return kept;
}
enum { MASKS_SEEN = 6 };  // by check_draws

// Dropout that cuDNN draws, the same in all passes, also if parts have at most so many elements.
static void run_fast_dropout(enum dtype dtype, int64_t most) {
    static const struct attention_case cases[] = {
        {2, 256, 256, 2, 2, 64, .is_causal = true, .rate = 0.1f},
        {2, 256, 256, 4, 2, 128, .is_causal = false, .rate = 0.3f},
        {2, 128, 256, 2, 2, 64, .is_causal = false, .rate = 0.1f, .has_counts = true},
        {2, 256, 256, 2, 1, 64, .is_causal = true, .rate = 0.1f, .has_starts = true},
        {2, 256, 256, 2, 2, 64, .is_causal = true, .rate = 0.1f, .window = 150},
        {3, 256, 256, 2, 1, 64, .is_causal = true, .rate = 0.1f, .has_counts = true, .has_starts = true},
        {1, 128, 128, 2, 2, 256, .is_causal = true, .rate = 0.1f},
    };
    // Not for cuDNN, so drawn by our kernels in both passes.
    static const struct attention_case ours[] = {
        {1, 130, 130, 2, 2, 32, .is_causal = true, .rate = 0.1f},
        {1, 128, 128, 2, 2, 32, .is_causal = true, .rate = 1e-6f},
    };
    struct device *gpu = open_for_large((struct device_options){.has_fast_dropout = true});
    if (!cuda_module()->cudnn_takes_masks(gpu)) {
        device_close(gpu);
        test_skip("there is no cuDNN that draws dropout");
    }
    struct lab lab;
    open_cudnn_lab(&lab, gpu, dtype);
    cuda_module()->cudnn_cut(gpu, most);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct attention_setup s;
        int64_t before = cuda_module()->cudnn_passes(gpu), reads = (cases[i].Tk + cases[i].D - 1) / cases[i].D;
        attention_setup(&lab, &s, &cases[i]);
        s.kept = check_draws(&lab, &s);
        attention_compare(&lab, &s);
        expect_cudnn(gpu, before, MASKS_SEEN * reads + 3);
        lab_clear(&lab);
    }
    int64_t before = cuda_module()->cudnn_passes(gpu);
    for (size_t i = 0; i < sizeof ours / sizeof ours[0]; i++)
        attention_variant(&lab, &ours[i]);
    expect_cudnn(gpu, before, 0);
    lab_close(&lab);
    device_close(gpu);
}

TEST(bf16_fast_dropout) {
    run_fast_dropout(DTYPE_BF16, ATTENTION_PART_ELEMENTS);
}
TEST(fp16_fast_dropout) {
    run_fast_dropout(DTYPE_F16, ATTENTION_PART_ELEMENTS);
}
TEST(bf16_fast_dropout_in_parts) {
    run_fast_dropout(DTYPE_BF16, 1);
}

TEST_MAIN(TEST_CASE(bf16_cudnn_masks), TEST_CASE(fp16_cudnn_masks), TEST_CASE(bf16_cudnn_masks_deterministic),
          TEST_CASE(bf16_cudnn_parts), TEST_CASE(bf16_cudnn_parts_deterministic), TEST_CASE(bf16_fast_dropout),
          TEST_CASE(fp16_fast_dropout), TEST_CASE(bf16_fast_dropout_in_parts))
