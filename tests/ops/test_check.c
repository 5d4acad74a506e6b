// The checked entry points: breaking a contract ends the process with a message that names the operation and the
// tensor. Each attempt runs in a child process, whose message is read through a pipe.
#include "lab.h"
#include <sys/wait.h>
#include <unistd.h>

static struct device *device;

// Runs `attempt` in a child, which must exit through die() with a message that contains the text.
static void expect_death(void (*attempt)(void), const char *text) {
    int ends[2];
    EXPECT(pipe(ends) == 0);
    (void)fflush(stdout);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        (void)close(ends[0]);
        attempt();
        _exit(0);
    }
    (void)close(ends[1]);
    char message[2048];
    size_t length = 0;
    ssize_t got;
    while ((got = read(ends[0], message + length, sizeof message - 1 - length)) > 0)
        length += (size_t)got;
    message[length] = '\0';
    (void)close(ends[0]);
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child);
    EXPECT(!(WIFEXITED(status) && WEXITSTATUS(status) == 0));
    if (!strstr(message, text))
        test_fail("the message \"%s\" lacks \"%s\"", message, text);
}

// The tensors of these attempts are never read: the check fails first.
static float memory[4096];

static struct tensor matrix(int64_t a, int64_t b) {
    return tensor_2d(memory, DTYPE_F32, a, b);
}

static struct tensor matrix_at(int64_t offset, int64_t a, int64_t b) {
    return tensor_2d(memory + offset, DTYPE_F32, a, b);
}

static struct tensor vector_at(int64_t offset, int64_t a) {
    return tensor_1d(memory + offset, DTYPE_F32, a);
}

static void inner_mismatch(void) {
    op_matmul(device, &(struct op_matmul){.a = matrix(4, 5), .b = matrix_at(100, 6, 7), .d = matrix_at(200, 4, 7)});
}

static void transposed_mismatch(void) {
    op_matmul(device,
              &(struct op_matmul){
                  .a = matrix(4, 5), .b = matrix_at(100, 5, 7), .d = matrix_at(200, 4, 7), .transpose_b = true});
}

static void beta_with_epilogue(void) {
    op_matmul(device, &(struct op_matmul){.a = matrix(4, 5),
                                          .b = matrix_at(100, 5, 7),
                                          .d = matrix_at(200, 4, 7),
                                          .beta = 1,
                                          .epilogue = EPILOGUE_BIAS,
                                          .bias = vector_at(300, 7)});
}

static void missing_bias(void) {
    op_matmul(device,
              &(struct op_matmul){
                  .a = matrix(4, 5), .b = matrix_at(100, 5, 7), .d = matrix_at(200, 4, 7), .epilogue = EPILOGUE_BIAS});
}

static void output_over_input(void) {
    op_matmul(device, &(struct op_matmul){.a = matrix(4, 5), .b = matrix_at(100, 5, 7), .d = matrix_at(10, 4, 7)});
}

static void wrong_dtype(void) {
    struct tensor a = tensor_2d(memory, DTYPE_I32, 4, 5);
    op_matmul(device, &(struct op_matmul){.a = a, .b = matrix_at(100, 5, 7), .d = matrix_at(200, 4, 7)});
}

static struct op_norm_backward norm_backward(void) {
    return (struct op_norm_backward){.dx = matrix(3, 8),
                                     .dgain = vector_at(100, 8),
                                     .dbias = vector_at(200, 8),
                                     .dy = matrix_at(300, 3, 8),
                                     .x = matrix_at(400, 3, 8),
                                     .gain = vector_at(500, 8),
                                     .mean = vector_at(600, 3),
                                     .rstd = vector_at(700, 3)};
}

static void norm_dx_over_dy(void) {
    struct op_norm_backward op = norm_backward();
    op.dx = op.dy;
    op_norm_backward(device, &op);
}

static void norm_again_over_dx(void) {
    struct op_norm_backward op = norm_backward();
    op.y = op.dx;
    op.bias = vector_at(800, 8);
    op_norm_backward(device, &op);
}

static void norm_again_without_bias(void) {
    struct op_norm_backward op = norm_backward();
    op.y = op.dy;
    op_norm_backward(device, &op);
}

static void activation_again_over_dx(void) {
    struct tensor x = matrix(3, 8), dy = matrix_at(100, 3, 8);
    op_activation_backward(device, &(struct op_activation_backward){.dx = dy, .y = dy, .dy = dy, .x = x});
}

