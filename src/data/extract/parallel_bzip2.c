// A ring of places: helper threads take turns to cut the next piece off the file and decode it, the reading thread
// takes results in order. A piece is decoded by libbz2 as a stream of its own, made of a header, the block and an end
// mark with the block's checksum. A piece that does not decode may be cut at a mark that is none: joined to the next
// ones it will.
#include "data/extract/parallel_bzip2.h"
#include "data/extract/bzip2_scan.h"
#include "data/bad_data.h"
#include "base/buffer.h"
#include "base/memory.h"
#include <bzlib.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    STREAM_OVERHEAD = 32,    // bytes: more than a header, an end mark and a checksum take
    FIRST_OUTPUT = 1 << 20,  // bytes: a block of level 9 has 900,000
    MOST_JOINS = 3,          // pieces that are added to one that does not decode
};

enum place_state { PLACE_FREE, PLACE_BUSY, PLACE_DONE, PLACE_UNDECODED, PLACE_ERROR };

struct place {
    enum place_state state;
    struct bzip2_piece piece;
    struct buffer plain;
    struct error_note *error;
};

struct parallel_bzip2 {
    struct bzip2_scan *scan;
    const char *name;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct place *places;  // (place_count) piece n is in place n % place_count
    int64_t place_count, produced, taken;
    bool scanning, ended, stopped;
    pthread_t *threads;
    int thread_count;
    // Of the reading thread alone:
    size_t used;        // bytes of the oldest place's result that are handed out
    uint32_t checksum;  // of the blocks of the present stream
    uint64_t position;
    struct buffer packed;
};

// ---- one block ----

static void put_bits(unsigned char *bytes, size_t *bit, uint64_t value, int count) {
    while (count-- > 0) {
        unsigned char mask = (unsigned char)(0x80 >> *bit % 8);
        if (value >> count & 1)
            bytes[*bit / 8] |= mask;
        else
            bytes[*bit / 8] &= (unsigned char)~mask;
        ++*bit;
    }
}

// The block as a stream of one block.
static void make_stream(struct buffer *packed, const struct bzip2_piece *piece) {
    size_t bytes = (piece->bits + 7) / 8;
    buffer_clear(packed);
    buffer_reserve(packed, bytes + STREAM_OVERHEAD);
    memset(packed->data + bytes, 0, STREAM_OVERHEAD);
    memcpy(packed->data, "BZh9", 4);
    memcpy(packed->data + 4, piece->bytes, bytes);
    size_t bit = 32 + piece->bits;
    put_bits((unsigned char *)packed->data, &bit, BZIP2_END_MARK, BZIP2_MARK_BITS);
    put_bits((unsigned char *)packed->data, &bit, bzip2_block_checksum(piece->bytes), BZIP2_CHECKSUM_BITS);
    packed->length = (bit + 7) / 8;
}

// False if libbz2 does not take it.
static bool decode(struct buffer *plain, struct buffer *packed, const struct bzip2_piece *piece) {
    if (piece->bits < BZIP2_MARK_BITS + BZIP2_CHECKSUM_BITS)
        return false;
    make_stream(packed, piece);
    buffer_clear(plain);
    bz_stream stream = {.next_in = packed->data, .avail_in = (unsigned)packed->length};
    if (BZ2_bzDecompressInit(&stream, 0, 0) != BZ_OK)
        return false;
    int status = BZ_OK;
    while (status == BZ_OK) {
        buffer_reserve(plain, FIRST_OUTPUT);
        size_t room = plain->capacity - plain->length - 1;
        stream.next_out = plain->data + plain->length;
        stream.avail_out = (unsigned)room;
        status = BZ2_bzDecompress(&stream);
        plain->length += room - stream.avail_out;
        // It wants more than a whole stream.
        if (status == BZ_OK && stream.avail_out == room && stream.avail_in == 0)
            status = BZ_UNEXPECTED_EOF;
    }
    BZ2_bzDecompressEnd(&stream);
    // An end that lies inside the piece is not its own: what follows it would be lost without a word.
    return status == BZ_STREAM_END && stream.avail_in == 0;
}

// ---- helper threads ----

