// The grammar of shell scripts, followed as it is read: a command that is not reached, or stands under a condition that
// is false, is parsed and skipped. Under a condition that is not decided, variables become unknown. See shell.h.
#include "base/memory.h"
#include "shell/internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_NAMES = 4096, MOST_ROUNDS = 200, MOST_DEPTH = 40 };

// ---- words ----

char shell_next(struct shell *shell) {
    struct script_span *rest = &shell->rest;
    for (; rest->at < rest->end; rest->at++)
        if (rest->end - rest->at > 1 && rest->at[0] == '\\' && rest->at[1] == '\n')
            rest->at++;
        else if (*rest->at != ' ' && *rest->at != '\t')
            break;
    while (rest->at < rest->end && *rest->at == '#') {
        const char *line_end = memchr(rest->at, '\n', (size_t)(rest->end - rest->at));
        rest->at = line_end ? line_end : rest->end;
    }
    return rest->at < rest->end ? *rest->at : '\0';
}

// Moves past the ends of lines and the here-documents that follow them, and past single semicolons.
static void skip_lines(struct shell *shell) {
    for (char next; (next = shell_next(shell)) == '\n' || (next == ';' && shell->rest.at[1] != ';');) {
        shell->rest.at++;
        if (next == '\n' && shell->documents) {
            shell->rest.at = shell->documents;
            shell->documents = NULL;
        }
    }
}

struct script_span shell_peek(struct shell *shell) {
    (void)shell_next(shell);
    const char *p = shell->rest.at, *begin = p;
    while (p < shell->rest.end && !strchr(" \t\n;&|<>()", *p) && !shell->has_failed)
        p = shell_skip(shell, p, shell->rest.end);
    (void)shell_spend(shell, (size_t)(p - begin) / 8);
    return shell->has_failed ? (struct script_span){shell->rest.end, shell->rest.end} : (struct script_span){begin, p};
}

bool shell_span_is(struct script_span span, const char *text) {
    return (size_t)(span.end - span.at) == strlen(text) && memcmp(span.at, text, strlen(text)) == 0;
}

static bool take_word(struct shell *shell, const char *text) {
    struct script_span word = shell_peek(shell);
    bool is_there = shell_span_is(word, text);
    shell->rest.at = is_there ? word.end : shell->rest.at;
    return is_there;
}

bool shell_take(struct shell *shell, const char *text) {
    size_t length = strlen(text);
    bool is_there = shell_next(shell) && (size_t)(shell->rest.end - shell->rest.at) >= length &&
                    memcmp(shell->rest.at, text, length) == 0;
    shell->rest.at += is_there ? length : 0;
    return is_there;
}

static void expect(struct shell *shell, const char *word) {
    char problem[64];
    (void)snprintf(problem, sizeof problem, "has no \"%s\" where one must stand", word);
    skip_lines(shell);
    if (!shell->has_failed && !take_word(shell, word) && !(strchr(")", *word) && shell_take(shell, word)))
        shell_fail(shell, problem);
}

// ---- compound commands ----

static enum truth command(struct shell *shell);

// The truth of a condition as `if`, loops and && count it. One that is not decided gets a name that the user may set.
static enum truth decide(struct shell *shell, enum truth truth, int64_t line, struct script_span condition) {
    int64_t length = condition.end - condition.at > 80 ? 80 : condition.end - condition.at;
    const char *line_end = memchr(condition.at, '\n', (size_t)length);
    char name[32];
    if (!shell_is_active(shell) || truth == TRUTH_YES || truth == TRUTH_NO)
        return truth;
    (void)snprintf(name, sizeof name, "LINE_%" PRId64, line);
    const struct shell_variable *given = shell_find(shell, name, strlen(name));
    if (given && given->items.count)
        return strcmp(given->items.items[0], "true") == 0 ? TRUTH_YES : TRUTH_NO;
    char *reason = memory_printf("line %" PRId64 ": %.*s (true or false)", line,
                                 (int)(line_end ? line_end - condition.at : length), condition.at);
    free(shell_mark(shell, SHELL_UNKNOWN, name, reason));
    free(reason);
    return TRUTH_MAYBE;
}

