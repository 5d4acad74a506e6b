// Quoting for POSIX shells. See shell.h.
#include "cluster/shell.h"
#include "base/error.h"

#include <ctype.h>
#include <string.h>

void shell_word(struct buffer *out, const char *text) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    if (*text && text[strspn(text, plain)] == 0) {
        buffer_append_string(out, text);
        return;
    }
    buffer_append_byte(out, '\'');
    for (; *text; text++) {
        if (*text == '\'')
            buffer_append_string(out, "'\\''");
        else
            buffer_append_byte(out, *text);
    }
    buffer_append_byte(out, '\'');
}

bool shell_is_name(const char *text, size_t length) {
    bool is_good = length > 0 && !isdigit((unsigned char)text[0]);
    for (size_t i = 0; i < length; i++)
        is_good = is_good && (isalnum((unsigned char)text[i]) || text[i] == '_');
    return is_good;
}

static int export_length(struct buffer *out, const char *name, size_t length, const char *value) {
    if (!shell_is_name(name, length))
        return error_set_code(EXIT_CODE_USAGE,
                              "\"%.*s\" cannot be the name of an environment variable; give NAME=value", (int)length,
                              name);
    buffer_printf(out, "export %.*s=", (int)length, name);
    shell_word(out, value);
    buffer_append_byte(out, '\n');
    return 0;
}

int shell_export(struct buffer *out, const char *name, const char *value) {
    return export_length(out, name, strlen(name), value);
}

int shell_export_pair(struct buffer *out, const char *pair) {
    const char *equals = strchr(pair, '=');
    if (!equals)
        return error_set_code(EXIT_CODE_USAGE, "\"%s\" is not NAME=value", pair);
    return export_length(out, pair, (size_t)(equals - pair), equals + 1);
}
