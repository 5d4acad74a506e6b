// Sums. Column sums: one task owns a block of columns and adds all rows in order. Sums over a flat range: fixed chunks
// give partial sums in double, which are then added in order.
#include "ops/cpu/cpu.h"
#include "base/error.h"
#include "ops/formulas.h"
#include <math.h>
#include <string.h>

struct column_job {
    float *out;      // (C)
    const float *x;  // (N, C)
    int64_t rows, columns, block;
};

// Adds eight rows to each other before adding them to the sum: less rounding, and fewer passes over the sum.
CPU_CLONES static void add_columns(const struct column_job *job, int64_t first, int64_t count) {
    const float *x = job->x + first;
    float *out = job->out + first;
    int64_t rows = job->rows, stride = job->columns;
    float sum[CPU_COLUMN_BLOCK] = {0};
    int64_t n = 0;
    for (; n + 8 <= rows; n += 8) {
        const float *r = x + n * stride;
#pragma omp simd
        for (int64_t c = 0; c < count; c++) {
            float a = (r[c] + r[c + stride]) + (r[c + 2 * stride] + r[c + 3 * stride]);
            float b = (r[c + 4 * stride] + r[c + 5 * stride]) + (r[c + 6 * stride] + r[c + 7 * stride]);
            sum[c] += a + b;
        }
    }
    for (; n < rows; n++) {
#pragma omp simd
        for (int64_t c = 0; c < count; c++)
            sum[c] += x[n * stride + c];
    }
#pragma omp simd
    for (int64_t c = 0; c < count; c++)
        out[c] += sum[c];
}

static void column_task(void *context, struct cpu_range range) {
    const struct column_job *job = context;
    add_columns(job, range.first, range.end - range.first);
}

void cpu_add_column_sums(struct device *device, struct tensor out, struct tensor x) {
    struct column_job job = {out.data, x.data, x.shape[0], x.shape[1], cpu_column_block(device, x.shape[1])};
    cpu_run_ranges(device, job.columns, job.block, column_task, &job);
}

void cpu_column_sum(struct device *device, const struct op_column_sum *op) {
    cpu_add_column_sums(device, op->out, op->x);
}

// A flat range is cut into at most this many chunks; larger ranges have larger chunks.
enum { DOT_MAX_CHUNKS = 1024, DOT_MIN_CHUNK = 16384, DOT_BLOCK = 1024 };

struct dot_job {
    const float *a, *b;  // (n)
    int64_t count, chunk;
    double partial[DOT_MAX_CHUNKS];
};

CPU_CLONES static float dot_block(const float *a, const float *b, int64_t count) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

// Blocks of a thousand elements are added in fp32, as vectors; from there on the sum is a double.
static void dot_task(void *context, int64_t index, int thread) {
    (void)thread;
    struct dot_job *job = context;
    struct cpu_range range = cpu_piece(job->count, job->chunk, index);
    double sum = 0;
    for (int64_t i = range.first; i < range.end; i += DOT_BLOCK) {
        int64_t count = range.end - i < DOT_BLOCK ? range.end - i : DOT_BLOCK;
        sum += (double)dot_block(job->a + i, job->b + i, count);
    }
    job->partial[index] = sum;
}

static void add_dot(struct device *device, struct tensor out, struct tensor a, struct tensor b) {
    struct dot_job job;
    job.a = a.data;
    job.b = b.data;
    job.count = tensor_count(a);
    job.chunk = cpu_pieces(job.count, DOT_MAX_CHUNKS);
    if (job.chunk < DOT_MIN_CHUNK)
        job.chunk = DOT_MIN_CHUNK;
    int64_t chunks = cpu_pieces(job.count, job.chunk);
    CHECK(chunks <= DOT_MAX_CHUNKS);
    cpu_run(device, chunks, dot_task, &job);
    double sum = 0;
    for (int64_t i = 0; i < chunks; i++)
        sum += job.partial[i];
    float *result = out.data;
    *result = (float)((double)*result + sum);
}

void cpu_dot(struct device *device, const struct op_dot *op) {
    add_dot(device, op->out, op->a, op->b);
}