static struct place *place_of(const struct parallel_bzip2 *bzip2, int64_t number) {
    return &bzip2->places[number % bzip2->place_count];
}

// Cuts and decodes one piece; called and left with the lock held.
static void work_once(struct parallel_bzip2 *bzip2, struct buffer *packed) {
    struct place *place = place_of(bzip2, bzip2->produced);
    bzip2->scanning = true;
    pthread_mutex_unlock(&bzip2->lock);
    int status = bzip2_scan_next(bzip2->scan, &place->piece);
    struct error_note *error = status < 0 ? error_take() : NULL;
    pthread_mutex_lock(&bzip2->lock);
    bzip2->scanning = false;
    bzip2->ended = status <= 0;
    if (status != 0)
        bzip2->produced++;
    place->state = status < 0 ? PLACE_ERROR : status > 0 ? PLACE_BUSY : PLACE_FREE;
    place->error = error;
    pthread_cond_broadcast(&bzip2->changed);
    if (status <= 0)
        return;
    pthread_mutex_unlock(&bzip2->lock);
    bool is_decoded = decode(&place->plain, packed, &place->piece);
    pthread_mutex_lock(&bzip2->lock);
    place->state = is_decoded ? PLACE_DONE : PLACE_UNDECODED;
    pthread_cond_broadcast(&bzip2->changed);
}

static void *helper_main(void *argument) {
    struct parallel_bzip2 *bzip2 = argument;
    struct buffer packed = {0};
    pthread_mutex_lock(&bzip2->lock);
    while (!bzip2->stopped && !bzip2->ended) {
        if (!bzip2->scanning && bzip2->produced - bzip2->taken < bzip2->place_count)
            work_once(bzip2, &packed);
        else
            pthread_cond_wait(&bzip2->changed, &bzip2->lock);
    }
    pthread_mutex_unlock(&bzip2->lock);
    buffer_free(&packed);
    return NULL;
}

// ---- the reading thread ----

// Waits for the oldest place: 1, 0 at the end, -1 on an error of the scan.
static int wait_oldest(struct parallel_bzip2 *bzip2, struct place **oldest) {
    pthread_mutex_lock(&bzip2->lock);
    struct place *place = place_of(bzip2, bzip2->taken);
    while (bzip2->taken == bzip2->produced ? !bzip2->ended : place->state == PLACE_BUSY)
        pthread_cond_wait(&bzip2->changed, &bzip2->lock);
    bool is_there = bzip2->taken < bzip2->produced;
    struct error_note *error = NULL;
    if (is_there && place->state == PLACE_ERROR) {
        error = place->error;
        place->error = NULL;
    }
    pthread_mutex_unlock(&bzip2->lock);
    *oldest = place;
    if (!is_there)
        return 0;
    if (place->state != PLACE_ERROR)
        return 1;
    return error ? error_give(error) : error_set("%s cannot be read further after an error", bzip2->name);
}

static void release_oldest(struct parallel_bzip2 *bzip2) {
    pthread_mutex_lock(&bzip2->lock);
    place_of(bzip2, bzip2->taken)->state = PLACE_FREE;
    bzip2->taken++;
    pthread_cond_broadcast(&bzip2->changed);
    pthread_mutex_unlock(&bzip2->lock);
    bzip2->used = 0;
}

static int damaged(const struct parallel_bzip2 *bzip2, uint64_t position) {
    return bad_data("%s: bzip2 data is damaged near byte %" PRIu64
                    ": damaged data (checksum or structure); copy or download the file again",
                    bzip2->name, position);
}

// Joins the oldest piece to those after it until it decodes; the last of them takes the result.
static int join_pieces(struct parallel_bzip2 *bzip2, struct place **oldest) {
    struct bzip2_piece joined = {0};
    bzip2_piece_join(&joined, &(*oldest)->piece);
    uint64_t position = (*oldest)->piece.position;
    bool is_decoded = false;
    int status = 1;
    for (int i = 0; i < MOST_JOINS && !is_decoded && status > 0 && !joined.ends_stream; i++) {
        release_oldest(bzip2);
        status = wait_oldest(bzip2, oldest);
        if (status <= 0)
            break;
        bzip2_piece_join(&joined, &(*oldest)->piece);
        is_decoded = decode(&(*oldest)->plain, &bzip2->packed, &joined);
    }
    if (is_decoded) {
        free((*oldest)->piece.bytes);
        (*oldest)->piece = joined;
        return 0;
    }
    free(joined.bytes);
    return status < 0 ? -1 : damaged(bzip2, position);
}

