// layer: data
// A rank file and a text from hostile bytes (LINES NUL TEXT), with the 256 bytes always as tokens: the ids of a text
// split by any known pattern must decode to it.
#include "fuzz.h"

#include "data/tokenizer/bpe.h"
#include "data/tokenizer/splitter.h"
#include "data/tokenizer/tiktoken.h"
#include <string.h>

static void append_bytes(struct buffer *lines) {
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (int byte = 0; byte < 256; byte++)
        buffer_printf(lines, "%c%c== %d\n", alphabet[byte >> 2], alphabet[byte << 4 & 63], byte);
}

static void check_text(const struct bpe *bpe, const uint8_t *text, size_t length) {
    static const char *const names[] = {"gpt2", "cl100k", "llama3", "qwen", "o200k", "v1", "v2"};
    static struct splitter *splitters[7];  // made once for all inputs
    struct splitter **splitter = &splitters[length % 7];
    if (!*splitter)
        *splitter = splitter_create(split_pattern_by_name(names[length % 7]));
    struct merge_scratch scratch = {0};
    int32_t *ids = malloc((length + 1) * sizeof *ids);
    for (size_t at = 0; at < length;) {
        size_t piece = split_text(*splitter, text + at, length - at);
        if (piece == 0 || piece > length - at)
            abort();
        for (size_t i = 0; i < piece; i++)
            ids[i] = bpe->byte_id[text[at + i]];
        int64_t count = merge_ids(bpe, &scratch, ids, (int64_t)piece);
        for (int64_t i = 0; i < count; i++) {
            size_t begin = bpe->begin[ids[i]], bytes = bpe->begin[ids[i] + 1] - begin;
            if (bytes > length - at || memcmp(text + at, bpe->bytes + begin, bytes) != 0)
                abort();
            at += bytes;
        }
    }
    free(ids);
    merge_scratch_free(&scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const uint8_t *nul = memchr(data, 0, size);
    if (!nul)
        return 0;
    struct buffer lines = {0};
    struct tiktoken_ranks ranks;
    struct bpe bpe;
    append_bytes(&lines);
    buffer_append(&lines, data, (size_t)(nul - data));
    if (tiktoken_parse_ranks(&ranks, lines.data, lines.length, "ranks") == 0) {
        if (tiktoken_build(&bpe, &ranks, 0, "ranks") == 0) {
            check_text(&bpe, nul + 1, (size_t)(data + size - nul - 1));
            free(bpe.pairs);
            free(bpe.begin);
            free(bpe.bytes);
        }
        byte_table_free(&ranks.tokens);
    }
    buffer_free(&lines);
    return 0;
}
