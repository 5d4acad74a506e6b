// fairseq's dictionaries: against golden ids (tests/golden/make_fairseq.py), built from text, and damaged ones.
// cost: 10
#include "data/tokenizer/fairseq.h"
#include "json_ids.h"

#define FAIRSEQ "tests/golden/fairseq/"

TEST(golden_ids) {
    struct tokenizer_options options = {.type = "FairseqTokenizer", .model_file = FAIRSEQ "words.txt"};
    EXPECT(json_ids_check_file(&options, "words", FAIRSEQ "ids.jsonl") > 10);
    options = (struct tokenizer_options){.type = "FairseqTokenizer",
                                         .model_file = FAIRSEQ "bpe.txt",
                                         .vocab_file = GOLDEN "vocab.json",
                                         .merge_file = GOLDEN "merges.txt"};
    EXPECT(json_ids_check_file(&options, "bpe", FAIRSEQ "ids.jsonl") > 10);
}

// The dictionary of the corpus equals fairseq's.
TEST(dictionaries_are_built) {
    struct buffer corpus = {0}, expected = {0}, built = {0};
    struct byte_table words = {0};
    EXPECT_OK(file_read_all(GOLDEN "corpus.txt", (size_t)1 << 24, &corpus));
    EXPECT_OK(file_read_all(FAIRSEQ "words.txt", (size_t)1 << 24, &expected));
    fairseq_count_words(&words, corpus.data, corpus.length);
    fairseq_build_dictionary(&words, &(struct fairseq_build){.multiple = 8}, &built);
    EXPECT_STRING(buffer_string(&built), expected.data);
    buffer_clear(&built);
    fairseq_build_dictionary(&words, &(struct fairseq_build){.most_words = 7}, &built);
    EXPECT_INT(built.length, strchr(strchr(strchr(expected.data, '\n') + 1, '\n') + 1, '\n') + 1 - expected.data);
    byte_table_free(&words);
    buffer_free(&corpus);
    buffer_free(&expected);
    buffer_free(&built);
}

TEST(decoding) {
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {.type = "FairseqTokenizer", .model_file = FAIRSEQ "words.txt"};
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    EXPECT_INT(tokenizer_eod(tokenizer), 2);
    EXPECT_INT(tokenizer_vocab_size(tokenizer) % 8, 0);
    expect_decoded(tokenizer, (const int32_t[]){0, 4, 3, 2}, 4, "the <unk>");
    tokenizer_free(tokenizer);
    options = (struct tokenizer_options){.type = "FairseqTokenizer",
                                         .model_file = FAIRSEQ "bpe.txt",
                                         .vocab_file = GOLDEN "vocab.json",
                                         .merge_file = GOLDEN "merges.txt"};
    struct json_ids open = json_ids_open(&options, "");
    EXPECT_INT(tokenizer_vocab_size(open.tokenizer) % 8, 1);  // <mask> comes last
    struct token_list ids = {0};
    EXPECT_OK(tokenizer_encode(open.encoder, " the bridge, and ", 17, &ids));
    token_list_append(&ids, (int32_t)tokenizer_vocab_size(open.tokenizer) - 1);
    expect_decoded(open.tokenizer, ids.ids, ids.count, "the bridge, and<mask>");
    token_list_free(&ids);
    json_ids_close(&open);
}

static void expect_bad(const char *text, const char *message) {
    struct vocabulary dictionary;
    EXPECT_ERROR(fairseq_dictionary_parse(&dictionary, text, strlen(text), "d.txt"), message);
}

TEST(dictionary_files) {
    struct vocabulary dictionary;
    static const char text[] = "a b 5\r\nc 1\n<unk> 7 #fairseq:overwrite\nc 2 #fairseq:overwrite  \n 3\n";
    EXPECT_OK(fairseq_dictionary_parse(&dictionary, text, sizeof text - 1, "d.txt"));
    EXPECT_INT(dictionary.size, 9);
    EXPECT_INT(fairseq_dictionary_find(&dictionary, "a b", 3), 4);
    EXPECT_INT(fairseq_dictionary_find(&dictionary, "c", 1), 7);
    EXPECT_INT(fairseq_dictionary_find(&dictionary, "<unk>", 5), 6);
    EXPECT_INT(fairseq_dictionary_find(&dictionary, "", 0), 8);
    EXPECT_INT(fairseq_dictionary_find(&dictionary, "z", 1), FAIRSEQ_UNK);
    vocabulary_free(&dictionary);
    expect_bad("a\n", "d.txt:1: expected a symbol");
    expect_bad("a 1\n\n", "d.txt:2: expected a symbol");
    expect_bad("a x\n", "d.txt:1: expected a symbol");
    expect_bad("a 1\nb 2\na 3\n", "d.txt:3: the symbol \"a\" occurs twice");
    expect_bad("<s> 3\n", "occurs twice");
    expect_bad("a 1\n\xFF 2\n", "d.txt: byte 4 is not UTF-8");
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {.type = "FairseqTokenizer"};
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "--tokenizer-model dict.txt");
    options.model_file = FAIRSEQ "words.txt";
    options.vocab_file = GOLDEN "vocab.json";
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "--merge-file");
}

TEST(robertas_dictionary) {
    char *dictionary = shared_file("roberta/dict.txt"), *vocab = shared_file("gpt2/vocab.json");
    char *merges = shared_file("gpt2/merges.txt");
    struct tokenizer_options options = {
        .type = "FairseqTokenizer", .model_file = dictionary, .vocab_file = vocab, .merge_file = merges};
    struct json_ids open = json_ids_open(&options, "");
    EXPECT_INT(tokenizer_vocab_size(open.tokenizer), 50265);
    struct token_list ids = {0};
    EXPECT_OK(tokenizer_encode(open.encoder, "Hello world", 11, &ids));
    expect_ids(&ids, (const int32_t[]){31414, 232}, 2);
    expect_decoded(open.tokenizer, (const int32_t[]){31414, 232, 50264}, 3, "Hello world<mask>");
    token_list_free(&ids);
    json_ids_close(&open);
    free(dictionary);
    free(vocab);
    free(merges);
}

TEST_MAIN(TEST_CASE(golden_ids), TEST_CASE(dictionaries_are_built), TEST_CASE(decoding), TEST_CASE(dictionary_files),
          TEST_CASE(robertas_dictionary))
