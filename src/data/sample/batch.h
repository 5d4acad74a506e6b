// A micro-batch in host memory, one layout for every kind of model, and one row of it, which is what a dataset fills.
//
//   causal (GPT)             tokens, labels and loss mask have T columns; label t is token t + 1
//   masked (BERT, RoBERTa)   the same columns; labels count where the loss mask is 1; BERT adds token types and whether
//                            the sentences are swapped
//   encoder-decoder (T5)     tokens are the encoder's, with T columns; decoder tokens, labels and loss mask have S
//
// An array that the form does not have is NULL. Padding stands at the end of a row only, so a length says all about
// it: attention sees keys below it. Token ids are always within the vocabulary, in padding too.
#ifndef DATA_SAMPLE_BATCH_H
#define DATA_SAMPLE_BATCH_H

#include <stdbool.h>
#include <stdint.h>

// Which arrays a batch has, and their columns. Fixed for a source.
struct batch_form {
    int64_t columns;          // T
    int64_t decoder_columns;  // S; 0: no decoder, and labels have T columns
    bool has_token_types;
    bool has_lengths;          // rows may be padded
    bool has_sentence_labels;  // BERT's second head
    bool has_document_starts;  // attention ends at document borders
};

static inline int64_t batch_form_label_columns(const struct batch_form *form) {
    return form->decoder_columns > 0 ? form->decoder_columns : form->columns;
}

struct batch {
    struct batch_form form;
    int64_t rows;                   // B, micro_batch_size
    int64_t columns;                // T
    int64_t label_columns;          // S with a decoder, else T
    int32_t *tokens;                // (B, T)
    int32_t *position_ids;          // (B, T)
    int32_t *labels;                // (B, T or S)
    float *loss_mask;               // (B, T or S)
    int32_t *token_types;           // (B, T) 0 or 1, or NULL
    int32_t *lengths;               // (B) tokens of a row that are no padding, or NULL: all are
    int32_t *document_starts;       // (B, T) first column that the token's document has in this row, or NULL: 0
    int32_t *decoder_tokens;        // (B, S) or NULL
    int32_t *decoder_position_ids;  // (B, S) or NULL
    int32_t *decoder_lengths;       // (B) or NULL
    int32_t *sentence_labels;       // (B) 1: the second sentence came first, or NULL
    int64_t *samples;               // (B), sample number of each row; -1 for a row of padding
};

void batch_allocate(struct batch *batch, const struct batch_form *form, int64_t rows);
void batch_free(struct batch *batch);  // a zeroed one is fine

// One row. Pointers into a batch, or to memory of a caller; NULL as there.
struct batch_row {
    int32_t *tokens, *position_ids, *labels, *token_types, *document_starts, *decoder_tokens, *decoder_position_ids;
    float *loss_mask;
    int32_t *length, *decoder_length, *sentence_label;
};

struct batch_row batch_row(struct batch *batch, int64_t row);
// Makes a row one that counts for nothing.
void batch_clear_row(struct batch *batch, int64_t row);

#endif
