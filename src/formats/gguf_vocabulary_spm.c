// SentencePiece and WordPiece for GGUF. llama.cpp has SentencePiece's BPE as "llama", which has no normalizer and needs
// all bytes as pieces, and its unigram model as "t5", which takes the normalizer's table but no bytes; BERT's WordPiece
// is "bert", which marks pieces that begin a word instead of those that continue one.
#include "formats/gguf_model.h"

#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "data/sample/vocabulary.h"
#include "data/tokenizer/spm_model.h"
#include <inttypes.h>
#include <string.h>

static const char other_way[] = "export with --to huggingface instead";

static int refuse(const char *path, const char *what) {
    return error_set("%s: %s, which llama.cpp cannot do; %s", path, what, other_way);
}

static int check_model(const struct spm_file *file, const char *path) {
    const struct spm_normaliser_spec *rules = &file->normaliser;
    if (file->model_type != SPM_BPE && file->model_type != SPM_UNIGRAM)
        return refuse(path, "it is a word or character model");
    if (file->treat_whitespace_as_suffix)
        return refuse(path, "spaces belong to the word before them");
    if (!rules->escape_whitespaces)
        return refuse(path, "spaces are not escaped");
    if (file->model_type == SPM_UNIGRAM && file->byte_fallback)
        return refuse(path, "it is a unigram model with byte fallback");
    if (file->model_type == SPM_UNIGRAM && rules->remove_extra_whitespaces && !rules->add_dummy_prefix)
        return refuse(path, "spaces are merged, and no space is added before a text");
    if (file->model_type != SPM_BPE)
        return 0;
    if (!file->byte_fallback)
        return refuse(path, "it is a BPE model without byte fallback (--byte_fallback)");
    if (rules->charsmap.length > 0)
        return refuse(path, "it is a BPE model that normalizes text (not --normalization_rule_name=identity)");
    if (rules->remove_extra_whitespaces)
        return refuse(path, "it is a BPE model that merges spaces (--remove_extra_whitespaces)");
    return 0;
}

static enum gguf_token_type type_of(enum spm_piece_type type) {
    switch (type) {
    case SPM_UNKNOWN:
        return GGUF_TOKEN_UNKNOWN;
    case SPM_CONTROL:
        return GGUF_TOKEN_CONTROL;
    case SPM_USER_DEFINED:
        return GGUF_TOKEN_USER_DEFINED;
    case SPM_UNUSED:
        return GGUF_TOKEN_UNUSED;
    case SPM_BYTE:
        return GGUF_TOKEN_BYTE;
    case SPM_NORMAL:
        break;
    }
    return GGUF_TOKEN_NORMAL;
}

static int add_pieces(struct gguf_vocabulary *vocabulary, const struct spm_model *model) {
    bool has_unused = false, has_defined = false, is_unigram = model->file.model_type == SPM_UNIGRAM;
    for (int64_t i = 0; i < model->file.piece_count; i++) {
        const struct spm_piece *piece = &model->file.pieces[i];
        // A unigram model always takes such a piece, by a score above all others. llama.cpp would split the text there
        // instead and put a space before the rest.
        bool is_scored = is_unigram && piece->type == SPM_USER_DEFINED;
        enum gguf_token_type type = is_scored ? GGUF_TOKEN_NORMAL : type_of(piece->type);
        TRY(gguf_vocabulary_set(vocabulary, i, piece->text.data, piece->text.length, type));
        vocabulary->tokens[i].score = is_scored ? (float)model->unigram.scores[i] : piece->score;
        has_unused = has_unused || piece->type == SPM_UNUSED;
        has_defined = has_defined || piece->type == SPM_USER_DEFINED;
    }
    if (has_unused)
        log_warn("llama.cpp uses the pieces of this SentencePiece model that are marked as unused");
    if (has_defined && !is_unigram)
        log_warn("llama.cpp adds a space after user-defined pieces that text follows directly");
    return 0;
}

