// Removes comments and tags. Tags are looked up by name: most lose only their brackets, some also their content, a few
// are converted. A tag that is never closed loses only its brackets. Names without a further close tag are remembered,
// so that a page of a million open tags is still read once.
#include "data/extract/wiki_text.h"
#include <stdlib.h>

enum action {
    KEEP,         // drop the tag, keep its content
    DROP,         // up to the first close tag
    DROP_NESTED,  // up to the matching close tag
    NOTHING,      // a tag without content
    BREAK,        // a line end inside a paragraph
    PARAGRAPH,
    ITEM,
    INDENT,
    QUOTE,
    RAISE,
    SHIELD,  // content is text, not markup
    CODE,    // the same, on separate lines if it has several
    MATH,
};

struct tag {
    const char *name;
    enum action action;
};

// Sorted by name, for bsearch: names of up to SHORT_NAME bytes, then longer ones.
static const struct tag short_tags[] = {
    {"abbr", KEEP},      {"b", KEEP},        {"bdi", KEEP},          {"bdo", KEEP},         {"big", KEEP},
    {"br", BREAK},       {"caption", DROP},  {"ce", MATH},           {"center", PARAGRAPH}, {"chem", MATH},
    {"cite", KEEP},      {"code", KEEP},     {"data", KEEP},         {"dd", INDENT},        {"del", DROP},
    {"dfn", KEEP},       {"div", PARAGRAPH}, {"dl", PARAGRAPH},      {"dt", INDENT},        {"em", KEEP},
    {"font", KEEP},      {"gallery", DROP},  {"graph", DROP},        {"h1", PARAGRAPH},     {"h2", PARAGRAPH},
    {"h3", PARAGRAPH},   {"h4", PARAGRAPH},  {"h5", PARAGRAPH},      {"h6", PARAGRAPH},     {"hiero", DROP},
    {"hr", PARAGRAPH},   {"i", KEEP},        {"imagemap", DROP},     {"indicator", DROP},   {"inputbox", DROP},
    {"ins", KEEP},       {"kbd", KEEP},      {"li", ITEM},           {"mapframe", DROP},    {"maplink", DROP},
    {"mark", KEEP},      {"math", MATH},     {"noinclude", KEEP},    {"nowiki", SHIELD},    {"ol", PARAGRAPH},
    {"p", PARAGRAPH},    {"poem", KEEP},     {"pre", CODE},          {"q", QUOTE},          {"rb", KEEP},
    {"ref", DROP},       {"rp", DROP},       {"rt", DROP},           {"ruby", KEEP},        {"s", KEEP},
    {"samp", KEEP},      {"score", DROP},    {"script", DROP},       {"section", NOTHING},  {"small", KEEP},
    {"source", CODE},    {"span", KEEP},     {"strike", KEEP},       {"strong", KEEP},      {"style", DROP},
    {"sub", KEEP},       {"sup", RAISE},     {"table", DROP_NESTED}, {"tbody", KEEP},       {"td", DROP},
    {"th", DROP},        {"thead", KEEP},    {"time", KEEP},         {"timeline", DROP},    {"tr", DROP},
    {"translate", KEEP}, {"tt", KEEP},       {"tvar", KEEP},         {"u", KEEP},           {"ul", PARAGRAPH},
    {"var", KEEP},       {"wbr", NOTHING},
};
static const struct tag long_tags[] = {
    {"blockquote", PARAGRAPH}, {"categorytree", DROP}, {"charinsert", DROP},      {"includeonly", DROP},
    {"onlyinclude", KEEP},     {"references", DROP},   {"syntaxhighlight", CODE}, {"templatestyles", NOTHING},
};

enum { SHORT_NAME = 9, LONGEST_NAME = 16 };
enum { SHORT_TAGS = sizeof short_tags / sizeof short_tags[0], LONG_TAGS = sizeof long_tags / sizeof long_tags[0] };

struct stripper {
    struct buffer *out;
    const char *end;                            // of the page
    bool never_closed[SHORT_TAGS + LONG_TAGS];  // no close tag of this name follows
};

// A tag as found in the text.
struct found {
    const struct tag *tag;
    bool is_close, is_empty;  // </x>, <x/>
    bool has_attributes;
    const char *after;
};

