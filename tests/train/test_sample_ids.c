// Every sample exactly once, even across changes of layout: a run on three data-parallel ranks resumes on two times two
// that share the model, then on six, with other micro-batches and a batch that grows. Data, loader and position in the
// checkpoint are the real ones; ranks take turns in one process.
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/index/index.h"
#include "ops/device.h"
#include "store/checkpoint.h"
#include "test.h"
#include "train/datasets.h"
#include "words.h"

#include <inttypes.h>
#include <unistd.h>

enum { SAMPLES = 288, T = 16, ROWS_MOST = 8 };

struct sample_layout {
    int ranks, tensor, pipeline;
    int64_t micro_batch, iterations;
};
static const struct sample_layout layouts[] = {{3, 1, 1, 2, 5}, {4, 2, 2, 1, 4}, {6, 1, 1, 1, 3}, {8, 2, 1, 3, 3}};
enum { LAYOUTS = sizeof layouts / sizeof layouts[0] };

static char folder[] = "/tmp/bevatron-test-XXXXXX";
static struct device *device;
static struct world *world;

static void write_dataset(const char *prefix) {
    struct index_writer *writer;
    EXPECT_OK(index_writer_open(&writer, prefix, INDEX_U16));
    for (int i = 0; i < 100; i++) {
        int32_t tokens[40];
        int length = 5 + 37 * i % 31;
        for (int k = 0; k < length; k++)
            tokens[k] = (i * 41 + k * 3) % 900;
        EXPECT_OK(index_writer_add(writer, tokens, length));
        EXPECT_OK(index_writer_end_document(writer));
    }
    EXPECT_OK(index_writer_commit(writer));
}

static void parse(struct config *config, const struct sample_layout *layout, const char *prefix) {
    char *flags = memory_printf(
        "train --data-path %s --split 100,0,0 --num-layers 4 --hidden-size 32 --num-attention-heads 4 --seq-length %d "
        "--vocab-size 1000 --tokenizer-type NullTokenizer --lr 1e-3 --train-samples %d --eval-iters 0 "
        "--global-batch-size 24 --rampup-batch-size 12 12 72 --micro-batch-size %" PRId64
        " --tensor-model-parallel-size %d --pipeline-model-parallel-size %d",
        prefix, T, SAMPLES, layout->micro_batch, layout->tensor, layout->pipeline);
    struct string_list words = {0};
    split_words(&words, flags);
    EXPECT_OK(config_parse(config, (int)words.count, words.items));
    EXPECT_OK(config_validate_for(config, layout->ranks, CONFIG_TRAIN));
    EXPECT_OK(config_pad_vocab(config, config->data.vocab_size));
    string_list_free(&words);
    free(flags);
}

// Samples that one rank reads in the iterations of a layout: counts[id] for each. Returns the position after them.
static int64_t read_as_rank(const struct sample_layout *layout, int rank, int64_t consumed, const char *prefix,
                            int *counts, int *data_place) {
    struct config config;
    struct mesh mesh;
    struct datasets datasets;
    struct loader *loader;
    parse(&config, layout, prefix);
    EXPECT_OK(mesh_place(&mesh, rank, layout->ranks,
                         (const int[AXIS_COUNT]){[AXIS_TENSOR] = layout->tensor, [AXIS_PIPELINE] = layout->pipeline}));
    mesh.all = world_group_all(world);
    *data_place = mesh.place[AXIS_DATA];
    EXPECT_OK(datasets_open(
        &datasets, &(struct datasets_options){.config = &config, .mesh = &mesh, .consumed_train_samples = consumed}));
    EXPECT_OK(datasets_loader(&loader, &datasets, SPLIT_TRAIN, &config, &mesh, consumed));
    for (int64_t i = 0; i < layout->iterations; i++) {
        int64_t batch = config_global_batch_size(&config, consumed);
        struct step_source source =
            datasets_source(loader, batch / (config.run.micro_batch_size * config.machine.data_parallel_size));
        for (int64_t m = 0; m < source.count; m++) {
            struct batch input;
            EXPECT_OK(source.next(source.context, &input));
            EXPECT_INT(input.B, layout->micro_batch);
            for (int64_t b = 0; b < input.B; b++) {
                int32_t tokens[T + 1];
                EXPECT(input.samples[b] >= 0 && input.samples[b] < SAMPLES);
                counts[input.samples[b]]++;
                const struct sample_source *all = &datasets.sources[SPLIT_TRAIN];
                EXPECT_OK(all->read(all->context, input.samples[b], tokens));
                EXPECT(memcmp(tokens, input.tokens + b * T, sizeof *tokens * T) == 0);
            }
        }
        consumed += batch;
    }
    loader_close(loader);
    datasets_close(&datasets);
    config_free(&config);
    return consumed;
}

// The position passes from one layout to the next through a checkpoint.
static int64_t save_and_load(int64_t iteration, int64_t consumed) {
    float value = 1;
    struct checkpoint_tensor model = {.name = "weight", .tensor = tensor_1d(&value, DTYPE_F32, 1)};
    struct checkpoint_state state = {.iteration = iteration, .consumed_train_samples = consumed, .loss_scale = 1};
    EXPECT_OK(checkpoint_save(&(struct checkpoint_save){
        .folder = folder, .device = device, .model = &model, .model_count = 1, .state = &state}));
    char *path = checkpoint_path(folder, iteration);
    struct checkpoint_state loaded;
    EXPECT_OK(checkpoint_load_state(path, &loaded));
    consumed = loaded.consumed_train_samples;
    checkpoint_state_free(&loaded);
    free(path);
    return consumed;
}

TEST(each_sample_once_over_changes_of_layout) {
    EXPECT(mkdtemp(folder));
    log_set_level(LOG_ERROR);
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}));
    EXPECT_OK(world_open(&world, &(struct world_options){.backend = "self"}, device));
    char *prefix = memory_printf("%s/data", folder);
    write_dataset(prefix);
    int total[SAMPLES] = {0};
    int64_t consumed = 0, iteration = 0;
    for (int i = 0; i < LAYOUTS; i++) {
        const struct sample_layout *layout = &layouts[i];
        int by_place[ROWS_MOST][SAMPLES] = {0};
        bool is_known[ROWS_MOST] = {false};
        int64_t after = consumed;
        for (int rank = 0; rank < layout->ranks; rank++) {
            int counts[SAMPLES] = {0}, place = 0;
            after = read_as_rank(layout, rank, consumed, prefix, counts, &place);
            // Ranks that share the model read the same samples.
            if (is_known[place])
                EXPECT(memcmp(by_place[place], counts, sizeof counts) == 0);
            memcpy(by_place[place], counts, sizeof counts);
            is_known[place] = true;
        }
        for (int place = 0; place < ROWS_MOST; place++)
            for (int s = 0; s < SAMPLES; s++)
                total[s] += by_place[place][s];
        iteration += layout->iterations;
        consumed = save_and_load(iteration, after);
        for (int s = 0; s < SAMPLES; s++)
            EXPECT_INT(total[s], s < consumed);
    }
    EXPECT_INT(consumed, SAMPLES);
    free(prefix);
    world_close(world);
    device_close(device);
    EXPECT_OK(file_remove_tree(folder));
}

TEST_MAIN(TEST_CASE(each_sample_once_over_changes_of_layout))
