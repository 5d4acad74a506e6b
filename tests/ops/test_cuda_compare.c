// Shapes of real models on the CUDA backend against the CPU backend, in fp32 and in bf16, as the layers of a GPT call
// them: packed views, outputs in place of inputs, accumulated gradients. Skipped without a GPU.
#include "cases_attention.h"
#include "twin.h"

// Runs a comparison with the CPU in both dtypes.
static void run_twins(void (*run)(struct twins *twins), size_t bytes) {
    struct device *cpu = NULL, *gpu = gpu_open();
    EXPECT_OK(cpu_open(&cpu, &(struct device_options){.threads = is_small() ? 2 : 8}));
    struct twins twins;
    twins_open(&twins, cpu, gpu, bytes);
    twins_start(&twins, DTYPE_F32, FP32_TOLERANCE);
    run(&twins);
    twins_start(&twins, DTYPE_BF16, BF16_TOLERANCE);
    run(&twins);
    twins_close(&twins);
    device_close(gpu);
    device_close(cpu);
}

// Runs one in fp16, or in any dtype on a GPU in deterministic mode.
static void run_twins_as(void (*run)(struct twins *twins), enum dtype dtype, bool is_deterministic) {
    struct device *cpu = NULL, *gpu = gpu_open_as((struct device_options){.is_deterministic = is_deterministic});
    EXPECT_OK(cpu_open(&cpu, &(struct device_options){.threads = is_small() ? 2 : 8}));
    struct twins twins;
    twins_open(&twins, cpu, gpu, (size_t)512 << 20);
    twins_start(&twins, dtype, dtype == DTYPE_F16 ? FP16_TOLERANCE : BF16_TOLERANCE);
    run(&twins);
    twins_close(&twins);
    device_close(gpu);
    device_close(cpu);
}

static struct dropout dropout_on(struct twin row_ids, int side, float rate) {
    return (struct dropout){.rate = rate, .seed = 77, .site = 9, .first_head = 3, .row_ids = row_ids.on[side]};
}

// One linear layer with GELU as in a model: forward, gradient of its input, gradient of its weight.
static void compare_matmul(struct twins *twins) {
    int64_t N = is_small() ? 70 : 2048, C = is_small() ? 96 : 768, F = is_small() ? 136 : 3072;
    struct twin x = twin_2d(twins, N, C), weight = twin_2d(twins, F, C), bias = twin_1d(twins, F);
    struct twin aux = twin_2d(twins, N, F), y = twin_2d(twins, N, F), dy = twin_2d(twins, N, F);
    struct twin dx = twin_2d(twins, N, C), projection = twin_2d(twins, C, F);
    struct twin dweight = twin_random(twins, DTYPE_F32, F, C, 1), dhidden = twin_2d(twins, N, F);
    for (int side = 0; side < TWIN_COUNT; side++) {
        struct device *device = twins->device[side];
        op_matmul(device, &(struct op_matmul){.a = x.on[side],
                                              .b = weight.on[side],
                                              .d = y.on[side],
                                              .transpose_b = true,
                                              .alpha = 0.1f,
                                              .epilogue = EPILOGUE_BIAS_ACTIVATION,
                                              .bias = bias.on[side],
                                              .aux = aux.on[side]});
        op_matmul(device, &(struct op_matmul){.a = dy.on[side], .b = weight.on[side], .d = dx.on[side], .alpha = 1});
        op_matmul(
            device,
            &(struct op_matmul){
                .a = dy.on[side], .b = x.on[side], .d = dweight.on[side], .transpose_a = true, .alpha = 1, .beta = 1});
    }
    twin_expect(twins, aux);
    twin_expect(twins, y);
    twin_expect(twins, dx);
    twin_expect(twins, dweight);
    twin_sync(twins, aux);
    for (int side = 0; side < TWIN_COUNT; side++)
        op_matmul(twins->device[side], &(struct op_matmul){.a = x.on[side],
                                                           .b = projection.on[side],
                                                           .d = dhidden.on[side],
                                                           .alpha = 0.1f,
                                                           .epilogue = EPILOGUE_ACTIVATION_GRADIENT,
                                                           .aux = aux.on[side]});
    twin_expect(twins, dhidden);
}

