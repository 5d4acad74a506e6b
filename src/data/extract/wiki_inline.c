// One line of text: apostrophes of bold and italic, external links, behaviour switches (__NOTOC__), character
// references, runs of spaces; shields become the characters they stand for. Where something was removed, the remaining
// spaces and punctuation are tidied: "Rome ( ; born 63)" becomes "Rome (born 63)".
#include "data/extract/wiki_text.h"
#include "base/utf8.h"

struct wiki_line {
    struct buffer *out;
    size_t begin;  // of this line in out
    const char *at, *end;
    bool after_drop;            // something was removed since the last character
    const char *next_bracket;   // the first ']' from some place on, so that it is searched once; end if there is none
    const char *link_end;       // the ']' of the external link whose label is being copied
    int64_t apostrophe_to_add;  // offset of a run of quotes that holds an apostrophe, or -1
};

// ---- output ----

static char last_byte(const struct wiki_line *line) {
    return line->out->length > line->begin ? line->out->data[line->out->length - 1] : '\0';
}

static void drop_last(struct wiki_line *line, const char *bytes) {
    while (last_byte(line) && strchr(bytes, last_byte(line)))
        line->out->length--;
}

static bool ends_with(const struct wiki_line *line, const char *text) {
    size_t length = strlen(text);
    return line->out->length - line->begin >= length &&
           memcmp(line->out->data + line->out->length - length, text, length) == 0;
}

// The entry that the line ends with, NULL if there is none.
static const char *ends_with_any(const struct wiki_line *line, const char *const *list) {
    while (*list && !ends_with(line, *list))
        list++;
    return *list;
}

static bool is_any(const char *text, size_t length, const char *const *list) {
    while (*list && (strlen(*list) != length || memcmp(*list, text, length) != 0))
        list++;
    return *list != NULL;
}

static const char *const brackets[] = {"(", "[", "（", "【", NULL};
static const char *const commas[] = {",", ";", ":", "、", "，", "；", "：", "،", "؛", NULL};
static const char *const dashes[] = {"-", "/", "|", "–", "—", "·", "•", NULL};

// ", {{x}}; " and similar: if nothing is left between two marks, the second stays; none stays at the beginning of a
// bracket or of the line.
static bool tidy_comma(struct wiki_line *line, const char *text, size_t length) {
    drop_last(line, " ");
    if (line->out->length == line->begin || ends_with_any(line, brackets))
        return false;
    const char *other = ends_with_any(line, commas);
    if (other && strlen(other) == length && memcmp(other, text, length) == 0)
        return false;
    line->out->length -= other ? strlen(other) : 0;
    return true;
}

// A dash with a space after it separates two things; one of "– {{x}} –" stays.
static bool tidy_dash(struct wiki_line *line, char next) {
    if (next && next != ' ' && next != ')' && next != ']' && next != WIKI_DROP)
        return true;
    size_t spaces = line->out->length;
    drop_last(line, " ");
    bool is_left_over = line->out->length == line->begin || ends_with_any(line, brackets);
    is_left_over = is_left_over || (ends_with_any(line, dashes) && line->out->length < spaces);
    line->out->length = spaces;
    return !is_left_over;
}

// "Latin: {{x}}" in brackets labels the removed text: removes the label too, up to the mark or bracket before it.
static void drop_label(struct wiki_line *line) {
    enum { LONGEST_LABEL = 48, LONGEST_BRACKET = 400 };
    const char *begin = line->out->data + line->begin, *end = line->out->data + line->out->length;
    if (!ends_with(line, ":") && !ends_with(line, "："))
        return;
    const char *at = end - 1, *cut = NULL;
    while (at > begin && end - at < LONGEST_LABEL && !cut) {
        at--;
        if (*at == '(' || *at == ',' || *at == ';')
            cut = at + 1;
        else if (*at == '.' || *at == '\n' || *at == ')' || (*at >= '0' && *at <= '9'))
            return;
    }
    if (!cut)
        return;
    while (at > begin && end - at < LONGEST_BRACKET && *at != '(' && *at != ')')
        at--;
    if (*at == '(')
        line->out->length = (size_t)(cut - line->out->data);
}

// A closing bracket: removes marks before it, and an empty pair of brackets.
static bool tidy_closer(struct wiki_line *line, const char *open) {
    const char *mark;
    drop_last(line, " ");
    drop_label(line);
    for (;;) {
        drop_last(line, " ");
        mark = ends_with_any(line, commas);
        mark = mark ? mark : ends_with_any(line, dashes);
        // Keep a colon unless nothing is before it either.
        if (!mark || (*mark == ':' && !ends_with(line, "(:")))
            break;
        line->out->length -= strlen(mark);
    }
    if (!ends_with(line, open))
        return true;
    line->out->length -= strlen(open);
    drop_last(line, " ");
    return false;
}

