// Complaints, numbered in the order they came; of many the first ones are shown.
#include "config/complaints.h"
#include "base/error.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_COMPLAINTS = 12 };

void complain(struct complaints *complaints, const char *format, ...) {
    complaints->count++;
    if (complaints->count > MOST_COMPLAINTS)
        return;
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    buffer_printf(&complaints->text, "\n  %d. %s", complaints->count, text);
}

bool complaints_are_enough(const struct complaints *complaints) {
    return complaints->count > MOST_COMPLAINTS;
}

int complaints_report(struct complaints *complaints) {
    int count = complaints->count;
    const char *text = buffer_string(&complaints->text);
    if (count == 1)
        error_set_code(EXIT_CODE_USAGE, "%s", text + strlen("\n  1. "));
    else if (count > MOST_COMPLAINTS)
        error_set_code(EXIT_CODE_USAGE, "more than %d problems with the flags:%s\n  …", MOST_COMPLAINTS, text);
    else if (count > 1)
        error_set_code(EXIT_CODE_USAGE, "%d problems with the flags:%s", count, text);
    buffer_free(&complaints->text);
    *complaints = (struct complaints){0};
    return count ? -1 : 0;
}