TEST(compare_matmul) {
    run_twins(compare_matmul, (size_t)256 << 20);
}

// The three matmuls of a linear layer.
static void compare_products(struct twins *twins, struct twin y) {
    int64_t N = y.on[TWIN_CPU].shape[0], F = y.on[TWIN_CPU].shape[1], C = is_small() ? 96 : 768;
    struct twin x = twin_2d(twins, N, C), weight = twin_2d(twins, F, C), dy = twin_2d(twins, N, F);
    struct twin dx = twin_2d(twins, N, C), dweight = twin_2d(twins, F, C);
    for (int side = 0; side < TWIN_COUNT; side++) {
        struct device *device = twins->device[side];
        op_matmul(device, &(struct op_matmul){
                              .a = x.on[side], .b = weight.on[side], .d = y.on[side], .transpose_b = true, .alpha = 1});
        op_matmul(device, &(struct op_matmul){.a = dy.on[side], .b = weight.on[side], .d = dx.on[side], .alpha = 1});
        op_matmul(device,
                  &(struct op_matmul){
                      .a = dy.on[side], .b = x.on[side], .d = dweight.on[side], .transpose_a = true, .alpha = 1});
    }
    twin_expect(twins, y);
    twin_expect(twins, dx);
    twin_expect(twins, dweight);
}

// Factors of 11 bits, rounded or truncated: the worst of a million dot products is then off by 1.3e-3 (computed with
// numpy). A run without TF32 gives other numbers, within the bound of fp32, which shows that TF32 was on.
TEST(compare_tf32) {
    static const double TF32_TOLERANCE = 2e-3;
    int64_t N = is_small() ? 72 : 1024, F = is_small() ? 136 : 1536;
    float *results[2] = {NULL, NULL};
    if (cuda_count() == 0)
        test_skip("no GPU can be used");
    for (int is_tf32 = 0; is_tf32 < 2; is_tf32++) {
        struct device *cpu = NULL, *gpu = NULL;
        struct twins twins;
        EXPECT_OK(cuda_open(&gpu, &(struct device_options){.index = 0, .allows_tf32 = is_tf32}));
        EXPECT_OK(cpu_open(&cpu, &(struct device_options){.threads = is_small() ? 2 : 8}));
        twins_open(&twins, cpu, gpu, (size_t)128 << 20);
        twins_start(&twins, DTYPE_F32, is_tf32 ? TF32_TOLERANCE : FP32_TOLERANCE);
        struct twin y = twin_2d(&twins, N, F);
        compare_products(&twins, y);
        results[is_tf32] = twin_read(gpu, y.on[TWIN_GPU]);
        twins_close(&twins);
        device_close(gpu);
        device_close(cpu);
    }
    int64_t others = 0;
    for (int64_t i = 0; i < N * F; i++)
        others += results[0][i] != results[1][i];
    free(results[0]);
    free(results[1]);
    printf("    %" PRId64 " of %" PRId64 " numbers are others than without TF32\n", others, N * F);
    // Small matmuls may go to a kernel without tensor cores.
    EXPECT(is_small() || others > N * F / 2);
}

