// A ring of places: helper threads take turns to find the next frame and decompress it, the reading thread takes
// results in order. A frame that is large, compressed or not, is left to the reading thread.
#include "data/extract/parallel_zstd.h"
#include "data/extract/zstd_frames.h"
#include "data/bad_data.h"
#include "base/buffer.h"
#include "base/memory.h"
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

// What a place may hold, so that all of them stay below half a gigabyte.
enum {
    SMALL_PACKED = 8 << 20,
    SMALL_PLAIN = 32 << 20,
    MOST_PLACES = 12,
    STEP_BYTES = 1 << 18,
    LARGEST_WINDOW_LOG = 31
};

enum place_state { PLACE_FREE, PLACE_BUSY, PLACE_DONE, PLACE_LARGE, PLACE_ERROR };

struct place {
    enum place_state state;
    struct zstd_frame frame;
    struct buffer plain;
    struct error_note *error;
};

struct parallel_zstd {
    int descriptor;
    const char *name;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct place *places;  // (place_count) frame n is in place n % place_count
    int64_t place_count, produced, taken;
    bool finding, ended, stopped;
    uint64_t next_frame;  // byte where it begins; of the thread that is finding
    pthread_t *threads;
    int thread_count;
    // Of the reading thread alone:
    size_t used;  // bytes of the oldest place's result that are handed out
    uint64_t position;
    ZSTD_DCtx *context;    // for large frames
    struct buffer packed;  // of a large frame: what was read of it last
    size_t packed_used;
    uint64_t large_at;  // byte of the file that is read next; 0 if no large frame is begun
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
                             offset + out->length, got < 0 ? strerror(errno) : "it has become shorter");
        out->length += (size_t)got;
    }
    return 0;
}

static int damaged(const struct parallel_zstd *zstd, uint64_t position, const char *problem) {
    return bad_data("%s: zstd data is damaged near byte %" PRIu64 ": %s; copy or download the file again", zstd->name,
                    position, problem);
}

