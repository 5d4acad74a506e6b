// Converts the wikitext of a page to plain text. A converter belongs to one thread and reuses its memory from page to
// page.
#ifndef DATA_EXTRACT_WIKI_TEXT_H
#define DATA_EXTRACT_WIKI_TEXT_H

#include "data/extract/wiki_template.h"
#include "data/extract/wiki_slice.h"

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

// ---- passes ----

// How wikitext becomes text, pass by pass. Each pass takes the whole page, in time linear in its length for any
// content.
//
//   wiki_strip    comments, HTML and extension tags: <ref> goes, <math> stays as LaTeX, <nowiki> shields its content
//   wiki_resolve  {{templates}}, {{{parameters}}} and [[links]], innermost first (wiki_template.h)
//   wiki_text.c   tables, {| … |}; then lines: headings, lists, paragraphs; inside them
//   wiki_inline   quotes, entities, external links, spaces
//
// Between passes, control characters stand for text that must not be parsed as markup again. A valid dump contains
// none; wiki_strip drops those it finds.

// WIKI_SHIELDED[i] is written as the byte WIKI_SHIELDS[i].
#define WIKI_SHIELDED "{}[]|'<>=*#:;!_ "
#define WIKI_SHIELDS "\x01\x02\x03\x04\x05\x06\x07\x08\x0E\x0F\x10\x11\x12\x13\x14\x15"

enum {
    WIKI_BREAK = 0x1E,  // a new line that does not begin a paragraph, list or table
    WIKI_DROP = 0x1F,   // something was removed here: spaces and brackets around it are tidied up
};

// The character that a shield stands for, or the byte itself.
char wiki_unshield(char byte);

void wiki_strip(struct buffer *out, struct wiki_slice text);

// Is this the title of a section of references, notes or links, in any of many languages? The list of these titles is
// in lower case.
bool wiki_is_reference_title(struct wiki_slice title);
struct word_list;
const struct word_list *wiki_reference_titles(void);

// One line without its list or heading marks; appends nothing if nothing remains.
void wiki_inline(struct buffer *out, struct wiki_slice line);

// The character reference at text[0] == '&', by name or number: its length, 0 if there is none.
size_t wiki_entity(struct buffer *out, struct wiki_slice text);
// The number after "&#" at the start of the text, up to its ';': the length of both, 0 if there is none.
size_t wiki_reference_number(struct wiki_slice text, uint32_t *character);

#endif
