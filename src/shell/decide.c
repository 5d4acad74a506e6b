// Conditions, arithmetic and patterns of shell scripts. What depends on files or on unknown values is not decided. See
// shell.h.
#include "base/number.h"
#include "shell/internal.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// How much of the pattern the character matches; 0 if it does not.
static size_t matching(const char *pattern, char c) {
    const char *close = *pattern == '[' && pattern[1] ? strchr(pattern + 2, ']') : NULL;
    if (close && close - pattern < 64) {
        char set[80], text[2] = {c, '\0'};
        (void)snprintf(set, sizeof set, "%.*s", (int)(close + 1 - pattern), pattern);
        return fnmatch(set, text, 0) == 0 ? (size_t)(close + 1 - pattern) : 0;
    }
    size_t escapes = *pattern == '\\' && pattern[1];
    bool matches = pattern[escapes] == c || (*pattern == '?' && !escapes);
    return matches ? 1 + escapes : 0;
}

// fnmatch may need the length to the power of the number of stars; going back to the last star is enough.
bool shell_matches(struct shell *shell, const char *pattern, const char *text) {
    const char *star = NULL, *resume = NULL;
    if (!shell_spend(shell, strlen(pattern) * strlen(text) / 64))
        return false;
    while (*text) {
        size_t taken = *pattern == '*' ? 0 : matching(pattern, *text);
        if (*pattern == '*') {
            star = ++pattern;
            resume = text;
        } else if (taken) {
            pattern += taken;
            text++;
        } else if (star) {
            pattern = star;
            text = ++resume;
        } else {
            return false;
        }
    }
    return !pattern[strspn(pattern, "*")];
}

// ---- arithmetic ----

struct shell_sum {
    struct shell *shell;
    const char *at;
    int depth;
    bool is_unknown;
};

static char next_sign(struct shell_sum *sum) {
    while (isspace((unsigned char)*sum->at))
        sum->at++;
    return *sum->at;
}

static int64_t unknown(struct shell_sum *sum) {
    sum->is_unknown = true;
    return 0;
}

static int64_t choose(struct shell_sum *sum);

static int64_t operand(struct shell_sum *sum) {
    char sign = next_sign(sum), *end;
    size_t length = shell_name_length(sum->at, sum->at + strlen(sum->at));
    int64_t value = 0;
    if (++sum->depth > 64)
        return unknown(sum);
    if (sign == '(') {
        sum->at++;
        value = choose(sum);
        value = next_sign(sum) == ')' ? value : unknown(sum);
        sum->at += *sum->at == ')';
    } else if (sign == '-' || sign == '!') {
        sum->at++;
        value = operand(sum);
        value = sign == '!' ? !value : value == INT64_MIN ? unknown(sum) : -value;
    } else if (isdigit((unsigned char)sign)) {
        value = strtoll(sum->at, &end, 0);
        value = value == INT64_MAX || isalnum((unsigned char)*end) ? unknown(sum) : value;
        sum->at = end;
    } else {
        const struct shell_variable *variable = length ? shell_find(sum->shell, sum->at, length) : NULL;
        sum->at += length;
        if (!variable || !variable->items.count || !number_read_int(variable->items.items[0], &value))
            value = unknown(sum);
    }
    sum->depth--;
    return value;
}

static const struct {
    char text[3];
    int rank;  // of precedence
} operators[] = {{"||", 1}, {"&&", 2}, {"==", 3}, {"!=", 3}, {"<=", 4}, {">=", 4}, {"<", 4},
                 {">", 4},  {"+", 5},  {"-", 5},  {"*", 6},  {"/", 6},  {"%", 6}};
enum { OPERATORS = sizeof operators / sizeof operators[0] };

static int64_t combine(struct shell_sum *sum, size_t operator, int64_t a, int64_t b) {
    const bool truths[] = {a || b, a && b, a == b, a != b, a <= b, a >= b, a<b, a> b};
    int64_t result = 0;
    bool fails = false;
    if (operator<sizeof truths / sizeof truths[0])
        return truths[operator];
    switch (operators[operator].text[0]) {
    case '+':
        fails = __builtin_add_overflow(a, b, &result);
        break;
    case '-':
        fails = __builtin_sub_overflow(a, b, &result);
        break;
    case '*':
        fails = __builtin_mul_overflow(a, b, &result);
        break;
    default:
        fails = b == 0 || b == -1;
        result = fails ? 0 : operators[operator].text[0] == '/' ? a / b : a % b;
    }
    return fails ? unknown(sum) : result;
}