// Decompresses a small frame: 1, 0 if its text is not small, -1 on error.
static int decode(const struct parallel_zstd *zstd, struct place *place, ZSTD_DCtx *context, struct buffer *packed) {
    const struct zstd_frame *frame = &place->frame;
    struct buffer *plain = &place->plain;
    if (frame->end - frame->begin > SMALL_PACKED)
        return 0;
    TRY(read_at(zstd, packed, frame->begin, (size_t)(frame->end - frame->begin)));
    ZSTD_DCtx_reset(context, ZSTD_reset_session_only);
    ZSTD_inBuffer in = {packed->data, packed->length, 0};
    buffer_clear(plain);
    size_t status = 1;
    while (status != 0) {
        buffer_reserve(plain, STEP_BYTES);
        ZSTD_outBuffer out = {plain->data, plain->capacity - 1, plain->length};
        size_t before = in.pos;
        status = ZSTD_decompressStream(context, &out, &in);
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

// ---- helper threads ----

static struct place *place_of(const struct parallel_zstd *zstd, int64_t number) {
    return &zstd->places[number % zstd->place_count];
}

static int find_data_frame(struct parallel_zstd *zstd, struct zstd_frame *frame) {
    int status;
    do {
        status = zstd_frame_find(frame, zstd->descriptor, zstd->name, zstd->next_frame);
        if (status > 0)
            zstd->next_frame = frame->end;
    } while (status > 0 && frame->is_skippable);
    return status;
}

// Finds and decompresses one frame; called and left with the lock held.
static void work_once(struct parallel_zstd *zstd, ZSTD_DCtx *context, struct buffer *packed) {
    struct place *place = place_of(zstd, zstd->produced);
    zstd->finding = true;
    pthread_mutex_unlock(&zstd->lock);
    int status = find_data_frame(zstd, &place->frame);
    struct error_note *error = status < 0 ? error_take() : NULL;
    pthread_mutex_lock(&zstd->lock);
    zstd->finding = false;
    zstd->ended = status <= 0;
    if (status != 0)
        zstd->produced++;
    place->state = status < 0 ? PLACE_ERROR : status > 0 ? PLACE_BUSY : PLACE_FREE;
    place->error = error;
    pthread_cond_broadcast(&zstd->changed);
    if (status <= 0)
        return;
    pthread_mutex_unlock(&zstd->lock);
    status = decode(zstd, place, context, packed);
    error = status < 0 ? error_take() : NULL;
    pthread_mutex_lock(&zstd->lock);
    place->state = status < 0 ? PLACE_ERROR : status > 0 ? PLACE_DONE : PLACE_LARGE;
    place->error = error;
    pthread_cond_broadcast(&zstd->changed);
}

static void *helper_main(void *argument) {
    struct parallel_zstd *zstd = argument;
    struct buffer packed = {0};
    ZSTD_DCtx *context = new_context();
    pthread_mutex_lock(&zstd->lock);
    while (!zstd->stopped && !zstd->ended) {
        if (!zstd->finding && zstd->produced - zstd->taken < zstd->place_count)
            work_once(zstd, context, &packed);
        else
            pthread_cond_wait(&zstd->changed, &zstd->lock);
    }
    pthread_mutex_unlock(&zstd->lock);
    ZSTD_freeDCtx(context);
    buffer_free(&packed);
    return NULL;
}

// ---- the reading thread ----

// Waits for the oldest place: 1, 0 at the end, -1 on its error.
static int wait_oldest(struct parallel_zstd *zstd, struct place **oldest) {
    pthread_mutex_lock(&zstd->lock);
    struct place *place = place_of(zstd, zstd->taken);
    while (zstd->taken == zstd->produced ? !zstd->ended : place->state == PLACE_BUSY)
        pthread_cond_wait(&zstd->changed, &zstd->lock);
    bool is_there = zstd->taken < zstd->produced;
    struct error_note *error = place->error;
    if (is_there)
        place->error = NULL;
    pthread_mutex_unlock(&zstd->lock);
    *oldest = place;
    if (!is_there)
        return 0;
    if (place->state != PLACE_ERROR)
        return 1;
    return error ? error_give(error) : error_set("%s cannot be read further after an error", zstd->name);
}

static void release_oldest(struct parallel_zstd *zstd) {
    pthread_mutex_lock(&zstd->lock);
    struct place *place = place_of(zstd, zstd->taken);
    zstd->position = place->frame.end;
    place->state = PLACE_FREE;
    zstd->taken++;
    pthread_cond_broadcast(&zstd->changed);
    pthread_mutex_unlock(&zstd->lock);
    zstd->used = 0;
    zstd->large_at = 0;
}

// More of a large frame: how many bytes, 0 if it has ended.
static int64_t read_large(struct parallel_zstd *zstd, const struct zstd_frame *frame, void *out, size_t capacity) {
    if (zstd->large_at == 0) {
        zstd->context = zstd->context ? zstd->context : new_context();
        ZSTD_DCtx_reset(zstd->context, ZSTD_reset_session_only);
        buffer_clear(&zstd->packed);
        zstd->packed_used = 0;
        zstd->large_at = frame->begin;
    }
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
        if (plain.pos > 0)
            return (int64_t)plain.pos;
        if (status == 0)
            return 0;
        if (is_stuck && zstd->large_at == frame->end)
            return damaged(zstd, frame->end, "a frame that does not end");
    }
}

int64_t parallel_zstd_read(struct parallel_zstd *zstd, void *out, size_t capacity) {
    for (;;) {
        struct place *oldest;
        int status = wait_oldest(zstd, &oldest);
        if (status <= 0)
            return status;
        int64_t done;
        if (oldest->state == PLACE_LARGE) {
            done = read_large(zstd, &oldest->frame, out, capacity);
            TRY((int)(done < 0 ? -1 : 0));
            if (done == 0)
                release_oldest(zstd);
        } else {
            size_t left = oldest->plain.length - zstd->used;
            size_t part = left < capacity ? left : capacity;
            if (part)
                memcpy(out, oldest->plain.data + zstd->used, part);
            zstd->used += part;
            done = (int64_t)part;
            if (zstd->used == oldest->plain.length)
                release_oldest(zstd);
        }
        if (done > 0)
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
    pthread_mutex_init(&zstd->lock, NULL);
    pthread_cond_init(&zstd->changed, NULL);
    zstd->place_count = threads + 2 < MOST_PLACES ? threads + 2 : MOST_PLACES;
    zstd->places = memory_alloc((size_t)zstd->place_count * sizeof *zstd->places);
    zstd->threads = memory_alloc((size_t)threads * sizeof *zstd->threads);
    for (int i = 0; i < threads; i++) {
        if (pthread_create(&zstd->threads[i], NULL, helper_main, zstd) != 0)
            break;
        zstd->thread_count++;
    }
    if (zstd->thread_count == 0) {
        parallel_zstd_close(zstd);
        return error_set("cannot start a thread to decompress %s; lower --workers", name);
    }
    *opened = zstd;
    return 0;
}

void parallel_zstd_close(struct parallel_zstd *zstd) {
    if (!zstd)
        return;
    pthread_mutex_lock(&zstd->lock);
    zstd->stopped = true;
    pthread_cond_broadcast(&zstd->changed);
    pthread_mutex_unlock(&zstd->lock);
    for (int i = 0; i < zstd->thread_count; i++)
        pthread_join(zstd->threads[i], NULL);
    for (int64_t i = 0; i < zstd->place_count; i++) {
        buffer_free(&zstd->places[i].plain);
        error_drop(zstd->places[i].error);
    }
    ZSTD_freeDCtx(zstd->context);
    buffer_free(&zstd->packed);
    pthread_mutex_destroy(&zstd->lock);
    pthread_cond_destroy(&zstd->changed);
    free(zstd->places);
    free(zstd->threads);
    free(zstd);
}
