// A mixture of experts in fp8 by blocks, forward and backward, against an emulation in double that quantizes every
// operand by itself: rows along the dimension that is summed over, those of gradients of weights along the places of an
// expert, weights as one matrix for each expert.
#include "base/rng.h"
#include "model/init.h"
#include "model/sublayer.h"
#include "ops/device.h"
#include "tensor/float8.h"
#include "test.h"

enum { N = 160, C = 144, F = 80, W = 2 * F, E = 5, K = 2, SLOTS = N * K, R = 1024, BYTES = 64 << 20 };

struct block_rule {
    struct fp8 fp8;
    int64_t length, height;  // of blocks of rows; blocks of weights have this height
    bool is_plain;           // nothing is quantized
};

// Values of the numbers of (rows, columns) after they are stored in blocks of that size.
static double *stored(const struct block_rule *rule, enum dtype dtype, const double *x, const int64_t shape[2],
                      const int64_t block[2]) {
    int64_t rows = shape[0], columns = shape[1];
    double *out = malloc(sizeof *out * (size_t)(rows * columns)), largest = dtype == DTYPE_E4M3 ? 448 : 57344;
    memcpy(out, x, sizeof *out * (size_t)(rows * columns));
    for (int64_t i = 0; i < rows && !rule->is_plain; i += block[0])
        for (int64_t j = 0; j < columns; j += block[1]) {
            int64_t last_row = i + block[0] < rows ? i + block[0] : rows;
            int64_t last = j + block[1] < columns ? j + block[1] : columns;
            double most = 0, factor = ldexp(1, -120);
            for (int64_t r = i; r < last_row; r++)
                for (int64_t c = j; c < last; c++)
                    most = fmax(most, fabs(x[r * columns + c]));
            while (most > largest * factor)
                factor *= 2;
            for (int64_t r = i; r < last_row && most > 0; r++)
                for (int64_t c = j; c < last; c++)
                    out[r * columns + c] =
                        (double)float8_decode(dtype, float8_encode(dtype, (float)(x[r * columns + c] / factor))) *
                        factor;
        }
    return out;
}

// Operands of a matmul over columns, and of one over rows.
static double *by_rows(const struct block_rule *rule, enum dtype dtype, const double *x, int64_t columns) {
    return stored(rule, dtype, x, (const int64_t[2]){R, columns}, (const int64_t[2]){1, rule->length});
}
static double *by_places(const struct block_rule *rule, enum dtype dtype, const double *x, int64_t columns) {
    return stored(rule, dtype, x, (const int64_t[2]){R, columns}, (const int64_t[2]){rule->length, 1});
}

// Weights of all experts (E, rows, columns): as the forward pass reads them, or the backward pass.
static double *weights(const struct block_rule *rule, const float *w, int64_t rows, int64_t columns, bool is_backward) {
    double *all = malloc(sizeof *all * (size_t)(E * rows * columns)), *x = malloc(sizeof *x * (size_t)(rows * columns));
    int64_t down = rule->height, across = rule->length;
    for (int64_t e = 0; e < E; e++) {
        for (int64_t i = 0; i < rows * columns; i++)
            x[i] = (double)w[e * rows * columns + i];
        double *one = stored(rule, DTYPE_E4M3, x, (const int64_t[2]){rows, columns},
                             (const int64_t[2]){is_backward ? across : down, is_backward ? down : across});
        memcpy(all + e * rows * columns, one, sizeof *one * (size_t)(rows * columns));
        free(one);
    }
    free(x);
    return all;
}

struct mixture {
    struct device *device;
    struct mesh mesh;
    struct choices choices;
    struct param_list params;
    struct sublayer *sublayer;
    void *saved;
    struct pass pass;
    struct device_batch batch;
    unsigned char *memory[3];
    struct arena arenas[3];
    float *values, *grads;
    float x[N * C], delta[N * C], dx[N * C], ddelta[N * C];
};

static const float *of(const struct mixture *m, const char *name, bool is_grad) {
    char full[64];
    (void)snprintf(full, sizeof full, "mlp.%s.weight", name);
    const struct param *param = param_find(&m->params, full);
    EXPECT(param != NULL);
    return is_grad ? param->grad.data : param->value.data;
}

