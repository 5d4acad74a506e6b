// Words of a shell script: quotes, variables and their defaults, arrays and arithmetic. The output of programs is
// unknown. See shell.h.
#include "base/memory.h"
#include "shell/internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 64, MOST_CUT = 4096 };

// ---- extents ----

static bool enter(struct shell *shell) {
    if (++shell->depth > MOST_DEPTH)
        shell_fail(shell, "is nested too deeply");
    return !shell->has_failed;
}

const char *shell_skip_to(struct shell *shell, const char *p, const char *end, char close) {
    const char *begin = p;
    if (!enter(shell))
        return end;
    while (p < end && *p != close && !shell->has_failed) {
        if (close == '"' && *p == '\'')
            p++;
        else if (close == ')' && *p == '(')
            p = shell_skip_to(shell, p + 1, end, ')');
        else
            p = shell_skip(shell, p, end);
    }
    shell->depth--;
    (void)shell_spend(shell, (size_t)(p - begin) / 8);
    if (p >= end)
        shell_fail(shell, "opens a quotation or a parenthesis that is not closed");
    return p < end ? p + 1 : end;
}

const char *shell_skip(struct shell *shell, const char *p, const char *end) {
    char next = p + 1 < end ? p[1] : '\0';
    if (*p == '\\')
        return p + 2 < end ? p + 2 : end;
    if (*p == '"')
        return shell_skip_to(shell, p + 1, end, '"');
    if (*p == '$' && (next == '(' || next == '{'))
        return shell_skip_to(shell, p + 2, end, next == '(' ? ')' : '}');
    if (*p != '\'' && *p != '`')
        return p + 1;
    for (char close = *p++; p < end && *p != close; p++)
        p += close == '`' && *p == '\\' && p + 1 < end;
    if (p >= end)
        shell_fail(shell, "opens a quotation that is not closed");
    return p < end ? p + 1 : end;
}

// ---- marks ----

char *shell_mark(struct shell *shell, enum shell_mark kind, const char *name, const char *reason) {
    if (!shell_spend(shell, (size_t)shell->reading->causes.count / 8))
        return memory_string("");
    if (kind == SHELL_UNKNOWN && !shell_cause(shell->reading, name)) {
        string_list_add(&shell->reading->causes, name);
        string_list_add(&shell->reading->causes, reason);
    }
    return memory_printf("%c%c%s%c", SHELL_MARK, (int)kind, name, SHELL_MARK_END);
}

bool shell_is_marked(const char *text) {
    return strchr(text, SHELL_MARK) != NULL;
}

size_t shell_name_length(const char *p, const char *end) {
    const char *at = p;
    while (at < end && (isalnum((unsigned char)*at) || *at == '_') && !isdigit((unsigned char)*p))
        at++;
    return (size_t)(at - p);
}

// ---- fields ----

struct shell_expansion {
    struct shell *shell;
    struct string_list *fields;
    struct buffer word;
    bool has_word;    // also if it is empty, as "" is
    bool is_nothing;  // "$@" of no arguments: not even an empty word
    bool splits;
    bool is_pattern;  // quoted signs get a backslash
};

// A list that grows is copied: a word costs what it copies.
static void end_field(struct shell_expansion *out) {
    if (out->has_word && shell_spend(out->shell, (size_t)out->fields->count / 4))
        string_list_add(out->fields, buffer_string(&out->word));
    buffer_clear(&out->word);
    out->has_word = false;
}

static void emit(struct shell_expansion *out, const char *text, bool quoted) {
    if (!shell_spend(out->shell, strlen(text)))
        return;
    bool splits = out->splits && !quoted;
    out->has_word = out->has_word || !splits;
    for (; *text; text++) {
        if (splits && isspace((unsigned char)*text)) {
            end_field(out);
        } else {
            if (out->is_pattern && quoted && strchr("*?[]\\", *text))
                buffer_append_byte(&out->word, '\\');
            buffer_append_byte(&out->word, *text);
            out->has_word = true;
        }
    }
}

