// Checks rules between flags. See validate.h.
#include "config/validate.h"
#include "base/error.h"
#include "base/log.h"
#include "config/flag_internal.h"

#include <stdlib.h>
#include <string.h>

// A flag of a term, with values separated by `|`, or NULL.
struct condition {
    const struct flag *flag;
    const char *values;
    size_t length;
};

// Parses the next flag of the term at *at and moves *at past it; false at the end of the term.
static bool next_condition(const char **at, struct condition *condition) {
    struct flag_table table = config_flag_table(0);
    *at += strspn(*at, " ");
    size_t length = strcspn(*at, " ,");
    if (length == 0)
        return false;
    *condition = (struct condition){.flag = flag_find_name(&table, *at, length)};
    CHECK(condition->flag != NULL);
    *at += length;
    if (**at == ' ' && strncmp(*at, " --", strlen(" --")) != 0) {
        condition->values = *at + 1;
        condition->length = strcspn(condition->values, " ,");
        *at = condition->values + condition->length;
    }
    return true;
}

// The value of a condition that equals this text; NULL if there is none.
static const char *find_value(const struct condition *condition, const char *text, size_t *length) {
    const char *end = condition->values + condition->length;
    for (const char *value = condition->values; value < end; value += *length + 1) {
        *length = strcspn(value, "| ,");
        if (strlen(text) == *length && strncmp(value, text, *length) == 0)
            return value;
    }
    return NULL;
}

static bool differs(const struct flag *flag, const void *slot, const char *text) {
    const char *initial = flag->initial;
    switch (flag->type) {
    case FLAG_BOOL:
    case FLAG_BOOL_OFF:
        return *(const bool *)slot == (flag->type == FLAG_BOOL);
    case FLAG_INT:
        return *(const int64_t *)slot != (initial ? strtoll(initial, NULL, 10) : 0);
    case FLAG_DOUBLE:
        return *(const double *)slot != (initial ? strtod(initial, NULL) : 0);
    default:
        return strcmp(text, initial ? initial : "None") != 0;
    }
}

// Whether a condition holds. Appends its flag to `shown`, with its present value if the condition names values.
static bool condition_holds(const struct condition *condition, const struct config *config, bool is_idle,
                            struct buffer *shown) {
    const struct flag *flag = condition->flag;
    const void *slot = (const char *)config + flag->offset;
    const struct string_list *list = flag->type == FLAG_STRING_LIST ? slot : NULL;
    struct buffer text = {0};
    const char *value = NULL;
    size_t length = 0;
    flag_format(flag, config, &text);
    bool is_switch = flag->type == FLAG_BOOL || flag->type == FLAG_BOOL_OFF;
    bool holds = differs(flag, slot, buffer_string(&text));
    if (condition->values) {
        for (int64_t i = 0; list && i < list->count && !value; i++)
            value = find_value(condition, list->items[i], &length);
        if (!list)
            value = find_value(condition, buffer_string(&text), &length);
        holds = value != NULL;
    } else if (is_idle) {
        enum flag_source source = flag_source(&config->given, flag->name);
        holds = source >= FLAG_FROM_FILE && (holds || (source == FLAG_FROM_COMMAND && !is_switch));
    }
    if (holds && shown)
        buffer_printf(shown, "%s%s%s%.*s", shown->length ? " " : "", flag->name, value ? " " : "", (int)length,
                      value ? value : "");
    buffer_free(&text);
    return holds;
}

// Whether the term at *at holds; moves *at to the next one.
static bool term_holds(const struct config *config, const char **at, bool is_idle, struct buffer *shown) {
    struct condition condition;
    bool holds = true;
    while (next_condition(at, &condition))
        holds = holds && condition_holds(&condition, config, is_idle, shown);
    *at += **at == ',';
    return holds;
}

static bool any_holds(const struct config *config, const char *terms, struct buffer *shown) {
    for (const char *at = terms; *at;) {
        buffer_clear(shown);
        if (term_holds(config, &at, false, shown))
            return true;
    }
    return false;
}

// "--a", "--a or --b", "--a x, y or z".
static void list_choices(const char *terms, struct buffer *out) {
    buffer_clear(out);
    for (const char *at = terms; *at; at++) {
        const char *rest = at + 1;
        if (*at == ',')
            buffer_append_string(out, strchr(rest, ',') ? "," : " or");
        else if (*at == '|')
            buffer_append_string(out, rest + strcspn(rest, "| ,") == strchr(rest, '|') ? ", " : " or ");
        else
            buffer_append_byte(out, *at);
    }
}

static void say(const struct flag_rule *rule, const char *flag, const char *other, struct complaints *complaints) {
    const char *why = rule->why ? rule->why : "";
    bool has_remedy = strchr(why, ';') != NULL;
    if (rule->kind == RULE_IDLE || rule->kind == RULE_IDLE_WITH)
        log_warn_once("%s has no effect %s %s%s", flag, rule->kind == RULE_IDLE ? "without" : "with", other, why);
    else if (has_remedy || rule->kind == RULE_BELONGS)
        complain(complaints, "%s %s %s%s%s", flag,
                 rule->kind == RULE_NEEDS     ? "needs"
                 : rule->kind == RULE_BELONGS ? "belongs to"
                                              : "does not work with",
                 other, why, has_remedy ? "" : "; leave it out");
    else if (rule->kind == RULE_NEEDS)
        complain(complaints, "%s needs %s%s; give %s, or leave %s out", flag, other, why,
                 strpbrk(rule->others, ",|") ? "one" : "it", flag);
    else
        complain(complaints, "%s does not work with %s%s; leave one out", flag, other, why);
}

// Checks a rule for each of these terms.
static void check(const struct flag_rule *rule, const char *terms, const struct config *config,
                  struct complaints *complaints) {
    bool is_idle = rule->kind == RULE_IDLE || rule->kind == RULE_IDLE_WITH;
    bool is_bad_with = rule->kind == RULE_EXCLUDES || rule->kind == RULE_IDLE_WITH;
    struct buffer flag = {0}, other = {0};
    for (const char *at = terms; *at; buffer_clear(&flag)) {
        if (!term_holds(config, &at, is_idle, &flag) || (rule->when && !any_holds(config, rule->when, &other)))
            continue;
        bool holds = any_holds(config, rule->others, &other);
        if (holds != is_bad_with)
            continue;
        if (!holds)
            list_choices(rule->others, &other);
        say(rule, buffer_string(&flag), buffer_string(&other), complaints);
    }
    buffer_free(&flag);
    buffer_free(&other);
}

void rules_check(const struct flag_rule *rules, const struct config *config, struct complaints *complaints) {
    const struct flag_table table = config_flag_table(0);
    const struct flag *flag;
    for (const struct flag_rule *rule = rules; rule->flags; rule++) {
        check(rule, rule->flags, config, complaints);
        for (size_t i = 0; rule->uses && (flag = flag_at(&table.rows, i)); i++)
            if (flag->uses & rule->uses)
                check(rule, flag->name, config, complaints);
    }
}