// What stands under a condition: the list up to one of the words, or, without words, one command.
static enum truth branch(struct shell *shell, enum truth truth, int64_t line, const char *const *ends) {
    int64_t doubt = shell->doubt;
    shell->skipping += truth == TRUTH_NO;
    if (truth == TRUTH_MAYBE && !doubt)
        shell->doubt = line;
    enum truth result = ends ? shell_list(shell, ends) : command(shell);
    shell->doubt = doubt;
    shell->skipping -= truth == TRUTH_NO;
    return result;
}

// The next of several branches, of which `done` says whether one before it was taken.
static enum truth after(enum truth done, enum truth truth) {
    return done == TRUTH_YES || truth == TRUTH_NO ? TRUTH_NO : done == TRUTH_MAYBE ? TRUTH_MAYBE : truth;
}

static enum truth either(enum truth done, enum truth truth) {
    return done == TRUTH_NO ? truth : done;
}

static enum truth if_command(struct shell *shell, const char *keyword) {
    (void)keyword;
    static const char *const then[] = {"then", NULL}, *const ends[] = {"elif", "else", "fi", NULL};
    enum truth done = TRUTH_NO;
    do {
        int64_t line = shell_line(shell);
        struct script_span condition = shell->rest;
        enum truth truth = branch(shell, done == TRUTH_YES ? TRUTH_NO : TRUTH_YES, line, then);
        condition.end = shell->rest.at;
        truth = done == TRUTH_YES ? TRUTH_NO : decide(shell, truth, line, condition);
        expect(shell, "then");
        (void)branch(shell, after(done, truth), line, ends);
        done = either(done, truth);
        skip_lines(shell);
    } while (take_word(shell, "elif"));
    if (take_word(shell, "else"))
        (void)branch(shell, after(done, TRUTH_YES), shell_line(shell), ends);
    expect(shell, "fi");
    return TRUTH_YES;
}

// The body of a loop, and its `done`. True if another round may follow.
static bool loop_body(struct shell *shell, enum truth truth, int64_t line) {
    static const char *const done[] = {"done", NULL};
    expect(shell, "do");
    (void)branch(shell, truth, line, done);
    expect(shell, "done");
    bool is_last = (shell->leaving == LEAVING_ROUND || shell->leaving == LEAVING_LOOP) && --shell->loops <= 0;
    bool goes_on = is_last && shell->leaving == LEAVING_ROUND;
    goes_on = (goes_on || shell->leaving == STAYING) && truth == TRUTH_YES;
    if (is_last)
        shell->leaving = STAYING;
    return goes_on && shell_is_active(shell);
}

// A loop that goes on and on is left: what it waits for is of no use here.
static enum truth while_command(struct shell *shell, const char *word) {
    static const char *const do_word[] = {"do", NULL};
    struct script_span begin = shell->rest;
    int64_t line = shell_line(shell);
    bool goes_on = true;
    for (int round = 0; goes_on && round < MOST_ROUNDS; round++) {
        shell->rest = begin;
        enum truth truth = shell_list(shell, do_word);
        truth = decide(shell, truth, line, (struct script_span){begin.at, shell->rest.at});
        goes_on = loop_body(shell, *word == 'u' ? shell_invert(truth) : truth, line);
    }
    return TRUTH_YES;
}

