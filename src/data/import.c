// Converts data of other programs to ours. See import.h.
#include "data/import.h"

#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "data/extract/lines.h"
#include "data/index/fairseq_reader.h"
#include "data/pipeline.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- documents ----

// Splits a stream of lines into documents and writes them. A document ends before the first text line that follows its
// empty lines, so the empty lines stay with it.
struct import_sink {
    const struct import_options *options;
    struct import_summary *summary;
    struct index_writer *writer;
    bool is_open;        // the current document has a line that is not empty
    bool has_separator;  // and, after it, an empty one
};

static int sink_open(struct import_sink *sink, const struct import_options *options, enum index_dtype dtype,
                     struct import_summary *summary) {
    *summary = (struct import_summary){.largest_id = -1, .dtype = dtype};
    *sink = (struct import_sink){.options = options, .summary = summary};
    TRY(index_files_check_output(options->output, INDEX_REMOVE_FIRST));
    return index_writer_open(&sink->writer, options->output, dtype);
}

static int sink_end_document(struct import_sink *sink) {
    sink->is_open = sink->has_separator = false;
    sink->summary->documents++;
    return index_writer_end_document(sink->writer);
}

static int sink_add(struct import_sink *sink, const int32_t *tokens, int64_t count) {
    bool is_separator = count == 0 || (count == 1 && tokens[0] == sink->options->eos);
    if (!is_separator && sink->is_open && sink->has_separator)
        TRY(sink_end_document(sink));
    TRY(index_writer_add(sink->writer, tokens, count));
    for (int64_t i = 0; i < count; i++)
        if (tokens[i] > sink->summary->largest_id)
            sink->summary->largest_id = tokens[i];
    sink->summary->sequences += count > 0;
    sink->summary->separators += is_separator;
    sink->summary->tokens += count;
    sink->is_open = sink->is_open || !is_separator;
    sink->has_separator = sink->is_open && is_separator;
    return sink->options->lines_are_documents ? sink_end_document(sink) : 0;
}

// If status is 0, ends the last document and publishes the files; else removes them. Returns the status of the import.
static int sink_close(struct import_sink *sink, int status) {
    bool is_pending = !sink->options->lines_are_documents && sink->summary->sequences > 0;
    if (status == 0 && is_pending)
        status = sink_end_document(sink);
    if (status == 0) {
        TRY(index_writer_commit(sink->writer));
        return index_sums_write(sink->options->output, sink->options->output,
                                sink->options->tokenizer ? sink->options->tokenizer : "");
    }
    index_writer_abort(sink->writer);
    return -1;
}

// ---- fairseq's datasets ----

// In one pass and constant memory: the reader verifies that each item follows the previous one (fairseq_reader.h).
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
        TRY(sink_add(&import->sink, import->tokens, length));
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
    int result = sink_open(&import.sink, options, dtype, summary);
    if (result == 0)
        result = sink_close(&import.sink, walk_items(&import));
    free(import.tokens);
    fairseq_reader_close(import.reader);
    return result;
}

// ---- text ----

// Tokenizes lines of text into sequences with several threads: fairseq's multiprocessing_bpe_encoder (--keep-empty) and
// fairseq-preprocess in one step.

// A few megabytes of lines, one item of the pipeline.
struct text_piece {
    struct line_chunk chunk;
    struct token_list tokens;
    int64_t *ends;  // (count) where each line's tokens end
    int64_t count, capacity;
};

struct text_import {
    const struct import_options *options;
    struct line_reader *lines;
    struct tokenizer_encoder **encoders;  // (threads)
    struct import_sink sink;
};

static int read_piece(void *context, void *item) {
    struct text_import *import = context;
    struct text_piece *piece = item;
    return line_reader_next(import->lines, &piece->chunk);
}

static void add_end(struct text_piece *piece) {
    MEMORY_GROW(piece->ends, piece->count, piece->capacity);
    piece->ends[piece->count++] = piece->tokens.count;
}

static int encode_piece(void *context, void *item, int thread) {
    struct text_import *import = context;
    struct text_piece *piece = item;
    struct line_cursor cursor = {.chunk = &piece->chunk};
    piece->tokens.count = piece->count = 0;
    while (line_cursor_next(&cursor)) {
        size_t good = utf8_check(cursor.line, cursor.length);
        if (good < cursor.length) {
            bad_data("%s: line %" PRId64 ": byte %zu is not UTF-8; convert the file (iconv) first", piece->chunk.path,
                     cursor.number, good);
            return line_chunk_blame(&piece->chunk);
        }
        if (tokenizer_encode(import->encoders[thread], cursor.line, cursor.length, &piece->tokens) < 0)
            return error_context("%s: line %" PRId64, piece->chunk.path, cursor.number);
        token_list_append(&piece->tokens, import->options->eos);
        add_end(piece);
    }
    return 0;
}

