// The paper backend: it accepts every operation, touches no memory and adds up what the operation would cost.
#include "test.h"
#include "ops/device.h"
#include "tensor/arena.h"

// Tensors at inaccessible addresses: reading or writing one would end the test.
static struct tensor paper_tensor(struct device *device, int64_t a, int64_t b) {
    return tensor_2d(device_alloc(device, (size_t)(a * b) * 4), DTYPE_F32, a, b);
}

TEST(matmul_cost) {
    struct device *device = NULL;
    EXPECT_OK(device_open_twin(&device, NULL));
    EXPECT(!device->ops->is_host_memory);
    struct op_matmul op = {.a = paper_tensor(device, 1000, 300),
                           .b = paper_tensor(device, 300, 700),
                           .d = paper_tensor(device, 1000, 700),
                           .alpha = 1};
    op_matmul(device, &op);
    struct device_totals totals = device_totals(device);
    EXPECT(totals.matmul_flops == 2.0 * 1000 * 300 * 700);
    EXPECT(totals.bytes_moved == 4.0 * (1000 * 300 + 300 * 700 + 1000 * 700));
    EXPECT_INT(totals.operations, 1);
    op.beta = 1;  // the result is read too
    op_matmul(device, &op);
    totals = device_totals(device);
    EXPECT(totals.matmul_flops == 4.0 * 1000 * 300 * 700);
    EXPECT(totals.bytes_moved == 4.0 * (2 * 1000 * 300 + 2 * 300 * 700 + 3 * 1000 * 700));
    device_close(device);
}

TEST(attention_cost) {
    struct device *device = NULL;
    EXPECT_OK(device_open_twin(&device, NULL));
    struct arena arena;
    arena_init(&arena, "paper", device_alloc(device, (size_t)1 << 40), (size_t)1 << 40);
    int64_t B = 2, T = 10, H = 3, D = 8;
    struct tensor q = arena_4d(&arena, DTYPE_BF16, B, T, H, D), k = arena_4d(&arena, DTYPE_BF16, B, T, H, D);
    struct tensor v = arena_4d(&arena, DTYPE_BF16, B, T, H, D), out = arena_4d(&arena, DTYPE_BF16, B, T, H, D);
    struct op_attention_forward op = {.out = out, .q = q, .k = k, .v = v, .scale = 1};
    op_attention_forward(device, &op);
    EXPECT(device_totals(device).attention_flops == 2.0 * 2 * 2 * 3 * 10 * 10 * 8);
    op.is_causal = true;
    op_attention_forward(device, &op);
    EXPECT(device_totals(device).attention_flops == 2.0 * 2 * 2 * 3 * (10 * 10 + 55) * 8);
    EXPECT(device_totals(device).bytes_moved == 2.0 * 4 * 2 * (double)tensor_count(q));
    // A window of 4: 1 + 2 + 3 and seven times 4 scores per head.
    op.mask.window = 4;
    op_attention_forward(device, &op);
    EXPECT(device_totals(device).attention_flops == 2.0 * 2 * 2 * 3 * (10 * 10 + 55 + 34) * 8);
    // The last query alone, with a cache.
    op.q = tensor_rows(q, 0, 1), op.k = tensor_rows(k, 0, 1), op.v = tensor_rows(v, 0, 1);
    op.q = tensor_slice(op.q, 1, 9, 1);
    op.out = tensor_slice(tensor_rows(out, 0, 1), 1, 9, 1);
    op_attention_forward(device, &op);
    EXPECT(device_totals(device).attention_flops == 2.0 * 2 * 3 * (2 * (10 * 10 + 55 + 34) + 4) * 8);
    device_close(device);
}

