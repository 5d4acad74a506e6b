// How wikitext becomes text, pass by pass; each takes the whole page and runs in time proportional to its length,
// whatever is in it.
//
//   wiki_strip    comments, HTML and extension tags: <ref> goes, <math> stays as LaTeX, <nowiki> shields its content
//   wiki_resolve  {{templates}}, {{{parameters}}} and [[links]], innermost first (wiki_resolve.h)
//   wiki_tables   {| … |}
//   wiki_layout   lines: headings, lists, paragraphs; inside them wiki_inline: quotes, entities, external links, blanks
//
// Between passes, control characters (which no dump may hold; wiki_strip drops those it finds) carry what must not be
// taken for markup again.
#ifndef DATA_EXTRACT_WIKI_PASSES_H
#define DATA_EXTRACT_WIKI_PASSES_H

#include "data/extract/wiki_slice.h"

// WIKI_SHIELDED[i] is written as the byte WIKI_SHIELDS[i].
#define WIKI_SHIELDED "{}[]|'<>=*#:;!_ "
#define WIKI_SHIELDS "\x01\x02\x03\x04\x05\x06\x07\x08\x0E\x0F\x10\x11\x12\x13\x14\x15"

enum {
    WIKI_BREAK = 0x1E,  // a new line that begins no paragraph, list or table
    WIKI_DROP = 0x1F,   // something was left out here: blanks and brackets around it are tidied up
};

// The character that a shield stands for, or the byte itself.
char wiki_unshield(char byte);

void wiki_strip(struct buffer *out, struct wiki_slice text);

// In place.
void wiki_tables(struct buffer *text);

struct word_list;

struct wiki_layout_options {
    bool drop_lists;
};
void wiki_layout(struct buffer *out, struct wiki_slice text, const struct wiki_layout_options *options);

// Does a section of that title hold references, notes or links, in any of many languages? All such titles, lower case.
bool wiki_is_reference_title(struct wiki_slice title);
const struct word_list *wiki_reference_titles(void);

// One line without its list or heading marks; appends nothing if nothing is left of it.
void wiki_inline(struct buffer *out, struct wiki_slice line);

// The character reference at text[0] == '&', with or without a number: its length, 0 if it is none.
size_t wiki_entity(struct buffer *out, struct wiki_slice text);

#endif
