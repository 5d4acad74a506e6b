// Templates, parameters and links, resolved from the inside out: when a {{…}} or [[…]] closes, everything in it is
// already plain text, so one pass with a stack is enough and nothing is read twice. Templates nested too deeply are
// left out, which bounds both the call stack and the copying of nested results.
#ifndef DATA_EXTRACT_WIKI_TEMPLATE_H
#define DATA_EXTRACT_WIKI_TEMPLATE_H

#include "data/extract/wiki_dump.h"

enum { WIKI_MOST_DEPTH = 40, WIKI_MOST_ARGUMENTS = 1000 };

struct wiki_argument {
    struct wiki_slice name;  // empty if positional
    int64_t position;        // from 1; 0 if named
    struct wiki_slice value;
};

// {{name|argument|name=argument}}, already resolved.
struct wiki_call {
    struct wiki_slice name;
    const struct wiki_argument *arguments;  // (count)
    int64_t count;
};

// The value of an argument by name or number, trimmed; empty if there is none. Of equal names the last counts.
struct wiki_slice wiki_call_get(const struct wiki_call *call, const char *key);
bool wiki_call_find(const struct wiki_call *call, struct wiki_slice key, struct wiki_slice *value);
// Positional argument number `position`, trimmed; empty if there is none. Of several the first counts.
struct wiki_slice wiki_call_at(const struct wiki_call *call, int64_t position);
// "yes", "y", "on", "1" …
bool wiki_call_flag(const struct wiki_call *call, const char *key);

struct wiki_natives;  // templates that we render
struct wiki_store;    // templates of the dump

struct wiki_context {
    const struct wiki_site *site;
    struct wiki_slice title;
    const struct wiki_natives *natives;
    const struct wiki_store *templates;  // NULL: templates that we do not render ourselves are left out
    // While a template is expanded:
    const struct wiki_call *caller;      // NULL in the page itself
    const struct wiki_context *outside;  // its caller's context, NULL in the page itself
    struct wiki_slice expanding;         // its name
    int depth;
    size_t *budget;  // bytes that templates may still add to the page; NULL without a store
};

void wiki_resolve(struct wiki_context *context, struct buffer *out, struct wiki_slice text);

// The parts that wiki_resolve calls, one file each.
void wiki_template(struct wiki_context *context, struct buffer *out, const struct wiki_call *call);
// {{#if: …}}, {{formatnum: …}}, {{PAGENAME}}; false for any other name.
bool wiki_function(const struct wiki_context *context, struct buffer *out, const struct wiki_call *call);
// A number with commas between thousands.
void wiki_format_number(struct buffer *out, struct wiki_slice number);

// ---- templates that we render ----

// Templates that this program renders: those whose text belongs to the sentence around them ({{convert|5|km}},
// {{lang|fr|…}}, {{nowrap|…}}), so that no number or name is lost when templates are left out.

typedef void wiki_put(struct buffer *out, const struct wiki_call *call);

struct wiki_native {
    struct wiki_slice name;  // in lower case
    const char *format;      // or:
    wiki_put *put;
};

// All of them, sorted by name.
struct wiki_natives {
    struct wiki_native *items;
    size_t count, capacity;
};

void wiki_natives_open(struct wiki_natives *natives);
void wiki_natives_close(struct wiki_natives *natives);  // safe on a zeroed one
// NULL if the name (lower case) is unknown.
const struct wiki_native *wiki_native_find(const struct wiki_natives *natives, struct wiki_slice name);

void wiki_convert(struct buffer *out, const struct wiki_call *call);

// ---- templates of the dump ----

// The templates of a dump, by name, for --templates expand. Filled by one thread, then shared by all that expand.
//
// Expansion is bounded: a template does not expand itself recursively, nesting ends at WIKI_MOST_DEPTH, and the bytes
// that all templates of a page add are limited.

struct wiki_store;

struct wiki_store *wiki_store_create(void);
void wiki_store_free(struct wiki_store *store);  // NULL is fine
// title is without its namespace; text is the page's wikitext, or "#REDIRECT [[…]]". Of equal titles the last counts.
void wiki_store_add(struct wiki_store *store, struct wiki_slice title, struct wiki_slice text);
int64_t wiki_store_count(const struct wiki_store *store);

// Appends the expansion of the call; nothing for an unknown template, or once a limit is reached.
void wiki_store_expand(struct wiki_context *context, struct buffer *out, const struct wiki_call *call);

#endif
