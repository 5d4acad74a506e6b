// zstd frames with libzstd.
#include "data/extract/pack.h"
#include "base/error.h"
#include <zstd.h>

enum { LEVEL = 3 };

int pack_zstd(struct buffer *out, const void *bytes, size_t count) {
    size_t bound = ZSTD_compressBound(count);
    buffer_reserve(out, bound);
    size_t packed = ZSTD_compress(out->data + out->length, bound, bytes, count, LEVEL);
    if (ZSTD_isError(packed))
        return error_set("zstd compression failed: %s", ZSTD_getErrorName(packed));
    out->length += packed;
    out->data[out->length] = '\0';
    return 0;
}
