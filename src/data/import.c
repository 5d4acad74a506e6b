// Converts fairseq's datasets to ours, in one pass and constant memory: the reader verifies that each item follows the
// previous one (fairseq_reader.h), and the sink decides where documents end (import_sink.h).
#include "data/import.h"

#include "base/error.h"
#include "base/memory.h"
#include "data/bad_data.h"
#include "data/import_sink.h"
#include "data/index/fairseq_reader.h"
#include <inttypes.h>
#include <stdlib.h>

struct import {
    struct fairseq_reader *reader;
    struct import_sink sink;
    int32_t *tokens;  // of the current item
    int64_t capacity;
};

// 16 bits if all ids are sure to fit, as in preprocess.
static enum index_dtype choose_dtype(const struct fairseq_reader *reader, int64_t vocab_size) {
    if (vocab_size > 0)
        return index_dtype_for_vocab(vocab_size);
    return reader->item_bytes <= 2 ? INDEX_U16 : INDEX_I32;
}

static int read_item(struct import *import, uint64_t first, int64_t length) {
    if (length > import->capacity) {
        import->capacity = length + length / 2;
        free(import->tokens);
        import->tokens = memory_alloc((size_t)import->capacity * sizeof *import->tokens);
    }
    TRY(fairseq_read(import->reader, first, length, import->tokens));
    int64_t vocab_size = import->sink.options->vocab_size;
    for (int64_t i = 0; vocab_size > 0 && i < length; i++)
        if (import->tokens[i] >= vocab_size)
            return bad_data("%s.bin: token %" PRIu64 " is %" PRId32 ", beyond the dictionary of %" PRId64
                            "; give the dict.txt that it was made with",
                            import->reader->files.prefix, first + (uint64_t)i, import->tokens[i], vocab_size);
    return 0;
}

static int walk_items(struct import *import) {
    struct fairseq_walk walk = {.reader = import->reader};
    uint64_t first, touched = 0;
    int64_t length;
    int got;
    while ((got = fairseq_walk_next(&walk, &first, &length)) == 1) {
        TRY(read_item(import, first, length));
        TRY(import_sink_add(&import->sink, import->tokens, length));
        touched += (uint64_t)length * import->reader->item_bytes + 24;
        if (touched >= INDEX_RELEASE_BYTES) {
            fairseq_release(import->reader);
            touched = 0;
        }
    }
    return got;
}

int import_fairseq(const char *prefix, const struct import_options *options, struct import_summary *summary) {
    struct import import = {0};
    TRY(fairseq_reader_open(&import.reader, prefix));
    enum index_dtype dtype = choose_dtype(import.reader, options->vocab_size);
    int result = import_sink_open(&import.sink, options, dtype, summary);
    if (result == 0)
        result = import_sink_close(&import.sink, walk_items(&import));
    free(import.tokens);
    fairseq_reader_close(import.reader);
    return result;
}
