// GPT-2's splitter against Python's module `regex` (tests/golden/make_bpe.py), and its guarantees for any bytes.
#include "data/tokenizer/splitter.h"
#include "text_fixture.h"
#include <stdlib.h>

static void check_pieces(const struct json *line, void *context) {
    const struct splitter *splitter = context;
    const struct json *text = json_member(line, "text"), *pieces = json_member(line, "pieces");
    const unsigned char *at = (const unsigned char *)text->string;
    size_t left = text->length;
    for (size_t i = 0; i < pieces->count; i++) {
        const struct json *piece = &pieces->items[i];
        size_t length = left ? split_text(splitter, at, left) : 0;
        if (length != piece->length || memcmp(at, piece->string, length) != 0)
            test_fail("piece %zu of \"%s\" is \"%.*s\", expected \"%s\"", i, text->string, (int)length,
                      (const char *)at, piece->string);
        at += length;
        left -= length;
    }
    EXPECT_INT(left, 0);
}

TEST(pieces_equal_the_regex) {
    struct splitter *splitter = splitter_create(split_pattern_by_name("gpt2"));
    EXPECT(for_each_case(GOLDEN "pieces.jsonl", check_pieces, splitter) > 190);
    splitter_free(splitter);
}

TEST(pieces_cover_any_bytes) {
    struct splitter *splitter = splitter_create(split_pattern_by_name("gpt2"));
    uint64_t state = 1;
    struct buffer text = {0};
    for (int round = 0; round < 2000; round++) {
        random_bytes(&state, &text, 1 + next_random(&state) % 80);
        size_t at = 0;
        while (at < text.length) {
            size_t piece = split_text(splitter, (const unsigned char *)text.data + at, text.length - at);
            EXPECT(piece > 0 && piece <= text.length - at);
            at += piece;
        }
    }
    buffer_free(&text);
    splitter_free(splitter);
}

// Ill-formed bytes are neither letters nor spaces: they stick together, and to one space before them.
TEST(ill_formed_bytes_are_other_characters) {
    struct splitter *splitter = splitter_create(split_pattern_by_name("gpt2"));
    EXPECT_INT(split_text(splitter, (const unsigned char *)"\xFF\xFE\xC3!a", 5), 4);
    EXPECT_INT(split_text(splitter, (const unsigned char *)" \xE4\xB8 x", 5), 3);
    EXPECT_INT(split_text(splitter, (const unsigned char *)"a\xC3", 2), 1);
    EXPECT_INT(split_text(splitter, (const unsigned char *)"\xED\xA0\x80z", 4), 3);
    splitter_free(splitter);
}

// The bytes after the text are not read.
TEST(reads_nothing_past_the_end) {
    struct splitter *splitter = splitter_create(split_pattern_by_name("gpt2"));
    EXPECT_INT(split_text(splitter, (const unsigned char *)"'ll", 2), 1);
    EXPECT_INT(split_text(splitter, (const unsigned char *)"'s", 1), 1);
    EXPECT_INT(split_text(splitter, (const unsigned char *)"  x", 2), 2);
    EXPECT_INT(split_text(splitter, (const unsigned char *)"\xC3\xA9", 1), 1);
    splitter_free(splitter);
}

TEST_MAIN(TEST_CASE(pieces_equal_the_regex), TEST_CASE(pieces_cover_any_bytes),
          TEST_CASE(ill_formed_bytes_are_other_characters), TEST_CASE(reads_nothing_past_the_end))
