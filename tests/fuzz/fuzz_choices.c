// layer: ops
// The file of the fastest choices from hostile bytes: entries that are read have the right size, occur once, and are
// the same when written and read again.
#include "fuzz.h"

#include "base/error.h"
#include "ops/choices.h"
#include <string.h>

enum { KEY = 3, VALUE = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct buffer text = {0}, first = {0}, second = {0};
    struct kept_choices read, again;
    choices_open(&read, "fuzz 1", KEY, VALUE);
    choices_open(&again, "fuzz 1", KEY, VALUE);
    buffer_append(&text, data, size);
    choices_read(&read, buffer_string(&text));
    CHECK(read.count >= 0 && read.count <= CHOICES_MOST);
    choices_print(&read, &first);
    choices_read(&again, buffer_string(&first));
    choices_print(&again, &second);
    CHECK(again.count == read.count && first.length == second.length);
    CHECK(memcmp(first.data, second.data, first.length) == 0);
    choices_close(&read);
    choices_close(&again);
    buffer_free(&text);
    buffer_free(&first);
    buffer_free(&second);
    return 0;
}
