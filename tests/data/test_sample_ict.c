// Samples of ICT: the sentences of a block against megatron-core's own map, the content of rows against a simple
// reading of the dataset, and data without samples.
#include "data/sample/sentence.h"

#include "base/hash.h"
#include "base/log.h"
#include "fixture.h"

enum { WORDS = 1000, MOST_LINE = 1 << 15, MOST_TOKENS = 1024 };

static const struct sample_vocabulary vocabulary = {
    .size = WORDS, .pad = 0, .cls = 1, .sep = 2, .mask = 3, .bos = -1, .eos = -1};

// "5,600,7 - 700 …": sentence lengths of each document. The tokens count up from `first`.
static void write_sentences(const char *prefix, const char *lengths, int64_t first) {
    struct index_writer *writer;
    int64_t j = first;
    EXPECT_OK(index_writer_open(&writer, prefix, INDEX_U16));
    for (const char *at = lengths; *at;) {
        while (*at && *at != ' ' && *at != '-') {
            char *end;
            int64_t length = strtoll(at, &end, 10);
            int32_t tokens[MOST_TOKENS];
            for (int64_t k = 0; k < length; k++, j++)
                tokens[k] = (int32_t)(10 + (7907 * j + 13) % 990);
            EXPECT_OK(index_writer_add(writer, tokens, length));
            at = *end == ',' ? end + 1 : end;
        }
        EXPECT_OK(index_writer_end_document(writer));
        at += *at == '-';
        at += *at == ' ';
    }
    EXPECT_OK(index_writer_commit(writer));
}

static struct sentence_options any_options(bool has_titles) {
    return (struct sentence_options){.kind = SENTENCE_ICT,
                                     .prefix = scratch_path("text"),
                                     .titles = has_titles ? scratch_path("titles") : NULL,
                                     .seq_length = 24,
                                     .seed = 1234,
                                     .query_in_block_prob = 0.1,
                                     .vocabulary = &vocabulary};
}

static struct sentence_dataset *open_blocks(const struct sentence_options *options) {
    struct sentence_dataset *dataset;
    EXPECT_OK(sentence_dataset_build(options));
    EXPECT_OK(sentence_dataset_open(&dataset, options));
    return dataset;
}

static void expect_map(const struct sentence_dataset *dataset, int64_t count, const char *md5) {
    char text[33];
    EXPECT_INT(dataset->rows.shape.rows, count);
    EXPECT_INT(dataset->rows.shape.columns, SENTENCE_MAP_BLOCK_COLUMNS);
    md5_hex(dataset->rows.data, (size_t)count * SENTENCE_MAP_BLOCK_COLUMNS * sizeof(uint32_t), text);
    EXPECT(strcmp(text, md5) == 0);
}

TEST(blocks_equal_megatron_cores) {
    scratch_open();
    log_set_level(LOG_ERROR);
    FILE *file = fopen("tests/golden/ict_blocks.txt", "r");
    EXPECT(file);
    static char line[MOST_LINE];
    bool has_titles = false;
    int maps = 0, rows = 0;
    struct sentence_dataset *dataset = NULL;
    while (fgets(line, sizeof line, file)) {
        struct sentence_options options = any_options(has_titles);
        int64_t count, row, want[SENTENCE_MAP_BLOCK_COLUMNS];
        int single = 0;
        char md5[40];
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "lengths ", 8) == 0) {
            write_sentences(scratch_path("text"), line + 8, 0);
        } else if (strncmp(line, "titles ", 7) == 0) {
            has_titles = strcmp(line + 7, "none") != 0;
            if (has_titles)
                write_sentences(scratch_path("titles"), line + 7, 5000);
        } else if (sscanf(line, "blocks %" SCNd64 " %" SCNd64 " %" SCNd64 " %d %" SCNd64 " %32s", &options.seq_length,
                          &options.sample_count, &options.seed, &single, &count, md5) == 6) {
            options.uses_single_sentences = single;
            sentence_dataset_close(dataset);
            dataset = open_blocks(&options);
            expect_map(dataset, count, md5);
            maps++;
        } else {
            EXPECT_INT(sscanf(line, "row %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &row, &want[0],
                              &want[1], &want[2], &want[3]),
                       5);
            const uint32_t *found = (const uint32_t *)(const void *)dataset->rows.data + 4 * row;
            for (int i = 0; i < SENTENCE_MAP_BLOCK_COLUMNS; i++)
                EXPECT_INT(found[i], want[i]);
            rows++;
        }
    }
    sentence_dataset_close(dataset);
    fclose(file);
    EXPECT_INT(maps, 9);
    EXPECT(rows > 30);
    scratch_close();
}

// Appends a sequence of the dataset; returns the new count.
static int64_t append(const struct index_reader *reader, int64_t sequence, int32_t *out, int64_t count) {
    int64_t length = index_length(reader, sequence);
    EXPECT_OK(index_read(reader, sequence, 0, length, out + count));
    return count + length;
}

static void expect_text(const int32_t *row, int64_t T, int32_t length, const int32_t *want, int64_t count) {
    EXPECT_INT(length, count < T ? count : T);
    for (int64_t t = 0; t < T; t++)
        EXPECT_INT(row[t], t < count ? want[t] : 0);
}

