// Samples of RoBERTa: seeds, blocks, order and masks against fairseq's arithmetic, computed with NumPy; statistics.
#include "data/sample/roberta.h"

#include "base/log.h"
#include "fixture.h"

enum { VOCABULARY = 201, MOST_NUMBERS = 4096 };

static unsigned char continues[VOCABULARY], begins_word[VOCABULARY];
static const struct sample_vocabulary vocabulary = {
    .size = VOCABULARY, .cls = 0, .pad = 1, .sep = 2, .mask = 200, .bos = 0, .eos = 2, .continues = continues};

static void write_corpus(const int64_t *lengths, int64_t count) {
    struct index_writer *writer;
    EXPECT_OK(index_writer_open(&writer, scratch_path("corpus"), INDEX_U16));
    int64_t j = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t tokens[256];
        EXPECT(lengths[i] <= 256);
        for (int64_t k = 0; k < lengths[i]; k++, j++)
            tokens[k] = k == lengths[i] - 1 ? 2 : (int32_t)(4 + (7907 * j + 13) % 196);
        EXPECT_OK(index_writer_add(writer, tokens, lengths[i]));
        EXPECT_OK(index_writer_end_document(writer));
    }
    EXPECT_OK(index_writer_commit(writer));
    for (int id = 0; id < VOCABULARY; id++)
        begins_word[id] = id < 4 || id % 3 == 0;
}

static struct roberta_options any_options(const char *mode, int64_t size) {
    struct roberta_options options = {.prefix = scratch_path("corpus"),
                                      .seq_length = size + 1,
                                      .batch_size = 1,
                                      .seed = 1,
                                      .mask_prob = 0.15,
                                      .leave_unmasked_prob = 0.1,
                                      .random_token_prob = 0.1,
                                      .is_shuffled = true,
                                      .vocabulary = &vocabulary,
                                      .begins_word = begins_word};
    EXPECT_OK(text_block_mode_parse(&options.mode, mode));
    return options;
}

struct numbers {
    int64_t values[MOST_NUMBERS];
    int64_t count;
};

static void read_numbers(struct numbers *numbers, const char *text) {
    char *end;
    for (numbers->count = 0; numbers->count < MOST_NUMBERS; text = end) {
        int64_t value = strtoll(text, &end, 10);
        if (end == text)
            break;
        numbers->values[numbers->count++] = value;
    }
}

static void expect_blocks(const char *mode, int64_t size, const struct numbers *expected) {
    struct index_reader *reader;
    EXPECT_OK(index_open(&reader, scratch_path("corpus")));
    struct text_block_options options = {.end = reader->sequence_count, .size = size};
    struct text_block_list list;
    EXPECT_OK(text_block_mode_parse(&options.mode, mode));
    EXPECT_OK(text_block_list_make(&list, reader, &options));
    EXPECT_INT(list.count, expected->values[0]);
    for (int64_t i = 0; i < list.count; i++)
        EXPECT_INT(list.blocks[i].length, expected->values[i + 1]);
    text_block_list_free(&list);
    index_close(reader);
}

static void expect_order(const struct roberta_options *options, int64_t epoch, const struct numbers *expected) {
    struct roberta_dataset *dataset;
    EXPECT_OK(roberta_dataset_open(&dataset, options));
    int64_t per_epoch = roberta_dataset_source(dataset).count, found;
    EXPECT_INT(per_epoch, expected->count);
    for (int64_t i = 0; i < per_epoch; i++) {
        EXPECT_INT(roberta_dataset_block(dataset, (epoch - 1) * per_epoch + i, &found), expected->values[i]);
        EXPECT_INT(found, epoch);
    }
    roberta_dataset_close(dataset);
}

