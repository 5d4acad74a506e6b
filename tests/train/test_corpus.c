// The data of whole runs, tokens of all samples of every split, against megatron-core's dataset builder: splits, blends
// with and without weights, separate data for each split.
#include "train/datasets.h"

#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/index/index.h"
#include "ops/device.h"
#include "test.h"
#include <unistd.h>

static char folder[64];

static void write_datasets(void) {
    for (int d = 0; d < 3; d++) {
        struct index_writer *writer;
        char *prefix = memory_printf("%s/%c", folder, 'a' + d);
        EXPECT_OK(index_writer_open(&writer, prefix, INDEX_U16));
        free(prefix);
        int64_t j = 0;
        for (int i = 0; i < 50 + 30 * d; i++) {
            int32_t tokens[64];
            int length = 1 + (37 * i + 11 * d) % 61;
            for (int k = 0; k < length; k++, j++)
                tokens[k] = (int32_t)((7919 * j + 13 + 100 * d) % 50000);
            EXPECT_OK(index_writer_add(writer, tokens, length));
            EXPECT_OK(index_writer_end_document(writer));
        }
        EXPECT_OK(index_writer_commit(writer));
    }
}

// "1 a 3 b" as after --data-path: letters become prefixes.
static void add_words(struct string_list *list, const char *text) {
    string_list_free(list);
    *list = (struct string_list){0};
    for (const char *at = text; *at; at += strcspn(at, " "), at += *at == ' ') {
        size_t length = strcspn(at, " ");
        bool is_name = *at >= 'a' && *at <= 'z';
        char *word = memory_printf("%s%s%.*s", is_name ? folder : "", is_name ? "/" : "", (int)length, at);
        string_list_add(list, word);
        free(word);
    }
}

static void set_words(struct config *config, char *split, char *text) {
    free(config->data.split);
    config->data.split = strcmp(split, "-") == 0 ? NULL : memory_string(split);
    add_words(&config->data.data_path, config->data.split ? text : "");
    struct string_list *own[SPLIT_COUNT] = {&config->data.train_data_path, &config->data.valid_data_path,
                                            &config->data.test_data_path};
    for (int i = 0; i < SPLIT_COUNT; i++) {
        char *end = text + strcspn(text, "|");
        char *next = *end ? end + 1 : end;
        *end = 0;
        add_words(own[i], config->data.split ? "" : text);
        text = next;
    }
}

static void expect_split(const struct corpus_options *options, int64_t count, const char *md5) {
    struct corpus *corpus;
    EXPECT_OK(corpus_open(&corpus, options));
    EXPECT(corpus);
    struct sample_source source = corpus_source(corpus);
    // An evaluation that asks for more than a blend without weights has begins again.
    bool repeats = options->which != SPLIT_TRAIN && options->sample_count > count;
    EXPECT_INT(source.count, repeats ? options->sample_count : count);
    struct buffer all = {0};
    int32_t tokens[64];
    for (int64_t i = 0; i < count; i++) {
        EXPECT_OK(source.read(source.context, i, tokens));
        buffer_append(&all, tokens, sizeof *tokens * (size_t)(source.seq_length + 1));
    }
    char found[33];
    md5_hex(all.data, all.length, found);
    EXPECT_STRING(found, md5);
    buffer_free(&all);
    corpus_close(corpus);
}

static void run_golden(struct config *config, const struct corpus_place *place) {
    FILE *file = fopen("tests/golden/corpora.txt", "r");
    EXPECT(file);
    static const char *const names[SPLIT_COUNT] = {"train", "valid", "test"};
    char line[256], split[32], md5[40];
    int64_t sizes[SPLIT_COUNT], count;
    int checked = 0, used;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "run %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %31s %n",
                   &config->run.seq_length, &config->run.seed, &sizes[0], &sizes[1], &sizes[2], split, &used) == 6) {
            set_words(config, split, line + used);
            continue;
        }
        EXPECT(sscanf(line, "split %31s %" SCNd64 " %39s", split, &count, md5) == 3);
        for (int which = 0; which < SPLIT_COUNT; which++) {
            if (strcmp(split, names[which]) != 0)
                continue;
            struct corpus_options options = {.config = config,
                                             .place = *place,
                                             .vocab_size = 50000,
                                             .which = (enum split)which,
                                             .sample_count = sizes[which]};
            expect_split(&options, count, md5);
            checked++;
        }
    }
    fclose(file);
    EXPECT_INT(checked, 24);
}

// With 50 documents the default shares leave none for test: then the run has no test, even if the shares were given.
// Training and a separate evaluation need some.
static void expect_small_splits(struct config *config, const struct corpus_place *place) {
    char split[] = "969, 30, 1", words[] = "a";
    struct corpus_options options = {
        .config = config, .place = *place, .vocab_size = 50000, .which = SPLIT_TEST, .sample_count = 10};
    struct corpus *corpus;
    set_words(config, split, words);
    EXPECT_OK(corpus_open(&corpus, &options));
    EXPECT(!corpus);
    options.which = SPLIT_VALID;
    EXPECT_OK(corpus_open(&corpus, &options));
    EXPECT(corpus);
    corpus_close(corpus);
    struct flag_table table = config_flag_table(0);
    EXPECT_OK(flag_set(&table, config, "--split", split, FLAG_FROM_COMMAND));
    options.which = SPLIT_TEST;
    EXPECT_OK(corpus_open(&corpus, &options));
    EXPECT(!corpus);
    options.is_epoch = true;
    EXPECT_ERROR(corpus_open(&corpus, &options), "leaves the test split none of the 50 sequences");
    options = (struct corpus_options){
        .config = config, .place = *place, .vocab_size = 50000, .which = SPLIT_TRAIN, .sample_count = 10};
    EXPECT_OK(flag_set(&table, config, "--split", "1,500,500", FLAG_FROM_COMMAND));
    EXPECT_ERROR(corpus_open(&corpus, &options), "leaves the train split none of the 50 sequences");
}

TEST(samples_of_whole_runs_equal_megatron_cores) {
    snprintf(folder, sizeof folder, "/tmp/bevatron-test-XXXXXX");
    EXPECT(mkdtemp(folder));
    log_set_level(LOG_ERROR);
    write_datasets();
    struct device *device;
    struct world *world;
    struct mesh mesh;
    EXPECT_OK(device_open(&device, &(struct device_options){.name = "cpu", .threads = 1}));
    EXPECT_OK(world_open(&world, &(struct world_options){.backend = "self"}, device));
    EXPECT_OK(mesh_place(&mesh, 0, 1, NULL));
    EXPECT_OK(mesh_connect(&mesh, world));
    struct config config;
    config_defaults(&config);
    struct corpus_place place = {.mesh = &mesh};
    run_golden(&config, &place);
    // Again with the existing caches, and those of blends in a folder.
    config.data.data_cache_path = memory_printf("%s/cache", folder);
    run_golden(&config, &place);
    run_golden(&config, &place);
    expect_small_splits(&config, &place);
    config_free(&config);
    world_close(world);
    device_close(device);
    file_remove_tree(folder);
}

TEST_MAIN(TEST_CASE(samples_of_whole_runs_equal_megatron_cores))
