// GPT-2's pre-tokenization pattern as a hand-written matcher:
//
//   's|'t|'re|'ve|'m|'ll|'d | ?\p{L}+ | ?\p{N}+ | ?[^\s\p{L}\p{N}]+ | \s+(?!\S) | \s+
//
// The alternatives are tried in this order. The three in the middle are one rule: an optional U+0020, then the longest
// run of one class. What is left begins with a blank: a run of blanks that a non-blank follows gives its last blank
// back (the back-off of \s+(?!\S)), unless it is the only one.
#include "data/tokenizer/split.h"
#include "data/tokenizer/unicode.h"
#include "base/utf8.h"

#define O UNICODE_OTHER
#define L UNICODE_LETTER
#define N UNICODE_NUMBER
#define S UNICODE_SPACE
static const unsigned char ascii_class[128] = {
    O, O, O, O, O, O, O, O, O, S, S, S, S, S, O, O,  // 0x00: tab, line feed, vertical tab, form feed, return
    O, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,  // 0x10
    S, O, O, O, O, O, O, O, O, O, O, O, O, O, O, O,  // 0x20
    N, N, N, N, N, N, N, N, N, N, O, O, O, O, O, O,  // 0x30
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L,  // 0x40
    L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,  // 0x50
    O, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L,  // 0x60
    L, L, L, L, L, L, L, L, L, L, L, O, O, O, O, O,  // 0x70
};
#undef O
#undef L
#undef N
#undef S

// Class and length of the character at text, length > 0.
static inline enum unicode_class class_at(const unsigned char *text, size_t length, size_t *bytes) {
    if (text[0] < 0x80) {
        *bytes = 1;
        return (enum unicode_class)ascii_class[text[0]];
    }
    uint32_t character;
    bool valid;
    *bytes = utf8_decode(text, length, &character, &valid);
    return valid ? unicode_class(character) : UNICODE_OTHER;
}

// Offset of the first character at or after `at` that is not of the class.
static size_t skip_class(const unsigned char *text, size_t length, size_t at, enum unicode_class class) {
    size_t bytes;
    while (at < length && class_at(text + at, length - at, &bytes) == class)
        at += bytes;
    return at;
}

// Length of the contraction at text, 0 where there is none. Lower case and the ASCII apostrophe only.
static size_t contraction(const unsigned char *text, size_t length) {
    if (text[0] != '\'' || length < 2)
        return 0;
    unsigned char second = text[1], third = length > 2 ? text[2] : 0;
    if (second == 's' || second == 't' || second == 'm' || second == 'd')
        return 2;
    if ((second == 'r' && third == 'e') || (second == 'v' && third == 'e') || (second == 'l' && third == 'l'))
        return 3;
    return 0;
}

size_t split_gpt2(const unsigned char *text, size_t length) {
    size_t bytes = contraction(text, length);
    if (bytes)
        return bytes;
    size_t first = text[0] == ' ';
    if (first < length) {
        enum unicode_class class = class_at(text + first, length - first, &bytes);
        if (class != UNICODE_SPACE)
            return skip_class(text, length, first + bytes, class);
    }
    size_t at = 0, last = 0;
    while (at < length && class_at(text + at, length - at, &bytes) == UNICODE_SPACE) {
        last = at;
        at += bytes;
    }
    return at == length || last == 0 ? at : last;
}
