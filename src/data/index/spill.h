// A list too long for memory, kept in an unnamed file: written once from front to back, then read anywhere. The file is
// unlinked as soon as it is created, so it never outlives the process.
#ifndef DATA_INDEX_SPILL_H
#define DATA_INDEX_SPILL_H

#include <stddef.h>
#include <stdint.h>

struct spill {
    int descriptor;          // -1 if closed
    unsigned char *pending;  // bytes not yet in the file
    size_t pending_bytes;
    uint64_t bytes;  // all bytes accepted
    char *beside;    // the path whose folder holds the file, for errors
};

// Creates the file in the folder of `beside`, where the result needs space anyway.
int spill_open(struct spill *spill, const char *beside);
int spill_write(struct spill *spill, const void *bytes, size_t count);
// Reads count bytes at offset, after flushing pending writes.
int spill_read(struct spill *spill, uint64_t offset, void *out, size_t count);
void spill_close(struct spill *spill);

#endif
