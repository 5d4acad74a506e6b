// layer: data
// A compressed file from hostile bytes, read by one thread and by three: the same bytes come out, or both report
// damage. A few bytes may expand to terabytes, so both stop early: one may not have reached damage by then that the
// other has already found.
#include "fuzz.h"

#include "base/hash.h"
#include "data/extract/reader.h"
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_BYTES = 4 << 20 };

struct outcome {
    bool is_whole;  // read to its end
    size_t length;
    uint64_t hash;
};

static struct outcome read_with(const char *path, int threads) {
    static unsigned char out[MOST_BYTES];
    struct reader *reader;
    struct outcome outcome = {0};
    if (reader_open_threads(&reader, path, threads) < 0)
        return outcome;
    // Neither a power of two nor the size of a block, so that ends fall anywhere.
    size_t piece = threads == 1 ? 7777 : 70001;
    int64_t got = 1;
    while (got > 0 && outcome.length < MOST_BYTES) {
        size_t room = MOST_BYTES - outcome.length;
        got = reader_read(reader, out + outcome.length, room < piece ? room : piece);
        outcome.length += got > 0 ? (size_t)got : 0;
    }
    outcome.is_whole = got == 0;
    outcome.hash = hash_bytes(out, outcome.length, 0);
    reader_close(reader);
    return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int descriptor = memfd_create("fuzz", 0);
    if (descriptor < 0 || write(descriptor, data, size) != (ssize_t)size)
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    struct outcome one = read_with(path, 1), three = read_with(path, 3);
    CHECK(one.is_whole == three.is_whole);
    CHECK(!one.is_whole || (one.length == three.length && one.hash == three.hash));
    close(descriptor);
    return 0;
}
