// Reads fairseq's datasets as hostile files: opening proves that all arrays lie inside .idx, walking that the items
// follow each other through .bin without gap or overlap.
#include "data/index/fairseq_reader.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/bad_data.h"
#include "data/index/index.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define REMEDY "copy both files again or run fairseq-preprocess anew"

enum { MMAP_HEADER_BYTES = 26, TORCHNET_HEADER_BYTES = 48 };

static uint64_t u64_at(const struct fairseq_reader *r, uint64_t byte) {
    uint64_t value;
    memcpy(&value, r->index.data + byte, sizeof value);
    return value;
}

// Bytes of a token, 0 for what is no integer.
static size_t code_bytes(uint64_t code) {
    static const unsigned char bytes[] = {0, 1, 1, 2, 4, 8, 0, 0, 2, 4, 8};
    return code < sizeof bytes ? bytes[code] : 0;
}

static int check_version_and_code(struct fairseq_reader *r, uint64_t version, uint64_t code, int code_byte) {
    if (version != 1)
        return bad_data("%s.idx: version %" PRIu64 ", but only version 1 is known; " REMEDY, r->prefix, version);
    r->item_bytes = code_bytes(code);
    if (r->item_bytes == 0)
        return bad_data("%s.idx: byte %d: dtype code %" PRIu64 " is none of an integer (1 to 5, 8 to 10); " REMEDY,
                        r->prefix, code_byte, code);
    r->code = (int)code;
    return 0;
}

static int check_mmap(struct fairseq_reader *r) {
    if (r->index.size < MMAP_HEADER_BYTES)
        return bad_data("%s.idx: %zu bytes, but a header has %d: the file is cut short; " REMEDY, r->prefix,
                        r->index.size, MMAP_HEADER_BYTES);
    TRY(check_version_and_code(r, u64_at(r, 9), r->index.data[17], 17));
    uint64_t items = u64_at(r, 18), size = r->index.size;
    if (items <= size / 12 && size != MMAP_HEADER_BYTES + 12 * items && size > MMAP_HEADER_BYTES + 12 * items)
        return bad_data("%s.idx: %" PRIu64 " bytes, but %" PRIu64 " items take %" PRIu64
                        "; if this is a Megatron dataset, it needs no import",
                        r->prefix, size, items, MMAP_HEADER_BYTES + 12 * items);
    if (items > size / 12 || size != MMAP_HEADER_BYTES + 12 * items)
        return bad_data("%s.idx: %" PRIu64 " items (byte 18) do not fit a file of %" PRIu64
                        " bytes: it is cut short or damaged; " REMEDY,
                        r->prefix, items, size);
    r->item_count = (int64_t)items;
    return 0;
}

static int check_torchnet(struct fairseq_reader *r) {
    if (r->index.size < TORCHNET_HEADER_BYTES + 16)
        return bad_data("%s.idx: %zu bytes, but a header has %d: the file is cut short; " REMEDY, r->prefix,
                        r->index.size, TORCHNET_HEADER_BYTES + 16);
    TRY(check_version_and_code(r, u64_at(r, 8), u64_at(r, 16), 16));
    if (u64_at(r, 24) != r->item_bytes)
        return bad_data("%s.idx: byte 24: tokens of %" PRIu64 " bytes, but dtype code %d has %zu; " REMEDY, r->prefix,
                        u64_at(r, 24), r->code, r->item_bytes);
    uint64_t items = u64_at(r, 32), dimensions = u64_at(r, 40), size = r->index.size;
    if (dimensions != items)
        return bad_data("%s.idx: byte 40: %" PRIu64 " items with %" PRIu64
                        " dimensions; those of a text have one each, so this is none",
                        r->prefix, items, dimensions);
    if (items > size / 24 || size != TORCHNET_HEADER_BYTES + 16 + 24 * items)
        return bad_data("%s.idx: %" PRIu64 " items (byte 32) do not fit a file of %" PRIu64
                        " bytes: it is cut short or damaged; " REMEDY,
                        r->prefix, items, size);
    r->is_torchnet = true;
    r->item_count = (int64_t)items;
    return 0;
}

