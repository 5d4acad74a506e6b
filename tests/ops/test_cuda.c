// The CUDA backend: the cases that all backends share, in fp32 and in bf16; runs that repeat bit for bit; tensors of
// more than 2^31 elements; streams and memory. Skipped without a GPU. Larger shapes: test_cuda_compare.c.
#include "cases.h"
#include "cases_large.h"
#include "cases_large_attention.h"
#include "base/buffer.h"
#include "base/file.h"
#include "base/memory.h"
#include "ops/cuda_module.h"
#include "twin.h"

// Backward takes sum(dout * out) from the rounded out, which a slope does not reflect: if a query sees few keys, the
// difference is large. The cases that compare with the formula start from the same rounded out.
static const double BF16_SLOPE_TOLERANCE = 0.12, FP16_SLOPE_TOLERANCE = 0.015;
// Tensor cores also take weights and score gradients in bf16: the largest error was 1.9e-2 in one of 48,000 values
// (2026-11-15).
static const double BF16_ATTENTION_TOLERANCE = 2.4e-2;

static void run_case(void (*run)(struct lab *lab), enum dtype dtype, double tolerance) {
    struct device *gpu = gpu_open();
    struct lab lab;
    lab_open(&lab, gpu, dtype, tolerance);
    run(&lab);
    lab_close(&lab);
    device_close(gpu);
}

static bool is_attention(const char *name) {
    return strncmp(name, "attention", strlen("attention")) == 0;
}

static double tolerance_of(const char *name, enum dtype dtype) {
    bool is_slope = strcmp(name, "attention_slope") == 0;
    if (dtype == DTYPE_F32)
        return is_attention(name) ? FP32_LONG_TOLERANCE : FP32_TOLERANCE;
    if (dtype == DTYPE_F16)
        return is_slope ? FP16_SLOPE_TOLERANCE : FP16_TOLERANCE;
    return is_slope ? BF16_SLOPE_TOLERANCE : is_attention(name) ? BF16_ATTENTION_TOLERANCE : BF16_TOLERANCE;
}