// Finds the sample that is the given block in the given epoch and compares its row.
static void expect_masks(struct roberta_options *options, int64_t epoch, const struct numbers *expected) {
    struct roberta_dataset *dataset;
    options->sample_count = 1 << 20;
    EXPECT_OK(roberta_dataset_open(&dataset, options));
    struct sample_source source = roberta_dataset_source(dataset);
    struct batch batch;
    batch_allocate(&batch, &source.form, 1);
    struct batch row = batch_row(&batch, 0);
    int64_t block = expected->values[0], length = (expected->count - 1) / 2, found, sample = 0;
    while (roberta_dataset_block(dataset, sample, &found) != block || found != epoch)
        sample++;
    EXPECT_OK(source.fill(source.context, sample, &row));
    EXPECT_INT(*row.lengths, length);
    for (int64_t t = 0; t < length; t++) {
        EXPECT_INT(row.tokens[t], expected->values[1 + t]);
        EXPECT_INT(row.labels[t], expected->values[1 + length + t]);
        EXPECT(row.labels[t] == 0 || row.loss_mask[t] == 1);
    }
    for (int64_t t = length; t < options->seq_length; t++)
        EXPECT(row.tokens[t] == 1 && row.loss_mask[t] == 0 && row.labels[t] == 0);
    batch_free(&batch);
    roberta_dataset_close(dataset);
}

TEST(everything_equals_fairseqs) {
    scratch_open();
    log_set_level(LOG_ERROR);
    FILE *file = fopen("tests/golden/roberta.txt", "r");
    EXPECT(file);
    static char line[1 << 14];
    static struct numbers numbers;
    char mode[20];
    int64_t a, b, c, d, size, lines = 0;
    for (int used; fgets(line, sizeof line, file); lines++) {
        if (strncmp(line, "lengths ", 8) == 0) {
            read_numbers(&numbers, line + 8);
            write_corpus(numbers.values, numbers.count);
        } else if (sscanf(line, "seed %" SCNd64 " %" SCNd64 " %" SCNd64 " %" SCNd64, &a, &b, &c, &d) == 4) {
            EXPECT_INT(roberta_seed(a, b, c), d);
        } else if (sscanf(line, "blocks %19s %" SCNd64 "%n", mode, &size, &used) == 2) {
            read_numbers(&numbers, line + used);
            expect_blocks(mode, size, &numbers);
        } else if (sscanf(line, "order %" SCNd64 " %19s %" SCNd64 " %" SCNd64 " %" SCNd64 "%n", &a, mode, &size, &b, &c,
                          &used) == 5) {
            struct roberta_options options = any_options(mode, size);
            options.seed = a;
            options.batch_size = b;
            read_numbers(&numbers, line + used);
            expect_order(&options, c, &numbers);
        } else {
            struct roberta_options options = any_options("none", 10);
            int whole;
            if (sscanf(line, "masked %" SCNd64 " %" SCNd64 " %19s %" SCNd64 " %d %lf %lf %lf%n", &options.seed, &a,
                       mode, &size, &whole, &options.mask_prob, &options.leave_unmasked_prob,
                       &options.random_token_prob, &used) != 8)
                test_fail("unknown line %s", line);
            options.masks_whole_words = whole;
            options.seq_length = size + 1;
            EXPECT_OK(text_block_mode_parse(&options.mode, mode));
            read_numbers(&numbers, line + used);
            expect_masks(&options, a, &numbers);
        }
    }
    fclose(file);
    EXPECT_INT(lines, 36);
    scratch_close();
}

static void expect_share(double part, double whole, double p) {
    double sigma = sqrt(whole * p * (1 - p));
    if (fabs(part - whole * p) > 3 * sigma)
        test_fail("%g of %g is not %g within 3 sigma (%g)", part, whole, p, sigma);
}