static void compare_norm_shape(struct twins *twins, int64_t N, int64_t C) {
    struct twin x = twin_2d(twins, N, C), delta = twin_2d(twins, N, C), sum = twin_2d(twins, N, C);
    struct twin y = twin_2d(twins, N, C), gain = twin_1d(twins, C), bias = twin_1d(twins, C);
    struct twin delta_bias = twin_1d(twins, C), mean = twin_fp32(twins, N), rstd = twin_fp32(twins, N);
    struct twin row_ids = twin_row_ids(twins, N), dgain = twin_fp32(twins, C), dbias = twin_fp32(twins, C);
    struct twin ddelta_bias = twin_fp32(twins, C), dx = twin_2d(twins, N, C), dy = twin_2d(twins, N, C);
    for (int side = 0; side < TWIN_COUNT; side++)
        op_norm_forward(twins->device[side], &(struct op_norm_forward){.y = y.on[side],
                                                                       .mean = mean.on[side],
                                                                       .rstd = rstd.on[side],
                                                                       .x = x.on[side],
                                                                       .gain = gain.on[side],
                                                                       .bias = bias.on[side],
                                                                       .epsilon = 1e-5f,
                                                                       .delta = delta.on[side],
                                                                       .delta_bias = delta_bias.on[side],
                                                                       .sum = sum.on[side],
                                                                       .dropout = dropout_on(row_ids, side, 0.1f)});
    twin_expect(twins, sum);
    twin_expect(twins, y);
    twin_expect(twins, rstd);
    twin_sync(twins, sum);
    twin_sync(twins, mean);
    twin_sync(twins, rstd);
    // dx holds the residual's gradient and is overwritten, ddelta takes the place of dy: as in a block.
    for (int side = 0; side < TWIN_COUNT; side++)
        op_norm_backward(twins->device[side], &(struct op_norm_backward){.dx = dx.on[side],
                                                                         .dgain = dgain.on[side],
                                                                         .dbias = dbias.on[side],
                                                                         .dy = dy.on[side],
                                                                         .x = sum.on[side],
                                                                         .gain = gain.on[side],
                                                                         .mean = mean.on[side],
                                                                         .rstd = rstd.on[side],
                                                                         .dresidual = dx.on[side],
                                                                         .ddelta = dy.on[side],
                                                                         .ddelta_bias = ddelta_bias.on[side],
                                                                         .dropout = dropout_on(row_ids, side, 0.1f)});
    twin_expect(twins, dx);
    twin_expect(twins, dy);
    twin_expect(twins, dgain);
    twin_expect(twins, dbias);
    twin_expect(twins, ddelta_bias);
}

static void compare_norm(struct twins *twins) {
    compare_norm_shape(twins, is_small() ? 130 : 10000, is_small() ? 133 : 768);
    compare_norm_shape(twins, 65, is_small() ? 1100 : 12288);
}

TEST(compare_norm) {
    run_twins(compare_norm, (size_t)512 << 20);
}

static const double FUSED_TOLERANCE = 0.1;

struct attention_size {
    int64_t B, T, H, G, D;
    float rate;
    bool is_bidirectional;
    int64_t keys;  // if not T: keys and values are in a separate tensor
    bool repeats;  // backward gives the same bits again
};

// The first columns of rows and their gradients are queries, the last ones keys and values.
struct attention_twins {
    struct twin q, kv, dq, dkv;  // the keys' are the queries' if packed together
    int64_t key_column;
};

static struct attention_twins attention_twins(struct twins *twins, const struct attention_size *a) {
    int64_t columns = a->H * a->D, key_columns = 2 * a->G * a->D, rows = a->B * a->T;
    if (a->keys == 0) {
        struct twin qkv = twin_2d(twins, rows, columns + key_columns);
        struct twin dqkv = twin_2d(twins, rows, columns + key_columns);
        return (struct attention_twins){qkv, qkv, dqkv, dqkv, columns};
    }
    return (struct attention_twins){twin_2d(twins, rows, columns), twin_2d(twins, a->B * a->keys, key_columns),
                                    twin_2d(twins, rows, columns), twin_2d(twins, a->B * a->keys, key_columns), 0};
}

// Heads from this column on of a twin's (B * T, columns).
static struct tensor heads_of(struct tensor t, int64_t B, int64_t first, int64_t heads, int64_t head_size) {
    return heads_view(tensor_3d(t.data, t.dtype, B, t.shape[0] / B, t.shape[1]), first, heads, head_size);
}

static void expect_same_again(struct device *gpu, const struct op_attention_backward *op, struct tensor gradient) {
    unsigned char *first = malloc(tensor_bytes(gradient)), *again = malloc(tensor_bytes(gradient));
    EXPECT(first != NULL && again != NULL);
    device_copy_out(gpu, first, gradient);
    for (int i = 0; i < 5; i++) {
        device_zero(gpu, gradient);
        op_attention_backward(gpu, op);
        device_copy_out(gpu, again, gradient);
        EXPECT(memcmp(first, again, tensor_bytes(gradient)) == 0);
    }
    free(first);
    free(again);
}

