// Templates of tasks: text with fields of a document. "Question: {question|strip}\nAnswer:" takes the member
// "question" of a JSON object, without white space at its ends. {choices.text.0} goes down into objects and arrays;
// {endings[]} stands for every element of an array in turn. {{ and }} are braces. Filters follow the path, from left to
// right, each in time linear in the text. See internal.h.
#include "base/memory.h"
#include "base/utf8.h"
#include "base/words.h"
#include "base/error.h"
#include "data/tokenizer/unicode_category.h"
#include "evaluate/detokenize.h"
#include "evaluate/internal.h"

#include <stdio.h>
#include <string.h>

// A stretch of a template or of a document.
struct template_span {
    const char *at;
    size_t length;
};

// ---- filters ----

struct filter_call {
    struct buffer *text;  // that is changed in place
    int option;           // of the filter's row
    struct template_span argument;
};

static void keep(struct buffer *text, size_t first, size_t end) {
    if (text->length == 0)
        return;
    memmove(text->data, text->data + first, end - first);
    text->length = end - first;
    text->data[text->length] = '\0';
}

static void replace(struct buffer *text, struct buffer *by) {
    buffer_free(text);
    *text = *by;
}

enum { LEFT = 1, RIGHT = 2 };

static int strip(const struct filter_call *call) {
    const char *begin = buffer_string(call->text), *end = begin + call->text->length, *first = begin;
    if (call->option & LEFT)
        first = text_skip_spaces(begin, end);
    if (call->option & RIGHT)
        end = text_trim_end(first, end);
    keep(call->text, (size_t)(first - begin), (size_t)(end - begin));
    return 0;
}

// Of most capital letters the small one stands that far behind.
static uint32_t upper_of(uint32_t c) {
    static const uint32_t distances[] = {32, 1, 80, 48};
    for (size_t i = 0; i < sizeof distances / sizeof distances[0]; i++)
        if (c > distances[i] && unicode_lower(c) == c && unicode_lower(c - distances[i]) == c)
            return c - distances[i];
    return c;
}

// Python's str.capitalize: the first letter in upper case, all others in lower case.
static int capitalize(const struct filter_call *call) {
    struct buffer out = {0};
    for (size_t at = 0; at < call->text->length;) {
        uint32_t character;
        char bytes[4];
        bool is_first = at == 0;
        at += utf8_decode((const unsigned char *)call->text->data + at, call->text->length - at, &character, NULL);
        buffer_append(&out, bytes, utf8_encode(is_first ? upper_of(character) : unicode_lower(character), bytes));
    }
    replace(call->text, &out);
    return 0;
}

static int spaces(const struct filter_call *call) {
    text_replace_all(call->text, "_", " ");
    return 0;
}

// What is on one side of the first occurrence of a text.
static int side(const struct filter_call *call) {
    struct buffer *text = call->text;
    const char *found = memmem(buffer_string(text), text->length, call->argument.at, call->argument.length);
    if (!found)
        return bad_data("there is no \"%.*s\" in the text", (int)call->argument.length, call->argument.at);
    size_t at = (size_t)(found - text->data);
    keep(text, call->option == LEFT ? 0 : at + call->argument.length, call->option == LEFT ? at : text->length);
    return 0;
}

// What is on one side of the last space. Without a space the whole text is the last word.
static int words(const struct filter_call *call) {
    struct buffer *text = call->text;
    const char *space = memrchr(buffer_string(text), ' ', text->length);
    size_t at = space ? (size_t)(space - text->data) : 0;
    keep(text, call->option == LEFT || !space ? 0 : at + 1, call->option == LEFT ? at : text->length);
    return 0;
}

// Deletes "[…]" within a line. No bracket is looked at twice: if a line ends first, none before its end is closed.
static void delete_brackets(struct buffer *text) {
    struct buffer out = {0};
    const char *at = buffer_string(text), *end = at + text->length;
    while (at < end) {
        const char *open = memchr(at, '[', (size_t)(end - at)), *close = open;
        while (close && close < end && *close != ']' && *close != '\n')
            close++;
        if (!open || close == end)
            break;
        buffer_append(&out, at, (size_t)((*close == ']' ? open : close + 1) - at));
        at = close + 1;
    }
    buffer_append(&out, at, (size_t)(end - at));
    replace(text, &out);
}

