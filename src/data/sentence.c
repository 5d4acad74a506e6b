// The rules of the sentence splitter. At a stop (. ! ? … 。 and similar) a sentence may end; the text before and after
// it decides. Looking back and ahead is limited to a few words, and text that was passed is not examined again, so the
// time is linear.
#include "data/sentence.h"

#include "base/utf8.h"
#include "data/tokenizer/unicode_category.h"
#include <stdint.h>
#include <string.h>

enum {
    LOOK_BACK_BYTES = 24,       // longest word before a full stop that may be an abbreviation, with a margin
    LOOK_AHEAD_CHARACTERS = 8,  // quotes, brackets and dashes before the next word
    UNSPACED_LETTERS = 4        // longest abbreviation of Thai, Lao and Khmer
};

// ---- the characters that matter ----

enum stop {
    STOP_NONE,
    STOP_PERIOD,   // a full stop: may belong to an abbreviation
    STOP_TRAIL,    // an ellipsis: the sentence may continue
    STOP_FULL,     // exclamation and question marks; the stops of scripts without capitals
    STOP_COMPACT,  // of scripts that put no space after it
};

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

static bool is_among(uint32_t c, const uint32_t *list) {
    while (*list && *list != c)
        list++;
    return *list != 0;
}

// From U+3009 on, the closing brackets of Chinese and Japanese.
static bool is_closer(uint32_t c) {
    static const uint32_t closers[] = {'"',    '\'',   ')',    ']',    '}',    0xBB,   0x2019,
                                       0x201D, 0x203A, 0x3009, 0x300B, 0x300D, 0x300F, 0x3011,
                                       0x3015, 0x3017, 0xFF09, 0xFF3D, 0xFF5D, 0xFF63, 0};
    return is_among(c, closers);
}

// Marks that may come between the space after a stop and the first letter of the next sentence.
static bool is_opening_mark(uint32_t c) {
    static const uint32_t marks[] = {'"',  '\'',   '(',    '[',    '{',    '-',    '*',    '_',    '`',    0xA1, 0xAB,
                                     0xBF, 0x2013, 0x2014, 0x2015, 0x2018, 0x201A, 0x201C, 0x201E, 0x2039, 0};
    return is_among(c, marks);
}

// Small letters of scripts that have capitals. Digits, signs and all other letters may begin a sentence.
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

// A character that may be part of an abbreviation. Beyond ASCII, everything except spaces and punctuation.
static bool is_word_character(uint32_t c) {
    if (c < 0x80)
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || is_digit(c) || c == '.' || c == '\'' || c == '&';
    return c >= 0xC0 && !(c >= 0x2000 && c <= 0x206F) && !(c >= 0x3000 && c <= 0x303F);
}

// Letters of Thai, Lao and Khmer, which put spaces between sentences and clauses but not between words. Excludes digits
// and the repetition mark, which has spaces around it.
static bool is_unspaced(uint32_t c) {
    bool is_thai = c >= 0x0E01 && c <= 0x0E4E && c != 0x0E3F && c != 0x0E46;
    bool is_lao = c >= 0x0E81 && c <= 0x0EDF && c != 0x0EC6 && !(c >= 0x0ED0 && c <= 0x0ED9);
    return is_thai || is_lao || (c >= 0x1780 && c <= 0x17D3);
}

static bool is_letter(uint32_t c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c >= 0xC0 && !(c >= 0x2000 && c <= 0x206F) && !(c >= 0x3000 && c <= 0x303F));
}

// Quotation marks that open in English and close in other languages.
static bool is_low_closer(uint32_t c) {
    return c == 0x201C || c == 0x2018 || c == 0xAB;
}

// ---- text ----

static const struct sentence_language *language_of(const struct sentence_splitter *s) {
    return s->language ? s->language : &sentence_english;
}

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

// ---- the white space between sentences ----

// Skips white space; *is_paragraph: it contains an empty line.
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

// The end of the text before `end` without trailing white space. The text after `begin` is not all white space.
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

// The first letter, digit or sign after any opening marks; 0 at the end of the text. *at moves there.
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
    const struct sentence_language *language = language_of(s);
    bool is_ascii = language == &sentence_english && at < s->length && (unsigned char)s->text[at] < 0x80;
    size_t end = at, bytes;
    while (end < s->length && end - at < LOOK_BACK_BYTES) {
        uint32_t c = character_at(s, end, &bytes);
        if (!is_letter(c) || (is_ascii && c >= 0x80))
            break;
        end += bytes;
    }
    bool is_abbreviated = end < s->length && s->text[end] == '.';
    language = sentence_word_language(language, s->text + at, end - at);
    return !is_abbreviated && sentence_is_opener(language, s->text + at, end - at);
}

// Reference marks as in Wikipedia, "[12]", that come after the stop but belong to its sentence.
static size_t skip_reference(const struct sentence_splitter *s, size_t at) {
    size_t end = at + 1;
    while (end < s->length && end - at <= 4 && is_digit((unsigned char)s->text[end]))
        end++;
    return end > at + 1 && end < s->length && s->text[end] == ']' ? end + 1 : at;
}

