// The sentence splitter against hand-labelled texts, and guarantees for any bytes: order, no loss, linear time.
#include "data/sentence.h"

#include "base/rng.h"
#include "base/utf8.h"
#include "data/tokenizer/unicode_category.h"
#include "test.h"

static const char mark[] = "\xC2\xA6";  // ¦

struct labelled {
    char text[4096];
    size_t length;
    size_t end[64];  // where each sentence ends, in the text
    int count;
};

// Parses a line of the golden file: marks removed, \n and \r converted.
static void parse(const char *line, struct labelled *out) {
    *out = (struct labelled){0};
    for (const char *at = line; *at && *at != '\n';) {
        if (strncmp(at, mark, 2) == 0) {
            out->end[out->count++] = out->length;
            at += 2;
        } else if (at[0] == '\\' && (at[1] == 'n' || at[1] == 'r' || at[1] == 't')) {
            out->text[out->length++] = at[1] == 'n' ? '\n' : at[1] == 'r' ? '\r' : '\t';
            at += 2;
        } else {
            out->text[out->length++] = *at++;
        }
    }
    out->end[out->count++] = out->length;
}

// The bytes [begin, end) without ASCII white space at both ends.
static struct sentence trimmed(const char *text, size_t begin, size_t end) {
    while (begin < end && strchr(" \t\r\n", text[begin]))
        begin++;
    while (end > begin && strchr(" \t\r\n", text[end - 1]))
        end--;
    return (struct sentence){begin, end};
}

static void check_text(const char *line, const struct sentence_language *language) {
    struct labelled labelled;
    parse(line, &labelled);
    struct sentence_splitter splitter = {.text = labelled.text, .length = labelled.length, .language = language};
    struct sentence sentence;
    for (int i = 0; i < labelled.count; i++) {
        struct sentence expected = trimmed(labelled.text, i ? labelled.end[i - 1] : 0, labelled.end[i]);
        bool found = sentence_next(&splitter, &sentence);
        if (!found || sentence.begin != expected.begin || sentence.end != expected.end)
            test_fail("sentence %d of \"%s\" is \"%.*s\"", i, labelled.text, (int)(sentence.end - sentence.begin),
                      labelled.text + sentence.begin);
    }
    EXPECT(!sentence_next(&splitter, &sentence));
}

// Lines of a golden file: texts, comments after #, and names of languages after @.
static int check_file(const char *path) {
    FILE *golden = fopen(path, "r");
    EXPECT(golden);
    char line[4096];
    int texts = 0;
    const struct sentence_language *language = NULL;
    while (fgets(line, sizeof line, golden)) {
        line[strcspn(line, "\n")] = 0;
        if (line[0] == '@') {
            language = sentence_language_find(line + 1);
            EXPECT(language);
        } else if (line[0] != '#') {
            check_text(line, language);
            texts++;
        }
    }
    fclose(golden);
    return texts;
}

TEST(hand_labelled) {
    EXPECT(check_file("tests/golden/sentences_by_hand.txt") >= 80);
    EXPECT(check_file("tests/golden/sentences_by_language.txt") >= 190);
}

static void check_list(const char *list) {
    char last[64] = "";
    while (list && *list) {
        char word[64];
        size_t bytes = strcspn(list, " ");
        EXPECT(bytes > 0 && bytes < sizeof word);
        memcpy(word, list, bytes);
        word[bytes] = 0;
        if (strcmp(last, word) >= 0)
            test_fail("\"%s\" stands after \"%s\"", word, last);
        memcpy(last, word, sizeof word);
        list += bytes + (list[bytes] == ' ');
    }
}

// Words are found by binary search, so their order matters.
TEST(lists_are_in_order) {
    const struct sentence_language *language;
    size_t count = 0;
    for (; (language = sentence_language_at(count)); count++) {
        const struct word_list lists[] = {language->leading, language->titles,  language->before_count,
                                          language->inside,  language->closing, language->openers};
        for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++)
            check_list(lists[i].words);
        char name[32];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(language->names, " "), language->names);
        EXPECT(sentence_language_find(name) == language);
    }
    EXPECT(count >= 18);
    EXPECT(sentence_language_find("de") == &sentence_german);
    EXPECT(sentence_language_find("German") == &sentence_german && sentence_language_find("DE") == &sentence_german);
    EXPECT(!sentence_language_find("a name that is longer than that of any language"));
    EXPECT(!sentence_language_find("") && !sentence_language_find("germ") && !sentence_language_find("german de"));
    // Every word of a list is found, whatever its case.
    EXPECT_INT(sentence_abbreviation(&sentence_german, "Bzgl", 4), SENTENCE_LEADS);
    EXPECT_INT(sentence_abbreviation(&sentence_german, "übers", 6), SENTENCE_INSIDE);
    EXPECT_INT(sentence_abbreviation(&sentence_russian, "УЛ", 4), SENTENCE_LEADS);
    EXPECT_INT(sentence_abbreviation(&sentence_english, "approx", 6), SENTENCE_LEADS);
    EXPECT_INT(sentence_abbreviation(&sentence_english, "wyo", 3), SENTENCE_INSIDE);
    EXPECT_INT(sentence_abbreviation(&sentence_english, "gen", 3), SENTENCE_WORD);
    EXPECT_INT(sentence_abbreviation(&sentence_english, "Gen", 3), SENTENCE_LEADS);
}