// q, k, v and their gradients as views of packed (B, T, (H + 2G) D) tensors, or of (B, T, H D) and (B, Tk, 2G D).
static void compare_attention_size(struct twins *twins, const struct attention_size *a) {
    int64_t columns = a->H * a->D, rows = a->B * a->T, key_size = a->G * a->D;
    struct attention_twins t = attention_twins(twins, a);
    struct twin out = twin_2d(twins, rows, columns), dout = twin_2d(twins, rows, columns);
    struct twin lse = twin_fp32(twins, a->H * rows), scratch = twin_fp32(twins, a->H * rows);
    struct twin row_ids = twin_row_ids(twins, rows);
    struct op_attention_backward op[TWIN_COUNT];
    bool is_causal = !a->is_bidirectional;
    for (int side = 0; side < TWIN_COUNT; side++) {
        op[side] = (struct op_attention_backward){
            .dq = heads_of(t.dq.on[side], a->B, 0, a->H, a->D),
            .dk = heads_of(t.dkv.on[side], a->B, t.key_column, a->G, a->D),
            .dv = heads_of(t.dkv.on[side], a->B, t.key_column + key_size, a->G, a->D),
            .dout = tensor_reshape_4d(dout.on[side], a->B, a->T, a->H, a->D),
            .out = tensor_reshape_4d(out.on[side], a->B, a->T, a->H, a->D),
            .lse = tensor_3d(lse.on[side].data, DTYPE_F32, a->B, a->H, a->T),
            .scratch = tensor_3d(scratch.on[side].data, DTYPE_F32, a->B, a->H, a->T),
            .q = heads_of(t.q.on[side], a->B, 0, a->H, a->D),
            .k = heads_of(t.kv.on[side], a->B, t.key_column, a->G, a->D),
            .v = heads_of(t.kv.on[side], a->B, t.key_column + key_size, a->G, a->D),
            .scale = 1 / sqrtf((float)a->D),
            .is_causal = is_causal,
            .dropout = dropout_on(row_ids, side, a->rate),
        };
        op[side].workspace = arena_1d(&twins->arena[side], DTYPE_U8,
                                      attention_workspace_bytes(op[side].q, op[side].k, op[side].v, &op[side].mask));
        op_attention_forward(twins->device[side], &(struct op_attention_forward){.out = op[side].out,
                                                                                 .lse = op[side].lse,
                                                                                 .q = op[side].q,
                                                                                 .k = op[side].k,
                                                                                 .v = op[side].v,
                                                                                 .scale = op[side].scale,
                                                                                 .is_causal = is_causal,
                                                                                 .dropout = op[side].dropout});
    }
    // cuDNN and the tensor-core kernels round the weights to bf16 before multiplying by the values: if a query sees few
    // keys and the values cancel, a single error is relatively large. So the bound is tight for all values together,
    // and loose for single values.
    bool is_cudnn = a->rate == 0 && a->T % 128 == 0 && a->keys % 128 == 0, is_tensor = a->D % 8 == 0;
    bool is_fused = twins->dtype != DTYPE_F32 && (is_cudnn || is_tensor);
    double tolerance = twins->tolerance;
    twins->tolerance = is_fused ? FUSED_TOLERANCE : tolerance;
    twin_expect(twins, out);
    twins->tolerance = tolerance;
    if (is_fused)
        twin_expect_length(twins, out, 4e-3);
    twin_expect(twins, lse);
    twin_sync(twins, out);
    twin_sync(twins, lse);
    for (int side = 0; side < TWIN_COUNT; side++)
        op_attention_backward(twins->device[side], &op[side]);
    twins->tolerance = is_fused ? FUSED_TOLERANCE : twins->dtype == DTYPE_F32 ? FP32_LONG_TOLERANCE : tolerance;
    twin_expect(twins, t.dq);
    twin_expect(twins, t.dkv);
    twins->tolerance = tolerance;
    if (is_fused) {
        twin_expect_length(twins, t.dq, 8e-3);
        twin_expect_length(twins, t.dkv, 8e-3);
    }
    if (a->repeats) {
        expect_same_again(twins->device[TWIN_GPU], &op[TWIN_GPU], t.dq.on[TWIN_GPU]);
        expect_same_again(twins->device[TWIN_GPU], &op[TWIN_GPU], t.dkv.on[TWIN_GPU]);
    }
}

