// From a SentencePiece model to the parts of a tokenizer.json: the normalizer as a chain of steps on the whole text,
// the pieces as BPE with every pair that forms a piece (by score), or as Unigram with the scores as used.
#include "data/tokenizer/hf_parts.h"
#include "data/tokenizer/spm_model.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/tokenizer/hf.h"
#include "data/tokenizer/normal_form.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT_BEGIN "(?<![\\s\\S])"
#define AT_END "(?![\\s\\S])"

static const char *space_of(const struct spm_model *model) {
    return model->file.normaliser.escape_whitespaces ? SPM_SPACE : " ";
}

static bool has_pieces(const struct spm_model *model, enum spm_piece_type type) {
    for (int64_t i = 0; i < model->file.piece_count; i++)
        if (model->file.pieces[i].type == type)
            return true;
    return false;
}

// ---- what a tokenizer.json cannot express ----

// BPE there has only pieces: a character inside pieces that is not a piece itself has no id to merge.
static bool has_bare_characters(const struct spm_model *model) {
    const struct bpe *merges = &model->bpe.merges;
    for (size_t i = 0; i <= merges->pair_mask; i++)
        if (merges->pairs[i].left >= model->file.piece_count ||
            (merges->pairs[i].left >= 0 && merges->pairs[i].right >= model->file.piece_count))
            return true;
    return false;
}

static bool has_hidden_pieces(const struct spm_model *model) {
    for (int64_t i = 0; i < model->file.piece_count; i++) {
        const struct spm_piece *piece = &model->pieces[i];
        if (!spm_is(piece, SPM_RESERVED) && piece->text.data &&
            trie_find(&model->reserved, piece->text.data, piece->text.length) >= 0)
            return true;
    }
    return false;
}

static int check(const struct spm_model *model) {
    const struct spm_file *file = &model->file;
    const char *why = NULL;
    if (file->model_type == SPM_WORD)
        why = "is a model of words";
    else if (has_pieces(model, SPM_UNUSED))
        why = "has unused pieces";
    else if (file->treat_whitespace_as_suffix && file->normaliser.add_dummy_prefix)
        why = "puts the dummy space at the end";
    else if (file->model_type == SPM_BPE && has_bare_characters(model))
        why = "has pieces with characters that are not pieces";
    else if (has_hidden_pieces(model))
        why = "has two pieces with the same text";
    return why ? error_set("the SentencePiece model %s, which a tokenizer.json cannot express", why) : 0;
}

// ---- normalizer ----

static void replace_pattern(struct json_writer *json, const char *pattern, const char *content) {
    struct buffer text = {0};
    buffer_append_string(&text, pattern);
    hf_step_replace_pattern(json, &text, content);
    buffer_free(&text);
}

static void prepend(struct json_writer *json, const struct spm_model *model) {
    if (!model->file.normaliser.add_dummy_prefix)
        return;
    hf_step(json, "Prepend");
    json_put_string(json, "prepend", space_of(model));
    json_end_object(json);
}

static void write_normalizer(const struct spm_model *model, struct hf_parts *parts) {
    const struct spm_normaliser_spec *spec = &model->file.normaliser;
    struct json_writer json = hf_part(&parts->normalizer);
    hf_begin_sequence(&json, "normalizers");
    if (spec->remove_extra_whitespaces) {
        spm_describe_rules(&model->normaliser, parts, &json);
        replace_pattern(&json, " {2,}", " ");
        replace_pattern(&json, AT_BEGIN " ", "");
        prepend(&json, model);
    } else {
        prepend(&json, model);
        spm_describe_rules(&model->normaliser, parts, &json);
    }
    if (spec->escape_whitespaces)
        hf_step_replace(&json, " ", SPM_SPACE);
    if (spec->remove_extra_whitespaces)
        replace_pattern(&json, spec->escape_whitespaces ? SPM_SPACE "+" AT_END : " +" AT_END, "");
    hf_end_sequence(&json);
    if (!spec->remove_extra_whitespaces && !spec->add_dummy_prefix && !spec->escape_whitespaces &&
        spec->charsmap.length == 0)
        buffer_clear(&parts->normalizer);
}

// ---- pre-tokenizer ----

static int compare_lengths(const void *left, const void *right) {
    const struct spm_piece *const *a = left, *const *b = right;
    return ((*a)->text.length < (*b)->text.length) - ((*a)->text.length > (*b)->text.length);
}

