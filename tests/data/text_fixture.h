// For tests of tokenizers: the small tokenizer of tests/golden/bpe, golden cases from JSON Lines, pseudo-random bytes.
#ifndef TESTS_DATA_TEXT_FIXTURE_H
#define TESTS_DATA_TEXT_FIXTURE_H

#include "base/file.h"
#include "base/json.h"
#include "data/tokenizer/tokenizer.h"
#include "test.h"

#define GOLDEN "tests/golden/bpe/"

static inline struct tokenizer *open_golden(void) {
    struct tokenizer_options options = {.vocab_file = GOLDEN "vocab.json", .merge_file = GOLDEN "merges.txt"};
    struct tokenizer *tokenizer;
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    return tokenizer;
}

// Calls check with every line of a file as a JSON object; returns the number of lines.
static inline int64_t for_each_case(const char *path, void (*check)(const struct json *, void *), void *context) {
    struct buffer file = {0};
    EXPECT_OK(file_read_all(path, (size_t)1 << 24, &file));
    int64_t count = 0;
    for (char *line = file.data, *end; (end = strchr(line, '\n')); line = end + 1, count++) {
        struct json *root;
        EXPECT_OK(json_parse(&root, line, (size_t)(end - line), path));
        check(root, context);
        json_free(root);
    }
    buffer_free(&file);
    return count;
}

static inline uint64_t next_random(uint64_t *state) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

// Bytes that tend to cause trouble: letters, spaces, apostrophes, complete and broken UTF-8, anything.
static inline void random_bytes(uint64_t *state, struct buffer *out, size_t length) {
    static const char *const parts[] = {"a",  "the", " ",  "  ",   "\n",       "'s",   "'ll",  "9",
                                        "\t", "é",   "世", "\xC3", "\xE4\xB8", "\xF0", "\xFF", "ab"};
    buffer_clear(out);
    while (out->length < length) {
        if (next_random(state) % 4 == 0)
            buffer_append_byte(out, (char)(unsigned char)next_random(state));
        else
            buffer_append_string(out, parts[next_random(state) % (sizeof parts / sizeof parts[0])]);
    }
}

static inline void expect_ids(const struct token_list *ids, const int32_t *expected, int64_t count) {
    EXPECT_INT(ids->count, count);
    for (int64_t i = 0; i < count; i++)
        if (ids->ids[i] != expected[i])
            test_fail("id %" PRId64 " is %" PRId32 ", expected %" PRId32, i, ids->ids[i], expected[i]);
}

#endif
