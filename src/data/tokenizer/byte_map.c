// Builds and applies the map between bytes and printable characters.
#include "data/tokenizer/byte_map.h"
#include "base/utf8.h"

static bool is_printable(int byte) {
    return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
}

void byte_map_init(struct byte_map *map) {
    uint16_t next = 256;
    for (int byte = 0; byte < 256; byte++)
        map->character[byte] = is_printable(byte) ? (uint16_t)byte : next++;
    for (int c = 0; c < BYTE_MAP_CHARACTERS; c++)
        map->byte[c] = -1;
    for (int byte = 0; byte < 256; byte++)
        map->byte[map->character[byte]] = (int16_t)byte;
    int order = 0;
    for (int c = 0; c < BYTE_MAP_CHARACTERS; c++)
        if (map->byte[c] >= 0)
            map->in_order[order++] = (unsigned char)map->byte[c];
}

void byte_map_write(const struct byte_map *map, const unsigned char *bytes, size_t count, struct buffer *out) {
    for (size_t i = 0; i < count; i++) {
        char utf8[4];
        buffer_append(out, utf8, utf8_encode(map->character[bytes[i]], utf8));
    }
}

bool byte_map_read(const struct byte_map *map, const char *text, size_t length, struct buffer *out) {
    size_t before = out->length;
    for (size_t at = 0; at < length;) {
        uint32_t character;
        bool valid;
        at += utf8_decode((const unsigned char *)text + at, length - at, &character, &valid);
        if (!valid || character >= BYTE_MAP_CHARACTERS || map->byte[character] < 0) {
            out->length = before;
            if (out->data)
                out->data[before] = 0;
            return false;
        }
        buffer_append_byte(out, (char)(unsigned char)map->byte[character]);
    }
    return true;
}
