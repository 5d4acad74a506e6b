// fairseq's items to sequences and documents, in one walk and constant memory.
#include "data/import.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/bad_data.h"
#include "data/index/dtype.h"
#include "data/index/fairseq_reader.h"
#include <inttypes.h>
#include <stdlib.h>

struct import {
    const struct import_options *options;
    struct fairseq_reader *reader;
    struct index_writer *writer;
    struct import_summary *summary;
    int32_t *tokens;  // of the item at hand
    int64_t capacity;
    uint64_t touched;    // bytes read since the last release
    bool is_open;        // the present document has a sequence that is no separator
    bool has_separator;  // and, after it, a separator
};

// 16 bits where all ids are sure to fit, as preprocess has it.
static enum index_dtype choose_dtype(const struct import *import) {
    if (import->options->vocab_size > 0)
        return index_dtype_for_vocab(import->options->vocab_size);
    return import->reader->item_bytes <= 2 ? INDEX_U16 : INDEX_I32;
}

static int read_item(struct import *import, uint64_t first, int64_t length) {
    if (length > import->capacity) {
        import->capacity = length + length / 2;
        free(import->tokens);
        import->tokens = memory_alloc((size_t)import->capacity * sizeof *import->tokens);
    }
    TRY(fairseq_read(import->reader, first, length, import->tokens));
    int64_t vocab_size = import->options->vocab_size;
    for (int64_t i = 0; i < length; i++) {
        int32_t id = import->tokens[i];
        if (vocab_size > 0 && id >= vocab_size)
            return bad_data("%s.bin: token %" PRIu64 " is %" PRId32 ", beyond the dictionary of %" PRId64
                            "; give the dict.txt that was used with it",
                            import->options->input, first + (uint64_t)i, id, vocab_size);
        if (id > import->summary->largest_id)
            import->summary->largest_id = id;
    }
    return 0;
}

static int end_document(struct import *import) {
    import->is_open = import->has_separator = false;
    import->summary->documents++;
    return index_writer_end_document(import->writer);
}

// A document ends before the first line after its separators.
static int add_item(struct import *import, int64_t length) {
    bool is_separator = length == 0 || (length == 1 && import->tokens[0] == import->options->eos);
    if (!is_separator && import->is_open && import->has_separator)
        TRY(end_document(import));
    TRY(index_writer_add(import->writer, import->tokens, length));
    import->summary->sequences += length > 0;
    import->summary->separators += is_separator;
    import->summary->tokens += length;
    import->is_open = import->is_open || !is_separator;
    import->has_separator = import->is_open && is_separator;
    return import->options->lines_are_documents ? end_document(import) : 0;
}

static int walk_items(struct import *import) {
    struct fairseq_walk walk = {.reader = import->reader};
    uint64_t first;
    int64_t length;
    int got;
    while ((got = fairseq_walk_next(&walk, &first, &length)) == 1) {
        TRY(read_item(import, first, length));
        TRY(add_item(import, length));
        import->touched += (uint64_t)length * import->reader->item_bytes + 24;
        if (import->touched >= INDEX_RELEASE_BYTES) {
            fairseq_release(import->reader);
            import->touched = 0;
        }
    }
    TRY(got);
    bool is_pending = import->summary->sequences > 0 && !import->options->lines_are_documents;
    return is_pending ? end_document(import) : 0;
}

int import_fairseq(const struct import_options *options, struct import_summary *summary) {
    *summary = (struct import_summary){.largest_id = -1};
    struct import import = {.options = options, .summary = summary};
    TRY(fairseq_reader_open(&import.reader, options->input));
    summary->dtype = choose_dtype(&import);
    int result = index_writer_open(&import.writer, options->output, summary->dtype);
    if (result == 0)
        result = walk_items(&import);
    if (result == 0)
        result = index_writer_commit(import.writer);
    else
        index_writer_abort(import.writer);
    free(import.tokens);
    fairseq_reader_close(import.reader);
    return result;
}
