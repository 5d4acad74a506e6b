// What train chooses if the flags leave it open: batches by tokens, memory and data, precision by device, learning rate
// by size. Runs with --micro-batch-size are unchanged.
#include "train/automatic.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/index/index.h"
#include "model/census.h"
#include "test.h"
#include <unistd.h>

#define MODEL "--num-layers 2 --hidden-size 32 --num-attention-heads 4 --vocab-size 100 "

static struct config config;
static struct automatic open_flags;

static void parse(const char *flags) {
    struct buffer line = {0};
    char *argv[64] = {"train"}, *rest;
    int argc = 1;
    buffer_printf(&line, MODEL "%s", flags);
    rest = line.data;
    for (char *word = strsep(&rest, " "); word; word = strsep(&rest, " "))
        if (*word)
            argv[argc++] = word;
    EXPECT_OK(config_parse(&config, argc, argv));
    buffer_free(&line);
}

// Parses, validates and chooses, as train does.
static int choose(const char *flags) {
    struct device *device;
    struct world *world;
    struct mesh mesh;
    parse(flags);
    TRY(automatic_begin(&open_flags, &config));
    TRY(config_validate(&config, 1));
    TRY(config_pad_vocab(&config, 100));
    TRY(device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}));
    TRY(world_open(&world, &(struct world_options){0}, device));
    TRY(mesh_place(&mesh, 0, 1, NULL));
    TRY(mesh_connect(&mesh, world));
    int status = automatic_choose(
        &(struct automatic_run){.open = &open_flags, .config = &config, .device = device, .mesh = &mesh});
    bool is_fast = device_is_fast(device, DTYPE_BF16);
    world_close(world);
    device_close(device);
    if (status == 0 && open_flags.precision)
        EXPECT(config.run.bf16 == is_fast && !config.run.fp16);
    return status;
}

TEST(only_what_is_missing_is_open) {
    parse("--mock-data --seq-length 16 --micro-batch-size 2 --lr 1e-3 --train-iters 5");
    EXPECT_OK(automatic_begin(&open_flags, &config));
    EXPECT(!automatic_is_needed(&open_flags) && !open_flags.precision && !open_flags.global_batch_size);
    config_free(&config);
    parse("--mock-data --seq-length 16 --lr 1e-3 --train-samples 50 --global-batch-size 10 --bf16=false");
    EXPECT_OK(automatic_begin(&open_flags, &config));
    EXPECT(open_flags.micro_batch_size && !open_flags.global_batch_size && !open_flags.precision && !open_flags.lr);
    EXPECT(!open_flags.train_iters);
    config_free(&config);
    parse("--mock-data --seq-length 16");
    EXPECT_OK(automatic_begin(&open_flags, &config));
    EXPECT(open_flags.micro_batch_size && open_flags.global_batch_size && open_flags.precision && open_flags.lr);
    EXPECT(!open_flags.train_iters);  // mock data has no end
    config_free(&config);
    parse("--mock-data --seq-length 16 --skip-train");
    EXPECT_OK(automatic_begin(&open_flags, &config));
    EXPECT(!open_flags.lr && !open_flags.train_iters);
    config_free(&config);
}

TEST(batches_follow_from_tokens) {
    log_hush(true);
    EXPECT_OK(choose("--mock-data --seq-length 512 --train-iters 5"));
    EXPECT_INT(config.run.micro_batch_size, 8);
    EXPECT_INT(config.run.global_batch_size, 8);
    EXPECT(config.run.lr == 1e-3 && config.run.min_lr == 1e-4 && strcmp(config.run.lr_decay_style, "cosine") == 0);
    config_free(&config);
    EXPECT_OK(choose("--mock-data --seq-length 8192 --train-iters 5 --lr 0.5"));
    EXPECT_INT(config.run.micro_batch_size, 1);
    EXPECT(config.run.lr == 0.5 && config.run.min_lr == 0 && strcmp(config.run.lr_decay_style, "linear") == 0);
    config_free(&config);
    // It divides the given batch, and the given length is kept.
    EXPECT_OK(choose("--mock-data --seq-length 512 --train-samples 120 --global-batch-size 12 --bf16=false"));
    EXPECT_INT(config.run.micro_batch_size, 4);
    EXPECT_INT(config.run.train_iters, 10);
    EXPECT(!config.run.bf16);
    config_free(&config);
    EXPECT_OK(choose("--mock-data --seq-length 16 --train-iters 5 --lr-warmup-iters 2"));
    EXPECT(config.run.lr_warmup_iters == 2 && config.run.lr_warmup_fraction == 0);
    config_free(&config);
    log_hush(false);
}