static int add_piece(void *context, void *item) {
    struct text_import *import = context;
    const struct text_piece *piece = item;
    int64_t begin = 0;
    for (int64_t i = 0; i < piece->count; i++) {
        TRY(sink_add(&import->sink, piece->tokens.ids + begin, piece->ends[i] - begin));
        begin = piece->ends[i];
    }
    return 0;
}

static void free_piece(void *item) {
    struct text_piece *piece = item;
    buffer_free(&piece->chunk.text);
    token_list_free(&piece->tokens);
    free(piece->ends);
}

int import_text(const struct import_text *text, const struct import_options *options, struct import_summary *summary) {
    struct text_import import = {.options = options};
    struct line_options lines = {
        .paths = (const char *const *)text->files.items,
        .path_count = text->files.count,
        .line_limit = text->line_limit,
    };
    const struct pipeline pipeline = {.threads = text->threads,
                                      .item_bytes = sizeof(struct text_piece),
                                      .context = &import,
                                      .produce = read_piece,
                                      .work = encode_piece,
                                      .consume = add_piece,
                                      .free_item = free_piece};
    import.encoders = memory_alloc((size_t)text->threads * sizeof *import.encoders);
    int status = 0;
    for (int i = 0; status == 0 && i < text->threads; i++)
        status = tokenizer_encoder_create(&import.encoders[i], text->tokenizer);
    if (status == 0)
        status = sink_open(&import.sink, options, index_dtype_for_vocab(options->vocab_size), summary);
    if (status == 0) {
        line_reader_open(&import.lines, &lines);
        status = sink_close(&import.sink, pipeline_run(&pipeline));
        line_reader_close(import.lines);
    }
    for (int i = 0; i < text->threads; i++)
        tokenizer_encoder_free(import.encoders[i]);
    free(import.encoders);
    return status;
}

// ---- tokens of llm.c and nanoGPT ----

// Shards of llm.c (fineweb_train_000001.bin and the like). A shard is a header of 256 32-bit numbers, of which
// the first three are magic, version and token count, followed by the tokens, 16 bits each for GPT-2's vocabulary and
// 32 bits for Llama-3's. Documents may cross from shard to shard. In llm.c every document begins with a delimiter, here
// every document ends with it, so the order of tokens stays the same except for the first and the last.
//
// nanoGPT's files (train.bin, val.bin) are 16-bit tokens and nothing else. There documents already end with the
// delimiter, if there are several; the last one gets none.
enum { SHARD_HEADER_BYTES = 256 * 4, LONGEST_DOCUMENT = 1 << 28, CHECK_EVERY = 1 << 20 };

static const struct shard_kind {
    int32_t magic, version;
    size_t token_bytes;
    int32_t delimiter;  // unless --eos-id gives another
    size_t header_bytes;
} kinds[] = {{20240520, 1, 2, 50256, SHARD_HEADER_BYTES}, {20240801, 7, 4, 128000, SHARD_HEADER_BYTES}},
  of_nanogpt = {0, 0, 2, 50256, 0};
static const int32_t choices_magic = 20240522;

struct llmc_import {
    struct import_sink sink;
    const struct shard_kind *kind;  // of the first shard, and so of all
    int32_t delimiter;
    bool is_begun;  // a delimiter was seen
    bool is_nanogpt;
    struct token_list document;
};

static int find_kind(const struct file_map *map, const char *path, const struct shard_kind **kind) {
    int32_t header[3] = {0};
    if (map->size >= SHARD_HEADER_BYTES)
        memcpy(header, map->data, sizeof header);
    *kind = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (header[0] == kinds[i].magic)
            *kind = &kinds[i];
    if (header[0] == choices_magic)
        return bad_data("%s holds questions with several answers (HellaSwag or MMLU), not text", path);
    if (!*kind)
        return bad_data("%s is not an llm.c shard: it starts neither with 20240520 nor with 20240801", path);
    if (header[1] != (*kind)->version)
        return bad_data("%s is an llm.c shard of version %" PRId32 ", and only version %" PRId32 " is supported", path,
                        header[1], (*kind)->version);
    size_t bytes = map->size - SHARD_HEADER_BYTES;
    if (header[2] < 0 || bytes / (*kind)->token_bytes != (size_t)header[2] || bytes % (*kind)->token_bytes != 0)
        return bad_data("%s claims %" PRId32 " tokens, but %zu bytes follow; the file is truncated or damaged", path,
                        header[2], bytes);
    return 0;
}

