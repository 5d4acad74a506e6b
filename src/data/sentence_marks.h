// The characters that matter to the sentence splitter: stops, quotes, brackets, letters. Inline, since it tests every
// character beyond ASCII.
#ifndef DATA_SENTENCE_MARKS_H
#define DATA_SENTENCE_MARKS_H

#include "data/tokenizer/unicode_category.h"
#include <stdbool.h>
#include <stdint.h>

enum stop {
    STOP_NONE,
    STOP_PERIOD,   // a full stop: may belong to an abbreviation
    STOP_TRAIL,    // an ellipsis: the sentence may continue
    STOP_FULL,     // exclamation and question marks; the stops of scripts without capitals
    STOP_COMPACT,  // of scripts that put no space after it
};

static inline enum stop stop_kind(uint32_t c) {
    switch (c) {
    case '.':
        return STOP_PERIOD;
    case 0x2026:  // horizontal ellipsis
        return STOP_TRAIL;
    case '!':
    case '?':
    case 0x037E:  // Greek question mark
    case 0x0589:  // Armenian full stop
    case 0x061F:  // Arabic question mark
    case 0x06D4:  // Arabic full stop
    case 0x0964:  // danda
    case 0x0965:  // double danda
    case 0x104A:  // Myanmar little section
    case 0x104B:  // Myanmar section
    case 0x1362:  // Ethiopic full stop
    case 0x1367:  // Ethiopic question mark
    case 0x17D4:  // Khmer khan
    case 0x203C:  // double exclamation mark
    case 0x203D:  // interrobang
    case 0x2047:  // ??
    case 0x2048:  // ?!
    case 0x2049:  // !?
        return STOP_FULL;
    case 0x3002:  // ideographic full stop
    case 0xFF01:  // fullwidth !
    case 0xFF0E:  // fullwidth .
    case 0xFF1F:  // fullwidth ?
    case 0xFF61:  // halfwidth ideographic full stop
        return STOP_COMPACT;
    default:
        return STOP_NONE;
    }
}

static inline bool is_closer(uint32_t c) {
    switch (c) {
    case '"':
    case '\'':
    case ')':
    case ']':
    case '}':
    case 0xBB:    // »
    case 0x2019:  // right single quote
    case 0x201D:  // right double quote
    case 0x203A:  // single right angle quote
    case 0x3009:  // the closing brackets of Chinese and Japanese
    case 0x300B:
    case 0x300D:
    case 0x300F:
    case 0x3011:
    case 0x3015:
    case 0x3017:
    case 0xFF09:
    case 0xFF3D:
    case 0xFF5D:
    case 0xFF63:
        return true;
    default:
        return false;
    }
}

// Marks that may come between the space after a stop and the first letter of the next sentence.
static inline bool is_opening_mark(uint32_t c) {
    switch (c) {
    case '"':
    case '\'':
    case '(':
    case '[':
    case '{':
    case '-':
    case '*':
    case '_':
    case '`':
    case 0xA1:    // inverted !
    case 0xAB:    // «
    case 0xBF:    // inverted ?
    case 0x2013:  // dashes
    case 0x2014:
    case 0x2015:
    case 0x2018:  // quotes
    case 0x201A:
    case 0x201C:
    case 0x201E:
    case 0x2039:
        return true;
    default:
        return false;
    }
}

// Small letters of scripts that have capitals. Digits, signs and all other letters may begin a sentence.
static inline bool is_small(uint32_t c) {
    if (c < 0x80)
        return c >= 'a' && c <= 'z';
    bool is_cased = (c >= 0xDF && c <= 0x24F && c != 0xF7) || (c >= 0x370 && c <= 0x52F) ||
                    (c >= 0x561 && c <= 0x587) || (c >= 0x1E00 && c <= 0x1FFF);
    return is_cased && c != 0x37E && unicode_lower(c) == c;
}

static inline bool is_digit(uint32_t c) {
    return c >= '0' && c <= '9';
}

// A character that may be part of an abbreviation. Beyond ASCII, everything except spaces and punctuation.
static inline bool is_word_character(uint32_t c) {
    if (c < 0x80)
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '.' || c == '\'' || c == '&';
    return c >= 0xC0 && !(c >= 0x2000 && c <= 0x206F) && !(c >= 0x3000 && c <= 0x303F);
}

// Letters of Thai, Lao and Khmer, which put spaces between sentences and clauses but not between words. Excludes digits
// and the repetition mark, which has spaces around it.
static inline bool is_unspaced(uint32_t c) {
    bool is_thai = c >= 0x0E01 && c <= 0x0E4E && c != 0x0E3F && c != 0x0E46;
    bool is_lao = c >= 0x0E81 && c <= 0x0EDF && c != 0x0EC6 && !(c >= 0x0ED0 && c <= 0x0ED9);
    return is_thai || is_lao || (c >= 0x1780 && c <= 0x17D3);
}

static inline bool is_letter(uint32_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= 0xC0 && !(c >= 0x2000 && c <= 0x206F) && !(c >= 0x3000 && c <= 0x303F));
}

// Quotation marks that open in English and close in other languages.
static inline bool is_low_closer(uint32_t c) {
    return c == 0x201C || c == 0x2018 || c == 0xAB;
}

#endif
