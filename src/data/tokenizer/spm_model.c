// A reader of protocol buffers, as far as SentencePiece needs one. A message is a run of fields: a tag (number and wire
// type) and a value. As in Google's library, unknown fields, fields of an unexpected wire type and unknown members of
// an enumeration are skipped, the last of equal fields counts, and messages given in parts are merged.
#include "data/tokenizer/spm_model.h"
#include "data/tokenizer/token_list.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void spm_file_free(struct spm_file *file);

struct wire_reader {
    const unsigned char *at, *end;
    const unsigned char *begin;  // of the file
    const char *name;
};

enum wire_type { WIRE_VARINT = 0, WIRE_64 = 1, WIRE_BYTES = 2, WIRE_32 = 5 };

struct wire_field {
    uint32_t number;
    enum wire_type wire;
    uint64_t value;  // of a varint or a fixed number
    struct spm_text bytes;
};

static int damaged(const struct wire_reader *reader, const char *what) {
    return error_set("%s: byte %zu: %s; it is not a SentencePiece model, or is truncated", reader->name,
                     (size_t)(reader->at - reader->begin), what);
}

static int read_varint(struct wire_reader *reader, uint64_t *value) {
    *value = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (reader->at == reader->end)
            return damaged(reader, "the file ends inside a number");
        unsigned char byte = *reader->at++;
        if (shift < 63 || byte <= 1)
            *value |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80)
            return 0;
    }
    return damaged(reader, "a number of more than ten bytes");
}

static int read_fixed(struct wire_reader *reader, size_t bytes, uint64_t *value) {
    if ((size_t)(reader->end - reader->at) < bytes)
        return damaged(reader, "the file ends inside a number");
    *value = 0;
    memcpy(value, reader->at, bytes);
    reader->at += bytes;
    return 0;
}

static int read_field(struct wire_reader *reader, struct wire_field *field) {
    uint64_t tag, length;
    TRY(read_varint(reader, &tag));
    if (tag >> 3 == 0 || tag >> 3 > (1u << 29) - 1)
        return damaged(reader, "a field number out of range");
    *field = (struct wire_field){.number = (uint32_t)(tag >> 3), .wire = (enum wire_type)(tag & 7)};
    switch (tag & 7) {
    case WIRE_VARINT:
        return read_varint(reader, &field->value);
    case WIRE_64:
        return read_fixed(reader, 8, &field->value);
    case WIRE_32:
        return read_fixed(reader, 4, &field->value);
    case WIRE_BYTES:
        TRY(read_varint(reader, &length));
        if (length > (size_t)(reader->end - reader->at))
            return damaged(reader, "a field that extends beyond the end");
        field->bytes = (struct spm_text){(const char *)reader->at, (size_t)length};
        reader->at += length;
        return 0;
    default:
        return damaged(reader, "a field of unknown kind");
    }
}

// What is read of a message: the number of a field, its kind, and where it goes.
enum field_kind { FIELD_BOOL, FIELD_TEXT, FIELD_FLOAT, FIELD_ENUM };
struct field_row {
    uint32_t number;
    enum field_kind kind;
    size_t offset;
    uint64_t most;  // of an enumeration, which begins with 1
};

static const struct field_row piece_fields[] = {
    {1, FIELD_TEXT, offsetof(struct spm_piece, text), 0},
    {2, FIELD_FLOAT, offsetof(struct spm_piece, score), 0},
    {3, FIELD_ENUM, offsetof(struct spm_piece, type), SPM_BYTE},
};
static const struct field_row trainer_fields[] = {
    {3, FIELD_ENUM, offsetof(struct spm_file, model_type), SPM_CHAR},
    {24, FIELD_BOOL, offsetof(struct spm_file, treat_whitespace_as_suffix), 0},
    {35, FIELD_BOOL, offsetof(struct spm_file, byte_fallback), 0},
    {44, FIELD_TEXT, offsetof(struct spm_file, unknown_surface), 0},
    {45, FIELD_TEXT, offsetof(struct spm_file, unknown_piece), 0},
    {46, FIELD_TEXT, offsetof(struct spm_file, bos_piece), 0},
    {47, FIELD_TEXT, offsetof(struct spm_file, eos_piece), 0},
    {48, FIELD_TEXT, offsetof(struct spm_file, pad_piece), 0},
};
static const struct field_row normaliser_fields[] = {
    {2, FIELD_TEXT, offsetof(struct spm_normaliser_spec, charsmap), 0},
    {3, FIELD_BOOL, offsetof(struct spm_normaliser_spec, add_dummy_prefix), 0},
    {4, FIELD_BOOL, offsetof(struct spm_normaliser_spec, remove_extra_whitespaces), 0},
    {5, FIELD_BOOL, offsetof(struct spm_normaliser_spec, escape_whitespaces), 0},
};
#define ROWS(rows) rows, sizeof rows / sizeof rows[0]

