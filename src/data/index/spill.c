// Lists and arrays beyond memory.
#include "data/index/spill.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

// ---- lists ----

// Unnamed files for lists of any length. Invariant: the file holds the first bytes - pending_bytes bytes, pending the
// rest.

enum { SPILL_PENDING_BYTES = 1 << 17 };

int spill_open(struct spill *spill, const char *beside) {
    *spill = (struct spill){.descriptor = -1};
    char *name = memory_printf("%s.spill.XXXXXX", beside);
    int descriptor = mkstemp(name);
    if (descriptor < 0) {
        error_set("cannot create a temporary file %s: %s; check that the folder exists and is writable", name,
                  strerror(errno));
        free(name);
        return -1;
    }
    unlink(name);
    free(name);
    spill->descriptor = descriptor;
    spill->pending = memory_alloc(SPILL_PENDING_BYTES);
    spill->beside = memory_string(beside);
    return 0;
}

static int flush(struct spill *spill) {
    if (file_put(spill->descriptor, spill->pending, spill->pending_bytes) < spill->pending_bytes)
        return error_set("cannot write a temporary file next to %s: %s; free disk space or choose another disk",
                         spill->beside, strerror(errno));
    spill->pending_bytes = 0;
    return 0;
}

int spill_write(struct spill *spill, const void *bytes, size_t count) {
    const unsigned char *from = bytes;
    while (count > 0) {
        size_t part = SPILL_PENDING_BYTES - spill->pending_bytes;
        part = part < count ? part : count;
        memcpy(spill->pending + spill->pending_bytes, from, part);
        spill->pending_bytes += part;
        spill->bytes += part;
        from += part;
        count -= part;
        if (spill->pending_bytes == SPILL_PENDING_BYTES)
            TRY(flush(spill));
    }
    return 0;
}

int spill_read(struct spill *spill, uint64_t offset, void *out, size_t count) {
    CHECK(offset <= spill->bytes && count <= spill->bytes - offset);
    TRY(flush(spill));
    if (file_read_at(spill->descriptor, out, count, offset) < count)
        return error_set("cannot read back a temporary file next to %s: %s", spill->beside,
                         errno ? strerror(errno) : "it was truncated");
    return 0;
}

void spill_close(struct spill *spill) {
    if (spill->pending && spill->descriptor >= 0)
        close(spill->descriptor);
    free(spill->pending);
    free(spill->beside);
    *spill = (struct spill){.descriptor = -1};
}

// ---- arrays in any order ----

// A region's pieces are in a chain of blocks, the last one in memory and each pointing to the previous one. A block is
//
//   u64  place of the previous block in the spill, plus 1; 0 for none
//   u32  bytes used by the pieces
//   then pieces: u64 offset in the array, u32 length, bytes
//
// A piece is cut where its region or its block ends, so none spans two.

enum { BLOCK_HEAD_BYTES = 12, PIECE_HEAD_BYTES = 12, LEAST_BLOCK_BYTES = 512, MOST_BLOCK_BYTES = 1 << 20 };

struct scatter_region {
    uint64_t before;  // block before the one being filled, plus 1
    uint32_t used;    // bytes of the pieces in the block being filled
};

static int open_range(struct scatter *scatter, uint64_t begin, uint64_t end, const struct scatter *like) {
    *scatter = (struct scatter){.begin = begin, .end = end, .memory_bytes = like->memory_bytes, .beside = like->beside};
    scatter->spill.descriptor = -1;
    uint64_t total = end - begin, most_regions = scatter->memory_bytes / LEAST_BLOCK_BYTES / 2;
    uint64_t regions = total / (scatter->memory_bytes / 2) + 1;
    if (regions > most_regions)
        regions = most_regions;
    scatter->region_bytes = total / regions + 1;
    scatter->region_count = (int64_t)regions;
    size_t block = scatter->memory_bytes / 2 / (size_t)regions;
    scatter->block_bytes = block < MOST_BLOCK_BYTES ? block : MOST_BLOCK_BYTES;
    scatter->regions = memory_alloc((size_t)regions * sizeof *scatter->regions);
    scatter->blocks = memory_alloc((size_t)regions * scatter->block_bytes);
    return spill_open(&scatter->spill, scatter->beside);
}

int scatter_open(struct scatter *scatter, uint64_t total_bytes, size_t memory_bytes, const char *beside) {
    if (memory_bytes < 16 * LEAST_BLOCK_BYTES)
        memory_bytes = 16 * LEAST_BLOCK_BYTES;
    struct scatter like = {.memory_bytes = memory_bytes, .beside = beside};
    return open_range(scatter, 0, total_bytes, &like);
}

static unsigned char *block_of(const struct scatter *scatter, int64_t region) {
    return scatter->blocks + (size_t)region * scatter->block_bytes;
}

