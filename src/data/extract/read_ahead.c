// A ring of parts. The thread fills free parts in turn, the caller reads from the first filled one. Parts change hands
// under the lock; in between each belongs to one side.
#include "data/extract/read_ahead.h"
#include "base/error.h"
#include "base/memory.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS = 4, PART_BYTES = 1 << 20 };

struct ahead_part {
    char *bytes;  // (PART_BYTES)
    size_t count, taken;
    int64_t status;            // as in reader_read: above 0 if there are bytes, 0 at the end, -1 on error
    struct error_note *error;  // if status is -1
    uint64_t input_bytes, memory;
};

struct read_ahead {
    struct reader *reader;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct ahead_part parts[PARTS];
    uint64_t filled, emptied;  // parts so far
    bool stopped;
    uint64_t input_bytes, memory;  // of the bytes that the caller has received
};

// Reads until the part is full or the input ends.
static void fill(struct read_ahead *ahead, struct ahead_part *part) {
    part->count = part->taken = 0;
    do {
        part->status = reader_read(ahead->reader, part->bytes + part->count, PART_BYTES - part->count);
        part->count += part->status > 0 ? (size_t)part->status : 0;
    } while (part->status > 0 && part->count < PART_BYTES);
    part->error = part->status < 0 ? error_take() : NULL;
    part->input_bytes = reader_input_bytes(ahead->reader);
    part->memory = reader_memory(ahead->reader);
}

static void *thread_main(void *argument) {
    struct read_ahead *ahead = argument;
    pthread_mutex_lock(&ahead->lock);
    for (bool is_last = false; !is_last;) {
        while (!ahead->stopped && ahead->filled - ahead->emptied == PARTS)
            pthread_cond_wait(&ahead->changed, &ahead->lock);
        if (ahead->stopped)
            break;
        struct ahead_part *part = &ahead->parts[ahead->filled % PARTS];
        pthread_mutex_unlock(&ahead->lock);
        fill(ahead, part);
        is_last = part->status <= 0;
        pthread_mutex_lock(&ahead->lock);
        ahead->filled++;
        pthread_cond_signal(&ahead->changed);
    }
    pthread_mutex_unlock(&ahead->lock);
    return NULL;
}

struct read_ahead *read_ahead_start(struct reader *reader) {
    struct read_ahead *ahead = memory_alloc(sizeof *ahead);
    ahead->reader = reader;
    pthread_mutex_init(&ahead->lock, NULL);
    pthread_cond_init(&ahead->changed, NULL);
    for (int i = 0; i < PARTS; i++)
        ahead->parts[i].bytes = memory_alloc(PART_BYTES);
    if (pthread_create(&ahead->thread, NULL, thread_main, ahead) == 0)
        return ahead;
    for (int i = 0; i < PARTS; i++)
        free(ahead->parts[i].bytes);
    free(ahead);
    return NULL;
}

void read_ahead_close(struct read_ahead *ahead) {
    if (!ahead)
        return;
    pthread_mutex_lock(&ahead->lock);
    ahead->stopped = true;
    pthread_cond_signal(&ahead->changed);
    pthread_mutex_unlock(&ahead->lock);
    pthread_join(ahead->thread, NULL);
    for (int i = 0; i < PARTS; i++) {
        error_drop(ahead->parts[i].error);
        free(ahead->parts[i].bytes);
    }
    pthread_mutex_destroy(&ahead->lock);
    pthread_cond_destroy(&ahead->changed);
    reader_close(ahead->reader);
    free(ahead);
}

int64_t read_ahead_read(struct read_ahead *ahead, void *out, size_t capacity) {
    pthread_mutex_lock(&ahead->lock);
    while (ahead->filled == ahead->emptied)
        pthread_cond_wait(&ahead->changed, &ahead->lock);
    pthread_mutex_unlock(&ahead->lock);
    struct ahead_part *part = &ahead->parts[ahead->emptied % PARTS];
    size_t left = part->count - part->taken, count = left < capacity ? left : capacity;
    memcpy(out, part->bytes + part->taken, count);
    part->taken += count;
    ahead->input_bytes = part->input_bytes;
    ahead->memory = part->memory;
    if (count == 0 && part->error) {
        error_give(part->error);
        part->error = NULL;
    }
    if (count == 0)  // the last part stays, so that the next call gives the same answer
        return part->status;
    if (part->taken == part->count && part->status > 0) {
        pthread_mutex_lock(&ahead->lock);
        ahead->emptied++;
        pthread_cond_signal(&ahead->changed);
        pthread_mutex_unlock(&ahead->lock);
    }
    return (int64_t)count;
}

uint64_t read_ahead_input_bytes(const struct read_ahead *ahead) {
    return ahead->input_bytes;
}

uint64_t read_ahead_memory(const struct read_ahead *ahead) {
    return ahead->memory + (uint64_t)PARTS * PART_BYTES;
}
