// The templates of a dump, by name, for --templates expand. Filled by one thread, then shared by all that expand.
//
// Expansion is bounded: a template does not expand itself recursively, nesting ends at WIKI_MOST_DEPTH, and the bytes
// that all templates of a page add are limited.
#ifndef DATA_EXTRACT_WIKI_STORE_H
#define DATA_EXTRACT_WIKI_STORE_H

#include "data/extract/wiki_resolve.h"

struct wiki_store;

struct wiki_store *wiki_store_create(void);
void wiki_store_free(struct wiki_store *store);  // NULL is fine
// title is without its namespace; text is the page's wikitext, or "#REDIRECT [[…]]". Of equal titles the last counts.
void wiki_store_add(struct wiki_store *store, struct wiki_slice title, struct wiki_slice text);
int64_t wiki_store_count(const struct wiki_store *store);

// Appends the expansion of the call; nothing if there is no such template or a limit is reached.
void wiki_store_expand(struct wiki_context *context, struct buffer *out, const struct wiki_call *call);

#endif
