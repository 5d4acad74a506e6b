// The files a user means: names, patterns (*.jsonl.zst, expanded here where the shell has not) and "-" for standard
// input.
#ifndef DATA_EXTRACT_INPUTS_H
#define DATA_EXTRACT_INPUTS_H

#include "config/flag.h"
#include <stdint.h>

// Fills *files (zeroed) with what the names stand for, in the order given, patterns in byte order. A name without a
// file and a pattern without a match are errors. The caller frees the list, also on error.
int inputs_expand(struct string_list *files, const struct string_list *names);

// Their size on disk altogether; 0 where it is not known (standard input, a pipe).
uint64_t inputs_bytes(const struct string_list *files);

#endif
