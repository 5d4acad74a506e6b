// The inner loops over bulk text.
#ifndef BASE_SCAN_H
#define BASE_SCAN_H

#include <stdbool.h>
#include <stddef.h>

// Number of bytes beyond its run that scan_copy_plain may overwrite.
enum { SCAN_SLACK_BYTES = 16 };

// The length of the run of bytes at `text` that stand for themselves in a JSON string: up to the first quote, backslash
// or control character, or `length`. *has_high is set (never cleared) if any of them is not ASCII.
size_t scan_plain(const char *text, size_t length, bool *has_high);
// Like scan_plain, and copies the run to `out`; up to SCAN_SLACK_BYTES after it may be overwritten with anything.
size_t scan_copy_plain(char *restrict out, const char *restrict text, size_t length, bool *has_high);

#endif