// The row by definition: the query is some sentence of the block, which contains or lacks it.
static void expect_row(const struct sentence_dataset *dataset, int64_t sample, const struct batch *row, bool *stays,
                       int64_t *which) {
    struct sentence_run run = sentence_dataset_run(dataset, sample);
    int64_t T = dataset->options.seq_length;
    for (int64_t q = run.begin; q < run.end; q++)
        for (int removed = 0; removed < 2; removed++) {
            int32_t query[MOST_TOKENS * 4] = {1}, context[MOST_TOKENS * 16] = {1};
            int64_t n = append(dataset->reader, q, query, 1), c = 1;
            n = n < T - 1 ? n : T - 1;
            query[n++] = 2;
            if (dataset->titles) {
                int64_t begin = index_document_begin(dataset->titles, run.target);
                if (index_document_begin(dataset->titles, run.target + 1) > begin)
                    c = append(dataset->titles, begin, context, c);
                context[c++] = 2;
            }
            for (int64_t i = run.begin; i < run.end; i++)
                if (i != q || !removed)
                    c = append(dataset->reader, i, context, c);
            c = c < T - 1 ? c : T - 1;
            context[c++] = 2;
            if (*row->lengths != n || *row->context_lengths != c ||
                memcmp(row->tokens, query, (size_t)n * sizeof *query) != 0 ||
                memcmp(row->context_tokens, context, (size_t)c * sizeof *context) != 0)
                continue;
            expect_text(row->tokens, T, *row->lengths, query, n);
            expect_text(row->context_tokens, T, *row->context_lengths, context, c);
            *stays = !removed;
            *which = q - run.begin;
            return;
        }
    test_fail("sample %" PRId64 " is not a sentence and its block", sample);
}

// Long sequences, so that nothing is cut and it is visible whether the sentence is in its block.
TEST(rows_are_a_sentence_and_its_block) {
    scratch_open();
    log_set_level(LOG_ERROR);
    struct buffer lengths = {0}, titles = {0};
    for (int i = 0; i < 400; i++) {
        buffer_printf(&lengths, "%s%d,%d,%d,%d", i ? " " : "", 3 + i % 5, 4 + i % 3, 5, 6 + i % 7);
        buffer_printf(&titles, "%s%d", i ? " " : "", i % 4);
    }
    write_sentences(scratch_path("text"), lengths.data, 0);
    write_sentences(scratch_path("titles"), titles.data, 5000);
    for (int has_titles = 0; has_titles < 2; has_titles++)
        for (int64_t seq = 9; seq < 100; seq += 60) {
            struct sentence_options options = any_options(has_titles);
            options.seq_length = seq;
            options.sample_count = 2000;
            options.query_in_block_prob = 0.3;
            struct sentence_dataset *dataset = open_blocks(&options);
            struct sample_source source = sentence_dataset_source(dataset);
            struct batch batch;
            batch_allocate(&batch, &source.form, 1);
            struct batch row = batch_row(&batch, 0);
            double kept = 0, first = 0;
            for (int64_t i = 0; i < 2000; i++) {
                bool stays;
                int64_t which;
                EXPECT_OK(source.fill(source.context, i, &row));
                expect_row(dataset, i, &row, &stays, &which);
                EXPECT(*row.loss_mask == 1 && *row.labels == 0 && row.positions[seq - 1] == seq - 1);
                kept += stays;
                first += which == 0;
            }
            if (seq > 60) {
                EXPECT_NEAR(kept / 2000, 0.3, 0.04);
                EXPECT_NEAR(first / 2000, 0.25, 0.04);
            }
            batch_free(&batch);
            sentence_dataset_close(dataset);
        }
    buffer_free(&lengths);
    buffer_free(&titles);
    scratch_close();
}

// A title longer than the sequence is cut, and leaves no room for the block.
TEST(long_titles) {
    scratch_open();
    log_set_level(LOG_ERROR);
    write_sentences(scratch_path("text"), "4,5,6 7,8,9", 0);
    write_sentences(scratch_path("titles"), "50 2", 5000);
    struct sentence_options options = any_options(true);
    struct sentence_dataset *dataset = open_blocks(&options);
    struct sample_source source = sentence_dataset_source(dataset);
    struct batch batch;
    batch_allocate(&batch, &source.form, 1);
    struct batch row = batch_row(&batch, 0);
    for (int64_t i = 0; i < source.count; i++) {
        EXPECT_OK(source.fill(source.context, i, &row));
        if (sentence_dataset_run(dataset, i).target == 0) {
            EXPECT_INT(*row.context_lengths, 24);
            EXPECT(row.context_tokens[22] == 2 && row.context_tokens[23] == 2 && row.context_tokens[21] >= 10);
        }
    }
    batch_free(&batch);
    sentence_dataset_close(dataset);
    scratch_close();
}

TEST(data_without_blocks) {
    scratch_open();
    log_set_level(LOG_ERROR);
    write_sentences(scratch_path("text"), "5 7 - 9", 0);
    struct sentence_options options = any_options(false);
    EXPECT_ERROR(sentence_dataset_build(&options), "none of its documents 0 to 3 has 2 sentences");
    options.uses_single_sentences = true;
    struct sentence_dataset *dataset = open_blocks(&options);
    EXPECT_INT(dataset->rows.shape.rows, 3);
    sentence_dataset_close(dataset);
    write_sentences(scratch_path("titles"), "1 2 3", 5000);
    options = any_options(true);
    EXPECT_ERROR(sentence_dataset_build(&options), "has 3 documents, but");
    struct sample_vocabulary poor = vocabulary;
    poor.cls = -1;
    options = any_options(false);
    options.vocabulary = &poor;
    EXPECT_ERROR(sentence_dataset_build(&options), "lacks [CLS] or [SEP]");
    scratch_close();
}

TEST_MAIN(TEST_CASE(blocks_equal_megatron_cores), TEST_CASE(rows_are_a_sentence_and_its_block), TEST_CASE(long_titles),
          TEST_CASE(data_without_blocks))