// A full stop replaces a comma before the removed text, and is dropped after another full stop.
static bool tidy_stop(struct wiki_line *line, char next) {
    bool is_end = !next || next == ' ' || next == '\n' || next == WIKI_DROP;
    drop_last(line, " ");
    if (is_end && line->out->length == line->begin)
        return false;
    const char *mark = is_end ? ends_with_any(line, commas) : NULL;
    line->out->length -= mark ? strlen(mark) : 0;
    return !(is_end && last_byte(line) == '.' && !ends_with(line, ".."));
}

// False if the character is a leftover of something that was removed and must be removed too. `next` follows it, 0 at
// the end of the line.
static bool tidy(struct wiki_line *line, const char *text, size_t length, char next) {
    static const struct {
        const char *open, *close;
        bool is_quote;
    } pairs[] = {
        {"(", ")", false},  {"[", "]", false},  {"（", "）", false}, {"【", "】", false},
        {"「", "」", true}, {"『", "』", true}, {"《", "》", true},  {"«", "»", true},
        {"“", "”", true},   {"„", "“", true},   {"„", "”", true},    {"‘", "’", true},
    };
    if (*text == ' ')
        return !ends_with_any(line, brackets) && last_byte(line) != ' ';
    if (*text == '.')
        return tidy_stop(line, next);
    if (*text == '"' && (ends_with(line, " \"") || ends_with(line, "(\""))) {
        line->out->length--;
        drop_last(line, " ");
        return false;
    }
    if (is_any(text, length, commas)) {
        drop_last(line, " ");
        if (*text != ':')
            drop_label(line);
        return tidy_comma(line, text, length);
    }
    if (is_any(text, length, dashes))
        return tidy_dash(line, next);
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (strlen(pairs[i].close) != length || memcmp(pairs[i].close, text, length) != 0)
            continue;
        if (!pairs[i].is_quote)
            return tidy_closer(line, pairs[i].open);
        if (ends_with(line, pairs[i].open)) {
            line->out->length -= strlen(pairs[i].open);
            drop_last(line, " ");
            return false;
        }
    }
    return true;
}

static void put_character(struct wiki_line *line, const char *text, size_t length) {
    if (line->after_drop && !tidy(line, text, length, line->at < line->end ? *line->at : 0))
        return;
    // A character after a mark may be removed as well.
    line->after_drop = line->after_drop && is_any(text, length, commas);
    buffer_append(line->out, text, length);
}

static void put(struct wiki_line *line, char byte) {
    if (byte == '\t' || byte == '\r')
        byte = ' ';
    if (byte == ' ' && (last_byte(line) == ' ' || last_byte(line) == '\0' || last_byte(line) == '\n'))
        return;
    if (byte != ' ') {
        put_character(line, &byte, 1);
        return;
    }
    // Keep tidying after an open bracket until it has content.
    if (!line->after_drop || tidy(line, &byte, 1, 0))
        buffer_append_byte(line->out, byte);
}

// ---- input ----

// A run of two or more apostrophes: drops bold and italic marks and keeps the remaining apostrophes.
static void take_quotes(struct wiki_line *line) {
    const char *begin = line->at;
    while (line->at < line->end && *line->at == '\'')
        line->at++;
    int64_t count = line->at - begin;
    int64_t kept = count == 1 ? 1 : count == 4 ? 1 : count > 5 ? count - 5 : 0;
    if (line->apostrophe_to_add == line->end - begin)
        kept = 1;
    while (kept-- > 0)
        put(line, '\'');
}

static size_t protocol_length(struct wiki_slice text) {
    static const char *const protocols[] = {"http://", "https://", "//",   "ftp://",    "mailto:", "news:",
                                            "irc://",  "tel:",     "urn:", "gopher://", "sftp://", "git://"};
    for (size_t i = 0; i < sizeof protocols / sizeof protocols[0]; i++)
        if (text.length > strlen(protocols[i]) && strncasecmp(text.data, protocols[i], strlen(protocols[i])) == 0)
            return strlen(protocols[i]);
    return 0;
}

// [http://… label]: keeps the label; a link without one leaves nothing. False if it is only a bracket.
static bool take_external_link(struct wiki_line *line) {
    struct wiki_slice rest = {line->at + 1, (size_t)(line->end - line->at) - 1};
    if (!protocol_length(rest))
        return false;
    if (line->next_bracket <= line->at) {
        const char *found = memchr(line->at, ']', (size_t)(line->end - line->at));
        line->next_bracket = found ? found : line->end;
    }
    if (line->next_bracket == line->end)
        return false;
    const char *at = line->at + 1;
    while (at < line->next_bracket && *at != ' ' && *at != '\t')
        at++;
    if (at == line->next_bracket) {
        line->after_drop = true;
        line->at = at + 1;
        return true;
    }
    while (*at == ' ' || *at == '\t')
        at++;
    line->link_end = line->next_bracket;
    line->at = at;
    return true;
}

