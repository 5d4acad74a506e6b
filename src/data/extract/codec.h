// A decompressor that is fed piece by piece. There is one file per format (compress_gzip.c …), or its stand-in
// compress_gzip_none.c if the library was missing at build time; the stand-in's open fails and names the package.
//
// Files often hold several compressed streams in a row (gzip members, bzip2 streams, zstd frames), so a codec continues
// with the next one and says after each step whether it is between two.
#ifndef DATA_EXTRACT_CODEC_H
#define DATA_EXTRACT_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct codec_io {
    const unsigned char *in;  // compressed bytes; advanced past what was used
    size_t in_bytes;
    bool in_ended;       // no more input follows
    unsigned char *out;  // room for plain bytes; advanced past what was written
    size_t out_bytes;
    bool between;         // set by step: a stream is complete and no other has begun, so the input may end here
    const char *problem;  // set by step if it fails: what is wrong with the data
};

struct codec {
    const char *name;                        // "gzip"
    int (*open)(void **state, int threads);  // may use `threads` if the library can
    uint64_t (*memory)(void *state);         // bytes it uses now; NULL if small
    // Uses as much input and fills as much output as it can. -1, with io->problem, if the data is damaged.
    int (*step)(void *state, struct codec_io *io);
    void (*close)(void *state);
};

extern const struct codec codec_gzip, codec_bzip2, codec_xz, codec_zstd;

#endif
