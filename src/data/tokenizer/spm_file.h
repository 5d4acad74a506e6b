// The content of a SentencePiece .model file: a protocol buffer (proto2) of pieces with scores, and the few settings of
// its trainer and normalizer that matter to an encoder. It is only parsed here; spm_model.h validates it.
#ifndef DATA_TOKENIZER_SPM_FILE_H
#define DATA_TOKENIZER_SPM_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The numbers are the file's.
enum spm_piece_type { SPM_NORMAL = 1, SPM_UNKNOWN, SPM_CONTROL, SPM_USER_DEFINED, SPM_UNUSED, SPM_BYTE };
enum spm_model_type { SPM_UNIGRAM = 1, SPM_BPE, SPM_WORD, SPM_CHAR };

// Bytes of the file.
struct spm_text {
    const char *data;  // not NUL-terminated; NULL if the field is absent
    size_t length;
};

struct spm_piece {
    struct spm_text text;
    float score;
    enum spm_piece_type type;
};

struct spm_normaliser_spec {
    struct spm_text charsmap;
    bool add_dummy_prefix;
    bool remove_extra_whitespaces;
    bool escape_whitespaces;
};

struct spm_file {
    struct spm_piece *pieces;  // (piece_count)
    int64_t piece_count;
    bool has_trainer, has_normaliser;  // the settings are present, even if empty
    enum spm_model_type model_type;
    bool treat_whitespace_as_suffix;
    bool byte_fallback;
    struct spm_text unknown_surface;
    struct spm_text unknown_piece, bos_piece, eos_piece, pad_piece;
    struct spm_normaliser_spec normaliser, denormaliser;
};

// Parses bytes that errors call `name`; the result points into them. On error nothing is left to free.
int spm_file_parse(struct spm_file *file, const void *bytes, size_t length, const char *name);
void spm_file_free(struct spm_file *file);

#endif