// Those without dropout whose length is a multiple of 128 go to cuDNN in bf16, if it is built in.
static void compare_attention(struct twins *twins) {
    static const struct attention_size large[] = {
        {2, 1024, 12, 12, 64, 0.1f, false, 0, false}, {1, 300, 8, 2, 128, 0.1f, false, 0, false},
        {1, 333, 3, 1, 80, 0, false, 0, false},       {1, 200, 2, 2, 256, 0.1f, false, 0, false},
        {2, 1024, 12, 12, 64, 0, false, 0, false},    {1, 512, 8, 2, 128, 0, false, 0, false},
        {3, 256, 5, 1, 96, 0, false, 0, false},       {1, 128, 3, 3, 80, 0, false, 0, false},
        {2, 256, 4, 4, 64, 0, true, 0, false},        {1, 384, 2, 2, 256, 0, false, 0, false}};
    static const struct attention_size small[] = {{2, 70, 2, 1, 64, 0.1f, false, 0, false},
                                                  {1, 67, 2, 2, 100, 0.1f, false, 0, false},
                                                  {1, 70, 2, 1, 200, 0.1f, false, 0, false},
                                                  {1, 128, 2, 1, 64, 0, false, 0, false}};
    size_t count = is_small() ? sizeof small / sizeof small[0] : sizeof large / sizeof large[0];
    for (size_t i = 0; i < count; i++)
        compare_attention_size(twins, is_small() ? &small[i] : &large[i]);
}

TEST(compare_attention) {
    run_twins(compare_attention, (size_t)512 << 20);
}

