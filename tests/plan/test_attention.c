// The time of attention by length, head and window, beside NVIDIA's own measurements of cuDNN in bf16 with causal masks
// (NVIDIA/cudnn-frontend benchmark/sdpa_benchmark_training/results: 2026-02-27, cuDNN 9.19, H200; 2026-04-24, cuDNN
// 9.22, GB200 and GB300).
#include "ops/device.h"
#include "plan/hardware.h"
#include "test.h"

// Queries, heads and channels of a query and of a value, window, and milliseconds forward and backward.
struct cudnn_row {
    const char *machine;
    double batch, heads, length;
    int query, value;
    double window, forward_ms, backward_ms;
};
static const struct cudnn_row whole[] = {
    {"dgx-h200", 1, 64, 2048, 128, 128, 0, 0.142, 0.464},
    {"dgx-h200", 1, 64, 4096, 128, 128, 0, 0.465, 1.450},
    {"dgx-h200", 1, 64, 8192, 128, 128, 0, 1.708, 5.083},
    {"dgx-h200", 1, 64, 16384, 128, 128, 0, 6.531, 19.002},
    {"dgx-gb200", 2, 64, 2048, 128, 128, 0, 0.125, 0.389},
    {"dgx-gb200", 2, 64, 4096, 128, 128, 0, 0.391, 1.198},
    {"dgx-gb200", 2, 64, 8192, 128, 128, 0, 1.397, 4.127},
    {"dgx-gb200", 2, 64, 16384, 128, 128, 0, 5.150, 16.554},
    {"dgx-gb300", 2, 64, 2048, 128, 128, 0, 0.100, 0.356},
    {"dgx-gb300", 2, 64, 4096, 128, 128, 0, 0.323, 1.101},
    {"dgx-gb300", 2, 64, 8192, 128, 128, 0, 1.185, 3.832},
    {"dgx-gb300", 2, 64, 16384, 128, 128, 0, 4.593, 14.593},
    {"dgx-gb200", 2, 128, 4096, 192, 128, 0, 0.977, 3.383},
    {"dgx-gb200", 2, 128, 8192, 192, 128, 0, 3.470, 11.984},
    {"dgx-gb300", 2, 128, 4096, 192, 128, 0, 0.864, 3.127},
    {"dgx-gb300", 2, 128, 8192, 192, 128, 0, 3.013, 11.074},
    {"dgx-gb200", 2, 128, 16384, 192, 128, 0, 13.103, 50.424},
    {"dgx-gb300", 2, 128, 16384, 192, 128, 0, 11.178, 43.911},
};
static const struct cudnn_row windows[] = {
    {"dgx-h200", 2, 64, 4096, 64, 64, 1024, 0.358, 1.042},  {"dgx-h200", 2, 64, 16384, 64, 64, 1024, 1.499, 4.392},
    {"dgx-gb200", 2, 128, 4096, 64, 64, 128, 0.210, 0.465}, {"dgx-gb200", 2, 128, 16384, 64, 64, 128, 0.822, 1.818},
    {"dgx-gb300", 2, 128, 4096, 64, 64, 128, 0.202, 0.442}, {"dgx-gb300", 2, 128, 16384, 64, 64, 128, 0.790, 1.712},
};

// Steps reach less than a kernel that runs alone: the H200's own rates are this part of what it was measured at.
static const double reached[2] = {0.858, 0.822};

static double planned_ms(const struct cudnn_row *row, bool is_backward) {
    struct hardware hardware;
    EXPECT_OK(hardware_of(&hardware, machine_find(row->machine)));
    struct tensor q = {.rank = 4,
                       .shape = {(int64_t)row->batch, (int64_t)row->length, (int64_t)row->heads, row->query}};
    double scores = device_attention_scores(q, q, true, (int64_t)row->window);
    double channels = is_backward ? 3 * row->query + 2 * row->value : row->query + row->value;
    struct device_attention shape = {.flops = 2 * scores * channels,
                                     .scores = scores,
                                     .queries = row->batch * row->heads * row->length,
                                     .head = row->query,
                                     .is_backward = is_backward};
    return 1e3 * device_rates_attention(&hardware.rates, &shape) * reached[is_backward];
}

TEST(lengths_and_heads) {
    for (size_t i = 0; i < sizeof whole / sizeof whole[0]; i++) {
        double limit = whole[i].query == whole[i].value ? 0.08 : 0.15;
        EXPECT_NEAR(planned_ms(&whole[i], false) / whole[i].forward_ms, 1, limit);
        EXPECT_NEAR(planned_ms(&whole[i], true) / whole[i].backward_ms, 1, limit);
    }
}

// Of windows, both passes together: where a window is short, most of the time is that of starting and ending.
TEST(short_windows) {
    for (size_t i = 0; i < sizeof windows / sizeof windows[0]; i++) {
        double both = planned_ms(&windows[i], false) + planned_ms(&windows[i], true);
        EXPECT_NEAR(both / (windows[i].forward_ms + windows[i].backward_ms), 1, 0.1);
    }
}

TEST_MAIN(TEST_CASE(lengths_and_heads), TEST_CASE(short_windows))
