// Stands in for unicode.c in a build without utf8proc: text can be decoded but not encoded.
#include "data/tokenizer/unicode.h"
#include "base/error.h"

int unicode_require(void) {
    return error_set("this build has no Unicode tables, which tokenizing text needs; install utf8proc (Debian: apt-get "
                     "install libutf8proc-dev) and build again, or tokenize on a machine that has it");
}

const char *unicode_version(void) {
    return "none";
}

enum unicode_class unicode_class(uint32_t character) {
    (void)character;
    die("unicode_class without unicode_require");
}
