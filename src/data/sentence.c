// The rules of the sentence splitter. A stop (. ! ? … 。 and their kin) makes a place where a sentence may end; what
// stands before and after it decides. Looking back and ahead is limited to a few words, and what was passed over is
// not looked at again, so the time is linear in the text.
#include "data/sentence.h"

#include "base/utf8.h"
#include "data/sentence_words.h"
#include "data/tokenizer/unicode_category.h"
#include <stdint.h>
#include <string.h>

enum {
    LOOK_BACK_BYTES = 24,      // longest word before a full stop that may be an abbreviation, and then some
    LOOK_AHEAD_CHARACTERS = 8  // quotes, brackets and dashes before the next word
};

enum stop {
    STOP_NONE,
    STOP_PERIOD,   // one full stop: may belong to an abbreviation
    STOP_TRAIL,    // an ellipsis: the sentence may go on
    STOP_FULL,     // exclamation and question marks; the stops of scripts without capitals
    STOP_COMPACT,  // of scripts that put no blank after it
};

static uint32_t character_at(const struct sentence_splitter *s, size_t at, size_t *bytes) {
    uint32_t character;
    unsigned char first = (unsigned char)s->text[at];
    if (first < 0x80) {
        *bytes = 1;
        return first;
    }
    *bytes = utf8_decode((const unsigned char *)s->text + at, s->length - at, &character, NULL);
    return character;
}

