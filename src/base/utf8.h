// UTF-8 as the Unicode standard defines it: no overlong forms, no surrogates, nothing above U+10FFFF.
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Decodes the character at `text` (length > 0 bytes are left), stores it and returns its length in bytes. For
// ill-formed input it stores U+FFFD and returns the length of the maximal subpart (1 to 3), as Python's "replace" does.
// *valid (may be NULL) tells whether it was well-formed.
size_t utf8_decode(const unsigned char *text, size_t length, uint32_t *character, bool *valid);
// Writes 1 to 4 bytes and returns their number. A value that is not a character is written as U+FFFD.
size_t utf8_encode(uint32_t character, char out[4]);
// The offset of the first ill-formed byte, or `length` if there is none.
size_t utf8_check(const char *text, size_t length);
// Whether all characters are white space of ASCII, or there are none.
bool utf8_is_blank(const char *text, size_t length);
// Whether a terminal would act on the character: control characters, line and paragraph separators, and those that
// change the direction of the text around them (U+202E reverses it), so that it reads as something else.
bool utf8_is_acting(uint32_t character);
// Replaces each of these and each ill-formed byte by a ?, for untrusted texts that go to a terminal. `kept` are control
// characters that stay: "\n\t".
void utf8_make_printable(char *text, const char *kept);

#endif
