// Runs the passes one after another.
#include "data/extract/wiki_text.h"
#include "data/extract/wiki_passes.h"
#include "data/extract/wiki_resolve.h"

// Limit for the bytes that templates may add to one page: enough for every honest page.
enum { TEMPLATE_BUDGET = 4 << 20, BUDGET_PER_BYTE = 16 };

void wiki_text_init(struct wiki_text *converter, const struct wiki_text_options *options) {
    *converter = (struct wiki_text){.options = *options};
}

void wiki_text_free(struct wiki_text *converter) {
    buffer_free(&converter->stripped);
    buffer_free(&converter->resolved);
}

void wiki_text_convert(struct wiki_text *converter, struct buffer *out, const struct wiki_source *source) {
    size_t budget = TEMPLATE_BUDGET + BUDGET_PER_BYTE * source->text.length;
    struct wiki_context context = {
        .site = source->site,
        .title = source->title,
        .templates = converter->options.templates,
        .budget = &budget,
    };
    struct buffer *stripped = &converter->stripped, *resolved = &converter->resolved;
    buffer_clear(stripped);
    buffer_clear(resolved);
    wiki_strip(stripped, source->text);
    wiki_resolve(&context, resolved, (struct wiki_slice){buffer_string(stripped), stripped->length});
    wiki_tables(resolved);
    const struct wiki_layout_options layout = {.drop_lists = converter->options.drop_lists};
    wiki_layout(out, (struct wiki_slice){buffer_string(resolved), resolved->length}, &layout);
}
