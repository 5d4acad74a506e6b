// Reads an indexed dataset through two maps. Opening is O(1): it verifies that the arrays lie inside .idx and that .idx
// and .bin fit together at both ends. The rest is checked by index_verify or, for the part that is read, by index_read;
// so no damaged file can make a read leave its map.
#include "data/index/index.h"

#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>

static int check_header(struct index_reader *r, uint64_t *sequences, uint64_t *boundaries) {
    if (r->files.index.size < INDEX_HEADER_BYTES)
        return bad_data("%s.idx: %zu bytes, but a header has %d: the file is truncated; " INDEX_REMEDY, r->files.prefix,
                        r->files.index.size, INDEX_HEADER_BYTES);
    if (memcmp(r->files.index.data, INDEX_MAGIC, INDEX_MAGIC_BYTES) != 0)
        return bad_data("%s.idx: byte 0: this is not a Megatron index, which starts with MMIDIDX; give the prefix of a "
                        "dataset made by `preprocess`",
                        r->files.prefix);
    uint64_t version;
    memcpy(&version, r->files.index.data + 9, sizeof version);
    if (version != 1)
        return bad_data("%s.idx: byte 9: version %" PRIu64 ", but only version 1 is supported; " INDEX_REMEDY,
                        r->files.prefix, version);
    r->dtype = (enum index_dtype)r->files.index.data[17];
    r->item_bytes = index_dtype_bytes(r->dtype);
    if (r->item_bytes == 0)
        return bad_data("%s.idx: byte 17: dtype code %d is not between 1 and 8; " INDEX_REMEDY, r->files.prefix,
                        (int)r->dtype);
    memcpy(sequences, r->files.index.data + 18, sizeof *sequences);
    memcpy(boundaries, r->files.index.data + 26, sizeof *boundaries);
    return 0;
}

// The file must hold exactly the arrays implied by S and D, optionally followed by the modes of a multimodal dataset.
static int check_size(struct index_reader *r, uint64_t sequences, uint64_t boundaries) {
    uint64_t size = r->files.index.size;
    if (boundaries == 0)
        return bad_data("%s.idx: byte 26: no document boundary, but there is always a first one; " INDEX_REMEDY,
                        r->files.prefix);
    if (sequences > size / 12 || boundaries > size / 8)
        return bad_data("%s.idx: bytes 18 to 33: %" PRIu64 " sequences and %" PRIu64
                        " document boundaries do not fit a file of %" PRIu64
                        " bytes: it is truncated or damaged; " INDEX_REMEDY,
                        r->files.prefix, sequences, boundaries, size);
    uint64_t expected = INDEX_HEADER_BYTES + 12 * sequences + 8 * boundaries;
    if (size != expected && size != expected + sequences)
        return bad_data("%s.idx: %" PRIu64 " bytes, but %" PRIu64 " sequences and %" PRIu64
                        " document boundaries (bytes 18 to 33) take %" PRIu64 "; " INDEX_REMEDY,
                        r->files.prefix, size, sequences, boundaries, expected);
    r->sequence_count = (int64_t)sequences;
    r->document_count = (int64_t)boundaries - 1;
    return 0;
}

static int check_boundaries(const struct index_reader *r) {
    int64_t first = index_document_begin(r, 0), last = index_document_begin(r, r->document_count);
    if (first != 0)
        return bad_data("%s.idx: byte %" PRId64 ": the first document starts at sequence %" PRId64
                        " instead of 0; " INDEX_REMEDY,
                        r->files.prefix, index_boundary_byte(r, 0), first);
    if (last != r->sequence_count)
        return bad_data("%s.idx: byte %" PRId64 ": the documents end at sequence %" PRId64 ", but there are %" PRId64
                        "; " INDEX_REMEDY,
                        r->files.prefix, index_boundary_byte(r, r->document_count), last, r->sequence_count);
    return 0;
}

// .bin must end where the last sequence does: this detects a truncated, grown or swapped file without reading all of
// it.
static int check_tokens(struct index_reader *r) {
    uint64_t described = 0;
    if (r->sequence_count > 0) {
        int64_t last = r->sequence_count - 1, pointer = index_pointer(r, last), length = index_length(r, last);
        if (length < 0)
            return bad_data("%s.idx: byte %" PRId64 ": sequence %" PRId64 " has length %" PRId64 "; " INDEX_REMEDY,
                            r->files.prefix, index_length_byte(last), last, length);
        if (pointer < 0 || pointer > INT64_MAX / 2)
            return bad_data("%s.idx: byte %" PRId64 ": sequence %" PRId64 " starts at byte %" PRId64
                            " of .bin, which is impossible; " INDEX_REMEDY,
                            r->files.prefix, index_pointer_byte(r, last), last, pointer);
        if (index_pointer(r, 0) != 0)
            return bad_data("%s.idx: byte %" PRId64 ": sequence 0 starts at byte %" PRId64
                            " of .bin instead of 0; " INDEX_REMEDY,
                            r->files.prefix, index_pointer_byte(r, 0), index_pointer(r, 0));
        described = (uint64_t)pointer + (uint64_t)length * r->item_bytes;
    }
    if (r->files.tokens.size != described)
        return bad_data("%s.bin: %zu bytes, but %s.idx describes %" PRIu64 ": %s; " INDEX_REMEDY, r->files.prefix,
                        r->files.tokens.size, r->files.prefix, described,
                        r->files.tokens.size < described ? "the file is truncated" : "the two do not belong together");
    r->token_count = (int64_t)(r->files.tokens.size / r->item_bytes);
    return 0;
}

