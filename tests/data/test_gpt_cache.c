// Index caches: named as in Megatron, reused, rebuilt if damaged, and never trusted.
#include "data/sample/gpt.h"

#include "base/hash.h"
#include "base/log.h"
#include "fixture.h"
#include <sys/stat.h>

static void expect_md5(const void *data, size_t bytes, const char *expected) {
    char text[33];
    md5_hex(data, bytes, text);
    if (strncmp(text, expected, 32) != 0)
        test_fail("md5 is %s, expected %.32s", text, expected);
}

static const int64_t eight[] = {5, 9, 3, 12, 7, 4, 10, 6};

static struct gpt_options eight_options(void) {
    log_set_level(LOG_ERROR);
    make_dataset(scratch_path("eight"), eight, 8);
    return (struct gpt_options){
        .prefix = scratch_path("eight"), .seq_length = 8, .sample_count = 8, .seed = 1234, .vocab_size = 50000};
}

static char *cache_file(const struct gpt_options *options, const char *what) {
    struct index_reader *reader;
    struct index_cache cache;
    EXPECT_OK(index_open(&reader, options->prefix));
    gpt_cache_name(&cache, options, reader);
    char *path = memory_printf("%s-%s", cache.stem, what);
    index_cache_free(&cache);
    index_close(reader);
    return path;
}

static ino_t inode_of(const char *path) {
    struct stat status;
    EXPECT(stat(path, &status) == 0);
    return status.st_ino;
}

static const char *const cache_parts[] = {"document_index.npy", "sample_index.npy", "shuffle_index.npy",
                                          "checksums.txt"};

TEST(cache_names_and_reuse) {
    scratch_open();
    struct gpt_options options = eight_options();
    struct gpt_dataset *dataset;
    EXPECT_ERROR(gpt_dataset_open(&dataset, &options), "cannot use the sample index");
    EXPECT_OK(gpt_dataset_build(&options));
    char *path = cache_file(&options, "sample_index.npy");
    EXPECT(strstr(path, "/eight/cache/GPTDataset_indices/"));
    EXPECT_INT(strlen(strrchr(path, '/')), 1 + 32 + strlen("-GPTDataset-train-sample_index.npy"));
    EXPECT(strstr(path, "-GPTDataset-train-sample_index.npy"));
    ino_t before = inode_of(path);
    EXPECT_OK(gpt_dataset_build(&options));
    EXPECT_INT(inode_of(path), before);
    free(path);
    // The name is the md5 of the description.
    path = cache_file(&options, "description.txt");
    struct buffer description = read_bytes(path);
    expect_md5(description.data, description.length, strrchr(path, '/') + 1);
    buffer_free(&description);
    free(path);
    // Other options have other files; another folder.
    options.seed = 1235;
    EXPECT(gpt_dataset_open(&dataset, &options) < 0);
    options.cache_folder = scratch_path("deep/er");
    EXPECT_OK(gpt_dataset_build(&options));
    EXPECT_OK(gpt_dataset_open(&dataset, &options));
    EXPECT(file_is_folder(scratch_path("deep/er")));
    gpt_dataset_close(dataset);
    scratch_close();
}

static void expect_repaired(const struct gpt_options *options) {
    struct gpt_dataset *dataset;
    EXPECT_ERROR(gpt_dataset_open(&dataset, options), "remove it to have it rebuilt");
    EXPECT_OK(gpt_dataset_build(options));
    EXPECT_OK(gpt_dataset_open(&dataset, options));
    EXPECT_INT(gpt_dataset_order(dataset, 6), 9);
    gpt_dataset_close(dataset);
}

