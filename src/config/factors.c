// Patterns of parameters and their factors. See factors.h.
#include "config/factors.h"
#include "base/error.h"
#include "base/number.h"

#include <string.h>

// The ] that closes the class whose [ is at `at`, or NULL. As in shells, a leading ] belongs to the class.
static const char *class_end(const char *at, const char *end) {
    at++;
    if (at < end && *at == '!')
        at++;
    if (at < end && *at == ']')
        at++;
    return at < end ? memchr(at, ']', (size_t)(end - at)) : NULL;
}

static bool has_whole_classes(const char *at, const char *end) {
    for (; at && at < end; at++)
        if (*at == '[' && !(at = class_end(at, end)))
            return false;
    return true;
}

bool factor_read(const char *item, struct factor *factor) {
    const char *equals = strrchr(item, '=');
    if (!equals || equals == item || !number_read_double(equals + 1, &factor->value))
        return false;
    factor->pattern = item;
    factor->length = (size_t)(equals - item);
    return factor->value >= 0 && factor->value <= FACTOR_MOST && has_whole_classes(item, equals);
}

// Whether the class between `at`, its [, and `end`, its ], has the letter.
static bool class_has(const char *at, const char *end, char letter) {
    bool is_inverted = at[1] == '!', is_in = false;
    for (at += 1 + is_inverted; at < end; at++) {
        bool is_range = at + 2 < end && at[1] == '-';
        unsigned char low = (unsigned char)at[0], high = (unsigned char)(is_range ? at[2] : at[0]);
        is_in = is_in || (low <= (unsigned char)letter && (unsigned char)letter <= high);
        at += is_range ? 2 : 0;
    }
    return is_in != is_inverted;
}

bool factor_matches(const struct factor *factor, const char *name) {
    const char *at = factor->pattern, *end = at + factor->length;
    // The pattern after the last *, and the first letter not yet matched by that *: where to continue after a mismatch.
    const char *star = NULL, *beyond = NULL;
    while (*name) {
        const char *next = at + 1;
        bool is_matched = at < end && (*at == '?' || *at == *name);
        if (at < end && *at == '*') {
            star = at = next;
            beyond = name;
            continue;
        }
        if (at < end && *at == '[') {
            const char *close = class_end(at, end);
            CHECK(close != NULL);
            is_matched = class_has(at, close, *name);
            next = close + 1;
        }
        if (is_matched) {
            at = next;
            name++;
        } else if (star) {
            at = star;
            name = ++beyond;
        } else {
            return false;
        }
    }
    while (at < end && *at == '*')
        at++;
    return at == end;
}

double factors_of(const struct string_list *items, const char *name, double otherwise) {
    for (int64_t i = items->count; i-- > 0;) {
        struct factor factor;
        CHECK(factor_read(items->items[i], &factor));
        if (factor_matches(&factor, name))
            return factor.value;
    }
    return otherwise;
}
