// Lists of headers, and lookups in the headers of an answer. See http.h.
#include "net/http.h"
#include "base/memory.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

void http_headers_add(struct http_headers *headers, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    char *line = memory_alloc((size_t)length + 1);
    va_start(arguments, format);
    (void)vsnprintf(line, (size_t)length + 1, format, arguments);
    va_end(arguments);
    headers->lines = memory_realloc(headers->lines, (headers->count + 1) * sizeof *headers->lines);
    headers->lines[headers->count++] = line;
}

void http_headers_free(struct http_headers *headers) {
    for (size_t i = 0; i < headers->count; i++) {
        explicit_bzero(headers->lines[i], strlen(headers->lines[i]));
        free(headers->lines[i]);
    }
    free(headers->lines);
    *headers = (struct http_headers){0};
}

bool http_header(const struct http_response *response, const char *name, char *value, size_t size) {
    size_t length = strlen(name);
    const char *line = buffer_string(&response->headers);
    while (*line) {
        size_t end = strcspn(line, "\r\n");
        if (end > length && line[length] == ':' && strncasecmp(line, name, length) == 0) {
            const char *begin = line + length + 1, *last = line + end;
            while (begin < last && (*begin == ' ' || *begin == '\t'))
                begin++;
            while (last > begin && (last[-1] == ' ' || last[-1] == '\t'))
                last--;
            if ((size_t)(last - begin) >= size)
                return false;
            memcpy(value, begin, (size_t)(last - begin));
            value[last - begin] = 0;
            return true;
        }
        line += end + strspn(line + end, "\r\n");
    }
    return false;
}

void http_response_free(struct http_response *response) {
    buffer_free(&response->headers);
    *response = (struct http_response){0};
}
