// A reader of protocol buffers, as far as SentencePiece needs one. A message is a run of fields: a tag (number and wire
// type) and a value. As in Google's library, unknown fields, fields of an unexpected wire type and unknown members of
// an enumeration are skipped, the last of equal fields counts, and messages given in parts are merged.
#include "data/tokenizer/spm_model.h"
#include "data/tokenizer/token_list.h"
#include "base/error.h"
#include "base/memory.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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

int spm_file_parse(struct spm_file *file, const void *bytes, size_t length, const char *name) {
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

void spm_file_free(struct spm_file *file) {
    free(file->pieces);
    *file = (struct spm_file){0};
}
