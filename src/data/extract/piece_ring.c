// Piece n is in place n modulo the number of places. The lock guards the counts and the states. A place belongs to its
// helper while that cuts or decodes; the oldest place belongs to the reading thread otherwise.
#include "data/extract/piece_ring.h"
#include "base/error.h"
#include "base/memory.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum state { STATE_FREE, STATE_BUSY, STATE_READY, STATE_ERROR };

struct slot {
    struct piece_place place;
    enum state state;
    struct error_note *error;
};

struct piece_ring {
    struct piece_ring_options options;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct slot *slots;  // (options.places)
    int64_t produced, taken;
    bool cutting, ended, stopped;
    pthread_t *threads;
    int thread_count;
};

static struct slot *slot_of(const struct piece_ring *ring, int64_t number) {
    return &ring->slots[number % ring->options.places];
}

// ---- helper threads ----

// Cuts the next piece: true if there is one to decode. Called and returns with the lock held.
static bool cut_piece(struct piece_ring *ring, struct slot *slot) {
    ring->cutting = true;
    pthread_mutex_unlock(&ring->lock);
    int status = ring->options.functions->cut(ring->options.codec, slot->place.piece);
    struct error_note *error = status < 0 ? error_take() : NULL;
    pthread_mutex_lock(&ring->lock);
    ring->cutting = false;
    ring->ended = status <= 0;
    if (status != 0)
        ring->produced++;
    slot->state = status < 0 ? STATE_ERROR : status > 0 ? STATE_BUSY : STATE_FREE;
    slot->error = error;
    pthread_cond_broadcast(&ring->changed);
    return status > 0;
}

// Decodes a piece. Called and returns with the lock held.
static void decode_piece(struct piece_ring *ring, struct slot *slot, void *scratch) {
    pthread_mutex_unlock(&ring->lock);
    struct piece_place *place = &slot->place;
    int status = ring->options.functions->decode(ring->options.codec, place->piece, &place->plain, scratch);
    struct error_note *error = status < 0 ? error_take() : NULL;
    place->is_decoded = status > 0;
    pthread_mutex_lock(&ring->lock);
    slot->state = status < 0 ? STATE_ERROR : STATE_READY;
    slot->error = error;
    pthread_cond_broadcast(&ring->changed);
}

static void *helper_main(void *argument) {
    struct piece_ring *ring = argument;
    const struct piece_codec *functions = ring->options.functions;
    void *scratch = functions->create_scratch ? functions->create_scratch() : NULL;
    pthread_mutex_lock(&ring->lock);
    while (!ring->stopped && !ring->ended) {
        struct slot *slot = slot_of(ring, ring->produced);
        if (ring->cutting || ring->produced - ring->taken == ring->options.places)
            pthread_cond_wait(&ring->changed, &ring->lock);
        else if (cut_piece(ring, slot))
            decode_piece(ring, slot, scratch);
    }
    pthread_mutex_unlock(&ring->lock);
    if (scratch)
        functions->free_scratch(scratch);
    return NULL;
}

// ---- the reading thread ----

int piece_ring_wait(struct piece_ring *ring, struct piece_place **oldest) {
    pthread_mutex_lock(&ring->lock);
    struct slot *slot = slot_of(ring, ring->taken);
    while (ring->taken == ring->produced ? !ring->ended : slot->state == STATE_BUSY)
        pthread_cond_wait(&ring->changed, &ring->lock);
    bool is_there = ring->taken < ring->produced;
    bool has_failed = is_there && slot->state == STATE_ERROR;
    struct error_note *error = has_failed ? slot->error : NULL;
    if (has_failed)
        slot->error = NULL;
    pthread_mutex_unlock(&ring->lock);
    *oldest = &slot->place;
    if (!has_failed)
        return is_there;
    return error ? error_give(error) : error_set("%s cannot be read further after an error", ring->options.name);
}

void piece_ring_release(struct piece_ring *ring) {
    pthread_mutex_lock(&ring->lock);
    struct slot *slot = slot_of(ring, ring->taken);
    slot->place.used = 0;
    slot->state = STATE_FREE;
    ring->taken++;
    pthread_cond_broadcast(&ring->changed);
    pthread_mutex_unlock(&ring->lock);
}

size_t piece_ring_read(struct piece_ring *ring, void *out, size_t capacity) {
    struct piece_place *place = &slot_of(ring, ring->taken)->place;
    size_t left = place->plain.length - place->used;
    size_t part = left < capacity ? left : capacity;
    if (part)
        memcpy(out, place->plain.data + place->used, part);
    place->used += part;
    if (place->used == place->plain.length)
        piece_ring_release(ring);
    return part;
}

// ---- beginning and end ----

int piece_ring_open(struct piece_ring **opened, const struct piece_ring_options *options) {
    struct piece_ring *ring = memory_alloc(sizeof *ring);
    *opened = ring;
    ring->options = *options;
    pthread_mutex_init(&ring->lock, NULL);
    pthread_cond_init(&ring->changed, NULL);
    ring->slots = memory_alloc((size_t)options->places * sizeof *ring->slots);
    for (int64_t i = 0; i < options->places; i++)
        ring->slots[i].place.piece = memory_alloc(options->functions->piece_bytes);
    ring->threads = memory_alloc((size_t)options->threads * sizeof *ring->threads);
    for (int i = 0; i < options->threads; i++) {
        if (pthread_create(&ring->threads[i], NULL, helper_main, ring) != 0)
            break;
        ring->thread_count++;
    }
    if (ring->thread_count == 0) {
        piece_ring_close(ring);
        *opened = NULL;
        return error_set("cannot start a thread to decompress %s; lower --workers", options->name);
    }
    return 0;
}

void piece_ring_close(struct piece_ring *ring) {
    if (!ring)
        return;
    pthread_mutex_lock(&ring->lock);
    ring->stopped = true;
    pthread_cond_broadcast(&ring->changed);
    pthread_mutex_unlock(&ring->lock);
    for (int i = 0; i < ring->thread_count; i++)
        pthread_join(ring->threads[i], NULL);
    for (int64_t i = 0; i < ring->options.places; i++) {
        struct slot *slot = &ring->slots[i];
        if (ring->options.functions->free_piece)
            ring->options.functions->free_piece(slot->place.piece);
        free(slot->place.piece);
        buffer_free(&slot->place.plain);
        error_drop(slot->error);
    }
    pthread_mutex_destroy(&ring->lock);
    pthread_cond_destroy(&ring->changed);
    free(ring->slots);
    free(ring->threads);
    free(ring);
}
