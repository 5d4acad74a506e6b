// Unnamed files for lists of any length. Invariant: the file holds the first bytes - pending_bytes bytes, pending the
// rest.
#include "data/index/spill.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { SPILL_PENDING_BYTES = 1 << 17 };

int spill_open(struct spill *spill, const char *beside) {
    *spill = (struct spill){.descriptor = -1};
    char *name = memory_printf("%s.spill.XXXXXX", beside);
    int descriptor = mkstemp(name);
    if (descriptor < 0) {
        error_set("cannot create a temporary file %s: %s; check that the folder exists and is writable", name,
                  strerror(errno));
        free(name);
        return -1;
    }
    unlink(name);
    free(name);
    spill->descriptor = descriptor;
    spill->pending = memory_alloc(SPILL_PENDING_BYTES);
    spill->beside = memory_string(beside);
    return 0;
}

static int flush(struct spill *spill) {
    if (file_put(spill->descriptor, spill->pending, spill->pending_bytes) < spill->pending_bytes)
        return error_set("cannot write a temporary file next to %s: %s; free disk space or choose another disk",
                         spill->beside, strerror(errno));
    spill->pending_bytes = 0;
    return 0;
}

int spill_write(struct spill *spill, const void *bytes, size_t count) {
    const unsigned char *from = bytes;
    while (count > 0) {
        size_t part = SPILL_PENDING_BYTES - spill->pending_bytes;
        part = part < count ? part : count;
        memcpy(spill->pending + spill->pending_bytes, from, part);
        spill->pending_bytes += part;
        spill->bytes += part;
        from += part;
        count -= part;
        if (spill->pending_bytes == SPILL_PENDING_BYTES)
            TRY(flush(spill));
    }
    return 0;
}

int spill_read(struct spill *spill, uint64_t offset, void *out, size_t count) {
    CHECK(offset <= spill->bytes && count <= spill->bytes - offset);
    TRY(flush(spill));
    if (file_read_at(spill->descriptor, out, count, offset) < count)
        return error_set("cannot read back a temporary file next to %s: %s", spill->beside,
                         errno ? strerror(errno) : "it was truncated");
    return 0;
}

void spill_close(struct spill *spill) {
    if (spill->pending && spill->descriptor >= 0)
        close(spill->descriptor);
    free(spill->pending);
    free(spill->beside);
    *spill = (struct spill){.descriptor = -1};
}