static int check(struct index_reader *r) {
    uint64_t sequences = 0, boundaries = 0;
    TRY(check_header(r, &sequences, &boundaries));
    TRY(check_size(r, sequences, boundaries));
    TRY(check_boundaries(r));
    return check_tokens(r);
}

// Takes over the files, also on error.
static int open_files(struct index_reader **reader, struct index_files files) {
    struct index_reader *r = memory_alloc(sizeof *r);
    r->files = files;
    if (check(r) < 0) {
        index_close(r);
        r = NULL;
    }
    *reader = r;
    return r ? 0 : -1;
}

int index_open(struct index_reader **reader, const char *prefix) {
    struct index_files files;
    *reader = NULL;
    TRY(index_files_map(&files, prefix));
    return open_files(reader, files);
}

int index_open_bytes(struct index_reader **reader, const char *prefix, struct file_map index, struct file_map tokens) {
    return open_files(reader, index_files_in_memory(prefix, index, tokens));
}

void index_close(struct index_reader *reader) {
    if (!reader)
        return;
    index_files_close(&reader->files);
    free(reader);
}

void index_release(const struct index_reader *reader) {
    index_files_release(&reader->files);
}

int index_read(const struct index_reader *r, int64_t sequence, int64_t offset, int64_t count, int32_t *out) {
    CHECK(sequence >= 0 && sequence < r->sequence_count);
    int64_t length = index_length(r, sequence), pointer = index_pointer(r, sequence);
    if (offset < 0 || count < 0 || offset > length || count > length - offset)
        return bad_data("%s.idx: byte %" PRId64 ": sequence %" PRId64 " has %" PRId64 " tokens, but %" PRId64
                        " from position %" PRId64 " were requested; " INDEX_REMEDY,
                        r->files.prefix, index_length_byte(sequence), sequence, length, count, offset);
    if (pointer < 0 || (uint64_t)pointer > r->files.tokens.size ||
        (uint64_t)length * r->item_bytes > r->files.tokens.size - (uint64_t)pointer)
        return bad_data("%s.idx: byte %" PRId64 ": sequence %" PRId64 " (%" PRId64 " tokens at byte %" PRId64
                        ") lies outside %s.bin; " INDEX_REMEDY,
                        r->files.prefix, index_pointer_byte(r, sequence), sequence, length, pointer, r->files.prefix);
    if (!index_dtype_is_integer(r->dtype))
        return bad_data("%s.idx: byte 17: the dataset holds %s, which are not token ids", r->files.prefix,
                        index_dtype_name(r->dtype));
    if (count == 0)
        return 0;
    int64_t good = index_decode(r->dtype, r->files.tokens.data + pointer + (size_t)offset * r->item_bytes, count, out);
    if (good < count)
        return bad_data("%s.bin: byte %" PRIu64 ": token %" PRId64 " of sequence %" PRId64
                        " does not fit 32 bits, so it is not a token id; " INDEX_REMEDY,
                        r->files.prefix, (uint64_t)pointer + (uint64_t)(offset + good) * r->item_bytes, offset + good,
                        sequence);
    return 0;
}

int index_read_ids(const struct index_reader *r, struct index_piece piece, int64_t vocab_size, int32_t *out) {
    TRY(index_read(r, piece.sequence, piece.offset, piece.count, out));
    int64_t limit = vocab_size > 0 ? vocab_size : (int64_t)INT32_MAX + 1;
    int64_t inside = index_find_outside(out, piece.count, limit);
    if (inside < piece.count)
        return bad_data("%s.bin: token %" PRId64 " of sequence %" PRId64 " is %" PRId32
                        ", beyond the vocabulary of %" PRId64 "; use the tokenizer that made this dataset",
                        r->files.prefix, piece.offset + inside, piece.sequence, out[inside], vocab_size);
    return 0;
}

struct index_document index_document(const struct index_reader *r, int64_t document) {
    struct index_document found = {.first_sequence = index_document_begin(r, document)};
    int64_t end = index_document_begin(r, document + 1);
    found.sequence_count = end - found.first_sequence;
    if (found.sequence_count == 0)
        return found;
    found.begin_byte = (uint64_t)index_pointer(r, found.first_sequence);
    found.bytes =
        (uint64_t)index_pointer(r, end - 1) + (uint64_t)index_length(r, end - 1) * r->item_bytes - found.begin_byte;
    return found;
}