// The tokens before the first delimiter of the first shard are a document too; two delimiters in a row make an empty
// one.
static int end_document(struct llmc_import *import) {
    if (import->document.count == 0 && !import->is_begun)
        return 0;
    token_list_append(&import->document, import->delimiter);
    TRY(sink_add(&import->sink, import->document.ids, import->document.count));
    import->document.count = 0;
    return 0;
}

static int add_token(struct llmc_import *import, int64_t token, const char *path, int64_t place) {
    int64_t vocab_size = import->sink.options->vocab_size;
    if (token > INT32_MAX || (vocab_size > 0 && token >= vocab_size))
        return bad_data("%s: token %" PRId64 " is %" PRId64 ", beyond the vocabulary of %" PRId64, path, place, token,
                        vocab_size);
    if (token == import->delimiter) {
        TRY(end_document(import));
        import->is_begun = true;
        return 0;
    }
    if (import->document.count == LONGEST_DOCUMENT)
        return bad_data("%s: none of its first %d tokens is %" PRId32
                        ", which documents start with; give the id that they start with as --eos-id",
                        path, LONGEST_DOCUMENT, import->delimiter);
    token_list_append(&import->document, (int32_t)token);
    return 0;
}

static int add_tokens(struct llmc_import *import, const struct file_map *map, const char *path) {
    const size_t header = import->kind->header_bytes;
    const unsigned char *bytes = (const unsigned char *)map->data + header;
    size_t width = import->kind->token_bytes, size = map->size - header;
    for (size_t at = 0; at < size; at += width) {
        uint32_t token = 0;
        memcpy(&token, bytes + at, width);
        TRY(add_token(import, token, path, (int64_t)(at / width)));
        if (at % CHECK_EVERY == 0) {
            TRY(interrupt_check());
            file_map_release(map, 0, header + at);
        }
    }
    return 0;
}

static int find_kind_of(const struct llmc_import *import, const struct file_map *map, const char *path,
                        const struct shard_kind **kind) {
    int32_t magic = 0;
    if (!import->is_nanogpt)
        return find_kind(map, path, kind);
    *kind = &of_nanogpt;
    if (map->size >= SHARD_HEADER_BYTES)
        memcpy(&magic, map->data, sizeof magic);
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
        if (magic == kinds[i].magic)
            return bad_data("%s is a shard of llm.c; give it with --llmc", path);
    if (map->size == 0 || map->size % of_nanogpt.token_bytes != 0)
        return bad_data(
            "%s has %zu bytes, which is not a number of 16-bit tokens; the file is truncated, or of another "
            "program",
            path, map->size);
    return 0;
}

static int add_shard(struct llmc_import *import, const char *path) {
    struct file_map map;
    const struct shard_kind *kind;
    TRY(file_map_open(&map, path));
    int status = find_kind_of(import, &map, path, &kind);
    if (status == 0 && kind != import->kind)
        status = bad_data("%s has another vocabulary than the shards before it", path);
    if (status == 0)
        status = add_tokens(import, &map, path);
    file_map_close(&map);
    return status;
}

static int add_shards(struct llmc_import *import, const struct string_list *files) {
    for (int64_t i = 0; i < files->count; i++)
        TRY(add_shard(import, files->items[i]));
    if (!import->is_nanogpt)
        return end_document(import);
    const struct token_list *rest = &import->document;
    return rest->count > 0 ? sink_add(&import->sink, rest->ids, rest->count) : 0;
}

static int look_at_first(struct llmc_import *import, const char *path) {
    struct file_map map;
    TRY(file_map_open(&map, path));
    int status = find_kind_of(import, &map, path, &import->kind);
    file_map_close(&map);
    return status;
}

int import_llmc(const struct string_list *files, const struct import_options *options, struct import_summary *summary) {
    struct llmc_import import = {.is_nanogpt = options->is_nanogpt};
    struct import_options whole = *options;
    whole.lines_are_documents = true;
    TRY(look_at_first(&import, files->items[0]));
    import.delimiter = options->eos >= 0 ? options->eos : import.kind->delimiter;
    TRY(sink_open(&import.sink, &whole, import.kind->token_bytes == 2 ? INDEX_U16 : INDEX_I32, summary));
    int status = sink_close(&import.sink, add_shards(&import, files));
    token_list_free(&import.document);
    return status;
}