TEST(memory_is_not_real) {
    struct device *device = NULL;
    EXPECT_OK(device_open_twin(&device, NULL));
    unsigned char *first = device_alloc(device, (size_t)1 << 40), *second = device_alloc(device, 100);
    EXPECT(first != NULL && second != NULL);
    EXPECT((uintptr_t)second - (uintptr_t)first >= (uintptr_t)1 << 40);
    EXPECT((uintptr_t)first % ARENA_ALIGNMENT == 0 && (uintptr_t)second % ARENA_ALIGNMENT == 0);
    float host[4] = {1, 2, 3, 4};
    struct tensor t = tensor_1d(second, DTYPE_F32, 4);
    device_copy_in(device, t, host);
    device_zero(device, t);
    device_copy_out(device, host, t);
    EXPECT(host[0] == 1 && host[3] == 4);
    device_free(device, first);
    device_close(device);
}

TEST(every_other_operation) {
    struct device *device = NULL;
    EXPECT_OK(device_open_twin(&device, NULL));
    struct arena a;
    arena_init(&a, "paper", device_alloc(device, (size_t)1 << 40), (size_t)1 << 40);
    int64_t N = 6, C = 4, V = 10;
    struct tensor x = arena_2d(&a, DTYPE_F32, N, C), y = arena_2d(&a, DTYPE_F32, N, C), g = arena_1d(&a, DTYPE_F32, C);
    struct tensor g2 = arena_1d(&a, DTYPE_F32, C), n = arena_1d(&a, DTYPE_F32, N), n2 = arena_1d(&a, DTYPE_F32, N);
    struct tensor n3 = arena_1d(&a, DTYPE_F32, N), n4 = arena_1d(&a, DTYPE_F32, N), z = arena_2d(&a, DTYPE_F32, N, C);
    struct tensor table = arena_2d(&a, DTYPE_F32, V, C), ids = arena_1d(&a, DTYPE_I32, N);
    struct tensor logits = arena_2d(&a, DTYPE_F32, N, V), one = arena_1d(&a, DTYPE_F32, 1);
    struct tensor rate = arena_1d(&a, DTYPE_F32, RATE_GROUP);
    op_norm_forward(device, &(struct op_norm_forward){.y = y, .mean = n, .rstd = n2, .x = x, .gain = g, .bias = g2});
    op_norm_backward(device, &(struct op_norm_backward){
                                 .dx = y, .dgain = g, .dbias = g2, .dy = z, .x = x, .gain = g, .mean = n, .rstd = n2});
    op_embedding_forward(device, &(struct op_embedding_forward){.out = x, .tokens = ids, .table = table});
    op_embedding_backward(device, &(struct op_embedding_backward){.dtable = table, .dout = x, .tokens = ids});
    op_softmax_stats(device, &(struct op_softmax_stats){
                                 .row_max = n, .row_sum = n2, .row_target = n3, .logits = logits, .labels = ids});
    op_cross_entropy(device,
                     &(struct op_cross_entropy){
                         .losses = n4, .logits = logits, .row_max = n, .row_sum = n2, .row_target = n3, .labels = ids});
    op_top_hits(device, &(struct op_top_hits){.hits = one, .logits = logits, .labels = ids, .tops = {1}, .count = 1});
    op_dropout_add(device, &(struct op_dropout_add){.out = x, .x = x});
    op_dropout_backward(device, &(struct op_dropout_backward){.dx = x, .dy = x});
    op_column_sum(device, &(struct op_column_sum){.out = g, .x = x});
    op_dot(device, &(struct op_dot){.out = one, .a = n, .b = n2});
    op_sum_squares(device, &(struct op_sum_squares){.out = one, .x = x});
    op_digest(device, &(struct op_digest){.out = arena_1d(&a, DTYPE_I64, 1), .x = x});
    op_clip_scale(device, &(struct op_clip_scale){.scale = one, .norm = one, .sum_squares = one});
    op_adam(device, &(struct op_adam){.master = n, .grad = n2, .m = n3, .v = n4, .scale = one, .rate = rate});
    op_sgd(device, &(struct op_sgd){.master = n, .grad = n2, .m = n3, .scale = one, .rate = rate});
    op_lion(device, &(struct op_lion){.master = n, .grad = n2, .m = n3, .scale = one, .rate = rate});
    op_momentum(device, &(struct op_momentum){.y = n4, .grad = n2, .m = n3, .scale = one});
    op_normalize(device, &(struct op_normalize){.y = n4, .x = n3, .sum_squares = one, .least = 1});
    struct tensor square = arena_3d(&a, DTYPE_BF16, 2, 3, 3);
    op_add_diagonal(device, &(struct op_add_diagonal){.x = square, .value = 1});
    op_mean_squares(device, &(struct op_mean_squares){.y = y, .x = x});
    op_adapt(device, &(struct op_adapt){.x = n, .v = n2, .scale = one});
    op_follow(device, &(struct op_follow){.master = n, .x = n2, .scale = one, .rate = rate});
    op_average(device, &(struct op_average){.average = n2, .master = n, .scale = one});
    int64_t count = tensor_count(n);
    struct tensor value = arena_1d(&a, DTYPE_BF16, count), rest = arena_1d(&a, DTYPE_I16, count);
    op_split(device, &(struct op_split){.value = value, .rest = rest, .x = n});
    op_merge(device, &(struct op_merge){.x = n, .value = value, .rest = rest});
    op_copy(device, &(struct op_copy){.dst = y, .src = x});
    op_scale(device, &(struct op_scale){.x = x, .factor = 2});
    struct tensor wide = arena_2d(&a, DTYPE_F32, N, 2 * C), heads = arena_4d(&a, DTYPE_F32, 1, N, 1, C);
    struct tensor bias = arena_2d(&a, DTYPE_F32, 2, 9), dbias = arena_3d(&a, DTYPE_F32, 1, 2, 9);
    struct tensor buckets = arena_2d(&a, DTYPE_F32, 8, 2);
    const double frequency = 1;
    struct relative_rule rule = {.buckets = 8, .max_distance = 9};
    op_activation_forward(device, &(struct op_activation_forward){.y = y, .x = x});
    op_activation_backward(device, &(struct op_activation_backward){.dx = x, .y = y, .dy = y, .x = x});
    op_glu_forward(device, &(struct op_glu_forward){.y = y, .x = wide});
    op_glu_backward(device, &(struct op_glu_backward){.dx = wide, .y = y, .dy = y, .x = wide});
    op_rope(device, &(struct op_rope){.x = heads, .positions = ids, .frequencies = &frequency, .pairs = 1});
    op_relative_bias_forward(device, &(struct op_relative_bias_forward){.bias = bias, .table = buckets, .rule = rule});
    op_relative_bias_backward(device,
                              &(struct op_relative_bias_backward){.dtable = buckets, .dbias = dbias, .rule = rule});
    op_alibi(device, &(struct op_alibi){.bias = bias, .heads = 2, .scale = 1});
    struct tensor up = arena_2d(&a, DTYPE_F32, N, 6), kv = arena_2d(&a, DTYPE_F32, N, 14);
    struct tensor shared = arena_2d(&a, DTYPE_F32, N, 4);
    op_latent_forward(device,
                      &(struct op_latent_forward){.kv = kv, .up = up, .shared = shared, .heads = 2, .value_size = 1});
    op_latent_backward(
        device, &(struct op_latent_backward){.dup = up, .dshared = shared, .dkv = kv, .heads = 2, .value_size = 1});
    struct event *event = device->ops->event_create(device);
    device->ops->event_record(device, event, STREAM_COMPUTE);
    device->ops->stream_wait(device, STREAM_COPY, event);
    device->ops->event_wait(device, event);
    device->ops->event_free(device, event);
    device_synchronize(device);
    EXPECT_INT(device_totals(device).operations, 38);
    EXPECT(device_totals(device).bytes_moved > 0 && device_totals(device).matmul_flops == 0);
    device_close(device);
}