// The end of a closing quotation mark after spaces, else `at`.
static size_t skip_spaced_quote(const struct sentence_splitter *s, size_t at) {
    size_t end = at, bytes;
    for (int i = 0; i < LOOK_AHEAD_CHARACTERS && end < s->length; i++, end += bytes) {
        uint32_t c = character_at(s, end, &bytes);
        if (c == 0xBB)
            return end + bytes;
        if (c != ' ' && c != 0xA0 && c != 0x202F)
            break;
    }
    return at;
}

static size_t skip_closers(const struct sentence_splitter *s, size_t at) {
    const struct sentence_language *language = language_of(s);
    while (at < s->length) {
        size_t bytes, after;
        uint32_t c = character_at(s, at, &bytes);
        if (is_closer(c) || (language->low_quotes && is_low_closer(c)))
            at += bytes;
        else if (c == '[' && (after = skip_reference(s, at)) > at)
            at = after;
        else if (language->spaced_quotes && (after = skip_spaced_quote(s, at)) > at)
            at = after;
        else
            break;
    }
    return at;
}

// ---- what comes before a full stop ----

// One letter alone: an initial, "J. Smith", or a letter in a list.
static bool is_one_letter(const char *word, size_t length) {
    uint32_t c;
    if (length == 0 || length > 4 || utf8_decode((const unsigned char *)word, length, &c, NULL) != length)
        return false;
    return length > 1 || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
}

// Letters with full stops between them: "U.S", "e.g", "J.R.R", "т.е".
static bool is_dotted(const char *word, size_t length) {
    bool wants_letter = true, has_stop = false;
    for (size_t at = 0, bytes; at < length; at += bytes) {
        uint32_t c;
        bytes = utf8_decode((const unsigned char *)word + at, length - at, &c, NULL);
        if (wants_letter ? !is_letter(c) : c != '.')
            return false;
        has_stop = has_stop || c == '.';
        wants_letter = !wants_letter;
    }
    return has_stop && !wants_letter;
}

static bool is_ascii(const char *word, size_t length) {
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)word[i] >= 0x80)
            return false;
    return true;
}

// A number of up to three digits, or a Roman numeral in capitals.
static bool is_ordinal(const char *word, size_t length) {
    size_t digits = 0, romans = 0;
    for (size_t i = 0; i < length; i++) {
        digits += is_digit((unsigned char)word[i]);
        romans += word[i] && strchr("IVXLC", word[i]);
    }
    return length > 0 && ((digits == length && length <= 3) || (romans == length && length <= 6));
}

// Thai, Lao and Khmer use the full stop for abbreviations, which are short: "กทม.", "พ.ศ.".
static bool is_unspaced_abbreviation(const char *word, size_t length) {
    int letters = 0;
    bool has_stop = false;
    for (size_t at = 0, bytes; at < length; at += bytes) {
        uint32_t c;
        bytes = utf8_decode((const unsigned char *)word + at, length - at, &c, NULL);
        if (c != '.' && !is_unspaced(c))
            return false;
        letters += c != '.';
        has_stop = has_stop || c == '.';
    }
    return letters > 0 && (has_stop || letters <= UNSPACED_LETTERS);
}

// "1", "12", "iv" or "A" at the very beginning of a sentence: the text of a list item follows the stop.
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

// Where the word that ends at `end` begins. A word too long to matter is cut.
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

// Is a number next, or a Roman numeral if the language puts those after abbreviations (séc. XIX)?
static bool is_count(const struct sentence_splitter *s, size_t next, uint32_t first, bool is_english) {
    size_t end = next, bytes;
    if (is_digit(first) || is_english)
        return is_digit(first);
    while (end < s->length && end - next < 8 && s->text[end] && strchr("IVXLCDM", s->text[end]))
        end++;
    return end > next && (end == s->length || !is_letter(character_at(s, end, &bytes)));
}

// An abbreviation of single letters may contain spaces: "z. B.", "т. е.". Writes it without them ("z.b") and returns
// its length; 0 if the word is not the last letter of one. Never looks before `begin`.
static size_t join_letters(const struct sentence_splitter *s, size_t begin, struct sentence word,
                           char out[LOOK_BACK_BYTES]) {
    struct sentence letters[4] = {word};
    int count = 1;
    size_t length = 0;
    for (size_t at = word.begin; count < 4 && is_one_letter(s->text + letters[count - 1].begin,
                                                            letters[count - 1].end - letters[count - 1].begin);) {
        size_t space = trim_space(s, begin, at);
        if (space == at || space == begin || s->text[space - 1] != '.')
            break;
        size_t from = word_begin(s, begin, space - 1);
        if (!is_one_letter(s->text + from, space - 1 - from))
            break;
        letters[count++] = (struct sentence){from, space - 1};
        at = from;
    }
    for (int i = count - 1; count > 1 && i >= 0; i--) {
        size_t bytes = letters[i].end - letters[i].begin;
        memcpy(out + length, s->text + letters[i].begin, bytes);
        length += bytes;
        if (i > 0)
            out[length++] = '.';
    }
    return length;
}

