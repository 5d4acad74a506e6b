// A micro-batch: one record that passes from the loader to the layers, with one table of its fields. A dataset fills
// rows of it, the loader hands it out, the step copies each rank's part to the device, and there the fields are tensors
// under the same names (model/layer.h). To add a field, add a row to the table, code that fills it and code that
// reads it.
//
//   causal (GPT)             label t is token t + 1
//   masked (BERT, RoBERTa)   labels count where the loss mask is 1; BERT adds token types and whether the sentences are
//                            swapped
//   encoder-decoder (T5)     tokens are the encoder's, with T columns; decoder tokens, labels and loss mask have S
//   two texts (ICT)          tokens are the query's, context tokens the block's, both with T columns; a row has one
//                            label
//
// A field that a batch does not have is NULL. Padding is only at the end of a row, so a length describes it: attention
// sees the keys below that length. Token ids are always within the vocabulary, even in padding.
#ifndef DATA_BATCH_H
#define DATA_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BATCH_TOTALS = 3 };
enum batch_element { ELEMENT_I64, ELEMENT_I32, ELEMENT_F32 };
#define BATCH_C_I64 int64_t
#define BATCH_C_I32 int32_t
#define BATCH_C_F32 float

// Columns of each of the B rows: T, S, 1, or the columns of the labels (S if there are decoder tokens, 1 if there are
// context tokens, else T). SHAPE_DEPTHS: T columns for each depth of multi-token prediction, one depth after the other.
// SHAPE_WHOLE: the columns of the whole sequence if ranks share it, SHAPE_NEAR: those of this rank and its neighbours.
// SHAPE_TOTALS: BATCH_TOTALS elements per batch.
enum batch_shape {
    SHAPE_TOKENS,
    SHAPE_DECODER,
    SHAPE_SAMPLES,
    SHAPE_LABELS,
    SHAPE_DEPTHS,
    SHAPE_WHOLE,
    SHAPE_NEAR,
    SHAPE_TOTALS
};
// Which models read a field: every model that is given it; those with learned or rotary positions, with token types,
// with the pair head, with multi-token prediction, with that and learned positions, with layers whose ranks all
// exchange heads, with layers whose neighbouring ranks do; or none, because the field stays on the host.
enum batch_reader {
    READER_ALL,
    READER_POSITIONS,
    READER_TYPES,
    READER_PAIRS,
    READER_DEPTHS,
    READER_DEPTH_POSITIONS,
    READER_HEADS,
    READER_NEAR,
    READER_HOST
};

// The fields, wide elements first. The last two columns: the device has this field if the batch has that one; a decoder
// with an encoder reads that one instead.
//
//   row_ids          the token's place in the run, sample * columns + column: keys of the dropout masks
//   samples          the number of the row's sample; -1 for a row of padding; NULL: 0, 1, …
//   positions        NULL: 0, 1, …
//   token_types      0 or 1; NULL: all 0
//   document_starts  the column where the token's document begins; NULL: 0
//   lengths          how many tokens of the row are not padding; NULL: all
//   labels           for ICT: the index of the row's own context among those of all data-parallel ranks
//   loss_mask        1 if the token counts
//   loss_weights     weight of each token in the gradient: its share of the mean over the global batch
//   depth_…          for depth k of multi-token prediction the values of token t + k, 0 past the end of the row; the
//                    weights include the factor of that loss
//   whole_…          for all tokens of sequences that ranks share, in order
//   near_…           for those of a rank and its neighbours, as if one rank had them all
//   pair_labels      1: the second sentence came first; NULL: no loss from the pair head
//   counts           tokens and pair samples that count, in this micro-batch and those before it in the step; and the
//                    weight of the micro-batch in the gradients of losses that are not means over tokens
#define BATCH_FIELDS(FIELD)                                                                                            \
    FIELD(ROW_IDS, row_ids, I64, TOKENS, ALL, TOKENS, DECODER_ROW_IDS)                                                 \
    FIELD(DECODER_ROW_IDS, decoder_row_ids, I64, DECODER, ALL, DECODER_TOKENS, NONE)                                   \
    FIELD(CONTEXT_ROW_IDS, context_row_ids, I64, TOKENS, ALL, CONTEXT_TOKENS, NONE)                                    \
    FIELD(WHOLE_ROW_IDS, whole_row_ids, I64, WHOLE, HEADS, TOKENS, NONE)                                               \
    FIELD(NEAR_ROW_IDS, near_row_ids, I64, NEAR, NEAR, TOKENS, NONE)                                                   \
    FIELD(SAMPLES, samples, I64, SAMPLES, HOST, SAMPLES, NONE)                                                         \
    FIELD(TOKENS, tokens, I32, TOKENS, ALL, TOKENS, DECODER_TOKENS)                                                    \
    FIELD(POSITIONS, positions, I32, TOKENS, POSITIONS, TOKENS, DECODER_POSITIONS)                                     \
    FIELD(TOKEN_TYPES, token_types, I32, TOKENS, TYPES, TOKENS, NONE)                                                  \
    FIELD(DOCUMENT_STARTS, document_starts, I32, TOKENS, ALL, DOCUMENT_STARTS, NONE)                                   \
    FIELD(WHOLE_DOCUMENT_STARTS, whole_document_starts, I32, WHOLE, HEADS, DOCUMENT_STARTS, NONE)                      \
    FIELD(NEAR_DOCUMENT_STARTS, near_document_starts, I32, NEAR, NEAR, DOCUMENT_STARTS, NONE)                          \
    FIELD(DECODER_TOKENS, decoder_tokens, I32, DECODER, ALL, DECODER_TOKENS, NONE)                                     \
    FIELD(DECODER_POSITIONS, decoder_positions, I32, DECODER, POSITIONS, DECODER_TOKENS, NONE)                         \
    FIELD(CONTEXT_TOKENS, context_tokens, I32, TOKENS, ALL, CONTEXT_TOKENS, NONE)                                      \
    FIELD(CONTEXT_LENGTHS, context_lengths, I32, SAMPLES, ALL, CONTEXT_LENGTHS, NONE)                                  \
    FIELD(LENGTHS, lengths, I32, SAMPLES, ALL, LENGTHS, NONE)                                                          \
    FIELD(LABELS, labels, I32, LABELS, ALL, LABELS, LABELS)                                                            \
    FIELD(LOSS_MASK, loss_mask, F32, LABELS, ALL, LABELS, LOSS_MASK)                                                   \
    FIELD(LOSS_WEIGHTS, loss_weights, F32, LABELS, ALL, LABELS, LOSS_WEIGHTS)                                          \
    FIELD(DEPTH_TOKENS, depth_tokens, I32, DEPTHS, DEPTHS, LABELS, NONE)                                               \
    FIELD(DEPTH_POSITIONS, depth_positions, I32, DEPTHS, DEPTH_POSITIONS, LABELS, NONE)                                \
    FIELD(DEPTH_LABELS, depth_labels, I32, DEPTHS, DEPTHS, LABELS, NONE)                                               \
    FIELD(DEPTH_MASK, depth_mask, F32, DEPTHS, DEPTHS, LABELS, NONE)                                                   \
    FIELD(DEPTH_WEIGHTS, depth_weights, F32, DEPTHS, DEPTHS, LABELS, NONE)                                             \
    FIELD(PAIR_LABELS, pair_labels, I32, SAMPLES, PAIRS, LABELS, NONE)                                                 \
    FIELD(PAIR_MASK, pair_mask, F32, SAMPLES, PAIRS, LABELS, NONE)                                                     \
    FIELD(PAIR_WEIGHTS, pair_weights, F32, SAMPLES, PAIRS, LABELS, NONE)                                               \
    FIELD(COUNTS, counts, F32, TOTALS, ALL, LABELS, NONE)

