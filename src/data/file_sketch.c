// See file_sketch.h.
#include "data/file_sketch.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/interrupt.h"
#include "base/lifeline.h"
#include "base/watchdog.h"

#include <sys/mman.h>

enum { WHOLE_BYTES = 32 << 20, PIECE_BYTES = 4096 };

static uint64_t hash_pieces(const struct file_map *map, uint64_t pieces, uint64_t seed) {
    uint64_t hash = 0, part = map->size / pieces;
    for (uint64_t i = 0; i < pieces; i++) {
        uint64_t offset = hash_bytes(&i, sizeof i, seed) % (part - PIECE_BYTES + 1), at = part * i + offset;
        if (i == 0 || i + 1 == pieces)
            at = i == 0 ? 0 : map->size - PIECE_BYTES;
        hash = hash_bytes(map->data + at, PIECE_BYTES, hash);
    }
    return hash;
}

struct file_sketch file_sketch_take(const char *path, int pieces, uint64_t seed) {
    struct file_map map;
    CHECK(pieces > 0 && pieces <= WHOLE_BYTES / PIECE_BYTES);
    if (file_map_open(&map, path) < 0) {
        error_clear();
        return (struct file_sketch){.bytes = -1};
    }
    bool is_whole = map.size <= WHOLE_BYTES;
    // Reading the pages around a piece would be wasted.
    if (!is_whole)
        (void)posix_madvise((void *)(uintptr_t)map.data, map.size, POSIX_MADV_RANDOM);
    uint64_t hash = is_whole ? hash_bytes(map.data, map.size, 0) : hash_pieces(&map, (uint64_t)pieces, seed);
    struct file_sketch sketch = {.bytes = (int64_t)map.size, .hash = (int64_t)hash};
    file_map_close(&map);
    return sketch;
}

struct file_sketch file_sketch_take_whole(const char *path) {
    struct file_sketch sketch = {.bytes = -1};
    struct file_map map;
    uint64_t hash = 0;
    size_t at = 0;
    if (file_map_open(&map, path) < 0) {
        error_clear();
        return sketch;
    }
    (void)posix_madvise((void *)(uintptr_t)map.data, map.size, POSIX_MADV_SEQUENTIAL);
    watchdog_doing("reading", path);
    for (size_t block; at < map.size && interrupt_check() == 0; at += block) {
        block = map.size - at < WHOLE_BYTES ? map.size - at : WHOLE_BYTES;
        hash = hash_bytes(map.data + at, block, hash);
        file_map_release(&map, at, at + block);
        watchdog_beat();
        lifeline_beat();
    }
    watchdog_done();
    if (at == map.size)
        sketch = (struct file_sketch){.bytes = (int64_t)map.size, .hash = (int64_t)hash};
    else
        error_clear();
    file_map_close(&map);
    return sketch;
}

bool file_sketch_is_partial(int64_t bytes) {
    return bytes > WHOLE_BYTES;
}
