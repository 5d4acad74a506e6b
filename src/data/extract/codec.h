// A decompressor, fed piece by piece. One file per format (compress_gzip.c …), or its stand-in compress_gzip_none.c
// where the library was missing at build time: its open fails and names the package.
//
// Files in the wild are often several compressed streams one after another (gzip members, bzip2 streams, zstd frames),
// so a codec goes on to the next one by itself and says after each step whether it stands between two.
#ifndef DATA_EXTRACT_CODEC_H
#define DATA_EXTRACT_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct codec_io {
    const unsigned char *in;  // compressed bytes; advanced by what was used
    size_t in_bytes;
    bool in_ended;       // nothing follows them
    unsigned char *out;  // room for plain bytes; advanced by what was written
    size_t out_bytes;
    bool between;         // set by step: a stream is complete and no other has begun, so the input may end here
    const char *problem;  // set by step where it fails: what is wrong with the data
};

struct codec {
    const char *name;                        // "gzip"
    int (*open)(void **state, int threads);  // threads may help where the library can
    uint64_t (*memory)(void *state);         // bytes it takes at present; NULL for little
    // Uses input and fills output as far as it can. -1, with io->problem, where the data is damaged.
    int (*step)(void *state, struct codec_io *io);
    void (*close)(void *state);
};

extern const struct codec codec_gzip, codec_bzip2, codec_xz, codec_zstd;

#endif
