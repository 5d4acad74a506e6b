// The tree reader. A first walk checks the whole text and measures it; then one block is allocated and a second walk,
// which cannot fail, fills it: nodes first (the root is the start of the block), then keys, then text from front to
// back, so that what a string writes beyond its end is overwritten by the next.
#include "base/error.h"
#include "base/file.h"
#include "base/file_patience.h"
#include "base/json.h"
#include "base/json_lex.h"
#include "base/memory.h"
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Where the second walk writes next.
struct tree_builder {
    struct json_lexer lexer;
    struct json *next_node;
    struct json_key *next_key;
    char *next_text;
    const size_t *next_members;
};

static void build_value(struct tree_builder *b, struct json *node);

// Decodes the string at the lexer's place into the block.
static const char *build_string(struct tree_builder *b, size_t *length) {
    char *text = b->next_text;
    bool ok = json_lex_string(&b->lexer, text, length);
    CHECK(ok);
    text[*length] = '\0';
    b->next_text += *length + 1;
    return text;
}

static void build_number(struct tree_builder *b, struct json *node) {
    size_t start = b->lexer.at;
    bool ok = json_lex_number(&b->lexer);
    CHECK(ok);
    node->type = JSON_NUMBER;
    node->length = b->lexer.at - start;
    memcpy(b->next_text, b->lexer.text + start, node->length);
    b->next_text[node->length] = '\0';
    node->string = b->next_text;
    node->number = strtod(b->next_text, NULL);
    b->next_text += node->length + 1;
}

static void build_container(struct tree_builder *b, struct json *node) {
    bool is_object = b->lexer.text[b->lexer.at] == '{';
    node->type = is_object ? JSON_OBJECT : JSON_ARRAY;
    node->count = *b->next_members++;
    node->items = b->next_node;
    b->next_node += node->count;
    struct json_key *keys = b->next_key;
    if (is_object) {
        node->keys = keys;
        b->next_key += node->count;
    }
    b->lexer.at++;
    for (size_t i = 0; i < node->count; i++) {
        json_lex_space(&b->lexer);
        if (is_object) {
            keys[i].string = build_string(b, &keys[i].length);
            json_lex_expect(&b->lexer, ':', "");
        }
        build_value(b, &node->items[i]);
        json_lex_space(&b->lexer);
        b->lexer.at++;  // the comma, or the closing bracket after the last member
    }
    if (node->count == 0) {
        json_lex_space(&b->lexer);
        b->lexer.at++;
    }
}

static void build_value(struct tree_builder *b, struct json *node) {
    *node = (struct json){0};
    switch (json_lex_peek(&b->lexer)) {
    case '{':
    case '[':
        build_container(b, node);
        break;
    case '"':
        node->type = JSON_STRING;
        node->string = build_string(b, &node->length);
        break;
    case 't':
        node->type = JSON_TRUE;
        b->lexer.at += 4;
        break;
    case 'f':
        node->type = JSON_FALSE;
        b->lexer.at += 5;
        break;
    case 'n':
        node->type = JSON_NULL;
        b->lexer.at += 4;
        break;
    default:
        build_number(b, node);
    }
}

// Line and column, in characters from 1, as editors count them; computed only when needed.
static int report(const struct json_lexer *lexer, const char *name) {
    size_t line = 1, column = 1;
    for (size_t i = 0; i < lexer->problem_at; i++) {
        unsigned char c = (unsigned char)lexer->text[i];
        if (c == '\n') {
            line++;
            column = 1;
        } else if ((c & 0xC0) != 0x80) {
            column++;
        }
    }
    const char *more = lexer->problem_at == 0 ? file_looks_like(lexer->text, lexer->length) : "";
    if (lexer->problem_at > 0 && (lexer->at >= lexer->length || lexer->problem_at >= lexer->length))
        more = "; the text ends there, so it may be truncated: copy or download it again";
    return error_set_code(EXIT_CODE_BAD_DATA, "%s is not valid JSON: line %zu, column %zu (byte %zu): %s%s", name, line,
                          column, lexer->problem_at, lexer->problem, more);
}

// Nodes, keys and text in one block; false if the sum does not fit a size_t.
static bool block_bytes(const struct json_measure *measure, size_t *bytes) {
    size_t nodes, keys;
    return size_mul(measure->nodes, sizeof(struct json), &nodes) &&
           size_mul(measure->keys, sizeof(struct json_key), &keys) && size_add(nodes, keys, bytes) &&
           size_add(*bytes, measure->text_bytes, bytes) && size_add(*bytes, JSON_SLACK_BYTES, bytes);
}