#define BATCH_ID(id, ...) BATCH_##id,
enum batch_field { BATCH_FIELDS(BATCH_ID) BATCH_FIELD_COUNT, BATCH_NONE = BATCH_FIELD_COUNT };
#undef BATCH_ID

#define BATCH_BIT(id) (UINT32_C(1) << BATCH_##id)
// Fields of every training batch, and fields that a decoder with an encoder adds.
#define BATCH_TEXT (BATCH_BIT(TOKENS) | BATCH_BIT(POSITIONS) | BATCH_BIT(LABELS) | BATCH_BIT(LOSS_MASK))
#define BATCH_DECODER (BATCH_BIT(DECODER_TOKENS) | BATCH_BIT(DECODER_POSITIONS))
// Fields that ICT adds.
#define BATCH_CONTEXT (BATCH_BIT(CONTEXT_TOKENS) | BATCH_BIT(CONTEXT_LENGTHS))

struct batch {
    int64_t B, T;  // rows, columns
    int64_t S;     // columns of the decoder; 0 without one
    union {
        struct {
#define BATCH_MEMBER(id, name, element, ...) BATCH_C_##element *name;
            BATCH_FIELDS(BATCH_MEMBER)
#undef BATCH_MEMBER
        };
        void *fields[BATCH_FIELD_COUNT];
    };
};

// A row of the table.
struct batch_rule {
    enum batch_shape shape;
    enum batch_reader reader;
    enum batch_field with, in_decoder;
    enum batch_element element;
    size_t element_bytes;
};
const struct batch_rule *batch_rule(enum batch_field field);

// Everything about a batch except its numbers. A source's form has B = 0. Only the form of a block on the device has
// depths, the columns of whole sequences that ranks share, and how many of these a rank and its neighbours have.
struct batch_form {
    int64_t B, T, S, depths, whole, near;
    uint32_t fields;  // BATCH_BIT of each
};
struct batch_form batch_form(const struct batch *batch);
bool batch_form_is_same(const struct batch_form *a, const struct batch_form *b);
// Columns of a shape, and the number of elements of a field (0 if the form does not have it).
int64_t batch_columns(const struct batch_form *form, enum batch_shape shape);
int64_t batch_elements(const struct batch_form *form, enum batch_field field);
// All fields of a form lie in one block, in the order of the table, without gaps. Its size, and where each field
// begins.
size_t batch_block_bytes(const struct batch_form *form);
struct batch batch_in_block(const struct batch_form *form, void *block);

// A batch of `rows` rows with the fields of the form, plus `samples`.
void batch_allocate(struct batch *batch, const struct batch_form *form, int64_t rows);
void batch_free(struct batch *batch);  // a zeroed one is fine
// One row as a batch in the same memory.
struct batch batch_row(const struct batch *batch, int64_t row);
// Makes a row that counts for nothing.
void batch_clear_row(const struct batch *batch, int64_t row);

#endif