static void take_field(const struct field_row *row, const struct wire_field *field, void *to) {
    static const enum wire_type wires[] = {WIRE_VARINT, WIRE_BYTES, WIRE_32, WIRE_VARINT};
    uint32_t value = (uint32_t)field->value;
    if (field->wire != wires[row->kind])
        return;
    if (row->kind == FIELD_BOOL)
        *(bool *)to = field->value != 0;
    else if (row->kind == FIELD_TEXT)
        *(struct spm_text *)to = field->bytes;
    else if (row->kind == FIELD_FLOAT || (field->value >= 1 && field->value <= row->most))
        memcpy(to, &value, sizeof value);
}

// Reads the message inside the field just read.
static int read_message(const struct wire_reader *reader, const struct wire_field *message,
                        const struct field_row *rows, size_t count, void *out) {
    struct wire_reader inner = *reader;
    inner.at = (const unsigned char *)message->bytes.data;
    inner.end = inner.at + message->bytes.length;
    while (inner.at < inner.end) {
        struct wire_field field;
        TRY(read_field(&inner, &field));
        for (size_t i = 0; i < count; i++)
            if (rows[i].number == field.number)
                take_field(&rows[i], &field, (char *)out + rows[i].offset);
    }
    return 0;
}

static int read_part(const struct wire_reader *reader, const struct wire_field *field, struct spm_file *file,
                     int64_t *piece_capacity) {
    switch (field->number) {
    case 1:
        MEMORY_GROW(file->pieces, file->piece_count, *piece_capacity);
        file->pieces[file->piece_count] = (struct spm_piece){.type = SPM_NORMAL};
        return read_message(reader, field, ROWS(piece_fields), &file->pieces[file->piece_count++]);
    case 2:
        file->has_trainer = true;
        return read_message(reader, field, ROWS(trainer_fields), file);
    case 3:
        file->has_normaliser = true;
        return read_message(reader, field, ROWS(normaliser_fields), &file->normaliser);
    case 5:
        return read_message(reader, field, ROWS(normaliser_fields), &file->denormaliser);
    default:
        return 0;  // 4 holds examples for testing a model
    }
}

static int spm_file_parse(struct spm_file *file, const void *bytes, size_t length, const char *name) {
    static const struct spm_normaliser_spec defaults = {
        .add_dummy_prefix = true, .remove_extra_whitespaces = true, .escape_whitespaces = true};
    *file = (struct spm_file){.model_type = SPM_UNIGRAM, .normaliser = defaults, .denormaliser = defaults};
    struct wire_reader reader = {bytes, (const unsigned char *)bytes + length, bytes, name};
    int64_t piece_capacity = 0;
    int status = 0;
    while (status == 0 && reader.at < reader.end) {
        struct wire_field field;
        status = read_field(&reader, &field);
        if (status == 0 && field.wire == WIRE_BYTES)
            status = read_part(&reader, &field, file, &piece_capacity);
    }
    if (status == 0 && file->piece_count == 0)
        status = error_set("%s has no pieces; it is not a SentencePiece model", name);
    if (status == 0 && file->piece_count > INT32_MAX / 2)
        status = error_set("%s has too many pieces", name);
    if (status < 0)
        spm_file_free(file);
    return status;
}

// Parses bytes that errors call `name`; the result points into them. On error nothing is left to free.
static void spm_file_free(struct spm_file *file) {
    free(file->pieces);
    *file = (struct spm_file){0};
}

// ---- the model ----

// Loads a model: refuses the same models as the library, and pieces that it would choke on (ill-formed UTF-8, absurd
// lengths, scores that are not numbers).

enum { MAX_FILE_BYTES = 1 << 28 };
static const float unknown_penalty = 10;

// The byte that "<0x41>" stands for, -1 for other texts.
static int byte_of_piece(struct spm_text text) {
    static const char digits[] = "0123456789ABCDEF";
    if (text.length != 6 || memcmp(text.data, "<0x", 3) != 0 || text.data[5] != '>' || !text.data[3] || !text.data[4])
        return -1;
    const char *high = strchr(digits, text.data[3]), *low = strchr(digits, text.data[4]);
    return high && low ? (int)(16 * (high - digits) + (low - digits)) : -1;
}