static void norm_rstd_shape(void) {
    struct op_norm_backward op = norm_backward();
    op.rstd = vector_at(700, 4);
    op_norm_backward(device, &op);
}

static void norm_delta_over_dx_with_dropout(void) {
    struct op_norm_backward op = norm_backward();
    static int64_t ids[3];
    op.ddelta = op.dx;
    op.dropout = (struct dropout){.rate = 0.5f, .row_ids = tensor_1d(ids, DTYPE_I64, 3)};
    op_norm_backward(device, &op);
}

static void norm_strided(void) {
    struct op_norm_backward op = norm_backward();
    op.x = tensor_slice(matrix_at(400, 3, 16), 1, 0, 8);
    op_norm_backward(device, &op);
}

static struct op_attention_forward attention(int64_t queries, int64_t keys, int64_t heads, int64_t groups) {
    return (struct op_attention_forward){.out = tensor_4d(memory, DTYPE_F32, 1, queries, heads, 4),
                                         .q = tensor_4d(memory + 1000, DTYPE_F32, 1, queries, heads, 4),
                                         .k = tensor_4d(memory + 2000, DTYPE_F32, 1, keys, groups, 4),
                                         .v = tensor_4d(memory + 3000, DTYPE_F32, 1, keys, groups, 4),
                                         .is_causal = true};
}

static void heads_not_a_multiple(void) {
    struct op_attention_forward op = attention(5, 5, 3, 2);
    op_attention_forward(device, &op);
}

static void more_queries_than_keys(void) {
    struct op_attention_forward op = attention(5, 4, 2, 2);
    op_attention_forward(device, &op);
}

static void bad_rate(void) {
    struct op_attention_forward op = attention(5, 5, 2, 2);
    op.dropout.rate = 1;
    op_attention_forward(device, &op);
}

static void missing_row_ids(void) {
    struct op_attention_forward op = attention(5, 5, 2, 2);
    op.dropout.rate = 0.5f;
    op_attention_forward(device, &op);
}

static void window_without_causal(void) {
    struct op_attention_forward op = attention(5, 5, 2, 2);
    op.is_causal = false;
    op.mask.window = 3;
    op_attention_forward(device, &op);
}

static void bias_of_other_width(void) {
    struct op_attention_forward op = attention(5, 5, 2, 2);
    op.mask.relative_bias = matrix_at(4000, 2, 10);
    op_attention_forward(device, &op);
}

static void rms_with_bias(void) {
    struct op_norm_backward op = norm_backward();
    op.kind = NORM_RMS;
    op_norm_backward(device, &op);
}

static void gate_of_other_width(void) {
    op_glu_forward(device, &(struct op_glu_forward){.y = matrix(3, 4), .x = matrix_at(100, 3, 9)});
}

static void too_many_pairs(void) {
    static int32_t positions[5];
    static const double frequencies[3];
    op_rope(device, &(struct op_rope){.x = tensor_4d(memory, DTYPE_F32, 1, 5, 2, 4),
                                      .positions = tensor_1d(positions, DTYPE_I32, 5),
                                      .frequencies = frequencies,
                                      .pairs = 3});
}

static void odd_buckets(void) {
    op_relative_bias_forward(device, &(struct op_relative_bias_forward){
                                         .bias = matrix(2, 9),
                                         .table = matrix_at(100, 7, 2),
                                         .rule = {.buckets = 7, .max_distance = 20, .is_bidirectional = true}});
}

static void heads_beyond_layer(void) {
    op_alibi(device, &(struct op_alibi){.bias = matrix(2, 9), .heads = 4, .first_head = 3, .scale = 1});
}

static void missing_positions(void) {
    static int32_t tokens[3];
    op_embedding_forward(device, &(struct op_embedding_forward){.out = matrix(3, 4),
                                                                .tokens = tensor_1d(tokens, DTYPE_I32, 3),
                                                                .table = matrix_at(100, 9, 4),
                                                                .position_table = matrix_at(200, 9, 4)});
}

static void position_beyond_table(void) {
    static int32_t tokens[3], positions[3] = {0, 9, 1};
    op_embedding_forward(device, &(struct op_embedding_forward){.out = matrix(3, 4),
                                                                .tokens = tensor_1d(tokens, DTYPE_I32, 3),
                                                                .table = matrix_at(100, 9, 4),
                                                                .positions = tensor_1d(positions, DTYPE_I32, 3),
                                                                .position_table = matrix_at(200, 9, 4)});
}

