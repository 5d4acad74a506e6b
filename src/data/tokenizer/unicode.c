// Character classes out of utf8proc's category table. Which characters are assigned depends on its Unicode version; a
// character assigned later is "other" here, and would be a letter for a newer table: unicode_version says which this
// is.
#include "data/tokenizer/unicode.h"
#include <stdbool.h>
#include <utf8proc.h>

int unicode_require(void) {
    return 0;
}

const char *unicode_version(void) {
    return utf8proc_unicode_version();
}

// The property White_Space, complete and stable since Unicode 6.3. The separators U+001C…U+001F, which Python's
// str.isspace takes for blanks, are not in it, nor are U+180E and U+200B.
static bool is_white_space(uint32_t c) {
    if (c < 0x80)
        return c == ' ' || (c >= 9 && c <= 13);
    return c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
           c == 0x202F || c == 0x205F || c == 0x3000;
}

enum unicode_class unicode_class(uint32_t character) {
    if (character > 0x10FFFF)
        return UNICODE_OTHER;
    switch (utf8proc_category((utf8proc_int32_t)character)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
        return UNICODE_LETTER;
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
        return UNICODE_NUMBER;
    default:
        return is_white_space(character) ? UNICODE_SPACE : UNICODE_OTHER;
    }
}
