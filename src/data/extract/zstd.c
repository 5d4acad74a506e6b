// Zstandard with libzstd, which skips skippable frames itself. Windows up to 2 GiB are accepted, since archives made
// with `zstd --long=31` need them.
//
// A file of several frames (pzstd, seekable files, concatenated files) is decompressed by a ring of threads
// (piece_ring.h). Frames are found by their block headers (RFC 8878, section 3.1), so no seek table is needed. The
// reading thread itself decompresses frames that are large, compressed or not.
#include "data/extract/codec.h"
#include "data/extract/piece_ring.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

enum { LARGEST_WINDOW_LOG = 31, PACK_LEVEL = 3 };

// NULL if memory is short.
static ZSTD_DCtx *new_context(void) {
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (context && !ZSTD_isError(ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, LARGEST_WINDOW_LOG)))
        return context;
    ZSTD_freeDCtx(context);
    return NULL;
}

static int zstd_open(void **state, int threads) {
    (void)threads;
    *state = new_context();
    return *state ? 0 : error_set_code(EXIT_CODE_OUT_OF_MEMORY, "out of memory for zstd decompression");
}

static void zstd_close(void *state) {
    ZSTD_freeDCtx(state);
}

static int zstd_step(void *state, struct codec_io *io) {
    ZSTD_inBuffer in = {io->in, io->in_bytes, 0};
    ZSTD_outBuffer out = {io->out, io->out_bytes, 0};
    size_t status = ZSTD_decompressStream(state, &out, &in);
    io->in += in.pos;
    io->in_bytes -= in.pos;
    io->out += out.pos;
    io->out_bytes -= out.pos;
    io->between = status == 0;  // the current frame is complete and fully written out
    if (ZSTD_isError(status)) {
        io->problem = ZSTD_getErrorName(status);
        return -1;
    }
    return 0;
}

static uint64_t zstd_memory(void *state) {
    return ZSTD_sizeof_DCtx(state);
}

int pack_zstd(struct buffer *out, const void *bytes, size_t count) {
    size_t bound = ZSTD_compressBound(count);
    buffer_reserve(out, bound);
    size_t packed = ZSTD_compress(out->data + out->length, bound, bytes, count, PACK_LEVEL);
    if (ZSTD_isError(packed))
        return error_set("zstd compression failed: %s", ZSTD_getErrorName(packed));
    out->length += packed;
    out->data[out->length] = '\0';
    return 0;
}

// ---- frames ----

// Reads up to count bytes: how many, fewer only at the end of the file, -1 on error.
static int64_t read_at(int descriptor, const char *name, void *out, size_t count, uint64_t offset) {
    size_t got = file_read_at(descriptor, out, count, offset);
    if (got < count && errno)
        return error_set("cannot read %s at byte %" PRIu64 ": %s; check the file and the disk", name, offset + got,
                         strerror(errno));
    return (int64_t)got;
}

struct zstd_frame {
    uint64_t begin, end;  // bytes of the file
    bool is_skippable;    // it holds no data
};

static int damaged(const char *name, uint64_t position, const char *problem) {
    return bad_data("%s: zstd data is damaged near byte %" PRIu64 ": %s; copy or download the file again", name,
                    position, problem);
}

enum { LONGEST_HEADER = 18, BLOCK_HEADER = 3, CHECKSUM_BYTES = 4, BLOCK_RLE = 1, BLOCK_RESERVED = 3 };

struct frame_walk {
    int descriptor;
    const char *name;
    uint64_t at;
};

static int cut_short(const struct frame_walk *walk) {
    return bad_data("%s: zstd data is truncated: the file ends at byte %" PRIu64
                    " inside a compressed stream; copy or download it again",
                    walk->name, walk->at);
}