static int check(struct fairseq_reader *r) {
    if (r->index.size >= 9 && memcmp(r->index.data, "MMIDIDX\0", 9) == 0)
        TRY(check_mmap(r));
    else if (r->index.size >= 8 && memcmp(r->index.data, "TNTIDX\0", 8) == 0)
        TRY(check_torchnet(r));
    else if (r->index.size >= 4 && memcmp(r->index.data, "HUFF", 4) == 0)
        return bad_data("%s.idx: this is a Huffman-coded dataset, which is not supported; run fairseq-preprocess with "
                        "--dataset-impl mmap",
                        r->prefix);
    else
        return bad_data("%s.idx: byte 0: this is no index of fairseq (it would begin with MMIDIDX or TNTIDX); give the "
                        "prefix of what fairseq-preprocess wrote, as in data-bin/train",
                        r->prefix);
    if (r->tokens.size % r->item_bytes != 0)
        return bad_data("%s.bin: %zu bytes are no whole number of tokens of %zu bytes: the file is cut short; " REMEDY,
                        r->prefix, r->tokens.size, r->item_bytes);
    r->token_count = (int64_t)(r->tokens.size / r->item_bytes);
    return 0;
}

static int map_file(struct file_map *map, const char *prefix, const char *extension) {
    char *path = memory_printf("%s.%s", prefix, extension);
    int result;
    if (!file_exists(path))
        result = error_set("cannot open the dataset %s: %s does not exist; give the path of the pair of files without "
                           ".bin or .idx, as in data-bin/train",
                           prefix, path);
    else
        result = file_map_open(map, path);
    free(path);
    return result;
}

int fairseq_reader_open(struct fairseq_reader **reader, const char *prefix) {
    struct fairseq_reader *r = memory_alloc(sizeof *r);
    r->prefix = memory_string(prefix);
    r->is_mapped = true;
    if (map_file(&r->index, prefix, "idx") < 0 || map_file(&r->tokens, prefix, "bin") < 0 || check(r) < 0) {
        fairseq_reader_close(r);
        r = NULL;
    }
    *reader = r;
    return r ? 0 : -1;
}

int fairseq_reader_open_bytes(struct fairseq_reader **reader, const char *prefix, struct file_map index,
                              struct file_map tokens) {
    struct fairseq_reader *r = memory_alloc(sizeof *r);
    r->prefix = memory_string(prefix);
    r->index = index;
    r->tokens = tokens;
    if (check(r) < 0) {
        fairseq_reader_close(r);
        r = NULL;
    }
    *reader = r;
    return r ? 0 : -1;
}

void fairseq_reader_close(struct fairseq_reader *reader) {
    if (!reader)
        return;
    if (reader->is_mapped) {
        file_map_close(&reader->index);
        file_map_close(&reader->tokens);
    }
    free(reader->prefix);
    free(reader);
}

void fairseq_release(const struct fairseq_reader *reader) {
    if (!reader->is_mapped)
        return;
    file_map_release(&reader->index, 0, reader->index.size);
    file_map_release(&reader->tokens, 0, reader->tokens.size);
}

// ---- items ----

// What .idx says of an item: its length and its first token. A pointer inside a token gives a place that cannot be.
static void describe(const struct fairseq_reader *r, int64_t item, int64_t *length, uint64_t *first) {
    uint64_t n = (uint64_t)r->item_count, i = (uint64_t)item;
    if (r->is_torchnet) {
        bool has_one_dimension = u64_at(r, TORCHNET_HEADER_BYTES + 8 * i) == i;
        *length = has_one_dimension ? (int64_t)u64_at(r, TORCHNET_HEADER_BYTES + 16 + 16 * n + 8 * i) : -1;
        *first = u64_at(r, TORCHNET_HEADER_BYTES + 8 + 8 * n + 8 * i);
        return;
    }
    int32_t size;
    memcpy(&size, r->index.data + MMAP_HEADER_BYTES + 4 * i, sizeof size);
    uint64_t pointer = u64_at(r, MMAP_HEADER_BYTES + 4 * n + 8 * i);
    *length = size;
    *first = pointer % r->item_bytes ? UINT64_MAX : pointer / r->item_bytes;
}