// User-defined symbols are separate words, longest first.
static void symbol_pattern(const struct spm_model *model, struct buffer *pattern) {
    size_t count = 0;
    const struct spm_piece **symbols = memory_alloc((size_t)model->file.piece_count * sizeof *symbols);
    for (int64_t i = 0; i < model->file.piece_count; i++)
        if (model->file.pieces[i].type == SPM_USER_DEFINED)
            symbols[count++] = &model->file.pieces[i];
    qsort(symbols, count, sizeof *symbols, compare_lengths);
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            buffer_append_byte(pattern, '|');
        hf_pattern_text(pattern, symbols[i]->text.data, symbols[i]->text.length);
    }
    free(symbols);
}

// After how many bytes the text of a reserved piece can be cut without affecting any other piece.
static size_t cut_inside(const struct spm_model *model, struct spm_text text) {
    for (size_t at = 1; at < text.length; at++)
        if (model->cuts[spm_pair_index((unsigned char)text.data[at - 1], (unsigned char)text.data[at])])
            return at;
    return 0;
}

// A tokenizer.json also finds byte and control pieces in text: Unigram finds all of them, BPE a word that equals one if
// words are looked up before merging. So text that reads like one is cut inside.
static void reserved_pattern(const struct spm_model *model, struct buffer *pattern) {
    for (int64_t i = 0; i < model->file.piece_count; i++) {
        const struct spm_piece *piece = &model->file.pieces[i];
        size_t cut = spm_is(piece, SPM_RESERVED) ? cut_inside(model, piece->text) : 0;
        if (cut == 0 || (piece->type == SPM_BYTE && i != model->byte_ids[0]))
            continue;
        if (pattern->length > 0)
            buffer_append_byte(pattern, '|');
        if (piece->type == SPM_BYTE) {
            cut = cut < 3 ? cut : 3;
            hf_pattern_text(pattern, "<0x", cut);
            buffer_append_string(pattern, "(?=");
            hf_pattern_text(pattern, &"<0x"[cut], 3 - cut);
            buffer_append_string(pattern, "[0-9A-F]{2}>)");
            continue;
        }
        hf_pattern_text(pattern, piece->text.data, cut);
        buffer_append_string(pattern, "(?=");
        hf_pattern_text(pattern, piece->text.data + cut, piece->text.length - cut);
        buffer_append_byte(pattern, ')');
    }
}

static void write_pretokenizer(const struct spm_model *model, struct hf_parts *parts) {
    struct buffer symbols = {0}, reserved = {0};
    bool is_unigram = model->file.model_type == SPM_UNIGRAM;
    if (!is_unigram)
        symbol_pattern(model, &symbols);
    if (is_unigram || symbols.length > 0)
        reserved_pattern(model, &reserved);
    struct json_writer json = hf_part(&parts->pre_tokenizer);
    if (symbols.length + reserved.length > 0) {
        hf_begin_sequence(&json, "pretokenizers");
        if (symbols.length > 0)
            hf_step_split(&json, &symbols, "Isolated", false);
        if (reserved.length > 0)
            hf_step_split(&json, &reserved, "MergedWithPrevious", false);
        hf_end_sequence(&json);
    }
    buffer_free(&symbols);
    buffer_free(&reserved);
}

// ---- models ----

static void write_vocab(struct json_writer *json, const struct spm_model *model, const struct spm_specials *specials) {
    json_key(json, "vocab");
    json_begin_object(json);
    for (int64_t i = 0; i < model->file.piece_count; i++)
        hf_vocab_entry(json, model->file.pieces[i].text.data, model->file.pieces[i].text.length, i);
    for (int64_t i = 0; specials && i < specials->tokens.count; i++) {
        const struct byte_string *special = &specials->tokens.strings[i];
        if (special->value >= model->file.piece_count)
            hf_vocab_entry(json, byte_table_text(&specials->tokens, special), special->length, special->value);
    }
    json_end_object(json);
}

static bool merges(const struct spm_model *model, int32_t symbol) {
    return model->file.pieces[symbol].type == SPM_NORMAL;
}

static void write_merges(struct json_writer *json, const struct spm_model *model) {
    size_t slots = model->file.model_type == SPM_BPE ? model->bpe.merges.pair_mask + 1 : 0, count = 0;
    struct hf_merge *list = memory_alloc((slots + 1) * sizeof *list);
    for (size_t i = 0; i < slots; i++) {
        const struct bpe_pair *pair = &model->bpe.merges.pairs[i];
        if (pair->left < 0 || !merges(model, pair->id) || !merges(model, pair->left) || !merges(model, pair->right))
            continue;
        const struct spm_text left = model->file.pieces[pair->left].text, right = model->file.pieces[pair->right].text;
        list[count++] =
            (struct hf_merge){left.data, right.data, left.length, right.length, (int64_t)pair->rank << 32 | pair->id};
    }
    hf_write_merges(json, list, count);
    free(list);
}