static enum truth for_command(struct shell *shell, const char *keyword) {
    (void)keyword;
    struct string_list items = {0};
    int64_t line = shell_line(shell);
    struct script_span word = shell_peek(shell);
    char *name = memory_printf("%.*s", (int)(word.end - word.at), word.at);
    shell->rest.at = word.end;
    // for ((i = 0; …)) is followed once, as under a condition.
    bool is_counted = shell_take(shell, "((");
    if (is_counted)
        shell->rest.at =
            shell_skip_to(shell, shell_skip_to(shell, shell->rest.at, shell->rest.end, ')'), shell->rest.end, ')');
    skip_lines(shell);
    if (!is_counted && take_word(shell, "in"))
        for (word = shell_peek(shell); word.at < word.end; word = shell_peek(shell)) {
            shell->rest.at = word.end;
            if (shell_is_active(shell))
                shell_fields(shell, word, &items);
        }
    else
        for (int64_t i = 0; !is_counted && i < shell->arguments.count; i++)
            string_list_add(&items, shell->arguments.items[i]);
    bool is_known = !is_counted && items.count <= MOST_ROUNDS;
    for (int64_t i = 0; i < items.count; i++)
        is_known = is_known && !shell_is_marked(items.items[i]);
    enum truth truth = decide(shell, is_known ? TRUTH_YES : TRUTH_MAYBE, line, word);
    truth = is_known && !items.count ? TRUTH_NO : truth;
    skip_lines(shell);
    struct script_span begin = shell->rest;
    bool goes_on = true;
    for (int64_t i = 0; goes_on && i < (is_known && items.count ? items.count : 1); i++) {
        struct string_list item = {0};
        shell->rest = begin;
        if (i < items.count && shell_is_active(shell)) {
            string_list_add(&item, items.items[i]);
            shell_assign(shell, name, &item, false);
        }
        goes_on = loop_body(shell, truth, line);
    }
    string_list_free(&items);
    free(name);
    return TRUTH_YES;
}

// Whether the value matches one of the patterns before ")".
static enum truth case_patterns(struct shell *shell, const char *value) {
    enum truth matches = TRUTH_NO;
    (void)shell_take(shell, "(");
    do {
        struct script_span pattern = shell_peek(shell);
        char *text = shell_is_active(shell) ? shell_pattern(shell, pattern) : NULL;
        shell->rest.at = pattern.end;
        if (text && matches != TRUTH_YES && (shell_is_marked(text) || shell_is_marked(value)))
            matches = strcmp(text, "*") == 0 ? TRUTH_YES : TRUTH_MAYBE;
        else if (text && shell_matches(shell, text, value))
            matches = TRUTH_YES;
        free(text);
    } while (shell_take(shell, "|"));
    expect(shell, ")");
    return matches;
}

static enum truth case_command(struct shell *shell, const char *keyword) {
    (void)keyword;
    static const char *const ends[] = {";;", "esac", NULL};
    int64_t line = shell_line(shell);
    struct script_span word = shell_peek(shell);
    struct string_list value = {0};
    enum truth done = TRUTH_NO;
    char *text = shell_is_active(shell) ? shell_text(shell, word, false) : NULL;
    string_list_add(&value, text ? text : "");
    shell_empty_unset(shell, &value);
    shell->rest.at = word.end;
    expect(shell, "in");
    skip_lines(shell);
    while (!shell->has_failed && !take_word(shell, "esac")) {
        enum truth truth = case_patterns(shell, value.items[0]);
        truth = done == TRUTH_YES ? TRUTH_NO : decide(shell, truth, line, word);
        (void)branch(shell, after(done, truth), line, ends);
        done = either(done, truth);
        (void)(shell_take(shell, ";;&") || shell_take(shell, ";;"));
        skip_lines(shell);
    }
    string_list_free(&value);
    free(text);
    return TRUTH_YES;
}

static enum truth function_command(struct shell *shell, struct script_span name) {
    bool is_active = shell_is_active(shell);
    (void)(shell_take(shell, "(") && shell_take(shell, ")"));
    skip_lines(shell);
    struct shell_function function = {.name = name, .body = shell->rest, .line = shell_line(shell)};
    (void)branch(shell, TRUTH_NO, 0, NULL);
    function.body.end = shell->rest.at;
    if (!is_active)
        return TRUTH_YES;
    if (shell->function_count == MOST_NAMES)
        shell_fail(shell, "has too many functions");
    MEMORY_GROW(shell->functions, shell->function_count, shell->function_capacity);
    shell->functions[shell->function_count++] = function;
    return TRUTH_YES;
}

