// For tests of tokenizers with golden ids in JSON Lines: {"text": …, KEY: [ids]} per line, checked against an
// encoder.
#ifndef TESTS_DATA_JSON_IDS_H
#define TESTS_DATA_JSON_IDS_H

#include "text_fixture.h"

struct json_ids {
    struct tokenizer *tokenizer;
    struct tokenizer_encoder *encoder;
    const char *key;
};

static inline struct json_ids json_ids_open(const struct tokenizer_options *options, const char *key) {
    struct json_ids check = {.key = key};
    EXPECT_OK(tokenizer_open(&check.tokenizer, options));
    EXPECT_OK(tokenizer_encoder_create(&check.encoder, check.tokenizer));
    return check;
}

static inline void json_ids_close(struct json_ids *check) {
    tokenizer_encoder_free(check->encoder);
    tokenizer_free(check->tokenizer);
}

static inline void json_ids_check(const struct json *line, void *context) {
    const struct json_ids *check = context;
    const struct json *text = json_member(line, "text"), *expected = json_member(line, check->key);
    EXPECT(text && text->type == JSON_STRING && expected && expected->type == JSON_ARRAY);
    struct token_list ids = {0};
    for (int again = 0; again < 2; again++) {  // the second time from the cache
        ids.count = 0;
        EXPECT_OK(tokenizer_encode(check->encoder, text->string, text->length, &ids));
        if (ids.count != (int64_t)expected->count)
            test_fail("\"%.60s\": %" PRId64 " ids, expected %zu", text->string, ids.count, expected->count);
        for (int64_t i = 0; i < ids.count; i++)
            if (ids.ids[i] != (int32_t)expected->items[i].number)
                test_fail("\"%.60s\": id %" PRId64 " is %" PRId32 ", expected %.0f", text->string, i, ids.ids[i],
                          expected->items[i].number);
    }
    token_list_free(&ids);
}

// Every case of a file; returns how many there were.
static inline int64_t json_ids_check_file(const struct tokenizer_options *options, const char *key, const char *path) {
    struct json_ids check = json_ids_open(options, key);
    int64_t count = for_each_case(path, json_ids_check, &check);
    json_ids_close(&check);
    return count;
}

static inline void expect_decoded(const struct tokenizer *tokenizer, const int32_t *ids, int64_t count,
                                  const char *expected) {
    struct buffer text = {0};
    EXPECT_OK(tokenizer_decode(tokenizer, ids, count, &text));
    EXPECT_STRING(buffer_string(&text), expected);
    buffer_free(&text);
}

// A file of shared data; skips the test if it is missing. The caller frees it.
static inline char *shared_file(const char *name) {
    const char *shared = getenv("BEVATRON_SHARED");
    char *path = NULL;
    struct buffer text = {0};
    buffer_printf(&text, "%s/data/%s", shared ? shared : "../shared", name);
    path = text.data;
    if (!file_exists(path)) {
        free(path);
        test_skip("$BEVATRON_SHARED/data/%s is not there", name);
    }
    return path;
}

#endif
