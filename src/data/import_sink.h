// Where imported lines go: sequences into a writer, documents split at empty lines. Shared by all importers.
#ifndef DATA_IMPORT_SINK_H
#define DATA_IMPORT_SINK_H

#include "data/import.h"

struct import_sink {
    const struct import_options *options;
    struct import_summary *summary;
    struct index_writer *writer;
    bool is_open;        // the current document has a line that is not empty
    bool has_separator;  // and, after it, an empty one
};

int import_sink_open(struct import_sink *sink, const struct import_options *options, enum index_dtype dtype,
                     struct import_summary *summary);
int import_sink_add(struct import_sink *sink, const int32_t *tokens, int64_t count);
// If status is 0, ends the last document and publishes the files; else removes them. Returns the status of the import.
int import_sink_close(struct import_sink *sink, int status);

#endif
