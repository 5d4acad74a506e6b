// Parser functions and variables: {{#if:…}}, {{#switch:…}}, {{#expr:…}}, {{formatnum:…}}, {{PAGENAME}} and similar.
// Those that depend on the time, the user or other pages are left out.
#include "data/extract/wiki_template.h"
#include "data/extract/wiki_text.h"
#include "base/utf8.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// ---- the arithmetic of {{#expr:…}} ----

// Recursive descent by precedence, lowest first: or, and, comparisons, round, + -, * / mod, ^, signs and functions. The
// depth is bounded, so text from a dump cannot exhaust the stack.
enum { MOST_DEPTH = 100, LONGEST_NUMBER = 40 };

struct parser {
    const char *at, *end;
    int depth;
    bool failed;
};

enum level { LEVEL_OR, LEVEL_AND, LEVEL_COMPARE, LEVEL_ROUND, LEVEL_SUM, LEVEL_PRODUCT, LEVEL_POWER, LEVEL_COUNT };

// If one is a prefix of another, the longer one comes first.
static const struct operator{
    const char *text;
    enum level level;
    char code;
}
operators[] = {
    {"or", LEVEL_OR, '|'},       {"and", LEVEL_AND, '&'},      {"<=", LEVEL_COMPARE, 'l'}, {">=", LEVEL_COMPARE, 'g'},
    {"<>", LEVEL_COMPARE, '!'},  {"!=", LEVEL_COMPARE, '!'},   {"=", LEVEL_COMPARE, '='},  {"<", LEVEL_COMPARE, '<'},
    {">", LEVEL_COMPARE, '>'},   {"round", LEVEL_ROUND, 'r'},  {"+", LEVEL_SUM, '+'},      {"-", LEVEL_SUM, '-'},
    {"−", LEVEL_SUM, '-'},       {"*", LEVEL_PRODUCT, '*'},    {"/", LEVEL_PRODUCT, '/'},  {"div", LEVEL_PRODUCT, '/'},
    {"mod", LEVEL_PRODUCT, '%'}, {"fmod", LEVEL_PRODUCT, 'f'}, {"^", LEVEL_POWER, '^'},
};

static void skip_blanks(struct parser *p) {
    while (p->at < p->end && wiki_is_blank(*p->at))
        p->at++;
}

static bool is_word_byte(char byte) {
    return (byte | 0x20) >= 'a' && (byte | 0x20) <= 'z';
}

// Consumes the text; a word must match as a whole.
static bool take(struct parser *p, const char *text) {
    skip_blanks(p);
    size_t length = strlen(text);
    if ((size_t)(p->end - p->at) < length || strncasecmp(p->at, text, length) != 0)
        return false;
    if (is_word_byte(text[0]) && p->at + length < p->end && is_word_byte(p->at[length]))
        return false;
    p->at += length;
    return true;
}

static double apply(struct parser *p, char code, double a, double b) {
    switch (code) {
    case '|':
        return a != 0 || b != 0;
    case '&':
        return a != 0 && b != 0;
    case 'l':
        return a <= b;
    case 'g':
        return a >= b;
    case '!':
        return a != b;
    case '=':
        return a == b;
    case '<':
        return a < b;
    case '>':
        return a > b;
    case 'r': {
        double scale = pow(10, trunc(b));
        return round(a * scale) / scale;
    }
    case '+':
        return a + b;
    case '-':
        return a - b;
    case '*':
        return a * b;
    case '^':
        return pow(a, b);
    default:
        p->failed = p->failed || b == 0;
        return code == '/' ? a / b : code == 'f' ? fmod(a, b) : fmod(trunc(a), trunc(b));
    }
}

static double parse_level(struct parser *p, enum level level);

static double parse_number(struct parser *p) {
    char digits[LONGEST_NUMBER];
    size_t length = 0;
    while (p->at < p->end && length + 1 < LONGEST_NUMBER && ((*p->at >= '0' && *p->at <= '9') || *p->at == '.'))
        digits[length++] = *p->at++;
    digits[length] = '\0';
    p->failed = p->failed || length == 0;
    double value = length ? strtod(digits, NULL) : 0;
    if (take(p, "e"))
        value *= pow(10, parse_level(p, LEVEL_POWER));
    return value;
}