static void write_bpe(const struct spm_model *model, const struct spm_specials *specials, struct hf_parts *parts) {
    struct buffer unknown = {0};
    struct json_writer json = hf_part(&parts->model);
    const struct spm_piece *piece = &model->file.pieces[model->unknown_id];
    buffer_append(&unknown, piece->text.data, piece->text.length);
    hf_begin_bpe(&json, buffer_string(&unknown), model->file.byte_fallback, has_pieces(model, SPM_USER_DEFINED));
    write_vocab(&json, model, specials);
    write_merges(&json, model);
    json_end_object(&json);
    buffer_free(&unknown);
}

// A number that every reader parses to exactly this value, even those that round twice (hf_number): then sums of scores
// are exact, and ties are ties.
static void write_score(struct json_writer *json, double score) {
    char text[64];
    for (int digits = 6; digits <= 19; digits++) {
        int length = snprintf(text, sizeof text, "%.*g", digits, score);
        if (strtod(text, NULL) == score && hf_number(text, (size_t)length, score + 1) == score) {
            bool is_whole = strcspn(text, ".e") == (size_t)length;
            memcpy(text + length, is_whole ? ".0" : "", is_whole ? 3 : 1);
            json_raw(json, text, strlen(text));
            return;
        }
    }
    json_double(json, score);
}

static void write_unigram(const struct spm_model *model, struct hf_parts *parts) {
    struct json_writer json = hf_part(&parts->model);
    hf_step(&json, "Unigram");
    json_put_int(&json, "unk_id", model->unknown_id);
    json_key(&json, "vocab");
    json_begin_array(&json);
    int indent = json.indent;
    for (int64_t i = 0; i < model->file.piece_count; i++) {
        const struct spm_piece *piece = &model->file.pieces[i];
        json_begin_array(&json);
        json.indent = 0;
        json_string(&json, piece->text.data, piece->text.length);
        write_score(&json, spm_is(piece, SPM_RESERVED) ? 0 : model->unigram.scores[i]);
        json_end_array(&json);
        json.indent = indent;
    }
    json_end_array(&json);
    hf_member_bool(&json, "byte_fallback", model->file.byte_fallback);
    json_end_object(&json);
}

// ---- decoder ----

static void write_decoder(const struct spm_model *model, struct hf_parts *parts) {
    const struct spm_normaliser_spec *spec = &model->file.normaliser;
    enum { ALL = 1 << 20 };
    struct json_writer json = hf_part(&parts->decoder);
    hf_begin_sequence(&json, "decoders");
    hf_step_replace(&json, SPM_SPACE, " ");
    if (model->file.byte_fallback) {
        hf_step_plain(&json, "ByteFallback");
    }
    hf_step_plain(&json, "Fuse");
    if (spec->add_dummy_prefix || spec->remove_extra_whitespaces) {
        hf_step(&json, "Strip");
        json_put_string(&json, "content", " ");
        json_put_int(&json, "start", spec->remove_extra_whitespaces ? ALL : 1);
        json_put_int(&json, "stop", 0);
        json_end_object(&json);
    }
    hf_end_sequence(&json);
}

static void add_tokens(const struct spm_model *model, const struct spm_specials *specials, struct hf_parts *parts) {
    for (int64_t i = 0; i < model->file.piece_count; i++) {
        const struct spm_piece *piece = &model->file.pieces[i];
        bool is_special = specials && specials->by_id[i] >= 0;
        if (piece->type == SPM_CONTROL || piece->type == SPM_UNKNOWN || is_special)
            hf_parts_add(parts, piece->text.data, piece->text.length, (int32_t)i);
    }
    for (int64_t i = 0; specials && i < specials->tokens.count; i++) {
        const struct byte_string *special = &specials->tokens.strings[i];
        if (special->value >= model->file.piece_count)
            hf_parts_add(parts, byte_table_text(&specials->tokens, special), special->length, (int32_t)special->value);
    }
}

int spm_describe(const struct spm_model *model, const struct spm_specials *specials, struct hf_parts *parts) {
    TRY(check(model));
    if (model->file.normaliser.charsmap.length > 0)
        TRY(normal_form_require());
    parts->unknown = model->unknown_id;
    parts->bos = model->bos_id;
    parts->pad = model->pad_id;
    parts->adds_scores = model->file.model_type == SPM_UNIGRAM;
    add_tokens(model, specials, parts);
    write_normalizer(model, parts);
    write_pretokenizer(model, parts);
    if (model->file.model_type == SPM_UNIGRAM)
        write_unigram(model, parts);
    else
        write_bpe(model, specials, parts);
    write_decoder(model, parts);
    return 0;
}
