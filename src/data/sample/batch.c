// The memory of a micro-batch: one allocation for each array that the form has. A row that counts for nothing still has
// token ids that the model can look up.
#include "data/sample/batch.h"

#include "base/memory.h"
#include <stdlib.h>
#include <string.h>

static void *array(bool is_there, int64_t rows, int64_t columns) {
    return is_there ? memory_alloc((size_t)rows * (size_t)columns * sizeof(int32_t)) : NULL;
}

void batch_allocate(struct batch *batch, const struct batch_form *form, int64_t rows) {
    int64_t T = form->columns, S = form->decoder_columns, label_columns = batch_form_label_columns(form);
    *batch = (struct batch){
        .form = *form,
        .rows = rows,
        .columns = T,
        .label_columns = label_columns,
        .tokens = array(true, rows, T),
        .position_ids = array(true, rows, T),
        .labels = array(true, rows, label_columns),
        .loss_mask = array(true, rows, label_columns),
        .token_types = array(form->has_token_types, rows, T),
        .lengths = array(form->has_lengths, rows, 1),
        .document_starts = array(form->has_document_starts, rows, T),
        .decoder_tokens = array(S > 0, rows, S),
        .decoder_position_ids = array(S > 0, rows, S),
        .decoder_lengths = array(S > 0, rows, 1),
        .sentence_labels = array(form->has_sentence_labels, rows, 1),
        .samples = memory_alloc((size_t)rows * sizeof *batch->samples),
    };
}

void batch_free(struct batch *batch) {
    free(batch->tokens);
    free(batch->position_ids);
    free(batch->labels);
    free(batch->loss_mask);
    free(batch->token_types);
    free(batch->lengths);
    free(batch->document_starts);
    free(batch->decoder_tokens);
    free(batch->decoder_position_ids);
    free(batch->decoder_lengths);
    free(batch->sentence_labels);
    free(batch->samples);
    *batch = (struct batch){0};
}

static int32_t *at(int32_t *array_start, int64_t row, int64_t columns) {
    return array_start ? array_start + row * columns : NULL;
}

struct batch_row batch_row(struct batch *batch, int64_t row) {
    int64_t T = batch->columns, S = batch->form.decoder_columns;
    return (struct batch_row){
        .tokens = at(batch->tokens, row, T),
        .position_ids = at(batch->position_ids, row, T),
        .labels = at(batch->labels, row, batch->label_columns),
        .token_types = at(batch->token_types, row, T),
        .document_starts = at(batch->document_starts, row, T),
        .decoder_tokens = at(batch->decoder_tokens, row, S),
        .decoder_position_ids = at(batch->decoder_position_ids, row, S),
        .loss_mask = batch->loss_mask + row * batch->label_columns,
        .length = at(batch->lengths, row, 1),
        .decoder_length = at(batch->decoder_lengths, row, 1),
        .sentence_label = at(batch->sentence_labels, row, 1),
    };
}

static void clear(int32_t *values, int64_t count) {
    if (values)
        memset(values, 0, (size_t)count * sizeof *values);
}

static void count_up(int32_t *values, int64_t count) {
    for (int64_t i = 0; values && i < count; i++)
        values[i] = (int32_t)i;
}

// The lengths are 1, not 0: attention over no key at all has no value.
void batch_clear_row(struct batch *batch, int64_t number) {
    struct batch_row row = batch_row(batch, number);
    int64_t T = batch->columns, S = batch->form.decoder_columns;
    clear(row.tokens, T);
    count_up(row.position_ids, T);
    clear(row.labels, batch->label_columns);
    for (int64_t i = 0; i < batch->label_columns; i++)
        row.loss_mask[i] = 0;
    clear(row.token_types, T);
    clear(row.document_starts, T);
    clear(row.decoder_tokens, S);
    count_up(row.decoder_position_ids, S);
    clear(row.sentence_label, 1);
    if (row.length)
        *row.length = 1;
    if (row.decoder_length)
        *row.decoder_length = 1;
    batch->samples[number] = -1;
}