static void emit_unknown(struct shell_expansion *out, struct script_span text) {
    struct shell *shell = out->shell;
    int64_t line = shell_line(shell), length = text.end - text.at;
    char name[32];
    (void)snprintf(name, sizeof name, "LINE_%" PRId64, line);
    const struct shell_variable *given = shell_find(shell, name, strlen(name));
    char *reason = memory_printf("line %" PRId64 ": %.*s", line, (int)(length > 60 ? 60 : length), text.at);
    char *mark = shell_mark(shell, SHELL_UNKNOWN, shell->assigned ? shell->assigned : name, reason);
    emit(out, given && given->items.count ? given->items.items[0] : mark, true);
    free(mark);
    free(reason);
}

static void expand(struct shell_expansion *out, struct script_span text, bool quoted);

char *shell_text(struct shell *shell, struct script_span text, bool quoted) {
    struct shell_expansion out = {.shell = shell};
    expand(&out, text, quoted);
    char *result = memory_string(buffer_string(&out.word));
    buffer_free(&out.word);
    return result;
}

char *shell_pattern(struct shell *shell, struct script_span text) {
    struct shell_expansion out = {.shell = shell, .is_pattern = true};
    expand(&out, text, false);
    char *result = memory_string(buffer_string(&out.word));
    buffer_free(&out.word);
    return result;
}

// ---- parameters ----

struct parameter {
    char *name;
    struct script_span inside;        // all between ${ and }
    const struct string_list *items;  // NULL if it is not set
    struct string_list own;           // what items points to if it is made here
    bool is_all;                      // "$@", "${A[@]}": every item is a field
    bool is_array, is_unknown;        // unknown: e.g. $!
};

static void set_own(struct parameter *parameter, const char *text) {
    string_list_free(&parameter->own);
    string_list_add(&parameter->own, text);
    parameter->items = &parameter->own;
}

static void look_up(struct shell *shell, struct parameter *parameter) {
    const char *name = parameter->name;
    const struct shell_variable *variable = shell_find(shell, name, strlen(name));
    int64_t place = isdigit((unsigned char)*name) && strlen(name) < 4 ? strtol(name, NULL, 10) : -1;
    char number[32];
    (void)snprintf(number, sizeof number, "%" PRId64, *name == '#' ? shell->arguments.count : 0);
    parameter->is_all = *name == '@';
    if (variable)
        parameter->items = &variable->items;
    parameter->is_array = variable && variable->is_array;
    if (variable)
        return;
    if (strchr("@*", *name))
        parameter->items = &shell->arguments;
    else if (strchr("#?", *name))
        set_own(parameter, number);
    else if (place >= 0 && place <= shell->arguments.count)
        set_own(parameter, place ? shell->arguments.items[place - 1] : shell->input->name);
    else
        parameter->is_unknown = !isalnum((unsigned char)*name) && *name != '_';
}

// An element of an array, or all of it, by the text between [ and ].
static void take_subscript(struct shell *shell, struct parameter *parameter, struct script_span subscript) {
    int64_t place, length = subscript.end - subscript.at;
    char *text = shell_text(shell, subscript, true);
    parameter->is_all = length == 1 && *subscript.at == '@';
    if (length == 1 && strchr("@*", *subscript.at)) {
        free(text);
        return;
    }
    bool is_known = parameter->items && shell_compute(shell, text, &place);
    if (is_known && place >= 0 && place < parameter->items->count) {
        char *item = memory_string(parameter->items->items[place]);
        set_own(parameter, item);
        free(item);
    } else {
        parameter->items = NULL;
        parameter->is_unknown = !is_known;
    }
    free(text);
}

static char *join(const struct string_list *items) {
    struct buffer text = {0};
    for (int64_t i = 0; i < items->count; i++)
        buffer_printf(&text, "%s%s", i ? " " : "", items->items[i]);
    char *joined = memory_string(buffer_string(&text));
    buffer_free(&text);
    return joined;
}

static void emit_parameter(struct shell_expansion *out, const struct parameter *parameter, bool quoted) {
    if (parameter->is_unknown) {
        emit_unknown(out, parameter->inside);
    } else if (!parameter->items) {
        char *mark = shell_mark(out->shell, SHELL_UNSET, parameter->name, NULL);
        emit(out, mark, true);
        free(mark);
    } else if ((quoted && !parameter->is_all) || !out->splits) {
        char *text = join(parameter->items);
        emit(out, text, quoted || !out->is_pattern);
        free(text);
    } else {
        out->is_nothing = quoted && parameter->items->count == 0;
        for (int64_t i = 0; i < parameter->items->count; i++) {
            if (i)
                end_field(out);
            emit(out, parameter->items->items[i], quoted);
        }
    }
}