// Appends text so that later passes do not see markup in it; newlines become WIKI_BREAK.
static void append_shielded(struct buffer *out, struct wiki_slice text) {
    buffer_reserve(out, text.length);
    for (size_t i = 0; i < text.length; i++) {
        char byte = text.data[i];
        const char *place = byte ? strchr(WIKI_SHIELDED, byte) : NULL;
        if (byte == '\n')
            byte = WIKI_BREAK;
        else if (place)
            byte = WIKI_SHIELDS[place - WIKI_SHIELDED];
        else if ((unsigned char)byte < ' ' && byte != '\t')
            continue;
        out->data[out->length++] = byte;
    }
    out->data[out->length] = '\0';
}

char wiki_unshield(char byte) {
    const char *place = byte ? strchr(WIKI_SHIELDS, byte) : NULL;
    return place ? WIKI_SHIELDED[place - WIKI_SHIELDS] : byte;
}

static int compare_tag(const void *name, const void *tag) {
    return strcmp(name, ((const struct tag *)tag)->name);
}

// Reads the tag at text[0] == '<'; false if it is not a known tag. Another '<' ends it: attributes contain none.
static bool read_tag(const struct stripper *s, const char *text, struct found *found) {
    char name[LONGEST_NAME];
    size_t length = 0;
    const char *at = text + 1;
    found->is_close = at < s->end && *at == '/';
    at += found->is_close;
    for (; at < s->end && length + 1 < LONGEST_NAME; at++) {
        char lower = (char)(*at | 0x20);
        bool is_digit = length && *at >= '0' && *at <= '9';
        if (!is_digit && (lower < 'a' || lower > 'z'))
            break;
        name[length++] = is_digit ? *at : lower;
    }
    name[length] = '\0';
    if (length == 0 || at == s->end || !strchr(" \t\n\r/>|", *at))
        return false;
    found->tag = length <= SHORT_NAME ? bsearch(name, short_tags, SHORT_TAGS, sizeof short_tags[0], compare_tag)
                                      : bsearch(name, long_tags, LONG_TAGS, sizeof long_tags[0], compare_tag);
    if (!found->tag)
        return false;
    while (at < s->end && wiki_is_blank(*at))
        at++;
    found->has_attributes = at < s->end && *at != '>' && *at != '/';
    char quote = 0;
    const char *unquoted = NULL;  // the first '>' at all, for a tag with an odd number of quotes
    for (; at < s->end && *at != '<'; at++) {
        if (*at == '>' && !unquoted)
            unquoted = at;
        if (*at == '>' && !quote)
            break;
        if (quote ? *at == quote : *at == '"')
            quote = quote ? 0 : *at;
    }
    if (at == s->end || *at == '<')
        at = unquoted;
    if (!at)
        return false;
    found->is_empty = at[-1] == '/';
    found->after = at + 1;
    return true;
}

// Finds the close tag of the same name from text on, at the same nesting level if tags nest: its beginning, and the
// text after it.
static const char *find_close(struct stripper *s, const struct tag *tag, const char *text, const char **after) {
    bool is_short = strlen(tag->name) <= SHORT_NAME;
    size_t index = is_short ? (size_t)(tag - short_tags) : SHORT_TAGS + (size_t)(tag - long_tags);
    int64_t depth = 1;
    struct found found;
    while (!s->never_closed[index] && (text = memchr(text, '<', (size_t)(s->end - text)))) {
        if (read_tag(s, text, &found) && found.tag == tag) {
            if (found.is_close && !found.has_attributes)
                depth--;
            else if (!found.is_close && tag->action == DROP_NESTED && !found.is_empty)
                depth++;
            if (depth == 0) {
                *after = found.after;
                return text;
            }
        }
        text++;
    }
    s->never_closed[index] = true;
    return NULL;
}

// <!-- … -->: a comment alone on its line takes the line end with it. One without an end hides the rest of the page.
static const char *strip_comment(struct stripper *s, const char *text) {
    const char *close = memmem(text + 4, (size_t)(s->end - text) - 4, "-->", 3);
    if (!close)
        return s->end;
    close += 3;
    bool at_line_start = s->out->length == 0 || s->out->data[s->out->length - 1] == '\n';
    if (at_line_start && close < s->end && *close == '\n')
        close++;
    return close;
}

