// GPT samples: every array and token against NumPy's; data without samples.
#include "data/sample/gpt.h"

#include "base/hash.h"
#include "base/log.h"
#include "fixture.h"

enum { MAXIMUM_WORDS = 1 << 14 };

// A line of the golden file: "key number number …".
struct golden {
    FILE *file;
    char line[1 << 17];
    char *rest;  // after the key
    int64_t numbers[MAXIMUM_WORDS];
    int64_t count;
};

static bool golden_next(struct golden *g) {
    if (!fgets(g->line, sizeof g->line, g->file))
        return false;
    g->line[strcspn(g->line, "\n")] = 0;
    g->rest = g->line + strcspn(g->line, " ");
    if (*g->rest)
        *g->rest++ = 0;
    g->count = 0;
    char *end;
    for (char *at = g->rest; g->count < MAXIMUM_WORDS; at = end) {
        int64_t value = strtoll(at, &end, 10);
        if (end == at)
            break;
        g->numbers[g->count++] = value;
    }
    return true;
}

static void expect_md5(const void *data, size_t bytes, const char *expected) {
    char text[33];
    md5_hex(data, bytes, text);
    if (strncmp(text, expected, 32) != 0)
        test_fail("md5 is %s, expected %.32s", text, expected);
}

static size_t data_bytes(const struct npy *npy) {
    return (size_t)(npy->shape.rows * npy->shape.columns) * npy_item_bytes(npy->shape.dtype);
}

static void expect_line(const struct golden *g, const struct gpt_dataset *d) {
    if (strcmp(g->line, "range") == 0) {
        EXPECT_INT(d->range.begin, g->numbers[0]);
        EXPECT_INT(d->range.end, g->numbers[1]);
    } else if (strcmp(g->line, "shape") == 0) {
        EXPECT_INT(d->shape.epochs, g->numbers[0]);
        EXPECT_INT(d->shape.is_last_separate, g->numbers[1]);
        EXPECT_INT(d->shape.samples, g->numbers[2]);
    } else if (strcmp(g->line, "documents") == 0) {
        for (int64_t i = 0; i < g->count; i++)
            EXPECT_INT(((const int32_t *)d->arrays[GPT_DOCUMENTS].data)[i], g->numbers[i]);
    } else if (strcmp(g->line, "samples") == 0) {
        for (int64_t i = 0; i < g->count; i++)
            EXPECT_INT(((const int32_t *)d->arrays[GPT_SAMPLES].data)[i], g->numbers[i]);
    } else if (strcmp(g->line, "order") == 0) {
        for (int64_t i = 0; i < g->count; i++)
            EXPECT_INT(((const uint32_t *)d->arrays[GPT_ORDER].data)[i], g->numbers[i]);
    } else if (strcmp(g->line, "md5") == 0) {
        for (int i = 0; i < GPT_ARRAY_COUNT; i++)
            expect_md5(d->arrays[i].data, data_bytes(&d->arrays[i]), g->rest + 33 * i);
    } else if (strcmp(g->line, "tokens") == 0) {
        int32_t tokens[256];
        EXPECT_OK(gpt_dataset_sample(d, g->numbers[0], tokens));
        const char *md5 = strstr(g->rest, "md5 ");
        if (md5) {
            expect_md5(tokens, (size_t)(d->shape.seq_length + 1) * sizeof *tokens, md5 + 4);
        } else {
            EXPECT_INT(g->count, d->shape.seq_length + 2);
            for (int64_t i = 0; i <= d->shape.seq_length; i++)
                EXPECT_INT(tokens[i], g->numbers[i + 1]);
        }
    } else {
        test_fail("unknown line %s", g->line);
    }
}

