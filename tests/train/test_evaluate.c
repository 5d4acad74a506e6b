// Texts in evaluation: removing WikiText's extra spaces as in Python, and overlapping samples.
#include "base/json.h"
#include "test.h"
#include "evaluate/detokenize.h"
#include "train/evaluate.h"

TEST(wikitext_is_detokenized_as_by_python) {
    FILE *file = fopen("tests/golden/detokenize.txt", "r");
    EXPECT(file);
    static char line[1 << 14];
    int texts = 0;
    for (; fgets(line, sizeof line, file); texts++) {
        struct json *before, *after;
        EXPECT_OK(json_parse(&before, line, strlen(line), "before"));
        EXPECT(fgets(line, sizeof line, file));
        EXPECT_OK(json_parse(&after, line, strlen(line), "after"));
        EXPECT(fgets(line, sizeof line, file));
        struct buffer text = {0};
        buffer_append(&text, before->string, before->length);
        EXPECT_INT(detokenize_count_words(before->string, before->length), strtoll(line, NULL, 10));
        detokenize_wikitext(&text);
        EXPECT_STRING(buffer_string(&text), after->string);
        buffer_free(&text);
        json_free(before);
        json_free(after);
    }
    fclose(file);
    EXPECT_INT(texts, 205);
}

// Every token except the first counts once, for any stride, with as much context as the stride allows.
static void expect_each_once(int64_t count, int64_t seq_length, int64_t stride) {
    int32_t ids[200];
    int counted[200] = {0};
    for (int i = 0; i < 200; i++)
        ids[i] = i;
    struct token_text text = {.ids = ids, .count = count, .seq_length = seq_length, .stride = stride};
    struct sample_source source = token_text_source(&text);
    struct batch batch;
    batch_allocate(&batch, &source.form, 1);
    struct batch row = batch_row(&batch, 0);
    for (int64_t i = 0; i < source.count; i++) {
        EXPECT_OK(source.fill(source.context, i, &row));
        int rows_counted = 0;
        for (int64_t t = 0; t < seq_length; t++) {
            if (row.loss_mask[t] == 0)
                continue;
            rows_counted++;
            EXPECT_INT(row.labels[t], row.tokens[t] + 1);
            counted[row.labels[t]]++;
            EXPECT(i == 0 || t >= seq_length - stride);
        }
        EXPECT(rows_counted > 0);
    }
    for (int64_t i = 1; i < count; i++)
        EXPECT_INT(counted[i], 1);
    EXPECT_INT(counted[0], 0);
    batch_free(&batch);
}

TEST(every_token_is_counted_once) {
    for (int64_t count = 2; count < 200; count += 13)
        for (int64_t stride = 1; stride <= 32; stride += 5)
            expect_each_once(count, 32, stride);
    expect_each_once(65, 32, 32);
    expect_each_once(66, 32, 32);
    expect_each_once(33, 32, 8);
}

// The three best of seven blocks that come in two parts: descending scores, the first of equal ones, and never NaN.
TEST(best_blocks) {
    static const float first[] = {1, 5, NAN, 3}, second[] = {5, -2, 7};
    struct retrieval_best best;
    retrieval_best_open(&best, 2, 3);
    retrieval_best_add(&best, 1, first, 0, 4);
    retrieval_best_add(&best, 1, second, 4, 3);
    const int64_t *blocks = best.blocks + 3;
    EXPECT(blocks[0] == 6 && blocks[1] == 1 && blocks[2] == 4);
    EXPECT(best.scores[3] == 7 && best.scores[4] == 5 && best.scores[5] == 5);
    retrieval_best_add(&best, 0, first, 10, 3);
    EXPECT(best.blocks[0] == 11 && best.blocks[1] == 10 && best.blocks[2] == -1);
    retrieval_best_close(&best);
}

TEST_MAIN(TEST_CASE(best_blocks), TEST_CASE(wikitext_is_detokenized_as_by_python),
          TEST_CASE(every_token_is_counted_once))
