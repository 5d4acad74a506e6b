// Where the frames of a zstd file begin and end, without decompressing: RFC 8878, section 3.1.
#ifndef DATA_EXTRACT_ZSTD_FRAMES_H
#define DATA_EXTRACT_ZSTD_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

struct zstd_frame {
    uint64_t begin, end;  // bytes of the file
    bool is_skippable;    // it holds no data
};

// The frame at byte `begin` of a regular file: 1, 0 at the end of the file, -1 with a message if there is none or it is
// truncated. name is for messages.
int zstd_frame_find(struct zstd_frame *frame, int descriptor, const char *name, uint64_t begin);

#endif