// __TOC__, __NOEDITSECTION__: capitals between double underscores.
static bool take_switch(struct wiki_line *line) {
    enum { LONGEST = 32 };
    const char *at = line->at + 2;
    while (at < line->end && at - line->at < LONGEST && *at >= 'A' && *at <= 'Z')
        at++;
    if (line->end - line->at < 5 || line->at[1] != '_' || at == line->at + 2 || line->end - at < 2 || at[0] != '_' ||
        at[1] != '_')
        return false;
    line->at = at + 2;
    return true;
}

static void take_entity(struct wiki_line *line) {
    struct buffer character = {0};
    size_t length = wiki_entity(&character, (struct wiki_slice){line->at, (size_t)(line->end - line->at)});
    line->at += length ? length : 1;
    if (length == 0)
        put(line, '&');
    if (character.length == 1)
        put(line, *character.data);
    else if (character.length > 1)
        put_character(line, character.data, character.length);
    buffer_free(&character);
}

static void take_special(struct wiki_line *line) {
    char byte = *line->at;
    switch (byte) {
    case '\'':
        take_quotes(line);
        return;
    case '&':
        take_entity(line);
        return;
    case '[':
        if (take_external_link(line))
            return;
        break;
    case ']':
        // The end of an external link whose label was kept.
        if (line->at == line->link_end) {
            line->at++;
            return;
        }
        break;
    case '_':
        if (take_switch(line))
            return;
        break;
    case WIKI_DROP:
        line->after_drop = true;
        line->at++;
        return;
    case WIKI_BREAK:
        drop_last(line, " ");
        byte = '\n';
        break;
    case '\xC2':
        if (line->at + 1 < line->end && line->at[1] == '\xA0') {
            line->at += 2;
            put(line, ' ');
            return;
        }
        // The byte after a broken character may be a shield.
        if (line->at + 1 < line->end && ((unsigned char)line->at[1] & 0xC0) == 0x80) {
            line->at += 2;
            put_character(line, line->at - 2, 2);
            return;
        }
        break;
    default:
        if (wiki_unshield(byte) != byte) {
            buffer_append_byte(line->out, wiki_unshield(byte));
            line->after_drop = false;
            line->at++;
            return;
        }
    }
    line->at++;
    put(line, byte);
}

// ---- apostrophes of a whole line ----

// If the numbers of bold and of italic marks are odd, one mark of three is an apostrophe and an italic mark, as in
// ''Titanic'''s. MediaWiki takes the first after a single letter, else the first after a word, else the first. Returns
// its distance from the end of the line, -1 if there is none.
static int64_t find_apostrophe(const char *at, const char *end) {
    const char *begin = at;
    int64_t bold = 0, italic = 0, after_letter = -1, after_word = -1, after_space = -1;
    while ((at = memchr(at, '\'', (size_t)(end - at)))) {
        const char *run = at;
        while (at < end && *at == '\'')
            at++;
        int64_t count = at - run, place = end - run;
        italic += count == 2 || count >= 5;
        bold += count >= 3;
        if (count != 3)
            continue;
        char before = run > begin ? run[-1] : ' ', before_that = run > begin + 1 ? run[-2] : ' ';
        if (before == ' ')
            after_space = after_space < 0 ? place : after_space;
        else if (before_that == ' ')
            after_letter = after_letter < 0 ? place : after_letter;
        else
            after_word = after_word < 0 ? place : after_word;
    }
    if (bold % 2 == 0 || italic % 2 == 0)
        return -1;
    return after_letter >= 0 ? after_letter : after_word >= 0 ? after_word : after_space;
}

static bool is_special(char byte) {
    unsigned char value = (unsigned char)byte;
    return value <= ' ' || byte == '\'' || byte == '&' || byte == '[' || byte == ']' || byte == '_' || value == 0xC2;
}

static size_t character_bytes(const char *at, const char *end) {
    uint32_t character;
    return utf8_decode((const unsigned char *)at, (size_t)(end - at), &character, NULL);
}

void wiki_inline(struct buffer *out, struct wiki_slice text) {
    struct wiki_line line = {.out = out, .begin = out->length, .at = text.data, .end = text.data + text.length};
    line.next_bracket = text.data;
    line.apostrophe_to_add = text.length ? find_apostrophe(line.at, line.end) : -1;
    while (line.at < line.end) {
        const char *begin = line.at;
        while (!line.after_drop && line.at < line.end && !is_special(*line.at))
            line.at++;
        buffer_append(out, begin, (size_t)(line.at - begin));
        if (line.at == line.end)
            break;
        if (line.after_drop && !is_special(*line.at)) {
            size_t length = character_bytes(line.at, line.end);
            line.at += length;
            put_character(&line, line.at - length, length);
        } else {
            take_special(&line);
        }
    }
    drop_last(&line, " \n");
}