static void adam_without_rate(void) {
    op_adam(device, &(struct op_adam){.master = vector_at(0, 9),
                                      .grad = vector_at(100, 9),
                                      .m = vector_at(200, 9),
                                      .v = vector_at(300, 9),
                                      .scale = vector_at(400, 1)});
}

static void adam_of_halves_without_copy(void) {
    op_adam(device, &(struct op_adam){.master = tensor_1d(memory, DTYPE_I16, 9),
                                      .grad = vector_at(100, 9),
                                      .m = vector_at(200, 9),
                                      .v = vector_at(300, 9),
                                      .scale = vector_at(400, 1)});
}

static void split_into_itself(void) {
    op_split(device, &(struct op_split){.value = tensor_1d(memory, DTYPE_BF16, 9),
                                        .rest = tensor_1d((char *)memory + 100, DTYPE_I16, 9),
                                        .x = vector_at(0, 9)});
}

static void copy_to_integers(void) {
    op_copy(device, &(struct op_copy){.dst = tensor_1d(memory, DTYPE_I32, 9), .src = vector_at(100, 9)});
}

static struct tensor ints_at(int64_t offset, int64_t a, int64_t b) {
    return tensor_2d(memory + offset, DTYPE_I32, a, b);
}

static struct op_route_forward route(void) {
    return (struct op_route_forward){.experts = ints_at(0, 3, 2),
                                     .weights = matrix_at(100, 3, 2),
                                     .logits = matrix_at(200, 3, 8),
                                     .rule = {.score = ROUTER_SIGMOID, .factor = 1}};
}

static void softmax_with_bias(void) {
    struct op_route_forward op = route();
    op.rule.score = ROUTER_SOFTMAX;
    op.bias = vector_at(300, 8);
    op_route_forward(device, &op);
}

static void too_few_in_groups(void) {
    struct op_route_forward op = route();
    op.rule.groups = 8;
    op.rule.chosen_groups = 1;
    op_route_forward(device, &op);
}

static void more_chosen_than_experts(void) {
    struct op_route_forward op = route();
    op.logits = matrix_at(200, 3, 1);
    op_route_forward(device, &op);
}

static void padding_without_room(void) {
    op_sort_slots(device, &(struct op_sort_slots){.offsets = tensor_1d(memory, DTYPE_I32, 5),
                                                  .sources = tensor_1d(memory + 100, DTYPE_I32, 11),
                                                  .places = ints_at(200, 3, 2),
                                                  .experts = ints_at(300, 3, 2),
                                                  .capacity = 3,
                                                  .is_padded = true});
}

static void grouped_of_other_width(void) {
    op_grouped_matmul(device, &(struct op_grouped_matmul){.d = matrix(5, 6),
                                                          .a = matrix_at(100, 5, 4),
                                                          .b = tensor_3d(memory + 200, DTYPE_F32, 2, 6, 3),
                                                          .offsets = tensor_1d(memory + 300, DTYPE_I32, 3)});
}

