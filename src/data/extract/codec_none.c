// Stand-ins for the codecs whose library was missing at build time. The build defines MISSING_CODECS, a row for each of
// them (cmake/layers.cmake): the codec, its library and Debian's package; and rows for what else the library does.
#include "data/extract/codec.h"
#include "base/error.h"

static int refuse(const char *what, const char *library, const char *package) {
    return error_set(
        "this build cannot %s; install %s (Debian: apt-get install %s) and build again, or give the data in "
        "another form",
        what, library, package);
}

#define READS(name_, library_, package_)                                                                               \
    static int name_##_open(void **state, int threads) {                                                               \
        (void)threads, (void)state;                                                                                    \
        return refuse("read " #name_ " data", #library_, #package_);                                                   \
    }                                                                                                                  \
    const struct codec codec_##name_ = {.name = #name_, .open = name_##_open};
#define WRITES(name_, library_, package_)                                                                              \
    int pack_##name_(struct buffer *out, const void *bytes, size_t count) {                                            \
        (void)out, (void)bytes, (void)count;                                                                           \
        return refuse("write " #name_ " files", #library_, #package_);                                                 \
    }
#define INFLATES(library_, package_)                                                                                   \
    int inflate_bytes(const void *from, size_t from_bytes, void *to, size_t to_bytes) {                                \
        (void)from, (void)from_bytes, (void)to, (void)to_bytes;                                                        \
        return refuse("decompress it", #library_, #package_);                                                          \
    }
MISSING_CODECS