#define CASE_TEST(name)                                                                                                \
    TEST(fp32_##name) {                                                                                                \
        run_case(case_##name, DTYPE_F32, tolerance_of(#name, DTYPE_F32));                                              \
    }                                                                                                                  \
    TEST(bf16_##name) {                                                                                                \
        run_case(case_##name, DTYPE_BF16, tolerance_of(#name, DTYPE_BF16));                                            \
    }                                                                                                                  \
    TEST(fp16_##name) {                                                                                                \
        if (lab_is_tiny())                                                                                             \
            test_skip("kernels are those of bf16 with another type");                                                  \
        run_case(case_##name, DTYPE_F16, tolerance_of(#name, DTYPE_F16));                                              \
    }
EACH_CASE(CASE_TEST)

// Runs the backward pass of attention and of the embedding, and keeps their results. With a workspace attention may
// store its dropout; without one it must draw the same again.
static unsigned char *gradients_once(struct device *gpu, size_t *bytes, bool has_workspace) {
    enum { B = 2, T = 130, H = 4, G = 2, D = 64, V = 37 };
    struct lab lab;
    lab_open(&lab, gpu, DTYPE_BF16, 1);
    const int64_t query_shape[4] = {B, T, H, D}, key_shape[4] = {B, T, G, D};
    struct tensor dq = lab_4d(&lab, query_shape, 0).t, dk = lab_4d(&lab, key_shape, 0).t;
    struct tensor dv = lab_4d(&lab, key_shape, 0).t;
    struct tensor dtable = lab_fp32_2d(&lab, V, H * D, 1).t;
    struct tensor lse = arena_3d(&lab.arena, DTYPE_F32, B, H, T), scratch = arena_3d(&lab.arena, DTYPE_F32, B, H, T);
    struct tensor q = lab_4d(&lab, query_shape, 1).t, k = lab_4d(&lab, key_shape, 1).t;
    struct tensor v = lab_4d(&lab, key_shape, 1).t;
    struct tensor out = lab_4d(&lab, query_shape, 1).t, dout = lab_4d(&lab, query_shape, 1).t;
    struct dropout dropout = lab_dropout(&lab, 0.1f, B * T);
    struct tensor workspace = {0};
    if (has_workspace)
        workspace =
            arena_1d(&lab.arena, DTYPE_U8, attention_workspace_bytes(q, k, v, &(struct attention_mask){.window = 0}));
    int32_t *tokens = text_tokens(B * T, V);
    op_attention_forward(
        gpu,
        &(struct op_attention_forward){
            .out = out, .lse = lse, .q = q, .k = k, .v = v, .scale = 0.125f, .is_causal = true, .dropout = dropout});
    op_attention_backward(gpu, &(struct op_attention_backward){.dq = dq,
                                                               .dk = dk,
                                                               .dv = dv,
                                                               .dout = dout,
                                                               .out = out,
                                                               .lse = lse,
                                                               .scratch = scratch,
                                                               .workspace = workspace,
                                                               .q = q,
                                                               .k = k,
                                                               .v = v,
                                                               .scale = 0.125f,
                                                               .is_causal = true,
                                                               .dropout = dropout});
    op_embedding_backward(gpu, &(struct op_embedding_backward){.dtable = dtable,
                                                               .dout = tensor_reshape_2d(dout, B * T, H * D),
                                                               .tokens = lab_ints(&lab, B * T, tokens)});
    free(tokens);
    // All outputs are at the start of the arena, one after another.
    *bytes = (size_t)((unsigned char *)lse.data - (unsigned char *)dq.data);
    unsigned char *result = malloc(*bytes);
    EXPECT(result != NULL);
    device_copy_out(gpu, result, tensor_1d(dq.data, DTYPE_U8, (int64_t)*bytes));
    lab_close(&lab);
    return result;
}

TEST(runs_repeat_to_the_bit) {
    struct device *gpu = gpu_open();
    size_t bytes = 0;
    unsigned char *first = gradients_once(gpu, &bytes, false);
    for (int i = 0; i < 5; i++) {
        unsigned char *again = gradients_once(gpu, &bytes, i % 2 == 0);
        EXPECT(memcmp(first, again, bytes) == 0);
        free(again);
    }
    free(first);
    device_close(gpu);
}

// Under a checker the same with few elements. The room beside the tensors is for what cuBLASLt and kernels take when
// they are loaded.
static void run_large(void (*run)(struct large *large), int64_t bytes_of_element) {
    struct device *gpu = gpu_open();
    struct large large;
    int64_t elements = is_small() ? 1 << 14 : (int64_t)1 << 31;
    size_t needed = large_bytes(elements, bytes_of_element) + ((size_t)1 << 30), room = device_room(gpu);
    if (room < needed) {
        device_close(gpu);
        test_skip("needs %.1f GB on the GPU, %.1f GB are free", (double)needed / 1e9, (double)room / 1e9);
    }
    large_open(&large, gpu, elements, bytes_of_element);
    run(&large);
    if (cuda_module()->cudnn_passes(gpu) > 0)
        printf("    cuDNN did %d passes in %d calls\n", (int)cuda_module()->cudnn_passes(gpu),
               (int)cuda_module()->cudnn_parts(gpu));
    large_close(&large);
    device_close(gpu);
}

#define LARGE_TEST(name, bytes_of_element)                                                                             \
    TEST(more_than_31_bits_##name) {                                                                                   \
        run_large(large_##name, bytes_of_element);                                                                     \
    }
EACH_LARGE_CASE(LARGE_TEST)

// The work of the next test on x (N, N): a matmul, a norm, a copy, a sum and a scale by it.
struct recorded {
    struct tensor x, weight, product, normed, gain, rstd, copy, sum;
};

static void do_work(struct device *gpu, const struct recorded *r) {
    device_zero(gpu, r->sum);
    op_matmul(gpu,
              &(struct op_matmul){.a = r->x, .b = r->weight, .d = r->product, .transpose_b = true, .alpha = 0.01f});
    op_norm_forward(
        gpu,
        &(struct op_norm_forward){
            .kind = NORM_RMS, .y = r->normed, .rstd = r->rstd, .x = r->product, .gain = r->gain, .epsilon = 1e-5f});
    op_copy(gpu, &(struct op_copy){.dst = r->copy, .src = r->normed});
    op_sum_squares(gpu, &(struct op_sum_squares){.out = r->sum, .x = tensor_flat(r->copy)});
    op_scale(gpu, &(struct op_scale){.x = tensor_flat(r->copy), .factor = 0.5f, .by = r->sum});
}

// Recording executes nothing; a replay gives the same bits as the calls, on the memory's current content.
TEST(recordings) {
    enum { N = 96, ROUNDS = 3 };
    struct device *gpu = gpu_open();
    unsigned char *memory = device_alloc(gpu, (size_t)8 << 20);
    float *host = malloc(sizeof *host * N * N), *plain = malloc(sizeof *host * N * N);
    EXPECT(memory && host && plain && device_records(gpu));
    struct arena arena;
    arena_init(&arena, "test", memory, (size_t)8 << 20);
    // initcheck does not see what cuBLASLt's kernels write to the result.
    device_zero(gpu, tensor_1d(memory, DTYPE_U8, 8 << 20));
    struct recorded r = {.x = arena_2d(&arena, DTYPE_BF16, N, N),
                         .weight = arena_2d(&arena, DTYPE_BF16, N, N),
                         .product = arena_2d(&arena, DTYPE_BF16, N, N),
                         .normed = arena_2d(&arena, DTYPE_BF16, N, N),
                         .gain = arena_1d(&arena, DTYPE_BF16, N),
                         .rstd = arena_1d(&arena, DTYPE_F32, N),
                         .copy = arena_2d(&arena, DTYPE_F32, N, N),
                         .sum = arena_1d(&arena, DTYPE_F32, 1)};
    struct tensor wide = arena_2d(&arena, DTYPE_F32, N, N);
    struct recording *recording = NULL;
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < N * N; i++)
            host[i] = (float)((i * 37 + round * 101) % 211 - 105) / 50;
        device_copy_in(gpu, wide, host);
        op_copy(gpu, &(struct op_copy){.dst = r.x, .src = wide});
        op_copy(gpu, &(struct op_copy){.dst = r.weight, .src = wide});
        op_copy(gpu, &(struct op_copy){.dst = r.gain, .src = tensor_rows(tensor_flat(wide), 0, N)});
        device_synchronize(gpu);
        do_work(gpu, &r);
        device_copy_out(gpu, plain, r.copy);
        device_zero(gpu, r.copy);
        if (!recording) {
            device_record_begin(gpu);
            do_work(gpu, &r);
            recording = device_record_end(gpu);
            EXPECT(recording != NULL);
            device_copy_out(gpu, host, r.copy);
            for (int i = 0; i < N * N; i++)
                EXPECT(host[i] == 0);
        }
        device_replay(gpu, recording);
        device_copy_out(gpu, host, r.copy);
        EXPECT(memcmp(host, plain, sizeof *host * N * N) == 0 && plain[0] != 0);
    }
    device_recording_free(gpu, recording);
    device_free(gpu, memory);
    free(host);
    free(plain);
    device_close(gpu);
}

// A layer of experts in the next test: rows to the experts that their logits choose, a matmul, its gradient, and back.
struct recorded_experts {
    struct tensor logits, experts, weights, offsets, sources, places, x, rows, weight, product, out, dweight;
    // In fp8; not on all GPUs. The rows stand for a gradient, too.
    bool is_fp8;
    struct operand rows8, gradient8, weight8;
};

static void multiply_experts(struct device *gpu, const struct recorded_experts *r) {
    struct op_grouped_matmul forward = {.d = r->product, .a = r->rows, .b = r->weight, .offsets = r->offsets};
    struct op_grouped_matmul gradient = {
        .kind = GROUPED_WEIGHT, .d = r->dweight, .a = r->rows, .b = r->rows, .offsets = r->offsets};
    if (r->is_fp8) {
        struct op_quantize_slots quantize = {.y = r->rows8, .x = r->x, .sources = r->sources, .per_row = 2};
        op_quantize_slots(gpu, &quantize);
        quantize.y = r->gradient8;
        op_quantize_slots(gpu, &quantize);
        const struct tensor *w = &r->weight;
        forward.a = r->rows8.value;
        forward.b = tensor_3d(r->weight8.value.data, DTYPE_E4M3, w->shape[0], w->shape[1], w->shape[2]);
        forward.a_range = gradient.b_range = r->rows8.range;
        forward.b_range = r->weight8.range;
        gradient.a = r->gradient8.transposed;
        gradient.b = r->rows8.transposed;
        gradient.a_range = r->gradient8.range;
    } else {
        op_gather_slots(gpu, &(struct op_gather_slots){.y = r->rows, .x = r->x, .sources = r->sources, .per_row = 2});
    }
    op_grouped_matmul(gpu, &forward);
    op_grouped_matmul(gpu, &gradient);
}

static void do_experts(struct device *gpu, const struct recorded_experts *r) {
    op_route_forward(gpu,
                     &(struct op_route_forward){
                         .experts = r->experts, .weights = r->weights, .logits = r->logits, .rule = {.factor = 1}});
    op_sort_slots(gpu, &(struct op_sort_slots){
                           .offsets = r->offsets, .sources = r->sources, .places = r->places, .experts = r->experts});
    multiply_experts(gpu, r);
    op_sum_slots(gpu, &(struct op_sum_slots){.out = r->out, .y = r->product, .places = r->places});
}

// A replay follows the logits that it finds, also where experts then have other numbers of rows than when it was
// recorded.
static void record_experts(struct device *gpu, bool is_fp8) {
    enum { N = 304, C = 64, E = 6, K = 2, ROUNDS = 3 };
    struct lab lab;
    lab_open(&lab, gpu, DTYPE_BF16, 1);
    struct recorded_experts r = {.experts = arena_2d(&lab.arena, DTYPE_I32, N, K),
                                 .weights = lab_fp32_2d(&lab, N, K, 1).t,
                                 .offsets = arena_1d(&lab.arena, DTYPE_I32, E + 1),
                                 .sources = arena_1d(&lab.arena, DTYPE_I32, N * K),
                                 .places = arena_2d(&lab.arena, DTYPE_I32, N, K),
                                 .x = lab_2d(&lab, N, C, 1).t,
                                 .rows = lab_2d(&lab, N * K, C, 1).t,
                                 .weight = lab_sample(&lab, arena_3d(&lab.arena, DTYPE_BF16, E, C, C), 1).t,
                                 .product = lab_2d(&lab, N * K, C, 1).t,
                                 .out = lab_2d(&lab, N, C, 1).t,
                                 .dweight = arena_3d(&lab.arena, DTYPE_F32, E, C, C),
                                 .is_fp8 = is_fp8};
    if (is_fp8) {
        r.rows8 = float8_operand(&lab, DTYPE_E4M3, N * K, C, 2);
        r.gradient8 = float8_operand(&lab, DTYPE_E5M2, N * K, C, 2);
        r.weight8 = float8_operand(&lab, DTYPE_E4M3, E * C, C, 2);
        op_quantize(gpu, &(struct op_quantize){.y = r.weight8, .x = tensor_2d(r.weight.data, DTYPE_BF16, E * C, C)});
    }
    struct sample logits = lab_fp32_2d(&lab, N, E, 2);
    struct recording *recording = NULL;
    device_zero(gpu, r.dweight);  // initcheck does not see what bulk copies write
    r.logits = logits.t;
    for (int round = 0; round < ROUNDS; round++) {
        for (int64_t i = 0; i < N * E; i++)
            logits.x[i] += round * (double)(i % E);  // towards the last experts
        lab_write(&lab, logits.t, logits.x);
        do_experts(gpu, &r);
        const double *expected = lab_read(&lab, r.out), *gradient = lab_read(&lab, r.dweight);
        device_zero(gpu, r.out);
        device_zero(gpu, r.dweight);
        if (!recording) {
            device_record_begin(gpu);
            do_experts(gpu, &r);
            recording = device_record_end(gpu);
            EXPECT(recording != NULL);
        }
        device_replay(gpu, recording);
        const double *found = lab_read(&lab, r.out);
        EXPECT(memcmp(found, expected, sizeof *found * N * C) == 0 && found[0] != 0);
        EXPECT(memcmp(lab_read(&lab, r.dweight), gradient, sizeof *gradient * E * C * C) == 0);
    }
    device_recording_free(gpu, recording);
    lab_close(&lab);
}

TEST(recordings_of_experts) {
    struct device *gpu = gpu_open();
    record_experts(gpu, false);
    if (device_supports(gpu, DTYPE_E4M3) && device_multiplies_groups8(gpu, SCALING_TENSOR))
        record_experts(gpu, true);
    device_close(gpu);
}

// A copy in, work and a copy out on two streams, ordered only by events.
TEST(streams) {
    enum { COUNT = 1 << 20 };
    struct device *gpu = gpu_open();
    const struct ops *ops = gpu->ops;
    float *in = device_host_alloc(gpu, COUNT * sizeof *in), *out = device_host_alloc(gpu, COUNT * sizeof *out);
    struct tensor x = tensor_1d(device_alloc(gpu, COUNT * sizeof *in), DTYPE_F32, COUNT);
    EXPECT(in && out && x.data);
    struct event *copied = ops->event_create(gpu), *worked = ops->event_create(gpu), *done = ops->event_create(gpu);
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < COUNT; i++)
            in[i] = (float)(i % 1000 + round);
        ops->copy_in(gpu, x.data, in, COUNT * sizeof *in, STREAM_COPY);
        ops->event_record(gpu, copied, STREAM_COPY);
        ops->stream_wait(gpu, STREAM_COMPUTE, copied);
        op_scale(gpu, &(struct op_scale){.x = x, .factor = 2});
        ops->event_record(gpu, worked, STREAM_COMPUTE);
        ops->stream_wait(gpu, STREAM_COPY, worked);
        ops->copy_out(gpu, out, x.data, COUNT * sizeof *out, STREAM_COPY);
        ops->event_record(gpu, done, STREAM_COPY);
        ops->event_wait(gpu, done);
        for (int i = 0; i < COUNT; i++)
            EXPECT(out[i] == (float)(2 * (i % 1000 + round)));
    }
    ops->event_free(gpu, copied);
    ops->event_free(gpu, worked);
    ops->event_free(gpu, done);
    device_host_free(gpu, in);
    device_host_free(gpu, out);
    device_free(gpu, x.data);
    device_close(gpu);
}

