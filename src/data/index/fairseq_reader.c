// Reads fairseq's datasets as untrusted files: opening verifies that all arrays lie inside .idx, and walking verifies
// that the items follow each other through .bin without gap or overlap.
#include "data/index/fairseq_reader.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/index/index.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define REMEDY "copy both files again, or run fairseq-preprocess again"

enum { MMAP_HEADER_BYTES = 26, TORCHNET_HEADER_BYTES = 48 };
// dtype codes of fairseq that are not in enum index_dtype.
enum { FAIRSEQ_U32 = 9, FAIRSEQ_U64 = 10 };

static uint64_t u64_at(const struct fairseq_reader *r, uint64_t byte) {
    uint64_t value;
    memcpy(&value, r->files.index.data + byte, sizeof value);
    return value;
}

// Bytes of a token, 0 if the type is not an integer.
static size_t code_bytes(uint64_t code) {
    if (code == FAIRSEQ_U32)
        return 4;
    if (code == FAIRSEQ_U64)
        return 8;
    bool is_shared = code <= INDEX_U16 && index_dtype_is_integer((enum index_dtype)code);
    return is_shared ? index_dtype_bytes((enum index_dtype)code) : 0;
}

static int check_version_and_code(struct fairseq_reader *r, uint64_t version, uint64_t code, int code_byte) {
    if (version != 1)
        return bad_data("%s.idx: version %" PRIu64 ", but only version 1 is supported; " REMEDY, r->files.prefix,
                        version);
    r->item_bytes = code_bytes(code);
    if (r->item_bytes == 0)
        return bad_data("%s.idx: byte %d: dtype code %" PRIu64 " is not that of an integer (1 to 5, 8 to 10); " REMEDY,
                        r->files.prefix, code_byte, code);
    r->code = (int)code;
    return 0;
}

static int check_mmap(struct fairseq_reader *r) {
    if (r->files.index.size < MMAP_HEADER_BYTES)
        return bad_data("%s.idx: %zu bytes, but a header has %d: the file is truncated; " REMEDY, r->files.prefix,
                        r->files.index.size, MMAP_HEADER_BYTES);
    TRY(check_version_and_code(r, u64_at(r, 9), r->files.index.data[17], 17));
    uint64_t items = u64_at(r, 18), size = r->files.index.size;
    bool is_possible = items <= size / 12;  // so the product below does not overflow
    uint64_t expected = is_possible ? MMAP_HEADER_BYTES + 12 * items : 0;
    if (is_possible && size > expected)
        return bad_data("%s.idx: %" PRIu64 " bytes, but %" PRIu64 " items take %" PRIu64
                        "; if this is a Megatron dataset, it needs no import",
                        r->files.prefix, size, items, expected);
    if (size != expected)
        return bad_data("%s.idx: %" PRIu64 " items (byte 18) do not fit a file of %" PRIu64
                        " bytes: it is truncated or damaged; " REMEDY,
                        r->files.prefix, items, size);
    r->item_count = (int64_t)items;
    return 0;
}

static int check_torchnet(struct fairseq_reader *r) {
    if (r->files.index.size < TORCHNET_HEADER_BYTES + 16)
        return bad_data("%s.idx: %zu bytes, but a header has %d: the file is truncated; " REMEDY, r->files.prefix,
                        r->files.index.size, TORCHNET_HEADER_BYTES + 16);
    TRY(check_version_and_code(r, u64_at(r, 8), u64_at(r, 16), 16));
    if (u64_at(r, 24) != r->item_bytes)
        return bad_data("%s.idx: byte 24: tokens of %" PRIu64 " bytes, but dtype code %d has %zu; " REMEDY,
                        r->files.prefix, u64_at(r, 24), r->code, r->item_bytes);
    uint64_t items = u64_at(r, 32), dimensions = u64_at(r, 40), size = r->files.index.size;
    if (dimensions != items)
        return bad_data("%s.idx: byte 40: %" PRIu64 " items with %" PRIu64
                        " dimensions; those of a text have one each, so this is not text",
                        r->files.prefix, items, dimensions);
    if (items > size / 24 || size != TORCHNET_HEADER_BYTES + 16 + 24 * items)
        return bad_data("%s.idx: %" PRIu64 " items (byte 32) do not fit a file of %" PRIu64
                        " bytes: it is truncated or damaged; " REMEDY,
                        r->files.prefix, items, size);
    r->is_torchnet = true;
    r->item_count = (int64_t)items;
    return 0;
}

static int check(struct fairseq_reader *r) {
    if (r->files.index.size >= INDEX_MAGIC_BYTES && memcmp(r->files.index.data, INDEX_MAGIC, INDEX_MAGIC_BYTES) == 0)
        TRY(check_mmap(r));
    else if (r->files.index.size >= 8 && memcmp(r->files.index.data, "TNTIDX\0", 8) == 0)
        TRY(check_torchnet(r));
    else if (r->files.index.size >= 4 && memcmp(r->files.index.data, "HUFF", 4) == 0)
        return bad_data("%s.idx: this is a Huffman-coded dataset, which is not supported; run fairseq-preprocess with "
                        "--dataset-impl mmap",
                        r->files.prefix);
    else
        return bad_data("%s.idx: byte 0: this is not a fairseq index, which starts with MMIDIDX or TNTIDX; give the "
                        "prefix that fairseq-preprocess wrote, e.g. data-bin/train",
                        r->files.prefix);
    if (r->files.tokens.size % r->item_bytes != 0)
        return bad_data(
            "%s.bin: %zu bytes are not a whole number of tokens of %zu bytes: the file is truncated; " REMEDY,
            r->files.prefix, r->files.tokens.size, r->item_bytes);
    r->token_count = (int64_t)(r->files.tokens.size / r->item_bytes);
    return 0;
}

