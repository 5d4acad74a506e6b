// layer: config
// --pipeline-model-parallel-layout from hostile bytes: what is read has only symbols, reads as itself, and every symbol
// is in one chunk; what is not read has a mistake inside of the text.
#include "fuzz.h"

#include "base/error.h"
#include "base/memory.h"
#include "config/pipeline_layout.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct layout_mistake mistake;
    char *text = memory_printf("%.*s", (int)size, size > 0 ? (const char *)data : "");
    char *layout = pipeline_layout_expand(text, &mistake);
    CHECK((layout == NULL) == (mistake.what != NULL) && mistake.at <= strlen(text));
    if (layout) {
        char *again = pipeline_layout_expand(layout, &mistake);
        CHECK(again && strcmp(layout, again) == 0);
        CHECK(strspn(layout, "EtmL|") == strlen(layout) && strlen(layout) <= LAYOUT_MOST_SYMBOLS);
        int64_t chunks = pipeline_layout_chunks(layout), sum = 0;
        for (int64_t i = 0; i < chunks && chunks < 100; i++) {
            CHECK(pipeline_layout_before(layout, i, 't') == sum);
            sum += pipeline_layout_count(layout, i, 't');
        }
        CHECK(chunks >= 100 || sum == pipeline_layout_before(layout, chunks, 't'));
        free(again);
    }
    free(layout);
    free(text);
    return 0;
}