// ${NAME#pattern} and ${NAME%pattern}: the shortest part that matches is cut off, the longest after ## and %%.
static char *cut(struct shell *shell, const char *value, const char *pattern, bool from_end, bool longest) {
    size_t length = strlen(value);
    for (size_t i = 0; i <= length; i++) {
        size_t taken = longest ? length - i : i, kept = length - taken;
        char *part = memory_printf("%.*s", (int)taken, from_end ? value + kept : value);
        bool matches = shell_matches(shell, pattern, part);
        free(part);
        if (matches)
            return memory_printf("%.*s", (int)kept, from_end ? value : value + taken);
    }
    return memory_string(value);
}

static void replace(const char *value, const char *from, const char *to, bool all, struct buffer *text) {
    const char *found;
    for (bool first = true; *from && (all || first) && (found = strstr(value, from)); first = false) {
        buffer_append(text, value, (size_t)(found - value));
        buffer_append_string(text, to);
        value = found + strlen(from);
    }
    buffer_append_string(text, value);
}

// The value changed by # % or /, to be freed; NULL if the reader cannot tell.
static char *change(struct shell *shell, const char *value, struct script_span operator) {
    char kind = *operator.at;
    bool twice = operator.end - operator.at> 1 && operator.at[1] == kind;
    const char *rest = operator.at + 1 + twice, *slash = rest;
    size_t length = strlen(value);
    if (shell_is_marked(value) || !strchr("#%/", kind) || length > MOST_CUT)
        return NULL;
    while (kind == '/' && slash < operator.end && * slash != '/')
        slash = shell_skip(shell, slash, operator.end);
    struct script_span span = {rest, kind == '/' ? slash : operator.end };
    char *pattern = kind == '/' ? shell_text(shell, span, false) : shell_pattern(shell, span);
    const char *second = kind == '/' && slash < operator.end ? slash + 1 : operator.end;
    char *to = shell_text(shell, (struct script_span){second, operator.end}, false);
    struct buffer text = {0};
    char *result = NULL;
    if (shell_is_marked(pattern) || !shell_spend(shell, length * (length + strlen(to) + 64)))
        result = NULL;
    else if (kind != '/')
        result = cut(shell, value, pattern, kind == '%', twice);
    else if (!strpbrk(pattern, "*?[#%")) {
        replace(value, pattern, to, twice, &text);
        result = memory_string(buffer_string(&text));
    }
    buffer_free(&text);
    free(pattern);
    free(to);
    return result;
}

// ${NAME:-word}, with = + ? in place of - and with or without the colon; false for other operators.
static bool expand_default(struct shell_expansion *out, const struct parameter *parameter, struct script_span operator,
                           bool quoted) {
    bool colon = *operator.at == ':';
    const char *kind = operator.at + colon;
    if (kind >= operator.end || !strchr("-=?+", *kind))
        return false;
    bool is_given = parameter->items &&
                    (!colon || parameter->items->count > 1 || (parameter->items->count && *parameter->items->items[0]));
    struct script_span word = {kind + 1, operator.end };
    // "${X:-"y"}": quotes count in the default of a quoted expansion, too.
    bool splits = out->splits, has_quotes = quoted && memchr(word.at, '"', (size_t)(word.end - word.at));
    if (!parameter->items && *kind != '?')
        shell_assume_unset(out->shell, parameter->name);
    if (*kind != '+' && (is_given || *kind == '?')) {
        emit_parameter(out, parameter, quoted);
    } else if (*kind == '=') {
        struct string_list items = {0};
        char *text = shell_text(out->shell, word, quoted && !has_quotes);
        emit(out, text, quoted);
        string_list_add(&items, text);
        shell_assign(out->shell, parameter->name, &items, false);
        free(text);
    } else if (*kind != '+' || is_given) {
        out->splits = splits && !has_quotes;
        expand(out, word, quoted && !has_quotes);
        out->splits = splits;
    }
    return true;
}

