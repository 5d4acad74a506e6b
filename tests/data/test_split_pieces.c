// split_pieces, which splits text with masks of 64 bytes, and tables of states against the machine that backtracks:
// every known pattern and others, texts at every offset to the borders of blocks and chunks, ill-formed UTF-8, text
// that ends anywhere.
#include "data/tokenizer/splitter.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "text_fixture.h"
#include <stdlib.h>

// Patterns with masks, and patterns of families that only have a table: with marks in words (Qwen 3.5), with what
// tiktoken writes since it has possessive repetitions, with Chinese characters apart (Kimi), with text that matches
// nothing, with numbers cut from behind; the last one needs more than a table.
static const char *const patterns[] = {
    "gpt2",
    "cl100k",
    "llama3",
    "qwen",
    "o200k",
    "v1",
    "v2",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|"
    "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|"
    "\\s*[\\r\\n]|\\s+(?!\\S)|\\s",
    "[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*"
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?"
    "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]+[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]*"
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
    "?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    "\\p{N}{1,3}",
    " ?[^(\\s|[.,!?…。，、।۔،])]+",
    "ab??c|th?[a-z]{1,3}?|\\s+?(?=\\s)|.|\\s",
    "\\p{L}+'[st]\\b|\\p{L}+",
};
enum { PATTERNS = sizeof patterns / sizeof patterns[0], WITH_MASKS = 7, WITH_TABLES = PATTERNS - 1 };

static struct pattern *compiled[PATTERNS];
static struct splitter *splitters[PATTERNS], *space_splitters[9];

static void make_splitters(void) {
    for (int i = 0; i < PATTERNS && !compiled[i]; i++) {
        const struct split_pattern *known = split_pattern_by_name(patterns[i]);
        const char *text = known ? known->texts[0] : patterns[i];
        EXPECT_OK(pattern_compile(&compiled[i], PATTERN_ONIGURUMA, text, strlen(text), "pattern"));
        splitters[i] = known ? splitter_create(known) : splitter_create_pattern(compiled[i], NULL);
        if ((i < WITH_TABLES) != (splitters[i] != NULL))
            test_fail("pattern %d has %s table", i, splitters[i] ? "a" : "no");
    }
    for (int i = 0; i < 9 && !space_splitters[i]; i++) {
        struct split_rules spaces = {.words = SPLIT_WORDS_SPACES,
                                     .after_letters = i & 1,
                                     .lines = i & 2,
                                     .feeds = i & 4,
                                     .between_letters = i & 8};
        space_splitters[i] = splitter_create_spaces(&spaces);
    }
}

// The end of the first piece: by the machine that backtracks, or, for spaces, character by character.
static size_t expected_piece(int i, struct pattern_scratch *scratch, const unsigned char *text, size_t length,
                             size_t from) {
    if (i >= PATTERNS)
        return from + split_text(space_splitters[i - PATTERNS], text + from, length - from);
    struct pattern_match match;
    int found = pattern_find(compiled[i], scratch, text, length, from, &match);
    EXPECT(found >= 0);
    return found == 0 ? length : match.begin > from ? match.begin : match.end;
}

// The text is copied to the end of an allocation, so that a sanitizer detects a read past the end.
static void check_splitter(int i, const struct buffer *text) {
    static uint32_t ends[SPLIT_MOST];
    const struct splitter *splitter = i < PATTERNS ? splitters[i] : space_splitters[i - PATTERNS];
    struct pattern_scratch scratch = {0};
    unsigned char *copy = memory_alloc(text->length + (text->length == 0));
    if (text->length)
        memcpy(copy, text->data, text->length);
    unsigned char state = 0;
    for (size_t at = 0; at < text->length;) {
        int count = split_pieces(splitter, copy + at, text->length - at, ends, &state);
        EXPECT(count > 0 && count <= SPLIT_MOST);
        size_t begin = at;
        for (int k = 0; k < count; k++) {
            size_t expected = expected_piece(i, &scratch, copy, text->length, at);
            size_t single = split_text(splitter, copy + at, text->length - at);
            if (begin + ends[k] != expected || at + single != expected)
                test_fail("pattern %d: piece at byte %zu of %zu ends at %zu and %zu, expected %zu", i, at, text->length,
                          begin + ends[k], at + single, expected);
            at = expected;
        }
    }
    free(copy);
    pattern_scratch_free(&scratch);
}

