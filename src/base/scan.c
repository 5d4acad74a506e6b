// The inner loops over bulk text, eight bytes at a time in plain C.
//
// A byte is special in a JSON string where it is a quote, a backslash or below 0x20. With eight bytes in one word, the
// test "byte is zero" is (x - 0x01…01) & ~x & 0x80…80, which may mark bytes above a true hit wrongly but never
// below it; only the lowest mark is used, so that does no harm.
#include "base/scan.h"

#include <stdint.h>
#include <string.h>

static const uint64_t ones = 0x0101010101010101u;
static const uint64_t highs = 0x8080808080808080u;

static inline uint64_t special_bytes(uint64_t word) {
    uint64_t quote = word ^ (ones * '"'), backslash = word ^ (ones * '\\');
    uint64_t is_quote = (quote - ones) & ~quote, is_backslash = (backslash - ones) & ~backslash;
    uint64_t is_control = (word - ones * 0x20) & ~word;
    return (is_quote | is_backslash | is_control) & highs;
}

static inline bool is_special(unsigned char byte) {
    return byte < 0x20 || byte == '"' || byte == '\\';
}

size_t scan_plain(const char *text, size_t length, bool *has_high) {
    size_t at = 0;
    uint64_t word, seen = 0;
    for (; length - at >= sizeof word; at += sizeof word) {
        memcpy(&word, text + at, sizeof word);
        uint64_t special = special_bytes(word);
        if (special) {
            size_t run = (size_t)__builtin_ctzll(special) / 8;
            seen |= word & ((run ? UINT64_MAX >> (64 - 8 * run) : 0));
            *has_high |= (seen & highs) != 0;
            return at + run;
        }
        seen |= word;
    }
    for (; at < length && !is_special((unsigned char)text[at]); at++)
        seen |= (unsigned char)text[at];
    *has_high |= (seen & highs) != 0;
    return at;
}

size_t scan_copy_plain(char *restrict out, const char *restrict text, size_t length, bool *has_high) {
    size_t run = scan_plain(text, length, has_high);
    memcpy(out, text, run);
    return run;
}