static void open_mixture(struct mixture *m, struct fp8 *fp8) {
    m->choices = (struct choices){.C = C,
                                  .activation = ACTIVATION_SILU,
                                  .is_gated = true,
                                  .standard_deviation = 0.1,
                                  .experts = {.E = E, .K = K, .F = F, .ranks = 1, .slices = 1, .rule = {.factor = 1}},
                                  .parts = 1,
                                  .kv_ranks = 1};
    const struct layer_choices layer = {.fp8 = fp8, .expert_fp8 = fp8};
    EXPECT_OK(mesh_place(&m->mesh, 0, 1, NULL));
    EXPECT_OK(device_open(&m->device, &(struct device_options){.name = "cpu", .threads = 2}));
    m->sublayer = calloc(1, sublayer_experts.bytes);
    m->saved = calloc(1, sublayer_experts.saved_bytes);
    sublayer_experts.build(m->sublayer, &m->params, "mlp",
                           &(struct sublayer_options){.choices = &m->choices, .layer = &layer, .layers = 1});
    param_list_layout(&m->params);
    m->values = calloc((size_t)m->params.total, sizeof *m->values);
    m->grads = calloc((size_t)m->params.total, sizeof *m->grads);
    param_list_bind(&m->params, tensor_1d(m->values, DTYPE_F32, m->params.total),
                    tensor_1d(m->grads, DTYPE_F32, m->params.total));
    init_params(m->device, &m->params, (struct tensor){0}, 7);
    for (int i = 0; i < 3; i++) {
        m->memory[i] = aligned_alloc(ARENA_ALIGNMENT, BYTES);
        arena_init(&m->arenas[i], "test", m->memory[i], BYTES);
    }
    fp8_lay_out(fp8, &m->arenas[2]);
    m->pass = (struct pass){.device = m->device,
                            .mesh = &m->mesh,
                            .activations = &m->arenas[0],
                            .scratch = &m->arenas[1],
                            .dtype = DTYPE_F32,
                            .B = 1,
                            .T = N,
                            .is_training = true,
                            .is_first = true,
                            .batch = &m->batch};
    fp8_begin_step(fp8, m->device);
    philox_normal(m->x, N * C, 0, 1, 1, 1.0);
    philox_normal(m->ddelta, N * C, 0, 2, 1, 1.0);
    for (int i = 0; i < N * C; i++)  // blocks whose largest numbers differ
        m->x[i] *= (float)ldexp(1, i % 7 - 3), m->ddelta[i] *= (float)ldexp(1, i / C % 5 - 2);
    sublayer_experts.forward(m->sublayer, &m->pass, m->saved, tensor_2d(m->delta, DTYPE_F32, N, C),
                             operand_of(tensor_2d(m->x, DTYPE_F32, N, C)));
    (void)sublayer_experts.backward(m->sublayer, &m->pass, m->saved, tensor_2d(m->dx, DTYPE_F32, N, C),
                                    tensor_2d(m->ddelta, DTYPE_F32, N, C));
}

static void close_mixture(struct mixture *m) {
    free(m->sublayer);
    free(m->saved);
    param_list_free(&m->params);
    free(m->values);
    free(m->grads);
    for (int i = 0; i < 3; i++)
        free(m->memory[i]);
    device_close(m->device);
}

// The slot at a place, and its expert; the weights of slots.
struct routes {
    int slot[R], expert[R], chosen[SLOTS];
    double weight[SLOTS];
};

static void route(const struct mixture *m, int64_t length, struct routes *routes) {
    const float *router = of(m, "router", false);
    for (int n = 0; n < N; n++) {
        double logits[E] = {0}, best[K];
        for (int i = 0; i < E * C; i++)
            logits[i / C] += (double)router[i] * (double)m->x[n * C + i % C];
        for (int k = 0; k < K; k++) {
            int at = 0;
            for (int e = 1; e < E; e++)
                at = logits[e] > logits[at] ? e : at;
            routes->chosen[n * K + k] = at;
            best[k] = logits[at];
            logits[at] = -INFINITY;
        }
        routes->weight[n * K] = 1 / (1 + exp(best[1] - best[0]));
        routes->weight[n * K + 1] = 1 - routes->weight[n * K];
    }
    int place = 0;
    for (int e = 0; e < E; e++) {
        for (int s = 0; s < SLOTS; s++)
            if (routes->chosen[s] == e)
                routes->expert[place] = e, routes->slot[place++] = s;
        for (; place % length != 0; place++)
            routes->expert[place] = e, routes->slot[place] = -1;
    }
    for (; place < R; place++)
        routes->expert[place] = routes->slot[place] = -1;
}