static enum stop stop_kind(uint32_t c) {
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

static bool is_closer(uint32_t c) {
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

// What may stand between the blank after a stop and the first letter of the next sentence.
static bool is_opening_mark(uint32_t c) {
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

// Small letters of the scripts that have capitals. Digits, signs and all other letters may begin a sentence.
static bool is_small(uint32_t c) {
    if (c < 0x80)
        return c >= 'a' && c <= 'z';
    bool is_cased = (c >= 0xDF && c <= 0x24F && c != 0xF7) || (c >= 0x370 && c <= 0x52F) ||
                    (c >= 0x561 && c <= 0x587) || (c >= 0x1E00 && c <= 0x1FFF);
    return is_cased && c != 0x37E && unicode_lower(c) == c;
}

static bool is_digit(uint32_t c) {
    return c >= '0' && c <= '9';
}

// A character of a word as abbreviations have it. Beyond ASCII everything counts but blanks and punctuation.
static bool is_word_character(uint32_t c) {
    if (c < 0x80)
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '.' || c == '\'' || c == '&';
    return c >= 0xC0 && !(c >= 0x2000 && c <= 0x206F) && !(c >= 0x3000 && c <= 0x303F);
}

// ---- the white space between sentences ----

// Passes over white space; *is_paragraph says that an empty line is in it.
static size_t skip_space(const struct sentence_splitter *s, size_t at, bool *is_paragraph) {
    int newlines = 0;
    while (at < s->length) {
        size_t bytes;
        uint32_t c = character_at(s, at, &bytes);
        if (!unicode_is_white_space(c))
            break;
        bool is_return = c == '\r' && (at + 1 == s->length || s->text[at + 1] != '\n');
        if (c == '\n' || is_return || c == 0x85 || c == 0x2028)
            newlines++;
        else if (c == 0x2029)
            newlines += 2;
        at += bytes;
    }
    *is_paragraph = newlines >= 2;
    return at;
}

// The end of the text before `end`, the white space at its end left out. There is something else after `begin`.
static size_t trim_space(const struct sentence_splitter *s, size_t begin, size_t end) {
    while (end > begin) {
        size_t last = end - 1, bytes;
        while (last > begin && end - last < 3 && ((unsigned char)s->text[last] & 0xC0) == 0x80)
            last--;
        if (!unicode_is_white_space(character_at(s, last, &bytes)) || last + bytes != end)
            break;
        end = last;
    }
    return end;
}

// ---- what follows a stop ----

// The first letter, digit or sign after the marks that may open a sentence; 0 at the end of the text. *at moves there.
static uint32_t first_of_next(const struct sentence_splitter *s, size_t *at) {
    size_t bytes;
    for (int i = 0; *at < s->length; i++, *at += bytes) {
        uint32_t c = character_at(s, *at, &bytes);
        if (i >= LOOK_AHEAD_CHARACTERS || !(is_opening_mark(c) || unicode_is_white_space(c)))
            return c;
    }
    return 0;
}

static bool opens_sentence(const struct sentence_splitter *s, size_t at) {
    size_t end = at;
    while (end < s->length && end - at < LOOK_BACK_BYTES && ((s->text[end] | 32) >= 'a' && (s->text[end] | 32) <= 'z'))
        end++;
    bool is_abbreviated = end < s->length && s->text[end] == '.';
    return !is_abbreviated && sentence_is_opener(s->text + at, end - at);
}

// Reference marks as Wikipedia has them, "[12]", that stand after the stop but belong to its sentence.
static size_t skip_reference(const struct sentence_splitter *s, size_t at) {
    size_t end = at + 1;
    while (end < s->length && end - at <= 4 && is_digit((unsigned char)s->text[end]))
        end++;
    return end > at + 1 && end < s->length && s->text[end] == ']' ? end + 1 : at;
}

static size_t skip_closers(const struct sentence_splitter *s, size_t at) {
    while (at < s->length) {
        size_t bytes, after;
        uint32_t c = character_at(s, at, &bytes);
        if (is_closer(c))
            at += bytes;
        else if (c == '[' && (after = skip_reference(s, at)) > at)
            at = after;
        else
            break;
    }
    return at;
}

// ---- what stands before a full stop ----

// One letter alone: an initial, "J. Smith", or a letter in a list.
static bool is_one_letter(const char *word, size_t length) {
    uint32_t c;
    if (length == 0 || length > 4 || utf8_decode((const unsigned char *)word, length, &c, NULL) != length)
        return false;
    return length > 1 || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// Letters with full stops between them: "U.S", "e.g", "J.R.R".
static bool is_dotted(const char *word, size_t length) {
    if (length < 3 || length % 2 == 0)
        return false;
    for (size_t i = 0; i < length; i++) {
        bool is_letter = (word[i] | 32) >= 'a' && (word[i] | 32) <= 'z';
        if (i % 2 ? word[i] != '.' : !is_letter)
            return false;
    }
    return true;
}

// "1", "12", "iv" or "A" at the very beginning of a sentence: what follows the stop is the item itself.
static bool is_list_mark(const char *word, size_t length) {
    if (length == 0 || length > 4)
        return false;
    size_t digits = 0, romans = 0;
    for (size_t i = 0; i < length; i++) {
        digits += is_digit((unsigned char)word[i]);
        romans += strchr("ivxIVX", word[i]) && word[i];
    }
    return (digits == length && length <= 3) || romans == length || is_one_letter(word, length);
}

// Where the word that ends at `end` begins. One that is too long to be of interest is cut.
static size_t word_begin(const struct sentence_splitter *s, size_t begin, size_t end) {
    size_t at = end, bytes;
    while (at > begin && end - at < LOOK_BACK_BYTES) {
        size_t before = at - 1;
        while (before > begin && at - before < 4 && ((unsigned char)s->text[before] & 0xC0) == 0x80)
            before--;
        if (!is_word_character(character_at(s, before, &bytes)))
            break;
        at = before;
    }
    return at;
}

// Does the sentence that began at `begin` end at the full stop at `stop`? `next` is where the next word begins.
static bool period_ends(const struct sentence_splitter *s, size_t begin, size_t stop, size_t next) {
    uint32_t first = first_of_next(s, &next);
    if (is_small(first))
        return false;
    size_t from = word_begin(s, begin, stop);
    const char *word = s->text + from;
    size_t length = stop - from;
    if (from == begin && is_list_mark(word, length))
        return false;
    // "I" ends a sentence more often than it is somebody's initial.
    bool is_initial = is_one_letter(word, length) && !(length == 1 && (*word == 'I' || is_small((unsigned char)*word)));
    if (is_initial || is_dotted(word, length))
        return sentence_abbreviation(word, length) != SENTENCE_LEADS && opens_sentence(s, next);
    switch (sentence_abbreviation(word, length)) {
    case SENTENCE_LEADS:
        return false;
    case SENTENCE_BEFORE_COUNT:
        return !is_digit(first);
    case SENTENCE_INSIDE:
        return !is_digit(first) && opens_sentence(s, next);
    case SENTENCE_CLOSES:
    case SENTENCE_WORD:
        break;
    }
    return true;
}

// A stop of a script without blanks ends the sentence wherever it stands, but not before a comma or, after a quotation,
// before the Japanese particles that go on with it.
static bool compact_ends(const struct sentence_splitter *s, size_t at, bool is_quoted) {
    size_t bytes;
    uint32_t c = at < s->length ? character_at(s, at, &bytes) : 0;
    if (c == 0x3001 || c == 0xFF0C || c == ',')
        return false;
    return !(is_quoted && (c == 0x3068 || c == 0x3063));
}

// Looks at the run of stops at `at`. Moves *at past it and its closing marks; says whether the sentence ends there.
static bool stop_ends(const struct sentence_splitter *s, size_t begin, size_t *at) {
    size_t stop = *at, end = *at, bytes;
    enum stop kind = STOP_NONE;
    int periods = 0;
    while (end < s->length) {
        enum stop next_kind = stop_kind(character_at(s, end, &bytes));
        if (next_kind == STOP_NONE)
            break;
        periods += next_kind == STOP_PERIOD;
        kind = next_kind > kind ? next_kind : kind;
        end += bytes;
    }
    if (kind == STOP_PERIOD && periods > 1)
        kind = STOP_TRAIL;
    size_t closed = skip_closers(s, end);
    *at = closed;
    if (kind == STOP_COMPACT)
        return compact_ends(s, closed, closed > end);
    bool is_paragraph;
    size_t next = skip_space(s, closed, &is_paragraph);
    if (next == s->length || is_paragraph)
        return true;
    if (next == closed)
        return false;
    if (kind == STOP_PERIOD)
        return period_ends(s, begin, stop, next);
    return !is_small(first_of_next(s, &next));
}

// ---- the cursor ----

static bool may_stop(unsigned char byte) {
    return (byte >= 0x80) | (byte == '.') | (byte == '!') | (byte == '?') | (byte == '\n') | (byte == '\r');
}

// Passes over bytes that no rule looks at, in blocks without a branch per byte, which compilers turn into vectors.
static size_t skip_plain(const struct sentence_splitter *s, size_t at) {
    enum { BLOCK = 16 };
    for (; s->length - at >= BLOCK; at += BLOCK) {
        unsigned char found = 0;
        for (size_t i = 0; i < BLOCK; i++)
            found |= may_stop((unsigned char)s->text[at + i]);
        if (found)
            break;
    }
    while (at < s->length && !may_stop((unsigned char)s->text[at]))
        at++;
    return at;
}

// The end of the sentence that begins at `begin`, the white space after it left out. *next is where the next begins.
static size_t sentence_end(const struct sentence_splitter *s, size_t begin, size_t *next) {
    bool is_paragraph;
    size_t at = begin;
    while ((at = skip_plain(s, at)) < s->length) {
        size_t bytes;
        uint32_t c = character_at(s, at, &bytes);
        if (unicode_is_white_space(c)) {
            size_t after = skip_space(s, at, &is_paragraph);
            *next = after;
            if (is_paragraph || after == s->length)
                return trim_space(s, begin, at);
            at = after;
        } else if (stop_kind(c) == STOP_NONE) {
            at += bytes;
        } else if (stop_ends(s, begin, &at)) {
            *next = skip_space(s, at, &is_paragraph);
            return at;
        }
    }
    *next = s->length;
    return trim_space(s, begin, s->length);
}

bool sentence_next(struct sentence_splitter *s, struct sentence *sentence) {
    bool is_paragraph;
    size_t begin = skip_space(s, s->position, &is_paragraph), next;
    if (begin >= s->length)
        return false;
    sentence->begin = s->keep_newlines ? s->position : begin;
    sentence->end = sentence_end(s, begin, &next);
    if (s->keep_newlines && next < s->length)
        sentence->end = next;
    s->position = next;
    return true;
}
