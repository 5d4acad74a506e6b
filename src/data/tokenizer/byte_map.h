// GPT-2 writes bytes as printable characters so that vocabularies are readable text: bytes 33–126, 161–172 and 174–255
// are the characters with the same number, the other 68 are U+0100 and up in order (a space is Ġ, a line feed Ċ).
// Sorted by character, this is also the order of GPT-2's ids 0–255.
#ifndef DATA_TOKENIZER_BYTE_MAP_H
#define DATA_TOKENIZER_BYTE_MAP_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BYTE_MAP_CHARACTERS = 324 };  // 256 + 68: all mapped characters are below this

struct byte_map {
    uint16_t character[256];            // of a byte
    int16_t byte[BYTE_MAP_CHARACTERS];  // of a character; -1 if it does not stand for a byte
    unsigned char in_order[256];        // the bytes in the order of their characters
};

void byte_map_init(struct byte_map *map);
// Appends bytes as mapped characters, in UTF-8.
void byte_map_write(const struct byte_map *map, const unsigned char *bytes, size_t count, struct buffer *out);
// Appends the bytes of mapped characters. False, nothing appended, if text has any other character.
bool byte_map_read(const struct byte_map *map, const char *text, size_t length, struct buffer *out);

#endif