TEST(damaged_caches_are_built_again) {
    scratch_open();
    struct gpt_options options = eight_options();
    for (int part = 0; part < 4; part++) {
        EXPECT_OK(gpt_dataset_build(&options));
        char *path = cache_file(&options, cache_parts[part]);
        struct buffer whole = read_bytes(path);
        for (size_t byte = 0; byte < whole.length; byte += 1 + whole.length / 9) {
            write_bytes(path, whole.data, byte);
            expect_repaired(&options);
            whole.data[byte] = (char)(whole.data[byte] ^ 1 << byte % 8);
            write_bytes(path, whole.data, whole.length);
            whole.data[byte] = (char)(whole.data[byte] ^ 1 << byte % 8);
            expect_repaired(&options);
        }
        unlink(path);
        expect_repaired(&options);
        buffer_free(&whole);
        free(path);
    }
    scratch_close();
}

// A cache with correct checksums and wrong entries was forged; it is still detected.
TEST(forged_caches_are_refused) {
    scratch_open();
    struct gpt_options options = eight_options();
    struct gpt_dataset *dataset;
    EXPECT_OK(gpt_dataset_build(&options));
    EXPECT_OK(gpt_dataset_open(&dataset, &options));
    struct index_cache cache;
    gpt_cache_name(&cache, &options, dataset->reader);
    static const struct {
        int array, entry;
        int32_t value;
    } forgeries[] = {{GPT_DOCUMENTS, 3, 8}, {GPT_DOCUMENTS, 3, -1}, {GPT_SAMPLES, 4, 1000},
                     {GPT_SAMPLES, 4, -1},  {GPT_SAMPLES, 5, -2},   {GPT_SAMPLES, 26, 16},
                     {GPT_SAMPLES, 2, 3},   {GPT_ORDER, 0, 13},     {GPT_ORDER, 0, -1}};
    for (size_t i = 0; i < sizeof forgeries / sizeof forgeries[0]; i++) {
        struct gpt_index index;
        EXPECT_OK(gpt_index_build(&index, &dataset->shape, dataset->range, 1234));
        int32_t *arrays[GPT_ARRAY_COUNT] = {index.documents, index.samples, index.order};
        arrays[forgeries[i].array][forgeries[i].entry] = forgeries[i].value;
        EXPECT_OK(gpt_cache_write(&cache, &dataset->shape, &index));
        gpt_index_free(&index);
        struct gpt_dataset *forged;
        EXPECT_ERROR(gpt_dataset_open(&forged, &options), "an entry is out of range");
    }
    // In range, but too many or too few tokens: detected when the sample is read.
    static const int32_t offsets[] = {0, 4, 6};
    for (size_t i = 0; i < sizeof offsets / sizeof offsets[0]; i++) {
        struct gpt_index index;
        EXPECT_OK(gpt_index_build(&index, &dataset->shape, dataset->range, 1234));
        ((int32_t *)index.samples)[3] = offsets[i];
        EXPECT_OK(gpt_cache_write(&cache, &dataset->shape, &index));
        gpt_index_free(&index);
        struct gpt_dataset *forged;
        int32_t tokens[9];
        EXPECT_OK(gpt_dataset_open(&forged, &options));
        EXPECT_ERROR(gpt_dataset_sample(forged, 1, tokens), "sample 1 does not have 9 tokens");
        gpt_dataset_close(forged);
    }
    index_cache_free(&cache);
    gpt_dataset_close(dataset);
    scratch_close();
}

TEST(another_dataset_under_the_old_name) {
    scratch_open();
    struct gpt_options options = eight_options();
    EXPECT_OK(gpt_dataset_build(&options));
    make_dataset(scratch_path("eight"), eight, 7);
    struct gpt_dataset *dataset;
    EXPECT(gpt_dataset_open(&dataset, &options) < 0);
    EXPECT_OK(gpt_dataset_build(&options));
    EXPECT_OK(gpt_dataset_open(&dataset, &options));
    EXPECT_INT(dataset->shape.tokens_per_epoch, 50);
    gpt_dataset_close(dataset);
    scratch_close();
}

TEST_MAIN(TEST_CASE(cache_names_and_reuse), TEST_CASE(damaged_caches_are_built_again),
          TEST_CASE(forged_caches_are_refused), TEST_CASE(another_dataset_under_the_old_name))
