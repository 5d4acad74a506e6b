// fairseq's JSON lines; the numbers are what Python's round and {:g} make of them.
#include "report/console.h"
#include "base/json.h"
#include "test.h"
#include <time.h>

static const double moment = 1767323045.6789015;  // 2026-01-02 03:04:05.678901 UTC

static void use_utc(void) {
    setenv("TZ", "UTC", 1);
    tzset();
}

TEST(a_line_of_training) {
    use_utc();
    struct buffer out = {0};
    struct metrics m = {.wall_seconds = moment,
                        .iteration = 1234567,
                        .elapsed_ms = 250,
                        .tokens_per_second = 131072,
                        .learning_rate = 6e-4 / 3,
                        .global_batch_size = 64,
                        .losses = {{"lm loss", 7.654321}},
                        .loss_count = 1,
                        .loss_scale = 128,
                        .has_grad_norm = true,
                        .grad_norm = 1.23456};
    fairseq_train(&out, &m, &(struct fairseq_clock){.train_wall = 24.6, .wall = 61.4});
    EXPECT_STRING(buffer_string(&out),
                  "2026-01-02 03:04:05 | INFO | train_inner | {\"loss\": \"11.043\", \"ppl\": \"2109.74\", "
                  "\"wps\": \"131072\", \"ups\": \"4\", \"wpb\": \"32768\", \"bsz\": \"64\", "
                  "\"num_updates\": \"1234567\", \"lr\": \"0.0002\", \"gnorm\": \"1.235\", \"loss_scale\": \"128\", "
                  "\"train_wall\": \"25\", \"wall\": \"61\"}\n");
    struct json *root;
    const char *object = strchr(out.data, '{');
    EXPECT_OK(json_parse(&root, object, strlen(object), "line"));
    json_free(root);
    buffer_free(&out);
}

TEST(a_line_of_validation) {
    use_utc();
    struct buffer out = {0};
    struct metrics_eval eval = {.wall_seconds = moment,
                                .iteration = 500,
                                .set = "validation",
                                .losses = {{"lm loss", 7.654321}, {"sop loss", 0.6931471805599453}},
                                .loss_count = 2};
    fairseq_eval(&out, &eval);
    EXPECT_STRING(buffer_string(&out), "2026-01-02 03:04:05 | INFO | valid | {\"valid_loss\": \"11.043\", "
                                       "\"valid_ppl\": \"2109.74\", \"valid_sop loss\": \"1\", "
                                       "\"valid_num_updates\": \"500\"}\n");
    buffer_clear(&out);
    eval.set = "test";
    eval.loss_count = 1;
    fairseq_eval(&out, &eval);
    EXPECT(strstr(buffer_string(&out), "| test | {\"test_loss\": \"11.043\""));
    buffer_free(&out);
}

// A step that was skipped has neither loss nor norm.
TEST(a_line_without_a_loss) {
    use_utc();
    struct buffer out = {0};
    struct metrics m = {.wall_seconds = moment, .iteration = 1, .elapsed_ms = 250, .loss_scale = 4294967296.0};
    fairseq_train(&out, &m, &(struct fairseq_clock){0});
    EXPECT(strstr(buffer_string(&out), "train_inner | {\"wps\": \"0\""));
    EXPECT(strstr(buffer_string(&out), "\"loss_scale\": \"4.29497e+09\""));
    buffer_free(&out);
}

TEST_MAIN(TEST_CASE(a_line_of_training), TEST_CASE(a_line_of_validation), TEST_CASE(a_line_without_a_loss))