// Bytes of a frame's header after its magic number, given its first byte.
static size_t header_bytes(unsigned char descriptor) {
    static const size_t dictionary_bytes[] = {0, 1, 2, 4};
    bool is_single = descriptor >> 5 & 1;
    size_t content = (size_t)1 << (descriptor >> 6);
    if (descriptor >> 6 == 0)
        content = is_single;
    return (size_t)(is_single ? 1 : 2) + dictionary_bytes[descriptor & 3] + content;
}

static int walk_blocks(struct frame_walk *walk, bool has_checksum) {
    bool is_last = false;
    while (!is_last) {
        unsigned char bytes[BLOCK_HEADER];
        int64_t got = read_at(walk->descriptor, walk->name, bytes, sizeof bytes, walk->at);
        TRY((int)got);
        if (got < BLOCK_HEADER)
            return cut_short(walk);
        uint32_t header = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16;
        uint32_t type = header >> 1 & 3;
        if (type == BLOCK_RESERVED)
            return damaged(walk->name, walk->at, "a block of a reserved type");
        is_last = header & 1;
        walk->at += BLOCK_HEADER + (type == BLOCK_RLE ? 1 : header >> 3);
    }
    walk->at += has_checksum ? CHECKSUM_BYTES : 0;
    return 0;
}

static int walk_frame(struct frame_walk *walk, struct zstd_frame *frame) {
    unsigned char bytes[LONGEST_HEADER];
    int64_t got = read_at(walk->descriptor, walk->name, bytes, sizeof bytes, walk->at);
    TRY((int)got);
    if (got == 0)
        return 0;
    if (got < 5)
        return cut_short(walk);
    uint32_t magic;
    memcpy(&magic, bytes, sizeof magic);
    frame->is_skippable = (magic & 0xFFFFFFF0) == 0x184D2A50;
    if (frame->is_skippable) {
        uint32_t length;
        if (got < 8)
            return cut_short(walk);
        memcpy(&length, bytes + 4, sizeof length);
        walk->at += 8 + (uint64_t)length;
        return 1;
    }
    if (magic != 0xFD2FB528)
        return damaged(walk->name, walk->at, "no frame starts here");
    walk->at += 4 + header_bytes(bytes[4]);
    TRY(walk_blocks(walk, bytes[4] >> 2 & 1));
    return 1;
}

// The frame at byte `begin` of a regular file: 1, 0 at the end of the file, -1 with a message if there is none or it is
// truncated. name is for messages.
static int find_frame(struct zstd_frame *frame, int descriptor, const char *name, uint64_t begin) {
    struct frame_walk walk = {descriptor, name, begin};
    *frame = (struct zstd_frame){.begin = begin};
    int status = walk_frame(&walk, frame);
    if (status <= 0)
        return status;
    unsigned char last;
    frame->end = walk.at--;
    int64_t got = read_at(descriptor, name, &last, 1, walk.at);
    TRY((int)got);
    if (got == 0)
        return cut_short(&walk);
    return 1;
}

// ---- several threads ----

// Limits for a place, so that all of them together stay below half a gigabyte.
enum {
    SMALL_PACKED = 8 << 20,
    SMALL_PLAIN = 32 << 20,
    MOST_PLACES = 12,
    STEP_BYTES = 1 << 18,
};

struct parallel_zstd {
    int descriptor;
    const char *name;
    struct piece_ring *ring;
    uint64_t next_frame;  // byte where it begins; used by the cutting thread
    // Used by the reading thread only:
    uint64_t position;
    ZSTD_DCtx *context;    // for large frames
    struct buffer packed;  // the last bytes read of a large frame
    size_t packed_used;
    uint64_t large_at;     // next byte of the file to read; 0 if no large frame was started
    bool large_has_ended;  // its last bytes were delivered
};

// Memory of a helper thread.
struct scratch {
    ZSTD_DCtx *context;
    struct buffer packed;
};