// A gradient without dropout moves only if its place changes, and is read if there is a bias.
TEST(dropout_backward_cost) {
    enum { ROWS = 8, COLUMNS = 16, BYTES = 4 * ROWS * COLUMNS };
    struct tensor x = tensor_2d((void *)4096, DTYPE_F32, ROWS, COLUMNS),
                  y = tensor_2d((void *)8192, DTYPE_F32, ROWS, COLUMNS);
    struct tensor bias = tensor_1d((void *)12288, DTYPE_F32, COLUMNS), none = {0};
    struct tensor ids = tensor_1d((void *)16384, DTYPE_I64, ROWS);
    const struct {
        struct tensor dx, dbias;
        float rate;
        double bytes;
    } cases[] = {
        {y, none, 0, 0}, {y, bias, 0, BYTES + 8 * COLUMNS}, {x, none, 0, 2 * BYTES}, {y, none, 0.5f, 2 * BYTES}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct device *device = NULL;
        EXPECT_OK(device_open_twin(&device, NULL));
        op_dropout_backward(device, &(struct op_dropout_backward){.dx = cases[i].dx,
                                                                  .dy = y,
                                                                  .dbias = cases[i].dbias,
                                                                  .dropout = {.rate = cases[i].rate, .row_ids = ids}});
        EXPECT(device_totals(device).bytes_moved == cases[i].bytes);
        device_close(device);
    }
}