// 16,000 tokens are 1,000 samples of 16 and 100 batches of 10, also if the batch is chosen later.
TEST(a_length_in_tokens) {
    log_hush(true);
    EXPECT_OK(choose("--mock-data --seq-length 16 --tokens 16K --global-batch-size 10 --lr-warmup-iters 5"));
    EXPECT_INT(config.run.train_iters, 100);
    EXPECT_INT(config.run.lr_decay_iters, 100);
    EXPECT_INT(config.run.train_samples, 0);
    config_free(&config);
    EXPECT_OK(choose("--mock-data --seq-length 512 --tokens 40960 --lr-warmup-samples 8"));
    EXPECT_INT(config.run.global_batch_size, 8);
    EXPECT_INT(config.run.train_samples, 80);
    EXPECT_INT(config.run.train_iters, 10);
    EXPECT_INT(config.run.lr_decay_samples, 80);
    config_free(&config);
    EXPECT_OK(choose("--mock-data --seq-length 512 --tokens 1"));
    EXPECT_INT(config.run.train_iters, 1);
    config_free(&config);
    log_hush(false);
    EXPECT_ERROR(choose("--mock-data --seq-length 16 --tokens 1B --train-iters 5"), "exclude each other; give one");
    config_free(&config);
    EXPECT_ERROR(choose("--mock-data --seq-length 16 --tokens 1B --epochs 1"), "exclude each other; give one");
    config_free(&config);
    EXPECT_ERROR(choose("--mock-data --seq-length 16 --epochs 1"), "--epochs needs data");
    config_free(&config);
}

// 1,600 tokens are 100 samples of 16: two of them are a fiftieth of an epoch, four epochs are 400.
TEST(little_data_makes_small_batches) {
    char folder[] = "/tmp/bevatron-test-XXXXXX";
    EXPECT(mkdtemp(folder));
    char *prefix = memory_printf("%s/data", folder), *flags = memory_printf("--seq-length 16 --data-path %s", prefix);
    struct index_writer *writer;
    int32_t tokens[16] = {0};
    EXPECT_OK(index_writer_open(&writer, prefix, INDEX_U16));
    for (int i = 0; i < 100; i++) {
        EXPECT_OK(index_writer_add(writer, tokens, 16));
        EXPECT_OK(index_writer_end_document(writer));
    }
    EXPECT_OK(index_writer_commit(writer));
    log_hush(true);
    EXPECT_OK(choose(flags));
    log_hush(false);
    EXPECT_INT(config.run.micro_batch_size, 2);
    EXPECT_INT(config.run.global_batch_size, 2);
    EXPECT_INT(config.run.train_iters, 200);
    EXPECT_INT(config.run.lr_decay_iters, 200);
    EXPECT_INT(config.watch.log_interval, 10);
    config_free(&config);
    // Three passes over all, and two over the part that the default --split leaves for training, 96.9 %.
    char *all = memory_printf("%s --split 1 --epochs 3", flags), *part = memory_printf("%s --epochs 2", flags);
    log_hush(true);
    EXPECT_OK(choose(all));
    EXPECT_INT(config.run.train_iters, 150);
    config_free(&config);
    EXPECT_OK(choose(part));
    EXPECT_INT(config.run.global_batch_size, 1);  // a fiftieth of an epoch
    EXPECT_INT(config.run.train_iters, 193);
    config_free(&config);
    log_hush(false);
    free(all);
    free(part);
    free(prefix);
    free(flags);
    file_remove_tree(folder);
}

TEST_MAIN(TEST_CASE(only_what_is_missing_is_open), TEST_CASE(batches_follow_from_tokens), TEST_CASE(a_length_in_tokens),
          TEST_CASE(little_data_makes_small_batches))
