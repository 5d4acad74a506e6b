// The files a user means: names, patterns (*.jsonl.zst, expanded here where the shell has not), folders, and "-" for
// standard input.
#ifndef DATA_EXTRACT_INPUTS_H
#define DATA_EXTRACT_INPUTS_H

#include "config/flag.h"
#include <stdint.h>

// Fills *files (zeroed) with what the names stand for, in the order given, patterns in byte order. A name without a
// file, a pattern without a match and a folder are errors. The caller frees the list, also on error.
int inputs_expand(struct string_list *files, const struct string_list *names);

// The same; a folder stands for the files in it and in all folders below whose names have one of these endings
// (NULL-terminated), with or without one of a compression (.gz, .bz2, .xz, .zst) behind. They come in byte order of
// their paths. What begins with a dot is left out, and links to folders are not followed. None at all is an error.
int inputs_expand_folders(struct string_list *files, const struct string_list *names, const char *const *endings);

// Their size on disk altogether; 0 if it is not known (standard input, a pipe).
uint64_t inputs_bytes(const struct string_list *files);

#endif
