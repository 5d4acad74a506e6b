// Complaints, numbered in order of arrival. All are reported; a flood of them is cut at the limit of a message.
#include "config/complaints.h"
#include "base/error.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// The text fits into an error together with its first line and the number of omitted complaints.
enum { LARGEST_TEXT = ERROR_BYTES - 256 };

void complain(struct complaints *complaints, const char *format, ...) {
    char text[1024], line[sizeof text + 32];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    complaints->count++;
    int length = snprintf(line, sizeof line, "\n  %d. %s", complaints->count, text);
    if (complaints->shown == complaints->count - 1 && complaints->text.length + (size_t)length <= LARGEST_TEXT) {
        buffer_append_string(&complaints->text, line);
        complaints->shown++;
    }
}

int complaints_report(struct complaints *complaints) {
    int count = complaints->count, left = count - complaints->shown;
    const char *text = buffer_string(&complaints->text);
    if (count == 1)
        error_set_code(EXIT_CODE_USAGE, "%s", text + strlen("\n  1. "));
    else if (left > 0)
        error_set_code(EXIT_CODE_USAGE, "%d problems with the flags:%s\n  … and %d more", count, text, left);
    else if (count > 1)
        error_set_code(EXIT_CODE_USAGE, "%d problems with the flags:%s", count, text);
    buffer_free(&complaints->text);
    *complaints = (struct complaints){0};
    return count ? -1 : 0;
}
