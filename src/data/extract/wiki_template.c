// One template call: rendered by us if we know the name, by the dump's definition if those were loaded, else replaced
// by a mark that something was removed.
#include "data/extract/wiki_template.h"
#include "data/extract/wiki_text.h"
#include <stdlib.h>

enum { LONGEST_NAME = 64 };

// ---- arguments ----

bool wiki_call_find(const struct wiki_call *call, struct wiki_slice key, struct wiki_slice *value) {
    int64_t position = wiki_small_number(key);
    for (int64_t i = call->count; i-- > 0;) {
        const struct wiki_argument *argument = &call->arguments[i];
        bool same_name = !argument->position && argument->name.length == key.length &&
                         memcmp(argument->name.data, key.data, key.length) == 0;
        if (same_name || (argument->position && argument->position == position)) {
            *value = argument->value;
            return true;
        }
    }
    return false;
}

struct wiki_slice wiki_call_get(const struct wiki_call *call, const char *key) {
    struct wiki_slice value;
    if (!wiki_call_find(call, wiki_slice_of(key), &value))
        return (struct wiki_slice){"", 0};
    return wiki_trim(value);
}

struct wiki_slice wiki_call_at(const struct wiki_call *call, int64_t position) {
    for (int64_t i = 0; i < call->count; i++)
        if (call->arguments[i].position == position)
            return wiki_trim(call->arguments[i].value);
    return (struct wiki_slice){"", 0};
}

bool wiki_call_flag(const struct wiki_call *call, const char *key) {
    struct wiki_slice value = wiki_call_get(call, key);
    return wiki_equal_case(value, "y") || wiki_equal_case(value, "yes") || wiki_equal_case(value, "on") ||
           wiki_equal(value, "1") || wiki_equal_case(value, "true");
}

// ---- formats ----

// The value of "$1" or "$(2,text)" at format; *after points after it.
static struct wiki_slice format_value(const struct wiki_call *call, const char *format, const char **after) {
    if (format[1] != '(') {
        *after = format + 2;
        return wiki_call_get(call, (const char[]){format[1], '\0'});
    }
    const char *at = format + 2;
    struct wiki_slice value = {"", 0};
    while (*at != ')') {
        size_t length = strcspn(at, ",)");
        struct wiki_slice key = {at, length}, found;
        if (!wiki_trim(value).length && wiki_call_find(call, key, &found))
            value = wiki_trim(found);
        at += length + (at[length] == ',');
    }
    *after = at + 1;
    return value;
}

static bool begins_value(const char *format) {
    return *format == '$' && ((format[1] >= '1' && format[1] <= '9') || format[1] == '(');
}

// "$n" or "$N" at format: the name, which is in lower case.
static const char *put_name(struct buffer *out, const struct wiki_call *call, const char *format) {
    for (size_t i = 0; i < call->name.length; i++) {
        char byte = call->name.data[i];
        buffer_append_byte(out, format[1] == 'N' ? wiki_upper(byte) : byte);
    }
    return format + 2;
}

static const char *put_format(struct buffer *out, const struct wiki_call *call, const char *format);

// <…>: format points after the '<'; returns the position after the '>'.
static const char *put_group(struct buffer *out, const struct wiki_call *call, const char *format) {
    bool is_complete = true;
    size_t before = out->length;
    const char *at = format;
    for (int depth = 0; *at && (*at != '>' || depth > 0);) {
        depth += *at == '<' ? 1 : *at == '>' ? -1 : 0;
        if (begins_value(at) && depth == 0)
            is_complete = format_value(call, at, &at).length > 0 && is_complete;
        else
            at++;
    }
    put_format(out, call, format);
    if (!is_complete)
        out->length = before;
    return *at ? at + 1 : at;
}

// Up to the end of the format or of its group.
static const char *put_format(struct buffer *out, const struct wiki_call *call, const char *format) {
    while (*format && *format != '>') {
        if (*format == '<')
            format = put_group(out, call, format + 1);
        else if (begins_value(format))
            wiki_append(out, format_value(call, format, &format));
        else if (*format == '$' && (format[1] == 'n' || format[1] == 'N'))
            format = put_name(out, call, format);
        else
            buffer_append_byte(out, *format++);
    }
    return format;
}

static void put_joined(struct buffer *out, const struct wiki_call *call, const char *separator) {
    bool is_first = true;
    for (int64_t i = 0; i < call->count; i++) {
        struct wiki_slice value = wiki_trim(call->arguments[i].value);
        if (!call->arguments[i].position || !value.length)
            continue;
        if (!is_first)
            buffer_append_string(out, separator);
        wiki_append(out, value);
        is_first = false;
    }
}

// ---- families of templates ----