// Digits and signs become Unicode superscripts, so that 10<sup>6</sup> does not become 106; other content is kept.
static const char *strip_superscript(struct stripper *s, const struct found *found) {
    static const char *const digits[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
    enum { LONGEST = 12 };
    size_t rest = (size_t)(s->end - found->after);
    const char *close = memchr(found->after, '<', rest < LONGEST ? rest : LONGEST);
    if (found->is_close || !close || close == found->after)
        return found->after;
    struct found other;
    if (!read_tag(s, close, &other) || other.tag != found->tag || !other.is_close)
        return found->after;
    struct buffer mapped = {0};
    const char *at = found->after;
    while (at < close) {
        struct wiki_slice tail = {at, (size_t)(close - at)};
        const char *sign = NULL;
        size_t used = 1;
        if (*at >= '0' && *at <= '9')
            sign = digits[*at - '0'];
        else if (*at == '+')
            sign = "⁺";
        else if (*at == '-')
            sign = "⁻";
        else if (*at == 'n')
            sign = "ⁿ";
        else if (wiki_begins(tail, "−"))
            sign = "⁻", used = strlen("−");
        else if (wiki_begins(tail, "&minus;"))
            sign = "⁻", used = strlen("&minus;");
        if (!sign)
            break;
        buffer_append_string(&mapped, sign);
        at += used;
    }
    if (at == close)
        buffer_append(s->out, mapped.data, mapped.length);
    buffer_free(&mapped);
    return at == close ? other.after : found->after;
}

// LaTeX between dollar signs. Spaces mean nothing there, so doubled braces are separated: neither a later pass nor a
// check for leftover markup can take them for a template.
static void put_math(struct buffer *out, struct wiki_slice latex) {
    latex = wiki_trim(latex);
    if (!latex.length)
        return;
    buffer_append_byte(out, '$');
    for (size_t i = 0; i < latex.length; i++) {
        char byte = latex.data[i];
        bool doubled = i && byte == latex.data[i - 1] && strchr("{}[]", byte);
        if (byte == '\n')
            byte = ' ';
        if (doubled)
            buffer_append_byte(out, ' ');
        append_shielded(out, (struct wiki_slice){&byte, 1});
    }
    buffer_append_byte(out, '$');
}

static void put_code(struct buffer *out, struct wiki_slice code) {
    bool has_lines = memchr(code.data, '\n', code.length) != NULL;
    while (code.length && code.data[0] == '\n')
        code = (struct wiki_slice){code.data + 1, code.length - 1};
    while (code.length && wiki_is_blank(code.data[code.length - 1]))
        code.length--;
    if (has_lines)
        buffer_append_string(out, "\n\n");
    append_shielded(out, code);
    if (has_lines)
        buffer_append_string(out, "\n\n");
}

// Tags whose content is not markup, or is removed with them.
static const char *strip_element(struct stripper *s, const struct found *found) {
    if (found->is_close || found->is_empty)
        return found->after;
    const char *after;
    const char *close = find_close(s, found->tag, found->after, &after);
    if (!close)
        return found->after;
    struct wiki_slice content = {found->after, (size_t)(close - found->after)};
    if (found->tag->action == MATH)
        put_math(s->out, content);
    else if (found->tag->action == CODE)
        put_code(s->out, content);
    else if (found->tag->action == SHIELD)
        append_shielded(s->out, content);
    return after;
}

static const char *strip_tag(struct stripper *s, const struct found *found) {
    const char *text = NULL;
    switch (found->tag->action) {
    case KEEP:
    case NOTHING:
        return found->after;
    case BREAK:
        buffer_append_byte(s->out, WIKI_BREAK);
        return found->after;
    case PARAGRAPH:
        text = "\n\n";
        break;
    case ITEM:
        text = found->is_close ? "\n" : "\n* ";
        break;
    case INDENT:
        text = found->is_close ? "\n" : "\n:";
        break;
    case QUOTE:
        text = "\"";
        break;
    case RAISE:
        return strip_superscript(s, found);
    default:
        return strip_element(s, found);
    }
    buffer_append_string(s->out, text);
    return found->after;
}

// The first '<' or control character from text on, or the end.
static const char *next_special(const char *text, const char *end) {
    while (text < end && *text != '<' && ((unsigned char)*text >= ' ' || *text == '\n' || *text == '\t'))
        text++;
    return text;
}

void wiki_strip(struct buffer *out, struct wiki_slice text) {
    struct stripper s = {.out = out, .end = text.data + text.length};
    const char *at = text.data;
    buffer_reserve(out, text.length);
    while (at < s.end) {
        const char *special = next_special(at, s.end);
        buffer_append(out, at, (size_t)(special - at));
        at = special;
        if (at == s.end)
            break;
        struct found found;
        struct wiki_slice rest = {at, (size_t)(s.end - at)};
        if (*at != '<')
            at++;
        else if (wiki_begins(rest, "<!--"))
            at = strip_comment(&s, at);
        else if (read_tag(&s, at, &found))
            at = strip_tag(&s, &found);
        else
            buffer_append_byte(out, *at++);
    }
}
