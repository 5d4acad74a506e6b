// Blends: the order of samples against an independent computation, sizes, the meaning of --data-path, caches, damage.
#include "data/sample/blend.h"

#include "base/log.h"
#include "data/sample/index_cache.h"
#include "fixture.h"

enum { MOST = 40 };
static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";

struct blend_line {
    char kind[16];
    int64_t size, count;
    double values[MOST];
    char answer[4096];
};

static bool next_line(FILE *file, struct blend_line *line) {
    char text[4096], *at = text;
    if (!fgets(text, sizeof text, file))
        return false;
    int used;
    if (sscanf(text, "%15s %" SCNd64 "%n", line->kind, &line->size, &used) != 2)
        test_fail("no golden line: %s", text);
    line->count = 0;
    char *end;
    for (at = text + used; line->count < MOST; at = end) {
        double value = strtod(at, &end);
        if (end == at)
            break;
        line->values[line->count++] = value;
    }
    if (!fgets(line->answer, sizeof line->answer, file))
        test_fail("the answer to %s is missing", line->kind);
    line->answer[strcspn(line->answer, "\n")] = 0;
    return true;
}

static int read_number(void *context, int64_t sample, int32_t *tokens) {
    tokens[0] = (int32_t)(intptr_t)context;
    tokens[1] = (int32_t)sample;
    return 0;
}

static void make_sources(struct sample_source *sources, const struct blend_line *line, bool sizes) {
    for (int64_t i = 0; i < line->count; i++)
        sources[i] = (struct sample_source){.context = (void *)(intptr_t)i,
                                            .name = "numbers",
                                            .count = sizes ? (int64_t)line->values[i] : 100000,
                                            .seq_length = 1,
                                            .read = read_number};
}

static void expect_order(const struct blend_line *line) {
    struct sample_source sources[MOST];
    bool sizes = strcmp(line->kind, "sizes") == 0;
    make_sources(sources, line, sizes);
    double weights[MOST];
    memcpy(weights, line->values, sizeof weights);
    blend_normalize(weights, line->count);
    struct blend_options options = {
        .sources = sources, .count = line->count, .weights = sizes ? NULL : weights, .size = line->size};
    struct blend *blend;
    EXPECT_OK(blend_open(&blend, &options));
    struct sample_source source = blend_source(blend);
    EXPECT_INT(source.count, strlen(line->answer));
    int32_t given[MOST] = {0};
    for (int64_t i = 0; i < source.count; i++) {
        int32_t tokens[2];
        EXPECT_OK(source.read(source.context, i, tokens));
        if (digits[tokens[0]] != line->answer[i] || tokens[1] != given[tokens[0]]++)
            test_fail("%s: sample %" PRId64 " is number %d of %d", line->kind, i, tokens[1], tokens[0]);
    }
    blend_close(blend);
}

static void expect_targets(const struct blend_line *line) {
    double weights[MOST];
    memcpy(weights, line->values, sizeof weights);
    blend_normalize(weights, line->count);
    char *at = (char *)(uintptr_t)line->answer;
    int64_t wanted[MOST];
    for (int64_t i = 0; i < line->count; i++) {
        wanted[i] = blend_target(weights[i], line->size);
        EXPECT_INT(wanted[i], strtoll(at, &at, 10));
    }
    for (int64_t i = 0; i < line->count; i++)
        EXPECT_INT(blend_surplus(wanted[i]), strtoll(at, &at, 10));
}

TEST(orders_equal_the_golden_ones) {
    FILE *file = fopen("tests/golden/blend.txt", "r");
    EXPECT(file);
    struct blend_line line;
    int lines = 0;
    for (; next_line(file, &line); lines++)
        if (strcmp(line.kind, "targets") == 0)
            expect_targets(&line);
        else
            expect_order(&line);
    fclose(file);
    EXPECT_INT(lines, 16);
}

TEST(words_of_data_path) {
    struct blend_list list;
    char *one[] = {"a"}, *pair[] = {"2", "a"}, *two[] = {"a", "b"}, *weighed[] = {"30", "a", "7e1", "b"};
    EXPECT_OK(blend_list_parse(&list, one, 1, "--data-path"));
    EXPECT(list.count == 1 && !list.weights && strcmp(list.prefixes[0], "a") == 0);
    blend_list_free(&list);
    EXPECT_OK(blend_list_parse(&list, pair, 2, "--data-path"));
    EXPECT(list.count == 1 && list.weights && list.weights[0] == 1.0);
    blend_list_free(&list);
    EXPECT_OK(blend_list_parse(&list, two, 2, "--data-path"));
    EXPECT(list.count == 2 && !list.weights && strcmp(list.prefixes[1], "b") == 0);
    blend_list_free(&list);
    EXPECT_OK(blend_list_parse(&list, weighed, 4, "--data-path"));
    EXPECT(list.count == 2 && list.weights[0] == 0.3 && list.weights[1] == 0.7 && strcmp(list.prefixes[0], "a") == 0);
    blend_list_free(&list);
    char *zero[] = {"0", "a", "1", "b"}, *nan[] = {"nan", "a"};
    EXPECT_ERROR(blend_list_parse(&list, zero, 4, "--data-path"), "the weight 0 of a is not above 0");
    EXPECT_ERROR(blend_list_parse(&list, nan, 2, "--train-data-path"), "--train-data-path: the weight nan");
    char *numbers[] = {"1", "2", "3"}, *python[] = {"1_000", "a", "3_000", "b"};
    EXPECT_OK(blend_list_parse(&list, numbers, 3, "--data-path"));
    EXPECT(list.count == 3 && !list.weights);
    blend_list_free(&list);
    EXPECT_OK(blend_list_parse(&list, python, 4, "--data-path"));
    EXPECT(list.count == 2 && list.weights[0] == 0.25 && list.weights[1] == 0.75);
    blend_list_free(&list);
}

