// Templates, parameters and links, resolved from the inside out: when a {{…}} or [[…]] closes, everything in it is
// already plain text, so one pass with a stack is enough and nothing is read twice. Templates nested too deeply are
// left out, which bounds both the call stack and the copying of nested results.
#ifndef DATA_EXTRACT_WIKI_RESOLVE_H
#define DATA_EXTRACT_WIKI_RESOLVE_H

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

struct wiki_natives;  // templates that we render (wiki_template.h)
struct wiki_store;    // templates of the dump (wiki_store.h)

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
    size_t *budget;  // bytes that templates may still add to the page; NULL if there is no store
};

void wiki_resolve(struct wiki_context *context, struct buffer *out, struct wiki_slice text);

// The parts that wiki_resolve calls, one file each.
void wiki_template(struct wiki_context *context, struct buffer *out, const struct wiki_call *call);
// {{#if: …}}, {{formatnum: …}}, {{PAGENAME}}; false if there is no such function.
bool wiki_function(const struct wiki_context *context, struct buffer *out, const struct wiki_call *call);
// A number with commas between thousands.
void wiki_format_number(struct buffer *out, struct wiki_slice number);

#endif
