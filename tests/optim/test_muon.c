// Muon, AdaMuon and NorMuon beside a loop in double, for every mode, with masters in fp32 and in halves; and beside
// torch.optim.Muon and NumPy, whose matrices in golden/muon.txt and muon_sets.txt have gone through 20 updates.
#include "lab.h"
#include "base/memory.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UPDATES = 20 };

static double weight_of(int64_t n) {
    return (double)(float)sin((double)n);
}

// Other gradients: of a matrix of 16 columns, of a few tokens, so that most of it lies in four directions; and the same
// with about half of their last bits changed.
static int token_seed;  // 0: none
static bool has_other_bits;
static int update_count = UPDATES;

static double gradient_of(int64_t n, int t) {
    double noise = has_other_bits ? 0x1p-24 * sin(12.9898 * (double)n + t) : 0, row = (double)(n / 16);
    double column = (double)(n % 16), sum = cos(0.37 * (double)(n * n) + 7 * t) * (token_seed ? 1e-3 : 1);
    for (int r = 0; token_seed && r < 4; r++)
        sum += cos(row * (1.3 + r) + token_seed + t) * sin(column * (0.7 + 1.1 * r) + 2 * token_seed + 3 * t);
    return (double)(float)(sum * (1 + noise));
}

static void open_lab(struct optim_lab *lab, const struct config *config, struct shard shard, enum dtype dtype) {
    optim_lab_open(lab);
    config_free(&lab->config);
    config_copy(&lab->config, config);
    lab->config.run.clip_grad = 0;
    lab->pace = (struct pace){.lr = 0.02, .weight_decay = 0.1};
    (void)param_add(&lab->params, "matrix", shard, INIT_ZERO, 0);
    optim_lab_build(
        lab, &(struct optim_lab_options){.rule = optimizer_find(config->run.optimizer), .dtype = dtype, .parts = 1});
    float *weights = optim_lab_weights(lab, 0);
    for (int64_t n = 0; n < shard_global_count(&shard); n++)
        weights[n] = (float)weight_of(n);
    if (updates_have_masters(&lab->updates))
        updates_take_weights(&lab->updates, &lab->update);
}

// The weights after all updates, in fp32; lives until the lab is closed.
static const float *run_updates(struct optim_lab *lab) {
    float *grad = lab->params.items[0]->grad.data, rates[UPDATES_MOST_RATES * RATE_LENGTH];
    for (int t = 1; t <= update_count; t++) {
        for (int64_t n = 0; n < tensor_count(lab->params.items[0]->grad); n++)
            grad[n] = (float)gradient_of(n, t);
        updates_make_rates(&lab->updates, &lab->pace, 1, rates);
        device_copy_in(lab->device, lab->updates.rates, rates);
        updates_begin(&lab->updates, &lab->update);
        updates_apply(&lab->updates, &lab->update, 0, lab->params.total);
        updates_count(&lab->updates);
    }
    EXPECT_INT(lab->scratch.used, 0);
    struct tensor masters[PARAM_MOST_GROUPS];
    if (!updates_have_masters(&lab->updates))
        return lab->params.items[0]->value.data;
    updates_open_masters(&lab->updates, &lab->update, masters);
    return masters[0].data;
}

// ---- in double ----

// d (M, N) = a X + p X, where p = b G + c G G, G = X X'.
static void naive_step(const double *x, double *d, int M, int N, const double coefficients[3]) {
    double *gram = memory_alloc(sizeof(double) * (size_t)(M * M)), *p = memory_alloc(sizeof(double) * (size_t)(M * M));
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++)
            for (int k = 0; k < N; k++)
                gram[i * M + j] += x[i * N + k] * x[j * N + k];
    for (int i = 0; i < M; i++)
        for (int j = 0; j < M; j++) {
            double sum = 0;
            for (int k = 0; k < M; k++)
                sum += gram[i * M + k] * gram[k * M + j];
            p[i * M + j] = coefficients[1] * gram[i * M + j] + coefficients[2] * sum;
        }
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = coefficients[0] * x[i * N + j];
            for (int k = 0; k < M; k++)
                sum += p[i * M + k] * x[k * N + j];
            d[i * N + j] = sum;
        }
    free(gram);
    free(p);
}

