// Tells what a file is that does not hold text, by its first bytes, and names the command that makes text of it. Every
// reader asks, for plain files and for what comes out of compressed ones, so that nobody learns from a tar header.
#ifndef DATA_EXTRACT_CONTENT_H
#define DATA_EXTRACT_CONTENT_H

#include <stdbool.h>
#include <stddef.h>

enum { CONTENT_BYTES = 1024 };  // more of them tell nothing new; a tar header has 512

// 0 if the bytes may begin a text, else an error that says what they are and which command helps. `name` stands for the
// file in the message, `path` in the command; "-" is standard input.
int content_check(const char *name, const char *path, const unsigned char *bytes, size_t count);

// The same for a name given as an input: one that begins like https:// or s3:// is not a file.
int content_check_name(const char *name);
// The same for the PREFIX of a dataset, which is two files and cannot be piped.
int content_check_prefix(const char *prefix);

#endif