// Memory traffic of an update per parameter: 28 bytes if the masters are in halves, 30 if they are whole.
TEST(adam_cost) {
    enum { COUNT = 1000 };
    struct tensor value = tensor_1d((void *)4096, DTYPE_BF16, COUNT), rest = tensor_1d((void *)8192, DTYPE_I16, COUNT);
    struct tensor whole = tensor_1d((void *)12288, DTYPE_F32, COUNT), rate = tensor_1d((void *)4, DTYPE_F32, 4);
    struct op_adam op = {.copy = value, .grad = whole, .m = whole, .v = whole, .rate = rate};
    op.scale = tensor_1d((void *)4, DTYPE_F32, 1);
    const struct tensor masters[] = {whole, rest};
    const double bytes[] = {30, 28};
    for (int i = 0; i < 2; i++) {
        struct device *device = NULL;
        EXPECT_OK(device_open_twin(&device, NULL));
        op.master = masters[i];
        op_adam(device, &op);
        EXPECT(device_totals(device).bytes_moved == bytes[i] * COUNT + 20);
        device_close(device);
    }
}

// Two matmuls of 50 rows each, of which the second kind adds to an fp32 result; rows move twice.
TEST(experts_cost) {
    enum { PLACES = 100, INPUTS = 16, OUTPUTS = 32, EXPERTS = 2 };
    struct device *device = NULL;
    EXPECT_OK(device_open_twin(&device, NULL));
    struct arena a;
    arena_init(&a, "paper", device_alloc(device, (size_t)1 << 40), (size_t)1 << 40);
    struct tensor x = arena_2d(&a, DTYPE_BF16, PLACES, INPUTS), y = arena_2d(&a, DTYPE_BF16, PLACES, OUTPUTS);
    struct tensor w = arena_3d(&a, DTYPE_BF16, EXPERTS, OUTPUTS, INPUTS),
                  offsets = arena_1d(&a, DTYPE_I32, EXPERTS + 1);
    struct tensor dw = arena_3d(&a, DTYPE_F32, EXPERTS, OUTPUTS, INPUTS), sources = arena_1d(&a, DTYPE_I32, PLACES);
    double rows = 2.0 * PLACES * (INPUTS + OUTPUTS) + 4.0 * (EXPERTS + 1), weights = EXPERTS * OUTPUTS * INPUTS;
    op_grouped_matmul(device, &(struct op_grouped_matmul){.d = y, .a = x, .b = w, .offsets = offsets});
    EXPECT(device_totals(device).matmul_flops == 2.0 * PLACES * INPUTS * OUTPUTS);
    EXPECT(device_totals(device).bytes_moved == rows + 2 * weights);
    op_grouped_matmul(device, &(struct op_grouped_matmul){
                                  .kind = GROUPED_WEIGHT, .d = dw, .a = y, .b = x, .offsets = offsets, .beta = 1});
    EXPECT(device_totals(device).matmul_flops == 4.0 * PLACES * INPUTS * OUTPUTS);
    EXPECT(device_totals(device).bytes_moved == 2 * rows + 10 * weights);
    op_gather_slots(device, &(struct op_gather_slots){
                                .y = x, .x = arena_2d(&a, DTYPE_BF16, 10, INPUTS), .sources = sources, .per_row = 2});
    EXPECT(device_totals(device).bytes_moved == 2 * rows + 10 * weights + 4.0 * PLACES * INPUTS + 4.0 * PLACES);
    device_close(device);
}

