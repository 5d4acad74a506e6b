// layer: report
// Lines of a rank's trace out of hostile bytes: what is kept is one JSON object on one line, and its times are finite.
#include "fuzz.h"

#include "base/json.h"
#include "report/trace_file.h"
#include <math.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct buffer out = {0};
    // The first byte chooses how much times are moved.
    double slope = size > 0 ? ((double)data[0] - 128) * 1e-6 : 0;
    const char *at = (const char *)data + (size > 0), *end = (const char *)data + size;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((newline ? newline : end) - at), before = out.length;
        if (trace_merge_line(&out, at, length, 0, slope)) {
            struct json *event = NULL;
            double start = 0;
            CHECK(json_parse(&event, out.data + before, out.length - before, "kept") == 0);
            CHECK(event->type == JSON_OBJECT && !memchr(out.data + before, '\n', out.length - before));
            const struct json *ts = json_member(event, "ts");
            start = ts && ts->type == JSON_NUMBER ? ts->number : 0;
            CHECK(isfinite(start));
            json_free(event);
        } else {
            CHECK(out.length == before);
        }
        at += length + 1;
    }
    buffer_free(&out);
    return 0;
}
