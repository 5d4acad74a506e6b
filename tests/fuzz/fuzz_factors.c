// layer: config
// Items of --lr-mult and --wd-mult from hostile bytes: the first line is the item, the rest a name.
#include "fuzz.h"

#include "base/error.h"
#include "config/factors.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct buffer item = {0}, name = {0};
    const uint8_t *line = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t length = line ? (size_t)(line - data) : size;
    buffer_append(&item, data, length);
    if (line)
        buffer_append(&name, line + 1, size - length - 1);
    struct factor factor;
    if (factor_read(buffer_string(&item), &factor)) {
        CHECK(factor.value >= 0 && factor.value <= FACTOR_MOST && factor.length > 0);
        bool is_any = strspn(factor.pattern, "*") >= factor.length;
        CHECK(factor_matches(&factor, buffer_string(&name)) || !is_any);
    }
    buffer_free(&item);
    buffer_free(&name);
    return 0;
}