// Takes the traces of WikiHow out of HellaSwag, as lm-evaluation-harness does.
static int clean_hellaswag(const struct filter_call *call) {
    (void)strip(call);
    text_replace_all(call->text, " [title]", ". ");
    delete_brackets(call->text);
    text_replace_all(call->text, "  ", " ");
    return 0;
}

static int clean_wikitext(const struct filter_call *call) {
    detokenize_wikitext(call->text);
    return 0;
}

static const struct filter {
    const char *name;
    int (*apply)(const struct filter_call *call);
    int option;
    bool has_argument;  // {field|name:argument}
} filters[] = {
    {"strip", strip, LEFT | RIGHT, false},  {"lstrip", strip, LEFT, false},
    {"rstrip", strip, RIGHT, false},        {"capitalize", capitalize, 0, false},
    {"spaces", spaces, 0, false},           {"before", side, LEFT, true},
    {"after", side, RIGHT, true},           {"all_but_last_word", words, LEFT, false},
    {"last_word", words, RIGHT, false},     {"hellaswag", clean_hellaswag, LEFT | RIGHT, false},
    {"wikitext", clean_wikitext, 0, false},
};

static struct template_span cut(struct template_span *rest, char mark) {
    const char *found = memchr(rest->at, mark, rest->length);
    struct template_span first = {rest->at, found ? (size_t)(found - rest->at) : rest->length};
    size_t taken = first.length + (found != NULL);
    *rest = (struct template_span){rest->at + taken, rest->length - taken};
    return first;
}

// Applies the filter that `name` names, with its argument after a colon; only looks it up if `text` is NULL.
static int filter(struct template_span name, struct buffer *text) {
    struct template_span argument = name, word = cut(&argument, ':');
    struct nearest nearest = nearest_begin(word.at, word.length);
    for (size_t i = 0; i < sizeof filters / sizeof filters[0]; i++) {
        const struct filter *row = &filters[i];
        nearest_consider(&nearest, row->name);
        if (strlen(row->name) != word.length || memcmp(row->name, word.at, word.length) != 0)
            continue;
        if (row->has_argument != (argument.length > 0))
            return bad_data("the filter \"%s\" takes %s", row->name,
                            row->has_argument ? "a text after a colon" : "no argument");
        return text ? row->apply(&(struct filter_call){text, row->option, argument}) : 0;
    }
    return bad_data("the filter \"%.*s\" is not known%s%s%s", (int)word.length, word.at,
                    nearest.best ? "; did you mean " : "", nearest.best ? nearest.best : "", nearest.best ? "?" : "");
}

int template_filter(const char *name, struct buffer *text) {
    return filter((struct template_span){name, strlen(name)}, text);
}

// ---- templates ----

// The next part of a template: text as it stands, or a field.
struct template_part {
    struct template_span text;  // without braces
    bool is_field;
};

// Takes a part from *rest, which is not empty.
static int next_part(struct template_span *rest, struct template_part *part) {
    const char *at = rest->at, *end = at + rest->length;
    if ((*at == '{' || *at == '}') && end - at > 1 && at[1] == *at) {
        *part = (struct template_part){{at, 1}, false};
        *rest = (struct template_span){at + 2, rest->length - 2};
        return 0;
    }
    if (*at == '{') {
        *rest = (struct template_span){at + 1, rest->length - 1};
        bool is_closed = memchr(rest->at, '}', rest->length) != NULL;
        *part = (struct template_part){cut(rest, '}'), true};
        return is_closed && part->text.length > 0
                   ? 0
                   : bad_data("a template has a { without a name and a }; write {{ for a brace");
    }
    if (*at == '}')
        return bad_data("a template has a } without a {; write }} for a brace");
    size_t length = 0;
    while (length < rest->length && at[length] != '{' && at[length] != '}')
        length++;
    *part = (struct template_part){{at, length}, false};
    *rest = (struct template_span){at + length, rest->length - length};
    return 0;
}

