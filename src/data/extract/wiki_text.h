// Converts the wikitext of a page to plain text. A converter belongs to one thread and reuses its memory from page to
// page.
#ifndef DATA_EXTRACT_WIKI_TEXT_H
#define DATA_EXTRACT_WIKI_TEXT_H

#include "data/extract/wiki_template.h"

struct wiki_text_options {
    bool drop_lists;
    const struct wiki_store *templates;  // NULL: templates that we do not render ourselves are left out
};

struct wiki_text {
    struct wiki_text_options options;
    struct wiki_natives natives;
    struct buffer stripped, resolved;  // between passes
};

void wiki_text_init(struct wiki_text *converter, const struct wiki_text_options *options);
void wiki_text_free(struct wiki_text *converter);

struct wiki_source {
    const struct wiki_site *site;
    struct wiki_slice title;
    struct wiki_slice text;  // wikitext, with the entities of XML resolved
};

// Appends the text of the page, which may be nothing.
void wiki_text_convert(struct wiki_text *converter, struct buffer *out, const struct wiki_source *source);

#endif
