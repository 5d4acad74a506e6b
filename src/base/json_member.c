// Members of JSON objects by name and type, with messages that name the key.
#include "base/json.h"

#include "base/error.h"
#include "base/memory.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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
