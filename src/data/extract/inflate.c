// Raw deflate data with zlib, whose counts have 32 bits. See inflate.h.
#include "data/extract/inflate.h"
#include "base/error.h"

#include <limits.h>
#include <zlib.h>

enum { RAW = -15 };  // the largest window, no header and no checksum

static unsigned clamp(size_t bytes) {
    return bytes < UINT_MAX ? (unsigned)bytes : UINT_MAX;
}

int inflate_bytes(const void *from, size_t from_bytes, void *to, size_t to_bytes) {
    z_stream stream = {0};
    const unsigned char *in = from;
    unsigned char *out = to, none;
    size_t left = to_bytes;
    int status = Z_OK;
    if (inflateInit2(&stream, RAW) != Z_OK)
        return error_set_code(EXIT_CODE_OUT_OF_MEMORY, "out of memory for decompression");
    while (status == Z_OK) {
        unsigned taken = clamp(from_bytes), room = clamp(left);
        stream.next_in = (Bytef *)in;  // zlib does not write there
        stream.avail_in = taken;
        // The end marker may follow when the output is already full.
        stream.next_out = left > 0 ? out : &none;
        stream.avail_out = left > 0 ? room : 1;
        unsigned offered = stream.avail_out;
        status = inflate(&stream, Z_NO_FLUSH);
        in += taken - stream.avail_in;
        from_bytes -= taken - stream.avail_in;
        unsigned made = offered - stream.avail_out;
        if (made > left || (status == Z_OK && made == 0 && taken == stream.avail_in))
            status = Z_DATA_ERROR;
        else {
            out += made;
            left -= made;
        }
    }
    inflateEnd(&stream);
    if (status != Z_STREAM_END || left > 0 || from_bytes > 0)
        return error_set("its compressed bytes are damaged");
    return 0;
}
