// Splits a stream of lines into documents. A document ends before the first text line that follows its empty lines, so
// the empty lines stay with it. is_open: the document has a line with text; has_separator: empty lines followed.
#include "data/import_sink.h"

#include "base/error.h"

int import_sink_open(struct import_sink *sink, const struct import_options *options, enum index_dtype dtype,
                     struct import_summary *summary) {
    *summary = (struct import_summary){.largest_id = -1, .dtype = dtype};
    *sink = (struct import_sink){.options = options, .summary = summary};
    TRY(index_files_check_output(options->output, INDEX_REMOVE_FIRST));
    return index_writer_open(&sink->writer, options->output, dtype);
}

static int end_document(struct import_sink *sink) {
    sink->is_open = sink->has_separator = false;
    sink->summary->documents++;
    return index_writer_end_document(sink->writer);
}

int import_sink_add(struct import_sink *sink, const int32_t *tokens, int64_t count) {
    bool is_separator = count == 0 || (count == 1 && tokens[0] == sink->options->eos);
    if (!is_separator && sink->is_open && sink->has_separator)
        TRY(end_document(sink));
    TRY(index_writer_add(sink->writer, tokens, count));
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] > sink->summary->largest_id)
            sink->summary->largest_id = tokens[i];
    sink->summary->sequences += count > 0;
    sink->summary->separators += is_separator;
    sink->summary->tokens += count;
    sink->is_open = sink->is_open || !is_separator;
    sink->has_separator = sink->is_open && is_separator;
    return sink->options->lines_are_documents ? end_document(sink) : 0;
}

int import_sink_close(struct import_sink *sink, int status) {
    bool is_pending = !sink->options->lines_are_documents && sink->summary->sequences > 0;
    if (status == 0 && is_pending)
        status = end_document(sink);
    if (status == 0) {
        TRY(index_writer_commit(sink->writer));
        return index_sums_write(sink->options->output, sink->options->output, "");
    }
    index_writer_abort(sink->writer);
    return -1;
}