// The kind of abbreviation: of the word itself, of the word without an article (l'art.), or joined with letters before
// it.
static enum sentence_abbreviation abbreviation_of(const struct sentence_splitter *s, size_t begin, struct sentence word,
                                                  const struct sentence_language *language) {
    const char *text = s->text + word.begin;
    size_t length = word.end - word.begin;
    if (language != &sentence_english) {
        char joined[LOOK_BACK_BYTES];
        size_t bytes = join_letters(s, begin, word, joined);
        enum sentence_abbreviation kind = sentence_abbreviation(language, joined, bytes);
        if (kind != SENTENCE_WORD)
            return kind;
        const char *quote = memrchr(text, '\'', length);
        length -= quote ? (size_t)(quote + 1 - text) : 0;
        text = quote ? quote + 1 : text;
    }
    return sentence_abbreviation(language, text, length);
}

// Does the sentence that starts at `begin` end at the full stop after the word? The next word starts at `next`, with
// the character `first`.
static bool word_ends(const struct sentence_splitter *s, size_t begin, struct sentence word, size_t next,
                      uint32_t first) {
    const char *text = s->text + word.begin;
    const size_t length = word.end - word.begin;
    const struct sentence_language *language = sentence_word_language(language_of(s), text, length);
    const bool is_english = language == &sentence_english;
    enum sentence_abbreviation kind = abbreviation_of(s, begin, word, language);
    bool is_small_letter = length == 1 && is_small((unsigned char)*text);
    // "I" ends a sentence more often than it is an initial.
    bool is_initial = is_one_letter(text, length) && !is_small_letter && !(is_english && length == 1 && *text == 'I');
    if (is_initial || (is_dotted(text, length) && (!is_english || is_ascii(text, length)))) {
        if (kind == SENTENCE_CLOSES && !is_english)
            return true;
        return kind != SENTENCE_LEADS && opens_sentence(s, next);
    }
    if (is_small_letter && kind == SENTENCE_WORD && !is_english)
        kind = SENTENCE_INSIDE;
    switch (kind) {
    case SENTENCE_LEADS:
        return false;
    case SENTENCE_BEFORE_COUNT:
        return !is_count(s, next, first, is_english);
    case SENTENCE_INSIDE:
        return !is_digit(first) && opens_sentence(s, next);
    case SENTENCE_CLOSES:
    case SENTENCE_WORD:
        break;
    }
    return true;
}

// Does the sentence that starts at `begin` end at the full stop at `stop`? The next word starts at `next`.
static bool period_ends(const struct sentence_splitter *s, size_t begin, size_t stop, size_t next) {
    uint32_t first = first_of_next(s, &next);
    if (is_small(first))
        return false;
    size_t from = word_begin(s, begin, stop);
    const char *word = s->text + from;
    size_t length = stop - from;
    if (from == begin && is_list_mark(word, length))
        return false;
    if (is_unspaced_abbreviation(word, length))
        return false;
    if (language_of(s)->ordinals && is_ordinal(word, length))
        return !is_digit(first) && opens_sentence(s, next);
    return word_ends(s, begin, (struct sentence){from, stop}, next, first);
}

// In a script without spaces a stop always ends the sentence, except before a comma or, after a quotation, before the
// Japanese particles that continue it.
static bool compact_ends(const struct sentence_splitter *s, size_t at, bool is_quoted) {
    size_t bytes;
    uint32_t c = at < s->length ? character_at(s, at, &bytes) : 0;
    if (c == 0x3001 || c == 0xFF0C || c == ',')
        return false;
    return !(is_quoted && (c == 0x3068 || c == 0x3063));
}

// Examines the run of stops at `at` and moves *at past it and its closing marks; returns whether the sentence ends
// there.
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

// Skips bytes that no rule examines, in blocks without a branch per byte, which compilers vectorize.
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

// White space at `at`, after a letter of Thai, Lao or Khmer: it ends the sentence if another such letter follows,
// unless an abbreviation starts there, which more often continues the sentence.
static bool space_ends(const struct sentence_splitter *s, size_t at) {
    bool is_paragraph;
    size_t bytes, after = skip_space(s, at, &is_paragraph);
    int letters = 0;
    if (after == at)
        return false;
    for (; after < s->length && letters <= UNSPACED_LETTERS; after += bytes, letters++)
        if (!is_unspaced(character_at(s, after, &bytes)))
            break;
    bool is_abbreviation = letters <= UNSPACED_LETTERS && after < s->length && s->text[after] == '.';
    return letters > 0 && !is_abbreviation;
}

// The end of the sentence that starts at `begin`, without trailing white space. *next is where the next one starts.
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
            if (is_unspaced(c) && space_ends(s, at)) {
                *next = skip_space(s, at, &is_paragraph);
                return at;
            }
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
