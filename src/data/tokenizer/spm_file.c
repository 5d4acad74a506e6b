// A reader of protocol buffers, as far as SentencePiece needs one. A message is a run of fields: a tag (number and wire
// type) and a value. As in Google's library, unknown fields, fields of an unexpected wire type and unknown members of
// an enumeration are skipped, the last of equal fields counts, and messages given in parts are merged.
#include "data/tokenizer/spm_model.h"
#include "data/tokenizer/token_list.h"
#include "base/error.h"
#include "base/memory.h"
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

// A reader for the message inside the field just read.
static struct wire_reader inside(const struct wire_reader *reader, const struct wire_field *field) {
    struct wire_reader inner = *reader;
    inner.at = (const unsigned char *)field->bytes.data;
    inner.end = inner.at + field->bytes.length;
    return inner;
}

// The setters take a field if its wire type matches.
static void take_bool(const struct wire_field *field, bool *value) {
    if (field->wire == WIRE_VARINT)
        *value = field->value != 0;
}

static void take_text(const struct wire_field *field, struct spm_text *value) {
    if (field->wire == WIRE_BYTES)
        *value = field->bytes;
}

static int read_piece(struct wire_reader reader, struct spm_piece *piece) {
    *piece = (struct spm_piece){.type = SPM_NORMAL};
    while (reader.at < reader.end) {
        struct wire_field field;
        TRY(read_field(&reader, &field));
        if (field.number == 1) {
            take_text(&field, &piece->text);
        } else if (field.number == 2 && field.wire == WIRE_32) {
            uint32_t bits = (uint32_t)field.value;
            memcpy(&piece->score, &bits, sizeof bits);
        } else if (field.number == 3 && field.wire == WIRE_VARINT && field.value >= SPM_NORMAL &&
                   field.value <= SPM_BYTE) {
            piece->type = (enum spm_piece_type)field.value;
        }
    }
    return 0;
}

static int read_trainer(struct wire_reader reader, struct spm_file *file) {
    while (reader.at < reader.end) {
        struct wire_field field;
        TRY(read_field(&reader, &field));
        switch (field.number) {
        case 3:
            if (field.wire == WIRE_VARINT && field.value >= SPM_UNIGRAM && field.value <= SPM_CHAR)
                file->model_type = (enum spm_model_type)field.value;
            break;
        case 24:
            take_bool(&field, &file->treat_whitespace_as_suffix);
            break;
        case 35:
            take_bool(&field, &file->byte_fallback);
            break;
        case 44:
            take_text(&field, &file->unknown_surface);
            break;
        case 45:
            take_text(&field, &file->unknown_piece);
            break;
        case 46:
            take_text(&field, &file->bos_piece);
            break;
        case 47:
            take_text(&field, &file->eos_piece);
            break;
        case 48:
            take_text(&field, &file->pad_piece);
            break;
        }
    }
    return 0;
}

static int read_normaliser(struct wire_reader reader, struct spm_normaliser_spec *spec) {
    while (reader.at < reader.end) {
        struct wire_field field;
        TRY(read_field(&reader, &field));
        switch (field.number) {
        case 2:
            take_text(&field, &spec->charsmap);
            break;
        case 3:
            take_bool(&field, &spec->add_dummy_prefix);
            break;
        case 4:
            take_bool(&field, &spec->remove_extra_whitespaces);
            break;
        case 5:
            take_bool(&field, &spec->escape_whitespaces);
            break;
        }
    }
    return 0;
}

static int read_part(const struct wire_reader *reader, const struct wire_field *field, struct spm_file *file,
                     int64_t *piece_capacity) {
    switch (field->number) {
    case 1:
        file->pieces = list_grow(file->pieces, file->piece_count, piece_capacity, sizeof *file->pieces);
        return read_piece(inside(reader, field), &file->pieces[file->piece_count++]);
    case 2:
        file->has_trainer = true;
        return read_trainer(inside(reader, field), file);
    case 3:
        file->has_normaliser = true;
        return read_normaliser(inside(reader, field), &file->normaliser);
    case 5:
        return read_normaliser(inside(reader, field), &file->denormaliser);
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