static void expand_braces(struct shell_expansion *out, struct script_span inside, bool quoted) {
    struct shell *shell = out->shell;
    bool counts = inside.end - inside.at > 1 && *inside.at == '#';
    const char *begin = inside.at + counts, *end = begin + shell_name_length(begin, inside.end);
    if (inside.at == inside.end || *inside.at == '!' || !enter(shell)) {
        emit_unknown(out, inside);
        return;
    }
    while (end == begin || (isdigit((unsigned char)*begin) && end < inside.end && isdigit((unsigned char)*end)))
        end++;
    struct parameter parameter = {.name = memory_printf("%.*s", (int)(end - begin), begin), .inside = inside};
    look_up(shell, &parameter);
    static const char first[] = "0";
    const char *close = end < inside.end && *end == '[' ? memchr(end, ']', (size_t)(inside.end - end)) : NULL;
    if (close)
        take_subscript(shell, &parameter, (struct script_span){end + 1, close});
    else if (parameter.is_array)
        take_subscript(shell, &parameter, (struct script_span){first, first + 1});
    struct script_span operator= {close ? close + 1 : end, inside.end};
    char *value = parameter.items ? join(parameter.items) : memory_string("");
    char *changed = NULL, number[32];
    (void)snprintf(number, sizeof number, "%" PRId64,
                   close ? (parameter.items ? parameter.items->count : 0) : (int64_t)strlen(value));
    if (counts && !shell_is_marked(value))
        emit(out, number, quoted);
    else if (!counts && operator.at == operator.end)
        emit_parameter(out, &parameter, quoted);
    else if (counts || !expand_default(out, &parameter, operator, quoted)) {
        changed = counts || !parameter.items ? NULL : change(shell, value, operator);
        if (changed)
            emit(out, changed, quoted);
        else
            emit_unknown(out, inside);
    }
    free(changed);
    free(value);
    free(parameter.name);
    string_list_free(&parameter.own);
    shell->depth--;
}

static void expand_arithmetic(struct shell_expansion *out, struct script_span whole, struct script_span inside) {
    char *text = shell_text(out->shell, inside, true), number[32];
    int64_t value;
    bool is_known = shell_compute(out->shell, text, &value);
    (void)snprintf(number, sizeof number, "%" PRId64, value);
    if (is_known)
        emit(out, number, true);
    else
        emit_unknown(out, whole);
    free(text);
}

// Expands the $ or ` at `p`; returns the position after it.
static const char *expand_dollar(struct shell_expansion *out, const char *p, const char *end, bool quoted) {
    const char *after = shell_skip(out->shell, p, end);
    char next = *p == '$' && p + 1 < end ? p[1] : '\0';
    size_t length = next ? shell_name_length(p + 1, end) : 0;
    if (out->shell->has_failed)
        return end;
    if (next == '(' && p[2] == '(' && after - p >= 6 && after[-2] == ')') {
        expand_arithmetic(out, (struct script_span){p, after}, (struct script_span){p + 3, after - 2});
    } else if (strncmp(p, "$(pwd)", 6) == 0 || strncmp(p, "`pwd`", 5) == 0) {
        static const char folder[] = "PWD";
        expand_braces(out, (struct script_span){folder, folder + strlen(folder)}, quoted);
    } else if (next == '(' || *p == '`') {
        emit_unknown(out, (struct script_span){p, after});
    } else if (next == '{') {
        expand_braces(out, (struct script_span){p + 2, after - 1}, quoted);
    } else if (length || (next && strchr("0123456789@*#?$!-", next))) {
        after = p + 1 + (length ? length : 1);
        expand_braces(out, (struct script_span){p + 1, after}, quoted);
    } else if (quoted || (next != '\'' && next != '"')) {
        emit(out, "$", true);
    } else if (memchr(p, '\\', (size_t)(shell_skip(out->shell, p + 1, end) - p)) && next == '\'') {
        after = shell_skip(out->shell, p + 1, end);
        emit_unknown(out, (struct script_span){p, after});
    }
    return after;
}