// Attention computed by cuDNN: packed and grouped, causal and not, and from one sequence to a longer or shorter one.
static void compare_attention_cudnn(struct twins *twins) {
    static const struct attention_size sizes[] = {
        {.B = 2, .T = 256, .H = 4, .G = 4, .D = 64},
        {.B = 1, .T = 512, .H = 8, .G = 2, .D = 128},
        {.B = 2, .T = 256, .H = 6, .G = 2, .D = 64, .is_bidirectional = true},
        {.B = 2, .T = 128, .H = 4, .G = 4, .D = 64, .is_bidirectional = true, .keys = 384},
        {.B = 2, .T = 384, .H = 4, .G = 2, .D = 96, .is_bidirectional = true, .keys = 128},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (!is_small() || sizes[i].T < 512)
            compare_attention_size(twins, &sizes[i]);
}

TEST(attention_cudnn_bf16) {
    run_twins_as(compare_attention_cudnn, DTYPE_BF16, false);
}

TEST(attention_cudnn_fp16) {
    run_twins_as(compare_attention_cudnn, DTYPE_F16, false);
}

// The gradients of all scores fit in the workspace as a whole, per sample, or for some heads of one.
static void compare_attention_deterministic(struct twins *twins) {
    static const struct attention_size sizes[] = {
        {.B = 2, .T = 256, .H = 4, .G = 4, .D = 64, .repeats = true},
        {.B = 2, .T = 512, .H = 8, .G = 2, .D = 128, .repeats = true},
        {.B = 3, .T = 1024, .H = 4, .G = 4, .D = 64, .repeats = true},
        {.B = 2, .T = 256, .H = 4, .G = 4, .D = 64, .is_bidirectional = true, .keys = 512, .repeats = true},
        {.B = 1, .T = 200, .H = 4, .G = 2, .D = 64, .repeats = true},  // not for cuDNN
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (!is_small() || sizes[i].T < 512)
            compare_attention_size(twins, &sizes[i]);
}

TEST(attention_deterministic_bf16) {
    run_twins_as(compare_attention_deterministic, DTYPE_BF16, true);
}

TEST(attention_deterministic_fp16) {
    run_twins_as(compare_attention_deterministic, DTYPE_F16, true);
}

static void compare_embedding(struct twins *twins) {
    int64_t N = is_small() ? 5000 : 70000, C = is_small() ? 33 : 260, V = is_small() ? 100 : 50304, P = 1024;
    int32_t *numbers = text_tokens(N, V + V / 8);
    struct twin tokens = twin_ints(twins, N, numbers);
    for (int64_t i = 0; i < N; i++)
        numbers[i] = (int32_t)(i % P);
    struct twin positions = twin_ints(twins, N, numbers), row_ids = twin_row_ids(twins, N);
    free(numbers);
    struct twin table = twin_2d(twins, V, C), position_table = twin_2d(twins, P, C), out = twin_2d(twins, N, C);
    struct twin dtable = twin_random(twins, DTYPE_F32, V, C, 1), dout = twin_2d(twins, N, C);
    struct twin dposition_table = twin_random(twins, DTYPE_F32, P, C, 1);
    for (int side = 0; side < TWIN_COUNT; side++) {
        op_embedding_forward(twins->device[side],
                             &(struct op_embedding_forward){.out = out.on[side],
                                                            .tokens = tokens.on[side],
                                                            .table = table.on[side],
                                                            .vocabulary_start = 3,
                                                            .positions = positions.on[side],
                                                            .position_table = position_table.on[side],
                                                            .dropout = dropout_on(row_ids, side, 0.1f)});
        op_embedding_backward(twins->device[side],
                              &(struct op_embedding_backward){.dtable = dtable.on[side],
                                                              .dposition_table = dposition_table.on[side],
                                                              .dout = dout.on[side],
                                                              .tokens = tokens.on[side],
                                                              .positions = positions.on[side],
                                                              .vocabulary_start = 3,
                                                              .dropout = dropout_on(row_ids, side, 0.1f)});
    }
    twin_expect(twins, out);
    twin_expect(twins, dtable);
    twin_expect(twins, dposition_table);
}

TEST(compare_embedding) {
    run_twins(compare_embedding, (size_t)512 << 20);
}

static void compare_loss(struct twins *twins) {
    int64_t N = is_small() ? 9 : 257, V = is_small() ? 3001 : 50304;
    int32_t *numbers = text_tokens(N, V);
    struct twin labels = twin_ints(twins, N, numbers), logits = twin_random(twins, twins->dtype, N, V, 10);
    free(numbers);
    struct twin max = twin_fp32(twins, N), sum = twin_fp32(twins, N), target = twin_fp32(twins, N);
    struct twin losses = twin_fp32(twins, N), weights = twin_fp32(twins, N);
    struct twin again = twin_random(twins, twins->dtype, N, V, 10), whole = twin_fp32(twins, N);
    for (int side = 0; side < TWIN_COUNT; side++) {
        op_softmax_stats(twins->device[side], &(struct op_softmax_stats){.row_max = max.on[side],
                                                                         .row_sum = sum.on[side],
                                                                         .row_target = target.on[side],
                                                                         .logits = logits.on[side],
                                                                         .labels = labels.on[side]});
        op_cross_entropy(twins->device[side], &(struct op_cross_entropy){.losses = losses.on[side],
                                                                         .logits = logits.on[side],
                                                                         .row_max = max.on[side],
                                                                         .row_sum = sum.on[side],
                                                                         .row_target = target.on[side],
                                                                         .labels = labels.on[side],
                                                                         .weights = weights.on[side]});
        // Both halves at once.
        op_cross_entropy(twins->device[side], &(struct op_cross_entropy){.losses = whole.on[side],
                                                                         .logits = again.on[side],
                                                                         .row_max = max.on[side],
                                                                         .row_sum = sum.on[side],
                                                                         .row_target = target.on[side],
                                                                         .makes_stats = true,
                                                                         .labels = labels.on[side],
                                                                         .weights = weights.on[side]});
    }
    twin_expect(twins, losses);
    twin_expect(twins, logits);
    twin_expect(twins, whole);
    twin_expect(twins, again);
    twin_expect(twins, max);
    twin_expect(twins, sum);
    twin_expect(twins, target);
}

TEST(compare_loss) {
    run_twins(compare_loss, (size_t)256 << 20);
}

static void compare_optimizer(struct twins *twins) {
    int64_t n = is_small() ? 5003 : 10000003;
    struct twin master = twin_fp32(twins, n), m = twin_fp32(twins, n), grad = twin_fp32(twins, n);
    struct twin v = twin_fp32(twins, n), copy = twin_1d(twins, n), squares = twin_fp32(twins, 1);
    struct twin norm = twin_fp32(twins, 1), scale = twin_fp32(twins, 1), rate = twin_fp32(twins, RATE_GROUP);
    twin_write(twins, rate, (float[RATE_GROUP]){[ADAM_STEP] = 1e-3f, [ADAM_CORRECTION] = 1.01f, [ADAM_DECAY] = 1e-4f});
    for (int side = 0; side < TWIN_COUNT; side++) {
        struct device *device = twins->device[side];
        device_zero(device, v.on[side]);
        op_sum_squares(device, &(struct op_sum_squares){.out = squares.on[side], .x = grad.on[side]});
        op_clip_scale(device, &(struct op_clip_scale){.scale = scale.on[side],
                                                      .norm = norm.on[side],
                                                      .sum_squares = squares.on[side],
                                                      .max_norm = 1});
        op_adam(device, &(struct op_adam){.master = master.on[side],
                                          .copy = copy.on[side],
                                          .grad = grad.on[side],
                                          .m = m.on[side],
                                          .v = v.on[side],
                                          .scale = scale.on[side],
                                          .rate = rate.on[side],
                                          .beta1 = 0.9f,
                                          .beta2 = 0.95f,
                                          .epsilon = 1e-8f,
                                          .is_decayed = true});
    }
    double tolerance = twins->tolerance;
    twins->tolerance = FP32_TOLERANCE;  // the state is always fp32
    twin_expect(twins, norm);
    twin_expect(twins, master);
    twin_expect(twins, m);
    twin_expect(twins, v);
    twins->tolerance = tolerance;
    twin_expect(twins, copy);
}

TEST(compare_optimizer) {
    run_twins(compare_optimizer, (size_t)512 << 20);
}

// The slots of a layer of experts, on both sides.
struct twin_slots {
    int64_t N, K, E;
    struct twin experts, weights, offsets, sources, places;
};

static struct tensor as_slots(const struct twin_slots *s, struct tensor flat) {
    return tensor_reshape_2d(flat, s->N, s->K);
}

// Routes and sorts on both sides, which must agree on every choice and place.
static struct twin_slots compare_slots(struct twins *twins) {
    struct twin_slots s = {.N = is_small() ? 70 : 2048, .K = is_small() ? 2 : 8, .E = is_small() ? 5 : 64};
    int32_t *zeros = calloc((size_t)(s.N * s.K), sizeof *zeros);
    EXPECT(zeros != NULL);
    struct twin logits = twin_random(twins, DTYPE_F32, s.N, s.E, 3);
    s.experts = twin_ints(twins, s.N * s.K, zeros);
    s.sources = twin_ints(twins, s.N * s.K, zeros);
    s.places = twin_ints(twins, s.N * s.K, zeros);
    s.offsets = twin_ints(twins, s.E + 1, zeros);
    s.weights = twin_random(twins, DTYPE_F32, s.N, s.K, 1);
    for (int side = 0; side < TWIN_COUNT; side++) {
        struct tensor experts = as_slots(&s, s.experts.on[side]);
        op_route_forward(twins->device[side], &(struct op_route_forward){.experts = experts,
                                                                         .weights = s.weights.on[side],
                                                                         .logits = logits.on[side],
                                                                         .rule = {.factor = 1}});
        op_sort_slots(twins->device[side], &(struct op_sort_slots){.offsets = s.offsets.on[side],
                                                                   .sources = s.sources.on[side],
                                                                   .places = as_slots(&s, s.places.on[side]),
                                                                   .experts = experts});
    }
    twin_expect(twins, s.weights);
    const struct twin integers[] = {s.experts, s.offsets, s.sources, s.places};
    for (size_t i = 0; i < sizeof integers / sizeof integers[0]; i++) {
        int32_t *found = malloc(tensor_bytes(integers[i].on[TWIN_GPU]));
        EXPECT(found != NULL);
        device_copy_out(twins->device[TWIN_GPU], found, integers[i].on[TWIN_GPU]);
        EXPECT(memcmp(found, integers[i].on[TWIN_CPU].data, tensor_bytes(integers[i].on[TWIN_GPU])) == 0);
        free(found);
    }
    free(zeros);
    return s;
}

// The rows of a layer of experts: to their places, through the first matmul and its gradients, and back.
static void compare_experts(struct twins *twins) {
    struct twin_slots s = compare_slots(twins);
    int64_t R = s.N * s.K, C = is_small() ? 96 : 512, F = is_small() ? 64 : 384;
    struct twin x = twin_2d(twins, s.N, C), xs = twin_2d(twins, R, C), h = twin_2d(twins, R, 2 * F);
    struct twin w = twin_2d(twins, s.E * 2 * F, C), dw = twin_random(twins, DTYPE_F32, s.E * 2 * F, C, 1);
    struct twin y = twin_2d(twins, R, F), dh = twin_2d(twins, R, 2 * F), dx = twin_2d(twins, s.N, C);
    for (int side = 0; side < TWIN_COUNT; side++) {
        struct device *device = twins->device[side];
        struct tensor offsets = s.offsets.on[side], sources = s.sources.on[side];
        struct tensor w3 = w.on[side], dw3 = dw.on[side];
        w3 = tensor_3d(w3.data, w3.dtype, s.E, 2 * F, C);
        dw3 = tensor_3d(dw3.data, dw3.dtype, s.E, 2 * F, C);
        op_gather_slots(
            device, &(struct op_gather_slots){.y = xs.on[side], .x = x.on[side], .sources = sources, .per_row = s.K});
        op_grouped_matmul(device,
                          &(struct op_grouped_matmul){.d = h.on[side], .a = xs.on[side], .b = w3, .offsets = offsets});
        op_expert_activation_forward(device, &(struct op_expert_activation_forward){.y = y.on[side],
                                                                                    .x = dh.on[side],
                                                                                    .weights = s.weights.on[side],
                                                                                    .offsets = offsets,
                                                                                    .sources = sources,
                                                                                    .activation = ACTIVATION_SILU,
                                                                                    .is_gated = true});
        op_grouped_matmul(
            device,
            &(struct op_grouped_matmul){
                .kind = GROUPED_WEIGHT, .d = dw3, .a = dh.on[side], .b = xs.on[side], .offsets = offsets, .beta = 1});
        op_sum_slots(device, &(struct op_sum_slots){
                                 .out = dx.on[side], .y = xs.on[side], .places = as_slots(&s, s.places.on[side])});
    }
    twin_expect(twins, h);
    twin_expect(twins, y);
    twin_expect(twins, dw);
    twin_expect(twins, dx);
    for (int side = 0; side < TWIN_COUNT; side++)
        op_grouped_matmul(twins->device[side], &(struct op_grouped_matmul){
                                                   .kind = GROUPED_INPUT,
                                                   .d = xs.on[side],
                                                   .a = dh.on[side],
                                                   .b = tensor_3d(w.on[side].data, w.on[side].dtype, s.E, 2 * F, C),
                                                   .offsets = s.offsets.on[side],
                                               });
    twin_expect(twins, xs);
}

TEST(compare_experts) {
    run_twins(compare_experts, (size_t)1 << 30);
}

TEST_MAIN(TEST_CASE(compare_matmul), TEST_CASE(compare_tf32), TEST_CASE(compare_norm), TEST_CASE(compare_attention),
          TEST_CASE(attention_cudnn_bf16), TEST_CASE(attention_cudnn_fp16), TEST_CASE(attention_deterministic_bf16),
          TEST_CASE(attention_deterministic_fp16), TEST_CASE(compare_embedding), TEST_CASE(compare_loss),
          TEST_CASE(compare_optimizer), TEST_CASE(compare_experts))