// Tokens that Megatron's tokenizer adds after the pieces are found in text before the model runs, as in Megatron.
static int add_specials(struct gguf_vocabulary *vocabulary, int64_t first, const struct tokenizer *tokenizer) {
    for (int64_t id = first; id < tokenizer_vocab_size(tokenizer); id++) {
        size_t length;
        const char *text = tokenizer_token(tokenizer, (int32_t)id, &length);
        if (text)
            TRY(gguf_vocabulary_set(vocabulary, id, text, length, GGUF_TOKEN_USER_DEFINED));
    }
    return 0;
}

int gguf_vocabulary_from_spm(struct gguf_vocabulary *vocabulary, const char *path, const struct tokenizer *tokenizer) {
    struct spm_model *model;
    TRY(spm_model_open(&model, path));
    const struct spm_file *file = &model->file;
    int result = check_model(file, path);
    if (result == 0)
        result = add_pieces(vocabulary, model);
    if (result == 0)
        result = add_specials(vocabulary, file->piece_count, tokenizer);
    bool is_unigram = file->model_type == SPM_UNIGRAM;
    vocabulary->model = is_unigram ? "t5" : "llama";
    vocabulary->pre = "default";
    vocabulary->has_scores = true;
    vocabulary->has_space_rules = true;
    vocabulary->adds_space = file->normaliser.add_dummy_prefix;
    vocabulary->merges_spaces = file->normaliser.remove_extra_whitespaces;
    vocabulary->unk = model->unknown_id;
    vocabulary->bos = model->bos_id;
    vocabulary->pad = model->pad_id;
    if (file->normaliser.charsmap.length > 0)
        buffer_append(&vocabulary->charsmap, file->normaliser.charsmap.data, file->normaliser.charsmap.length);
    spm_model_free(model);
    return result;
}

// ---- WordPiece ----

void gguf_vocabulary_warn_accents(const struct gguf_vocabulary *vocabulary) {
    if (vocabulary->strips_accents)
        log_warn("llama.cpp's WordPiece strips accents differently: Korean syllables of three letters and Indic vowel "
                 "signs may get other ids");
}

static bool is_special(const char *text, size_t length) {
    static const char *const names[] = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "[BOS]", "[EOS]"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strlen(names[i]) == length && memcmp(names[i], text, length) == 0)
            return true;
    return length > 10 && memcmp(text, "<extra_id_", 10) == 0;
}

int gguf_vocabulary_from_wordpiece(struct gguf_vocabulary *vocabulary, const struct tokenizer *tokenizer, bool lowers) {
    OWNED_BY(buffer_free) struct buffer marked = {0};
    int result = 0;
    for (int64_t id = 0; id < tokenizer_vocab_size(tokenizer) && result == 0; id++) {
        size_t length;
        const char *text = tokenizer_token(tokenizer, (int32_t)id, &length);
        if (!text)
            continue;
        buffer_clear(&marked);
        bool is_control = is_special(text, length), continues = length > 2 && memcmp(text, "##", 2) == 0;
        if (!is_control && !continues)
            buffer_append_string(&marked, "\u2581");
        buffer_append(&marked, continues ? text + 2 : text, continues ? length - 2 : length);
        result = gguf_vocabulary_set(vocabulary, id, buffer_string(&marked), marked.length,
                                     is_control ? GGUF_TOKEN_CONTROL : GGUF_TOKEN_NORMAL);
        if (length == 5 && memcmp(text, "[UNK]", 5) == 0)
            vocabulary->unk = (int32_t)id;
        if (length == 5 && memcmp(text, "[CLS]", 5) == 0)
            vocabulary->bos = (int32_t)id;
        if (length == 5 && memcmp(text, "[SEP]", 5) == 0)
            vocabulary->sep = (int32_t)id;
    }
    vocabulary->model = "bert";
    vocabulary->pre = "default";
    vocabulary->adds_bos = vocabulary->adds_sep = true;
    vocabulary->has_case_rules = true;
    vocabulary->lowers = vocabulary->strips_accents = lowers;
    gguf_vocabulary_warn_accents(vocabulary);
    if (result == 0 && (vocabulary->unk < 0 || vocabulary->bos < 0 || vocabulary->sep < 0))
        result =
            error_set("the vocabulary lacks [UNK], [CLS] or [SEP], which llama.cpp's WordPiece needs; %s", other_way);
    return result;
}