static void expand(struct shell_expansion *out, struct script_span text, bool quoted) {
    static const char home[] = "HOME";
    const char *p = text.at, *end = text.end;
    if (p < end && *p == '~' && !quoted && (p + 1 == end || p[1] == '/')) {
        expand_braces(out, (struct script_span){home, home + strlen(home)}, true);
        p++;
    }
    while (p < end && shell_spend(out->shell, 1)) {
        const char *after = p + 1;
        char plain[3] = {*p, '\0', '\0'};
        if (*p == '\\' && after < end) {
            bool escapes = !quoted || strchr("$`\"\\\n", *after);
            plain[escapes ? 0 : 1] = *after;
            if (!escapes || *after != '\n')
                emit(out, plain, true);
            after++;
        } else if ((*p == '\'' || *p == '"') && !quoted) {
            after = shell_skip(out->shell, p, end);
            struct script_span inside = {p + 1, after - (after > p + 1)};
            char *verbatim = memory_printf("%.*s", *p == '\'' ? (int)(inside.end - inside.at) : 0, inside.at);
            emit(out, verbatim, true);
            if (*p == '"' && enter(out->shell)) {
                expand(out, inside, true);
                out->shell->depth--;
                out->has_word = out->has_word && (out->word.length || !out->is_nothing);
                out->is_nothing = false;
            }
            free(verbatim);
        } else if (*p == '$' || *p == '`') {
            after = expand_dollar(out, p, end, quoted);
        } else {
            emit(out, plain, quoted);
        }
        p = after;
    }
}

// ---- braces ----

// A word whose braces are one of their alternatives.
static void with_alternative(struct shell *shell, struct script_span word, struct script_span braces, const char *text,
                             size_t length, struct string_list *fields) {
    char *whole = memory_printf("%.*s%.*s%.*s", (int)(braces.at - word.at), word.at, (int)length, text,
                                (int)(word.end - braces.end), braces.end);
    if (shell_spend(shell, strlen(whole)))
        shell_fields(shell, (struct script_span){whole, whole + strlen(whole)}, fields);
    free(whole);
}

static bool begins_with_zero(const char *number) {
    number += *number == '-';
    return number[0] == '0' && number[1] >= '0' && number[1] <= '9';
}

// {a,b} and {1..4}, the first of the word; false if it has none.
static bool expand_alternatives(struct shell *shell, struct script_span word, struct string_list *fields) {
    const char *open = word.at, *close, *begin;
    while (open < word.end && *open != '{')
        open = shell_skip(shell, open, word.end);
    int64_t from, to, commas = 0;
    int read = 0, depth = 0;
    for (close = open + 1; close < word.end && (depth || *close != '}'); close = shell_skip(shell, close, word.end)) {
        depth += *close == '{' ? 1 : *close == '}' ? -1 : 0;
        commas += *close == ',' && !depth;
    }
    if (close >= word.end)
        return false;
    struct script_span braces = {open, close + 1};
    bool counts = sscanf(open, "{%7" SCNd64 "..%7" SCNd64 "}%n", &from, &to, &read) == 2 && open + read == braces.end;
    // {01..10} has numbers of one width.
    const char *dots = counts ? strstr(open, "..") : open, *second = dots + 2;
    const bool is_padded = counts && (begins_with_zero(open + 1) || begins_with_zero(second));
    int width = !is_padded ? 0 : (int)(dots - open - 1 > close - second ? dots - open - 1 : close - second);
    for (int64_t i = 0; counts && i <= llabs(to - from) && !shell->has_failed; i++) {
        char number[32];
        int length = snprintf(number, sizeof number, "%0*" PRId64, width, to < from ? from - i : from + i);
        with_alternative(shell, word, braces, number, (size_t)length, fields);
    }
    for (const char *p = begin = open + 1; commas && !counts && p <= close && !shell->has_failed;) {
        depth += p == close ? 0 : *p == '{' ? 1 : *p == '}' ? -1 : 0;
        bool ends = p == close || (*p == ',' && !depth);
        if (ends)
            with_alternative(shell, word, braces, begin, (size_t)(p - begin), fields);
        p = p == close ? p + 1 : shell_skip(shell, p, close);
        begin = ends ? p : begin;
    }
    return counts || commas;
}

void shell_fields(struct shell *shell, struct script_span word, struct string_list *fields) {
    struct shell_expansion out = {.shell = shell, .fields = fields, .splits = true};
    if (!enter(shell))
        return;
    if (!expand_alternatives(shell, word, fields)) {
        expand(&out, word, false);
        end_field(&out);
    }
    buffer_free(&out.word);
    shell->depth--;
}
