// The target of a request: its path, and the pairs of its query, decoded. See web.h.
#include "base/error.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/utf8.h"
#include "report/board/web.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int digit_of(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Decodes %XX and plus signs into new memory; NULL after error_set. Text is UTF-8 without control characters.
static char *decode(const char *text, size_t length) {
    char *decoded = memory_alloc(length + 1);
    size_t at = 0;
    bool is_bad = false;
    for (size_t i = 0; i < length && !is_bad; i++) {
        unsigned char byte = (unsigned char)(text[i] == '+' ? ' ' : text[i]);
        if (text[i] == '%') {
            int high = i + 1 < length ? digit_of(text[i + 1]) : -1, low = i + 2 < length ? digit_of(text[i + 2]) : -1;
            is_bad = high < 0 || low < 0;
            byte = is_bad ? 0 : (unsigned char)(16 * high + low);
            i += 2;
        }
        is_bad = is_bad || byte < 0x20 || byte == 0x7f;
        decoded[at++] = (char)byte;
    }
    if (is_bad || utf8_check(decoded, at) != at) {
        free(decoded);
        error_set("the query is not percent-encoded UTF-8 text without control characters");
        return NULL;
    }
    return decoded;
}

static int add_pair(struct web_target *target, const char *text, size_t length) {
    if (target->count == WEB_MOST_PAIRS)
        return error_set("the query has more than %d parts", WEB_MOST_PAIRS);
    const char *equals = memchr(text, '=', length);
    size_t key_length = equals ? (size_t)(equals - text) : length;
    char *key = decode(text, key_length);
    char *value = key ? decode(equals ? equals + 1 : "", equals ? length - key_length - 1 : 0) : NULL;
    if (!value) {
        free(key);
        return -1;
    }
    if ((target->count & (target->count - 1)) == 0)
        target->pairs = memory_realloc(target->pairs, (target->count ? 2 * target->count : 1) * sizeof *target->pairs);
    target->pairs[target->count++] = (struct web_pair){key, value};
    return 0;
}

int web_target_read(struct web_target *target, const char *text) {
    size_t length = strcspn(text, "?#");
    *target = (struct web_target){.path = memory_printf("%.*s", (int)length, text)};
    const char *at = text + length;
    int result = 0;
    if (*at == '?')
        at++;
    while (result == 0 && *at && *at != '#') {
        size_t part = strcspn(at, "&#");
        if (part > 0)
            result = add_pair(target, at, part);
        at += part;
        if (*at == '&')
            at++;
    }
    if (result < 0)
        web_target_free(target);
    return result;
}

void web_target_free(struct web_target *target) {
    for (size_t i = 0; i < target->count; i++) {
        free(target->pairs[i].key);
        free(target->pairs[i].value);
    }
    free(target->pairs);
    free(target->path);
    *target = (struct web_target){0};
}

const char *web_target_value(const struct web_target *target, const char *key) {
    for (size_t i = 0; i < target->count; i++)
        if (strcmp(target->pairs[i].key, key) == 0)
            return target->pairs[i].value;
    return NULL;
}

int web_target_int(const struct web_target *target, const char *key, const int64_t range[2], int64_t *value) {
    const char *text = web_target_value(target, key);
    int64_t given;
    if (!text)
        return 0;
    if (!number_read_int(text, &given) || given < range[0] || given > range[1])
        return error_set("%s must be a whole number from %" PRId64 " to %" PRId64, key, range[0], range[1]);
    *value = given;
    return 0;
}

int web_target_double(const struct web_target *target, const char *key, bool *is_given, double *value) {
    const char *text = web_target_value(target, key);
    *is_given = text != NULL;
    if (text && !number_read_double(text, value))
        return error_set("%s must be a finite number", key);
    return 0;
}