static int64_t combined(struct shell_sum *sum, int least) {
    int64_t value = operand(sum);
    for (;;) {
        size_t i = 0;
        (void)next_sign(sum);
        while (i < OPERATORS && strncmp(sum->at, operators[i].text, strlen(operators[i].text)) != 0)
            i++;
        if (i == OPERATORS || operators[i].rank < least || sum->is_unknown)
            return value;
        sum->at += strlen(operators[i].text);
        value = combine(sum, i, value, combined(sum, operators[i].rank + 1));
    }
}

static int64_t choose(struct shell_sum *sum) {
    int64_t value = combined(sum, 1);
    if (next_sign(sum) != '?' || sum->is_unknown || ++sum->depth > 64)
        return value;
    sum->at++;
    int64_t yes = choose(sum);
    if (next_sign(sum) != ':')
        return unknown(sum);
    sum->at++;
    int64_t no = choose(sum);
    return value ? yes : no;
}

bool shell_compute(struct shell *shell, const char *text, int64_t *value) {
    struct shell_sum sum = {.shell = shell, .at = text};
    *value = choose(&sum);
    return next_sign(&sum) == '\0' && !sum.is_unknown;
}

// ---- conditions ----

struct test {
    struct shell *shell;
    const struct string_list *words;
    int64_t at;
    bool patterns;
};

static const char *word_at(const struct test *test, int64_t ahead) {
    return test->at + ahead < test->words->count ? test->words->items[test->at + ahead] : "";
}

static enum truth truth_of(bool is_true) {
    return is_true ? TRUTH_YES : TRUTH_NO;
}

enum truth shell_invert(enum truth truth) {
    return truth == TRUTH_YES ? TRUTH_NO : truth == TRUTH_NO ? TRUTH_YES : TRUTH_MAYBE;
}

static enum truth compare(struct test *test, const char *operator, const char * left, const char *right) {
    static const char *const numeric[] = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"};
    int64_t a, b;
    if (shell_is_marked(left) || shell_is_marked(right) || !shell_spend(test->shell, strlen(left)))
        return TRUTH_MAYBE;
    if (operator[0] != '-' && operator[1] != '~') {
        bool equal = test->patterns ? shell_matches(test->shell, right, left) : strcmp(left, right) == 0;
        return truth_of(equal == (operator[0] != '!'));
    }
    if (!shell_compute(test->shell, left, &a) || !shell_compute(test->shell, right, &b))
        return TRUTH_MAYBE;
    const bool results[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
    for (size_t i = 0; i < sizeof numeric / sizeof numeric[0]; i++)
        if (strcmp(operator, numeric[i]) == 0)
            return truth_of(results[i]);
    return TRUTH_MAYBE;
}

static enum truth primary(struct test *test) {
    static const char binary[] = " = == != =~ -eq -ne -lt -le -gt -ge ";
    bool inverts = false;
    for (; strcmp(word_at(test, 0), "!") == 0; test->at++)
        inverts = !inverts;
    const char *first = word_at(test, 0), *second = word_at(test, 1);
    char operator[8] = "";
    if (strlen(second) < sizeof operator- 3)
        (void)snprintf(operator, sizeof operator, " %s ", second);
    enum truth truth = TRUTH_MAYBE;
    if (test->words->count - test->at >= 3 && operator[0] && strstr(binary, operator)) {
        truth = compare(test, second, first, word_at(test, 2));
        test->at += 3;
    } else if (first[0] == '-' && first[1] && !first[2] && test->words->count - test->at >= 2) {
        if (strchr("nz", first[1]) && !shell_is_marked(second))
            truth = truth_of((*second != '\0') == (first[1] == 'n'));
        test->at += 2;
    } else {
        truth = shell_is_marked(first) ? TRUTH_MAYBE : truth_of(*first);
        test->at++;
    }
    return inverts ? shell_invert(truth) : truth;
}

// One and another, or one or another: `decisive` alone decides.
static enum truth join(enum truth one, enum truth other, enum truth decisive) {
    if (one == decisive || other == decisive)
        return decisive;
    return one == TRUTH_MAYBE ? one : other;
}

static enum truth all_of(struct test *test) {
    enum truth truth = primary(test);
    for (; strcmp(word_at(test, 0), "-a") == 0 || strcmp(word_at(test, 0), "&&") == 0;) {
        test->at++;
        truth = join(truth, primary(test), TRUTH_NO);
    }
    return truth;
}

enum truth shell_test(struct shell *shell, const struct string_list *words, bool patterns) {
    struct test test = {.shell = shell, .words = words, .patterns = patterns};
    enum truth truth = all_of(&test);
    while (strcmp(word_at(&test, 0), "-o") == 0 || strcmp(word_at(&test, 0), "||") == 0) {
        test.at++;
        truth = join(truth, all_of(&test), TRUTH_YES);
    }
    return test.at < words->count ? TRUTH_MAYBE : truth;
}
