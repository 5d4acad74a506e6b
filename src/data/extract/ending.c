// Compares endings.
#include "data/extract/ending.h"
#include <string.h>

static bool ends_with(const char *name, size_t length, const char *ending) {
    size_t bytes = strlen(ending);
    return length > bytes && memcmp(name + length - bytes, ending, bytes) == 0;
}

size_t ending_stem_bytes(const char *name) {
    static const char *const compressions[] = {".gz", ".bz2", ".xz", ".zst", NULL};
    size_t length = strlen(name);
    for (const char *const *compression = compressions; *compression; compression++)
        if (ends_with(name, length, *compression))
            return length - strlen(*compression);
    return length;
}

bool ending_is_among(const char *name, const char *const *endings) {
    size_t length = ending_stem_bytes(name);
    for (; *endings; endings++)
        if (ends_with(name, length, *endings))
            return true;
    return false;
}
