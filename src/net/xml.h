// The XML of S3's and STS's answers, element by element: tags and text, without attributes, documents or namespaces.
// The text is hostile: reading ends with XML_BROKEN where it is not well formed.
#ifndef NET_XML_H
#define NET_XML_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stddef.h>

enum xml_event {
    XML_OPEN,   // <Name>: name
    XML_CLOSE,  // </Name>, or the end of <Name/>: name, and text since the previous tag
    XML_END,
    XML_BROKEN,
};

enum { XML_NAME_BYTES = 64, XML_MOST_DEPTH = 16 };

// A zeroed reader with data and length set is at the beginning.
struct xml {
    const char *data;
    size_t length, at;
    char name[XML_NAME_BYTES];  // longer names are cut
    struct buffer text;         // with entities resolved; kept between calls, freed by xml_free
    int depth;
    bool closes_next;  // <Name/> was returned as opened
    char open[XML_MOST_DEPTH][XML_NAME_BYTES];
};

enum xml_event xml_next(struct xml *xml);
void xml_free(struct xml *xml);

// The text of the first element of that name, at any depth; false if there is none.
bool xml_find(const char *data, size_t length, const char *name, struct buffer *text);

#endif
