// Templates that this program renders: those whose text belongs to the sentence around them ({{convert|5|km}},
// {{lang|fr|…}}, {{nowrap|…}}), so that no number or name is lost when templates are left out.
#ifndef DATA_EXTRACT_WIKI_TEMPLATE_H
#define DATA_EXTRACT_WIKI_TEMPLATE_H

#include "data/extract/wiki_resolve.h"

struct wiki_native {
    const char *name;
    const char *format;  // or:
    void (*render)(struct buffer *out, const struct wiki_call *call);
};

// NULL if the name (lower case) is unknown.
const struct wiki_native *wiki_native_find(const char *name);

void wiki_convert(struct buffer *out, const struct wiki_call *call);

void wiki_render_as_of(struct buffer *out, const struct wiki_call *call);
void wiki_render_chem(struct buffer *out, const struct wiki_call *call);
void wiki_render_coord(struct buffer *out, const struct wiki_call *call);
void wiki_render_date(struct buffer *out, const struct wiki_call *call);
void wiki_render_frac(struct buffer *out, const struct wiki_call *call);
void wiki_render_ipac_en(struct buffer *out, const struct wiki_call *call);
void wiki_render_loose_date(struct buffer *out, const struct wiki_call *call);
void wiki_render_number_first(struct buffer *out, const struct wiki_call *call);
void wiki_render_old_style(struct buffer *out, const struct wiki_call *call);
void wiki_render_respell(struct buffer *out, const struct wiki_call *call);
void wiki_render_val(struct buffer *out, const struct wiki_call *call);

#endif
