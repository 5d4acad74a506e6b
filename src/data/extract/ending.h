// Endings of names of files, optionally followed by a compression suffix (.gz, .bz2, .xz, .zst).
#ifndef DATA_EXTRACT_ENDING_H
#define DATA_EXTRACT_ENDING_H

#include <stdbool.h>
#include <stddef.h>

// Whether a name has one of these endings (NULL-terminated).
bool ending_is_among(const char *name, const char *const *endings);
// The length of a name without its compression suffix.
size_t ending_stem_bytes(const char *name);

#endif