// Reads a part of a frame that was found whole.
static int read_packed(const struct parallel_zstd *zstd, struct buffer *out, uint64_t offset, size_t count) {
    buffer_clear(out);
    buffer_reserve(out, count);
    int64_t got = read_at(zstd->descriptor, zstd->name, out->data, count, offset);
    if (got >= 0 && (size_t)got < count)
        return error_set("cannot read %s at byte %" PRIu64 ": it was truncated; check the file and the disk",
                         zstd->name, offset + (uint64_t)got);
    out->length = count;
    return got < 0 ? -1 : 0;
}

// Decompresses a small frame: 1, 0 if its text is not small, -1 on error.
static int decode(const void *codec, void *piece, struct buffer *plain, void *own) {
    const struct parallel_zstd *zstd = codec;
    const struct zstd_frame *frame = piece;
    struct scratch *scratch = own;
    if (frame->end - frame->begin > SMALL_PACKED)
        return 0;
    TRY(read_packed(zstd, &scratch->packed, frame->begin, (size_t)(frame->end - frame->begin)));
    ZSTD_DCtx_reset(scratch->context, ZSTD_reset_session_only);
    ZSTD_inBuffer in = {scratch->packed.data, scratch->packed.length, 0};
    buffer_clear(plain);
    size_t status = 1;
    while (status != 0) {
        buffer_reserve(plain, STEP_BYTES);
        ZSTD_outBuffer out = {plain->data, plain->capacity - 1, plain->length};
        size_t before = in.pos;
        status = ZSTD_decompressStream(scratch->context, &out, &in);
        if (ZSTD_isError(status))
            return damaged(zstd->name, frame->begin + in.pos, ZSTD_getErrorName(status));
        if (status != 0 && out.pos == plain->length && in.pos == before)
            return damaged(zstd->name, frame->end, "a frame that does not end");
        plain->length = out.pos;
        if (plain->length > SMALL_PLAIN) {
            buffer_free(plain);
            return 0;
        }
    }
    return 1;
}

static ZSTD_DCtx *require_context(void) {
    ZSTD_DCtx *context = new_context();
    if (!context)
        die_code(EXIT_CODE_OUT_OF_MEMORY, "out of memory for zstd decompression");
    return context;
}

// ---- the functions of the ring ----

static int cut(void *codec, void *piece) {
    struct parallel_zstd *zstd = codec;
    struct zstd_frame *frame = piece;
    int status;
    do {
        status = find_frame(frame, zstd->descriptor, zstd->name, zstd->next_frame);
        if (status > 0)
            zstd->next_frame = frame->end;
    } while (status > 0 && frame->is_skippable);
    return status;
}

static void *create_scratch(void) {
    struct scratch *scratch = memory_alloc(sizeof *scratch);
    scratch->context = require_context();
    return scratch;
}

static void free_scratch(void *own) {
    struct scratch *scratch = own;
    ZSTD_freeDCtx(scratch->context);
    buffer_free(&scratch->packed);
    free(scratch);
}

static const struct piece_codec frame_codec = {
    .piece_bytes = sizeof(struct zstd_frame),
    .cut = cut,
    .decode = decode,
    .create_scratch = create_scratch,
    .free_scratch = free_scratch,
};

// ---- the reading thread ----

