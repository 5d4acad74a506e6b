// The format of a text file: JSON Lines, where every line is a document, or plain text.
//
// Plain text does not say where documents end. It is cut at line ends: the lines that begin in one block of
// decompressed text form a document. Blocks have TEXT_BLOCK_BYTES, of small texts less, so that there are TEXT_BLOCKS
// or more: a book of a megabyte has some documents for validation. The cuts depend only on the text: not on threads,
// compression, or where a stopped run resumed. Text from a pipe always has large blocks.
#ifndef DATA_EXTRACT_TEXT_FORMAT_H
#define DATA_EXTRACT_TEXT_FORMAT_H

#include "config/flag.h"
#include <stdbool.h>
#include <stdint.h>

enum text_format {
    TEXT_FORMAT_JSONL,
    TEXT_FORMAT_PLAIN,
    // JSON Lines if the name, without .gz and the like, ends in .jsonl, .ndjson or .json, or if the text begins like an
    // object; else plain text.
    TEXT_FORMAT_AUTO,
};

enum { TEXT_BLOCK_BYTES = 1 << 16, TEXT_LEAST_BLOCK_BYTES = 1 << 10, TEXT_BLOCKS = 256 };

// Endings of the files to take from a folder, without compression suffix: those that TEXT_FORMAT_AUTO can tell apart.
extern const char *const text_format_endings[];

// Whether the file holds plain text. Unless the format is TEXT_FORMAT_PLAIN, its beginning may be read, and a file that
// is neither (an archive, Parquet, a table, HTML) is an error that names the remedy. For a pipe and "-" only the name
// counts.
int text_format_find(bool *is_plain, enum text_format format, const char *path);
// The block size for those of the files that are plain text.
int text_format_block(uint64_t *bytes, const struct string_list *files, const bool *are_plain);

#endif