int template_check(const char *text) {
    struct template_span rest = {text, strlen(text)};
    while (rest.length > 0) {
        struct template_part part = {0};
        TRY(next_part(&rest, &part));
        if (!part.is_field)
            continue;
        (void)cut(&part.text, '|');
        while (part.text.length > 0)
            TRY(filter(cut(&part.text, '|'), NULL));
    }
    return 0;
}

static const struct json *element_of(const struct json *value, struct template_span name) {
    bool is_array = value->type == JSON_ARRAY;
    for (size_t i = 0; (is_array || value->type == JSON_OBJECT) && i < value->count; i++) {
        char number[24];
        const char *key = is_array ? number : value->keys[i].string;
        size_t length = is_array ? (size_t)snprintf(number, sizeof number, "%zu", i) : value->keys[i].length;
        if (is_array && i >= TASK_MOST_CHOICES)
            break;
        if (length == name.length && memcmp(key, name.at, length) == 0)
            return &value->items[i];
    }
    return NULL;
}

// The value at a path; with [] at its end the array itself, and *is_list is set.
static const struct json *follow(struct template_span path, const struct json *document, bool *is_list) {
    struct template_span rest = path;
    const struct json *value = document;
    *is_list = path.length > 2 && memcmp(path.at + path.length - 2, "[]", 2) == 0;
    rest.length -= *is_list ? 2 : 0;
    while (value && rest.length > 0)
        value = element_of(value, cut(&rest, '.'));
    if (!value)
        (void)bad_data("there is no field \"%.*s\"", (int)path.length, path.at);
    else if (*is_list && value->type != JSON_ARRAY) {
        (void)bad_data("\"%.*s\" is not an array", (int)(path.length - 2), path.at);
        value = NULL;
    }
    return value;
}

int template_count(const char *text, const struct json *document, int64_t *count) {
    struct template_span rest = {text, strlen(text)};
    const struct json *list = NULL;
    *count = 1;
    while (rest.length > 0) {
        struct template_part part = {0};
        bool is_list = false;
        TRY(next_part(&rest, &part));
        const struct json *value = part.is_field ? follow(cut(&part.text, '|'), document, &is_list) : document;
        if (!value)
            return -1;
        if (is_list && list && list->count != value->count)
            return bad_data("the template \"%.80s\" joins lists of %zu and of %zu elements", text, list->count,
                            value->count);
        if (is_list) {
            list = value;
            *count = (int64_t)value->count;
        }
    }
    return 0;
}

static int render_field(struct template_span text, const struct json *document, int64_t element, struct buffer *out) {
    struct template_span path = cut(&text, '|');
    bool is_list;
    const struct json *value = follow(path, document, &is_list);
    if (!value)
        return -1;
    if (is_list && (element < 0 || (size_t)element >= value->count))
        return bad_data("\"%.*s\" has %zu elements", (int)path.length, path.at, value->count);
    if (is_list)
        value = &value->items[element];
    OWNED_BY(buffer_free) struct buffer filtered = {0};
    if (value->type == JSON_STRING || value->type == JSON_NUMBER)
        buffer_append(&filtered, value->string, value->length);
    else if (value->type == JSON_TRUE || value->type == JSON_FALSE)
        buffer_append_string(&filtered, value->type == JSON_TRUE ? "true" : "false");
    else
        return bad_data("\"%.*s\" is neither a text nor a number", (int)path.length, path.at);
    while (text.length > 0)
        if (filter(cut(&text, '|'), &filtered) < 0)
            return error_context("field \"%.*s\"", (int)path.length, path.at);
    buffer_append(out, buffer_string(&filtered), filtered.length);
    return 0;
}

int template_render(const char *text, const struct json *document, int64_t element, struct buffer *out) {
    struct template_span rest = {text, strlen(text)};
    while (rest.length > 0) {
        struct template_part part = {0};
        TRY(next_part(&rest, &part));
        if (part.is_field)
            TRY(render_field(part.text, document, element, out));
        else
            buffer_append(out, part.text.at, part.text.length);
        if (out->length > TASK_MOST_BYTES)
            return bad_data("the template gives more than %d bytes", TASK_MOST_BYTES);
    }
    return 0;
}