// The file of algorithms: written by a matmul that is worth timing, in bursts or, with 3072 rows, under load; read by
// the next run, which then repeats bit for bit. A file that is not ours is rewritten.
static void run_product(const char *path, int64_t size, uint16_t *result, size_t count) {
    struct device *gpu = NULL;
    struct lab lab;
    EXPECT_OK(cuda_open(&gpu, &(struct device_options){.index = 0, .algorithm_cache = path}));
    lab_open(&lab, gpu, DTYPE_BF16, 1);
    struct tensor a = lab_2d(&lab, size, size, 1).t, b = lab_2d(&lab, size, size, 1).t;
    struct tensor d = lab_2d(&lab, size, size, 1).t;
    op_matmul(gpu, &(struct op_matmul){.a = a, .b = b, .d = d, .transpose_b = true, .alpha = 1});
    device_copy_out(gpu, result, tensor_rows(tensor_flat(d), 0, (int64_t)count));
    lab_close(&lab);
    device_close(gpu);
}

TEST(algorithms_are_kept) {
    enum { COUNT = 1 << 20 };
    if (cuda_count() == 0)
        test_skip("no GPU can be used");
    if (lab_is_tiny())
        test_skip("runs dozens of cuBLASLt's kernels, where racecheck sees hazards, and none of ours");
    char folder[] = "/tmp/bevatron-test-XXXXXX";
    EXPECT(mkdtemp(folder) != NULL);
    char *path = memory_printf("%s/products", folder);
    uint16_t *first = malloc(COUNT * sizeof *first), *second = malloc(COUNT * sizeof *second);
    struct buffer text = {0}, again = {0};
    EXPECT(first && second);
    int64_t size = is_small() ? 1024 : 3072;
    run_product(path, size, first, COUNT);
    EXPECT_OK(file_read_all(path, 1 << 20, &text));
    EXPECT(strncmp(buffer_string(&text), "bevatron products 5, cuBLASLt ", 30) == 0);
    run_product(path, size, second, COUNT);
    EXPECT(memcmp(first, second, COUNT * sizeof *first) == 0);
    EXPECT_OK(file_read_all(path, 1 << 20, &again));
    EXPECT_STRING(buffer_string(&again), buffer_string(&text));
    EXPECT_OK(file_write_all(path, "bevatron products 1, cuBLASLt 0\nffff zz\n", 39));
    run_product(path, 1024, second, COUNT);
    EXPECT_OK(file_remove_tree(folder));
    free(first);
    free(second);
    free(path);
    buffer_free(&text);
    buffer_free(&again);
}

