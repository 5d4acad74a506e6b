// The loss scale: every step against megatron-core's, its effect on gradients and norm, and what a checkpoint stores.
#include "optim/updates.h"

#include "ops/device.h"
#include "test.h"

static _Alignas(256) unsigned char memory[4096];

static struct device *open_cpu(void) {
    struct device *device = NULL;
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}));
    return device;
}

static struct scaler make(struct arena *arena, const struct config *config, struct device *device) {
    struct scaler scaler;
    arena_init(arena, "scaler", memory, sizeof memory);
    scaler_build(&scaler, arena, config);
    scaler_reset(&scaler, device);
    return scaler;
}

static struct config fp16_config(void) {
    struct config config;
    config_defaults(&config);
    config.run.fp16 = true;
    return config;
}

// One step with gradients whose squares sum to this; returns the factor that Adam would get.
static float finish_step(struct scaler *scaler, struct arena *arena, struct device *device, float squares,
                         float *norm) {
    size_t mark = arena_mark(arena);
    struct tensor scale = arena_1d(arena, DTYPE_F32, 1), root = arena_1d(arena, DTYPE_F32, 1);
    struct tensor sum = arena_1d(arena, DTYPE_F32, 1);
    device_copy_in(device, sum, &squares);
    op_clip_scale(device, &(struct op_clip_scale){.scale = scale,
                                                  .norm = root,
                                                  .sum_squares = sum,
                                                  .max_norm = 1,
                                                  .loss_scale = scaler->state,
                                                  .rule = scaler->rule});
    float factor;
    device_copy_out(device, &factor, scale);
    device_copy_out(device, norm, root);
    arena_release(arena, mark);
    return factor;
}

TEST(every_step_equals_megatron_cores) {
    FILE *file = fopen("tests/golden/scaler.txt", "r");
    EXPECT(file);
    struct device *device = open_cpu();
    struct arena arena;
    int initial, least, window, hysteresis, rules = 0;
    while (fscanf(file, " rule %d %d %d %d", &initial, &least, &window, &hysteresis) == 4) {
        struct config config = fp16_config();
        config.run.initial_loss_scale = ldexp(1, initial);
        config.run.min_loss_scale = ldexp(1, least);
        config.run.loss_scale_window = window;
        config.run.hysteresis = hysteresis;
        struct scaler scaler = make(&arena, &config, device);
        config_free(&config);
        char kind;
        int exponent, step = 0;
        for (; fscanf(file, " %c%d", &kind, &exponent) == 2; step++) {
            float norm;
            finish_step(&scaler, &arena, device, kind == 'x' ? INFINITY : 4, &norm);
            double scale = scaler_read(&scaler, device).scale;
            if (scale != ldexp(1, exponent))
                test_fail("rule %d, step %d: the scale is %g, expected 2^%d", rules, step, scale, exponent);
        }
        EXPECT(step >= 60);
        rules++;
        EXPECT(fseek(file, -1, SEEK_CUR) == 0);  // before the letter of the next rule
    }
    fclose(file);
    EXPECT_INT(rules, 4);
    device_close(device);
}

TEST(four_overflows_from_the_start) {
    struct device *device = open_cpu();
    struct arena arena;
    struct config config = fp16_config();
    struct scaler scaler = make(&arena, &config, device);
    const double expected[] = {1, 0.5, 0.25, 0.125};
    for (int i = 0; i < 4; i++) {
        float norm, factor = finish_step(&scaler, &arena, device, i % 2 ? INFINITY : NAN, &norm);
        EXPECT(!isfinite(factor) && !isfinite(norm));
        EXPECT(scaler_read(&scaler, device).scale == expected[i] * 0x1p32);
    }
    config_free(&config);
    device_close(device);
}

TEST(gradients_and_norm_are_those_without_it) {
    struct device *device = open_cpu();
    struct arena arena;
    struct config config = fp16_config();
    config.run.loss_scale = 1024;
    struct scaler scaler = make(&arena, &config, device);
    struct tensor weights = arena_1d(&arena, DTYPE_F32, 3);
    float values[3] = {0.5f, 0, 2}, norm;
    device_copy_in(device, weights, values);
    scaler_scale_loss(&scaler, device, weights);
    device_copy_out(device, values, weights);
    EXPECT(values[0] == 512 && values[1] == 0 && values[2] == 2048);
    // A gradient of norm 4 arrives as 4096; Adam's factor brings it to 1.
    float factor = finish_step(&scaler, &arena, device, 4096.0f * 4096.0f, &norm);
    EXPECT(norm == 4);
    EXPECT_NEAR(factor * 4096, 4 / 4.000001, 1e-6);
    EXPECT(scaler_read(&scaler, device).scale == 1024);
    finish_step(&scaler, &arena, device, INFINITY, &norm);
    EXPECT(scaler_read(&scaler, device).scale == 1024);
    config_free(&config);
    device_close(device);
}

TEST(a_checkpoint_keeps_it) {
    struct device *device = open_cpu();
    struct arena arena;
    struct config config = fp16_config();
    config.run.loss_scale_window = 3;
    struct scaler scaler = make(&arena, &config, device);
    float norm;
    finish_step(&scaler, &arena, device, INFINITY, &norm);
    finish_step(&scaler, &arena, device, 4, &norm);
    struct scaler_state saved = scaler_read(&scaler, device);
    EXPECT(saved.scale == 0x1p32 && saved.steps == 1 && saved.overflows_left == 1);
    scaler_reset(&scaler, device);
    scaler_write(&scaler, device, &saved);
    finish_step(&scaler, &arena, device, INFINITY, &norm);
    EXPECT(scaler_read(&scaler, device).scale == 0x1p31);
    scaler_write(&scaler, device, &(struct scaler_state){.scale = 1});
    EXPECT(scaler_read(&scaler, device).scale == 0x1p31);
    config_free(&config);
    device_close(device);
}

TEST(without_fp16_there_is_none) {
    struct device *device = open_cpu();
    struct arena arena;
    struct config config;
    config_defaults(&config);
    struct scaler scaler = make(&arena, &config, device);
    struct tensor weights = arena_1d(&arena, DTYPE_F32, 1);
    float value = 3, norm;
    device_copy_in(device, weights, &value);
    scaler_scale_loss(&scaler, device, weights);
    device_copy_out(device, &value, weights);
    EXPECT(value == 3 && scaler_read(&scaler, device).scale == 1);
    EXPECT(finish_step(&scaler, &arena, device, 0.25f, &norm) == 1 && norm == 0.5f);
    config_free(&config);
    device_close(device);
}

TEST_MAIN(TEST_CASE(every_step_equals_megatron_cores), TEST_CASE(four_overflows_from_the_start),
          TEST_CASE(gradients_and_norm_are_those_without_it), TEST_CASE(a_checkpoint_keeps_it),
          TEST_CASE(without_fp16_there_is_none))
