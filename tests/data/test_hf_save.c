// Tokenizers written as Hugging Face files: the files byte by byte, the ids that their library gives for them
// (tests/golden/make_hf_save.py), and our own reader of them against the tokenizer itself on thousands of strings.
#include "base/utf8.h"
#include "data/tokenizer/charsmap.h"
#include "data/tokenizer/hf_save.h"
#include "data/tokenizer/normal_form.h"
#include "json_ids.h"
#include "fixture.h"

#define SAVED "tests/golden/hf_save/"
#define SPM "tests/golden/spm/"
#define GPT2_FILES .vocab_file = GOLDEN "vocab.json", .merge_file = GOLDEN "merges.txt"

static const struct save_kind {
    const char *name;
    struct tokenizer_options options;
    int before;       // ids that encoding puts before a text
    int after;        // and after it
    bool is_unigram;  // a run of one character may be split in another order
} kinds[] = {
    {"gpt2", {GPT2_FILES}, 0, 0, false},
    {"gpt2_today", {GPT2_FILES, .as_today = true}, 0, 0, false},
    {"spm_bpe", {.type = "GPTSentencePieceTokenizer", .model_file = SPM "bpe.model"}, 0, 0, false},
    {"llama2", {.type = "Llama2Tokenizer", .model_file = SPM "bpe.model"}, 1, 0, false},
    {"spm_char", {.type = "GPTSentencePieceTokenizer", .model_file = SPM "char.model"}, 0, 0, false},
    {"spm_unigram", {.type = "GPTSentencePieceTokenizer", .model_file = SPM "unigram.model"}, 0, 0, true},
    {"spm_extra", {.type = "SentencePieceTokenizer", .model_file = SPM "unigram.model", .extra_ids = 4}, 0, 0, true},
    {"bert_lower",
     {.type = "BertWordPieceLowerCase", .vocab_file = "tests/golden/wordpiece/vocab.txt", .extra_ids = 3},
     0,
     0,
     false},
    {"bert_case", {.type = "BertWordPieceCase", .vocab_file = "tests/golden/wordpiece/vocab.txt"}, 0, 0, false},
    {"bert_today",
     {.type = "BertWordPieceCase", .vocab_file = "tests/golden/wordpiece/vocab.txt", .as_today = true},
     1,
     1,
     false},
    {"tiktoken",
     {.type = "TikTokenizer", .model_file = "tests/golden/tiktoken/small.tiktoken", .tiktoken_pattern = "cl100k"},
     0,
     0,
     false},
    {"tiktoken_megatron",
     {.type = "TikTokenizer",
      .model_file = "tests/golden/tiktoken/megatron.json",
      .tiktoken_pattern = "v2",
      .vocab_size = 300,
      .tiktoken_specials = 10,
      .as_today = true},
     0,
     0,
     false},
    {"tekken", {.type = "TikTokenizer", .model_file = "tests/golden/tiktoken/tekken_own.json"}, 0, 0, false},
    {"fairseq_bpe", {.type = "FairseqTokenizer", .model_file = SAVED "dict.txt", GPT2_FILES}, 0, 0, false},
    {"fairseq_words", {.type = "FairseqTokenizer", .model_file = "tests/golden/fairseq/words.txt"}, 0, 0, false},
    {"spm_folded", {.type = "GPTSentencePieceTokenizer", .model_file = SPM "folded.model"}, 0, 0, true},
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

static void need_normal_forms(void) {
    if (normal_form_require() < 0)
        test_skip("this build has no normal forms");
}

// Writes a tokenizer into the scratch folder `name`.
static void save(const struct tokenizer_options *options, const char *name) {
    struct tokenizer *tokenizer;
    const char *folder = scratch_path(name);
    EXPECT_OK(tokenizer_open(&tokenizer, options));
    struct hf_roles roles = hf_save_roles(tokenizer);
    EXPECT_OK(file_make_folders(folder));
    EXPECT_OK(hf_save_folder(tokenizer, &roles, folder));
    tokenizer_free(tokenizer);
}

static void expect_same_text(const char *path, const char *expected) {
    struct buffer a = read_bytes(path), b = read_bytes(expected);
    size_t at = 0;
    while (at < a.length && at < b.length && a.data[at] == b.data[at])
        at++;
    if (at < a.length || at < b.length)
        test_fail("%s differs from %s at byte %zu: \"%.60s\", expected \"%.60s\"", path, expected, at,
                  buffer_string(&a) + at, buffer_string(&b) + at);
    buffer_free(&a);
    buffer_free(&b);
}

TEST(files_are_golden) {
    need_normal_forms();
    scratch_open();
    for (int i = 0; i < KIND_COUNT; i++) {
        char name[64], expected[128];
        save(&kinds[i].options, kinds[i].name);
        snprintf(name, sizeof name, "%s/tokenizer.json", kinds[i].name);
        snprintf(expected, sizeof expected, SAVED "%s.json", kinds[i].name);
        expect_same_text(scratch_path(name), expected);
        snprintf(name, sizeof name, "%s/tokenizer_config.json", kinds[i].name);
        snprintf(expected, sizeof expected, SAVED "%s.config.json", kinds[i].name);
        expect_same_text(scratch_path(name), expected);
    }
    scratch_close();
}

// ---- ids ----

struct token_pair {
    const struct save_kind *kind;
    struct json_ids ours, theirs;
    int64_t cases;
};

static void open_pair(struct token_pair *pair, const struct save_kind *kind) {
    char file[128];
    snprintf(file, sizeof file, SAVED "%s.json", kind->name);
    *pair = (struct token_pair){.kind = kind, .ours = json_ids_open(&kind->options, "")};
    pair->theirs = json_ids_open(
        &(struct tokenizer_options){.type = "HuggingFaceTokenizer", .model_file = file, .hf_without_specials = true},
        "ids");
    EXPECT_INT(tokenizer_vocab_size(pair->theirs.tokenizer), tokenizer_vocab_size(pair->ours.tokenizer));
}

static void close_pair(struct token_pair *pair) {
    json_ids_close(&pair->ours);
    json_ids_close(&pair->theirs);
}

static void encode_ours(const struct token_pair *pair, const char *text, size_t length, struct token_list *ids) {
    ids->count = 0;
    EXPECT_OK(tokenizer_encode(pair->ours.encoder, text, length, ids));
    ids->count -= pair->kind->before + pair->kind->after;
    if (pair->kind->before > 0)
        memmove(ids->ids, ids->ids + pair->kind->before, (size_t)ids->count * sizeof *ids->ids);
}

static void check_case(const struct json *line, void *context) {
    struct token_pair *pair = context;
    const struct json *text = json_member(line, "text"), *expected = json_member(line, "ids");
    if (strcmp(json_member(line, "name")->string, pair->kind->name) != 0)
        return;
    struct token_list ids = {0};
    encode_ours(pair, text->string, text->length, &ids);
    if (ids.count != (int64_t)expected->count)
        test_fail("%s: \"%.60s\": %" PRId64 " ids, expected %zu", pair->kind->name, text->string, ids.count,
                  expected->count);
    for (int64_t i = 0; i < ids.count; i++)
        if (ids.ids[i] != (int32_t)expected->items[i].number)
            test_fail("%s: \"%.60s\": id %" PRId64 " is %" PRId32 ", expected %.0f", pair->kind->name, text->string, i,
                      ids.ids[i], expected->items[i].number);
    json_ids_check(line, &pair->theirs);
    token_list_free(&ids);
    pair->cases++;
}

// The library's ids for the written files equal those of the tokenizer, and those of our reader.
TEST(golden_ids) {
    need_normal_forms();
    for (int i = 0; i < KIND_COUNT; i++) {
        struct token_pair pair;
        open_pair(&pair, &kinds[i]);
        for_each_case(SAVED "ids.jsonl", check_case, &pair);
        EXPECT(pair.cases > 50);
        close_pair(&pair);
    }
}

static int compare_ids(const void *left, const void *right) {
    int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

// Parts of random texts.
static const char *const text_parts[] = {
    "a",
    "the ",
    " ",
    "  ",
    "     ",
    "\n",
    "\t",
    "\r\n",
    "'s",
    "N'T",
    "9",
    "2026",
    "\u00E9",
    "e\u0301",
    "o\u0323",
    "a\u0308\u0301",
    "\u4E16",
    "\uD55C",
    "\u3042",
    "\u0645\u0631",
    "\u05E9\u05B8",
    "\u0928\u092E",
    "\u1F600",
    "\U0001F600",
    "\U0001F468\u200D\U0001F469",
    "\u2581",
    "\u00A0",
    "\u3000",
    "\u200B",
    "\x01",
    "\x7F",
    "\u00AD",
    "\uFB01",
    "\uFF21",
    "\u2026",
    "\u00BD",
    "\u2161",
    "<0x41>",
    "##",
    "@@@",
    "<x>",
    "<",
    "[",
    ".,;",
    "----",
    "aaaaaa",
    "int x;",
    "\u03A3",
    "\u039F\u0394\u039F\u03A3",
    "\u0130",
    "\u1E9E",
    "\U0002B820",
    "\uE000",
    "Straw",
    "miller",
    "<|x|>",
};

static void random_text(uint64_t *state, struct buffer *out) {
    size_t count = 1 + next_random(state) % 9;
    buffer_clear(out);
    for (size_t i = 0; i < count; i++) {
        char bytes[4];
        uint32_t c = (uint32_t)(next_random(state) % 0x20000);
        if (next_random(state) % 6 > 0)
            buffer_append_string(out, text_parts[next_random(state) % (sizeof text_parts / sizeof text_parts[0])]);
        else if (c < 0xD800 || c > 0xDFFF)
            buffer_append(out, bytes, utf8_encode(c, bytes));
    }
}

// Encodes this many strings with the tokenizer and with its written form.
static void compare_texts(const struct token_pair *pair, int count) {
    uint64_t state = 16;
    struct buffer text = {0};
    struct token_list ours = {0}, theirs = {0};
    for (int k = 0; k < count; k++) {
        random_text(&state, &text);
        encode_ours(pair, buffer_string(&text), text.length, &ours);
        theirs.count = 0;
        EXPECT_OK(tokenizer_encode(pair->theirs.encoder, buffer_string(&text), text.length, &theirs));
        if (pair->kind->is_unigram && ours.count == theirs.count && ours.count > 0) {
            qsort(ours.ids, (size_t)ours.count, sizeof *ours.ids, compare_ids);
            qsort(theirs.ids, (size_t)theirs.count, sizeof *theirs.ids, compare_ids);
        }
        bool same = ours.count == theirs.count &&
                    (ours.count == 0 || memcmp(ours.ids, theirs.ids, (size_t)ours.count * sizeof *ours.ids) == 0);
        if (!same)
            test_fail("%s: other ids for \"%s\"", pair->kind->name, buffer_string(&text));
    }
    token_list_free(&ours);
    token_list_free(&theirs);
    buffer_free(&text);
}

TEST(reading_back_gives_the_same_ids) {
    need_normal_forms();
    for (int i = 0; i < KIND_COUNT; i++) {
        struct token_pair pair;
        open_pair(&pair, &kinds[i]);
        compare_texts(&pair, 2000);
        close_pair(&pair);
    }
}

// The rules of nmt_nfkc, 225,000 of them, as steps.
TEST(real_rules_read_back) {
    static const char *const models[] = {"spm/test_sentencepiece_bpe.model", "t5/spiece.model"};
    need_normal_forms();
    scratch_open();
    for (int i = 0; i < 2; i++) {
        char *path = shared_file(models[i]);
        struct save_kind kind = {.name = models[i],
                                 .options = {.type = "GPTSentencePieceTokenizer", .model_file = path},
                                 .is_unigram = i == 1};
        save(&kind.options, "real");
        struct tokenizer_options read = {.type = "HuggingFaceTokenizer", .model_file = scratch_path("real")};
        struct token_pair pair = {.kind = &kind, .ours = json_ids_open(&kind.options, "")};
        pair.theirs = json_ids_open(&read, "");
        compare_texts(&pair, 500);
        close_pair(&pair);
        free(path);
    }
    scratch_close();
}

// ---- special tokens in a file ----

static void check_config(const struct tokenizer_options *options, const struct hf_roles *changes,
                         const char *const *has) {
    struct tokenizer *tokenizer;
    EXPECT_OK(tokenizer_open(&tokenizer, options));
    struct hf_roles roles = changes ? *changes : hf_save_roles(tokenizer);
    EXPECT_OK(file_make_folders(scratch_path("roles")));
    EXPECT_OK(hf_save_folder(tokenizer, &roles, scratch_path("roles")));
    struct buffer config = read_bytes(scratch_path("roles/tokenizer_config.json"));
    struct buffer json = read_bytes(scratch_path("roles/tokenizer.json"));
    for (; *has; has++)
        if (!strstr(buffer_string(&config), *has) && !strstr(buffer_string(&json), *has))
            test_fail("no %s", *has);
    buffer_free(&config);
    buffer_free(&json);
    tokenizer_free(tokenizer);
}

TEST(roles_are_written) {
    need_normal_forms();
    scratch_open();
    struct tokenizer_options llama = {.type = "Llama2Tokenizer", .model_file = SPM "bpe.model"};
    check_config(&llama, NULL,
                 (const char *const[]){"\"add_bos_token\": true", "\"bos_token\": \"<s>\"", "\"eos_token\": \"</s>\"",
                                       "\"unk_token\": \"<unk>\"", "\"type\": \"TemplateProcessing\"", NULL});
    struct tokenizer_options plain = {.type = "GPTSentencePieceTokenizer", .model_file = SPM "bpe.model"};
    check_config(
        &plain, NULL,
        (const char *const[]){"\"add_bos_token\": false", "\"bos_token\": \"<s>\"", "\"post_processor\": null", NULL});
    // The caller's choice counts: a decoder with BERT's vocabulary puts nothing around texts.
    struct tokenizer_options bert = {.type = "BertWordPieceCase", .vocab_file = "tests/golden/wordpiece/vocab.txt"};
    struct tokenizer *tokenizer;
    EXPECT_OK(tokenizer_open(&tokenizer, &bert));
    struct hf_roles roles = hf_save_roles(tokenizer);
    EXPECT_INT(roles.around, HF_AROUND_CLS_SEP);
    EXPECT_INT(roles.eos, tokenizer_eod(tokenizer));
    roles.around = HF_AROUND_NOTHING;
    roles.longest = 512;
    tokenizer_free(tokenizer);
    check_config(&bert, &roles,
                 (const char *const[]){"\"eos_token\": \"[EOS]\"", "\"post_processor\": null",
                                       "\"model_max_length\": 512", "\"do_lower_case\": false", NULL});
    scratch_close();
}

// ---- what cannot be expressed ----

TEST(what_cannot_be_expressed_is_an_error) {
    static const struct {
        const char *model, *message;
    } cases[] = {{SPM "word.model", "is a model of words, which a tokenizer.json cannot express"},
                 {SPM "suffix.model", "puts the dummy space at the end"},
                 {SPM "unused.model", "has unused pieces"},
                 {SPM "odd.model", "has unused pieces"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct tokenizer *tokenizer;
        EXPECT_OK(tokenizer_open(&tokenizer, &(struct tokenizer_options){.type = "GPTSentencePieceTokenizer",
                                                                         .model_file = cases[i].model}));
        struct hf_roles roles = hf_save_roles(tokenizer);
        EXPECT_ERROR(hf_save_folder(tokenizer, &roles, "/nonexistent"), cases[i].message);
        tokenizer_free(tokenizer);
    }
    struct tokenizer *tokenizer;
    struct buffer json = {0};
    EXPECT_OK(tokenizer_open(&tokenizer, &(struct tokenizer_options){.type = "FairseqTokenizer",
                                                                     .model_file = "tests/golden/fairseq/bpe.txt",
                                                                     GPT2_FILES}));
    struct hf_roles roles = hf_save_roles(tokenizer);
    EXPECT_ERROR(hf_save_json(tokenizer, &roles, &json), "tokens of the BPE are not in the dictionary");
    tokenizer_free(tokenizer);
    EXPECT_OK(tokenizer_open(&tokenizer, &(struct tokenizer_options){.type = "NullTokenizer", .vocab_size = 9}));
    roles = hf_save_roles(tokenizer);
    EXPECT_ERROR(hf_save_json(tokenizer, &roles, &json), "NullTokenizer cannot be written as a tokenizer.json");
    tokenizer_free(tokenizer);
    buffer_free(&json);
}

TEST_MAIN(TEST_CASE(files_are_golden), TEST_CASE(golden_ids), TEST_CASE(reading_back_gives_the_same_ids),
          TEST_CASE(real_rules_read_back), TEST_CASE(roles_are_written),
          TEST_CASE(what_cannot_be_expressed_is_an_error))
