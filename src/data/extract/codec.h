// Compressed formats, with one file per library (zlib.c, bzip2.c, xz.c, zstd.c, brotli.c), or a stand-in (codec_none.c)
// if the library was missing at build time: its functions fail and name the package.
//
// A decompressor is fed piece by piece. Files often hold several compressed streams in a row (gzip members, bzip2
// streams, zstd frames), so a codec continues with the next one and says after each step whether it is between two.
#ifndef DATA_EXTRACT_CODEC_H
#define DATA_EXTRACT_CODEC_H

#include "base/buffer.h"
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

// A file whose first bytes were read.
struct codec_file {
    int descriptor;     // the caller closes it
    const char *name;   // for messages; must outlive what reads it
    const void *begin;  // (begin_bytes)
    size_t begin_bytes;
    int threads;  // at least 2
};

// Decompresses a file with several threads, in order (piece_ring.h).
struct codec_parallel {
    // Opens nothing (*state is NULL, without an error) if threads cannot help.
    int (*open)(void **state, const struct codec_file *file);
    int64_t (*read)(void *state, void *out, size_t capacity);  // like reader_read
    uint64_t (*position)(const void *state);                   // bytes of the file that were delivered
    void (*close)(void *state);
};

struct codec {
    const char *name;                        // "gzip"
    int (*open)(void **state, int threads);  // may use `threads` if the library can
    uint64_t (*memory)(void *state);         // bytes it uses now; NULL if small
    // Uses as much input and fills as much output as it can. -1, with io->problem, if the data is damaged.
    int (*step)(void *state, struct codec_io *io);
    void (*close)(void *state);
    const struct codec_parallel *parallel;  // NULL if the format has none
};

extern const struct codec codec_gzip, codec_bzip2, codec_xz, codec_zstd, codec_brotli;

// Appends the bytes to `out` as a separate gzip member or zstd frame. Many threads can pack pieces, and every reader
// of these formats takes the concatenated pieces as one file.
int pack_gzip(struct buffer *out, const void *bytes, size_t count);
int pack_zstd(struct buffer *out, const void *bytes, size_t count);

// Decompresses raw deflate data (RFC 1951), as in the entries of zip archives, in one call. Fills `to` completely. -1
// if the data is damaged, has another length, or this build lacks zlib.
int inflate_bytes(const void *from, size_t from_bytes, void *to, size_t to_bytes);

// Starts liblzma's decoder for an lzma_stream: xz_threads.c with several threads, or its stand-in xz_threads_none.c
// if liblzma is older than 5.4 and cannot do that. False if memory is short.
bool xz_decoder_init(void *lzma_stream, int threads);

// ---- blocks ----

// The blocks of Parquet and Arrow, whose plain length is known. Snappy and LZ4 are decompressed in block_codec.c:
// their formats are a page each. The others are the codecs above.
struct codec_block {
    const unsigned char *in;
    size_t in_bytes;
    unsigned char *out;  // (out_bytes) is filled completely
    size_t out_bytes;
};

struct block_codec {
    const char *name;
    size_t most_growth;  // plain bytes that a packed byte may stand for: what claims more is damaged
    bool (*unpack)(const struct codec_block *block);  // false if the data is damaged
    const struct codec *stream;                       // in place of unpack; both are NULL for bytes as they are
};

extern const struct block_codec block_none, block_snappy, block_gzip, block_brotli, block_zstd, block_lz4,
    block_lz4_hadoop, block_lz4_frame;

// *state is NULL at first and kept for further blocks, until block_codec_close. 1; 0, without an error, if the data
// is damaged; -1 if this build lacks the codec.
int block_codec_unpack(const struct block_codec *codec, void **state, const struct codec_block *block);
void block_codec_close(const struct block_codec *codec, void *state);

#endif
