// layer: data
// Hostile bytes as wikitext, with and without templates that expand into more, and as a dump. The text must not contain
// control characters except line ends and tabs, since those would be marks of one pass that a later one forgot, and
// must not grow without bound.
#include "fuzz.h"

#include "data/extract/wiki_dump.h"
#include "data/extract/wiki_template.h"
#include "data/extract/wiki_text.h"
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST_GROWTH = 64, SLACK = 32 << 20 };

static void convert(struct wiki_text *converter, const struct wiki_site *site, const char *text, size_t size) {
    struct buffer out = {0};
    struct wiki_source source = {site, wiki_slice_of("Title"), {text, size}};
    wiki_text_convert(converter, &out, &source);
    if (out.length > MOST_GROWTH * size + SLACK)
        abort();
    for (size_t i = 0; i < out.length; i++)
        if ((unsigned char)out.data[i] < ' ' && out.data[i] != '\n' && out.data[i] != '\t')
            abort();
    buffer_free(&out);
}

static void fuzz_text(const char *text, size_t size) {
    struct wiki_site site;
    wiki_site_parse(&site, wiki_slice_of(""));
    struct wiki_store *store = wiki_store_create();
    // The input itself is a template too, which may call the others and itself.
    wiki_store_add(store, wiki_slice_of("A"), wiki_slice_of("{{{1|x}}} {{b|{{{1}}}|{{{1}}}}}"));
    wiki_store_add(store, wiki_slice_of("B"), wiki_slice_of("{{#if:{{{2|}}}|[[{{{1}}}]]|{{a}}}}"));
    wiki_store_add(store, wiki_slice_of("C"), (struct wiki_slice){text, size});
    struct wiki_text converter;
    for (int i = 0; i < 2; i++) {
        wiki_text_init(&converter, &(struct wiki_text_options){.drop_lists = i, .templates = i ? store : NULL});
        convert(&converter, &site, text, size);
        wiki_text_free(&converter);
    }
    wiki_store_free(store);
    wiki_site_free(&site);
}

static void fuzz_dump(const uint8_t *data, size_t size) {
    int descriptor = memfd_create("fuzz", 0);
    if (descriptor < 0 || write(descriptor, data, size) != (ssize_t)size)
        abort();
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    const char *paths[] = {path};
    struct wiki_pages *pages;
    struct wiki_batch batch = {0};
    wiki_pages_open(&pages, &(struct wiki_pages_options){paths, 1, 1, 1 + size % 100, 1 << 20});
    while (wiki_pages_next(pages, &batch) > 0) {
        struct wiki_slice xml;
        struct wiki_page page;
        size_t position = 0;
        uint64_t at;
        const char *problem;
        struct buffer text = {0};
        while (wiki_batch_page(&batch, &position, &xml, &at))
            if (wiki_page_parse(&page, batch.site, xml, &problem) == 0)
                wiki_unescape(&text, page.text);
        buffer_free(&text);
    }
    wiki_pages_close(pages);
    buffer_free(&batch.xml);
    close(descriptor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct buffer text = {0};
    buffer_append(&text, data, size);
    fuzz_text(text.data, size);
    fuzz_dump(data, size);
    buffer_free(&text);
    return 0;
}
