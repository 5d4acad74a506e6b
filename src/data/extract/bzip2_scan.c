// However a mark lies across byte boundaries (8 ways), at least two of its bytes are whole bytes of the file. A table
// over pairs of bytes finds the places worth a closer look, about one in four thousand.
#include "data/extract/bzip2_scan.h"
#include "base/error.h"
#include "base/memory.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { READ_BYTES = 1 << 18, HEADER_BYTES = 4 };

struct bzip2_scan {
    int descriptor;
    const char *name;
    unsigned char *data;  // the file from byte `position` on, as far as it was read
    size_t length, capacity;
    uint64_t position;
    bool ended;  // the end of the file was read
    size_t bit;  // of data, where the current block begins
    bool in_stream;
    unsigned char is_candidate[1 << 16];
};

struct bzip2_scan *bzip2_scan_create(int descriptor, const char *name, const void *begin, size_t begin_bytes) {
    struct bzip2_scan *scan = memory_alloc(sizeof *scan);
    scan->descriptor = descriptor;
    scan->name = name;
    scan->capacity = begin_bytes + READ_BYTES;
    scan->data = memory_alloc(scan->capacity);
    memcpy(scan->data, begin, begin_bytes);
    scan->length = begin_bytes;
    for (unsigned shift = 0; shift < 8; shift++) {
        scan->is_candidate[(BZIP2_BLOCK_MARK >> (16 + shift)) & 0xFFFF] = 1;
        scan->is_candidate[(BZIP2_END_MARK >> (16 + shift)) & 0xFFFF] = 1;
    }
    return scan;
}

void bzip2_scan_free(struct bzip2_scan *scan) {
    if (!scan)
        return;
    free(scan->data);
    free(scan);
}

// ---- bytes and bits ----

static int read_more(struct bzip2_scan *scan) {
    if (scan->capacity - scan->length < READ_BYTES) {
        scan->capacity = 2 * scan->capacity + READ_BYTES;
        scan->data = memory_realloc(scan->data, scan->capacity);
    }
    ssize_t got;
    do
        got = read(scan->descriptor, scan->data + scan->length, READ_BYTES);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return error_set("cannot read %s at byte %" PRIu64 ": %s; check the file and the disk", scan->name,
                         scan->position + scan->length, strerror(errno));
    scan->length += (size_t)got;
    scan->ended = got == 0;
    return 0;
}

// Drops the bytes before `byte`.
static void advance(struct bzip2_scan *scan, size_t byte) {
    memmove(scan->data, scan->data + byte, scan->length - byte);
    scan->length -= byte;
    scan->position += byte;
}

uint64_t bzip2_bits(const unsigned char *bytes, size_t bit, size_t count) {
    uint64_t window = 0;
    size_t last = (bit + count - 1) / 8;
    for (size_t i = bit / 8; i <= last; i++)
        window = window << 8 | bytes[i];
    return window >> (7 - (bit + count - 1) % 8) & ((UINT64_C(1) << count) - 1);
}

// The mark at a bit, if there is one.
static uint64_t mark_at(const struct bzip2_scan *scan, size_t bit) {
    return bzip2_bits(scan->data, bit, BZIP2_MARK_BITS);
}

static bool has_bits(const struct bzip2_scan *scan, size_t bit, size_t count) {
    return bit + count <= 8 * scan->length;
}

static bool is_header(const unsigned char *bytes) {
    return memcmp(bytes, "BZh", 3) == 0 && bytes[3] >= '1' && bytes[3] <= '9';
}

// ---- marks ----

// The first bit from `from` on where a mark of either kind begins in the data read so far, or SIZE_MAX.
static size_t find_mark(const struct bzip2_scan *scan, size_t from) {
    const unsigned char *data = scan->data;
    for (size_t byte = from / 8; byte + 7 <= scan->length; byte++) {
        if (!scan->is_candidate[data[byte + 2] << 8 | data[byte + 3]])
            continue;
        for (size_t bit = 8 * byte; bit < 8 * byte + 8; bit++) {
            if (bit < from || !has_bits(scan, bit, BZIP2_MARK_BITS))
                continue;
            uint64_t bits = mark_at(scan, bit);
            if (bits == BZIP2_BLOCK_MARK || bits == BZIP2_END_MARK)
                return bit;
        }
    }
    // The last byte of the file may complete a mark that begins on a byte.
    if (scan->ended && scan->length >= 6 && 8 * (scan->length - 6) >= from) {
        uint64_t bits = mark_at(scan, 8 * (scan->length - 6));
        if (bits == BZIP2_BLOCK_MARK || bits == BZIP2_END_MARK)
            return 8 * (scan->length - 6);
    }
    return SIZE_MAX;
}