void cpu_sum_squares(struct device *device, const struct op_sum_squares *op) {
    add_dot(device, op->out, op->x, op->x);
}

enum { WORD_BYTES = 8 };

struct digest_job {
    const unsigned char *bytes;
    int64_t count, chunk;  // bytes; a chunk is a multiple of eight
    uint64_t seed, partial[DOT_MAX_CHUNKS];
};

static void digest_task(void *context, int64_t index, int thread) {
    (void)thread;
    struct digest_job *job = context;
    struct cpu_range range = cpu_piece(job->count, job->chunk, index);
    uint64_t sum = 0, word = 0;
    int64_t at = range.first;
    for (; at + WORD_BYTES <= range.end; at += WORD_BYTES) {
        memcpy(&word, job->bytes + at, WORD_BYTES);
        sum += digest_word(word, (uint64_t)at / WORD_BYTES, job->seed);
    }
    word = 0;
    if (at < range.end) {
        memcpy(&word, job->bytes + at, (size_t)(range.end - at));
        sum += digest_word(word, (uint64_t)at / WORD_BYTES, job->seed);
    }
    job->partial[index] = sum;
}

void cpu_digest(struct device *device, const struct op_digest *op) {
    struct digest_job job = {.bytes = op->x.data, .count = (int64_t)tensor_bytes(op->x), .seed = op->seed};
    job.chunk = cpu_pieces(cpu_pieces(job.count, DOT_MAX_CHUNKS), WORD_BYTES) * WORD_BYTES;
    if (job.chunk < DOT_MIN_CHUNK)
        job.chunk = DOT_MIN_CHUNK;
    int64_t chunks = cpu_pieces(job.count, job.chunk);
    cpu_run(device, chunks, digest_task, &job);
    uint64_t sum = 0;
    for (int64_t i = 0; i < chunks; i++)
        sum += job.partial[i];
    int64_t *result = op->out.data;
    *result = (int64_t)((uint64_t)*result + sum);
}

// Changes the loss scale after a step; see ops.h.
static void move_loss_scale(float *state, bool is_good, const struct loss_scale_rule *rule) {
    state[LOSS_SCALE_STEPS] = is_good ? state[LOSS_SCALE_STEPS] + 1 : 0;
    if (!is_good) {
        state[LOSS_SCALE_TOLERANCE] -= 1;
        if (state[LOSS_SCALE_TOLERANCE] <= 0)
            state[LOSS_SCALE_FACTOR] = fmaxf(state[LOSS_SCALE_FACTOR] * 0.5f, rule->least);
    } else if (state[LOSS_SCALE_STEPS] == (float)rule->window) {
        state[LOSS_SCALE_FACTOR] *= 2;
        state[LOSS_SCALE_STEPS] = 0;
        state[LOSS_SCALE_TOLERANCE] = (float)rule->hysteresis;
    }
}

// Copies the row for the current number of skipped steps; the caller has a row for every possible number.
static void take_rate(const struct op_clip_scale *op) {
    const float *row = op->rates.data, *end = row + tensor_count(op->rates), *skipped = op->skipped.data;
    int64_t length = tensor_count(op->rate);
    while (row + length < end && row[RATE_SKIPPED] < *skipped)
        row += length;
    memcpy(op->rate.data, row, tensor_bytes(op->rate));
}

void cpu_clip_scale(struct device *device, const struct op_clip_scale *op) {
    (void)device;
    float *state = op->loss_scale.data, loss_scale = state ? state[LOSS_SCALE_FACTOR] : 1;
    float norm = sqrtf(*(const float *)op->sum_squares.data) / loss_scale;
    float ratio = op->max_norm / (norm + 1e-6f);
    float scale = op->max_norm > 0 && ratio < 1 ? ratio : 1.0f;
    if (!isfinite(norm))
        scale = NAN;
    *(float *)op->norm.data = norm;
    *(float *)op->scale.data = scale / loss_scale;
    if (op->rate.data) {
        take_rate(op);
        *(float *)op->skipped.data += isfinite(norm) ? 0.0f : 1.0f;
    }
    if (state && op->rule.window > 0)
        move_loss_scale(state, isfinite(norm), &op->rule);
}