// y (R, to) = x (R, from) times the transpose of w (E, to, from), or times w (E, from, to).
static double *times(const struct routes *routes, const double *x, const double *w, int64_t from, int64_t to,
                     bool is_transposed) {
    double *y = calloc((size_t)(R * to), sizeof *y);
    for (int64_t r = 0; r < R; r++)
        for (int64_t i = 0; i < from * to && routes->expert[r] >= 0; i++) {
            int64_t a = i / to, b = i % to, at = is_transposed ? b * from + a : i;
            y[r * to + b] += x[r * from + a] * w[routes->expert[r] * from * to + at];
        }
    return y;
}

static double *rows_at(const struct routes *routes, const float *x) {
    double *y = calloc(R * C, sizeof *y);
    for (int64_t i = 0; i < R * C; i++)
        y[i] = routes->slot[i / C] < 0 ? 0 : (double)x[routes->slot[i / C] / K * C + i % C];
    return y;
}

// The difference of two vectors in parts of the second's length.
static double distance(const float *a, const double *b, int64_t count) {
    double apart = 0, length = 0;
    for (int64_t i = 0; i < count; i++) {
        apart += pow((double)a[i] - b[i], 2);
        length += b[i] * b[i];
    }
    return sqrt(apart / length);
}

static double gradient_distance(const struct routes *routes, const float *grad, const double *dy, const double *x,
                                const int64_t size[2]) {
    double *sums = calloc((size_t)(E * size[0] * size[1]), sizeof *sums);
    for (int64_t r = 0; r < R; r++)
        for (int64_t i = 0; i < size[0] * size[1] && routes->expert[r] >= 0; i++)
            sums[routes->expert[r] * size[0] * size[1] + i] +=
                dy[r * size[0] + i / size[1]] * x[r * size[1] + i % size[1]];
    double apart = distance(grad, sums, E * size[0] * size[1]);
    free(sums);
    return apart;
}

// The activation at every place, (R, F), and with dy its gradient (R, W) and those of the slots' weights.
static double *activate(const struct routes *routes, const double *h, const double *dy, double *dweights) {
    double *out = calloc(R * W, sizeof *out);
    for (int64_t i = 0; i < R * F; i++) {
        int64_t r = i / F, f = i % F, slot = routes->slot[r];
        if (slot < 0)
            continue;
        double gate = h[r * W + f], up = h[r * W + F + f], share = 1 / (1 + exp(-gate)), weight = routes->weight[slot];
        if (!dy) {
            out[i] = weight * gate * share * up;
            continue;
        }
        dweights[slot] += dy[i] * gate * share * up;
        out[r * W + f] = weight * dy[i] * up * share * (1 + gate * (1 - share));
        out[r * W + F + f] = weight * dy[i] * gate * share;
    }
    return out;
}

enum { OF_RESULT, OF_FIRST, OF_SECOND, OF_INPUT, PARTS };

// Adds what places give to their rows.
static void add_places(double *rows, const struct routes *routes, const double *places) {
    for (int64_t i = 0; i < R * C; i++)
        if (routes->slot[i / C] >= 0)
            rows[routes->slot[i / C] / K * C + i % C] += places[i];
}

static void add_router(double *dx, const struct mixture *m, const struct routes *routes, const double *dweights) {
    const float *router = of(m, "router", false);
    for (int s = 0; s < SLOTS; s++) {
        int first = s / K * K;
        double mean = routes->weight[first] * dweights[first] + routes->weight[first + 1] * dweights[first + 1];
        for (int c = 0; c < C; c++)
            dx[s / K * C + c] += routes->weight[s] * (dweights[s] - mean) * (double)router[routes->chosen[s] * C + c];
    }
}

// Numbers that are freed together.
struct kept {
    double *items[32];
    int count;
};
static double *keep(struct kept *kept, double *numbers) {
    return kept->items[kept->count++] = numbers;
}