// Makes the oldest place's result ready and accounts for its checksum: 1, 0 at the end.
static int take_block(struct parallel_bzip2 *bzip2, struct place **oldest) {
    int status = wait_oldest(bzip2, oldest);
    if (status <= 0)
        return status;
    if ((*oldest)->state == PLACE_UNDECODED)
        TRY(join_pieces(bzip2, oldest));
    const struct bzip2_piece *piece = &(*oldest)->piece;
    bzip2->checksum = (bzip2->checksum << 1 | bzip2->checksum >> 31) ^ bzip2_block_checksum(piece->bytes);
    if (piece->ends_stream) {
        if (bzip2->checksum != piece->stream_checksum)
            return damaged(bzip2, piece->position_after);
        bzip2->checksum = 0;
    }
    bzip2->position = piece->position_after;
    (*oldest)->state = PLACE_DONE;
    return 1;
}

int64_t parallel_bzip2_read(struct parallel_bzip2 *bzip2, void *out, size_t capacity) {
    size_t done = 0;
    while (done == 0) {
        struct place *oldest = place_of(bzip2, bzip2->taken);
        if (bzip2->used == 0) {
            int status = take_block(bzip2, &oldest);
            if (status <= 0)
                return status;
        }
        done = oldest->plain.length - bzip2->used;
        done = done < capacity ? done : capacity;
        if (done)
            memcpy(out, oldest->plain.data + bzip2->used, done);
        bzip2->used += done;
        if (bzip2->used == oldest->plain.length)
            release_oldest(bzip2);
    }
    return (int64_t)done;
}

uint64_t parallel_bzip2_input_bytes(const struct parallel_bzip2 *bzip2) {
    return bzip2->position;
}

// ---- beginning and end ----

int parallel_bzip2_open(struct parallel_bzip2 **opened, const struct parallel_bzip2_options *options) {
    struct parallel_bzip2 *bzip2 = memory_alloc(sizeof *bzip2);
    *opened = bzip2;
    bzip2->name = options->name;
    bzip2->scan = bzip2_scan_create(options->descriptor, options->name, options->begin, options->begin_bytes);
    pthread_mutex_init(&bzip2->lock, NULL);
    pthread_cond_init(&bzip2->changed, NULL);
    bzip2->place_count = 2 * (int64_t)options->threads;
    bzip2->places = memory_alloc((size_t)bzip2->place_count * sizeof *bzip2->places);
    bzip2->threads = memory_alloc((size_t)options->threads * sizeof *bzip2->threads);
    for (int i = 0; i < options->threads; i++) {
        if (pthread_create(&bzip2->threads[i], NULL, helper_main, bzip2) != 0)
            break;
        bzip2->thread_count++;
    }
    if (bzip2->thread_count == 0) {
        parallel_bzip2_close(bzip2);
        *opened = NULL;
        return error_set("cannot start a thread to decompress %s; lower --workers", options->name);
    }
    return 0;
}

void parallel_bzip2_close(struct parallel_bzip2 *bzip2) {
    if (!bzip2)
        return;
    pthread_mutex_lock(&bzip2->lock);
    bzip2->stopped = true;
    pthread_cond_broadcast(&bzip2->changed);
    pthread_mutex_unlock(&bzip2->lock);
    for (int i = 0; i < bzip2->thread_count; i++)
        pthread_join(bzip2->threads[i], NULL);
    for (int64_t i = 0; i < bzip2->place_count; i++) {
        struct place *place = &bzip2->places[i];
        free(place->piece.bytes);
        buffer_free(&place->plain);
        error_drop(place->error);
    }
    bzip2_scan_free(bzip2->scan);
    buffer_free(&bzip2->packed);
    pthread_mutex_destroy(&bzip2->lock);
    pthread_cond_destroy(&bzip2->changed);
    free(bzip2->places);
    free(bzip2->threads);
    free(bzip2);
}
