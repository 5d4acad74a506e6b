// The record of a micro-batch and the table of its fields.
#include "data/batch.h"
#include "test.h"

static const struct batch_form bert = {
    .T = 5, .fields = BATCH_TEXT | BATCH_BIT(TOKEN_TYPES) | BATCH_BIT(LENGTHS) | BATCH_BIT(PAIR_LABELS)};
static const struct batch_form t5 = {
    .T = 5, .S = 3, .fields = BATCH_TEXT | BATCH_BIT(LENGTHS) | BATCH_DECODER | BATCH_BIT(DECODER_ROW_IDS)};

TEST(rules_are_those_of_the_table) {
    EXPECT_INT(batch_rule(BATCH_TOKENS)->shape, SHAPE_TOKENS);
    EXPECT_INT(batch_rule(BATCH_TOKENS)->in_decoder, BATCH_DECODER_TOKENS);
    EXPECT_INT(batch_rule(BATCH_TOKEN_TYPES)->in_decoder, BATCH_NONE);
    EXPECT_INT(batch_rule(BATCH_PAIR_MASK)->reader, READER_PAIRS);
    EXPECT_INT(batch_rule(BATCH_PAIR_MASK)->with, BATCH_LABELS);
    EXPECT_INT(batch_rule(BATCH_SAMPLES)->element_bytes, 8);
    EXPECT_INT(batch_rule(BATCH_LOSS_MASK)->element, ELEMENT_F32);
    // Arrays are in a block without gaps, so those with wide elements must come first.
    for (int i = 1; i < BATCH_FIELD_COUNT; i++)
        EXPECT(batch_rule((enum batch_field)i)->element_bytes <= batch_rule((enum batch_field)(i - 1))->element_bytes);
}

TEST(a_batch_has_the_fields_of_its_form) {
    struct batch batch;
    batch_allocate(&batch, &bert, 2);
    EXPECT(batch.token_types && batch.pair_labels && batch.samples && !batch.document_starts && !batch.decoder_tokens);
    struct batch_form form = batch_form(&batch), expected = bert;
    EXPECT(!batch_form_is_same(&form, &expected));
    expected.B = 2;
    expected.fields |= BATCH_BIT(SAMPLES);
    EXPECT(batch_form_is_same(&form, &expected));
    EXPECT_INT(batch_elements(&form, BATCH_LABELS), 10);
    EXPECT_INT(batch_elements(&form, BATCH_PAIR_LABELS), 2);
    EXPECT_INT(batch_elements(&form, BATCH_DECODER_TOKENS), 0);
    batch_free(&batch);
    EXPECT(!batch.tokens && !batch.samples);
}

TEST(labels_have_the_columns_of_the_decoder) {
    EXPECT_INT(batch_columns(&bert, SHAPE_LABELS), 5);
    EXPECT_INT(batch_columns(&t5, SHAPE_LABELS), 3);
    EXPECT_INT(batch_columns(&t5, SHAPE_TOKENS), 5);
    EXPECT_INT(batch_columns(&t5, SHAPE_SAMPLES), 1);
}

TEST(a_block_has_no_gaps) {
    static int64_t memory[100];
    struct batch_form form = t5;
    form.B = 2;
    struct batch batch = batch_in_block(&form, memory);
    EXPECT((void *)batch.decoder_row_ids == (void *)memory);
    EXPECT(batch.tokens == (int32_t *)(batch.decoder_row_ids + 6));
    EXPECT(batch.positions == batch.tokens + 10);
    EXPECT(batch.decoder_tokens == batch.positions + 10);
    EXPECT(!batch.row_ids && !batch.token_types && !batch.counts);
    EXPECT_INT(batch_block_bytes(&form), 6 * 8 + (2 * 10 + 2 * 6 + 2 + 2 * 6) * 4);
    struct batch_form same = batch_form(&batch);
    EXPECT(batch_form_is_same(&same, &form));
}

TEST(rows_share_memory) {
    struct batch batch;
    batch_allocate(&batch, &t5, 3);
    for (int64_t b = 0; b < 3; b++) {
        struct batch row = batch_row(&batch, b);
        EXPECT(row.B == 1 && row.tokens == batch.tokens + 5 * b && row.labels == batch.labels + 3 * b);
        EXPECT(row.lengths == batch.lengths + b && row.samples == batch.samples + b && !row.token_types);
        for (int i = 0; i < 5; i++)
            row.tokens[i] = row.positions[i] = 9;
        for (int i = 0; i < 3; i++)
            row.labels[i] = row.decoder_tokens[i] = row.decoder_positions[i] = 9, row.loss_mask[i] = 9;
        *row.samples = *row.lengths = 9;
    }
    batch_clear_row(&batch, 1);
    for (int i = 0; i < 15; i++) {
        EXPECT_INT(batch.tokens[i], i / 5 == 1 ? 0 : 9);
        EXPECT_INT(batch.positions[i], i / 5 == 1 ? i % 5 : 9);
    }
    for (int i = 0; i < 9; i++) {
        EXPECT_INT(batch.labels[i], i / 3 == 1 ? 0 : 9);
        EXPECT_INT(batch.decoder_positions[i], i / 3 == 1 ? i % 3 : 9);
        EXPECT_NEAR(batch.loss_mask[i], i / 3 == 1 ? 0 : 9, 0);
    }
    EXPECT(batch.samples[0] == 9 && batch.samples[1] == -1 && batch.lengths[1] == 1 && batch.lengths[2] == 9);
    batch_free(&batch);
}

TEST_MAIN(TEST_CASE(rules_are_those_of_the_table), TEST_CASE(a_batch_has_the_fields_of_its_form),
          TEST_CASE(labels_have_the_columns_of_the_decoder), TEST_CASE(a_block_has_no_gaps),
          TEST_CASE(rows_share_memory))