// In fp8 the operands of a gradient of weights are transposed, and have half the bytes.
TEST(experts_cost_in_fp8) {
    enum { PLACES = 96, INPUTS = 16, OUTPUTS = 32, EXPERTS = 2 };
    struct device *device = NULL;
    EXPECT_OK(device_open_twin(&device, NULL));
    struct arena a;
    arena_init(&a, "paper", device_alloc(device, (size_t)1 << 40), (size_t)1 << 40);
    struct tensor range = arena_1d(&a, DTYPE_F32, RANGE_LENGTH), offsets = arena_1d(&a, DTYPE_I32, EXPERTS + 1);
    struct op_grouped_matmul op = {.kind = GROUPED_WEIGHT, .a_range = range, .b_range = range, .offsets = offsets};
    op.d = arena_3d(&a, DTYPE_F32, EXPERTS, OUTPUTS, INPUTS);
    op.a = arena_2d(&a, DTYPE_E5M2, OUTPUTS, PLACES);
    op.b = arena_2d(&a, DTYPE_E4M3, INPUTS, PLACES);
    op_grouped_matmul(device, &op);
    double bytes = PLACES * (INPUTS + OUTPUTS) + 4.0 * (EXPERTS + 1) + 4.0 * EXPERTS * OUTPUTS * INPUTS;
    EXPECT(device_totals(device).matmul_flops == 2.0 * PLACES * INPUTS * OUTPUTS);
    EXPECT(device_totals(device).bytes_moved == bytes);
    op.kind = GROUPED_INPUT;
    op.d = arena_2d(&a, DTYPE_BF16, PLACES, INPUTS);
    op.a = arena_2d(&a, DTYPE_E5M2, PLACES, OUTPUTS);
    op.b = arena_2d(&a, DTYPE_E4M3, INPUTS, EXPERTS * OUTPUTS);
    op_grouped_matmul(device, &op);
    bytes += PLACES * (2 * INPUTS + OUTPUTS) + 4.0 * (EXPERTS + 1) + EXPERTS * OUTPUTS * INPUTS;
    EXPECT(device_totals(device).matmul_flops == 4.0 * PLACES * INPUTS * OUTPUTS);
    EXPECT(device_totals(device).bytes_moved == bytes);
    device_close(device);
}

static const struct device_rates rates = {.matmul = {1e12, 10e12, 20e12},
                                          .processors = 4,
                                          .tile = 128,
                                          .half_inner = 100,
                                          .attention = {5e12, 4e12},
                                          .narrow = 0.5,
                                          .bytes_per_second = 1e12,
                                          .seconds_per_operation = 1e-9};

static double matmul_time(enum dtype dtype, int64_t rows, int64_t inner, int64_t columns) {
    struct device *device = NULL;
    EXPECT_OK(device_open_twin(&device, NULL));
    device_set_rates(device, &rates);
    struct op_matmul op = {.a = tensor_2d(device_alloc(device, 1 << 24), dtype, rows, inner),
                           .b = tensor_2d(device_alloc(device, 1 << 24), dtype, inner, columns),
                           .d = tensor_2d(device_alloc(device, 1 << 24), dtype, rows, columns),
                           .alpha = 1};
    op_matmul(device, &op);
    double seconds = device_twin_time(device);
    EXPECT(seconds == device_totals(device).seconds);
    device_close(device);
    return seconds;
}

