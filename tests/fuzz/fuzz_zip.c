// layer: formats
// A zip archive with compressed entries from hostile bytes. If it parses, its entries are inside the input, and an
// entry that unpacks matches its checksum.
#include "fuzz.h"

#include "base/error.h"
#include "base/memory.h"
#include "formats/torch_file.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct torch_zip zip;
    if (torch_zip_parse_packed(&zip, data, size) < 0) {
        error_clear();
        return 0;
    }
    for (size_t i = 0; i < zip.count; i++) {
        const struct torch_zip_entry *entry = &zip.entries[i];
        CHECK(entry->data >= data && entry->stored_bytes <= (size_t)(data + size - entry->data));
        CHECK(entry->is_deflated || entry->bytes == entry->stored_bytes);
        CHECK(torch_zip_find(&zip, entry->name) == entry);
        if (entry->bytes > MOST_BYTES)
            continue;
        unsigned char *bytes = memory_alloc(entry->bytes + 1);
        if (torch_zip_unpack(entry, bytes) < 0)
            error_clear();
        free(bytes);
    }
    torch_zip_free(&zip);
    return 0;
}