// A list of weights and prefixes that lacks one: the message says which.
TEST(a_missing_weight_is_named) {
    static const struct {
        char *items[6];
        int64_t count;
        const char *error;
    } lists[] = {
        {{"1", "a", "b"}, 3, "--data-path: the weight of b is missing; give WEIGHT PREFIX for each dataset"},
        {{"1", "a", "b", "c"}, 4, "the weight of b is missing"},
        {{"a", "0.5", "b"}, 3, "the weight of a is missing"},
        {{"a", "0.5", "b", "0.5"}, 4, "the weight of a is missing"},
        {{"0.3", "a", "0.7"}, 3, "the dataset of the weight 0.7 is missing"},
        {{"0.3", "0.7", "b"}, 3, "the dataset of the weight 0.3 is missing"},
        {{"1", "a", "1", "b", "c"}, 5, "the weight of c is missing"},
    };
    struct blend_list list;
    for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
        EXPECT_ERROR(blend_list_parse(&list, lists[i].items, lists[i].count, "--data-path"), lists[i].error);
        EXPECT_INT(error_exit_code(), EXIT_CODE_USAGE);
    }
}

static struct blend_options small(struct sample_source *sources, double *weights) {
    struct blend_line line = {.count = 2, .values = {0.25, 0.75}};
    make_sources(sources, &line, false);
    memcpy(weights, line.values, 2 * sizeof *weights);
    return (struct blend_options){
        .sources = sources, .count = 2, .weights = weights, .size = 100, .cache_folder = scratch_path("cache")};
}

TEST(an_evaluation_without_weights_repeats) {
    const struct blend_line line = {.count = 2, .values = {3, 2}};
    struct sample_source sources[2];
    make_sources(sources, &line, true);
    for (int which = 0; which < SPLIT_COUNT; which++) {
        struct blend_options options = {.sources = sources, .count = 2, .size = 12, .which = (enum split)which};
        struct blend *blend;
        EXPECT_OK(blend_open(&blend, &options));
        struct sample_source source = blend_source(blend);
        EXPECT_INT(source.count, which == SPLIT_TRAIN ? 5 : 12);
        for (int64_t i = 5; i < source.count; i++) {
            int32_t first[2], again[2];
            EXPECT_OK(source.read(source.context, i % 5, first));
            EXPECT_OK(source.read(source.context, i, again));
            EXPECT(first[0] == again[0] && first[1] == again[1]);
        }
        blend_close(blend);
    }
}

TEST(the_cache_gives_the_same_and_is_not_trusted) {
    scratch_open();
    log_set_level(LOG_ERROR);
    struct sample_source sources[2];
    double weights[2];
    struct blend_options options = small(sources, weights), plain = options;
    plain.cache_folder = NULL;
    struct blend *cached, *made;
    EXPECT_ERROR(blend_open(&cached, &options), "cannot use the blend's order");
    EXPECT_OK(blend_build(&options));
    EXPECT_OK(blend_build(&options));
    EXPECT_OK(blend_open(&cached, &options));
    EXPECT_OK(blend_open(&made, &plain));
    for (int64_t i = 0; i < 100; i++) {
        int64_t a, b, c, d;
        blend_sample(cached, i, &a, &b);
        blend_sample(made, i, &c, &d);
        EXPECT(a == c && b == d);
    }
    blend_close(cached);
    blend_close(made);
    DIR *folder = opendir(scratch_path("cache"));
    int files = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.')
            continue;
        files++;
        EXPECT(strstr(entry->d_name, "-BlendedDataset-train-"));
        if (!strstr(entry->d_name, "dataset_index.npy"))
            continue;
        char *path = memory_printf("%s/%s", scratch_path("cache"), entry->d_name);
        struct buffer bytes = read_bytes(path);
        bytes.data[bytes.length - 1] ^= 1;
        write_bytes(path, bytes.data, bytes.length);
        buffer_free(&bytes);
        free(path);
    }
    closedir(folder);
    EXPECT_INT(files, 4);
    EXPECT_ERROR(blend_open(&cached, &options), "checksums are not those");
    EXPECT_OK(blend_build(&options));
    EXPECT_OK(blend_open(&cached, &options));
    blend_close(cached);
    scratch_close();
}

TEST(a_dataset_that_is_too_small_is_named) {
    struct sample_source sources[2];
    double weights[2];
    struct blend_options options = small(sources, weights);
    options.cache_folder = NULL;
    sources[1].count = 10;
    sources[1].name = "train split of b";
    struct blend *blend;
    EXPECT_ERROR(blend_open(&blend, &options), "asks for 75 samples of the train split of b, which has 10");
}

TEST_MAIN(TEST_CASE(orders_equal_the_golden_ones), TEST_CASE(words_of_data_path), TEST_CASE(a_missing_weight_is_named),
          TEST_CASE(an_evaluation_without_weights_repeats), TEST_CASE(the_cache_gives_the_same_and_is_not_trusted),
          TEST_CASE(a_dataset_that_is_too_small_is_named))