struct naive_muon {
    int rows, columns, first;  // of the matrix; where its rows begin
    int steps;
    const double (*coefficients)[3];  // one for each step
    double momentum, scale;
    bool is_nesterov;
    const char *moment2;  // of AdaMuon and NorMuon, else NULL
};

// Divides x (M, N) by the root of its second moment v, as AdaMuon and NorMuon do with beta2 0.95 and epsilon 1e-8.
static void naive_adapt(const struct naive_muon *naive, double *x, double *v) {
    int M = naive->rows, N = naive->columns;
    bool is_norm = strcmp(naive->moment2, "normuon") == 0;
    double before = 0, after = 0;
    double *squares = memory_alloc(sizeof(double) * (size_t)(M * N));
    for (int n = 0; n < M * N; n++) {
        int length = M >= N ? N : M;
        for (int k = 0; k < length && is_norm; k++)
            squares[n] += pow(M >= N ? x[n / N * N + k] : x[k * N + n % N], 2) / length;
        squares[n] = is_norm ? squares[n] : x[n] * x[n];
        before += x[n] * x[n];
    }
    for (int n = 0; n < M * N; n++) {
        v[n] = 0.95 * v[n] + 0.05 * squares[n];
        x[n] /= is_norm ? sqrt(fmax(v[n], 1e-8)) : sqrt(v[n]) + 1e-8;
        after += x[n] * x[n];
    }
    for (int n = 0; n < M * N && is_norm; n++)
        x[n] *= sqrt(before) / fmax(sqrt(after), 1e-8);
    free(squares);
}

// All updates of rows that are a matrix of their own, from weights w on.
static void naive_updates(const struct naive_muon *naive, double *w) {
    int M = naive->rows, N = naive->columns, first = naive->first * N;
    double *m = memory_alloc(sizeof(double) * (size_t)(M * N)), *x = memory_alloc(sizeof(double) * (size_t)(M * N));
    double *next = memory_alloc(sizeof(double) * (size_t)(M * N)), *v = memory_alloc(sizeof(double) * (size_t)(M * N));
    for (int t = 1; t <= update_count; t++) {
        double squares = 0;
        for (int n = 0; n < M * N; n++) {
            double g = gradient_of(first + n, t), mu = naive->momentum;
            m[n] = mu * m[n] + (1 - mu) * g;
            x[n] = naive->is_nesterov ? mu * m[n] + (1 - mu) * g : m[n];
            squares += x[n] * x[n];
        }
        for (int n = 0; n < M * N; n++)
            x[n] /= sqrt(squares);
        for (int i = 0; i < naive->steps; i++) {
            naive_step(x, next, M, N, naive->coefficients[i]);
            memcpy(x, next, sizeof(double) * (size_t)(M * N));
        }
        if (naive->moment2)
            naive_adapt(naive, x, v);
        for (int n = 0; n < M * N; n++)
            w[first + n] -= 0.02 * 0.1 * w[first + n] + 0.02 * naive->scale * x[n];
    }
    free(m);
    free(x);
    free(next);
    free(v);
}

static const double QUINTIC[][3] = {{4.0848, -6.8946, 2.9270},
                                    {3.9505, -6.3029, 2.6377},
                                    {3.7418, -5.5913, 2.3037},
                                    {2.8769, -3.1427, 1.2046},
                                    {2.8366, -3.0525, 1.2012}};
static const double SIMPLE[][3] = {{3.4445, -4.7750, 2.0315}, {3.4445, -4.7750, 2.0315}, {3.4445, -4.7750, 2.0315}};

static struct config make_config(const char *mode, const char *type, int64_t steps, bool is_nesterov) {
    struct config config;
    config_defaults(&config);
    free(config.run.optimizer);
    free(config.run.muon_scale_mode);
    free(config.run.muon_coefficient_type);
    free(config.run.muon_fp32_matmul_prec);
    config.run.optimizer = memory_string("muon");
    config.run.muon_scale_mode = memory_string(mode);
    config.run.muon_coefficient_type = memory_string(type);
    config.run.muon_fp32_matmul_prec = memory_string("high");
    config.run.muon_num_ns_steps = steps;
    config.run.muon_nesterov = is_nesterov;
    return config;
}