static int check_piece(const struct spm_model *model, int64_t i, const char *name) {
    const struct spm_piece *piece = &model->file.pieces[i];
    const char *wrong = NULL;
    bool is_in_trie = model->file.model_type == SPM_UNIGRAM || piece->type == SPM_USER_DEFINED;
    if (piece->text.length == 0)
        wrong = "is empty";
    else if (piece->text.length > SPM_MAX_PIECE_BYTES)
        wrong = "is longer than 4096 bytes";
    else if (utf8_check(piece->text.data, piece->text.length) != piece->text.length)
        wrong = "is not UTF-8";
    else if (is_in_trie && memchr(piece->text.data, 0, piece->text.length))
        wrong = "holds a NUL character";
    else if (!isfinite(piece->score))
        wrong = "has a score that is not a number";
    else if (piece->type == SPM_BYTE && !model->file.byte_fallback)
        wrong = "is a byte piece, but byte fallback is off";
    else if (piece->type == SPM_BYTE && byte_of_piece(piece->text) < 0)
        wrong = "should be a byte piece such as \"<0x41>\"";
    else if (piece->type == SPM_UNKNOWN && model->unknown_id >= 0)
        wrong = "is a second unknown piece";
    return wrong ? error_set("%s: piece %" PRId64 " %s; the model is damaged", name, i, wrong) : 0;
}

// The settings come after the pieces. A file truncated before them would look like a model with other settings.
static int check_settings(const struct spm_file *file, const char *name) {
    if (file->has_trainer && file->has_normaliser)
        return 0;
    return error_set("%s: ends after %" PRId64
                     " pieces without the settings of its %s; the file is truncated: copy or download it again",
                     name, file->piece_count, file->has_trainer ? "normalizer" : "trainer and normalizer");
}

static int check_pieces(struct spm_model *model, const char *name) {
    model->unknown_id = -1;
    for (int i = 0; i < 256; i++)
        model->byte_ids[i] = -1;
    for (int64_t i = 0; i < model->file.piece_count; i++) {
        TRY(check_piece(model, i, name));
        if (model->file.pieces[i].type == SPM_UNKNOWN)
            model->unknown_id = (int32_t)i;
        if (model->file.pieces[i].type == SPM_BYTE)
            model->byte_ids[byte_of_piece(model->file.pieces[i].text)] = (int32_t)i;
    }
    if (model->unknown_id < 0)
        return error_set("%s has no piece of type unknown (\"<unk>\"); the model is damaged", name);
    for (int i = 0; model->file.byte_fallback && i < 256; i++)
        if (model->byte_ids[i] < 0)
            return error_set("%s: byte fallback is on, but piece \"<0x%02X>\" is missing; the model is damaged", name,
                             (unsigned)i);
    return 0;
}

// Fills model->pieces with the texts in normalized form.
static void fold_pieces(struct spm_model *model) {
    size_t count = (size_t)model->file.piece_count;
    bool folds = model->file.normaliser.escape_whitespaces;
    model->pieces = memory_alloc(count * sizeof *model->pieces);
    size_t *begins = memory_alloc((count + 1) * sizeof *begins);
    for (size_t i = 0; i < count; i++) {
        struct spm_text text = model->file.pieces[i].text;
        bool can_occur = true;
        if (folds)
            can_occur = spm_fold(text.data, text.length, &model->folded);
        else
            buffer_append(&model->folded, text.data, text.length);
        begins[i + 1] = model->folded.length;
        model->pieces[i] = model->file.pieces[i];
        model->pieces[i].text.length = can_occur ? begins[i + 1] - begins[i] : 0;
    }
    for (size_t i = 0; i < count; i++)
        model->pieces[i].text.data = model->pieces[i].text.length > 0 ? model->folded.data + begins[i] : NULL;
    free(begins);
}

struct trie_key *spm_choose_keys(const struct spm_piece *pieces, int64_t piece_count, int types, int64_t *count) {
    struct trie_key *keys = memory_alloc((size_t)piece_count * sizeof *keys);
    *count = 0;
    for (int64_t i = 0; i < piece_count; i++)
        if (pieces[i].text.data && spm_is(&pieces[i], types))
            keys[(*count)++] = (struct trie_key){pieces[i].text.data, pieces[i].text.length, (int32_t)i};
    return keys;
}

