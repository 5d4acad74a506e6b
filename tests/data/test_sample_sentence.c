// Samples of BERT and T5: sample maps and every array of every sample against megatron-core's own, statistics of the
// masks, caches, data and vocabularies without samples.
#include "data/sample/sentence.h"

#include "base/hash.h"
#include "base/log.h"
#include "base/rng.h"
#include "fixture.h"

enum { WORDS = 1000, MOST_SENTINELS = 128, MOST_LINE = 1 << 14 };

struct vocabulary_fixture {
    struct sample_vocabulary vocabulary;
    int32_t sentinels[MOST_SENTINELS];
    unsigned char continues[WORDS + MOST_SENTINELS];
};

static void make_vocabulary(struct vocabulary_fixture *fixture, int64_t sentinels) {
    *fixture = (struct vocabulary_fixture){.vocabulary = {.size = WORDS + sentinels,
                                                          .pad = 0,
                                                          .cls = 1,
                                                          .sep = 2,
                                                          .mask = 3,
                                                          .bos = 4,
                                                          .eos = 5,
                                                          .sentinel_count = sentinels}};
    fixture->vocabulary.sentinels = fixture->sentinels;
    fixture->vocabulary.continues = fixture->continues;
    for (int64_t i = 0; i < sentinels; i++)
        fixture->sentinels[i] = (int32_t)(WORDS + i);
    for (int64_t id = 10; id < WORDS; id++)
        fixture->continues[id] = id % 5 == 0;
}

// "5,600,7 - 700 …": sentence lengths of each document.
static void write_corpus(const char *prefix, const char *lengths) {
    struct index_writer *writer;
    int64_t j = 0;
    EXPECT_OK(index_writer_open(&writer, prefix, INDEX_U16));
    for (const char *at = lengths; *at;) {
        char *end = (char *)(uintptr_t)at;
        while (*at && *at != ' ') {
            int64_t length = strtoll(at, &end, 10);
            if (end == at)
                end++;  // "-": a document without sentences
            int32_t tokens[1024];
            for (int64_t k = 0; k < length; k++, j++)
                tokens[k] = (int32_t)(10 + (7907 * j + 13) % 990);
            EXPECT_OK(index_writer_add(writer, tokens, length));
            at = *end == ',' ? end + 1 : end;
        }
        EXPECT_OK(index_writer_end_document(writer));
        at += *at == ' ';
    }
    EXPECT_OK(index_writer_commit(writer));
}

// The arrays of a sample concatenated, as in the golden file.
static int64_t gather(const struct sample_source *source, int64_t sample, struct batch *batch, int32_t *out) {
    struct batch row = batch_row(batch, 0);
    EXPECT_OK(source->fill(source->context, sample, &row));
    int64_t T = source->form.T, S = source->form.S, L = S ? S : T, count = 0;
    memcpy(out, row.tokens, (size_t)T * 4);
    count += T;
    memcpy(out + count, S ? row.decoder_tokens : row.token_types, (size_t)L * 4);
    count += L;
    memcpy(out + count, row.labels, (size_t)L * 4);
    count += L;
    int32_t decoder_length = 0;
    for (int64_t i = 0; i < L; i++) {
        out[count] = (int32_t)row.loss_mask[i];
        decoder_length += out[count++];
    }
    out[count++] = *row.lengths;
    out[count++] = S ? decoder_length : row.pair_labels ? *row.pair_labels : 0;
    for (int64_t t = 0; t < T; t++)
        EXPECT_INT(row.positions[t], t);
    return count;
}

static void expect_md5(const struct buffer *bytes, const char *expected) {
    char text[33];
    md5_hex(buffer_string(bytes), bytes->length, text);
    if (strncmp(text, expected, 32) != 0)
        test_fail("md5 is %s, expected %.32s", text, expected);
}

struct check {
    struct sentence_dataset *dataset;
    struct sample_source source;
    struct batch batch;
};