// Patterns after each other, each within the pieces of the one before: DeepSeek's, and StarCoder's.
enum { STEPS = 3 };
static const char *const steps[][STEPS] = {
    {"\\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+",
     "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| "
     "?[\\p{P}\\p{S}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"},
    {"\\p{N}", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"},
};
enum { IN_TURN = sizeof steps / sizeof steps[0] };

static void check_in_turn(int i, const struct buffer *text) {
    static struct pattern *patterns_of[IN_TURN][STEPS];
    static struct splitter *splitters_of[IN_TURN];
    static uint32_t ends[SPLIT_MOST];
    int count = 0;
    for (; count < STEPS && steps[i][count]; count++) {
        struct pattern **pattern = &patterns_of[i][count];
        if (*pattern)
            continue;
        EXPECT_OK(pattern_compile(pattern, PATTERN_ONIGURUMA, steps[i][count], strlen(steps[i][count]), "step"));
        splitters_of[i] = splitter_create_pattern(*pattern, splitters_of[i]);
        EXPECT(splitters_of[i]);
    }
    // The end of the text, and of each step's piece that we are in.
    size_t part[STEPS + 1] = {text->length}, next = 0;
    const unsigned char *bytes = (const unsigned char *)text->data;
    unsigned char state = 0;
    for (size_t at = 0; at < text->length;) {
        int found = split_pieces(splitters_of[i], bytes + at, text->length - at, ends, &state);
        size_t begin = at;
        for (int k = 0; k < found; k++) {
            for (int step = 0; step < count; step++)
                if (at == 0 || part[step + 1] == at) {
                    struct pattern_scratch scratch = {0};
                    struct pattern_match match = {0};
                    size_t length = part[step] - at;
                    int matched = pattern_find(patterns_of[i][step], &scratch, bytes + at, length, 0, &match);
                    part[step + 1] = at + (matched == 0 ? length : match.begin > 0 ? match.begin : match.end);
                    pattern_scratch_free(&scratch);
                }
            next = part[count];
            if (begin + ends[k] != next)
                test_fail("steps %d: piece at byte %zu of %zu ends at %zu, expected %zu", i, at, text->length,
                          begin + ends[k], next);
            at = next;
        }
    }
}

static void check(const struct buffer *text) {
    static int texts;
    bool all = texts++ % 4 == 0;  // tables need fewer texts: they know no blocks
    make_splitters();
    for (int i = 0; i < (all ? WITH_TABLES : WITH_MASKS); i++)
        check_splitter(i, text);
    for (int i = 0; i < 9; i++)
        check_splitter(PATTERNS + i, text);
    for (int i = 0; all && i < IN_TURN; i++)
        check_in_turn(i, text);
}

// Characters that the rules depend on; texts are made of these in any order.
static const char *const parts[] = {
    "a",
    "b",
    "the",
    "A",
    "HTML",
    "camelCase",
    "'s",
    "'S",
    "'t",
    "'ll",
    "'lL",
    "'re",
    "'RE",
    "'ve",
    "'vE",
    "'d",
    "'m",
    "'",
    "''",
    "'x",
    "'l",
    "'\xC5\xBF",
    " ",
    " ",
    " ",
    "  ",
    "   ",
    "\t",
    "\n",
    "\n",
    "\r\n",
    "\n\n",
    "\v",
    "\f",
    "1",
    "12",
    "123",
    "1234",
    "12345678901234567890",
    ".",
    "!",
    "-",
    "--",
    "...",
    "/",
    "//",
    "\"",
    "(",
    "\xC3\xA9",          // é
    "\xC3\x89",          // É
    "\xE2\x80\x99",      // ’
    "\xE2\x80\x9C",      // “
    "\xC2\xA0",          // no-break space
    "\xE3\x80\x80",      // ideographic space
    "\xE2\x80\x83",      // em space
    "\xC2\x85",          // next line
    "\xE4\xB8\xAD",      // 中
    "\xD0\xB4",          // д
    "\xD0\x94",          // Д
    "\xC2\xBD",          // ½
    "\xD9\xA3",          // ٣
    "\xF0\x9F\x98\x80",  // an emoji
    "\xF0\x9D\x90\x80",  // a bold A
    "\xCC\x81",          // a combining acute
    "\xC7\x85",          // ǅ, title case
    "\xCA\xB0",          // ʰ, a modifier
    "\xFF",
    "\xC3",
    "\xE2\x80",
    "\xED\xA0\x80",
    "\xF0\x9F\x98",
    "\x80",
    "\xC0\xAF",
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static void append_part(struct buffer *text, uint64_t *state, unsigned count) {
    buffer_append_string(text, parts[next_random(state) % count]);
}

TEST(parts_in_any_order) {
    uint64_t state = 7;
    struct buffer text = {0};
    for (int round = 0; round < 1200; round++) {
        buffer_clear(&text);
        unsigned count = round % 3 == 0 ? PARTS : round % 3 == 1 ? 48 : 60;  // ASCII only, or well-formed only
        for (uint64_t left = next_random(&state) % 90; left > 0; left--)
            append_part(&text, &state, count);
        if (round % 5 == 0)
            buffer_append_byte(&text, 0);
        check(&text);
    }
    buffer_free(&text);
}

TEST(long_texts) {
    uint64_t state = 11;
    struct buffer text = {0};
    for (int round = 0; round < 60; round++) {
        buffer_clear(&text);
        while (text.length < 9000) {
            bool plain = next_random(&state) % 8 > 0;
            append_part(&text, &state, plain ? 48 : PARTS);
        }
        check(&text);
    }
    buffer_free(&text);
}

// Each of these at every offset to the border of a block and of a chunk, and truncated everywhere.
TEST(every_offset) {
    static const char *const texts[] = {
        "can't we'll they'RE 'tis 'street don'ts x'y ''s",
        "a    b\n\n   c \n \n d\t\te  \r\n  \r\n f   ",
        "12345 1234567 3.14 1,000,000 x123y 99",
        "!!\n\n  ?/\n/x --\r\n\r\ny (z) \"q\"/ \n/",
        "na\xC3\xAFve \xE2\x80\x9Cquoted\xE2\x80\x9D it\xE2\x80\x99s \xC2\xA0 \xE3\x80\x80\xE3\x80\x80x "
        "\xC2\xBD\xD9\xA3",
        "HTMLParser iPhone ABC aBcD \xC3\x89t\xC3\xA9 \xD0\x9C\xD0\xBE\xD1\x81\xD0\xBA\xD0\xB2\xD0\xB0\xD0\x94",
        "\xE4\xB8\xAD\xE6\x96\x87"
        "A \xE4\xB8\xAD"
        "Ab e\xCC\x81 \xF0\x9F\x98\x80\xF0\x9F\x98\x80 z",
        "\xFF\xFE\xC3!a \xE4\xB8 x a\xC3 \xED\xA0\x80z \xF0\x9F\x98",
    };
    struct buffer text = {0};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        for (size_t base = 0; base <= 2048; base += 2048)
            for (size_t offset = 0; offset <= 70; offset++) {
                buffer_clear(&text);
                for (size_t k = 0; k < base + offset; k++)
                    buffer_append_byte(&text, k % 6 == 5 ? ' ' : 'w');
                buffer_append_string(&text, texts[i]);
                check(&text);
                if (base == 0 && offset >= 20)
                    for (size_t length = text.length; length > offset; length--) {
                        text.length = length;
                        check(&text);
                    }
            }
    buffer_free(&text);
}

// Runs longer than blocks and chunks.
TEST(long_runs) {
    static const char *const units[] = {
        " ",        "\n",       "\r\n",         "a",    "A",        "aB",           "1",
        ".",        "'",        "'s",           "/",    "\xC2\xA0", "\xE3\x80\x80", "\xE4\xB8\xAD",
        "\xD0\xB4", "\xC2\xBD", "\xE2\x80\x99", "\xFF", " \n",      "\n "};
    static const char *const before[] = {"", "x", " ", "\n", ".", "'", "7"}, *const after[] = {"",  "x",  " x", "\nx",
                                                                                               ".", "'s", "7"};
    static const size_t lengths[] = {62, 63, 64, 65, 127, 129, 2046, 2047, 2048, 2049, 2112, 2113, 5000};
    struct buffer text = {0};
    for (size_t u = 0; u < sizeof units / sizeof units[0]; u++)
        for (size_t n = 0; n < sizeof lengths / sizeof lengths[0]; n++)
            for (size_t k = 0; k < 7; k++) {
                buffer_clear(&text);
                buffer_append_string(&text, before[k]);
                while (text.length < lengths[n])
                    buffer_append_string(&text, units[u]);
                buffer_append_string(&text, after[(k * 3 + n) % 7]);
                check(&text);
            }
    buffer_free(&text);
}

TEST(random_characters_and_bytes) {
    uint64_t state = 3;
    struct buffer text = {0};
    for (int round = 0; round < 3000; round++) {
        random_bytes(&state, &text, 1 + next_random(&state) % 400);
        check(&text);
        buffer_clear(&text);
        uint32_t plane = (uint32_t)(next_random(&state) % 40) << 10;
        for (uint64_t left = next_random(&state) % 120; left > 0; left--) {
            char bytes[4];
            uint32_t c = next_random(&state) % 2 ? (uint32_t)(next_random(&state) % 128)
                                                 : plane + (uint32_t)(next_random(&state) % 2048);
            buffer_append(&text, bytes, utf8_encode(c, bytes));
        }
        check(&text);
    }
    buffer_free(&text);
}

TEST_MAIN(TEST_CASE(parts_in_any_order), TEST_CASE(long_texts), TEST_CASE(every_offset), TEST_CASE(long_runs),
          TEST_CASE(random_characters_and_bytes))