static double parse_unary(struct parser *p) {
    static const struct {
        const char *name;
        double (*apply)(double);
    } functions[] = {{"abs", fabs}, {"floor", floor}, {"ceil", ceil}, {"trunc", trunc}, {"sqrt", sqrt},
                     {"exp", exp},  {"ln", log},      {"sin", sin},   {"cos", cos},     {"tan", tan}};
    if (p->depth++ > MOST_DEPTH) {
        p->failed = true;
        return 0;
    }
    double value;
    if (take(p, "-") || take(p, "−")) {
        value = -parse_unary(p);
    } else if (take(p, "+")) {
        value = parse_unary(p);
    } else if (take(p, "not")) {
        value = parse_unary(p) == 0;
    } else if (take(p, "(")) {
        value = parse_level(p, LEVEL_OR);
        p->failed = !take(p, ")") || p->failed;
    } else if (take(p, "pi")) {
        value = 3.14159265358979323846;
    } else {
        size_t i = 0, count = sizeof functions / sizeof functions[0];
        while (i < count && !take(p, functions[i].name))
            i++;
        value = i < count ? functions[i].apply(parse_unary(p)) : parse_number(p);
    }
    p->depth--;
    return value;
}

static double parse_level(struct parser *p, enum level level) {
    if (level == LEVEL_COUNT)
        return parse_unary(p);
    double value = parse_level(p, level + 1);
    while (!p->failed) {
        char code = 0;
        for (size_t i = 0; !code && i < sizeof operators / sizeof operators[0]; i++)
            if (operators[i].level == level && take(p, operators[i].text))
                code = operators[i].code;
        if (!code)
            break;
        value = apply(p, code, value, parse_level(p, level + 1));
    }
    return value;
}

// False if the text is not an expression. An empty one is 0.
static bool evaluate(struct wiki_slice text, double *value) {
    text = wiki_trim(text);
    *value = 0;
    if (!text.length)
        return true;
    struct parser p = {.at = text.data, .end = text.data + text.length};
    *value = parse_level(&p, LEVEL_OR);
    skip_blanks(&p);
    return !p.failed && p.at == p.end && isfinite(*value);
}

// ---- functions ----

// The arguments of a function: the text after the colon and the parts after it, with their names.
struct function_call {
    struct buffer *out;
    struct wiki_slice name, first;
    const struct wiki_call *call;
};

// The argument as written: "a=b" is not a name and value here.
static struct wiki_slice whole_argument(const struct wiki_call *call, int64_t index) {
    if (index >= call->count)
        return (struct wiki_slice){"", 0};
    const struct wiki_argument *argument = &call->arguments[index];
    if (argument->position)
        return wiki_trim(argument->value);
    const char *end = argument->value.data + argument->value.length;
    return wiki_trim((struct wiki_slice){argument->name.data, (size_t)(end - argument->name.data)});
}

static bool has_text(struct wiki_slice text) {
    for (size_t i = 0; i < text.length; i++)
        if (!wiki_is_blank(text.data[i]) && text.data[i] != WIKI_DROP)
            return true;
    return false;
}

static void choose(const struct function_call *f, bool condition, int64_t first) {
    wiki_append(f->out, whole_argument(f->call, condition ? first : first + 1));
}

static bool same_value(struct wiki_slice a, struct wiki_slice b) {
    double x, y;
    if (a.length == b.length && memcmp(a.data, b.data, a.length) == 0)
        return true;
    return a.length && b.length && evaluate(a, &x) && evaluate(b, &y) && x == y;
}

static void function_if(const struct function_call *f) {
    choose(f, has_text(f->first), 0);
}

static void function_ifeq(const struct function_call *f) {
    choose(f, same_value(f->first, whole_argument(f->call, 0)), 1);
}

// We assume that no other page exists and that nothing failed.
static void function_never(const struct function_call *f) {
    choose(f, false, 0);
}

static void function_ifexpr(const struct function_call *f) {
    double value;
    if (evaluate(f->first, &value))
        choose(f, value != 0, 0);
}

static void function_expr(const struct function_call *f) {
    double value;
    char text[48];
    if (!evaluate(f->first, &value))
        return;
    snprintf(text, sizeof text, fabs(value) < 1e14 && value == trunc(value) ? "%.0f" : "%.12g", value);
    buffer_append_string(f->out, text);
}

// {{#switch: x | a | b = result | #default = other}}: cases without a result fall through to the next that has one.
static void function_switch(const struct function_call *f) {
    struct wiki_slice fallback = {"", 0};
    bool is_matched = false;
    for (int64_t i = 0; i < f->call->count; i++) {
        const struct wiki_argument *argument = &f->call->arguments[i];
        struct wiki_slice name = wiki_trim(argument->position ? argument->value : argument->name);
        is_matched = is_matched || same_value(f->first, name);
        if (argument->position) {
            if (i + 1 == f->call->count)
                fallback = name;
            continue;
        }
        if (is_matched) {
            wiki_append(f->out, wiki_trim(argument->value));
            return;
        }
        if (wiki_equal(name, "#default"))
            fallback = wiki_trim(argument->value);
    }
    wiki_append(f->out, fallback);
}