// After ((: a condition, or a variable that is changed and so unknown.
static enum truth arithmetic_command(struct shell *shell, const char *keyword) {
    (void)keyword;
    const char *begin = shell->rest.at;
    shell->rest.at = shell_skip_to(shell, shell_skip_to(shell, begin, shell->rest.end, ')'), shell->rest.end, ')');
    if (!shell_is_active(shell))
        return TRUTH_YES;
    char *text = shell_text(shell, (struct script_span){begin, shell->rest.at - 2}, true);
    const char *name = text + strspn(text, " "), *end = name + strlen(name);
    size_t length = shell_name_length(name, end);
    int64_t value;
    bool is_known = shell_compute(shell, text, &value);
    if (!is_known && length) {
        struct string_list items = {0};
        char *variable = memory_printf("%.*s", (int)length, name);
        char *mark = shell_mark(shell, SHELL_UNKNOWN, variable, "changed by (( ))");
        string_list_add(&items, mark);
        shell_assign(shell, variable, &items, false);
        free(mark);
        free(variable);
    }
    free(text);
    return !is_known ? TRUTH_MAYBE : value ? TRUTH_YES : TRUTH_NO;
}

// After [[: words are not split, and && || ( ) < > are words.
static enum truth bracket_command(struct shell *shell, const char *keyword) {
    (void)keyword;
    struct string_list words = {0};
    while (shell_next(shell) && !take_word(shell, "]]") && !shell->has_failed) {
        struct script_span word = shell_peek(shell);
        if (word.at == word.end)
            word.end += word.at[0] == word.at[1] ? 2 : 1;
        shell->rest.at = word.end;
        const char *before = words.count ? words.items[words.count - 1] : "";
        bool is_pattern = strcmp(before, "==") == 0 || strcmp(before, "=") == 0 || strcmp(before, "!=") == 0;
        char *text = !shell_is_active(shell) ? NULL
                     : is_pattern            ? shell_pattern(shell, word)
                                             : shell_text(shell, word, false);
        if (text)
            string_list_add(&words, text);
        free(text);
    }
    shell_empty_unset(shell, &words);
    enum truth truth = shell_is_active(shell) ? shell_test(shell, &words, true) : TRUTH_YES;
    string_list_free(&words);
    return truth;
}

static enum truth group(struct shell *shell, const char *word) {
    const char *close = *word == '(' ? ")" : "}";
    const char *const ends[] = {close, NULL};
    size_t kept = shell->kept_count, outer = shell->subshell;
    bool is_subshell = *word == '(' && shell_is_active(shell);
    if (is_subshell)
        shell->subshell = kept + 1;
    enum truth truth = shell_list(shell, ends);
    if (is_subshell) {
        shell_restore(shell, kept, false);
        shell->subshell = outer;
        shell->leaving = STAYING;
    }
    expect(shell, close);
    return truth;
}

static const struct {
    const char *word;
    enum truth (*follow)(struct shell *shell, const char *word);
} keywords[] = {{"((", arithmetic_command},
                {"(", group},
                {"{", group},
                {"if", if_command},
                {"while", while_command},
                {"until", while_command},
                {"for", for_command},
                {"select", for_command},
                {"case", case_command},
                {"[[", bracket_command}};

// A compound command or a function at `word`; false if there is none.
static bool compound(struct shell *shell, struct script_span word, enum truth *truth) {
    const char *name_end = word.end;
    while (name_end < shell->rest.end && *name_end == ' ')
        name_end++;
    bool is_function = word.at < word.end && word.end[-1] != '=' && strncmp(name_end, "()", 2) == 0;
    bool is_named = take_word(shell, "function");
    if (is_function || is_named) {
        word = shell_peek(shell);
        shell->rest.at = word.end;
        *truth = function_command(shell, word);
        return true;
    }
    for (size_t i = 0; i < sizeof keywords / sizeof keywords[0]; i++) {
        bool is_sign = *keywords[i].word == '(', is_word = shell_span_is(word, keywords[i].word);
        if (is_sign ? shell_take(shell, keywords[i].word) : is_word) {
            shell->rest.at = is_sign ? shell->rest.at : word.end;
            *truth = keywords[i].follow(shell, keywords[i].word);
            return true;
        }
    }
    return false;
}

