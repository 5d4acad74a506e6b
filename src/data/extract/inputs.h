// The files that a user names: paths, patterns (*.jsonl.zst, expanded here if the shell did not), folders, "-" for
// standard input, https:// addresses, and objects, patterns and prefixes in S3 (s3://bucket/p-*.jsonl.zst,
// s3://bucket/data/).
#ifndef DATA_EXTRACT_INPUTS_H
#define DATA_EXTRACT_INPUTS_H

#include "config/flag.h"
#include <stdbool.h>
#include <stdint.h>

// Fills *files (zeroed) with the files that the names stand for, in the given order, patterns in byte order. A missing
// file, a pattern without a match and a folder are errors. The caller frees the list, also on error.
int inputs_expand(struct string_list *files, const struct string_list *names);

// inputs_expand, but a folder stands for all files in and below it whose names have one of these endings
// (NULL-terminated), optionally followed by a compression suffix (.gz, .bz2, .xz, .zst). They come in byte order of
// their paths. Names that begin with a dot and files about the data (README.md, also where a pattern matches it) are
// left out, which is logged, and links to folders are not followed. A folder without files to read is an error.
int inputs_expand_folders(struct string_list *files, const struct string_list *names, const char *const *endings);

// Total size on disk; 0 if unknown (standard input, a pipe).
uint64_t inputs_bytes(const struct string_list *files);

#endif
