// The zip container of torch.save. Its entries are stored, never compressed, so an entry is a range of the file. The
// reader treats its file as hostile: it accepts no compressed or encrypted entry (so nothing can expand), no two
// entries with the same name or a common byte, and no entry that reaches outside the file. Zip64 is understood.
// Archives that users make of such files may be compressed (deflate); a separate function reads them. Internal to this
// folder.
#ifndef FORMATS_TORCH_ZIP_H
#define FORMATS_TORCH_ZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct torch_zip_entry {
    char *name;                 // owned
    const unsigned char *data;  // inside the file
    size_t bytes;               // of the entry itself
    size_t stored_bytes;        // in the file: the same unless it is compressed
    bool is_deflated;
    uint32_t crc;  // of the entry itself
};

struct torch_zip {
    struct torch_zip_entry *entries;  // sorted by name
    size_t count;
};

// Messages describe the error but not the file's name; the caller adds that.
int torch_zip_parse(struct torch_zip *zip, const unsigned char *bytes, size_t size);
// torch_zip_parse for archives whose entries may be compressed.
int torch_zip_parse_packed(struct torch_zip *zip, const unsigned char *bytes, size_t size);
void torch_zip_free(struct torch_zip *zip);  // safe on a zeroed one
// NULL if there is none.
const struct torch_zip_entry *torch_zip_find(const struct torch_zip *zip, const char *name);
// Compares the bytes of an entry that is not compressed with its checksum.
int torch_zip_check(const struct torch_zip_entry *entry);
// Writes entry->bytes bytes to `to`, compared with their checksum.
int torch_zip_unpack(const struct torch_zip_entry *entry, unsigned char *to);

#endif
