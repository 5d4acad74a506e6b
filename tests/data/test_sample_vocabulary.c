// The special tokens of vocabularies, by the names that model families use.
#include "data/sample/roberta.h"
#include "data/sample/vocabulary.h"
#include "fixture.h"

static struct tokenizer *open_bert(int64_t extra_ids) {
    static const char lines[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##ing\n#\n##\ngo\n";
    write_bytes(scratch_path("vocab.txt"), lines, sizeof lines - 1);
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {
        .type = "BertWordPieceLowerCase", .vocab_file = scratch_path("vocab.txt"), .extra_ids = extra_ids};
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    return tokenizer;
}

static int32_t find_token(const struct tokenizer *tokenizer, const char *token) {
    size_t wanted = strlen(token), length;
    for (int32_t id = 0; id < tokenizer_vocab_size(tokenizer); id++) {
        const char *text = tokenizer_token(tokenizer, id, &length);
        if (text && length == wanted && memcmp(text, token, length) == 0)
            return id;
    }
    return -1;
}

TEST(bert_has_brackets_and_pieces) {
    scratch_open();
    struct tokenizer *tokenizer = open_bert(3);
    struct sample_vocabulary v;
    sample_vocabulary_make(&v, tokenizer);
    EXPECT_INT(v.size, 15);
    EXPECT(v.pad == 0 && v.cls == 2 && v.sep == 3 && v.mask == 4 && v.bos == 10 && v.eos == 11);
    EXPECT_INT(v.sentinel_count, 3);
    EXPECT(v.sentinels[0] == 12 && v.sentinels[2] == 14);
    for (int id = 0; id < 15; id++)
        EXPECT_INT(v.continues[id], id == 6 || id == 8);
    EXPECT_INT(find_token(tokenizer, "##ing"), 6);
    EXPECT_INT(find_token(tokenizer, "##in"), -1);
    sample_vocabulary_free(&v);
    tokenizer_free(tokenizer);
    scratch_close();
}

TEST(fairseq_has_its_own) {
    scratch_open();
    static const char lines[] = "the 5\ngo 3\n<mask> 1\n";
    write_bytes(scratch_path("dict.txt"), lines, sizeof lines - 1);
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {.type = "FairseqTokenizer", .model_file = scratch_path("dict.txt")};
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    struct sample_vocabulary v;
    sample_vocabulary_make(&v, tokenizer);
    EXPECT(v.cls == 0 && v.pad == 1 && v.sep == 2 && v.eos == 2 && v.bos == 0 && v.mask == 6);
    EXPECT_INT(v.sentinel_count, 0);
    unsigned char *begins = roberta_word_beginnings(tokenizer);
    EXPECT(begins[0] && begins[1] && begins[2] && begins[3] && begins[6] && !begins[4]);
    free(begins);
    sample_vocabulary_free(&v);
    tokenizer_free(tokenizer);
    scratch_close();
}

// fairseq's masked-word task adds <mask> after a dictionary of words; text is read without it.
TEST(fairseq_words_get_a_mask) {
    scratch_open();
    static const char lines[] = "the 5\ngo 3\nmadeupword0000 0\n";
    write_bytes(scratch_path("dict.txt"), lines, sizeof lines - 1);
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {.type = "FairseqTokenizer", .model_file = scratch_path("dict.txt")};
    struct sample_vocabulary v;
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    sample_vocabulary_make(&v, tokenizer);
    EXPECT(v.size == 7 && v.mask == -1);
    sample_vocabulary_free(&v);
    tokenizer_free(tokenizer);
    options.needs_mask = true;
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    sample_vocabulary_make(&v, tokenizer);
    EXPECT(v.size == 8 && v.mask == 7 && v.cls == 0 && v.sep == 2);
    sample_vocabulary_free(&v);
    struct buffer text = {0};
    EXPECT_OK(tokenizer_decode(tokenizer, (const int32_t[]){0, 4, 7, 5, 2}, 5, &text));
    EXPECT_STRING(buffer_string(&text), "the <mask> go");
    buffer_free(&text);
    tokenizer_free(tokenizer);
    scratch_close();
}

// RoBERTa's real tokenizer: a word begins where a space precedes it.
TEST(roberta_of_hugging_face) {
    const char *shared = getenv("BEVATRON_SHARED");
    char *path = memory_printf("%s/data/roberta/tokenizer.json", shared ? shared : "");
    if (!shared || !file_exists(path)) {
        free(path);
        test_skip("$BEVATRON_SHARED/data/roberta/tokenizer.json is not there");
    }
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {.type = "HuggingFaceTokenizer", .model_file = path};
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    struct sample_vocabulary v;
    sample_vocabulary_make(&v, tokenizer);
    EXPECT(v.cls == 0 && v.pad == 1 && v.sep == 2 && v.mask == 50264 && v.size == 50265);
    unsigned char *begins = roberta_word_beginnings(tokenizer);
    EXPECT(begins[find_token(tokenizer, "\xC4\xA0the")] && !begins[find_token(tokenizer, "the")]);
    free(begins);
    sample_vocabulary_free(&v);
    tokenizer_free(tokenizer);
    free(path);
}

TEST_MAIN(TEST_CASE(bert_has_brackets_and_pieces), TEST_CASE(fairseq_has_its_own), TEST_CASE(fairseq_words_get_a_mask),
          TEST_CASE(roberta_of_hugging_face))