static int flush_block(struct scatter *scatter, int64_t region) {
    struct scatter_region *r = &scatter->regions[region];
    unsigned char *block = block_of(scatter, region);
    memcpy(block, &r->before, sizeof r->before);
    memcpy(block + 8, &r->used, sizeof r->used);
    r->before = scatter->spill.bytes + 1;
    r->used = 0;
    return spill_write(&scatter->spill, block, scatter->block_bytes);
}

int scatter_put(struct scatter *scatter, uint64_t offset, const void *bytes, size_t count) {
    CHECK(offset >= scatter->begin && offset <= scatter->end && count <= scatter->end - offset);
    const unsigned char *from = bytes;
    while (count > 0) {
        int64_t region = (int64_t)((offset - scatter->begin) / scatter->region_bytes);
        struct scatter_region *r = &scatter->regions[region];
        if (scatter->block_bytes - BLOCK_HEAD_BYTES - r->used <= PIECE_HEAD_BYTES)
            TRY(flush_block(scatter, region));
        size_t room = scatter->block_bytes - BLOCK_HEAD_BYTES - PIECE_HEAD_BYTES - r->used;
        uint64_t region_end = scatter->begin + (uint64_t)(region + 1) * scatter->region_bytes;
        size_t part = count < room ? count : room;
        part = part < region_end - offset ? part : (size_t)(region_end - offset);
        unsigned char *piece = block_of(scatter, region) + BLOCK_HEAD_BYTES + r->used;
        uint32_t length = (uint32_t)part;
        memcpy(piece, &offset, sizeof offset);
        memcpy(piece + 8, &length, sizeof length);
        memcpy(piece + PIECE_HEAD_BYTES, from, part);
        r->used += (uint32_t)(PIECE_HEAD_BYTES + part);
        offset += part;
        from += part;
        count -= part;
    }
    return 0;
}

// ---- assembling the regions ----

// Where the pieces of a block go: into memory, or into another scatter.
struct target {
    unsigned char *bytes;  // NULL for another scatter
    uint64_t begin;        // of bytes, in the array
    struct scatter *again;
};

static int place_pieces(const struct target *target, const unsigned char *block) {
    uint32_t used, length;
    memcpy(&used, block + 8, sizeof used);
    const unsigned char *piece = block + BLOCK_HEAD_BYTES, *end = piece + used;
    while (piece < end) {
        uint64_t offset;
        memcpy(&offset, piece, sizeof offset);
        memcpy(&length, piece + 8, sizeof length);
        piece += PIECE_HEAD_BYTES;
        if (target->bytes)
            memcpy(target->bytes + (offset - target->begin), piece, length);
        else
            TRY(scatter_put(target->again, offset, piece, length));
        piece += length;
    }
    return 0;
}

// All blocks of a region, newest first. The block being filled serves as the buffer for those before it.
static int place_region(struct scatter *scatter, int64_t region, const struct target *target) {
    struct scatter_region *r = &scatter->regions[region];
    unsigned char *block = block_of(scatter, region);
    memcpy(block, &r->before, sizeof r->before);
    memcpy(block + 8, &r->used, sizeof r->used);
    while (true) {
        TRY(place_pieces(target, block));
        uint64_t before;
        memcpy(&before, block, sizeof before);
        if (before == 0)
            return 0;
        TRY(spill_read(&scatter->spill, before - 1, block, scatter->block_bytes));
    }
}

static int drain_again(struct scatter *scatter, int64_t region, uint64_t begin, uint64_t end,
                       struct scatter_sink sink) {
    struct scatter again;
    int result = open_range(&again, begin, end, scatter);
    if (result == 0)
        result = place_region(scatter, region, &(struct target){.again = &again});
    if (result == 0)
        result = scatter_drain(&again, sink);
    scatter_close(&again);
    return result;
}

static int drain_region(struct scatter *scatter, int64_t region, struct scatter_sink sink) {
    uint64_t begin = scatter->begin + (uint64_t)region * scatter->region_bytes;
    uint64_t end = begin + scatter->region_bytes < scatter->end ? begin + scatter->region_bytes : scatter->end;
    if (begin >= end)
        return 0;
    if (end - begin > scatter->memory_bytes / 2)
        return drain_again(scatter, region, begin, end, sink);
    unsigned char *bytes = memory_alloc((size_t)(end - begin));
    int result = place_region(scatter, region, &(struct target){.bytes = bytes, .begin = begin});
    if (result == 0)
        result = sink.take(sink.context, bytes, (size_t)(end - begin));
    free(bytes);
    return result;
}

int scatter_drain(struct scatter *scatter, struct scatter_sink sink) {
    for (int64_t region = 0; region < scatter->region_count; region++)
        TRY(drain_region(scatter, region, sink));
    return 0;
}

void scatter_close(struct scatter *scatter) {
    if (scatter->regions)
        spill_close(&scatter->spill);
    free(scatter->regions);
    free(scatter->blocks);
    *scatter = (struct scatter){0};
}
