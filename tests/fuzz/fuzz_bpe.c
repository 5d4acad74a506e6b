// layer: data
// A merge file, further tokens and a text from hostile bytes (MERGES NUL TOKENS NUL TEXT). Whatever merges load, a text
// must split into pieces that cover it, and its ids must decode to it. TOKENS are members of vocab.json after the 256
// bytes, which are always there.
#include "fuzz.h"

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/byte_map.h"
#include "data/tokenizer/splitter.h"
#include <stdlib.h>
#include <string.h>

static void append_bytes(struct buffer *json) {
    struct byte_map map;
    byte_map_init(&map);
    for (int id = 0; id < 256; id++) {
        unsigned char byte = map.in_order[id];
        buffer_append_string(json, byte == '"' || byte == '\\' ? "\"\\" : "\"");
        byte_map_write(&map, &byte, 1, json);
        buffer_printf(json, "\": %d,", id);
    }
}

static void check_text(const struct bpe *bpe, const uint8_t *text, size_t length) {
    struct merge_scratch scratch = {0};
    struct token_list ids = {0};
    bool whole = length % 2;  // one long piece, or GPT-2's
    struct splitter *splitter = splitter_create(split_pattern_by_name("gpt2"));
    for (size_t at = 0; at < length;) {
        size_t piece = whole ? length : split_text(splitter, text + at, length - at);
        if (piece == 0 || piece > length - at || bpe_encode(bpe, &scratch, text + at, piece, &ids) < 0)
            abort();
        at += piece;
    }
    size_t at = 0;
    for (int64_t i = 0; i < ids.count; i++) {
        size_t begin = bpe->begin[ids.ids[i]], bytes = bpe->begin[ids.ids[i] + 1] - begin;
        if (bytes > length - at || memcmp(text + at, bpe->bytes + begin, bytes) != 0)
            abort();
        at += bytes;
    }
    if (at != length)
        abort();
    token_list_free(&ids);
    merge_scratch_free(&scratch);
    splitter_free(splitter);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *end = data + size, *tokens = memchr(data, 0, size);
    const uint8_t *text = tokens ? memchr(tokens + 1, 0, (size_t)(end - tokens - 1)) : NULL;
    if (!text)
        return 0;
    struct buffer json = {0};
    buffer_append_byte(&json, '{');
    append_bytes(&json);
    buffer_append(&json, tokens + 1, (size_t)(text - tokens - 1));
    buffer_append_string(&json, "\"<|endoftext|>\": 600}");
    struct vocabulary vocabulary;
    struct bpe *bpe;
    if (vocabulary_parse_json(&vocabulary, json.data, json.length, "vocab") == 0) {
        struct bpe_merge_text merges = {(const char *)data, (size_t)(tokens - data), "vocab", "merges"};
        if (bpe_build(&bpe, &vocabulary, &merges) == 0) {
            check_text(bpe, text + 1, (size_t)(end - text - 1));
            bpe_free(bpe);
        }
        vocabulary_free(&vocabulary);
    }
    buffer_free(&json);
    return 0;
}
