// Mistyped names, and names that are too different.
#include "base/words.h"

#include "test.h"
#include <string.h>

static const char *const commands[] = {"train",     "tokenizer",    "preprocess", "generate",
                                       "bert-base", "--num-layers", "--lr",       "--on"};

static const char *find(const char *name) {
    struct nearest nearest = nearest_begin(name, strlen(name));
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        nearest_consider(&nearest, commands[i]);
    return nearest.best ? nearest.best : "none";
}

TEST(nearness) {
    EXPECT_STRING(find("trian"), "train");
    EXPECT_STRING(find("tran"), "train");
    EXPECT_STRING(find("tok"), "tokenizer");
    EXPECT_STRING(find("gen"), "generate");
    EXPECT_STRING(find("preprocess_data"), "preprocess");
    EXPECT_STRING(find("bert-base-uncased"), "bert-base");
    EXPECT_STRING(find("--num_layer"), "--num-layers");
    EXPECT_STRING(find("--num"), "--num-layers");
    EXPECT_STRING(find("moon"), "none");
    EXPECT_STRING(find("to"), "none");
    EXPECT_STRING(find(""), "none");
    EXPECT_STRING(find("--"), "none");
    EXPECT_STRING(find("--x"), "none");
    EXPECT_STRING(find("--rl"), "none");
    EXPECT_STRING(find("--lrr"), "--lr");
    EXPECT_STRING(find("--foo"), "none");
    EXPECT_STRING(find("--coun"), "none");
    EXPECT_STRING(find("trn"), "none");
    EXPECT_STRING(find("treni"), "train");
    EXPECT_STRING(find("tokeniser"), "tokenizer");
    char name[300];
    memset(name, 'a', sizeof name - 1);
    name[sizeof name - 1] = 0;
    EXPECT_STRING(find(name), "none");
}

// Words in one string are found by binary search: each of them, and nothing else.

static bool has(const struct word_list *list, const char *word) {
    return word_list_has(list, word, strlen(word));
}

TEST(every_word_and_nothing_else) {
    static const struct word_list empty = WORD_LIST(' ', ""), one = WORD_LIST(' ', "a"),
                                  some = WORD_LIST('|', "a|a b|aa|ab|b|z|\xC3\xA9|\xC3\xA9t\xC3\xA9");
    EXPECT(!has(&empty, "") && !has(&empty, "a"));
    EXPECT(has(&one, "a") && !has(&one, "") && !has(&one, "aa") && !has(&one, "b"));
    static const char *const words[] = {"a", "a b", "aa", "ab", "b", "z", "\xC3\xA9", "\xC3\xA9t\xC3\xA9"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        EXPECT(has(&some, words[i]));
    static const char *const others[] = {"",  " ",  "a ", "a c",   "aaa",  "ac",      "ba",
                                         "y", "zz", "|",  "a|a b", "\xC3", "\xC3\xAA"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        EXPECT(!has(&some, others[i]));
}

TEST_MAIN(TEST_CASE(nearness), TEST_CASE(every_word_and_nothing_else))
