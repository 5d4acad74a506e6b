// Replacements one after the other over the whole text, in an order that matters. See detokenize.h.
#include "evaluate/detokenize.h"

#include "base/utf8.h"
#include "data/tokenizer/unicode_category.h"
#include <string.h>

void text_replace_all(struct buffer *text, const char *from, const char *to) {
    size_t from_length = strlen(from), to_length = strlen(to);
    struct buffer out = {0};
    const char *at = buffer_string(text), *end = at + text->length;
    for (const char *found; at < end; at = found + from_length) {
        found = memmem(at, (size_t)(end - at), from, from_length);
        buffer_append(&out, at, (size_t)((found ? found : end) - at));
        if (!found)
            break;
        buffer_append(&out, to, to_length);
    }
    buffer_free(text);
    *text = out;
}

const char *text_skip_spaces(const char *at, const char *end) {
    while (at < end) {
        uint32_t character;
        size_t bytes = utf8_decode((const unsigned char *)at, (size_t)(end - at), &character, NULL);
        if (!unicode_is_python_space(character))
            break;
        at += bytes;
    }
    return at;
}

const char *text_trim_end(const char *begin, const char *end) {
    const char *kept = begin;
    while (begin < end) {
        uint32_t character;
        begin += utf8_decode((const unsigned char *)begin, (size_t)(end - begin), &character, NULL);
        if (!unicode_is_python_space(character))
            kept = begin;
    }
    return kept;
}

// "( a )" becomes "(a)": from each opening to the first closing after it.
static void close_up(struct buffer *text, char opening, char closing) {
    struct buffer out = {0};
    const char *at = buffer_string(text), *end = at + text->length;
    while (at < end) {
        const char *open = memchr(at, opening, (size_t)(end - at));
        const char *close = open ? memchr(open + 1, closing, (size_t)(end - open - 1)) : NULL;
        if (!close)
            break;
        const char *first = text_skip_spaces(open + 1, close), *last = text_trim_end(first, close);
        buffer_append(&out, at, (size_t)(open + 1 - at));
        buffer_append(&out, first, (size_t)(last - first));
        buffer_append_byte(&out, closing);
        at = close + 1;
    }
    buffer_append(&out, at, (size_t)(end - at));
    buffer_free(text);
    *text = out;
}

void detokenize_wikitext(struct buffer *text) {
    static const char *const before[][2] = {
        {"s '", "s'"}, {" @-@ ", "-"}, {" @,@ ", ","}, {" @.@ ", "."}, {" : ", ": "},
        {" ; ", "; "}, {" . ", ". "},  {" ! ", "! "},  {" ? ", "? "},  {" , ", ", "},
    };
    static const char brackets[][2] = {{'(', ')'}, {'[', ']'}, {'{', '}'}, {'"', '"'}, {'\'', '\''}};
    static const char *const after[][2] = {
        {"= = = =", "===="}, {"= = =", "==="}, {"= =", "=="},  {" \xC2\xB0 ", "\xC2\xB0"},
        {" \n", "\n"},       {"\n ", "\n"},    {" N ", " 1 "}, {" 's", "'s"},
    };
    for (size_t i = 0; i < sizeof before / sizeof before[0]; i++)
        text_replace_all(text, before[i][0], before[i][1]);
    for (size_t i = 0; i < sizeof brackets / sizeof brackets[0]; i++)
        close_up(text, brackets[i][0], brackets[i][1]);
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++)
        text_replace_all(text, after[i][0], after[i][1]);
}

int64_t detokenize_count_words(const char *text, size_t length) {
    const char *begin = text_skip_spaces(text, text + length), *end = text_trim_end(begin, text + length);
    int64_t words = 1;
    for (; begin < end; begin++)
        words += *begin == ' ';
    return words;
}
