// Every rule of rules_table.c, on a command line made from its row: the message comes where the rule is broken, and
// only there. A case for each of a rule's flags and each of its others.
#include "base/log.h"
#include "config/validate.h"
#include "parse_line.h"
#include "test.h"
#include <unistd.h>

enum { MOST_TEXT = 65536 };
static char said[MOST_TEXT];  // by the last validation: warnings, and the error

// A complete run. A flag that a rule is about is left out.
static const char *const run[] = {"--num-layers 2",       "--hidden-size 64",  "--num-attention-heads 4",
                                  "--seq-length 32",      "--vocab-size 300",  "--mock-data",
                                  "--micro-batch-size 2", "--train-iters 100", "--lr 1e-3"};

static const struct flag *find(const char *name) {
    struct flag_table table = config_flag_table(0);
    return flag_find(&table, name);
}

static bool is_among(const char *text, const char *values) {
    size_t length = strlen(text);
    for (const char *at = values; *at; at += strcspn(at, "|"), at += *at == '|')
        if (strcspn(at, "|") == length && strncmp(at, text, length) == 0)
            return true;
    return false;
}

// A value that is neither the default nor among these; "" for a switch.
static const char *other_value(const struct flag *flag, const char *values) {
    static const char *const numbers[] = {"0.25", "2", "3"};
    const char *initial = flag->initial ? flag->initial : "", *value = "x";
    struct flag_table table = config_flag_table(0);
    struct config scratch;
    if (flag->type == FLAG_BOOL)
        return "";
    if (flag->type == FLAG_STRING_LIST && flag->minimum > 0)
        return "2 2 10";
    const char *choice = NULL;
    for (size_t i = 0; (choice = flag_choice_at(flag, i)); i++)
        if (strcmp(choice, initial) != 0 && !is_among(choice, values))
            value = choice;
    config_defaults(&scratch);
    for (int i = 2; (flag->type == FLAG_INT || flag->type == FLAG_DOUBLE) && i >= 0; i--)
        if (flag_set(&table, &scratch, flag->name, numbers[i], FLAG_FROM_COMMAND) == 0 &&
            !is_among(initial, numbers[i]))
            value = numbers[i];
    error_clear();
    config_free(&scratch);
    return value;
}

// Appends to a line what makes a term hold, or not hold, and to `name` what a message calls it. Of several values it
// has the first, or the last.
static void write_term(const char *term, bool holds, bool is_last, struct buffer *line, struct buffer *name) {
    char *copy = memory_string(term);
    struct string_list words = {0};
    split_words(&words, copy);
    for (int64_t i = 0; i < words.count; i++) {
        const struct flag *flag = find(words.items[i]);
        char *values = i + 1 < words.count && words.items[i + 1][0] != '-' ? words.items[++i] : NULL;
        if (!holds) {
            if (values && flag->initial && is_among(flag->initial, values))
                buffer_printf(line, " %s %s", flag->name, other_value(flag, values));
            continue;
        }
        if (values && is_last && strrchr(values, '|'))
            values = strrchr(values, '|') + 1;
        else if (values)
            values[strcspn(values, "|")] = '\0';
        buffer_printf(line, " %s %s", flag->name, values ? values : other_value(flag, ""));
        buffer_printf(name, "%s%s%s%s", name->length ? " " : "", flag->name, values ? " " : "", values ? values : "");
    }
    string_list_free(&words);
    free(copy);
}

// The terms of a column.
static struct string_list split_terms(const char *terms) {
    struct string_list list = {0};
    for (const char *at = terms; at && *at; at += strspn(at, ", ")) {
        size_t length = strcspn(at, ",");
        char *term = memory_printf("%.*s", (int)length, at);
        string_list_add(&list, term);
        free(term);
        at += length;
    }
    return list;
}

static void validate(const char *line) {
    static struct config config;
    FILE *file = tmpfile();
    int saved = dup(STDERR_FILENO);
    error_clear();
    EXPECT(file && saved >= 0 && dup2(fileno(file), STDERR_FILENO) >= 0);
    if (parse_line(&config, line) == 0)
        (void)config_validate(&config, 1);
    EXPECT(dup2(saved, STDERR_FILENO) >= 0);
    close(saved);
    rewind(file);
    size_t length = fread(said, 1, sizeof said / 2, file);
    (void)snprintf(said + length, sizeof said - length, "%s", error_message());
    (void)fclose(file);
    config_free(&config);
    if (strstr(said, "\n  … and ") || strstr(said, "unknown flag"))
        test_fail("%s: %s", line, said);
}

// One of a rule's flags and one of its others, which holds or does not; -1: none of them holds.
static void check(const struct flag_rule *rule, const char *term, const struct string_list *others, int64_t which,
                  bool is_last) {
    static const char *const verbs[] = {"needs", "belongs to", "does not work with", "has no effect without",
                                        "has no effect with"};
    bool is_bad_with = rule->kind == RULE_EXCLUDES || rule->kind == RULE_IDLE_WITH;
    struct buffer line = {0}, flag = {0}, other = {0}, rest = {0};
    struct string_list when = split_terms(rule->when);
    for (size_t i = 0; i < sizeof run / sizeof run[0]; i++) {
        char *name = memory_printf("%.*s", (int)strcspn(run[i], " "), run[i]);
        if (!strstr(rule->others, name))
            buffer_printf(&line, " %s", run[i]);
        free(name);
    }
    if (when.count > 0)
        write_term(when.items[0], true, false, &line, &rest);
    write_term(term, true, is_last, &line, &flag);
    for (int64_t i = 0; i < others->count; i++)
        write_term(others->items[i], i == which, is_last, &line, i == which ? &other : &rest);
    // A message about flags that are missing names all of them.
    if (!is_bad_with || which < 0) {
        buffer_clear(&other);
        buffer_printf(&other, "%.*s", (int)strcspn(others->items[0], "|"), others->items[0]);
    }
    validate(buffer_string(&line));
    char *message = memory_printf("%s %s %s", buffer_string(&flag), verbs[rule->kind], buffer_string(&other));
    bool is_said = strstr(said, message) != NULL;
    if (is_said != (is_bad_with == (which >= 0)))
        test_fail("%s:\n%s \"%s\" in: %s", buffer_string(&line), is_said ? "a needless" : "no", message, said);
    free(message);
    string_list_free(&when);
    buffer_free(&line);
    buffer_free(&flag);
    buffer_free(&other);
    buffer_free(&rest);
}

static void check_rules(const struct flag_rule *rule) {
    const struct flag_table table = config_flag_table(0);
    const struct flag *flag;
    for (; rule->flags; rule++) {
        struct string_list terms = split_terms(rule->flags), others = split_terms(rule->others);
        int64_t written = terms.count;
        for (size_t i = 0; rule->uses && (flag = flag_at(&table.rows, i)); i++)
            if (flag->uses & rule->uses)
                string_list_add(&terms, flag->name);
        EXPECT((rule->uses != 0) == (terms.count > written));
        for (int64_t i = 0; i < terms.count; i++)
            for (int64_t k = -1; k < others.count; k++)
                for (int is_last = 0; is_last < 2; is_last++)
                    check(rule, terms.items[i], &others, k, is_last);
        string_list_free(&terms);
        string_list_free(&others);
    }
}

TEST(always) {
    check_rules(rules_always);
}

TEST(of_data) {
    check_rules(rules_of_data);
}

TEST(of_training) {
    check_rules(rules_of_training);
}

TEST_MAIN(TEST_CASE(always), TEST_CASE(of_data), TEST_CASE(of_training))