static void build_trie(struct trie *trie, const struct spm_model *model, int types) {
    int64_t count;
    struct trie_key *keys = spm_choose_keys(model->pieces, model->file.piece_count, types, &count);
    trie_build(trie, keys, count);
    free(keys);
}

// Two pieces with the same text would hide each other. (A reserved one and another may share a text; the reserved one
// is found.)
static int check_duplicates(const struct spm_model *model, const char *name) {
    struct byte_table seen[2] = {0};
    int status = 0;
    for (int64_t i = 0; status == 0 && i < model->file.piece_count; i++) {
        const struct spm_piece *piece = &model->file.pieces[i];
        struct byte_table *table = &seen[spm_is(piece, SPM_RESERVED)];
        if (byte_table_add(table, piece->text.data, piece->text.length, (int32_t)i) < 0)
            status = error_set("%s: pieces %" PRId32 " and %" PRId64 " have the same text; the model is damaged", name,
                               byte_table_find(table, piece->text.data, piece->text.length), i);
    }
    byte_table_free(&seen[0]);
    byte_table_free(&seen[1]);
    return status;
}

static int create_normalisers(struct spm_model *model, const char *name) {
    int64_t count;
    struct trie_key *keys = spm_choose_keys(model->file.pieces, model->file.piece_count, 1 << SPM_USER_DEFINED, &count);
    struct spm_normaliser_options options = {
        .spec = &model->file.normaliser,
        .user_defined = keys,
        .user_defined_count = count,
        .is_suffix = model->file.treat_whitespace_as_suffix,
        .name = name,
    };
    int status = spm_normaliser_create(&model->normaliser, &options);
    free(keys);
    TRY(status);
    const struct charsmap *map = &model->normaliser.map;
    if (map->replacement_bytes > 0 && utf8_check(map->replacements, map->replacement_bytes) != map->replacement_bytes)
        return error_set("%s: its normalization rules are not UTF-8; the model is damaged", name);
    if (model->file.denormaliser.charsmap.length > 0) {
        options = (struct spm_normaliser_options){.spec = &model->file.denormaliser, .name = name};
        TRY(spm_normaliser_create(&model->denormaliser, &options));
        model->has_denormaliser = true;
    }
    return 0;
}

static int create_unigram(struct spm_model *model, const char *name) {
    struct unigram *unigram = &model->unigram;
    float least = FLT_MAX;
    bool has_pieces = false;
    for (int64_t i = 0; i < model->file.piece_count; i++) {
        const struct spm_piece *piece = &model->file.pieces[i];
        has_pieces |= !spm_is(piece, SPM_RESERVED);
        if (piece->type == SPM_NORMAL && piece->score < least)
            least = piece->score;
    }
    if (!has_pieces)
        return error_set("%s has only reserved pieces; the model is damaged", name);
    build_trie(&unigram->trie, model, 1 << SPM_USER_DEFINED | 1 << SPM_NORMAL);
    unigram->scores = memory_alloc((size_t)model->file.piece_count * sizeof *unigram->scores);
    unigram->unknown_id = model->unknown_id;
    unigram->unknown_score = (double)(least - unknown_penalty);
    model->most_score = fabs(unigram->unknown_score);
    for (int64_t i = 0; i < model->file.piece_count; i++) {
        const struct spm_piece *piece = &model->file.pieces[i];
        // A user-defined symbol gains by its length, whatever its score, so that it is always chosen.
        float gain = (float)(0.1 * ((double)piece->text.length - 1));
        unigram->scores[i] = (double)(piece->type == SPM_USER_DEFINED ? gain : piece->score);
        model->most_score = fmax(model->most_score, fabs(unigram->scores[i]));
    }
    unigram->scores[model->unknown_id] = unigram->unknown_score;
    return 0;
}

static void create_whole(struct spm_model *model) {
    int64_t count;
    struct trie_key *keys = spm_choose_keys(model->pieces, model->file.piece_count, SPM_RESERVED | SPM_MERGED, &count);
    for (int64_t i = 0; i < count; i++) {
        int32_t reserved = trie_find(&model->reserved, keys[i].text, keys[i].length);
        if (reserved >= 0)
            keys[i].value = reserved;
    }
    trie_build(&model->whole, keys, count);
    free(keys);
    build_trie(&model->user_defined, model, 1 << SPM_USER_DEFINED);
}

static void join(struct spm_model *model, unsigned char a, unsigned char b) {
    model->cuts[spm_pair_index(a, b)] = 0;
}