// ---- every entry ----

static void release_sometimes(const struct index_reader *r, int64_t entry) {
    if (entry % (INDEX_RELEASE_BYTES / 16) == INDEX_RELEASE_BYTES / 16 - 1)
        index_release(r);
}

static int verify_sequences(const struct index_reader *r) {
    int64_t expected = 0;
    for (int64_t i = 0; i < r->sequence_count; i++) {
        int64_t length = index_length(r, i), pointer = index_pointer(r, i);
        if (length < 0)
            return bad_data("%s.idx: byte %" PRId64 ": sequence %" PRId64 " has length %" PRId64 "; " INDEX_REMEDY,
                            r->files.prefix, index_length_byte(i), i, length);
        if (pointer != expected || (uint64_t)length * r->item_bytes > r->files.tokens.size - (uint64_t)expected)
            return bad_data(
                "%s.idx: byte %" PRId64 ": sequence %" PRId64 " starts at byte %" PRId64 " of .bin and has %" PRId64
                " tokens, but the lengths before it add up to %" PRId64 " of %zu bytes; " INDEX_REMEDY,
                r->files.prefix, index_pointer_byte(r, i), i, pointer, length, expected, r->files.tokens.size);
        expected += length * (int64_t)r->item_bytes;
        release_sometimes(r, i);
    }
    return 0;
}

static int verify_documents(const struct index_reader *r) {
    int64_t before = 0;
    for (int64_t i = 0; i <= r->document_count; i++) {
        int64_t begin = index_document_begin(r, i);
        if (begin < before || begin > r->sequence_count)
            return bad_data("%s.idx: byte %" PRId64 ": document boundary %" PRId64 " is sequence %" PRId64
                            ", but it must lie between %" PRId64 " and %" PRId64 "; " INDEX_REMEDY,
                            r->files.prefix, index_boundary_byte(r, i), i, begin, before, r->sequence_count);
        before = begin;
        release_sometimes(r, i);
    }
    return 0;
}

int index_verify(const struct index_reader *reader) {
    TRY(verify_sequences(reader));
    return verify_documents(reader);
}

// The last sequence that begins at or before a byte of .bin; pointers are known to be in order.
static int64_t sequence_at(const struct index_reader *r, int64_t byte) {
    int64_t low = 0, high = r->sequence_count;
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        if (index_pointer(r, middle) <= byte)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static int bad_token(const struct index_reader *r, int64_t token, int64_t vocab_size) {
    int64_t byte = token * (int64_t)r->item_bytes, sequence = sequence_at(r, byte);
    int64_t position = (byte - index_pointer(r, sequence)) / (int64_t)r->item_bytes;
    int32_t value;
    if (index_decode(r->dtype, r->files.tokens.data + byte, 1, &value) == 0)
        return bad_data("%s.bin: byte %" PRId64 ": token %" PRId64 " of sequence %" PRId64
                        " does not fit 32 bits, so it is not a token id; " INDEX_REMEDY,
                        r->files.prefix, byte, position, sequence);
    if (value < 0)
        return bad_data("%s.bin: byte %" PRId64 ": token %" PRId64 " of sequence %" PRId64 " is %" PRId32
                        ", but ids are not negative; " INDEX_REMEDY,
                        r->files.prefix, byte, position, sequence, value);
    return bad_data("%s.bin: byte %" PRId64 ": token %" PRId64 " of sequence %" PRId64 " is %" PRId32
                    ", beyond the vocabulary of %" PRId64 "; use the tokenizer that made this dataset",
                    r->files.prefix, byte, position, sequence, value, vocab_size);
}

int index_verify_tokens(const struct index_reader *r, int64_t vocab_size) {
    enum { CHUNK = 1 << 13 };
    int32_t tokens[CHUNK];
    if (!index_dtype_is_integer(r->dtype))
        return bad_data("%s.idx: byte 17: the dataset holds %s, which are not token ids", r->files.prefix,
                        index_dtype_name(r->dtype));
    TRY(index_verify(r));
    int64_t limit = vocab_size > 0 ? vocab_size : (int64_t)INT32_MAX + 1;
    for (int64_t done = 0; done < r->token_count; done += CHUNK) {
        int64_t part = r->token_count - done < CHUNK ? r->token_count - done : CHUNK;
        int64_t good = index_decode(r->dtype, r->files.tokens.data + (size_t)done * r->item_bytes, part, tokens);
        int64_t inside = index_find_outside(tokens, good, limit);
        if (inside < part)
            return bad_token(r, done + inside, vocab_size);
        if (done / CHUNK % 1024 == 1023)
            index_release(r);
    }
    return 0;
}