static void expect_line(struct check *check, const char *line) {
    int32_t found[4096];
    int64_t count, value;
    char md5[40];
    if (sscanf(line, "map %" SCNd64 " %32s", &count, md5) == 2) {
        struct buffer bytes = {0};
        EXPECT_INT(check->source.count, count);
        buffer_append(&bytes, check->dataset->rows.data, (size_t)count * 12);
        expect_md5(&bytes, md5);
        buffer_free(&bytes);
    } else if (sscanf(line, "sample %" SCNd64, &value) == 1) {
        count = gather(&check->source, value, &check->batch, found);
        char *at = strchr(strchr(line, ' ') + 1, ' ');
        for (int64_t i = 0; i < count; i++)
            if (found[i] != strtoll(at, &at, 10))
                test_fail("sample %" PRId64 ", number %" PRId64 ": %d", value, i, found[i]);
        EXPECT_INT(*at, '\n');
    } else if (sscanf(line, "md5 %" SCNd64 " %32s", &count, md5) == 2) {
        struct buffer bytes = {0};
        for (int64_t i = 0; i < count; i++)
            buffer_append(&bytes, found, (size_t)gather(&check->source, i, &check->batch, found) * 4);
        expect_md5(&bytes, md5);
        buffer_free(&bytes);
    } else {
        test_fail("unknown line %s", line);
    }
}

static void close_check(struct check *check) {
    batch_free(&check->batch);
    sentence_dataset_close(check->dataset);
    *check = (struct check){0};
}

static void open_check(struct check *check, const struct sentence_options *options) {
    close_check(check);
    EXPECT_OK(sentence_dataset_build(options));
    EXPECT_OK(sentence_dataset_open(&check->dataset, options));
    check->source = sentence_dataset_source(check->dataset);
    batch_allocate(&check->batch, &check->source.form, 1);
}

static struct sentence_options any_options(const struct vocabulary_fixture *fixture) {
    return (struct sentence_options){.prefix = scratch_path("corpus"),
                                     .seq_length = 64,
                                     .sample_count = 300,
                                     .seed = 1234,
                                     .mask_prob = 0.15,
                                     .short_seq_prob = 0.1,
                                     .has_binary_head = true,
                                     .vocabulary = &fixture->vocabulary};
}

TEST(samples_equal_megatron_cores) {
    scratch_open();
    log_set_level(LOG_ERROR);
    FILE *file = fopen("tests/golden/sentences.txt", "r");
    EXPECT(file);
    static char line[MOST_LINE];
    static struct vocabulary_fixture fixture;
    struct check check = {0};
    int sets = 0;
    while (fgets(line, sizeof line, file)) {
        struct sentence_options options = any_options(&fixture);
        int64_t sentinels = 0;
        int head = 0;
        if (strncmp(line, "lengths ", 8) == 0) {
            line[strcspn(line, "\n")] = 0;
            write_corpus(scratch_path("corpus"), line + 8);
            continue;
        }
        if (sscanf(line, "bert %" SCNd64 " %" SCNd64 " %" SCNd64 " %lf %lf %d", &options.seq_length,
                   &options.sample_count, &options.seed, &options.mask_prob, &options.short_seq_prob, &head) == 6) {
            options.has_binary_head = head;
        } else if (sscanf(line, "t5 %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %lf %lf %" SCNd64,
                          &options.seq_length, &options.decoder_seq_length, &options.sample_count, &options.seed,
                          &options.mask_prob, &options.short_seq_prob, &sentinels) == 7) {
            options.kind = SENTENCE_T5;
        } else {
            expect_line(&check, line);
            continue;
        }
        sets++;
        make_vocabulary(&fixture, sentinels);
        open_check(&check, &options);
    }
    close_check(&check);
    fclose(file);
    EXPECT_INT(sets, 8);
    scratch_close();
}

// 20000 documents of 4 sentences of 20 tokens: 1.6 million tokens.
static void write_large_corpus(void) {
    struct buffer lengths = {0};
    for (int i = 0; i < 20000; i++)
        buffer_printf(&lengths, "%s20,20,20,20", i ? " " : "");
    write_corpus(scratch_path("corpus"), lengths.data);
    buffer_free(&lengths);
}