// The ends of TorchNet's two lists of places, which have one entry more than there are items.
static int check_last(const struct fairseq_reader *r) {
    if (!r->is_torchnet)
        return 0;
    uint64_t n = (uint64_t)r->item_count;
    uint64_t dimensions = u64_at(r, TORCHNET_HEADER_BYTES + 8 * n);
    uint64_t tokens = u64_at(r, TORCHNET_HEADER_BYTES + 8 + 16 * n);
    if (dimensions != n || tokens != (uint64_t)r->token_count)
        return bad_data("%s.idx: the last entries say %" PRIu64 " dimensions and %" PRIu64
                        " tokens, but there are %" PRIu64 " and %" PRId64 "; " REMEDY,
                        r->prefix, dimensions, tokens, n, r->token_count);
    return 0;
}

int fairseq_walk_next(struct fairseq_walk *walk, uint64_t *first_token, int64_t *length) {
    const struct fairseq_reader *r = walk->reader;
    if (walk->next == r->item_count) {
        if (walk->next_token != (uint64_t)r->token_count)
            return bad_data("%s.bin: %" PRId64 " tokens, but %s.idx describes %" PRIu64
                            ": the two do not belong together; " REMEDY,
                            r->prefix, r->token_count, r->prefix, walk->next_token);
        return check_last(r);
    }
    describe(r, walk->next, length, first_token);
    uint64_t left = (uint64_t)r->token_count - walk->next_token;
    if (*length < 0 || *length > INT32_MAX || (uint64_t)*length > left || *first_token != walk->next_token)
        return bad_data("%s.idx: item %" PRId64 " has %" PRId64 " tokens from token %" PRId64
                        " on, but it should begin at %" PRIu64 " of %" PRId64 "; " REMEDY,
                        r->prefix, walk->next, *length, (int64_t)*first_token, walk->next_token, r->token_count);
    walk->next++;
    walk->next_token += (uint64_t)*length;
    return 1;
}

// One token as the number it is; that of an unsigned type beyond int64 is negative, which is refused all the same.
static int64_t token_at(const struct fairseq_reader *r, const unsigned char *from) {
    union {
        uint8_t u8;
        int8_t i8;
        int16_t i16;
        uint16_t u16;
        int32_t i32;
        uint32_t u32;
        int64_t i64;
    } token;
    memcpy(&token, from, r->item_bytes);
    switch (r->code) {
    case INDEX_U8:
        return token.u8;
    case INDEX_I8:
        return token.i8;
    case INDEX_I16:
        return token.i16;
    case INDEX_I32:
        return token.i32;
    case INDEX_U16:
        return token.u16;
    case 9:
        return token.u32;
    default:
        return token.i64;
    }
}

int fairseq_read(const struct fairseq_reader *r, uint64_t first, int64_t count, int32_t *out) {
    CHECK(count >= 0 && first <= (uint64_t)r->token_count && (uint64_t)count <= (uint64_t)r->token_count - first);
    for (int64_t i = 0; i < count; i++) {
        uint64_t byte = (first + (uint64_t)i) * r->item_bytes;
        int64_t id = token_at(r, r->tokens.data + byte);
        if (id < r->is_torchnet || id - r->is_torchnet > INT32_MAX)
            return bad_data("%s.bin: byte %" PRIu64 ": %" PRId64 " is no token; " REMEDY, r->prefix, byte, id);
        out[i] = (int32_t)(id - r->is_torchnet);
    }
    return 0;
}