// Takes over the files, also on error.
static int open_files(struct fairseq_reader **reader, struct index_files files) {
    struct fairseq_reader *r = memory_alloc(sizeof *r);
    r->files = files;
    if (check(r) < 0) {
        fairseq_reader_close(r);
        r = NULL;
    }
    *reader = r;
    return r ? 0 : -1;
}

int fairseq_reader_open(struct fairseq_reader **reader, const char *prefix) {
    struct index_files files;
    *reader = NULL;
    TRY(index_files_map(&files, prefix));
    return open_files(reader, files);
}

int fairseq_reader_open_bytes(struct fairseq_reader **reader, const char *prefix, struct file_map index,
                              struct file_map tokens) {
    return open_files(reader, index_files_in_memory(prefix, index, tokens));
}

void fairseq_reader_close(struct fairseq_reader *reader) {
    if (!reader)
        return;
    index_files_close(&reader->files);
    free(reader);
}

void fairseq_release(const struct fairseq_reader *reader) {
    index_files_release(&reader->files);
}

// ---- items ----

// Length and first token of an item according to .idx. A pointer into the middle of a token gives an impossible
// position.
static void describe(const struct fairseq_reader *r, int64_t item, int64_t *length, uint64_t *first) {
    uint64_t n = (uint64_t)r->item_count, i = (uint64_t)item;
    if (r->is_torchnet) {
        bool has_one_dimension = u64_at(r, TORCHNET_HEADER_BYTES + 8 * i) == i;
        *length = has_one_dimension ? (int64_t)u64_at(r, TORCHNET_HEADER_BYTES + 16 + 16 * n + 8 * i) : -1;
        *first = u64_at(r, TORCHNET_HEADER_BYTES + 8 + 8 * n + 8 * i);
        return;
    }
    int32_t size;
    memcpy(&size, r->files.index.data + MMAP_HEADER_BYTES + 4 * i, sizeof size);
    uint64_t pointer = u64_at(r, MMAP_HEADER_BYTES + 4 * n + 8 * i);
    *length = size;
    *first = pointer % r->item_bytes ? UINT64_MAX : pointer / r->item_bytes;
}

// Checks the ends of TorchNet's two lists of offsets, which have one entry more than there are items.
static int check_last(const struct fairseq_reader *r) {
    if (!r->is_torchnet)
        return 0;
    uint64_t n = (uint64_t)r->item_count;
    uint64_t dimensions = u64_at(r, TORCHNET_HEADER_BYTES + 8 * n);
    uint64_t tokens = u64_at(r, TORCHNET_HEADER_BYTES + 8 + 16 * n);
    if (dimensions != n || tokens != (uint64_t)r->token_count)
        return bad_data("%s.idx: the last entries say %" PRIu64 " dimensions and %" PRIu64
                        " tokens, but there are %" PRIu64 " and %" PRId64 "; " REMEDY,
                        r->files.prefix, dimensions, tokens, n, r->token_count);
    return 0;
}

int fairseq_walk_next(struct fairseq_walk *walk, uint64_t *first_token, int64_t *length) {
    const struct fairseq_reader *r = walk->reader;
    if (walk->next == r->item_count) {
        if (walk->next_token != (uint64_t)r->token_count)
            return bad_data("%s.bin: %" PRId64 " tokens, but %s.idx describes %" PRIu64
                            ": the two do not belong together; " REMEDY,
                            r->files.prefix, r->token_count, r->files.prefix, walk->next_token);
        return check_last(r);
    }
    describe(r, walk->next, length, first_token);
    uint64_t left = (uint64_t)r->token_count - walk->next_token;
    if (*length < 0 || *length > INT32_MAX || (uint64_t)*length > left || *first_token != walk->next_token)
        return bad_data("%s.idx: item %" PRId64 " has %" PRId64 " tokens from token %" PRId64
                        " on, but it should begin at %" PRIu64 " of %" PRId64 "; " REMEDY,
                        r->files.prefix, walk->next, *length, (int64_t)*first_token, walk->next_token, r->token_count);
    walk->next++;
    walk->next_token += (uint64_t)*length;
    return 1;
}

// One token as a number. A u64 above INT64_MAX becomes negative, which is refused anyway.
static int64_t token_at(const struct fairseq_reader *r, const unsigned char *from) {
    bool is_signed = r->code == INDEX_I8 || r->code == INDEX_I16 || r->code == INDEX_I32 || r->code == INDEX_I64;
    const unsigned unused_bits = 64 - 8 * (unsigned)r->item_bytes;
    uint64_t value = 0;
    memcpy(&value, from, r->item_bytes);
    return is_signed ? (int64_t)(value << unused_bits) >> unused_bits : (int64_t)value;
}

int fairseq_read(const struct fairseq_reader *r, uint64_t first, int64_t count, int32_t *out) {
    CHECK(count >= 0 && first <= (uint64_t)r->token_count && (uint64_t)count <= (uint64_t)r->token_count - first);
    for (int64_t i = 0; i < count; i++) {
        uint64_t byte = (first + (uint64_t)i) * r->item_bytes;
        int64_t id = token_at(r, r->files.tokens.data + byte);
        if (id < r->is_torchnet || id - r->is_torchnet > INT32_MAX)
            return bad_data("%s.bin: byte %" PRIu64 ": %" PRId64 " is not a token; " REMEDY, r->files.prefix, byte, id);
        out[i] = (int32_t)(id - r->is_torchnet);
    }
    return 0;
}
