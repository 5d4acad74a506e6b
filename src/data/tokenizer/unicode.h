// The classes of characters that tokenizers split at. The tables come from utf8proc (unicode.c); a build without it has
// unicode_none.c, whose unicode_require fails, so that whoever needs the classes asks for them first.
#ifndef DATA_TOKENIZER_UNICODE_H
#define DATA_TOKENIZER_UNICODE_H

#include <stdint.h>

// Letters are the general categories L*, numbers are N* (½ and Ⅷ too), spaces the 25 characters with the property
// White_Space; everything else, combining marks and unassigned values included, is other.
enum unicode_class { UNICODE_OTHER, UNICODE_LETTER, UNICODE_NUMBER, UNICODE_SPACE };

// -1 with the remedy where this build has no tables.
int unicode_require(void);
// "15.0.0", or "none".
const char *unicode_version(void);
enum unicode_class unicode_class(uint32_t character);

#endif
