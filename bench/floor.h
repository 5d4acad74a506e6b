// The matrix products of a training step of a GPT, Llama or BERT, and the time OpenBLAS itself takes for them with its
// own threads: the floor that no step can go below. For each layer forward, input gradient and weight gradient of the
// four linear layers (qkv, attention output, two of the MLP), then the same three for BERT's transform and for the
// output head. Attention is not in.
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include "base/clock.h"
#include "base/error.h"
#include <cblas.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

// d (rows, columns) = op(a) op(b), row-major, rows contiguous.
struct product {
    const char *name;
    int64_t rows, columns, inner;
    bool transpose_a, transpose_b;
    const float *a, *b;
    float *d;
};

struct gpt_products {
    struct product *list;
    int64_t count;
    double flops;
    float *weights, *gradients;      // one block each, all layers behind each other
    float *input, *output, *dinput;  // (N, widest)
};

// Memory as the CPU backend has it, on huge pages where the system gives them.
static inline float *products_alloc(int64_t count) {
    float *memory = NULL;
    size_t bytes = (size_t)count * sizeof *memory;
    if (posix_memalign((void **)&memory, (size_t)2 << 20, bytes) != 0)
        die("no memory for %lld floats", (long long)count);
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
    for (int64_t i = 0; i < count; i++)
        memory[i] = (float)(i * 2654435761u % 1000) * 1e-3f - 0.5f;
    return memory;
}

// x (N, in) W^T (out, in) = y (N, out); dx = dy W; dW = dy^T x.
static inline void products_add_linear(struct gpt_products *p, const char *name, int64_t N, int64_t in, int64_t out,
                                       int64_t offset) {
    float *weight = p->weights + offset, *gradient = p->gradients + offset;
    p->list[p->count++] = (struct product){name, N, out, in, false, true, p->input, weight, p->output};
    p->list[p->count++] = (struct product){name, N, in, out, false, false, p->output, weight, p->dinput};
    p->list[p->count++] = (struct product){name, out, in, N, true, false, p->output, p->input, gradient};
    p->flops += 6.0 * (double)N * (double)in * (double)out;
}

// The widths of a model's linear layers. Of a gated MLP the two first matrices are one product.
struct products_shape {
    int64_t L, C, V, N;     // layers, hidden size, vocabulary, tokens of a step
    int64_t q, kv, F;       // widths of queries, of keys and of the MLP
    bool gated, transform;  // MLP with a gate; head with BERT's dense layer in front
};

static inline struct gpt_products gpt_products_create(const struct products_shape *s) {
    struct gpt_products p = {0};
    int64_t C = s->C, N = s->N, qkv = s->q + 2 * s->kv, fc1 = s->gated ? 2 * s->F : s->F;
    int64_t widths[] = {C, qkv, fc1, s->V}, widest = 0;
    for (int i = 0; i < 4; i++)
        widest = widths[i] > widest ? widths[i] : widest;
    int64_t input = s->q > C ? s->q : C, count = 12 * s->L + 6, offset = 0;
    input = s->F > input ? s->F : input;
    int64_t parameters = s->L * C * (qkv + s->q + fc1 + s->F) + C * C + s->V * C;
    p.list = calloc((size_t)count, sizeof *p.list);
    if (!p.list)
        die("no memory for %lld products", (long long)count);
    p.weights = products_alloc(parameters);
    p.gradients = products_alloc(parameters);
    p.input = products_alloc(N * input);
    p.output = products_alloc(N * widest);
    p.dinput = products_alloc(N * input);
    for (int64_t layer = 0; layer < s->L; layer++) {
        products_add_linear(&p, "qkv", N, C, qkv, offset);
        products_add_linear(&p, "proj", N, s->q, C, offset += C * qkv);
        products_add_linear(&p, "fc1", N, C, fc1, offset += C * s->q);
        products_add_linear(&p, "fc2", N, s->F, C, offset += C * fc1);
        offset += C * s->F;
    }
    if (s->transform) {
        products_add_linear(&p, "transform", N, C, C, offset);
        offset += C * C;
    }
    products_add_linear(&p, "head", N, C, s->V, offset);
    return p;
}

static inline void gpt_products_free(struct gpt_products *p) {
    free(p->list);
    free(p->weights);
    free(p->gradients);
    free(p->input);
    free(p->output);
    free(p->dinput);
}

// The distance of the rows of an operand that is (m, n) after an optional transposition.
static inline int64_t product_stride(bool transpose, int64_t m, int64_t n) {
    return transpose ? m : n;
}

static inline void product_run_blas(const struct product *p) {
    cblas_sgemm(CblasRowMajor, p->transpose_a ? CblasTrans : CblasNoTrans, p->transpose_b ? CblasTrans : CblasNoTrans,
                (blasint)p->rows, (blasint)p->columns, (blasint)p->inner, 1.0f, p->a,
                (blasint)product_stride(p->transpose_a, p->rows, p->inner), p->b,
                (blasint)product_stride(p->transpose_b, p->inner, p->columns), 0.0f, p->d, (blasint)p->columns);
}

// All products once, in OpenBLAS with this many threads of its own.
static inline double gpt_products_run_blas(const struct gpt_products *p, int threads) {
    openblas_set_num_threads(threads);
    double start = clock_seconds();
    for (int64_t i = 0; i < p->count; i++)
        product_run_blas(&p->list[i]);
    double seconds = clock_seconds() - start;
    openblas_set_num_threads(1);
    return seconds;
}

// The fastest of `repeats` runs, in seconds, after one to warm up.
static inline double gpt_products_seconds(const struct products_shape *shape, int threads, int repeats) {
    struct gpt_products p = gpt_products_create(shape);
    double best = INFINITY;
    for (int i = 0; i <= repeats; i++) {
        double seconds = gpt_products_run_blas(&p, threads);
        if (i > 0 && seconds < best)
            best = seconds;
    }
    gpt_products_free(&p);
    return best;
}

#endif
