// Templates that this program renders: those whose text belongs to the sentence around them ({{convert|5|km}},
// {{lang|fr|…}}, {{nowrap|…}}), so that no number or name is lost when templates are left out.
#ifndef DATA_EXTRACT_WIKI_TEMPLATE_H
#define DATA_EXTRACT_WIKI_TEMPLATE_H

#include "data/extract/wiki_resolve.h"

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

#endif