// Whether the file ends or the next stream begins after an end mark and its checksum. The caller has read enough bytes.
static bool is_true_end(const struct bzip2_scan *scan, size_t mark, size_t *next_byte) {
    if (!has_bits(scan, mark, BZIP2_MARK_BITS + BZIP2_CHECKSUM_BITS))
        return false;
    *next_byte = (mark + BZIP2_MARK_BITS + BZIP2_CHECKSUM_BITS + 7) / 8;
    size_t rest = scan->length - *next_byte;
    if (rest == 0)
        return scan->ended;
    return rest >= HEADER_BYTES && is_header(scan->data + *next_byte);
}

// Whether a complete end mark is followed by bytes that cannot begin a stream.
static bool has_garbage(const struct bzip2_scan *scan, size_t mark) {
    size_t after = (mark + BZIP2_MARK_BITS + BZIP2_CHECKSUM_BITS + 7) / 8,
           rest = scan->length > after ? scan->length - after : 0;
    return rest > 0 && memcmp(scan->data + after, "BZh", rest < 3 ? rest : 3) != 0;
}

// ---- pieces ----

static int damaged(const struct bzip2_scan *scan, size_t bit, const char *problem) {
    return bad_data("%s: bzip2 data is damaged near byte %" PRIu64 ": %s; copy or download the file again", scan->name,
                    scan->position + bit / 8, problem);
}

static void copy_bits(struct bzip2_piece *piece, const unsigned char *from, size_t bit, size_t count) {
    size_t bytes = (count + 7) / 8, shift = bit % 8;
    if (piece->capacity < bytes + 1) {
        piece->capacity = bytes + bytes / 4 + 1;
        piece->bytes = memory_realloc(piece->bytes, piece->capacity);
    }
    const unsigned char *source = from + bit / 8;
    size_t last = (bit % 8 + count - 1) / 8;  // index of the last source byte that holds a bit
    for (size_t i = 0; i < bytes; i++) {
        unsigned low = shift && i + 1 <= last ? (unsigned)source[i + 1] >> (8 - shift) : 0;
        piece->bytes[i] = (unsigned char)((unsigned)source[i] << shift | low);
    }
    piece->bits = count;
}

// Opens the next stream: 1, 0 at the end of the file.
static int begin_stream(struct bzip2_scan *scan) {
    while (!scan->ended && scan->length < HEADER_BYTES + 16)
        TRY(read_more(scan));
    if (scan->length == 0)
        return 0;
    if (scan->length < HEADER_BYTES || !is_header(scan->data))
        return damaged(scan, 0, "not a bzip2 stream");
    scan->bit = 8 * HEADER_BYTES;
    scan->in_stream = true;
    return 1;
}

// A mark that was verified.
struct mark {
    size_t bit;
    bool is_end;
    size_t next_byte;  // after the end of a stream
};

