// A CPU that claims to have its own, limited memory: more is refused as on a GPU. The pool may be in memory that
// several processes share, which are then ranks on one device.
#ifndef TESTS_STEP_SCARCE_H
#define TESTS_STEP_SCARCE_H

#include "base/error.h"
#include "ops/device.h"

#include <stdatomic.h>

enum { SCARCE_MOST_PIECES = 16 };

struct scarce_pool {
    _Atomic size_t used, limit;
    atomic_int refused;  // requests
};

static struct scarce {
    struct ops table;
    const struct ops *real;
    struct scarce_pool *pool;
    size_t claimed;  // reported as free; 0: the truth
    struct {
        void *memory;
        size_t bytes;
    } pieces[SCARCE_MOST_PIECES];
} scarce;

static inline size_t scarce_room(struct device *device) {
    (void)device;
    return scarce.claimed ? scarce.claimed : scarce.pool->limit - scarce.pool->used;
}

static inline void *scarce_alloc(struct device *device, size_t bytes) {
    int i = 0;
    while (i < SCARCE_MOST_PIECES && scarce.pieces[i].memory)
        i++;
    CHECK(i < SCARCE_MOST_PIECES);
    if (atomic_fetch_add(&scarce.pool->used, bytes) + bytes > scarce.pool->limit) {
        atomic_fetch_sub(&scarce.pool->used, bytes);
        atomic_fetch_add(&scarce.pool->refused, 1);
        (void)error_set_code(EXIT_CODE_OUT_OF_MEMORY, "cannot allocate %zu bytes, all is taken", bytes);
        return NULL;
    }
    scarce.pieces[i].memory = scarce.real->alloc(device, bytes);
    scarce.pieces[i].bytes = bytes;
    return scarce.pieces[i].memory;
}

static inline void scarce_free(struct device *device, void *memory) {
    for (int i = 0; i < SCARCE_MOST_PIECES; i++)
        if (scarce.pieces[i].memory == memory) {
            atomic_fetch_sub(&scarce.pool->used, scarce.pieces[i].bytes);
            scarce.pieces[i].memory = NULL;
        }
    scarce.real->free(device, memory);
}

// From now on the device's memory is that of the pool and, as on a GPU, tensors take all of it.
static inline void scarce_make(struct device *device, struct scarce_pool *pool) {
    scarce = (struct scarce){.table = *device->ops, .real = device->ops, .pool = pool};
    scarce.table.room = scarce_room;
    scarce.table.alloc = scarce_alloc;
    scarce.table.free = scarce_free;
    scarce.table.own_bytes = NULL;
    device->ops = &scarce.table;
}

#endif