// Derived by hand: four tiles fill the four processors for one round; five need two, of which the second is mostly idle
// and counts half; a short inner length pays for the pipeline.
TEST(time_of_matmuls) {
    EXPECT_NEAR(matmul_time(DTYPE_BF16, 256, 1000, 256), 2.0 * 256 * 256 * 1100 / 10e12, 1e-12);
    EXPECT_NEAR(matmul_time(DTYPE_F32, 256, 1000, 256), 2.0 * 256 * 256 * 1100 / 1e12, 1e-12);
    double five = 2.0 * 5 * 128 * 128 * 1100 / 10e12 * (1.25 + 2) / 2 / 1.25;
    EXPECT_NEAR(matmul_time(DTYPE_BF16, 640, 1000, 128), five, 1e-12);
    EXPECT_NEAR(matmul_time(DTYPE_BF16, 129, 1000, 128), matmul_time(DTYPE_BF16, 256, 1000, 128), 1e-12);
}

TEST(time_of_bytes_and_waits) {
    struct device *device = NULL;
    EXPECT_OK(device_open_twin(&device, NULL));
    struct tensor x = tensor_1d((void *)4096, DTYPE_F32, 1000000), y = tensor_1d((void *)(1 << 24), DTYPE_F32, 1000000);
    op_copy(device, &(struct op_copy){.dst = y, .src = x});
    EXPECT(device_twin_time(device) == 0 && !device_tells_time(device));
    device_set_rates(device, &rates);
    op_copy(device, &(struct op_copy){.dst = y, .src = x});
    EXPECT_NEAR(device_twin_time(device), 8e-6, 1e-12);
    device_clock_start(device, 4);
    int64_t before = device_stamp(device, STREAM_COMPUTE);
    device_twin_await(device, 5e-6);  // past already
    device_twin_await(device, 20e-6);
    int64_t after = device_stamp(device, STREAM_COMPUTE);
    double start = 0, end = 0;
    EXPECT(device_read_stamp(device, before, &start) && device_read_stamp(device, after, &end));
    EXPECT_NEAR(start, 8e-6, 1e-12);
    EXPECT_NEAR(end, 20e-6, 1e-12);
    EXPECT_NEAR(device_totals(device).seconds, 8e-6, 1e-12);  // waits are not work
    for (int i = 0; i < 4; i++)
        after = device_stamp(device, STREAM_COMPUTE);
    EXPECT(!device_read_stamp(device, before, &start) && device_read_stamp(device, after, &end));
    device_clock_stop(device);
    EXPECT(!device_read_stamp(device, after, &end) && device_stamp(device, STREAM_COMPUTE) == 0);
    device_close(device);
}

// A computation of 8 us, then two tensors of a piece go to host memory, and so on: the bus has 1 TB/s.
static double time_of_pieces(int pieces, size_t bytes) {
    struct device *device = NULL;
    EXPECT_OK(device_open_twin(&device, NULL));
    device_set_rates(device, &rates);
    struct tensor x = tensor_1d((void *)4096, DTYPE_F32, 1000000), y = tensor_1d((void *)(1 << 24), DTYPE_F32, 1000000);
    for (int i = 0; i < pieces; i++) {
        op_copy(device, &(struct op_copy){.dst = y, .src = x});
        for (int k = 0; k < 2; k++)
            device->ops->copy_out(device, NULL, x.data, bytes, STREAM_BACK);
    }
    double seconds = device_twin_time(device);
    device_close(device);
    return seconds;
}

