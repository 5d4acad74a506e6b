// Comments at the end of a line. See yaml_line.h.
#include "base/yaml_line.h"

#include <stddef.h>
#include <string.h>

void yaml_line_trim(char *line, const char *before_values) {
    char quote = 0, before = ' ';
    size_t length = strlen(line), end = 0;
    if (length > 0 && line[length - 1] == '\r')
        line[length - 1] = '\0';
    for (size_t i = 0; line[i]; i++) {
        char c = line[i];
        if (quote == '"' && c == '\\' && line[i + 1])
            end = ++i + 1;
        else if (quote && c == quote)
            quote = 0;
        else if (!quote && (c == '"' || c == '\'') && strchr(before_values, before))
            quote = c;
        else if (!quote && c == '#' && before == ' ')
            break;
        if (c != ' ')
            end = i + 1;
        before = c;
    }
    line[end] = '\0';
}