static void expect_share(double part, double whole, double p) {
    double sigma = sqrt(whole * p * (1 - p));
    if (fabs(part - whole * p) > 3 * sigma)
        test_fail("%g of %g is not %g within 3 sigma (%g)", part, whole, p, sigma);
}

TEST(masks_have_the_shares_of_bert) {
    scratch_open();
    log_set_level(LOG_ERROR);
    static struct vocabulary_fixture fixture;
    make_vocabulary(&fixture, 0);
    write_large_corpus();
    struct check check = {0};
    struct sentence_options options = any_options(&fixture);
    options.seq_length = 90;
    options.sample_count = 20000;
    open_check(&check, &options);
    double tokens = 0, covered = 0, masked = 0, same = 0, swapped = 0, samples = 0;
    struct batch row = batch_row(&check.batch, 0);
    for (int64_t i = 0; i < 14000; i++, samples++) {
        EXPECT_OK(check.source.fill(check.source.context, i, &row));
        swapped += *row.pair_labels;
        for (int64_t t = 0; t < *row.lengths; t++) {
            tokens += row.tokens[t] != 1 && row.tokens[t] != 2;
            if (row.loss_mask[t] == 0)
                continue;
            covered++;
            masked += row.tokens[t] == 3;
            same += row.tokens[t] == row.labels[t];
        }
    }
    EXPECT(tokens > 1e6);
    expect_share(masked, covered, 0.8 + 0.1 / WORDS);
    expect_share(same, covered, 0.1 + 0.1 / WORDS);
    expect_share(swapped, samples, 0.5);
    // The budget is 12 of 83 tokens, including [CLS] and [SEP]; whole words may leave a little unused.
    EXPECT_NEAR(covered / (tokens + 3 * samples), 12.0 / 83, 0.002);
    close_check(&check);
    scratch_close();
}

TEST(spans_of_t5_put_together_are_the_text) {
    scratch_open();
    log_set_level(LOG_ERROR);
    static struct vocabulary_fixture fixture;
    make_vocabulary(&fixture, 100);
    write_large_corpus();
    struct check check = {0};
    struct sentence_options options = any_options(&fixture);
    options.kind = SENTENCE_T5;
    options.decoder_seq_length = 40;
    options.seq_length = 90;
    options.short_seq_prob = 0;
    open_check(&check, &options);
    struct batch row = batch_row(&check.batch, 0);
    double spans = 0, lengths = 0, covered = 0, tokens = 0;
    for (int64_t i = 0; i < 13000; i++) {
        EXPECT_OK(check.source.fill(check.source.context, i, &row));
        // Each sentinel of the encoder is replaced by what the decoder writes after it.
        int64_t d = 0, text = 0;
        int32_t expected = -1;
        for (int64_t t = 0; t < *row.lengths; t++) {
            if (row.tokens[t] < WORDS) {
                EXPECT(expected < 0 || row.tokens[t] == expected);
                expected = (row.tokens[t] - 10 + 7907) % 990 + 10;
                text++;
                continue;
            }
            EXPECT_INT(row.labels[d], row.tokens[t]);
            EXPECT_INT(row.decoder_tokens[d + 1], row.labels[d]);
            spans++;
            for (d++; row.labels[d] < WORDS && row.labels[d] != 5; d++, text++, lengths++) {
                EXPECT(expected < 0 || row.labels[d] == expected);
                expected = (row.labels[d] - 10 + 7907) % 990 + 10;
                covered++;
            }
        }
        EXPECT_INT(row.labels[d], 5);
        EXPECT(row.loss_mask[d] == 1 && row.loss_mask[d + 1] == 0);
        EXPECT_INT(row.decoder_tokens[0], 4);
        EXPECT_INT(text, 80);
        tokens += (double)text;
    }
    EXPECT(tokens > 1e6);
    EXPECT_NEAR(covered / tokens, 0.15, 0.005);
    EXPECT(lengths / spans > 1.5 && lengths / spans < 6);
    close_check(&check);
    scratch_close();
}