static void expect_near(const struct config *config, struct shard shard, const struct naive_muon *parts, int count,
                        double bound) {
    int64_t elements = shard_global_count(&shard);
    double *w = memory_alloc(sizeof *w * (size_t)elements);
    for (int64_t n = 0; n < elements; n++)
        w[n] = weight_of(n);
    for (int i = 0; i < count; i++)
        naive_updates(&parts[i], w);
    for (int mixed = 0; mixed < 2; mixed++) {
        struct optim_lab lab;
        open_lab(&lab, config, shard, mixed ? DTYPE_BF16 : DTYPE_F32);
        const float *found = run_updates(&lab);
        double worst = 0;
        for (int64_t n = 0; n < elements; n++)
            worst = fmax(worst, fabs((double)found[n] - w[n]));
        EXPECT(worst < bound);
        optim_lab_close(&lab);
    }
    free(w);
}

static void expect_naive(const struct config *config, struct shard shard, const struct naive_muon *parts, int count) {
    expect_near(config, shard, parts, count, 2e-5);
}

TEST(modes_beside_a_loop_in_double) {
    struct config config = make_config("spectral", "quintic", 5, false);
    struct naive_muon naive = {9, 13, 0, 5, QUINTIC, 0.9, sqrt(13), false, NULL};
    expect_naive(&config, shard_whole(2, 9, 13), &naive, 1);
    config_free(&config);
    config = make_config("unit_rms_norm", "simple", 3, true);
    config.run.muon_extra_scale_factor = 0.2;
    naive = (struct naive_muon){8, 8, 0, 3, SIMPLE, 0.9, 0.2, true, NULL};
    expect_naive(&config, shard_whole(2, 8, 8), &naive, 1);
    config_free(&config);
}

// Every set, also with more steps than it has: those of some begin again, the last of the others stays.
TEST(twenty_updates_with_every_set_beside_numpy) {
    FILE *file = fopen("tests/golden/muon_sets.txt", "r");
    EXPECT(file);
    int steps, rows, columns, cases = 0;
    char type[32];
    while (fscanf(file, " case %31s %d %d %d", type, &steps, &rows, &columns) == 4) {
        struct config config = make_config("spectral", type, steps, true);
        config.run.muon_extra_scale_factor = 0.2;
        struct optim_lab lab;
        open_lab(&lab, &config, shard_whole(2, rows, columns), DTYPE_F32);
        const float *found = run_updates(&lab);
        double worst = 0;
        for (int64_t n = 0; n < (int64_t)rows * columns; n++) {
            double expected = NAN;
            EXPECT_INT(fscanf(file, "%lf", &expected), 1);
            worst = fmax(worst, isnan(expected) ? INFINITY : fabs((double)found[n] - expected));
        }
        // The first step of cans makes 2 of a singular value of 1, where the second is so steep that rounding grows.
        bool is_steep = strcmp(type, "cans") == 0 && (rows == 1 || columns == 1);
        EXPECT(worst < (is_steep ? 1e-3 : 2e-5));
        optim_lab_close(&lab);
        config_free(&config);
        cases++;
    }
    fclose(file);
    EXPECT_INT(cases, 65);
}

// The Gram matrix is then that of the columns, with the same result.
TEST(tall_matrices) {
    struct config config = make_config("shape_scaling", "quintic", 5, true);
    struct naive_muon naive = {21, 4, 0, 5, QUINTIC, 0.9, sqrt(21.0 / 4), true, NULL};
    expect_naive(&config, shard_whole(2, 21, 4), &naive, 1);
    config_free(&config);
}

// In bf16, matrices that are long for their width take two steps at once. Rounding: single steps are up to 1.4e-3 off,
// these 1.3e-3; a wrong product would be 5e-3.
TEST(two_steps_at_once) {
    for (int is_wide = 0; is_wide < 2; is_wide++)
        for (int steps = 1; steps <= 5; steps++) {
            struct config config = make_config("unit_rms_norm", "quintic", steps, true);
            free(config.run.muon_fp32_matmul_prec);
            config.run.muon_fp32_matmul_prec = memory_string("medium");
            config.run.muon_extra_scale_factor = 0.2;
            int rows = is_wide ? 6 : 17, columns = 23 - rows;
            double scale = 0.2 * sqrt((double)rows / columns);
            struct naive_muon naive = {rows, columns, 0, steps, QUINTIC, 0.9, scale, true, NULL};
            expect_near(&config, shard_whole(2, naive.rows, naive.columns), &naive, 1, 2e-3);
            config_free(&config);
        }
}