static enum truth command(struct shell *shell) {
    enum truth truth = TRUTH_YES;
    if (++shell->depth > MOST_DEPTH)
        shell_fail(shell, "is nested too deeply");
    (void)take_word(shell, "time");
    bool inverts = take_word(shell, "!"), is_compound = compound(shell, shell_peek(shell), &truth);
    // What follows `done` and the like is a redirection.
    shell->skipping += is_compound;
    enum truth simple = shell_simple_command(shell);
    shell->skipping -= is_compound;
    truth = is_compound ? truth : simple;
    shell->depth--;
    return inverts ? shell_invert(truth) : truth;
}

static enum truth pipeline(struct shell *shell, enum truth followed, int64_t line) {
    enum truth truth = branch(shell, followed, line, NULL);
    while (shell_next(shell) == '|' && shell->rest.at[1] != '|') {
        shell->rest.at += shell->rest.at[1] == '&' ? 2 : 1;
        skip_lines(shell);
        (void)branch(shell, followed, line, NULL);
        truth = truth == TRUTH_ASSUMED ? truth : TRUTH_MAYBE;
    }
    return truth;
}

// Pipelines with && and || between them.
static enum truth chain(struct shell *shell) {
    int64_t line = shell_line(shell);
    struct script_span text = shell->rest;
    enum truth truth = pipeline(shell, TRUTH_YES, line);
    for (bool is_and; (is_and = shell_take(shell, "&&")) || shell_take(shell, "||");) {
        text.end = shell->rest.at;
        skip_lines(shell);
        enum truth left = truth == TRUTH_ASSUMED ? TRUTH_YES : decide(shell, truth, line, text);
        enum truth followed = is_and ? left : shell_invert(left);
        enum truth right = pipeline(shell, followed, line);
        truth = followed == TRUTH_NO ? truth : followed == TRUTH_MAYBE ? TRUTH_MAYBE : right;
    }
    return truth;
}

enum truth shell_list(struct shell *shell, const char *const *ends) {
    enum truth truth = TRUTH_YES;
    for (;;) {
        skip_lines(shell);
        const char *before = shell->rest.at;
        char next = shell_next(shell);
        struct script_span word = shell_peek(shell);
        if (!next || !shell_spend(shell, 64))
            return truth;
        for (const char *const *end = ends; *end; end++)
            if (shell_span_is(word, *end) || (next == **end && strchr(");", next)))
                return truth;
        truth = chain(shell);
        (void)shell_take(shell, "&");
        if (shell->rest.at == before)
            shell_fail(shell, "has a word or a sign where none may stand");
    }
}

enum truth shell_follow_text(struct shell *shell, struct script_span text, int64_t line,
                             const struct string_list *arguments) {
    static const char *const none[] = {NULL};
    struct shell outer = *shell;
    if (++shell->depth > MOST_DEPTH)
        shell_fail(shell, "calls eval or functions too deeply");
    if (!shell_spend(shell, (size_t)(text.end - text.at)))
        return TRUTH_MAYBE;
    size_t kept = shell->kept_count;
    if (arguments)
        shell->arguments = (struct string_list){0};
    for (int64_t i = 0; arguments && i < arguments->count; i++)
        string_list_add(&shell->arguments, arguments->items[i]);
    shell->rest = text;
    shell->documents = NULL;
    shell->line = line;
    enum truth truth = shell_list(shell, none);
    if (arguments) {
        shell_restore(shell, kept, true);
        string_list_free(&shell->arguments);
        shell->arguments = outer.arguments;
    }
    if (shell->leaving == LEAVING_FUNCTION)
        shell->leaving = STAYING;
    shell->rest = outer.rest;
    shell->rest.at = shell->has_failed ? outer.rest.end : outer.rest.at;
    shell->documents = outer.documents;
    shell->line = outer.line;
    shell->depth--;
    return truth;
}