TEST(data_and_vocabularies_without_samples) {
    scratch_open();
    log_set_level(LOG_ERROR);
    static struct vocabulary_fixture fixture;
    make_vocabulary(&fixture, 0);
    write_corpus(scratch_path("corpus"), "5 7 - 9");
    struct sentence_options options = any_options(&fixture);
    EXPECT_ERROR(sentence_dataset_build(&options), "none of its documents 0 to 3 has 2 sentences");
    options.has_binary_head = false;
    EXPECT_OK(sentence_dataset_build(&options));
    options.split = "999999, 1, 0";
    options.which = SPLIT_VALID;
    EXPECT_ERROR(sentence_dataset_build(&options), "leaves the valid split none of the 4 documents");
    options = any_options(&fixture);
    options.kind = SENTENCE_T5;
    options.decoder_seq_length = 10;
    EXPECT_ERROR(sentence_dataset_build(&options), "--vocab-extra-ids");
    make_vocabulary(&fixture, 2);
    write_corpus(scratch_path("corpus"), "60 60 60");
    options.seq_length = 512;
    options.mask_prob = 0.5;
    struct check check = {0};
    open_check(&check, &options);
    struct batch row = batch_row(&check.batch, 0);
    EXPECT_ERROR(check.source.fill(check.source.context, 0, &row), "sentinels; raise --vocab-extra-ids");
    make_vocabulary(&fixture, 100);
    EXPECT_ERROR(check.source.fill(check.source.context, 0, &row), "raise --decoder-seq-length 10");
    fixture.vocabulary.size = 20;
    EXPECT_ERROR(check.source.fill(check.source.context, 0, &row), "beyond the vocabulary of 20");
    close_check(&check);
    make_vocabulary(&fixture, 0);
    fixture.vocabulary.mask = -1;
    options = any_options(&fixture);
    EXPECT_ERROR(sentence_dataset_build(&options), "lacks [CLS], [SEP] or [MASK]");
    scratch_close();
}

// Ten bytes of tokens that claim to be half a billion: refused before memory is allocated for them.
TEST(a_sentence_longer_than_its_file) {
    scratch_open();
    log_set_level(LOG_ERROR);
    static struct vocabulary_fixture fixture;
    make_vocabulary(&fixture, 0);
    write_corpus(scratch_path("corpus"), "5 7");
    claim_length(scratch_path("corpus"), 0x24000000);
    struct sentence_options options = any_options(&fixture);
    options.has_binary_head = false;
    struct check check = {0};
    open_check(&check, &options);
    struct batch row = batch_row(&check.batch, 0);
    int refused = 0;
    for (int64_t i = 0; i < check.source.count; i++)
        refused += check.source.fill(check.source.context, i, &row) < 0 && strstr(error_message(), "lies outside");
    EXPECT(refused > 0);
    EXPECT_INT(check.dataset->text.capacity, options.seq_length);
    close_check(&check);
    scratch_close();
}

// The first number of std::mt19937_64 with C++'s default seed, and its 10000th, which the standard defines.
TEST(mt19937_64_is_that_of_the_standard) {
    struct mt19937_64 mt;
    mt19937_64_seed(&mt, 5489);
    uint64_t value = mt19937_64_next(&mt);
    EXPECT(value == 14514284786278117030u);
    for (int i = 1; i < 10000; i++)
        value = mt19937_64_next(&mt);
    EXPECT(value == 9981545732273789042u);
}

TEST_MAIN(TEST_CASE(samples_equal_megatron_cores), TEST_CASE(masks_have_the_shares_of_bert),
          TEST_CASE(spans_of_t5_put_together_are_the_text), TEST_CASE(data_and_vocabularies_without_samples),
          TEST_CASE(a_sentence_longer_than_its_file), TEST_CASE(mt19937_64_is_that_of_the_standard))