static struct config adaptive_config(const char *method) {
    struct config config = make_config("spectral", "quintic", 5, true);
    free(config.run.optimizer);
    free(config.run.adaptive_muon_moment2_method);
    config.run.optimizer = memory_string("adaptive_muon");
    config.run.adaptive_muon_moment2_method = memory_string(method);
    config.run.muon_extra_scale_factor = 0.2;
    return config;
}

// Wide, tall and square matrices, whose second moments are of columns and of rows; and three in one tensor.
TEST(second_moments_beside_a_loop_in_double) {
    static const struct { int rows, columns; } sides[] = {{9, 13}, {21, 4}, {8, 8}, {1, 7}, {5, 1}};
    static const char *const methods[] = {"adamuon", "normuon"};
    for (size_t i = 0; i < 2 * sizeof sides / sizeof sides[0]; i++) {
        int M = sides[i / 2].rows, N = sides[i / 2].columns;
        struct config config = adaptive_config(methods[i % 2]);
        struct naive_muon naive = {M, N, 0, 5, QUINTIC, 0.9, 0.2 * sqrt(M > N ? M : N), true, methods[i % 2]};
        expect_naive(&config, shard_whole(2, M, N), &naive, 1);
        config_free(&config);
    }
    struct shard packed = shard_whole(2, 12, 10);
    packed.segment_count = 3;
    memcpy(packed.segments, (int64_t[]){6, 3, 3}, sizeof packed.segments);
    struct config config = adaptive_config("normuon");
    struct naive_muon parts[] = {{6, 10, 0, 5, QUINTIC, 0.9, 0.2 * sqrt(10), true, "normuon"},
                                 {3, 10, 6, 5, QUINTIC, 0.9, 0.2 * sqrt(10), true, "normuon"},
                                 {3, 10, 9, 5, QUINTIC, 0.9, 0.2 * sqrt(10), true, "normuon"}};
    expect_naive(&config, packed, parts, 3);
    config_free(&config);
}

static double distance_of(const double *a, const double *b, int64_t count) {
    double difference = 0, length = 0;
    for (int64_t n = 0; n < count; n++) {
        difference += (a[n] - b[n]) * (a[n] - b[n]);
        length += a[n] * a[n];
    }
    return sqrt(difference / length);
}

// AdaMuon divides each element by its own size, so elements near 0 follow the last bits of the gradients, which depend
// on the layout of ranks: in double, too, changing them moves some weights by more than 1e-5 of their length, with Muon
// and NorMuon by less. Ours are no farther from the loop in double than that.
TEST(last_bits_of_gradients) {
    enum { M = 24, N = 16, SEEDS = 12 };
    static const char *const methods[] = {NULL, "normuon", "adamuon"};
    update_count = 2;
    for (int k = 0; k < 3; k++) {
        double theirs = 0, ours = 0;
        struct config config = k > 0 ? adaptive_config(methods[k]) : make_config("spectral", "quintic", 5, true);
        config.run.muon_extra_scale_factor = 0.2;
        struct naive_muon naive = {M, N, 0, 5, QUINTIC, 0.9, 0.2 * sqrt(M), true, methods[k]};
        for (int seed = 0; seed < SEEDS; seed++) {
            double w[3][M * N];
            token_seed = seed + 1;
            for (int i = 0; i < 3; i++) {
                for (int64_t n = 0; n < M * N; n++)
                    w[i][n] = weight_of(n);
                has_other_bits = i == 1;
                if (i < 2)
                    naive_updates(&naive, w[i]);
            }
            has_other_bits = false;
            struct optim_lab lab;
            open_lab(&lab, &config, shard_whole(2, M, N), DTYPE_F32);
            const float *found = run_updates(&lab);
            for (int64_t n = 0; n < M * N; n++)
                w[2][n] = (double)found[n];
            optim_lab_close(&lab);
            theirs = fmax(theirs, distance_of(w[0], w[1], M * N));
            ours = fmax(ours, distance_of(w[0], w[2], M * N));
        }
        EXPECT(k < 2 ? theirs < 1e-6 : theirs > 1e-5);
        EXPECT(ours < (k < 2 ? 1e-6 : 3 * theirs));
        config_free(&config);
    }
    token_seed = 0;
    update_count = UPDATES;
}