int json_parse(struct json **root, const char *text, size_t length, const char *name) {
    struct json_lexer lexer = {.text = text, .length = length};
    struct json_measure measure = {0};
    size_t bytes;
    int result = 0;
    *root = NULL;
    if (!json_lex_start(&lexer) || !json_walk_value(&lexer, &measure, 0) || !json_lex_end(&lexer)) {
        result = report(&lexer, name);
    } else {
        void *block = block_bytes(&measure, &bytes) ? malloc(bytes) : NULL;
        if (!block) {
            result = error_set_code(EXIT_CODE_OUT_OF_MEMORY, "%s: out of memory for its %zu JSON values", name,
                                    measure.nodes);
        } else {
            struct json_key *keys = (void *)((struct json *)block + measure.nodes);
            struct tree_builder builder = {
                .lexer = {.text = text, .length = length},
                .next_node = (struct json *)block + 1,
                .next_key = keys,
                .next_text = (char *)(keys + measure.keys),
                .next_members = measure.members,
            };
            *root = block;
            build_value(&builder, *root);
        }
    }
    free(measure.members);
    return result;
}

static int parse_file(struct json **root, const char *path, size_t limit_bytes,
                      int (*read)(const char *path, size_t limit_bytes, struct buffer *out)) {
    struct buffer text = {0};
    *root = NULL;
    int result = read(path, limit_bytes, &text);
    if (result == 0)
        result = json_parse(root, buffer_string(&text), text.length, path);
    buffer_free(&text);
    return result;
}

int json_parse_file(struct json **root, const char *path, size_t limit_bytes) {
    return parse_file(root, path, limit_bytes, file_read_all);
}

int json_parse_own(struct json **root, const char *path, size_t limit_bytes) {
    return parse_file(root, path, limit_bytes, file_read_own);
}

void json_free(struct json *root) {
    free(root);
}

// Members of JSON objects by name and type, with messages that name the key.

static const char *type_name(enum json_type type) {
    static const char *const names[] = {"null", "false", "true", "a number", "a string", "an array", "an object"};
    return names[type];
}

const struct json *json_member(const struct json *object, const char *key) {
    if (!object || object->type != JSON_OBJECT)
        return NULL;
    size_t length = strlen(key);
    for (size_t i = 0; i < object->count; i++) {
        if (object->keys[i].length == length && memcmp(object->keys[i].string, key, length) == 0)
            return &object->items[i];
    }
    return NULL;
}

static int compare_keys(const void *a, const void *b) {
    return strcmp((*(const struct json_key *const *)a)->string, (*(const struct json_key *const *)b)->string);
}

const char *json_repeated(const struct json *value) {
    const char *found = NULL;
    if (value->type == JSON_OBJECT && value->count > 1) {
        const struct json_key **keys = memory_alloc(value->count * sizeof keys[0]);
        for (size_t i = 0; i < value->count; i++)
            keys[i] = &value->keys[i];
        qsort(keys, value->count, sizeof keys[0], compare_keys);
        for (size_t i = 1; i < value->count && !found; i++)
            found = compare_keys(&keys[i - 1], &keys[i]) == 0 ? keys[i]->string : NULL;
        free(keys);
    }
    bool has_items = value->type == JSON_OBJECT || value->type == JSON_ARRAY;
    for (size_t i = 0; has_items && i < value->count && !found; i++)
        found = json_repeated(&value->items[i]);
    return found;
}

static int find_typed(const struct json *object, const char *key, enum json_type type, const struct json **member) {
    *member = json_member(object, key);
    if (!*member)
        return error_set("the key \"%s\" is missing", key);
    if ((*member)->type != type)
        return error_set("the key \"%s\" holds %s, expected %s", key, type_name((*member)->type), type_name(type));
    return 0;
}

int json_get_int(const struct json *object, const char *key, int64_t *value) {
    const struct json *member;
    TRY(find_typed(object, key, JSON_NUMBER, &member));
    char *end;
    errno = 0;
    long long whole = strtoll(member->string, &end, 10);
    if (*end == '\0' && errno == 0) {
        *value = whole;
        return 0;
    }
    if (*end == '\0' || fabs(member->number) >= 0x1p63)
        return error_set("the key \"%s\" holds %s, which does not fit 64 bits", key, member->string);
    // 1e3 and 5.0 are whole numbers too.
    if (member->number != floor(member->number))
        return error_set("the key \"%s\" holds %s, expected a whole number", key, member->string);
    *value = (int64_t)member->number;
    return 0;
}

int json_get_double(const struct json *object, const char *key, double *value) {
    const struct json *member;
    TRY(find_typed(object, key, JSON_NUMBER, &member));
    if (!isfinite(member->number))
        return error_set("the key \"%s\" holds %s, which does not fit a double", key, member->string);
    *value = member->number;
    return 0;
}

int json_get_string(const struct json *object, const char *key, const char **value) {
    const struct json *member;
    TRY(find_typed(object, key, JSON_STRING, &member));
    if (strlen(member->string) != member->length)
        return error_set("the key \"%s\" holds a string with a NUL character", key);
    *value = member->string;
    return 0;
}
