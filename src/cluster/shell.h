// Words in shell scripts. User input (names, paths, flags) always becomes one word of the script and never code.
#ifndef CLUSTER_SHELL_H
#define CLUSTER_SHELL_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>

// Appends text as one word: verbatim if it is plain, else between single quotes.
void shell_word(struct buffer *out, const char *text);
// Appends "export NAME=word\n". -1 if the name is not valid for a variable.
int shell_export(struct buffer *out, const char *name, const char *value);
// Appends the export of "NAME=value".
int shell_export_pair(struct buffer *out, const char *pair);
// Whether the text can be the name of a variable.
bool shell_is_name(const char *text, size_t length);

#endif
