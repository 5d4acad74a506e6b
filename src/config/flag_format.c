// Values and ranges as text, for --help, error messages and the engine itself, which reads them back.
#include "config/flag.h"
#include "config/flag_internal.h"
#include "base/memory.h"
#include "base/redact.h"
#include "base/secret.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

void flag_format_double(double value, struct buffer *out) {
    // The shortest of three formats that reads back as the same number.
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) == value)
            break;
    }
    buffer_append_string(out, text);
}

const char *flag_value_text(const struct flag *flag, int value) {
    const struct flag_value *row = flag->values;
    while (row->name && row->value != value)
        row++;
    return row->name;
}

bool flag_is_unset(const struct flag *flag, const void *base) {
    const void *slot = (const char *)base + flag->offset;
    switch (flag->type) {
    case FLAG_INT:
        return !flag->initial && *(const int64_t *)slot == 0;
    case FLAG_DOUBLE:
        return !flag->initial && *(const double *)slot == 0;
    case FLAG_STRING:
    case FLAG_CHOICE:
        return !*(char *const *)slot;
    case FLAG_ENUM:
        return !flag_value_text(flag, *(const int *)slot);
    case FLAG_STRING_LIST:
        return ((const struct string_list *)slot)->count == 0;
    default:
        return false;
    }
}

void flag_format(const struct flag *flag, const void *base, struct buffer *out) {
    const void *slot = (const char *)base + flag->offset;
    switch (flag->type) {
    case FLAG_GROUP:
        break;
    case FLAG_BOOL:
    case FLAG_BOOL_OFF:
        buffer_append_string(out, *(const bool *)slot ? "true" : "false");
        break;
    case FLAG_INT:
        buffer_printf(out, "%" PRId64, *(const int64_t *)slot);
        break;
    case FLAG_DOUBLE:
        flag_format_double(*(const double *)slot, out);
        break;
    case FLAG_STRING:
    case FLAG_CHOICE:
        buffer_append_string(out, *(char *const *)slot ? *(char *const *)slot : "None");
        break;
    case FLAG_ENUM: {
        const char *name = flag_value_text(flag, *(const int *)slot);
        buffer_append_string(out, name ? name : "None");
        break;
    }
    case FLAG_STRING_LIST: {
        const struct string_list *list = slot;
        for (int64_t i = 0; i < list->count; i++)
            buffer_printf(out, "%s%s", i ? " " : "", list->items[i]);
        if (!list->count)
            buffer_append_string(out, "None");
        break;
    }
    }
}

char *flag_redact(const struct flag *flag, const char *text) {
    bool is_hidden = flag->is_secret && text && text[0] != '@' && text[0];
    return is_hidden ? memory_string(REDACT_MARK) : text ? secret_redact(text) : NULL;
}

void flag_show(const struct flag *flag, const void *base, struct buffer *out) {
    struct buffer text = {0};
    flag_format(flag, base, &text);
    bool is_unset = flag->is_secret && !*(char *const *)((const char *)base + flag->offset);
    char *shown = is_unset ? memory_string(buffer_string(&text)) : flag_redact(flag, buffer_string(&text));
    buffer_append_string(out, shown);
    free(shown);
    buffer_free(&text);
}

void flag_format_range(const struct flag *flag, struct buffer *out) {
    if (flag->minimum == 0 && flag->maximum == 0)
        return;
    bool above = flag->bounds & FLAG_ABOVE_MINIMUM, below = flag->bounds & FLAG_BELOW_MAXIMUM;
    if (flag->minimum == flag->maximum) {
        flag_format_double(flag->minimum, out);
        return;
    }
    bool endless = flag->maximum >= FLAG_ENDLESS;
    buffer_append_string(out, above ? "more than " : endless ? "at least " : "from ");
    flag_format_double(flag->minimum, out);
    if (endless)
        return;
    buffer_append_string(out, below ? " to less than " : above ? " to at most " : " to ");
    flag_format_double(flag->maximum, out);
}