// Deviation of the computed result from the emulation.
static void emulate(const struct mixture *m, const struct block_rule *rule, double distances[PARTS]) {
    static struct routes routes;
    enum dtype values = DTYPE_E4M3, slopes = rule->fp8.gradients;
    const float *fc1 = of(m, "experts.linear_fc1", false), *fc2 = of(m, "experts.linear_fc2", false);
    double dweights[SLOTS] = {0};
    struct kept kept = {.count = 0}, *k = &kept;
    double *result = keep(k, calloc(N * C, sizeof *result)), *dinput = keep(k, calloc(N * C, sizeof *dinput));
    route(m, rule->length, &routes);
    double *x = keep(k, rows_at(&routes, m->x)), *dy = keep(k, rows_at(&routes, m->ddelta));
    double *w = keep(k, weights(rule, fc1, W, C, false)), *from = keep(k, by_rows(rule, values, x, C));
    double *h = keep(k, times(&routes, from, w, C, W, true));
    double *after = keep(k, activate(&routes, h, NULL, NULL));
    w = keep(k, weights(rule, fc2, C, F, false)), from = keep(k, by_rows(rule, values, after, F));
    add_places(result, &routes, keep(k, times(&routes, from, w, F, C, true)));
    w = keep(k, weights(rule, fc2, C, F, true)), from = keep(k, by_rows(rule, slopes, dy, C));
    double *dh = keep(k, activate(&routes, h, keep(k, times(&routes, from, w, C, F, false)), dweights));
    w = keep(k, weights(rule, fc1, W, C, true)), from = keep(k, by_rows(rule, slopes, dh, W));
    add_places(dinput, &routes, keep(k, times(&routes, from, w, W, C, false)));
    add_router(dinput, m, &routes, dweights);
    distances[OF_RESULT] = distance(m->delta, result, N * C);
    distances[OF_INPUT] = distance(m->dx, dinput, N * C);
    distances[OF_FIRST] =
        gradient_distance(&routes, of(m, "experts.linear_fc1", true), keep(k, by_places(rule, slopes, dh, W)),
                          keep(k, by_places(rule, values, x, C)), (const int64_t[2]){W, C});
    distances[OF_SECOND] =
        gradient_distance(&routes, of(m, "experts.linear_fc2", true), keep(k, by_places(rule, slopes, dy, C)),
                          keep(k, by_places(rule, values, after, F)), (const int64_t[2]){C, F});
    while (kept.count > 0)
        free(kept.items[--kept.count]);
}

static void expect_blocks_of(const struct block_rule *rule) {
    struct mixture *m = calloc(1, sizeof *m);
    struct block_rule own = *rule, plain = *rule;
    double exact[PARTS], rounded[PARTS];
    plain.is_plain = true;
    open_mixture(m, &own.fp8);
    emulate(m, rule, exact);
    emulate(m, &plain, rounded);
    for (int i = 0; i < PARTS; i++) {
        printf("    %.1e from the emulation, %.1e from what is not rounded\n", exact[i], rounded[i]);
        EXPECT(exact[i] < 1e-3 && rounded[i] > 1e-2);
    }
    fp8_free(&own.fp8);
    close_mixture(m);
    free(m);
}

static struct fp8 fp8_of(enum scaling inputs, enum scaling weights, enum dtype gradients, bool keeps_weights) {
    return (struct fp8){.inputs = inputs,
                        .weights = weights,
                        .values = DTYPE_E4M3,
                        .gradients = gradients,
                        .length = 1,
                        .keeps_weights = keeps_weights};
}

TEST(blocks_of_128) {
    struct fp8 fp8 = fp8_of(SCALING_VECTOR128, SCALING_BLOCK128, DTYPE_E4M3, false);
    expect_blocks_of(&(struct block_rule){.fp8 = fp8, .length = 128, .height = 128});
}

TEST(blocks_of_32) {
    struct fp8 fp8 = fp8_of(SCALING_VECTOR32, SCALING_VECTOR32, DTYPE_E5M2, true);
    expect_blocks_of(&(struct block_rule){.fp8 = fp8, .length = 32, .height = 1});
}

TEST_MAIN(TEST_CASE(blocks_of_128), TEST_CASE(blocks_of_32))
