// Recognizes text that is not meant to be learned as it is, by its first bytes: markup, tables, JSON arrays, and bytes
// that are hardly text at all.
#ifndef DATA_EXTRACT_TEXT_SHAPE_H
#define DATA_EXTRACT_TEXT_SHAPE_H

#include <stdbool.h>
#include <stddef.h>

enum { TEXT_SHAPE_BYTES = 4096 };  // enough to tell

bool text_shape_has_zeros(const char *text, size_t length);
bool text_shape_is_html(const char *text, size_t length);
// A bracket and then an object: `[{"text": …`. Text may begin with a bracket.
bool text_shape_is_array(const char *text, size_t length);
// At least three records with the same number of fields, of which the first has names of columns.
bool text_shape_is_csv(const char *text, size_t length);
bool text_shape_is_tsv(const char *text, size_t length);
// More than a quarter of the bytes are ill-formed UTF-8 or control characters.
bool text_shape_is_garbled(const char *text, size_t length);
// An object begins with { and the quote of its first name, or is {}.
bool text_shape_is_object(const char *text, size_t length);

#endif