TEST(queries_keys_and_values_are_matrices_of_their_own) {
    struct shard packed = shard_whole(2, 12, 10);
    packed.segment_count = 3;
    memcpy(packed.segments, (int64_t[]){6, 3, 3}, sizeof packed.segments);
    struct config config = make_config("spectral", "quintic", 5, true);
    struct naive_muon parts[] = {{6, 10, 0, 5, QUINTIC, 0.9, sqrt(10), true, NULL},
                                 {3, 10, 6, 5, QUINTIC, 0.9, sqrt(10), true, NULL},
                                 {3, 10, 9, 5, QUINTIC, 0.9, sqrt(10), true, NULL}};
    expect_naive(&config, packed, parts, 3);
    config.run.muon_no_split_qkv = true;
    struct naive_muon one = {12, 10, 0, 5, QUINTIC, 0.9, sqrt(12), true, NULL};
    expect_naive(&config, packed, &one, 1);
    config_free(&config);
}

TEST(each_of_several_matrices_is_one_of_its_own) {
    struct config config = make_config("spectral", "quintic", 5, false);
    struct naive_muon parts[] = {{4, 10, 0, 5, QUINTIC, 0.9, sqrt(10), false, NULL},
                                 {4, 10, 4, 5, QUINTIC, 0.9, sqrt(10), false, NULL},
                                 {4, 10, 8, 5, QUINTIC, 0.9, sqrt(10), false, NULL}};
    expect_naive(&config, shard_matrices(3, 4, 10), parts, 3);
    config_free(&config);
}

// Every set of coefficients brings singular values of 0.02 to 1 near 1, aol those up to 0.88.
TEST(coefficients_make_matrices_orthogonal) {
    static const struct {
        const char *type;
        int64_t steps;
        double bound;
        float second;  // singular value, beside 1, before both are divided by the norm
    } rows[] = {{"quintic", 5, 0.35, 0.03f}, {"simple", 5, 0.35, 0.03f}, {"polar_express", 8, 0.01, 0.03f},
                {"cans", 8, 0.1, 0.03f},     {"aol", 4, 0.05, 0.9f},     {"deepseekv4", 10, 0.05, 0.03f},
                {"cubic5", 5, 0.25, 0.03f}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct config config = make_config("unit_rms_norm", rows[i].type, rows[i].steps, false);
        struct optim_lab lab;
        open_lab(&lab, &config, shard_whole(2, 2, 2), DTYPE_F32);
        lab.pace = (struct pace){.lr = 1};
        float *weights = lab.params.items[0]->value.data, *grad = lab.params.items[0]->grad.data;
        memset(weights, 0, 4 * sizeof *weights);
        memcpy(grad, (float[]){1, 0, 0, rows[i].second}, 4 * sizeof *grad);
        float rates[UPDATES_MOST_RATES * RATE_LENGTH];
        updates_make_rates(&lab.updates, &lab.pace, 1, rates);
        device_copy_in(lab.device, lab.updates.rates, rates);
        updates_begin(&lab.updates, &lab.update);
        updates_apply(&lab.updates, &lab.update, 0, lab.params.total);
        EXPECT(fabs((double)weights[0] + 1) < rows[i].bound && fabs((double)weights[3] + 1) < rows[i].bound);
        EXPECT(weights[1] == 0 && weights[2] == 0);
        optim_lab_close(&lab);
        config_free(&config);
    }
}

// An update that is skipped changes neither weights nor momentum.
TEST(skipped_updates_change_nothing) {
    struct config config = make_config("spectral", "quintic", 5, false);
    struct optim_lab lab;
    open_lab(&lab, &config, shard_whole(2, 9, 13), DTYPE_F32);
    float *grad = lab.params.items[0]->grad.data, *weights = lab.params.items[0]->value.data;
    const float *m = lab.updates.optimizers[0].states[0].tensor.data;
    grad[5] = NAN;
    float rates[UPDATES_MOST_RATES * RATE_LENGTH];
    updates_make_rates(&lab.updates, &lab.pace, 1, rates);
    device_copy_in(lab.device, lab.updates.rates, rates);
    updates_begin(&lab.updates, &lab.update);
    updates_apply(&lab.updates, &lab.update, 0, lab.params.total);
    for (int64_t n = 0; n < 9 * 13; n++)
        EXPECT(m[n] == 0 && weights[n] == (float)weight_of(n));
    optim_lab_close(&lab);
    config_free(&config);
}