// {{lang-fr|…}} shows "French: …".
static bool put_language(struct buffer *out, const struct wiki_call *call, const char *name) {
    static const struct {
        const char *code, *name;
    } languages[] = {
        {"ar", "Arabic"},         {"az", "Azerbaijani"}, {"be", "Belarusian"}, {"bg", "Bulgarian"},
        {"bn", "Bengali"},        {"ca", "Catalan"},     {"cs", "Czech"},      {"cy", "Welsh"},
        {"da", "Danish"},         {"de", "German"},      {"el", "Greek"},      {"en", "English"},
        {"es", "Spanish"},        {"et", "Estonian"},    {"eu", "Basque"},     {"fa", "Persian"},
        {"fi", "Finnish"},        {"fr", "French"},      {"ga", "Irish"},      {"gd", "Scottish Gaelic"},
        {"grc", "Ancient Greek"}, {"he", "Hebrew"},      {"hi", "Hindi"},      {"hr", "Croatian"},
        {"hu", "Hungarian"},      {"hy", "Armenian"},    {"id", "Indonesian"}, {"is", "Icelandic"},
        {"it", "Italian"},        {"ja", "Japanese"},    {"ka", "Georgian"},   {"kk", "Kazakh"},
        {"ko", "Korean"},         {"la", "Latin"},       {"lt", "Lithuanian"}, {"lv", "Latvian"},
        {"mk", "Macedonian"},     {"ms", "Malay"},       {"nl", "Dutch"},      {"no", "Norwegian"},
        {"pl", "Polish"},         {"pt", "Portuguese"},  {"ro", "Romanian"},   {"ru", "Russian"},
        {"sa", "Sanskrit"},       {"sk", "Slovak"},      {"sl", "Slovene"},    {"sq", "Albanian"},
        {"sr", "Serbian"},        {"sv", "Swedish"},     {"ta", "Tamil"},      {"th", "Thai"},
        {"tr", "Turkish"},        {"uk", "Ukrainian"},   {"ur", "Urdu"},       {"vi", "Vietnamese"},
        {"yi", "Yiddish"},        {"zh", "Chinese"},
    };
    struct wiki_slice text = wiki_call_get(call, "1");
    if (strncmp(name, "lang-", 5) != 0 || !text.length)
        return false;
    for (size_t i = 0; i < sizeof languages / sizeof languages[0]; i++)
        if (strcmp(languages[i].code, name + 5) == 0)
            buffer_printf(out, "%s: ", languages[i].name);
    wiki_append(out, text);
    return true;
}

static bool put_family(struct buffer *out, const struct wiki_call *call, const char *name) {
    if (put_language(out, call, name))
        return true;
    if (strncmp(name, "ipa-", 4) == 0 || strncmp(name, "ipac-", 5) == 0) {
        buffer_append_byte(out, '[');
        if (name[3] == 'c')
            put_joined(out, call, "");
        else
            wiki_append(out, wiki_call_get(call, "1"));
        buffer_append_byte(out, ']');
        return true;
    }
    if (strncmp(name, "script/", 7) == 0) {
        wiki_append(out, wiki_call_get(call, "1"));
        return true;
    }
    return false;
}

// ---- the call ----

// Lower case, '_' as space, without "Template:"; false if it is too long to be one of ours.
static bool plain_name(struct wiki_slice name, char plain[LONGEST_NAME]) {
    if (name.length > strlen("template:") && strncasecmp(name.data, "template:", strlen("template:")) == 0)
        name = wiki_trim((struct wiki_slice){name.data + strlen("template:"), name.length - strlen("template:")});
    if (name.length >= LONGEST_NAME)
        return false;
    for (size_t i = 0; i < name.length; i++) {
        char byte = name.data[i];
        plain[i] = byte == '_' ? ' ' : wiki_lower(byte);
    }
    plain[name.length] = '\0';
    return true;
}

static bool put_native(const struct wiki_context *context, struct buffer *out, const struct wiki_call *call) {
    char name[LONGEST_NAME];
    if (!plain_name(call->name, name))
        return false;
    struct wiki_call named = *call;
    named.name = wiki_slice_of(name);
    const struct wiki_native *native = wiki_native_find(context->natives, named.name);
    if (!native)
        return put_family(out, call, name);
    if (native->put)
        native->put(out, &named);
    else if (native->format[0] == '*')
        put_joined(out, call, native->format + 1);
    else
        put_format(out, &named, native->format);
    return true;
}

void wiki_template(struct wiki_context *context, struct buffer *out, const struct wiki_call *call) {
    size_t before = out->length;
    if (!wiki_function(context, out, call) && !put_native(context, out, call) && context->templates)
        wiki_store_expand(context, out, call);
    if (out->length == before)
        buffer_append_byte(out, WIKI_DROP);
}