// {{lc:…}}, {{ucfirst:…}}
static void put_in_case(const struct function_call *f, bool upper, bool first_only) {
    for (size_t i = 0; i < f->first.length; i++) {
        char byte = f->first.data[i];
        if (i == 0 || !first_only)
            byte = upper ? wiki_upper(byte) : wiki_lower(byte);
        buffer_append_byte(f->out, byte);
    }
}

static void function_case(const struct function_call *f) {
    put_in_case(f, wiki_lower(f->name.data[0]) == 'u', f->name.length > 2);
}

void wiki_format_number(struct buffer *out, struct wiki_slice number) {
    number = wiki_trim(number);
    size_t sign = number.length && (number.data[0] == '-' || number.data[0] == '+');
    size_t whole = sign;
    while (whole < number.length && number.data[whole] >= '0' && number.data[whole] <= '9')
        whole++;
    // A number that is not plain digits was formatted by its author: "1,234" already has its commas.
    bool is_plain = whole == number.length || number.data[whole] == '.' || number.data[whole] == 'e';
    if (!is_plain || whole - sign <= 3) {
        wiki_append(out, number);
        return;
    }
    for (size_t i = 0; i < whole; i++) {
        if (i > sign && (whole - i) % 3 == 0)
            buffer_append_byte(out, ',');
        buffer_append_byte(out, number.data[i]);
    }
    wiki_append(out, (struct wiki_slice){number.data + whole, number.length - whole});
}

static void function_formatnum(const struct function_call *f) {
    struct wiki_slice option = whole_argument(f->call, 0);
    if (!wiki_equal(option, "R")) {
        wiki_format_number(f->out, f->first);
        return;
    }
    for (size_t i = 0; i < f->first.length; i++)
        if (f->first.data[i] != ',')
            buffer_append_byte(f->out, f->first.data[i]);
}

// {{plural:n|one|many}}
static void function_plural(const struct function_call *f) {
    choose(f, wiki_equal(f->first, "1"), 0);
}

static void function_first(const struct function_call *f) {
    wiki_append(f->out, f->first);
}

static void function_nothing(const struct function_call *f) {
    (void)f;
}

static const struct {
    const char *name;
    void (*run)(const struct function_call *f);
} functions[] = {
    {"#if", function_if},
    {"#ifeq", function_ifeq},
    {"#iferror", function_never},
    {"#ifexist", function_never},
    {"#ifexpr", function_ifexpr},
    {"#expr", function_expr},
    {"#switch", function_switch},
    {"#dateformat", function_first},
    {"#formatdate", function_first},
    {"#tag", function_nothing},
    {"#invoke", function_nothing},
    {"lc", function_case},
    {"uc", function_case},
    {"lcfirst", function_case},
    {"ucfirst", function_case},
    {"formatnum", function_formatnum},
    {"plural", function_plural},
    {"defaultsort", function_nothing},
    {"displaytitle", function_nothing},
};

// {{PAGENAME}} and similar; other variables of the site are left out.
static bool put_variable(const struct wiki_context *context, struct buffer *out, struct wiki_slice name) {
    static const char *const left_out[] = {"CURRENTYEAR", "CURRENTMONTH",     "CURRENTDAY",
                                           "NAMESPACE",   "NUMBEROFARTICLES", "CURRENTMONTHNAME"};
    if (wiki_equal(name, "PAGENAME") || wiki_equal(name, "FULLPAGENAME") || wiki_equal(name, "BASEPAGENAME") ||
        wiki_equal(name, "SUBPAGENAME")) {
        wiki_append(out, context->title);
        return true;
    }
    for (size_t i = 0; i < sizeof left_out / sizeof left_out[0]; i++)
        if (wiki_equal(name, left_out[i]))
            return true;
    return false;
}

bool wiki_function(const struct wiki_context *context, struct buffer *out, const struct wiki_call *call) {
    const char *colon = memchr(call->name.data, ':', call->name.length);
    if (!colon)
        return put_variable(context, out, call->name);
    struct wiki_slice name = wiki_trim((struct wiki_slice){call->name.data, (size_t)(colon - call->name.data)});
    struct function_call f = {
        .out = out,
        .name = name,
        .first = wiki_trim((struct wiki_slice){colon + 1, call->name.length - (size_t)(colon + 1 - call->name.data)}),
        .call = call,
    };
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (wiki_equal_case(name, functions[i].name)) {
            functions[i].run(&f);
            return true;
        }
    }
    return name.length && name.data[0] == '#';
}
