// Reads a grammar file line by line into rules. A line belongs to the rule whose head was read last; errors name the
// file and the line.
#include "grammar.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int complain(const struct grammar *grammar, int line, const char *text) {
    fprintf(stderr, "make_stories: %s:%d: %s\n", grammar->path, line, text);
    return -1;
}

static void *reallocate(void *memory, size_t bytes) {
    void *result = realloc(memory, bytes);
    if (!result) {
        fprintf(stderr, "make_stories: out of memory\n");
        exit(1);
    }
    return result;
}

static char *copy(const char *text, size_t length) {
    char *result = reallocate(NULL, length + 1);
    memcpy(result, text, length);
    result[length] = '\0';
    return result;
}

static bool is_name(const char *text, size_t length) {
    return length > 0 && strspn(text, "abcdefghijklmnopqrstuvwxyz_0123456789") >= length;
}

const char *grammar_scan(const char *text, const char *end, const char *characters) {
    int depth = 0;
    for (; text < end; text++) {
        if (depth == 0 && strchr(characters, *text))
            return text;
        if (*text == '{')
            depth++;
        else if (*text == '}')
            depth--;
    }
    return end;
}

const struct rule *grammar_find(const struct grammar *grammar, const char *name, size_t length) {
    for (int i = 0; i < grammar->count; i++) {
        const struct rule *rule = &grammar->rules[i];
        if (strlen(rule->name) == length && memcmp(rule->name, name, length) == 0)
            return rule;
    }
    return NULL;
}

// "[name: field field]", the brackets included.
static int read_head(struct grammar *grammar, const char *text, int line) {
    size_t length = strlen(text);
    if (text[length - 1] != ']')
        return complain(grammar, line, "a rule's head must end in ]");
    const char *end = text + length - 1, *name = text + 1;
    size_t name_length = strcspn(name, ":]");
    if (!is_name(name, name_length))
        return complain(grammar, line, "a rule's name is made of a-z, 0-9 and _");
    if (grammar_find(grammar, name, name_length))
        return complain(grammar, line, "there is a rule of this name already");
    grammar->rules = reallocate(grammar->rules, (size_t)(grammar->count + 1) * sizeof *grammar->rules);
    struct rule *rule = &grammar->rules[grammar->count++];
    *rule = (struct rule){.name = copy(name, name_length)};
    for (const char *at = name + name_length; at < end;) {
        at += strspn(at, ": ");
        size_t field_length = strcspn(at, " ]");
        if (field_length == 0)
            break;
        if (rule->field_count == GRAMMAR_MAX_FIELDS || !is_name(at, field_length))
            return complain(grammar, line, "fields are at most eight names of a-z, 0-9 and _");
        rule->fields[rule->field_count++] = copy(at, field_length);
        at += field_length;
    }
    return 0;
}

static int add_alternative(struct grammar *grammar, const char *text, size_t length, int line) {
    struct rule *rule = &grammar->rules[grammar->count - 1];
    while (length > 0 && text[0] == ' ')
        text++, length--;
    while (length > 0 && text[length - 1] == ' ')
        length--;
    int depth = 0;
    for (size_t i = 0; i < length && depth >= 0; i++)
        depth += text[i] == '{' ? 1 : text[i] == '}' ? -1 : 0;
    if (depth != 0)
        return complain(grammar, line, "braces do not match");
    rule->alternatives = reallocate(rule->alternatives, (size_t)(rule->count + 1) * sizeof *rule->alternatives);
    rule->alternatives[rule->count++] = (struct alternative){.text = copy(text, length), .line = line};
    return 0;
}

// "> more" or "+ more": the last alternative grows.
static int extend_alternative(struct grammar *grammar, const char *text, int line) {
    struct rule *rule = &grammar->rules[grammar->count - 1];
    if (rule->count == 0)
        return complain(grammar, line, "there is no alternative to go on with");
    struct alternative last = rule->alternatives[--rule->count];
    const char *rest = text + 1 + strspn(text + 1, " ");
    size_t old = strlen(last.text), more = strlen(rest);
    char *joined = reallocate(NULL, old + more + 1);
    memcpy(joined, last.text, old);
    joined[old] = text[0] == '+' ? '\n' : ' ';
    memcpy(joined + old + 1, rest, more);
    int result = add_alternative(grammar, joined, old + 1 + more, line);
    free(joined);
    free(last.text);
    return result;
}

static int read_line(struct grammar *grammar, const char *text, int line) {
    if (text[0] == '\0' || text[0] == '#')
        return 0;
    if (text[0] == '[')
        return read_head(grammar, text, line);
    if (grammar->count == 0)
        return complain(grammar, line, "text before the first rule");
    if (text[0] == '>' || text[0] == '+')
        return extend_alternative(grammar, text, line);
    for (const char *end = text + strlen(text);;) {
        const char *bar = grammar_scan(text, end, "|");
        if (add_alternative(grammar, text, (size_t)(bar - text), line))
            return -1;
        if (bar == end)
            return 0;
        text = bar + 1;
    }
}

int grammar_read(struct grammar *grammar, const char *path) {
    *grammar = (struct grammar){.path = copy(path, strlen(path))};
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "make_stories: cannot read %s; give its place with --grammar\n", path);
        return -1;
    }
    char *text = NULL;
    size_t capacity = 0;
    int line = 0, result = 0;
    while (result == 0 && getline(&text, &capacity, file) >= 0) {
        text[strcspn(text, "\n")] = '\0';
        result = read_line(grammar, text, ++line);
    }
    free(text);
    fclose(file);
    for (int i = 0; result == 0 && i < grammar->count; i++) {
        if (grammar->rules[i].count == 0)
            result = complain(grammar, line, "a rule has no alternatives");
        grammar->rules[i].first = grammar->total;
        grammar->total += grammar->rules[i].count;
    }
    return result;
}

void grammar_free(struct grammar *grammar) {
    for (int i = 0; i < grammar->count; i++) {
        struct rule *rule = &grammar->rules[i];
        for (int j = 0; j < rule->count; j++)
            free(rule->alternatives[j].text);
        for (int j = 0; j < rule->field_count; j++)
            free(rule->fields[j]);
        free(rule->alternatives);
        free(rule->name);
    }
    free(grammar->rules);
    free(grammar->path);
    *grammar = (struct grammar){0};
}
