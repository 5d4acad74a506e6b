// Recognizes files that do not hold text by their first bytes, and names the command that converts them to text. Every
// reader checks both plain files and the content of compressed ones, so that no model is trained on tar headers.
#ifndef DATA_EXTRACT_CONTENT_H
#define DATA_EXTRACT_CONTENT_H

#include <stdbool.h>
#include <stddef.h>

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
