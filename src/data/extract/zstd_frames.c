// Walks the headers of a frame and its blocks, a few bytes each.
#include "data/extract/zstd_frames.h"
#include "data/bad_data.h"
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

enum { LONGEST_HEADER = 18, BLOCK_HEADER = 3, CHECKSUM_BYTES = 4, BLOCK_RLE = 1, BLOCK_RESERVED = 3 };

struct frame_walk {
    int descriptor;
    const char *name;
    uint64_t at;
};

// Reads up to count bytes at the current place: how many, -1 on error.
static int64_t peek(const struct frame_walk *walk, unsigned char *bytes, size_t count) {
    size_t done = 0;
    while (done < count) {
        ssize_t got = pread(walk->descriptor, bytes + done, count - done, (off_t)(walk->at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return error_set("cannot read %s at byte %" PRIu64 ": %s; check the file and the disk", walk->name,
                             walk->at + done, strerror(errno));
        if (got == 0)
            break;
        done += (size_t)got;
    }
    return (int64_t)done;
}

static int cut_short(const struct frame_walk *walk) {
    return bad_data("%s: zstd data is truncated: the file ends at byte %" PRIu64
                    " inside a compressed stream; copy or download it again",
                    walk->name, walk->at);
}

static int damaged(const struct frame_walk *walk, const char *problem) {
    return bad_data("%s: zstd data is damaged near byte %" PRIu64 ": %s; copy or download the file again", walk->name,
                    walk->at, problem);
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
        int64_t got = peek(walk, bytes, sizeof bytes);
        TRY((int)got);
        if (got < BLOCK_HEADER)
            return cut_short(walk);
        uint32_t header = (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16;
        uint32_t type = header >> 1 & 3;
        if (type == BLOCK_RESERVED)
            return damaged(walk, "a block of a reserved type");
        is_last = header & 1;
        walk->at += BLOCK_HEADER + (type == BLOCK_RLE ? 1 : header >> 3);
    }
    walk->at += has_checksum ? CHECKSUM_BYTES : 0;
    return 0;
}

static int walk_frame(struct frame_walk *walk, struct zstd_frame *frame) {
    unsigned char bytes[LONGEST_HEADER];
    int64_t got = peek(walk, bytes, sizeof bytes);
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
        return damaged(walk, "no frame starts here");
    walk->at += 4 + header_bytes(bytes[4]);
    TRY(walk_blocks(walk, bytes[4] >> 2 & 1));
    return 1;
}

int zstd_frame_find(struct zstd_frame *frame, int descriptor, const char *name, uint64_t begin) {
    struct frame_walk walk = {descriptor, name, begin};
    *frame = (struct zstd_frame){.begin = begin};
    int status = walk_frame(&walk, frame);
    if (status <= 0)
        return status;
    unsigned char last;
    frame->end = walk.at--;
    int64_t got = peek(&walk, &last, 1);
    TRY((int)got);
    if (got == 0)
        return cut_short(&walk);
    return 1;
}
