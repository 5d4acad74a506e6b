// Converts configurations of ParallelCluster 2, which were INI files, to the short file of `bevatron cluster`.
#ifndef CLUSTER_INI_H
#define CLUSTER_INI_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// One "key = value" of the file. All strings are the document's.
struct ini_entry {
    const char *kind, *name;  // of its section: "queue" and "gpu" of "[queue gpu]"; name is "" if there is none
    const char *key, *value;
    int64_t line;
    bool is_used;
};

struct ini_document {
    char *text;
    struct ini_entry *entries;
    size_t count;
};

// Parses an INI file: sections, "key = value", comments after # and ; (at the start of a line or after a space), and
// indented lines that continue a value. -1, with path and line, if it is not one. Free it in any case.
int ini_parse(struct ini_document *document, const char *text, size_t length, const char *path);
void ini_free(struct ini_document *document);

// Appends the short file to `out`, and to `notes` a sentence per line for each replaced or omitted key. -1 if the
// document does not describe a cluster.
int ini_convert(struct ini_document *document, const char *path, struct buffer *out, struct buffer *notes);

#endif
