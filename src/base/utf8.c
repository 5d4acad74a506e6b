// UTF-8 by the table of well-formed byte sequences of the Unicode standard (table 3-7).
//
// What may follow a lead byte is one range for the second byte and 80…BF for the rest; overlong forms, surrogates and
// values above U+10FFFF are exactly those that the second byte's range shuts out.
#include "base/utf8.h"

#include <string.h>

enum { REPLACEMENT = 0xFFFD };

// Length of a sequence and the range of its second byte, by lead byte. Length 0 for bytes that cannot lead.
struct lead {
    size_t length;
    unsigned char low, high;
};

static struct lead lead_of(unsigned char byte) {
    if (byte < 0x80)
        return (struct lead){1, 0, 0};
    if (byte < 0xC2)
        return (struct lead){0, 0, 0};
    if (byte < 0xE0)
        return (struct lead){2, 0x80, 0xBF};
    if (byte < 0xF0)
        return (struct lead){3, byte == 0xE0 ? 0xA0 : 0x80, byte == 0xED ? 0x9F : 0xBF};
    if (byte < 0xF5)
        return (struct lead){4, byte == 0xF0 ? 0x90 : 0x80, byte == 0xF4 ? 0x8F : 0xBF};
    return (struct lead){0, 0, 0};
}

size_t utf8_decode(const unsigned char *text, size_t length, uint32_t *character, bool *valid) {
    static const unsigned char lead_bits[5] = {0, 0x7F, 0x1F, 0x0F, 0x07};
    struct lead lead = lead_of(text[0]);
    uint32_t value = text[0] & lead_bits[lead.length];
    size_t used = 1;
    while (used < lead.length && used < length) {
        unsigned char low = used == 1 ? lead.low : 0x80, high = used == 1 ? lead.high : 0xBF;
        if (text[used] < low || text[used] > high)
            break;
        value = value << 6 | (text[used] & 0x3Fu);
        used++;
    }
    bool whole = used == lead.length;
    *character = whole ? value : REPLACEMENT;
    if (valid)
        *valid = whole;
    return used;
}

size_t utf8_encode(uint32_t character, char out[4]) {
    uint32_t c = character;
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        c = REPLACEMENT;
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xC0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xE0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3F));
        out[2] = (char)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3F));
    out[2] = (char)(0x80 | (c >> 6 & 0x3F));
    out[3] = (char)(0x80 | (c & 0x3F));
    return 4;
}

size_t utf8_check(const char *text, size_t length) {
    const unsigned char *bytes = (const unsigned char *)text;
    size_t at = 0;
    while (at < length) {
        uint64_t eight;
        if (length - at >= sizeof eight) {
            memcpy(&eight, bytes + at, sizeof eight);
            if ((eight & 0x8080808080808080u) == 0) {
                at += sizeof eight;
                continue;
            }
        }
        uint32_t character;
        bool valid;
        size_t used = utf8_decode(bytes + at, length - at, &character, &valid);
        if (!valid)
            return at;
        at += used;
    }
    return length;
}
