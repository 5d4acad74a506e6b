// layer: train
// A checkpoint's identity of data, from hostile bytes, compared with a run's.
#include "fuzz.h"

#include "base/buffer.h"
#include "train/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char own[] = "{\"format\": 1, \"datasets\": [{\"name\": \"a\", \"files\": [{\"ending\": \".bin\", "
                              "\"bytes\": 5, \"hash\": \"ff\", \"modified\": 3, \"whole\": \"d\"}]}], "
                              "\"tokenizer\": \"t\"}";
    struct buffer now = {0}, then = {0};
    buffer_append_string(&now, own);
    buffer_append(&then, (const char *)data, size);
    buffer_append_byte(&then, 0);
    then.length--;
    if (identity_compare(&now, &then, "checkpoint") < 0)
        error_clear();
    CHECK(identity_compare(&now, &now, "itself") == 0);
    buffer_free(&now);
    buffer_free(&then);
    return 0;
}
