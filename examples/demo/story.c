// Expands a grammar into one story. What makes the result a story and not a heap of sentences is what is remembered:
// a name bound once keeps its value and its pronouns to the end, no two names share a value, and within one story no
// rule gives the same alternative twice while others are left.
#include "story.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_BINDINGS = 32, MAX_DEPTH = 40, MAX_TRIES = 50 };

struct binding {
    char name[32];
    const struct rule *rule;
    struct story_text value;  // fields still joined by ';'
};

struct teller {
    const struct grammar *grammar;
    uint64_t random;
    struct binding bindings[MAX_BINDINGS];
    int binding_count;
    unsigned char *used;  // (alternatives of all rules): given in this story
    int line;             // of the alternative being expanded
};

static int expand(struct teller *teller, const char *text, const char *end, int depth, struct story_text *out);

void text_add(struct story_text *text, const char *bytes, size_t length) {
    if (text->length + length + 1 > text->capacity) {
        text->capacity = (text->length + length + 1) * 2;
        text->data = realloc(text->data, text->capacity);
        if (!text->data) {
            fprintf(stderr, "make_stories: out of memory\n");
            exit(1);
        }
    }
    memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void text_free(struct story_text *text) {
    free(text->data);
    *text = (struct story_text){0};
}

// SplitMix64: one addition and a mix per number, and any start is a good one.
static uint64_t next_random(struct teller *teller) {
    uint64_t z = teller->random += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

static int choose(struct teller *teller, int count) {
    return (int)(next_random(teller) % (uint64_t)count);
}

static int complain(const struct teller *teller, const char *what, const char *text, size_t length) {
    fprintf(stderr, "make_stories: %s:%d: %s: {%.*s}\n", teller->grammar->path, teller->line, what, (int)length, text);
    return -1;
}

// An alternative that this story has not used; all are fresh again once every one was.
static const struct alternative *pick(struct teller *teller, const struct rule *rule) {
    unsigned char *used = teller->used + rule->first;
    int left = 0;
    for (int i = 0; i < rule->count; i++)
        left += !used[i];
    if (left == 0) {
        memset(used, 0, (size_t)rule->count);
        left = rule->count;
    }
    int wanted = choose(teller, left), i = 0;
    for (; used[i] || wanted-- > 0; i++)
        continue;
    used[i] = 1;
    return &rule->alternatives[i];
}

static int expand_rule(struct teller *teller, const struct rule *rule, int depth, struct story_text *out) {
    int line = teller->line;
    const struct alternative *alternative = pick(teller, rule);
    teller->line = alternative->line;
    int result = expand(teller, alternative->text, alternative->text + strlen(alternative->text), depth + 1, out);
    teller->line = line;
    return result;
}

static struct binding *find_binding(struct teller *teller, const char *name, size_t length) {
    for (int i = 0; i < teller->binding_count; i++)
        if (strlen(teller->bindings[i].name) == length && memcmp(teller->bindings[i].name, name, length) == 0)
            return &teller->bindings[i];
    return NULL;
}

static size_t first_field(const struct story_text *value) {
    return value->length ? strcspn(value->data, ";") : 0;
}

static bool is_taken(struct teller *teller, const struct story_text *value) {
    size_t length = first_field(value);
    for (int i = 0; i < teller->binding_count; i++) {
        const struct story_text *other = &teller->bindings[i].value;
        if (other->length && first_field(other) == length && memcmp(other->data, value->data, length) == 0)
            return true;
    }
    return false;
}

// name=rule: binds, or rebinds.
static int bind(struct teller *teller, const char *text, size_t length, int depth) {
    size_t name_length = strcspn(text, "=");
    const struct rule *rule = grammar_find(teller->grammar, text + name_length + 1, length - name_length - 1);
    struct binding *binding = find_binding(teller, text, name_length);
    if (!rule || name_length >= sizeof binding->name || (!binding && teller->binding_count == MAX_BINDINGS))
        return complain(teller, "cannot remember this", text, length);
    struct story_text value = {0};
    for (int tries = 0; tries < MAX_TRIES; tries++) {
        value.length = 0;
        if (expand_rule(teller, rule, depth, &value)) {
            text_free(&value);
            return -1;
        }
        if (!is_taken(teller, &value))
            break;
    }
    if (!binding) {
        binding = &teller->bindings[teller->binding_count++];
        memcpy(binding->name, text, name_length);
    }
    text_free(&binding->value);
    binding->rule = rule;
    binding->value = value;
    return 0;
}

static int add_field(struct teller *teller, const struct binding *binding, const char *field, size_t length,
                     struct story_text *out) {
    const struct rule *rule = binding->rule;
    int wanted = 0;
    if (length > 0) {
        while (wanted < rule->field_count &&
               (strlen(rule->fields[wanted]) != length || memcmp(rule->fields[wanted], field, length) != 0))
            wanted++;
        if (wanted == rule->field_count)
            return complain(teller, "no such field", field, length);
    }
    if (rule->field_count == 0) {
        text_add(out, binding->value.data, binding->value.length);
        return 0;
    }
    const char *at = binding->value.data;
    for (; wanted > 0 && *at; wanted--) {
        at += strcspn(at, ";");
        at += *at == ';';
    }
    if (wanted > 0)
        return complain(teller, "the value has too few fields", binding->value.data, binding->value.length);
    text_add(out, at, strcspn(at, ";"));
    return 0;
}

// {name}, {name.field}, {rule}, {name=rule} or {!name=rule}.
static int expand_name(struct teller *teller, const char *text, size_t length, int depth, struct story_text *out) {
    bool is_silent = length > 0 && text[0] == '!';
    text += is_silent;
    length -= is_silent;
    size_t name_length = strcspn(text, "=.}");
    if (name_length < length && text[name_length] == '=') {
        if (bind(teller, text, length, depth))
            return -1;
        return is_silent ? 0 : add_field(teller, find_binding(teller, text, name_length), "", 0, out);
    }
    const struct binding *binding = find_binding(teller, text, name_length);
    if (binding) {
        bool has_field = name_length < length;
        return add_field(teller, binding, text + name_length + has_field, length - name_length - has_field, out);
    }
    const struct rule *rule = grammar_find(teller->grammar, text, length);
    if (!rule)
        return complain(teller, "neither a rule nor a name that was remembered", text, length);
    return expand_rule(teller, rule, depth, out);
}

static bool begins(const char *word, const char *prefix) {
    return strncmp(word, prefix, strlen(prefix)) == 0;
}

// By sound: an hour, a unicorn.
static const char *article(const char *word) {
    if (begins(word, "uni") || begins(word, "use") || begins(word, "one"))
        return "a ";
    if (begins(word, "hour") || begins(word, "honest") || strchr("aeiouAEIOU", word[0]))
        return "an ";
    return "a ";
}

static void add_plural_end(struct story_text *out, size_t start) {
    size_t length = out->length - start;
    const char *word = out->data + start;
    if (length < 2)
        return;
    char last = word[length - 1], before = word[length - 2];
    if (last == 'y' && !strchr("aeiou", before)) {
        out->length--;
        text_add(out, "ies", 3);
    } else if (strchr("sxz", last) || (last == 'h' && strchr("cs", before))) {
        text_add(out, "es", 2);
    } else {
        text_add(out, "s", 1);
    }
}

// What stands between a pair of braces.
static int expand_braces(struct teller *teller, const char *text, const char *end, int depth, struct story_text *out) {
    int count = 1;
    for (const char *bar = grammar_scan(text, end, "|"); bar < end; bar = grammar_scan(bar + 1, end, "|"))
        count++;
    if (count > 1) {
        for (int skip = choose(teller, count); skip > 0; skip--)
            text = grammar_scan(text, end, "|") + 1;
        return expand(teller, text, grammar_scan(text, end, "|"), depth + 1, out);
    }
    size_t start = out->length;
    char first = text < end ? *text : ' ';
    bool is_capital = isupper((unsigned char)first);
    bool has_word = end - text > 2 && text[1] == ' ' && strchr("aAsS", first);
    bool is_plural = has_word && tolower((unsigned char)first) == 's';
    const char *name = has_word ? text + 2 : text;
    char lower[64];
    size_t length = (size_t)(end - name);
    if (length >= sizeof lower)
        return complain(teller, "too long a name", name, length);
    for (size_t i = 0; i < length; i++)
        lower[i] = (char)tolower((unsigned char)name[i]);
    lower[length] = '\0';
    struct story_text word = {0};
    text_add(&word, "", 0);
    int result = expand_name(teller, lower, length, depth, &word);
    if (has_word && !is_plural)
        text_add(out, article(word.data), strlen(article(word.data)));
    text_add(out, word.data, word.length);
    text_free(&word);
    if (is_plural)
        add_plural_end(out, start);
    if (is_capital && out->length > start)
        out->data[start] = (char)toupper((unsigned char)out->data[start]);
    return result;
}

static int expand(struct teller *teller, const char *text, const char *end, int depth, struct story_text *out) {
    if (depth > MAX_DEPTH)
        return complain(teller, "rules go round in a circle", text, (size_t)(end - text));
    while (text < end) {
        const char *brace = grammar_scan(text, end, "{");
        text_add(out, text, (size_t)(brace - text));
        if (brace == end)
            return 0;
        const char *close = grammar_scan(brace + 1, end, "}");
        if (expand_braces(teller, brace + 1, close, depth, out))
            return -1;
        text = close + 1;
    }
    return 0;
}

// Sentences and speeches begin with a capital letter, wherever their first word came from; and where an empty choice
// left two blanks, one stays.
static void tidy(struct story_text *text) {
    size_t to = 0;
    bool at_start = true;
    for (size_t from = 0; from < text->length; from++) {
        char c = text->data[from];
        char before = to > 0 ? text->data[to - 1] : '\n';
        if (c == ' ' && (before == ' ' || before == '\n'))
            continue;
        if (c == '\n')
            at_start = true;
        else if (c == ' ')
            at_start = at_start || strchr(".!?", before) || (before == '"' && to > 1 && text->data[to - 2] == '.');
        else if (c == '"' && (before == ' ' || before == '\n'))
            at_start = true;
        else {
            if (at_start)
                c = (char)toupper((unsigned char)c);
            at_start = false;
        }
        text->data[to++] = c;
    }
    text->length = to;
    text->data[to] = '\0';
}

int story_tell(const struct grammar *grammar, uint64_t seed, uint64_t number, struct story_text *out) {
    struct teller teller = {.grammar = grammar, .random = seed * 0xD1342543DE82EF95u + number};
    teller.random = next_random(&teller);
    teller.used = calloc((size_t)grammar->total, 1);
    if (!teller.used) {
        fprintf(stderr, "make_stories: out of memory\n");
        return -1;
    }
    out->length = 0;
    static const char start[] = "{story}";
    int result = expand(&teller, start, start + strlen(start), 0, out);
    if (result == 0)
        tidy(out);
    for (int i = 0; i < teller.binding_count; i++)
        text_free(&teller.bindings[i].value);
    free(teller.used);
    return result;
}
