// UTF-8 by the table of well-formed byte sequences of the Unicode standard (table 3-7).
//
// A lead byte is followed by one range for the second byte and 80…BF for the rest; the second byte's range excludes
// exactly the overlong forms, surrogates and values above U+10FFFF.
#include "base/utf8.h"

#include <ctype.h>
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

// Well-formedness as an automaton whose whole next-state function for a byte fits one 64-bit row: six bits for each
// state, at the bit position equal to the state's number. A step is one load and one shift, without a branch.
enum {
    REJECT = 0,  // unlisted steps are 0, so each of them rejects, and rejection stays
    ACCEPT = 6,
    NEED_1 = 12,
    NEED_2 = 18,
    NEED_3 = 24,
    AFTER_E0 = 30,
    AFTER_ED = 36,
    AFTER_F0 = 42,
    AFTER_F4 = 48,
};
#define STEP(from, to) ((uint64_t)(to) << (from))
#define ANY_TAIL (STEP(NEED_1, ACCEPT) | STEP(NEED_2, NEED_1) | STEP(NEED_3, NEED_2))

static const uint64_t rows[256] = {
    [0x00 ... 0x7F] = STEP(ACCEPT, ACCEPT),
    [0x80 ... 0x8F] = ANY_TAIL | STEP(AFTER_ED, NEED_1) | STEP(AFTER_F4, NEED_2),
    [0x90 ... 0x9F] = ANY_TAIL | STEP(AFTER_ED, NEED_1) | STEP(AFTER_F0, NEED_2),
    [0xA0 ... 0xBF] = ANY_TAIL | STEP(AFTER_E0, NEED_1) | STEP(AFTER_F0, NEED_2),
    [0xC2 ... 0xDF] = STEP(ACCEPT, NEED_1),
    [0xE0] = STEP(ACCEPT, AFTER_E0),
    [0xE1 ... 0xEC] = STEP(ACCEPT, NEED_2),
    [0xED] = STEP(ACCEPT, AFTER_ED),
    [0xEE ... 0xEF] = STEP(ACCEPT, NEED_2),
    [0xF0] = STEP(ACCEPT, AFTER_F0),
    [0xF1 ... 0xF3] = STEP(ACCEPT, NEED_3),
    [0xF4] = STEP(ACCEPT, AFTER_F4),
};

static bool is_ascii_block(const unsigned char *bytes) {
    uint64_t words[4];
    memcpy(words, bytes, sizeof words);
    return ((words[0] | words[1] | words[2] | words[3]) & 0x8080808080808080u) == 0;
}

// Offset of the first ill-formed sequence at or after `at`, where a character begins.
static size_t first_ill_formed(const unsigned char *bytes, size_t at, size_t length) {
    while (at < length) {
        uint32_t character;
        bool valid;
        size_t used = utf8_decode(bytes + at, length - at, &character, &valid);
        if (!valid)
            return at;
        at += used;
    }
    return length;
}

static uint64_t run_automaton(uint64_t state, const unsigned char *bytes, size_t count) {
    for (size_t i = 0; i < count; i++)
        state = rows[bytes[i]] >> (state & 63);
    return state & 63;
}

size_t utf8_check(const char *text, size_t length) {
    const unsigned char *bytes = (const unsigned char *)text;
    enum { BLOCK_BYTES = 32 };
    uint64_t state = ACCEPT, next = ACCEPT;
    size_t at = 0;
    for (; length - at >= BLOCK_BYTES && next != REJECT; at += BLOCK_BYTES) {
        state = next;
        if (state != ACCEPT || !is_ascii_block(bytes + at))
            next = run_automaton(state, bytes + at, BLOCK_BYTES);
    }
    if (next == REJECT) {
        at -= BLOCK_BYTES;
    } else {
        state = next;
        if (run_automaton(state, bytes + at, length - at) == ACCEPT)
            return length;
    }
    // Something is ill-formed at or after `at`, or in the character that spans `at`, which begins up to three bytes
    // earlier. The slow way finds where.
    while (state != ACCEPT && (bytes[--at] & 0xC0) == 0x80)
        continue;
    return first_ill_formed(bytes, at, length);
}

bool utf8_is_blank(const char *text, size_t length) {
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    return length == 0;
}

bool utf8_is_acting(uint32_t c) {
    static const struct {
        uint32_t first, last;
    } ranges[] = {{0, 0x1f}, {0x7f, 0x9f}, {0x61c, 0x61c}, {0x200e, 0x200f}, {0x2028, 0x202e}, {0x2066, 0x2069}};
    bool is_acting = false;
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        is_acting = is_acting || (c >= ranges[i].first && c <= ranges[i].last);
    return is_acting;
}

void utf8_make_printable(char *text, const char *kept) {
    size_t length = strlen(text), to = 0, bytes;
    for (size_t at = 0; at < length; at += bytes) {
        uint32_t character;
        bool is_valid;
        bytes = utf8_decode((const unsigned char *)text + at, length - at, &character, &is_valid);
        bool is_kept = is_valid && (!utf8_is_acting(character) || (character < 0x80 && strchr(kept, (int)character)));
        if (is_kept) {
            memmove(text + to, text + at, bytes);
            to += bytes;
        }
        for (size_t i = 0; !is_kept && i < (is_valid ? 1 : bytes); i++)
            text[to++] = '?';
    }
    text[to] = '\0';
}
