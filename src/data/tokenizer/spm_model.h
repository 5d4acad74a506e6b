// A SentencePiece model: text to ids and back, with exactly the ids of the sentencepiece library.
//
// A text is normalized, split into words and encoded word by word. A split is made between two bytes that are adjacent
// in no piece: no piece can reach across, so the two sides are independent, and the ids of a short word can be cached.
// (Two kinds of models need more care. A unigram model sums rounded scores over the whole text; see spm_encode.c. A BPE
// model with unused pieces is never split; see spm_bpe.c.)
#ifndef DATA_TOKENIZER_SPM_MODEL_H
#define DATA_TOKENIZER_SPM_MODEL_H

#include "base/buffer.h"
#include "data/tokenizer/spm_bpe.h"
#include "data/tokenizer/spm_file.h"
#include "data/tokenizer/spm_normalise.h"
#include "data/tokenizer/spm_words.h"
#include "data/tokenizer/token_list.h"
#include "data/tokenizer/unigram.h"

struct spm_model {
    struct buffer bytes;  // the file
    struct spm_file file;
    int32_t unknown_id;
    int32_t bos_id, eos_id, pad_id;  // -1 if the model has none
    int32_t byte_ids[256];           // with byte fallback
    struct spm_normaliser normaliser;
    struct spm_normaliser denormaliser;
    bool has_denormaliser;
    struct trie reserved;      // folded texts of control, unknown and byte pieces
    struct buffer folded;      // texts of pieces as they occur in normalized text
    struct spm_piece *pieces;  // (piece_count) with folded texts; data NULL if it cannot occur
    // One of these, by file.model_type.
    struct unigram unigram;
    struct spm_bpe bpe;
    struct trie whole;              // word and character models: texts to ids
    struct trie user_defined;       // character models
    unsigned char cuts[SPM_PAIRS];  // 1 if no piece has the first byte right before the second; see spm_words.h
    bool is_cut;
    bool is_raw;        // well-formed text needs no normalizer, except for its first word
    double most_score;  // unigram: no score is further from 0
};

// Opens a file of at most 256 MB, or bytes that errors call `name` (they are copied).
int spm_model_open(struct spm_model **model, const char *path);
int spm_model_parse(struct spm_model **model, const void *bytes, size_t length, const char *name);
void spm_model_free(struct spm_model *model);  // NULL is fine

// Memory of one thread for encoding.
struct spm_encoder;
struct spm_encoder *spm_encoder_create(const struct spm_model *model);
void spm_encoder_free(struct spm_encoder *encoder);  // NULL is fine

// Appends the ids of a text. Fails if it has 2 GiB or more; the caller drops the ids added so far.
int spm_encode(struct spm_encoder *encoder, const char *text, size_t length, struct token_list *out);

// Appends the text of ids, all in [0, piece_count).
void spm_decode(const struct spm_model *model, const int32_t *ids, int64_t count, struct buffer *out);

#endif
