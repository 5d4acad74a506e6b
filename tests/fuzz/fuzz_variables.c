// layer: config
// Values of a configuration file that refer to variables. Text without a reference is unchanged, and a text whose
// references are escaped gives the original text.
#include "fuzz.h"

#include "base/environment.h"
#include "base/error.h"
#include "base/memory.h"
#include "config/flag_internal.h"
#include <stdlib.h>
#include <string.h>

static const char *variable(const char *name) {
    return *name == 'A' ? "value" : *name == 'B' ? "" : *name == 'C' ? "${A}" : NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    environment_use(variable);
    char *text = memory_printf("%.*s", (int)size, (const char *)data);
    struct buffer out = {0}, literal = {0};
    int status = flag_expand(text, &out);
    CHECK(status == 0 || *error_message());
    if (!strstr(text, "${"))
        CHECK(status == 0 && strcmp(buffer_string(&out), text) == 0);
    for (const char *p = text; *p; p++) {
        if (strncmp(p, "${", 2) == 0)
            buffer_append_byte(&literal, '$');
        buffer_append_byte(&literal, *p);
    }
    buffer_clear(&out);
    CHECK(flag_expand(buffer_string(&literal), &out) == 0 && strcmp(buffer_string(&out), text) == 0);
    error_clear();
    environment_clear();
    buffer_free(&out);
    buffer_free(&literal);
    free(text);
    return 0;
}
