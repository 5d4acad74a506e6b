// Where imported lines go: sequences into a writer, documents cut at empty lines. Shared by the kinds of import.
#ifndef DATA_IMPORT_SINK_H
#define DATA_IMPORT_SINK_H

#include "data/import.h"

struct import_sink {
    const struct import_options *options;
    struct import_summary *summary;
    struct index_writer *writer;
    bool is_open;        // the present document has a line that is not empty
    bool has_separator;  // and, after it, an empty one
};

int import_sink_open(struct import_sink *sink, const struct import_options *options, enum index_dtype dtype,
                     struct import_summary *summary);
int import_sink_add(struct import_sink *sink, const int32_t *tokens, int64_t count);
// Ends the last document and publishes, where status is 0; else leaves nothing. Returns what the import returns.
int import_sink_close(struct import_sink *sink, int status);

#endif
