// Base64 (RFC 4648), as used in rank files and tokenizer.json.
#ifndef DATA_TOKENIZER_BASE64_H
#define DATA_TOKENIZER_BASE64_H

#include "base/buffer.h"
#include <stdbool.h>

// Appends the decoded bytes. False, nothing appended, if text is not base64: groups of four characters of the alphabet,
// the last one padded with '='.
bool base64_decode(const char *text, size_t length, struct buffer *out);
void base64_encode(const char *bytes, size_t length, struct buffer *out);

#endif
