// layer: data
// Two shards of llm.c from one input: a byte that selects options, two with the length of the first shard, and the
// shards. The imported dataset has the tokens of the shards without their delimiters, in order, in documents that end
// with the delimiter; two delimiters in a row make an empty one. After most changes the counts in the headers are
// corrected.
#include "fuzz.h"

#include "base/log.h"
#include "base/memory.h"
#include "data/import.h"
#include "mend.h"
#include <stdio.h>

enum { HEAD = 3, HEADER_BYTES = 1024, MOST_TOKENS = 1 << 16 };

struct fuzz_shard {
    const uint8_t *bytes;
    size_t size, width;  // width: of a token
};

// The tokens that are not delimiters.
static int64_t list_words(const struct fuzz_shard *shard, int32_t delimiter, int32_t *words) {
    int64_t count = 0;
    for (size_t at = HEADER_BYTES; at < shard->size; at += shard->width) {
        int32_t token = 0;
        memcpy(&token, shard->bytes + at, shard->width);
        if (token != delimiter)
            words[count++] = token;
    }
    return count;
}

static void check_output(const char *prefix, const struct fuzz_shard shards[2], int32_t delimiter) {
    static int32_t words[2 * MOST_TOKENS], tokens[2 * MOST_TOKENS];
    int64_t count = list_words(&shards[0], delimiter, words);
    count += list_words(&shards[1], delimiter, words + count);
    struct index_reader *reader;
    CHECK(index_open(&reader, prefix) == 0 && index_verify_tokens(reader, 0) == 0);
    int64_t seen = 0;
    for (int64_t i = 0; i < reader->sequence_count; i++) {
        int64_t length = index_length(reader, i);
        CHECK(length >= 1 && length - 1 <= count - seen && index_read(reader, i, 0, length, tokens) == 0);
        CHECK(tokens[length - 1] == delimiter);
        CHECK(memcmp(tokens, words + seen, (size_t)(length - 1) * sizeof words[0]) == 0);
        seen += length - 1;
    }
    CHECK(seen == count);
    index_close(reader);
}

static void remove_output(const char *prefix) {
    for (int i = 0; i < 2; i++) {
        char *path = memory_printf("%s%s", prefix, i ? ".idx" : ".bin");
        (void)remove(path);
        free(path);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    log_set_level(LOG_ERROR);
    if (size < HEAD || size > MOST_TOKENS)
        return 0;
    size_t first = data[1] | (size_t)data[2] << 8, rest = size - HEAD;
    first = first < rest ? first : rest;
    struct fuzz_shard shards[2] = {{.bytes = data + HEAD, .size = first},
                                   {.bytes = data + HEAD + first, .size = rest - first}};
    struct string_list files = {0};
    for (int i = 0; i < 2; i++) {
        char *path = memory_printf("%s/shard_%d.bin", fuzz_folder(), i);
        FILE *file = fopen(path, "wb");
        CHECK(file && fwrite(shards[i].bytes, 1, shards[i].size, file) == shards[i].size && fclose(file) == 0);
        string_list_add(&files, path);
        free(path);
    }
    static const int32_t delimiters[] = {-1, -1, 12, 70000};
    char *prefix = file_join(fuzz_folder(), "out");
    struct import_options options = {
        .output = prefix, .eos = delimiters[data[0] % 4], .vocab_size = data[0] & 4 ? 50257 : 0};
    struct import_summary summary;
    if (import_llmc(&files, &options, &summary) == 0) {
        int32_t magic = 0;
        memcpy(&magic, shards[0].bytes, sizeof magic);
        bool is_wide = magic == 20240801;
        shards[0].width = shards[1].width = is_wide ? 4 : 2;
        check_output(prefix, shards, options.eos >= 0 ? options.eos : is_wide ? 128000 : 50256);
        remove_output(prefix);
    }
    char *written = memory_printf("%s.bin", prefix);
    CHECK(!file_exists(written));  // even after an error
    free(written);
    free(prefix);
    string_list_free(&files);
    return 0;
}

static void mend_count(uint8_t *shard, size_t size) {
    if (size < HEADER_BYTES)
        return;
    int32_t magic = 0;
    memcpy(&magic, shard, sizeof magic);
    int32_t count = (int32_t)((size - HEADER_BYTES) / (magic == 20240801 ? 4 : 2));
    memcpy(shard + 8, &count, sizeof count);
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    size = LLVMFuzzerMutate(data, size, max_size);
    if (seed % 8 == 0 || size < HEAD)
        return size;
    size_t first = data[1] | (size_t)data[2] << 8, rest = size - HEAD;
    if (first > rest)
        return size;
    mend_count(data + HEAD, first);
    mend_count(data + HEAD + first, rest - first);
    return size;
}
