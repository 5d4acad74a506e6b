// The loader: order over ranks, masks and positions, errors that cross the thread, and clean shutdown.
#include "data/loader.h"

#include "base/clock.h"
#include "test.h"
#include <stdatomic.h>

enum { T = 6, EOD = 99 };

// Sample i is 10 i, 10 i + 1, …; sample 7 has an end of document at 2 and 4, sample 8 one at its end and one as the
// last label.
struct fake_samples {
    int64_t fails_at;
    atomic_int reads;
};

static int read_fake(void *context, int64_t sample, int32_t *tokens) {
    struct fake_samples *fake = context;
    atomic_fetch_add(&fake->reads, 1);
    if (sample == fake->fails_at)
        return error_set_code(EXIT_CODE_BAD_DATA, "sample %" PRId64 " is rotten", sample);
    for (int64_t t = 0; t <= T; t++)
        tokens[t] = (int32_t)(10 * sample + t);
    if (sample == 7)
        tokens[2] = tokens[4] = EOD;
    if (sample == 8)
        tokens[T - 1] = tokens[T] = EOD;
    return 0;
}

static struct loader_options options_of(struct fake_samples *fake, int64_t count) {
    return (struct loader_options){
        .source = {.context = fake, .name = "fake", .count = count, .seq_length = T, .read = read_fake},
        .micro_batch_size = 2,
        .dp_size = 1,
        .depth = 2,
        .eod = EOD};
}

TEST(order_over_ranks) {
    struct fake_samples fake = {.fails_at = -1};
    for (int64_t dp = 1; dp <= 4; dp++) {
        for (int64_t rank = 0; rank < dp; rank++) {
            for (int64_t depth = 1; depth <= 5; depth++) {
                struct loader_options options = options_of(&fake, 1000);
                options.consumed_samples = 24;
                options.micro_batch_size = 3;
                options.dp_rank = rank;
                options.dp_size = dp;
                options.depth = depth;
                struct loader *loader;
                const struct batch *batch;
                EXPECT_OK(loader_open(&loader, &options));
                for (int64_t m = 0; m < 20; m++) {
                    EXPECT_OK(loader_next(loader, &batch));
                    EXPECT_INT(batch->B, 3);
                    EXPECT_INT(batch->T, T);
                    for (int64_t j = 0; j < 3; j++) {
                        int64_t sample = 24 + m * 3 * dp + rank * 3 + j;
                        EXPECT_INT(batch->samples[j], sample);
                        EXPECT_INT(batch->tokens[j * T], 10 * sample);
                        EXPECT_INT(batch->labels[j * T + T - 1], 10 * sample + T);
                    }
                }
                loader_close(loader);
            }
        }
    }
}

TEST(masks_and_positions) {
    struct fake_samples fake = {.fails_at = -1};
    struct loader_options options = options_of(&fake, 100);
    options.consumed_samples = 7;
    for (int variant = 0; variant < 8; variant++) {
        options.eod_mask_loss = variant & 1;
        options.reset_position_ids = variant & 2;
        options.reset_attention_mask = variant & 4;
        struct loader *loader;
        const struct batch *batch;
        EXPECT_OK(loader_open(&loader, &options));
        EXPECT_OK(loader_next(loader, &batch));
        static const int32_t tokens[] = {70, 71, 99, 73, 99, 75, 80, 81, 82, 83, 84, 99};
        static const int32_t labels[] = {71, 99, 73, 99, 75, 76, 81, 82, 83, 84, 99, 99};
        static const int32_t plain[] = {0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5};
        static const int32_t reset[] = {0, 1, 2, 0, 1, 0, 0, 1, 2, 3, 4, 5};
        static const int32_t starts[] = {0, 0, 0, 3, 3, 5, 0, 0, 0, 0, 0, 0};
        EXPECT(options.reset_attention_mask == (batch->document_starts != NULL));
        for (int i = 0; i < 2 * T; i++) {
            EXPECT_INT(batch->tokens[i], tokens[i]);
            EXPECT_INT(batch->labels[i], labels[i]);
            EXPECT_INT(batch->positions[i], options.reset_position_ids ? reset[i] : plain[i]);
            EXPECT_NEAR(batch->loss_mask[i], options.eod_mask_loss && tokens[i] == EOD ? 0 : 1, 0);
            if (batch->document_starts)
                EXPECT_INT(batch->document_starts[i], starts[i]);
        }
        loader_close(loader);
    }
}

