// ${NAME} and ${NAME:-default} in the values of configuration files. Only ${ is special, and $${ is the text ${; other
// uses of $ stay verbatim. A value is not expanded again.
#include "config/flag_internal.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/memory.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static size_t name_length(const char *text) {
    size_t length = 0;
    if (isdigit((unsigned char)*text))
        return 0;
    while (isalnum((unsigned char)text[length]) || text[length] == '_')
        length++;
    return length;
}

static int unset(const char *name) {
    return error_set_code(EXIT_CODE_USAGE,
                          "the variable %s is not set; set it (export %s=…), or write ${%s:-DEFAULT}, or $${%s} for "
                          "the text itself",
                          name, name, name, name);
}

// The reference at `text`, which follows "${"; *used is its length with the closing brace.
static int expand_one(const char *text, struct buffer *out, size_t *used) {
    size_t length = name_length(text), end = strcspn(text, "}");
    bool has_default = strncmp(text + length, ":-", 2) == 0;
    if (!text[end])
        return error_set_code(EXIT_CODE_USAGE, "${ is opened and not closed with }; write $${ for the text itself");
    if (length == 0 || (!has_default && length != end) || memchr(text, '{', end))
        return error_set_code(EXIT_CODE_USAGE,
                              "${%.*s} is neither ${NAME} nor ${NAME:-DEFAULT}; write $${ for the text itself",
                              (int)end, text);
    char *name = memory_printf("%.*s", (int)length, text);
    const char *value = environment_find(name);
    int status = 0;
    if (value && (*value || !has_default))
        buffer_append_string(out, value);
    else if (has_default)
        buffer_append(out, text + length + 2, end - length - 2);
    else
        status = unset(name);
    free(name);
    *used = end + 1;
    return status;
}

int flag_expand(const char *text, struct buffer *out) {
    for (const char *p = text; *p;) {
        if (strncmp(p, "$${", 3) == 0) {
            buffer_append_string(out, "${");
            p += 3;
        } else if (strncmp(p, "${", 2) == 0) {
            size_t used = 0;
            TRY(expand_one(p + 2, out, &used));
            p += 2 + used;
        } else {
            buffer_append_byte(out, *p++);
        }
    }
    return 0;
}