// Finds the next verified mark from `from` on; reads more as needed.
static int next_mark(struct bzip2_scan *scan, size_t from, struct mark *mark) {
    enum { AFTER_MARK = (BZIP2_MARK_BITS + BZIP2_CHECKSUM_BITS) / 8 + HEADER_BYTES + 2 };
    *mark = (struct mark){0};
    size_t garbage = 0;  // the bit where it begins
    for (;;) {
        mark->bit = find_mark(scan, from);
        bool is_found = mark->bit != SIZE_MAX;
        bool is_near_end = is_found && !has_bits(scan, mark->bit, 8 * AFTER_MARK);
        if ((!is_found || is_near_end) && !scan->ended) {
            if (is_near_end)
                from = mark->bit;
            else if (8 * scan->length > from + 8 * 8)
                from = 8 * (scan->length - 8);
            if (scan->length > BZIP2_LONGEST_BLOCK + scan->bit / 8)
                return damaged(scan, scan->bit, "a block without an end");
            TRY(read_more(scan));
            continue;
        }
        if (!is_found && garbage)
            return damaged(scan, garbage, "the data after the end of a stream is not a bzip2 stream");
        if (!is_found)
            return bad_data("%s: bzip2 data is truncated: the file ends at byte %" PRIu64
                            " inside a compressed stream; copy or download it again",
                            scan->name, scan->position + scan->length);
        mark->is_end = mark_at(scan, mark->bit) == BZIP2_END_MARK;
        if (!mark->is_end || is_true_end(scan, mark->bit, &mark->next_byte))
            return 0;
        if (has_garbage(scan, mark->bit))
            garbage = mark->bit + BZIP2_MARK_BITS + BZIP2_CHECKSUM_BITS + 7;
        from = mark->bit + 1;
    }
}

// The block at scan->bit, or the end mark of an empty stream: then *piece has no bits.
static int take_piece(struct bzip2_scan *scan, struct bzip2_piece *piece) {
    while (!scan->ended && !has_bits(scan, scan->bit, 8 * 32))
        TRY(read_more(scan));
    size_t begin = scan->bit;
    uint64_t first = has_bits(scan, begin, BZIP2_MARK_BITS) ? mark_at(scan, begin) : 0;
    if (first != BZIP2_BLOCK_MARK && first != BZIP2_END_MARK && scan->ended && scan->length < begin / 8 + 32)
        return bad_data("%s: bzip2 data is truncated: the file ends at byte %" PRIu64
                        " inside a compressed stream; copy or download it again",
                        scan->name, scan->position + scan->length);
    if (first != BZIP2_BLOCK_MARK && first != BZIP2_END_MARK)
        return damaged(scan, begin, "no block where one should start");
    struct mark mark;
    TRY(next_mark(scan, first == BZIP2_END_MARK ? begin : begin + BZIP2_MARK_BITS, &mark));
    uint32_t checksum =
        mark.is_end ? (uint32_t)bzip2_bits(scan->data, mark.bit + BZIP2_MARK_BITS, BZIP2_CHECKSUM_BITS) : 0;
    if (first == BZIP2_END_MARK && (mark.bit != begin || checksum != 0))
        return damaged(scan, begin, "an empty stream with a checksum");
    piece->bits = 0;
    if (first == BZIP2_BLOCK_MARK)
        copy_bits(piece, scan->data, begin, mark.bit - begin);
    size_t after = mark.is_end ? mark.next_byte : mark.bit / 8;
    piece->position = scan->position + begin / 8;
    piece->ends_stream = mark.is_end;
    piece->stream_checksum = checksum;
    piece->position_after = scan->position + after;
    scan->in_stream = !mark.is_end;
    scan->bit = mark.bit % 8;
    advance(scan, after);
    return 0;
}

int bzip2_scan_next(struct bzip2_scan *scan, struct bzip2_piece *piece) {
    do {
        if (!scan->in_stream) {
            int status = begin_stream(scan);
            if (status <= 0)
                return status;
        }
        TRY(take_piece(scan, piece));
    } while (piece->bits == 0);
    return 1;
}

void bzip2_piece_join(struct bzip2_piece *a, const struct bzip2_piece *b) {
    size_t bits = a->bits + b->bits, bytes = (bits + 7) / 8 + 1, shift = a->bits % 8;
    if (a->capacity < bytes) {
        a->capacity = bytes;
        a->bytes = memory_realloc(a->bytes, bytes);
    }
    unsigned char *out = a->bytes + a->bits / 8;
    if (shift)
        *out = (unsigned char)(*out & 0xFF << (8 - shift));
    for (size_t i = 0; i < (b->bits + 7) / 8; i++) {
        if (shift) {
            out[i] = (unsigned char)(out[i] | b->bytes[i] >> shift);
            out[i + 1] = (unsigned char)(b->bytes[i] << (8 - shift));
        } else {
            out[i] = b->bytes[i];
        }
    }
    a->bits = bits;
    a->ends_stream = b->ends_stream;
    a->stream_checksum = b->stream_checksum;
    a->position_after = b->position_after;
}