// Records every pair of bytes in pieces that can occur. A space may also appear in the text as U+2581, so pairs with it
// are recorded for the first and the last byte of that too. No cut is made inside a character.
static void join_bytes(struct spm_model *model) {
    const unsigned char *space = (const unsigned char *)SPM_SPACE;
    for (unsigned a = 0; a < 256; a++)
        for (unsigned b = 0; b < 256; b++)
            model->cuts[spm_pair_index((unsigned char)a, (unsigned char)b)] = b < 0x80 || b >= 0xC0;
    for (int64_t i = 0; i < model->file.piece_count; i++) {
        const struct spm_piece *piece = &model->pieces[i];
        if (spm_is(piece, SPM_RESERVED) || !piece->text.data)
            continue;
        const unsigned char *text = (const unsigned char *)piece->text.data;
        for (size_t k = 1; k < piece->text.length; k++) {
            join(model, text[k - 1], text[k]);
            if (text[k] == ' ')
                join(model, text[k - 1], space[0]);
            if (text[k - 1] == ' ')
                join(model, space[2], text[k]);
            if (text[k] == ' ' && text[k - 1] == ' ')
                join(model, space[2], space[0]);
        }
    }
}

static int32_t find_control(const struct spm_model *model, struct spm_text given, const char *usual) {
    struct spm_text text = given.length > 0 ? given : (struct spm_text){usual, strlen(usual)};
    const char *end = memchr(text.data, 0, text.length);
    if (end)
        text.length = (size_t)(end - text.data);
    for (int64_t i = 0; i < model->file.piece_count; i++) {
        const struct spm_piece *piece = &model->file.pieces[i];
        if (piece->type == SPM_CONTROL && piece->text.length == text.length &&
            memcmp(piece->text.data, text.data, text.length) == 0)
            return (int32_t)i;
    }
    return -1;
}

static int build(struct spm_model *model, const char *name) {
    TRY(spm_file_parse(&model->file, model->bytes.data, model->bytes.length, name));
    TRY(check_settings(&model->file, name));
    TRY(check_pieces(model, name));
    TRY(check_duplicates(model, name));
    TRY(create_normalisers(model, name));
    fold_pieces(model);
    build_trie(&model->reserved, model, SPM_RESERVED);
    model->bos_id = find_control(model, model->file.bos_piece, "<s>");
    model->eos_id = find_control(model, model->file.eos_piece, "</s>");
    model->pad_id = find_control(model, model->file.pad_piece, "<pad>");
    if (model->file.model_type == SPM_UNIGRAM) {
        TRY(create_unigram(model, name));
    } else if (model->file.model_type == SPM_BPE) {
        spm_bpe_create(&model->bpe, &(struct spm_bpe_options){.pieces = model->pieces,
                                                              .piece_count = model->file.piece_count,
                                                              .unknown_id = model->unknown_id,
                                                              .reserved = &model->reserved});
    } else {
        create_whole(model);
    }
    join_bytes(model);
    const struct spm_normaliser_spec *spec = &model->file.normaliser;
    bool has_words = model->file.model_type == SPM_UNIGRAM || model->file.model_type == SPM_BPE;
    model->is_cut = has_words && !model->bpe.is_unused;
    model->is_raw = model->is_cut && spec->escape_whitespaces && !spec->remove_extra_whitespaces &&
                    spec->charsmap.length == 0 && !(spec->add_dummy_prefix && model->file.treat_whitespace_as_suffix);
    return 0;
}

int spm_model_parse(struct spm_model **model, const void *bytes, size_t length, const char *name) {
    *model = memory_alloc(sizeof **model);
    buffer_append(&(*model)->bytes, bytes, length);
    if (build(*model, name) == 0)
        return 0;
    spm_model_free(*model);
    *model = NULL;
    return -1;
}

int spm_model_open(struct spm_model **model, const char *path) {
    *model = NULL;
    struct buffer bytes = {0};
    int status = file_read_all(path, MAX_FILE_BYTES, &bytes);
    if (status == 0)
        status = spm_model_parse(model, buffer_string(&bytes), bytes.length, path);
    buffer_free(&bytes);
    return status;
}

void spm_model_free(struct spm_model *model) {
    if (!model)
        return;
    spm_normaliser_free(&model->normaliser);
    spm_normaliser_free(&model->denormaliser);
    trie_free(&model->reserved);
    trie_free(&model->whole);
    trie_free(&model->user_defined);
    unigram_free(&model->unigram);
    spm_bpe_free(&model->bpe);
    buffer_free(&model->folded);
    free(model->pieces);
    spm_file_free(&model->file);
    buffer_free(&model->bytes);
    free(model);
}
