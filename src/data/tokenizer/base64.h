// Base64 (RFC 4648), as rank files and tokenizer.json hold bytes.
#ifndef DATA_TOKENIZER_BASE64_H
#define DATA_TOKENIZER_BASE64_H

#include "base/buffer.h"
#include <stdbool.h>

// Appends the bytes that text stands for. False, nothing appended, where it is not base64: groups of four of the
// alphabet, the last one filled up with '='.
bool base64_decode(const char *text, size_t length, struct buffer *out);
void base64_encode(const char *bytes, size_t length, struct buffer *out);

#endif