TEST(everything_as_numpy) {
    static struct golden g;
    g.file = fopen("tests/golden/gpt_samples.txt", "r");
    EXPECT(g.file);
    scratch_open();
    log_set_level(LOG_ERROR);
    struct gpt_options options = {0};
    struct gpt_dataset *dataset = NULL;
    char split[64];
    int cases = 0;
    while (golden_next(&g)) {
        if (strcmp(g.line, "case") == 0) {
            options = (struct gpt_options){.prefix = scratch_path("golden"), .vocab_size = 50000};
        } else if (strcmp(g.line, "lengths") == 0) {
            make_dataset(scratch_path("golden"), g.numbers, g.count);
        } else if (strcmp(g.line, "split") == 0) {
            snprintf(split, sizeof split, "%s", g.rest);
            options.split = split;
        } else if (strcmp(g.line, "options") == 0) {
            options.which = (enum split)g.numbers[0];
            options.seq_length = g.numbers[1];
            options.sample_count = g.numbers[2];
            options.seed = g.numbers[3];
            EXPECT_OK(gpt_dataset_build(&options));
            EXPECT_OK(gpt_dataset_open(&dataset, &options));
        } else if (strcmp(g.line, "end") == 0) {
            gpt_dataset_close(dataset);
            dataset = NULL;
            cases++;
        } else if (dataset) {
            expect_line(&g, dataset);
        }
    }
    EXPECT_INT(cases, 26);
    fclose(g.file);
    scratch_close();
}

static const int64_t eight[] = {5, 9, 3, 12, 7, 4, 10, 6};

static struct gpt_options eight_options(void) {
    log_set_level(LOG_ERROR);
    make_dataset(scratch_path("eight"), eight, 8);
    return (struct gpt_options){
        .prefix = scratch_path("eight"), .seq_length = 8, .sample_count = 8, .seed = 1234, .vocab_size = 50000};
}

// The 64-bit arrays are for datasets too large for any test; forced on a small one, they must have the same content.
TEST(wide_arrays_say_the_same) {
    scratch_open();
    eight_options();
    struct index_reader *reader;
    EXPECT_OK(index_open(&reader, scratch_path("eight")));
    struct gpt_range range = {reader, 0, 8};
    struct gpt_shape shape;
    EXPECT_OK(gpt_shape_make(&shape, range, 8, 8));
    EXPECT(!shape.wide_samples && !shape.wide_order && shape.is_last_separate);
    struct gpt_index narrow, wide;
    EXPECT_OK(gpt_index_build(&narrow, &shape, range, 1234));
    shape.wide_samples = shape.wide_order = true;
    EXPECT_OK(gpt_index_build(&wide, &shape, range, 1234));
    EXPECT_INT(shape.samples, 13);
    for (int64_t i = 0; i < 2 * (shape.samples + 1); i++)
        EXPECT_INT(((int64_t *)wide.samples)[i], ((int32_t *)narrow.samples)[i]);
    for (int64_t i = 0; i < shape.samples; i++)
        EXPECT_INT(((int64_t *)wide.order)[i], ((uint32_t *)narrow.order)[i]);
    struct gpt_dataset dataset = {.range = range, .shape = shape};
    dataset.arrays[GPT_SAMPLES].data = wide.samples;
    dataset.arrays[GPT_ORDER].data = wide.order;
    EXPECT_INT(gpt_dataset_order(&dataset, 6), 9);
    EXPECT_INT(gpt_dataset_start(&dataset, 13).position, 14);
    EXPECT_INT(gpt_dataset_start(&dataset, 13).offset, 7);
    gpt_index_free(&narrow);
    gpt_index_free(&wide);
    index_close(reader);
    scratch_close();
}

