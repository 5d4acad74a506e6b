// The loop over pieces and its cache, with a fake model whose ids are known for every piece: more pieces than the cache
// holds, pieces with no, few and many ids, short texts, one encoder for many of them.
#include "data/tokenizer/piece_encode.h"
#include "base/hash.h"
#include "text_fixture.h"
#include <stdlib.h>

struct counter {
    int64_t calls;
};

// From no id to as many as there are bytes.
static void append_ids(const unsigned char *piece, size_t length, struct token_list *out) {
    uint64_t hash = hash_bytes(piece, length, 0);
    int count = hash % 11 == 0 ? 0 : (int)(hash % length) + 1;
    for (int i = 0; i < count; i++)
        token_list_append(out, (int32_t)((hash >> 8) + (uint64_t)i) & INT32_MAX);
}

static int encode(const void *model, void *state, const unsigned char *piece, size_t length, struct token_list *out) {
    (void)model;
    struct counter *counter = state;
    counter->calls++;
    if (length == 7 && memcmp(piece, " broken", 7) == 0)
        return error_set("broken");
    append_ids(piece, length, out);
    return 0;
}

// The fake model with GPT-2's pieces, and its cache.
struct encoder {
    struct splitter *splitter;
    struct piece_model model;
    struct piece_cache cache;
};

static void open_encoder(struct encoder *encoder) {
    encoder->splitter = splitter_create(split_pattern_by_name("gpt2"));
    encoder->model = (struct piece_model){.splitter = encoder->splitter, .encode = encode};
    piece_cache_create(&encoder->cache);
}

static void close_encoder(struct encoder *encoder) {
    piece_cache_free(&encoder->cache);
    splitter_free(encoder->splitter);
}

static void check(struct encoder *encoder, const struct buffer *text) {
    struct token_list ids = {0}, expected = {0};
    struct counter counter = {0};
    const unsigned char *at = (const unsigned char *)buffer_string(text), *end = at + text->length;
    EXPECT_OK(piece_encode(&encoder->model, &encoder->cache, &counter, buffer_string(text), text->length, &ids));
    for (size_t piece; at < end; at += piece) {
        piece = split_text(encoder->splitter, at, (size_t)(end - at));
        append_ids(at, piece, &expected);
    }
    expect_ids(&ids, expected.ids, expected.count);
    token_list_free(&ids);
    token_list_free(&expected);
}

// Letters count up, so that new words keep coming.
static void append_word(struct buffer *text, uint64_t number) {
    buffer_append_byte(text, ' ');
    for (; number > 0; number /= 20)
        buffer_append_byte(text, (char)('a' + number % 20));
}

TEST(more_pieces_than_the_cache_holds) {
    struct encoder encoder;
    struct buffer text = {0};
    uint64_t state = 5, next = 1;
    open_encoder(&encoder);
    for (int round = 0; round < 60; round++) {
        buffer_clear(&text);
        for (int i = 0; i < 12000; i++)
            append_word(&text, i % 3 ? next++ * 7919 : next_random(&state) % next * 7919);
        check(&encoder, &text);
        EXPECT(encoder.cache.bits <= PIECE_CACHE_MOST_BITS);
        EXPECT(encoder.cache.spilled_count <= PIECE_CACHE_SPILLED &&
               encoder.cache.spilled_capacity <= 2 * PIECE_CACHE_SPILLED);
    }
    EXPECT_INT(encoder.cache.bits, PIECE_CACHE_MOST_BITS);
    close_encoder(&encoder);
    buffer_free(&text);
}

// A cache that evicts too much would give correct ids, only slowly.
TEST(a_piece_is_encoded_once) {
    struct encoder encoder;
    struct counter counter = {0};
    struct token_list ids = {0};
    open_encoder(&encoder);
    for (int i = 0; i < 3; i++)
        EXPECT_OK(piece_encode(&encoder.model, &encoder.cache, &counter, "the cat the cat, the dog", 24, &ids));
    EXPECT_INT(counter.calls, 5);  // "the", " cat", " the", ",", " dog"
    counter.calls = 0;
    for (int i = 0; i < 3; i++)  // 16 bytes are too long for the cache
        EXPECT_OK(piece_encode(&encoder.model, &encoder.cache, &counter, "abcdefghijklmnop", 16, &ids));
    EXPECT_INT(counter.calls, 3);
    EXPECT_OK(piece_encode(&encoder.model, &encoder.cache, &counter, "", 0, &ids));
    EXPECT_INT(counter.calls, 3);
    token_list_free(&ids);
    close_encoder(&encoder);
}

TEST(short_texts_and_any_bytes) {
    struct encoder encoder;
    struct buffer text = {0};
    uint64_t state = 9;
    open_encoder(&encoder);
    for (int round = 0; round < 3000; round++) {
        random_bytes(&state, &text, next_random(&state) % 40);
        check(&encoder, &text);
    }
    close_encoder(&encoder);
    buffer_free(&text);
}

TEST(an_error_is_passed_on) {
    struct encoder encoder;
    struct counter counter = {0};
    struct token_list ids = {0};
    open_encoder(&encoder);
    EXPECT_ERROR(piece_encode(&encoder.model, &encoder.cache, &counter, "it is broken here", 17, &ids), "broken");
    token_list_free(&ids);
    close_encoder(&encoder);
}

TEST_MAIN(TEST_CASE(more_pieces_than_the_cache_holds), TEST_CASE(a_piece_is_encoded_once),
          TEST_CASE(short_texts_and_any_bytes), TEST_CASE(an_error_is_passed_on))
