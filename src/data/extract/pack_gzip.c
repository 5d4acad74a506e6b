// gzip members with zlib.
#include "data/extract/pack.h"
#include "base/error.h"
#include <limits.h>
#include <zlib.h>

enum { GZIP_WINDOW_BITS = 15 + 16, MEMORY_LEVEL = 8 };

int pack_gzip(struct buffer *out, const void *bytes, size_t count) {
    z_stream stream = {0};
    if (count > UINT_MAX / 2)
        return error_set("cannot compress %zu bytes as one gzip member; write .zst or plain output", count);
    if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, GZIP_WINDOW_BITS, MEMORY_LEVEL, Z_DEFAULT_STRATEGY) !=
        Z_OK)
        return error_set_code(EXIT_CODE_OUT_OF_MEMORY, "out of memory for gzip compression");
    size_t bound = deflateBound(&stream, (uLong)count);
    buffer_reserve(out, bound);
    stream.next_in = (Bytef *)bytes;  // zlib does not write there
    stream.avail_in = (uInt)count;
    stream.next_out = (Bytef *)out->data + out->length;
    stream.avail_out = (uInt)bound;
    int status = deflate(&stream, Z_FINISH);
    out->length += bound - stream.avail_out;
    out->data[out->length] = '\0';
    deflateEnd(&stream);
    return status == Z_STREAM_END ? 0 : error_set("gzip compression failed: code %d", status);
}
