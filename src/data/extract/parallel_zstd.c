// Finds the frames of the file; a ring of threads decompresses them (piece_ring.h). The reading thread itself
// decompresses frames that are large, compressed or not.
#include "data/extract/parallel_zstd.h"
#include "data/extract/piece_ring.h"
#include "data/extract/zstd_frames.h"
#include "data/bad_data.h"
#include "base/buffer.h"
#include "base/memory.h"
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

// Limits for a place, so that all of them together stay below half a gigabyte.
enum {
    SMALL_PACKED = 8 << 20,
    SMALL_PLAIN = 32 << 20,
    MOST_PLACES = 12,
    STEP_BYTES = 1 << 18,
    LARGEST_WINDOW_LOG = 31
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

// ---- decompressing ----

static int read_at(const struct parallel_zstd *zstd, struct buffer *out, uint64_t offset, size_t count) {
    buffer_clear(out);
    buffer_reserve(out, count);
    while (out->length < count) {
        ssize_t got =
            pread(zstd->descriptor, out->data + out->length, count - out->length, (off_t)(offset + out->length));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return error_set("cannot read %s at byte %" PRIu64 ": %s; check the file and the disk", zstd->name,
                             offset + out->length, got < 0 ? strerror(errno) : "it was truncated");
        out->length += (size_t)got;
    }
    return 0;
}

static int damaged(const struct parallel_zstd *zstd, uint64_t position, const char *problem) {
    return bad_data("%s: zstd data is damaged near byte %" PRIu64 ": %s; copy or download the file again", zstd->name,
                    position, problem);
}

// Decompresses a small frame: 1, 0 if its text is not small, -1 on error.
static int decode(const void *codec, const void *piece, struct buffer *plain, void *own) {
    const struct parallel_zstd *zstd = codec;
    const struct zstd_frame *frame = piece;
    struct scratch *scratch = own;
    if (frame->end - frame->begin > SMALL_PACKED)
        return 0;
    TRY(read_at(zstd, &scratch->packed, frame->begin, (size_t)(frame->end - frame->begin)));
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
            return damaged(zstd, frame->begin + in.pos, ZSTD_getErrorName(status));
        if (status != 0 && out.pos == plain->length && in.pos == before)
            return damaged(zstd, frame->end, "a frame that does not end");
        plain->length = out.pos;
        if (plain->length > SMALL_PLAIN) {
            buffer_free(plain);
            return 0;
        }
    }
    return 1;
}

static ZSTD_DCtx *new_context(void) {
    ZSTD_DCtx *context = ZSTD_createDCtx();
    if (!context || ZSTD_isError(ZSTD_DCtx_setParameter(context, ZSTD_d_windowLogMax, LARGEST_WINDOW_LOG)))
        die_code(EXIT_CODE_OUT_OF_MEMORY, "out of memory for zstd decompression");
    return context;
}

// ---- the codec of the ring ----

static int cut(void *codec, void *piece) {
    struct parallel_zstd *zstd = codec;
    struct zstd_frame *frame = piece;
    int status;
    do {
        status = zstd_frame_find(frame, zstd->descriptor, zstd->name, zstd->next_frame);
        if (status > 0)
            zstd->next_frame = frame->end;
    } while (status > 0 && frame->is_skippable);
    return status;
}

static void *create_scratch(void) {
    struct scratch *scratch = memory_alloc(sizeof *scratch);
    scratch->context = new_context();
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
        zstd->context = zstd->context ? zstd->context : new_context();
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
            TRY(read_at(zstd, &zstd->packed, zstd->large_at, part));
            zstd->large_at += part;
            zstd->packed_used = 0;
        }
        ZSTD_inBuffer in = {zstd->packed.data, zstd->packed.length, zstd->packed_used};
        ZSTD_outBuffer plain = {out, capacity, 0};
        size_t status = ZSTD_decompressStream(zstd->context, &plain, &in);
        if (ZSTD_isError(status))
            return damaged(zstd, zstd->large_at, ZSTD_getErrorName(status));
        bool is_stuck = plain.pos == 0 && in.pos == zstd->packed_used;
        zstd->packed_used = in.pos;
        zstd->position = zstd->large_at;
        zstd->large_has_ended = status == 0;
        if (plain.pos > 0 || status == 0)
            return (int64_t)plain.pos;
        if (is_stuck && zstd->large_at == frame->end)
            return damaged(zstd, frame->end, "a frame that does not end");
    }
}

int64_t parallel_zstd_read(struct parallel_zstd *zstd, void *out, size_t capacity) {
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

uint64_t parallel_zstd_input_bytes(const struct parallel_zstd *zstd) {
    return zstd->position;
}

// ---- beginning and end ----

// Are there two small frames at the beginning? Damage is found when the data is read.
static bool is_worth_it(int descriptor, const char *name) {
    struct stat status;
    if (fstat(descriptor, &status) < 0 || !S_ISREG(status.st_mode))
        return false;
    struct zstd_frame frame = {0};
    for (int found = 0; found < 2;) {
        int result = zstd_frame_find(&frame, descriptor, name, frame.end);
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

int parallel_zstd_open(struct parallel_zstd **opened, int descriptor, const char *name, int threads) {
    *opened = NULL;
    if (threads < 2 || !is_worth_it(descriptor, name))
        return 0;
    struct parallel_zstd *zstd = memory_alloc(sizeof *zstd);
    zstd->descriptor = descriptor;
    zstd->name = name;
    const struct piece_ring_options ring = {
        .functions = &frame_codec,
        .codec = zstd,
        .name = name,
        .threads = threads,
        .places = threads + 2 < MOST_PLACES ? threads + 2 : MOST_PLACES,
    };
    if (piece_ring_open(&zstd->ring, &ring) < 0) {
        parallel_zstd_close(zstd);
        return -1;
    }
    *opened = zstd;
    return 0;
}

void parallel_zstd_close(struct parallel_zstd *zstd) {
    if (!zstd)
        return;
    piece_ring_close(zstd->ring);
    ZSTD_freeDCtx(zstd->context);
    buffer_free(&zstd->packed);
    free(zstd);
}