TEST(broken_contracts) {
    EXPECT_OK(cpu_open(&device, &(struct device_options){.threads = 1}));
    expect_death(inner_mismatch, "op_matmul: b is fp32 (6, 7), expected fp32 (5, 7)");
    expect_death(transposed_mismatch, "op_matmul: b is fp32 (5, 7), expected fp32 (7, 5)");
    expect_death(beta_with_epilogue, "op_matmul: beta must be 0");
    expect_death(missing_bias, "op_matmul: bias is no tensor, expected fp32 (7)");
    expect_death(output_over_input, "op_matmul: d and a share memory");
    expect_death(wrong_dtype, "op_matmul: a is int32 (4, 5), which cpu does not compute in");
    expect_death(norm_dx_over_dy, "op_norm_backward: dx and dy share memory");
    expect_death(norm_again_over_dx, "op_norm_backward: y and dx share memory");
    expect_death(norm_again_without_bias, "op_norm_backward: y is computed again with the bias that dbias belongs to");
    expect_death(activation_again_over_dx, "op_activation_backward: y and dx share memory");
    expect_death(norm_rstd_shape, "op_norm_backward: rstd is fp32 (4), expected fp32 (3)");
    expect_death(norm_delta_over_dx_with_dropout, "op_norm_backward: ddelta may alias dx only where");
    expect_death(norm_strided, "op_norm_backward: x is fp32 (3, 8) strides (16, 1), expected fp32 (3, 8)");
    expect_death(heads_not_a_multiple, "op_attention_forward: query heads must be a multiple");
    expect_death(more_queries_than_keys, "op_attention_forward: causal attention needs");
    expect_death(bad_rate, "op_attention_forward: the dropout rate must be");
    expect_death(missing_row_ids, "op_attention_forward: dropout.row_ids is no tensor");
    expect_death(window_without_causal, "op_attention_forward: a window belongs to causal attention");
    expect_death(bias_of_other_width, "op_attention_forward: relative_bias is fp32 (2, 10), expected fp32 (2, 9)");
    expect_death(rms_with_bias, "op_norm_backward: an RMSNorm has neither mean nor bias");
    expect_death(gate_of_other_width, "op_glu_forward: x is fp32 (3, 9), expected fp32 (3, 8)");
    expect_death(too_many_pairs, "op_rope: pairs must be from 1 to half the head size");
    expect_death(odd_buckets, "op_relative_bias_forward: there are too many buckets");
    expect_death(heads_beyond_layer, "op_alibi: the rows must be heads of the layer");
    expect_death(missing_positions, "op_embedding_forward: positions and position_table go together");
    expect_death(position_beyond_table, "position 9, but the position table has 9 rows");
    expect_death(adam_without_rate, "op_adam: rate is no tensor, expected fp32 (4)");
    expect_death(adam_of_halves_without_copy, "op_adam: copy is no tensor, expected bf16 (9)");
    expect_death(split_into_itself, "op_split: value and x share memory");
    expect_death(copy_to_integers, "op_copy: only float dtypes are converted");
    expect_death(softmax_with_bias, "op_route_forward: a softmax has no bias");
    expect_death(too_few_in_groups, "op_route_forward: the chosen groups must have enough experts");
    expect_death(more_chosen_than_experts, "op_route_forward: a row must choose 1 to 32 experts");
    expect_death(padding_without_room, "op_sort_slots: sources must have room");
    expect_death(grouped_of_other_width, "op_grouped_matmul: b is fp32 (2, 6, 3), expected fp32 (2, 6, 4)");
    device_close(device);
}

TEST(opening_by_name) {
    struct device *opened = NULL;
    EXPECT_ERROR(device_open(&opened, &(struct device_options){.name = "tpu", .threads = 1}), "choose auto, cpu");
    EXPECT(opened == NULL);
    EXPECT_ERROR(device_open(&opened, &(struct device_options){.name = "cpu", .threads = 0}), "thread");
    EXPECT_OK(device_open(&opened, &(struct device_options){.name = "cpu", .threads = 2}));
    char text[128];
    device_describe(opened, text, sizeof text);
    EXPECT(strstr(text, "CPU, 2 threads") != NULL);
    EXPECT(device_supports(opened, DTYPE_BF16) && !device_supports(opened, DTYPE_I32));
    device_close(opened);
    device_close(NULL);
}

TEST(no_gpu) {
    if (cuda_count() > 0)
        test_skip("this machine has a GPU");
    struct device *opened = NULL;
    EXPECT_ERROR(device_open(&opened, &(struct device_options){.name = "cuda"}), "--device cpu");
    EXPECT(opened == NULL);
    EXPECT_OK(device_open(&opened, &(struct device_options){.name = "auto", .threads = 1}));
    EXPECT_STRING(opened->ops->name, "cpu");
    EXPECT(!device_times_algorithms("auto") && device_times_algorithms("cuda"));
    device_close(opened);
}

TEST(memory_that_is_not_there) {
    struct device *opened = NULL;
    EXPECT_OK(cpu_open(&opened, &(struct device_options){.threads = 1}));
    error_clear();
    EXPECT(device_alloc(opened, (size_t)1 << 62) == NULL);
    EXPECT(strstr(error_message(), "cannot allocate") != NULL);
    EXPECT_INT(error_exit_code(), EXIT_CODE_OUT_OF_MEMORY);
    void *nothing = device_alloc(opened, 0);
    EXPECT(nothing != NULL);
    device_free(opened, nothing);
    device_free(opened, NULL);
    device_close(opened);
}

TEST_MAIN(TEST_CASE(broken_contracts), TEST_CASE(opening_by_name), TEST_CASE(no_gpu),
          TEST_CASE(memory_that_is_not_there))