TEST(masks_have_the_shares_of_roberta) {
    scratch_open();
    int64_t lengths[2000];
    for (int i = 0; i < 2000; i++)
        lengths[i] = 10 + i * 37 % 90;
    write_corpus(lengths, 2000);
    struct roberta_options options = any_options("complete", 511);
    options.sample_count = 2400;
    struct roberta_dataset *dataset;
    EXPECT_OK(roberta_dataset_open(&dataset, &options));
    struct sample_source source = roberta_dataset_source(dataset);
    struct batch batch;
    batch_allocate(&batch, &source.form, 1);
    struct batch row = batch_row(&batch, 0);
    double tokens = 0, chosen = 0, masked = 0, same = 0;
    for (int64_t i = 0; i < source.count; i++) {
        EXPECT_OK(source.fill(source.context, i, &row));
        tokens += *row.lengths;
        for (int64_t t = 0; t < *row.lengths; t++) {
            if (row.loss_mask[t] == 0)
                continue;
            chosen++;
            masked += row.tokens[t] == 200;
            same += row.tokens[t] == row.labels[t];
        }
    }
    EXPECT(tokens > 1e6);
    // The count of a row is fixed except for one drawn token, so its variance is far below that of single draws.
    EXPECT_NEAR(chosen / tokens, 0.15, 3 * 0.5 * sqrt((double)source.count) / tokens);
    expect_share(masked, chosen, 0.8 + 0.1 / 197);
    expect_share(same, chosen, 0.1 + 0.1 * 196 / (197 * 196.0));
    batch_free(&batch);
    roberta_dataset_close(dataset);
    scratch_close();
}

TEST(an_epoch_has_every_block_once) {
    scratch_open();
    int64_t lengths[101];
    for (int i = 0; i < 101; i++)
        lengths[i] = 3 + i % 7;
    write_corpus(lengths, 101);
    struct roberta_options options = any_options("eos", 20);
    options.batch_size = 8;
    struct roberta_dataset *dataset;
    EXPECT_OK(roberta_dataset_open(&dataset, &options));
    for (int64_t epoch = 0; epoch < 4; epoch++) {
        bool seen[101] = {0};
        int64_t found;
        for (int64_t i = 0; i < 101; i++) {
            int64_t block = roberta_dataset_block(dataset, epoch * 101 + i, &found);
            EXPECT(block >= 0 && block < 101 && !seen[block]);
            seen[block] = true;
        }
    }
    roberta_dataset_close(dataset);
    scratch_close();
}

TEST(what_cannot_be_used_is_said) {
    scratch_open();
    log_set_level(LOG_ERROR);
    write_corpus((const int64_t[]){100, 120}, 2);
    struct roberta_options options = any_options("complete", 20);
    struct roberta_dataset *dataset;
    EXPECT_ERROR(roberta_dataset_open(&dataset, &options), "has no blocks of at most 20 tokens");
    struct sample_vocabulary small = vocabulary;
    small.mask = -1;
    options.vocabulary = &small;
    EXPECT_ERROR(roberta_dataset_open(&dataset, &options), "lacks <s> or <mask>");
    small = vocabulary;
    small.size = 50;
    options.seq_length = 128;
    EXPECT_OK(roberta_dataset_open(&dataset, &options));
    struct sample_source source = roberta_dataset_source(dataset);
    struct batch batch;
    batch_allocate(&batch, &source.form, 1);
    struct batch row = batch_row(&batch, 0);
    EXPECT_ERROR(source.fill(source.context, 0, &row), "beyond the vocabulary of 50");
    batch_free(&batch);
    roberta_dataset_close(dataset);
    // Blocks are counted by the lengths, so these must not claim more than there is.
    static const char *const modes[] = {"none", "complete", "complete_doc", "eos"};
    for (int i = 0; i < 4; i++) {
        options = any_options(modes[i], 20);
        claim_length(options.prefix, INT32_MAX);
        EXPECT_ERROR(roberta_dataset_open(&dataset, &options),
                     "sequence 0 has 2147483647 tokens, of 220 that are left");
        claim_length(options.prefix, -1);
        EXPECT_ERROR(roberta_dataset_open(&dataset, &options), "sequence 0 has -1 tokens");
        claim_length(options.prefix, 101);
        EXPECT_ERROR(roberta_dataset_open(&dataset, &options), "sequence 1 has 120 tokens, of 119 that are left");
    }
    enum text_block_mode mode;
    EXPECT_ERROR(text_block_mode_parse(&mode, "half"), "none, complete, complete_doc or eos");
    scratch_close();
}

TEST_MAIN(TEST_CASE(everything_equals_fairseqs), TEST_CASE(masks_have_the_shares_of_roberta),
          TEST_CASE(an_epoch_has_every_block_once), TEST_CASE(what_cannot_be_used_is_said))