// Reads more of a large frame: the number of bytes, 0 if it has ended.
static int64_t read_large(struct parallel_zstd *zstd, const struct zstd_frame *frame, void *out, size_t capacity) {
    if (zstd->large_at == 0) {
        zstd->context = zstd->context ? zstd->context : require_context();
        ZSTD_DCtx_reset(zstd->context, ZSTD_reset_session_only);
        buffer_clear(&zstd->packed);
        zstd->packed_used = 0;
        zstd->large_at = frame->begin;
        zstd->large_has_ended = false;
    }
    if (zstd->large_has_ended)
        return 0;
    for (;;) {
        if (zstd->packed_used == zstd->packed.length) {
            uint64_t left = frame->end - zstd->large_at;
            size_t part = left < STEP_BYTES ? (size_t)left : STEP_BYTES;
            TRY(read_packed(zstd, &zstd->packed, zstd->large_at, part));
            zstd->large_at += part;
            zstd->packed_used = 0;
        }
        ZSTD_inBuffer in = {zstd->packed.data, zstd->packed.length, zstd->packed_used};
        ZSTD_outBuffer plain = {out, capacity, 0};
        size_t status = ZSTD_decompressStream(zstd->context, &plain, &in);
        if (ZSTD_isError(status))
            return damaged(zstd->name, zstd->large_at, ZSTD_getErrorName(status));
        bool is_stuck = plain.pos == 0 && in.pos == zstd->packed_used;
        zstd->packed_used = in.pos;
        zstd->position = zstd->large_at;
        zstd->large_has_ended = status == 0;
        if (plain.pos > 0 || status == 0)
            return (int64_t)plain.pos;
        if (is_stuck && zstd->large_at == frame->end)
            return damaged(zstd->name, frame->end, "a frame that does not end");
    }
}

static int64_t parallel_read(void *state, void *out, size_t capacity) {
    struct parallel_zstd *zstd = state;
    for (;;) {
        struct piece_place *oldest;
        int status = piece_ring_wait(zstd->ring, &oldest);
        if (status <= 0)
            return status;
        const struct zstd_frame *frame = oldest->piece;
        int64_t done;
        if (oldest->is_decoded) {
            zstd->position = frame->end;
            done = (int64_t)piece_ring_read(zstd->ring, out, capacity);
        } else {
            done = read_large(zstd, frame, out, capacity);
            if (done == 0) {
                zstd->large_at = 0;
                piece_ring_release(zstd->ring);
            }
        }
        if (done != 0)
            return done;
    }
}

static uint64_t parallel_position(const void *state) {
    return ((const struct parallel_zstd *)state)->position;
}

// ---- beginning and end ----

// Are there two small frames at the beginning? Damage is found when the data is read.
static bool is_worth_it(int descriptor, const char *name) {
    struct stat status;
    if (fstat(descriptor, &status) < 0 || !S_ISREG(status.st_mode))
        return false;
    struct zstd_frame frame = {0};
    for (int found = 0; found < 2;) {
        int result = find_frame(&frame, descriptor, name, frame.end);
        if (result <= 0) {
            error_clear();
            return false;
        }
        if (!frame.is_skippable && frame.end - frame.begin > SMALL_PACKED)
            return false;
        found += !frame.is_skippable;
    }
    return true;
}

static void parallel_close(void *state) {
    struct parallel_zstd *zstd = state;
    piece_ring_close(zstd->ring);
    ZSTD_freeDCtx(zstd->context);
    buffer_free(&zstd->packed);
    free(zstd);
}

static int parallel_open(void **state, const struct codec_file *file) {
    *state = NULL;
    if (!is_worth_it(file->descriptor, file->name))
        return 0;
    struct parallel_zstd *zstd = memory_alloc(sizeof *zstd);
    zstd->descriptor = file->descriptor;
    zstd->name = file->name;
    const struct piece_ring_options ring = {
        .functions = &frame_codec,
        .codec = zstd,
        .name = file->name,
        .threads = file->threads,
        .places = file->threads + 2 < MOST_PLACES ? file->threads + 2 : MOST_PLACES,
    };
    if (piece_ring_open(&zstd->ring, &ring) < 0) {
        parallel_close(zstd);
        return -1;
    }
    *state = zstd;
    return 0;
}

static const struct codec_parallel parallel = {parallel_open, parallel_read, parallel_position, parallel_close};
const struct codec codec_zstd = {.name = "zstd",
                                 .open = zstd_open,
                                 .memory = zstd_memory,
                                 .step = zstd_step,
                                 .close = zstd_close,
                                 .parallel = &parallel};
