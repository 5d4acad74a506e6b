// Initial values: by global element index, for any slice that a rank holds.
#include "model/model.h"
#include "model/init.h"
#include "ops/device.h"
#include "test.h"

TEST(a_slice_draws_what_the_whole_would) {
    struct device *device;
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}));
    enum { ROWS = 12, COLUMNS = 10 };
    struct shard whole = shard_whole(2, ROWS, COLUMNS);
    whole.segment_count = 3;
    whole.segments[0] = whole.segments[1] = whole.segments[2] = 4;
    float *reference = calloc(192, sizeof *reference), *slice = calloc(192, sizeof *slice);
    struct param_list list = {0};
    param_add(&list, "w", whole, INIT_NORMAL, 0.02);
    param_list_layout(&list);
    param_list_bind(&list, tensor_1d(reference, DTYPE_F32, list.total), (struct tensor){0});
    init_params(device, &list, (struct tensor){0}, 1234);
    param_list_free(&list);
    for (int dimension = 0; dimension < 2; dimension++) {
        if (dimension == 1)
            whole.segment_count = 1;
        for (int part = 0; part < 2; part++) {
            struct shard shard = shard_split(whole, dimension, 2, part);
            param_add(&list, "w", shard, INIT_NORMAL, 0.02);
            param_list_layout(&list);
            param_list_bind(&list, tensor_1d(slice, DTYPE_F32, list.total), (struct tensor){0});
            init_params(device, &list, (struct tensor){0}, 1234);
            for (int64_t r = 0; r < shard_run_count(&shard); r++) {
                struct shard_run run = shard_run(&shard, r);
                for (int64_t n = 0; n < run.count; n++)
                    EXPECT(slice[run.local_offset + n] == reference[run.global_offset + n]);
            }
            param_list_free(&list);
        }
    }
    free(reference);
    free(slice);
    device_close(device);
}

static void expect_deviations(bool is_scaled, double embeddings) {
    struct config config;
    config_defaults(&config);
    config.model.num_layers = 2;
    config.model.no_scaled_init = !is_scaled;
    config.model.embedding_init_method_std = embeddings;
    config.model.hidden_size = 64;
    config.model.num_attention_heads = 4;
    config.model.kv_channels = 16;
    config.model.ffn_hidden_size = 256;
    config.model.max_position_embeddings = 32;
    config.model.padded_vocab_size = 128;
    struct device *device;
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}));
    struct param_list list = {0};
    struct model model;
    model_build(&model, &list, &(struct model_options){.config = &config, .chunk = config_whole(&config.model)});
    param_list_layout(&list);
    float *values = calloc((size_t)list.total, sizeof *values);
    param_list_bind(&list, tensor_1d(values, DTYPE_F32, list.total), (struct tensor){0});
    init_params(device, &list, (struct tensor){0}, 7);
    for (int i = 0; i < list.count; i++) {
        const struct param *param = list.items[i];
        const float *x = param->value.data;
        int64_t count = tensor_count(param->value);
        double squares = 0, sum = 0;
        for (int64_t n = 0; n < count; n++) {
            sum += (double)x[n];
            squares += (double)x[n] * (double)x[n];
        }
        bool is_last = strstr(param->name, "linear_proj.weight") || strstr(param->name, "linear_fc2.weight");
        bool is_embedding = strncmp(param->name, "embedding.", strlen("embedding.")) == 0;
        double usual = is_embedding && embeddings > 0 ? embeddings : 0.02;
        double want = param->init == INIT_NORMAL ? (is_last && is_scaled ? usual / 2 : usual)
                      : param->init == INIT_ONE  ? 1
                                                 : 0;
        // Four standard errors of a sample deviation.
        double bound = param->init == INIT_NORMAL ? 4 * want / sqrt(2.0 * (double)count) : 0;
        if (fabs(sqrt(squares / (double)count) - want) > bound + 1e-12)
            test_fail("%s has root mean square %g, expected %g", param->name, sqrt(squares / (double)count), want);
        if (param->init == INIT_NORMAL && fabs(sum / (double)count) > 4.5 * want / sqrt((double)count))
            test_fail("%s has mean %g", param->name, sum / (double)count);
    }
    EXPECT_INT(param_list_elements(&list), 128 * 64 + 32 * 64 + 2 * (12 * 64 * 64 + 13 * 64) + 2 * 64);
    free(values);
    model_free(&model);
    param_list_free(&list);
    device_close(device);
    config_free(&config);
}

TEST(scaled_deviations) {
    expect_deviations(true, 0);
    expect_deviations(false, 0);
    expect_deviations(true, 0.5);
}

TEST_MAIN(TEST_CASE(a_slice_draws_what_the_whole_would), TEST_CASE(scaled_deviations))