static void expect_kept(const char *text, const char *const *expected, int count) {
    struct sentence_splitter splitter = {.text = text, .length = strlen(text), .keep_newlines = true};
    struct sentence sentence;
    for (int i = 0; i < count; i++) {
        EXPECT(sentence_next(&splitter, &sentence));
        char found[256];
        snprintf(found, sizeof found, "%.*s", (int)(sentence.end - sentence.begin), text + sentence.begin);
        EXPECT_STRING(found, expected[i]);
    }
    EXPECT(!sentence_next(&splitter, &sentence));
}

TEST(keep_newlines) {
    expect_kept("One.\nTwo. \n\n Three\n", (const char *const[]){"One.\n", "Two. \n\n ", "Three"}, 3);
    expect_kept("  One. Two.", (const char *const[]){"  One. ", "Two."}, 2);
    expect_kept("Title\n\nText", (const char *const[]){"Title\n\n", "Text"}, 2);
    expect_kept(" \n\n ", NULL, 0);
    expect_kept("", NULL, 0);
}

TEST(white_space_alone) {
    static const char *const texts[] = {"", " ", "\n\n\n", "\xC2\xA0\xE3\x80\x80\t", "\xE2\x80\xA9"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct sentence_splitter splitter = {.text = texts[i], .length = strlen(texts[i])};
        struct sentence sentence;
        EXPECT(!sentence_next(&splitter, &sentence));
    }
}

static bool is_blank(const char *text, size_t begin, size_t end) {
    while (begin < end) {
        uint32_t character;
        begin += utf8_decode((const unsigned char *)text + begin, end - begin, &character, NULL);
        if (!unicode_is_white_space(character))
            return false;
    }
    return true;
}

// Texts of everything that the rules examine, including ill-formed bytes.
TEST(nothing_is_lost) {
    static const char *const parts[] = {".",
                                        "!",
                                        "?",
                                        "...",
                                        "\"",
                                        ")",
                                        " ",
                                        " ",
                                        "  ",
                                        "\n",
                                        "\n\n",
                                        "\r\n",
                                        "Mr",
                                        "U.S",
                                        "a",
                                        "The",
                                        "12",
                                        "\xE3\x80\x82",
                                        "\xE2\x80\xA6",
                                        "\xC2\xA0",
                                        "\xFF",
                                        "\xE3\x80",
                                        "[1]",
                                        "(",
                                        "-",
                                        "I",
                                        "\xD0\x90",
                                        "\xF0\x9F\x98\x80",
                                        "etc",
                                        "z. B",
                                        "XIV",
                                        "\xC2\xBB",
                                        "\xE2\x80\x9C",
                                        "\xE0\xB8\x81",
                                        "\xE3\x80\x8D"};
    struct mt19937 mt;
    mt19937_seed(&mt, 7);
    for (int round = 0; round < 20000; round++) {
        char text[256];
        size_t length = 0;
        int count = (int)mt19937_interval(&mt, 30);
        for (int i = 0; i < count; i++) {
            const char *part = parts[mt19937_interval(&mt, sizeof parts / sizeof parts[0] - 1)];
            memcpy(text + length, part, strlen(part));
            length += strlen(part);
        }
        for (int keep = 0; keep < 2; keep++) {
            struct sentence_splitter splitter = {
                .text = text,
                .length = length,
                .keep_newlines = keep,
                .language = sentence_language_at((size_t)round % 18),
            };
            struct sentence sentence;
            size_t end = 0;
            while (sentence_next(&splitter, &sentence)) {
                EXPECT(sentence.begin >= end && sentence.end > sentence.begin && sentence.end <= length);
                EXPECT(keep ? sentence.begin == end : is_blank(text, end, sentence.begin));
                EXPECT(!is_blank(text, sentence.begin, sentence.end));
                end = sentence.end;
            }
            EXPECT(is_blank(text, end, length));
        }
    }
}

// In quadratic time each of these would take an hour.
TEST(linear_time) {
    enum { BYTES = 4 << 20 };
    static const char *const parts[] = {".",  "?\" ", "a",   " ",   "\n",           ". ",
                                        ".)", "A.",   "[1]", ". (", "\xE3\x80\x82", "\xE2\x80\xA6 a"};
    char *text = malloc(BYTES);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        for (size_t k = 0; k < BYTES; k++)
            text[k] = parts[i][k % strlen(parts[i])];
        struct sentence_splitter splitter = {.text = text, .length = BYTES};
        struct sentence sentence;
        size_t end = 0;
        while (sentence_next(&splitter, &sentence)) {
            EXPECT(sentence.begin >= end && sentence.end > sentence.begin);
            end = sentence.end;
        }
        EXPECT(end <= BYTES);
    }
    free(text);
}

TEST_MAIN(TEST_CASE(hand_labelled), TEST_CASE(lists_are_in_order), TEST_CASE(keep_newlines),
          TEST_CASE(white_space_alone), TEST_CASE(nothing_is_lost), TEST_CASE(linear_time))
