// Recursive descent by precedence, lowest first: or, and, comparisons, round, + -, * / mod, ^, signs and functions. The
// depth is bounded, so text from a dump cannot exhaust the stack.
#include "data/extract/wiki_expression.h"
#include <math.h>
#include <stdlib.h>

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

bool wiki_expression(struct wiki_slice text, double *value) {
    text = wiki_trim(text);
    *value = 0;
    if (!text.length)
        return true;
    struct parser p = {.at = text.data, .end = text.data + text.length};
    *value = parse_level(&p, LEVEL_OR);
    skip_blanks(&p);
    return !p.failed && p.at == p.end && isfinite(*value);
}
