// Base64: four characters for three bytes.
#include "data/tokenizer/base64.h"
#include <stdint.h>

static int value_of(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

bool base64_decode(const char *text, size_t length, struct buffer *out) {
    size_t before = out->length;
    bool good = length % 4 == 0;
    for (size_t at = 0; good && at < length; at += 4) {
        bool last = at + 4 == length;
        int bytes = last && text[at + 3] == '=' ? (text[at + 2] == '=' ? 1 : 2) : 3;
        uint32_t group = 0;
        for (size_t i = 0; i < 4; i++) {
            int value = (int)i > bytes ? 0 : value_of(text[at + i]);
            good = good && value >= 0;
            group = group << 6 | (uint32_t)(value & 63);
        }
        char decoded[3] = {(char)(group >> 16 & 0xFF), (char)(group >> 8 & 0xFF), (char)(group & 0xFF)};
        buffer_append(out, decoded, (size_t)bytes);
    }
    if (!good) {
        out->length = before;
        if (out->data)
            out->data[before] = 0;
    }
    return good;
}

void base64_encode(const char *bytes, size_t length, struct buffer *out) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    buffer_reserve(out, length / 3 * 4 + 4);
    for (size_t at = 0; at < length; at += 3) {
        uint32_t group = 0;
        for (size_t i = 0; i < 3; i++)
            group = group << 8 | (at + i < length ? (unsigned char)bytes[at + i] : 0);
        for (size_t i = 0; i < 4; i++)
            buffer_append_byte(out, at + i > length ? '=' : digits[group >> (18 - 6 * i) & 63]);
    }
}