// Widths and limits follow from sizes alone, so they can be computed for datasets that do not exist.
TEST(large_shapes) {
    unsigned char idx[34 + 12 + 16] = "MMIDIDX";
    struct index_files files = {.prefix = "large", .index = {idx, sizeof idx}, .tokens = {idx, (size_t)2 * INT32_MAX}};
    struct index_reader reader = {.files = files, .sequence_count = 1, .document_count = 1, .item_bytes = 2};
    struct gpt_range range = {&reader, 0, 1};
    struct gpt_shape shape;
    EXPECT_OK(gpt_shape_make(&shape, range, 1024, 0));
    EXPECT_INT(shape.samples, (INT32_MAX - 1) / 1024);
    EXPECT_OK(gpt_shape_make(&shape, range, 1, INT64_C(4294967293)));
    EXPECT_INT(shape.epochs, 2);
    EXPECT_INT(shape.samples, INT64_C(4294967293));
    EXPECT(!shape.wide_order);
    EXPECT_OK(gpt_shape_make(&shape, range, 1, INT64_C(4294967294)));
    EXPECT_INT(shape.epochs, 3);
    EXPECT(shape.wide_order && !shape.wide_samples);
    EXPECT_OK(gpt_shape_make(&shape, range, 2048, INT64_C(1) << 51));
    EXPECT(shape.epochs > INT32_MAX && shape.wide_samples);
    EXPECT_ERROR(gpt_shape_make(&shape, range, 2048, INT64_MAX / 4), "too many");
    EXPECT_ERROR(gpt_shape_make(&shape, range, 1, INT64_MAX - 5), "too many");
}

TEST(tokens_beyond_the_vocabulary) {
    scratch_open();
    struct gpt_options options = eight_options();
    options.vocab_size = 48449;  // one less than needed for the largest token, 48449 at position 4 of sequence 6
    EXPECT_OK(gpt_dataset_build(&options));
    struct gpt_dataset *dataset;
    EXPECT_OK(gpt_dataset_open(&dataset, &options));
    int32_t tokens[9];
    int found = 0;
    for (int64_t i = 0; i < dataset->shape.samples; i++) {
        if (gpt_dataset_sample(dataset, i, tokens) == 0)
            continue;
        EXPECT(strstr(error_message(), "eight.bin: token 4 of sequence 6 is 48449, beyond the vocabulary of 48449"));
        EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
        found++;
    }
    EXPECT(found >= 2);
    gpt_dataset_close(dataset);
    scratch_close();
}

TEST(bad_options_and_data) {
    scratch_open();
    struct gpt_options options = eight_options();
    options.seed = INT64_C(1) << 32;
    EXPECT_ERROR(gpt_dataset_build(&options), "--seed 4294967296");
    options.seed = 0;
    options.seq_length = 0;
    EXPECT_ERROR(gpt_dataset_build(&options), "--seq-length 0");
    options.seq_length = 8;
    options.split = "99,1,0";
    options.which = SPLIT_VALID;
    EXPECT_ERROR(gpt_dataset_build(&options), "leaves the valid split none of the 8 sequences");
    options.split = "nonsense";
    EXPECT_ERROR(gpt_dataset_build(&options), "--split \"nonsense\"");
    options.split = NULL;
    make_dataset(scratch_path("eight"), (const int64_t[]){0, 0}, 2);
    EXPECT_ERROR(gpt_dataset_build(&options), "hold no tokens");
    // Two lengths swapped: the ends are right, so it opens, but the sum of a split does not match the pointers.
    make_dataset(scratch_path("eight"), eight, 8);
    struct buffer idx = read_bytes(scratch_path("eight.idx"));
    idx.data[34] = 9;
    idx.data[34 + 4 * 6] = 6;
    write_bytes(scratch_path("eight.idx"), idx.data, idx.length);
    options.split = "4,4";
    EXPECT_ERROR(gpt_dataset_build(&options), "add up to 23 tokens, the pointers say 27");
    options.which = SPLIT_TRAIN;
    idx.data[37] = (char)0x80;
    write_bytes(scratch_path("eight.idx"), idx.data, idx.length);
    EXPECT_ERROR(gpt_dataset_build(&options), "byte 34: sequence 0 has length -2147483639");
    buffer_free(&idx);
    scratch_close();
}

TEST_MAIN(TEST_CASE(everything_as_numpy), TEST_CASE(wide_arrays_say_the_same), TEST_CASE(large_shapes),
          TEST_CASE(tokens_beyond_the_vocabulary), TEST_CASE(bad_options_and_data))