TEST(the_end) {
    struct fake_samples fake = {.fails_at = -1};
    struct loader_options options = options_of(&fake, 11);
    options.consumed_samples = 1;
    options.dp_size = 2;
    options.dp_rank = 1;
    EXPECT_INT(loader_batch_count(&options), 2);
    struct loader *loader;
    const struct batch *batch;
    EXPECT_OK(loader_open(&loader, &options));
    EXPECT_OK(loader_next(loader, &batch));
    EXPECT_OK(loader_next(loader, &batch));
    EXPECT_INT(batch->samples[1], 8);
    EXPECT_ERROR(loader_next(loader, &batch), "the fake is exhausted: it has 11 samples");
    EXPECT_ERROR(loader_next(loader, &batch), "the fake is exhausted: it has 11 samples");
    EXPECT(!batch);
    loader_close(loader);

    options.pad_last = true;
    EXPECT_INT(loader_batch_count(&options), 3);
    options.dp_rank = 0;
    options.consumed_samples = 2;  // 9 left: two whole steps of four, then one sample
    EXPECT_INT(loader_batch_count(&options), 3);
    EXPECT_OK(loader_open(&loader, &options));
    EXPECT_OK(loader_next(loader, &batch));
    EXPECT_OK(loader_next(loader, &batch));
    EXPECT_OK(loader_next(loader, &batch));
    EXPECT_INT(batch->samples[0], 10);
    EXPECT_INT(batch->samples[1], -1);
    for (int t = 0; t < T; t++) {
        EXPECT_NEAR(batch->loss_mask[t], 1, 0);
        EXPECT_NEAR(batch->loss_mask[T + t], 0, 0);
        EXPECT_INT(batch->tokens[T + t], 0);
        EXPECT_INT(batch->labels[T + t], 0);
        EXPECT_INT(batch->positions[T + t], t);
    }
    EXPECT_ERROR(loader_next(loader, &batch), "is exhausted");
    loader_close(loader);

    options.consumed_samples = 11;
    EXPECT_INT(loader_batch_count(&options), 0);
    EXPECT_OK(loader_open(&loader, &options));
    EXPECT_ERROR(loader_next(loader, &batch), "is exhausted");
    loader_close(loader);
    options.consumed_samples = -1;
    EXPECT_ERROR(loader_open(&loader, &options), "from sample -1");
}

// The bad sample is the first of micro-batch 3: the two before it are good and must be delivered.
TEST(errors_cross_the_thread) {
    struct fake_samples fake = {.fails_at = 4};
    struct loader_options options = options_of(&fake, 100);
    options.depth = 8;
    struct loader *loader;
    const struct batch *batch;
    EXPECT_OK(loader_open(&loader, &options));
    EXPECT_OK(loader_next(loader, &batch));
    clock_sleep(0.05);
    EXPECT_OK(loader_next(loader, &batch));
    EXPECT_INT(batch->samples[1], 3);
    EXPECT_ERROR(loader_next(loader, &batch), "sample 4 is rotten");
    EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    EXPECT_ERROR(loader_next(loader, &batch), "failed earlier");
    loader_close(loader);
    // Closed before the first request: nothing leaks, no error remains.
    EXPECT_OK(loader_open(&loader, &options));
    clock_sleep(0.05);
    error_clear();
    loader_close(loader);
    EXPECT_STRING(error_message(), "");
    // The caller is returning another error, perhaps of a second loader that met the same damage.
    EXPECT_OK(loader_open(&loader, &options));
    clock_sleep(0.05);
    error_set_code(EXIT_CODE_BAD_DATA, "the first one");
    loader_close(loader);
    EXPECT_STRING(error_message(), "the first one");
    EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
}

TEST(it_runs_ahead_and_no_further) {
    struct fake_samples fake = {.fails_at = -1};
    struct loader_options options = options_of(&fake, 1000000);
    options.depth = 3;
    struct loader *loader;
    const struct batch *batch;
    EXPECT_OK(loader_open(&loader, &options));
    EXPECT_OK(loader_next(loader, &batch));
    for (int i = 0; i < 12000 && atomic_load(&fake.reads) < 8; i++)
        clock_sleep(0.005);
    clock_sleep(0.02);
    EXPECT_INT(atomic_load(&fake.reads), 2 * (1 + 3));  // the held one and three ahead
    EXPECT_INT(batch->tokens[0], 0);
    loader_close(loader);
}

TEST_MAIN(TEST_CASE(order_over_ranks), TEST_CASE(masks_and_positions), TEST_CASE(the_end),
          TEST_CASE(errors_cross_the_thread), TEST_CASE(it_runs_ahead_and_no_further))
