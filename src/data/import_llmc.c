// Converts shards of llm.c (fineweb_train_000001.bin and the like). A shard is a header of 256 32-bit numbers, of which
// the first three are magic, version and token count, followed by the tokens, 16 bits each for GPT-2's vocabulary and
// 32 bits for Llama-3's. Documents may cross from shard to shard. In llm.c every document begins with a delimiter, here
// every document ends with it, so the order of tokens stays the same except for the first and the last.
//
// nanoGPT's files (train.bin, val.bin) are 16-bit tokens and nothing else. There documents already end with the
// delimiter, if there are several; the last one gets none.
#include "data/import.h"

#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "data/bad_data.h"
#include "data/import_sink.h"
#include <inttypes.h>
#include <string.h>

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
    TRY(import_sink_add(&import->sink, import->document.ids, import->document.count));
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
    return rest->count > 0 ? import_sink_add(&import->sink, rest->ids, rest->count) : 0;
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
    TRY(import_sink_open(&import.sink, &whole, import.kind->token_bytes == 2 ? INDEX_U16 : INDEX_I32, summary));
    int status = import_sink_close(&import.sink, add_shards(&import, files));
    token_list_free(&import.document);
    return status;
}