// QK-clip, after every one of the updates: rows of three heads, and rows that belong to all of them.
TEST(rows_are_clipped_after_updates) {
    struct config config = make_config("spectral", "quintic", 5, false);
    static float scores[] = {9, 9, 9, 4, 16, 1};
    struct tensor largest = tensor_1d(scores, DTYPE_F32, 6);
    for (int mixed = 0; mixed < 2; mixed++) {
        struct optim_lab lab;
        open_lab(&lab, &config, shard_whole(2, 9, 13), mixed ? DTYPE_BF16 : DTYPE_F32);
        lab.pace = (struct pace){0};
        struct param *param = lab.params.items[0];
        struct param_clip rows = {.largest = &largest, .first_head = 3, .heads = 3, .threshold = 15};
        param->clip_count = 2;
        param->clips[0] = param->clips[1] = rows;
        param->clips[0].units = 3;
        param->clips[0].unit_rows = param->clips[0].count = 2;
        param->clips[0].power = 0.25;
        param->clips[1].first_row = 6;
        param->clips[1].units = 1;
        param->clips[1].unit_rows = 3;
        param->clips[1].first = 1;
        param->clips[1].count = 1;
        param->clips[1].power = 0.75;
        const float *found = run_updates(&lab);
        for (int64_t n = 0; n < 9 * 13; n++) {
            int64_t row = n / 13;
            double power = row == 2 || row == 3 ? 0.25 : row == 7 ? 0.75 : 0;
            double expected = weight_of(n) * pow(15.0 / 16, power * UPDATES);
            EXPECT(fabs((double)found[n] - expected) < 1e-5 * fabs(expected) + 1e-9);
        }
        optim_lab_close(&lab);
    }
    config_free(&config);
}

// In bf16 an update differs by rounding, about one part in a hundred of the way that the weights went.
TEST(twenty_updates_beside_torch) {
    FILE *file = fopen("tests/golden/muon.txt", "r");
    EXPECT(file);
    int rows, columns, cases = 0;
    char mode[32];
    while (fscanf(file, " case %d %d %31s", &rows, &columns, mode) == 3) {
        struct config config = make_config(mode, "simple", 5, true);
        free(config.run.muon_fp32_matmul_prec);
        config.run.muon_fp32_matmul_prec = memory_string("medium");
        config.run.muon_momentum = 0.95;
        config.run.muon_extra_scale_factor = strcmp(mode, "spectral") == 0 ? 0.2 : 1;
        struct optim_lab lab;
        open_lab(&lab, &config, shard_whole(2, rows, columns), DTYPE_F32);
        const float *found = run_updates(&lab);
        double differences = 0, travels = 0;
        for (int64_t n = 0; n < (int64_t)rows * columns; n++) {
            double expected = 0;
            EXPECT_INT(fscanf(file, "%lf", &expected), 1);
            differences += pow((double)found[n] - expected, 2);
            travels += pow(weight_of(n) - expected, 2);
        }
        EXPECT(sqrt(differences / travels) < 0.03);
        optim_lab_close(&lab);
        config_free(&config);
        cases++;
    }
    fclose(file);
    EXPECT_INT(cases, 8);
}

TEST_MAIN(TEST_CASE(modes_beside_a_loop_in_double), TEST_CASE(twenty_updates_with_every_set_beside_numpy),
          TEST_CASE(tall_matrices), TEST_CASE(two_steps_at_once), TEST_CASE(second_moments_beside_a_loop_in_double),
          TEST_CASE(last_bits_of_gradients), TEST_CASE(queries_keys_and_values_are_matrices_of_their_own),
          TEST_CASE(each_of_several_matrices_is_one_of_its_own), TEST_CASE(coefficients_make_matrices_orthogonal),
          TEST_CASE(skipped_updates_change_nothing), TEST_CASE(rows_are_clipped_after_updates),
          TEST_CASE(twenty_updates_beside_torch))