TEST(time_of_copies_beside_computation) {
    EXPECT_NEAR(time_of_pieces(10, 1000000), 80e-6, 1e-12);   // 2 us each: hidden
    EXPECT_NEAR(time_of_pieces(10, 6000000), 120e-6, 1e-12);  // 12 us each: they hide the computation
}

// Derived by hand: copies of 8 µs wait for a host that needs 20 µs for each, a long wait lets it run ahead, and what
// only moves data takes 3 µs more.
TEST(time_of_a_slow_host) {
    struct device *device = NULL;
    EXPECT_OK(device_open_twin(&device, NULL));
    struct tensor x = tensor_1d((void *)4096, DTYPE_F32, 1000000), y = tensor_1d((void *)(1 << 24), DTYPE_F32, 1000000);
    struct device_rates slow = rates;
    slow.host_seconds = 20e-6;
    slow.moving_seconds = 3e-6;
    device_set_rates(device, &slow);
    for (int i = 0; i < 5; i++)
        op_copy(device, &(struct op_copy){.dst = y, .src = x});
    EXPECT_NEAR(device_twin_time(device), 5 * 20e-6 + 11e-6, 1e-12);
    device_twin_await(device, 1e-3);
    for (int i = 0; i < 5; i++)
        op_copy(device, &(struct op_copy){.dst = y, .src = x});
    EXPECT_NEAR(device_twin_time(device), 1e-3 + 5 * 11e-6, 1e-12);
    device_close(device);
}

// Derived by hand: experts in 8 bits multiply twice as fast as in 16, and 4 bytes for each of 100 × 16 elements that
// the forward matmul reads take their time; rows go to experts at half of the rate.
TEST(time_of_experts) {
    enum { PLACES = 100, INPUTS = 16, OUTPUTS = 32, EXPERTS = 2 };
    struct device_rates given = rates;
    struct device_grouped shape = {
        .dtype = DTYPE_BF16, .experts = EXPERTS, .rows = PLACES, .from = INPUTS, .to = OUTPUTS};
    double bits16 = device_rates_grouped(&given, &shape);
    EXPECT(device_rates_quantize(&given, &shape) == 0);
    given.expert_quantize_bytes = 4;
    EXPECT_NEAR(device_rates_grouped(&given, &shape), bits16 / 2, 1e-15);
    EXPECT_NEAR(device_rates_quantize(&given, &shape), 100 * 16 * 4 / 1e12, 1e-18);
    given.expert_seconds = 5e-6;
    EXPECT_NEAR(device_rates_quantize(&given, &shape), EXPERTS * 5e-6, 1e-15);
    shape.is_weight = true;
    EXPECT(device_rates_quantize(&given, &shape) == 0);
    struct device *device = NULL;
    EXPECT_OK(device_open_twin(&device, NULL));
    given.permute = 0.5;
    device_set_rates(device, &given);
    struct tensor rows = tensor_2d((void *)4096, DTYPE_BF16, 100000, 50),
                  places = tensor_2d((void *)(1 << 28), DTYPE_BF16, 200000, 50),
                  sources = tensor_1d((void *)(1 << 29), DTYPE_I32, 200000);
    op_gather_slots(device, &(struct op_gather_slots){.y = places, .x = rows, .sources = sources, .per_row = 2});
    EXPECT_NEAR(device_twin_time(device), (2 * 20e6 + 0.8e6) / 0.5e12, 1e-12);
    device_close(device);
}

TEST_MAIN(TEST_CASE(time_of_matmuls), TEST_CASE(time_of_copies_beside_computation), TEST_CASE(time_of_bytes_and_waits),
          TEST_CASE(adam_cost), TEST_CASE(experts_cost), TEST_CASE(experts_cost_in_fp8), TEST_CASE(time_of_a_slow_host),
          TEST_CASE(time_of_experts), TEST_CASE(dropout_backward_cost), TEST_CASE(matmul_cost),
          TEST_CASE(attention_cost), TEST_CASE(memory_is_not_real), TEST_CASE(every_other_operation))
