// Calibration: speeds from which samples were made are found again.
#include "plan/calibrate.h"
#include "plan/plan.h"
#include "step/ranks_step.h"

#include <math.h>

static void open_machine(struct hardware_file *file, const char *name) {
    EXPECT_OK(hardware_file_open(file, machine_find(name)));
}

TEST(matmuls) {
    struct hardware_file file;
    struct calibration samples = {0};
    struct buffer out = {0};
    open_machine(&file, "p5.48xlarge");
    struct device_rates truth = file.hardware.rates;
    truth.matmul[1] = 432e12;
    truth.half_inner = 192;
    for (int i = 0; i < 12; i++) {
        struct matmul_sample s = {
            .dtype = DTYPE_BF16, .m = 2048 << i % 3, .n = 1024 << i % 4, .k = 256 << i % 5, .times = 1 + i % 2};
        s.seconds = device_rates_matmul(&truth, s.dtype, s.m, s.n, s.k);
        calibration_add_matmul(&samples, &s);
    }
    double attention = file.hardware.rates.attention[0] / file.hardware.rates.matmul[1];
    double fp8 = file.hardware.rates.matmul[2];
    EXPECT_OK(calibration_apply(&samples, &file, &out));
    EXPECT_NEAR(file.hardware.rates.matmul[1], 432e12, 1e9);
    EXPECT_NEAR(file.hardware.rates.half_inner, 192, 0);
    EXPECT_NEAR(file.hardware.rates.attention[0] / file.hardware.rates.matmul[1], attention, 1e-9);
    EXPECT_NEAR(file.hardware.rates.matmul[2], fp8, 0);  // not measured
    EXPECT(strstr(file.hardware.source, "measured: 12 matmuls") && strstr(buffer_string(&out), "typically 0 % off"));
    calibration_free(&samples);
    hardware_file_free(&file);
    buffer_free(&out);
}

// All-reduces of 8 joined ranks, then of 16 on two machines.
static void add_messages(struct calibration *samples, int ranks, double start, double bytes_per_second) {
    for (double bytes = 1024; bytes < 1e9; bytes *= 8) {
        double seconds = 2 * (start + bytes * (ranks - 1) / ranks / bytes_per_second);
        calibration_add_message(
            samples, &(struct message_sample){.ranks = ranks, .passes = 2, .bytes = bytes, .seconds = seconds});
    }
}

TEST(collectives) {
    struct hardware_file file;
    struct calibration samples = {0};
    struct buffer out = {0};
    open_machine(&file, "p5.48xlarge");
    add_messages(&samples, 8, 30e-6, 300e9);
    add_messages(&samples, 16, 80e-6, 240e9);
    EXPECT_OK(calibration_apply(&samples, &file, &out));
    EXPECT_NEAR(file.hardware.link.bytes_per_second, 300e9, 1e6);
    EXPECT_NEAR(file.hardware.link.seconds, 10e-6, 1e-8);            // three doublings
    EXPECT_NEAR(file.hardware.network.bytes_per_second, 30e9, 1e6);  // each of eight
    EXPECT_NEAR(file.hardware.network.seconds * 4, 80e-6, 1e-7);
    calibration_free(&samples);
    hardware_file_free(&file);
    buffer_free(&out);
}

// Processes of one host measure memory, which is not the network of the machine.
TEST(one_host) {
    struct hardware_file file;
    struct calibration samples = {0};
    struct buffer out = {0};
    open_machine(&file, "c6i.32xlarge");
    struct comm_path network = file.hardware.network;
    for (double bytes = 1024; bytes < 1e9; bytes *= 8)
        calibration_add_message(
            &samples,
            &(struct message_sample){
                .ranks = 2, .hosts = 1, .passes = 2, .bytes = bytes, .seconds = 2 * (1e-6 + bytes / 2 / 5e9)});
    EXPECT_OK(calibration_apply(&samples, &file, &out));
    EXPECT_NEAR(file.hardware.network.bytes_per_second, network.bytes_per_second, 0);
    EXPECT_NEAR(file.hardware.network.seconds, network.seconds, 0);
    EXPECT_NEAR(file.hardware.link.bytes_per_second, 5e9, 1e6);
    EXPECT(strstr(buffer_string(&out), "the network between machines was not measured"));
    calibration_free(&samples);
    hardware_file_free(&file);
    buffer_free(&out);
}

static struct step_sample step_of(const struct hardware_file *file, double factor) {
    struct step_sample sample = {0};
    struct plan plan;
    rank_step_parse(&sample.config,
                    "--num-layers 2 --hidden-size 256 --num-attention-heads 4 --seq-length 256 --vocab-size 1024 "
                    "--max-position-embeddings 256 --micro-batch-size 4 --global-batch-size 4",
                    1);
    EXPECT_OK(plan_make(
        &plan, &(struct plan_options){
                   .config = &sample.config, .ranks = 1, .machine = &file->machine, .hardware = &file->hardware}));
    sample.seconds = factor * plan.seconds;
    return sample;
}

TEST(steps) {
    struct hardware_file file;
    struct buffer out = {0};
    open_machine(&file, "c6i.32xlarge");
    double memory = file.hardware.rates.bytes_per_second, matmul = file.hardware.rates.matmul[0];
    // Memory that is three times as slow; then a machine that is ten times as fast in everything.
    for (int i = 0; i < 2; i++) {
        struct calibration samples = {0};
        file.hardware.rates.bytes_per_second = i == 0 ? memory / 3 : memory;
        struct step_sample sample = step_of(&file, i == 0 ? 1 : 0.1);
        file.hardware.rates.bytes_per_second = memory;
        calibration_add_step(&samples, &sample);
        EXPECT_OK(calibration_apply(&samples, &file, &out));
        if (i == 0)
            EXPECT_NEAR(file.hardware.rates.bytes_per_second, memory / 3, 0.01 * memory);
        else
            EXPECT(file.hardware.rates.matmul[0] > 2 * matmul && strstr(buffer_string(&out), "all rates scaled"));
        calibration_free(&samples);
        file.hardware.rates.bytes_per_second = memory;
    }
    hardware_file_free(&file);
    buffer_free(&out);
}

TEST_MAIN(TEST_CASE(matmuls), TEST_CASE(collectives), TEST_CASE(one_host), TEST_CASE(steps))