TEST(memory_and_errors) {
    struct device *gpu = gpu_open(), *other = NULL;
    char text[200];
    device_describe(gpu, text, sizeof text);
    printf("    %s\n", text);
    EXPECT(device_alloc(gpu, (size_t)1 << 50) == NULL);
    EXPECT_INT(error_exit_code(), EXIT_CODE_OUT_OF_MEMORY);
    EXPECT(strstr(error_message(), "cannot allocate") != NULL);
    void *memory = device_alloc(gpu, 100);  // the device still works after a refusal
    EXPECT(memory != NULL);
    device_free(gpu, memory);
    EXPECT_ERROR(cuda_open(&other, &(struct device_options){.index = 1000}), "there is no GPU 1000");
    EXPECT(device_supports(gpu, DTYPE_F32) && device_supports(gpu, DTYPE_BF16) && !device_supports(gpu, DTYPE_I32));
    device_close(gpu);
}

#define CASE_ROW(name) TEST_CASE(fp32_##name), TEST_CASE(bf16_##name), TEST_CASE(fp16_##name),
// The large ones last: one that dies does not take others with it.
#define LARGE_ROW(name, bytes_of_element) TEST_CASE(more_than_31_bits_##name),
TEST_MAIN(EACH_CASE(CASE_ROW) TEST_CASE(runs_repeat_to_the_bit), TEST_CASE(streams), TEST_CASE(recordings),
          TEST_CASE(recordings_of_experts), TEST_CASE(algorithms_are_kept), TEST_CASE(memory_and_errors),
          EACH_LARGE_CASE(LARGE_ROW))
