// The inputs of a user: the files that names stand for, whether a file holds JSON Lines or text, and what it is if it
// holds neither.
#ifndef DATA_EXTRACT_INPUTS_H
#define DATA_EXTRACT_INPUTS_H

#include "config/flag.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// ---- names ----

// The files that a user names: paths, patterns (*.jsonl.zst, expanded here if the shell did not), folders, "-" for
// standard input, https:// addresses, and objects, patterns and prefixes in S3 (s3://bucket/p-*.jsonl.zst,
// s3://bucket/data/).

// Fills *files (zeroed) with the files that the names stand for, in the given order, patterns in byte order. A missing
// file, a pattern without a match and a folder are errors. The caller frees the list, also on error.
int inputs_expand(struct string_list *files, const struct string_list *names);

// inputs_expand, but a folder stands for all files in and below it whose names have one of these endings
// (NULL-terminated), optionally followed by a compression suffix (.gz, .bz2, .xz, .zst). They come in byte order of
// their paths. Names that begin with a dot and files about the data (README.md, also where a pattern matches it) are
// left out, which is logged, and links to folders are not followed. A folder without files to read is an error.
int inputs_expand_folders(struct string_list *files, const struct string_list *names, const char *const *endings);

// Of several paths without weights, which a shell may have made of folder/*, leaves out files about the data beside
// others of their folder (README.md), with a note if `says_so`.
void inputs_leave_out(struct string_list *names, bool says_so);

// Total size on disk; 0 if unknown (standard input, a pipe).
uint64_t inputs_bytes(const struct string_list *files);

// ---- text or JSON Lines ----

// The format of a text file: JSON Lines, where every line is a document, or plain text.
//
// Plain text does not say where documents end. It is cut at line ends: the lines that begin in one block of
// decompressed text form a document. Blocks have TEXT_BLOCK_BYTES, of small texts less, so that there are TEXT_BLOCKS
// or more: a book of a megabyte has some documents for validation. The cuts depend only on the text: not on threads,
// compression, or where a stopped run resumed. Text from a pipe always has large blocks.

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

// ---- endings of names ----

// Endings of names of files, optionally followed by a compression suffix (.gz, .bz2, .xz, .zst).

// Whether a name has one of these endings (NULL-terminated).
bool ending_is_among(const char *name, const char *const *endings);
// The length of a name without its compression suffix.
size_t ending_stem_bytes(const char *name);

// ---- files that are not text ----

// Recognizes files that do not hold text by their first bytes, and names the command that converts them to text. Every
// reader checks both plain files and the content of compressed ones, so that no model is trained on tar headers.

enum { CONTENT_BYTES = 1024 };  // more would not help; a tar header has 512

// 0 if the bytes may begin a text, else an error that says what they are and which command helps. In the message the
// file is called `name`, in the command `path`; "-" is standard input.
int content_check(const char *name, const char *path, const unsigned char *bytes, size_t count);

// content_check for decompressed text, by its shape and name: HTML, a table, no text.
int content_check_text(const char *path, const char *text, size_t length);
// content_check for a file that was left out because of its name.
int content_explain(const char *path);

// Whether a text begins as an object does, with { and the quote of its first name, or is {}.
bool content_is_object(const char *text, size_t length);
enum { CONTENT_TEXT_BYTES = 4096 };  // enough to tell the shape of a text

// content_check for the name of an input: gs://… and hf://… are not files.
int content_check_name(const char *name);
// content_check for the PREFIX of a dataset, which is two files and cannot be piped.
int content_check_prefix(const char *prefix);

#endif
