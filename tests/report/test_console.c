// The console lines, character for character as Megatron-LM writes them; the expected texts are typed from its format
// strings, and the first is the example of its documentation.
#include "report/console.h"
#include "test.h"
#include <time.h>

static const double moment = 1767323045.6789015;  // 2026-01-02 03:04:05.678901 UTC

static void use_utc(void) {
    setenv("TZ", "UTC", 1);
    tzset();
}

static struct metrics example(void) {
    return (struct metrics){.wall_seconds = moment,
                            .iteration = 100,
                            .train_iters = 500,
                            .consumed_samples = 3200,
                            .elapsed_ms = 123.4,
                            .learning_rate = 1e-4,
                            .global_batch_size = 32,
                            .losses = {{"lm loss", 7.654321}},
                            .loss_count = 1,
                            .loss_scale = 1,
                            .has_grad_norm = true,
                            .grad_norm = 1.234};
}

TEST(plain_line) {
    use_utc();
    struct buffer out = {0};
    struct metrics m = example();
    console_train(&out, &m);
    EXPECT_STRING(
        buffer_string(&out),
        " [2026-01-02 03:04:05.678901] iteration      100/     500 | consumed samples:         3200 | elapsed "
        "time per iteration (ms): 123.4 | learning rate: 1.000000E-04 | global batch size:    32 | lm loss: "
        "7.654321E+00 | loss scale: 1.0 | grad norm: 1.234 | number of skipped iterations:   0 | number of nan "
        "iterations:   0 |\n");
    buffer_free(&out);
}

TEST(every_part) {
    use_utc();
    struct buffer out = {0};
    struct metrics m = example();
    m.skipped_samples = 64;
    m.has_decoupled = true;
    m.decoupled_learning_rate = 5e-4;
    m.has_throughput = m.has_num_zeros = m.has_params_norm = true;
    m.teraflops = 412.345;
    m.tokens_per_second = 265639.9;
    m.train_iters = 40600;  // 40500 × 123.4 ms
    m.num_zeros = 123;
    m.params_norm = 98.76549;
    m.losses[m.loss_count++] = (struct metrics_loss){.name = "sop loss", .value = 0.693147};
    m.skipped_iterations = 2;
    m.nan_iterations = 1;
    m.loss_scale = 4294967296.0;
    console_train(&out, &m);
    EXPECT_STRING(
        buffer_string(&out),
        " [2026-01-02 03:04:05.678901] iteration      100/   40600 | consumed samples:         3200 | skipped "
        "samples:           64 | elapsed time per iteration (ms): 123.4 | throughput per GPU (TFLOP/s/GPU): 412.3 "
        "| learning rate: 1.000000E-04 | decoupled learning rate: 5.000000E-04 | global batch size:    32 | lm loss: "
        "7.654321E+00 | sop loss: 6.931470E-01 | loss scale: 4294967296.0 | grad norm: 1.234 | num zeros: 123.0 | "
        "params norm: 98.765 | "
        "number of skipped iterations:   2 | number of nan iterations:   1 | tokens per second: 265640 | time left: "
        "1:23:18 |\n");
    // A CPU's throughput shows too.
    buffer_clear(&out);
    m.teraflops = 0.00714;
    console_train(&out, &m);
    EXPECT(strstr(buffer_string(&out), "(TFLOP/s/GPU): 0.0071 |") != NULL);
    buffer_free(&out);
}

TEST(skipped_iteration) {
    use_utc();
    struct buffer out = {0};
    struct metrics m = example();
    m.losses[0].value = NAN;
    m.has_grad_norm = false;
    console_train(&out, &m);
    EXPECT(strstr(buffer_string(&out), "lm loss") == NULL);
    EXPECT(strstr(buffer_string(&out), "grad norm") == NULL);
    buffer_clear(&out);
    m.has_grad_norm = true;
    m.grad_norm = -NAN;
    console_train(&out, &m);
    EXPECT(strstr(buffer_string(&out), "| grad norm: nan |") != NULL);
    buffer_free(&out);
}

TEST(evaluation) {
    struct buffer out = {0};
    struct metrics_eval eval = {.iteration = 100, .set = "validation", .losses = {{"lm loss", 2.5}}, .loss_count = 1};
    console_eval(&out, &eval);
    // Python: s = " validation loss at iteration 100 | lm loss value: 2.500000E+00 | lm loss PPL: 1.218249E+01 | ",
    // and a rule of len(s) + 1 = 95 dashes above and below.
    const char *dashes =
        "-----------------------------------------------------------------------------------------------";
    char expected[512];
    snprintf(expected, sizeof expected, "%s\n%s\n%s\n", dashes,
             " validation loss at iteration 100 | lm loss value: 2.500000E+00 | lm loss PPL: 1.218249E+01 | ", dashes);
    EXPECT_STRING(buffer_string(&out), expected);
    buffer_clear(&out);
    eval.is_final = true;
    eval.set = "test";
    eval.losses[0].value = 25;
    console_eval(&out, &eval);
    EXPECT(strstr(buffer_string(&out),
                  "\n validation loss at iteration 100 on test set | lm loss value: 2.500000E+01 | lm "
                  "loss PPL: 4.851652E+08 | \n") != NULL);
    buffer_free(&out);
}

TEST(checkpoint_messages) {
    use_utc();
    struct buffer out = {0};
    console_saving(&out, moment, 10, "ckpt");
    struct console_checkpoint checkpoint = {.iteration = 10, .folder = "ckpt", .tensor_ranks = 1, .pipeline_ranks = 1};
    console_saved(&out, moment, &checkpoint);
    console_datetime(&out, "after training is done", moment);
    EXPECT_STRING(
        buffer_string(&out),
        "[2026-01-02 03:04:05.678901] saving checkpoint at iteration      10 to ckpt in bevatron format\n"
        "  [2026-01-02 03:04:05.678901] successfully saved checkpoint from iteration      10 to ckpt [ t 1/1, p "
        "1/1 ]\n"
        "[after training is done] datetime: 2026-01-02 03:04:05.678901 \n");
    buffer_free(&out);
}

TEST_MAIN(TEST_CASE(plain_line), TEST_CASE(every_part), TEST_CASE(skipped_iteration), TEST_CASE(evaluation),
          TEST_CASE(checkpoint_messages))
