// Tokenizers in GGUF files against tests/golden/gguf_vocabulary.txt, which was made with other libraries; and those
// that llama.cpp cannot run.
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include "data/tokenizer/hf_save.h"
#include "formats/gguf_model.h"
#include "formats/hf_surroundings.h"
#include "store/temporary.h"
#include "test.h"

static const char golden[] = "tests/golden";

static const char *type_of(const char *path) {
    if (strstr(path, ".json"))
        return "HuggingFaceTokenizer";
    return strstr(path, ".model") ? "GPTSentencePieceTokenizer" : "BertWordPieceLowerCase";
}

// A source that has only a tokenizer.
static struct model_source source_with(const char *type, const char *path) {
    struct model_source source = {0};
    config_defaults(&source.config);
    source.config.data.tokenizer_type = memory_string(type);
    checkpoint_file_list_add(&source.files, strstr(path, ".txt") ? "vocab-file" : "tokenizer-model", path);
    return source;
}

static void forget(struct model_source *source) {
    config_free(&source->config);
    checkpoint_file_list_free(&source->files);
}

static void finish(struct sha256 *hash, char *hex) {
    unsigned char bytes[32];
    char all[65];
    sha256_final(hash, bytes);
    sha256_hex(bytes, all);
    memcpy(hex, all, 16);
    hex[16] = '\0';
}

static void add_text(struct sha256 *hash, const void *text, size_t length) {
    char *size = memory_printf("%zu:", length);
    sha256_update(hash, size, strlen(size));
    sha256_update(hash, text, length);
    free(size);
}

static void add_number(struct sha256 *hash, double number) {
    char *text = memory_printf("%.6g\n", number);
    sha256_update(hash, text, strlen(text));
    free(text);
}

struct digests {
    char tokens[17], types[17], scores[17], merges[17];
};

static struct digests digests_of(const struct gguf_vocabulary *v) {
    struct digests digests = {.scores = "-", .merges = "-"};
    struct sha256 tokens, types, scores, merges;
    sha256_init(&tokens);
    sha256_init(&types);
    sha256_init(&scores);
    sha256_init(&merges);
    for (int64_t i = 0; i < v->size; i++) {
        add_text(&tokens, v->tokens[i].text, v->tokens[i].length);
        add_number(&types, v->tokens[i].type);
        add_number(&scores, (double)v->tokens[i].score);
    }
    for (size_t at = 0; at < v->merges.bytes.length;) {
        uint64_t length;
        memcpy(&length, v->merges.bytes.data + at, sizeof length);
        add_text(&merges, v->merges.bytes.data + at + sizeof length, (size_t)length);
        at += sizeof length + (size_t)length;
    }
    finish(&tokens, digests.tokens);
    finish(&types, digests.types);
    if (v->has_scores)
        finish(&scores, digests.scores);
    if (v->merges.count > 0)
        finish(&merges, digests.merges);
    return digests;
}

TEST(vocabularies) {
    FILE *lines = fopen("tests/golden/gguf_vocabulary.txt", "r");
    EXPECT(lines != NULL);
    char name[64], model[16], pre[16], tokens[32], types[32], scores[32], merges[32];
    int rows, count = 0;
    for (; fscanf(lines, "%63s %d %15s %15s %31s %31s %31s %31s", name, &rows, model, pre, tokens, types, scores,
                  merges) == 8;
         count++) {
        char *path = memory_printf("%s/%s", golden, name);
        struct model_source source = source_with(type_of(path), path);
        struct gguf_vocabulary v;
        if (gguf_vocabulary_make(&v, &source, rows) < 0)
            test_fail("%s: %s", name, error_message());
        EXPECT_INT(v.padding_count, 5);
        struct digests found = digests_of(&v);
        bool is_same = strcmp(found.tokens, tokens) == 0 && strcmp(found.types, types) == 0 &&
                       strcmp(found.scores, scores) == 0 && strcmp(found.merges, merges) == 0;
        if (!is_same || strcmp(v.model, model) != 0 || strcmp(v.pre, pre) != 0)
            test_fail("%s: %s %s, tokens %s, types %s, scores %s, merges %s", name, v.model, v.pre, found.tokens,
                      found.types, found.scores, found.merges);
        gguf_vocabulary_free(&v);
        forget(&source);
        free(path);
    }
    fclose(lines);
    EXPECT_INT(count, 8);
}

// Tokens around a text are always written, whatever llama.cpp's defaults are.
TEST(ends) {
    static const struct {
        const char *type, *path;
        bool bos, eos, sep;
        int32_t first, last;
    } rows[] = {
        {"HuggingFaceTokenizer", "tests/golden/hf/gpt2.json", false, false, false, -1, -1},
        {"HuggingFaceTokenizer", "tests/golden/hf/llama3.json", true, false, false, -1, -1},
        {"GPTSentencePieceTokenizer", "tests/golden/spm/bpe.model", false, false, false, -1, -1},
        {"Llama2Tokenizer", "tests/golden/spm/bpe.model", true, false, false, 1, -1},
        {"BertWordPieceLowerCase", "tests/golden/wordpiece/vocab.txt", true, false, true, -1, -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct model_source source = source_with(rows[i].type, rows[i].path);
        struct gguf_vocabulary v;
        EXPECT_OK(gguf_vocabulary_make(&v, &source, 1000));
        EXPECT_INT(v.adds_bos, rows[i].bos);
        EXPECT_INT(v.adds_eos, rows[i].eos);
        EXPECT_INT(v.adds_sep, rows[i].sep);
        EXPECT(rows[i].first < 0 || v.bos == rows[i].first);
        EXPECT(rows[i].last < 0 || v.eos == rows[i].last);
        gguf_vocabulary_free(&v);
        forget(&source);
    }
}

// A tokenizer.json of a SentencePiece model has merges instead of scores. The scores derived from them put all merges
// in the model's own order.
TEST(scores) {
    static const char path[] = "tests/golden/gguf_bpe.model";
    struct tokenizer *tokenizer;
    EXPECT_OK(tokenizer_open(&tokenizer,
                             &(struct tokenizer_options){.type = "GPTSentencePieceTokenizer", .model_file = path}));
    struct hf_roles roles = hf_save_roles(tokenizer);
    struct buffer text = {0};
    EXPECT_OK(hf_save_json(tokenizer, &roles, &text));
    int64_t size = tokenizer_vocab_size(tokenizer), joined = 0;
    struct gguf_vocabulary found = {.size = size, .tokens = memory_alloc((size_t)size * sizeof found.tokens[0])};
    EXPECT_OK(gguf_vocabulary_from_json(&found, text.data, text.length, path));
    EXPECT_STRING(found.model, "llama");
    struct model_source source = source_with("GPTSentencePieceTokenizer", path);
    struct gguf_vocabulary wanted;
    EXPECT_OK(gguf_vocabulary_make(&wanted, &source, size));
    for (int64_t i = 0; i < size; i++) {
        EXPECT_STRING(found.tokens[i].text, wanted.tokens[i].text);
        EXPECT_INT(found.tokens[i].type, wanted.tokens[i].type);
        for (int64_t k = 0; k < i; k++) {
            float a = found.tokens[i].score, b = found.tokens[k].score;
            if (a == 0 || b == 0)  // no merge produces it, or the first one does
                continue;
            EXPECT_INT(a < b, wanted.tokens[i].score < wanted.tokens[k].score);
            joined++;
        }
    }
    EXPECT(joined > 100);
    gguf_vocabulary_free(&found);
    gguf_vocabulary_free(&wanted);
    forget(&source);
    buffer_free(&text);
    tokenizer_free(tokenizer);
}

TEST(refused) {
    static const struct {
        const char *type, *path, *message;
        int64_t rows;
    } rows[] = {
        {"HuggingFaceTokenizer", "tests/golden/hf/clip.json", "llama.cpp", 5000},
        {"HuggingFaceTokenizer", "tests/golden/hf/words.json", "it is a word list", 5000},
        {"HuggingFaceTokenizer", "tests/golden/hf/roberta.json", "it adds a space before a text", 5000},
        {"HuggingFaceTokenizer", "tests/golden/hf/t5.json", "more than a table (normalizer)", 5000},
        {"HuggingFaceTokenizer", "tests/golden/hf/llama2.json", "not in the order of any scores", 5000},
        {"HuggingFaceTokenizer", "tests/golden/hf/falcon.json", "a way of its own (pre_tokenizer)", 5000},
        {"GPTSentencePieceTokenizer", "tests/golden/spm/unigram.model", "a unigram model with byte fallback", 5000},
        {"GPTSentencePieceTokenizer", "tests/golden/spm/word.model", "a word or character model", 5000},
        {"GPTSentencePieceTokenizer", "tests/golden/spm/char.model", "a word or character model", 5000},
        {"GPTSentencePieceTokenizer", "tests/golden/spm/suffix.model", "the word before them", 5000},
        {"HuggingFaceTokenizer", "tests/golden/hf/gpt2.json", "it belongs to another model", 10},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct model_source source = source_with(rows[i].type, rows[i].path);
        struct gguf_vocabulary v;
        if (gguf_vocabulary_make(&v, &source, rows[i].rows) == 0)
            test_fail("%s was taken", rows[i].path);
        if (!strstr(error_message(), rows[i].message))
            test_fail("%s: \"%s\" lacks \"%s\"", rows[i].path, error_message(), rows[i].message);
        forget(&source);
    }
    struct model_source source = {0};
    config_defaults(&source.config);
    struct gguf_vocabulary v;
    EXPECT_ERROR(gguf_vocabulary_make(&v, &source, 10), "a GGUF file needs the tokenizer");
    forget(&source);
}

// llama.cpp's gpt-2 always merges. A file that looks words up first is refused if merges do not produce all of its
// tokens.
TEST(words_that_merges_do_not_make) {
    static const char form[] =
        "{\"version\": \"1.0\", \"pre_tokenizer\": {\"type\": \"ByteLevel\", \"add_prefix_space\": false}, "
        "\"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", \"ignore_merges\": %s, \"vocab\": "
        "{\"a\": 0, \"b\": 1, \"c\": 2, \"ab\": 3, \"%s\": 4, \"abc\": 5, \"!\": 6}, \"merges\": [\"a b\", \"%s\"]}}";
    static const struct {
        const char *ignores, *token, *merge;
        bool is_refused;
    } rows[] = {{"true", "bc", "ab c", true},   // "bc" is a word, and no merge produces it
                {"true", "a!", "ab c", false},  // the same here, but no text is split so that it is a word
                {"true", "bc", "b c", true},    // from "abc", merges produce "ab" and "c"
                {"false", "bc", "ab c", false}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = memory_printf(form, rows[i].ignores, rows[i].token, rows[i].merge);
        struct gguf_vocabulary v = {.size = 7, .tokens = memory_alloc(7 * sizeof v.tokens[0])};
        int status = gguf_vocabulary_from_json(&v, text, strlen(text), "t.json");
        if ((status < 0) != rows[i].is_refused)
            test_fail("row %zu: %s", i, status < 0 ? error_message() : "taken");
        if (status < 0)
            EXPECT(strstr(error_message(), i == 0 ? "for token 4 \"bc\";" : "for token 5 \"abc\";") != NULL);
        gguf_vocabulary_free(&v);
        free(text);
    }
}

// llama.cpp adds a space after every special token. A tokenizer that does so at the beginning of a text alone is told.
TEST(spaces_after_tokens) {
    static const char form[] =
        "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 0, \"content\": \"<unk>\", \"special\": true, "
        "\"normalized\": "
        "false, \"single_word\": false, \"lstrip\": false, \"rstrip\": false}, {\"id\": 257, \"content\": \"%s\", "
        "\"special\": true, \"normalized\": false, \"single_word\": false, \"lstrip\": false, \"rstrip\": false}], "
        "\"normalizer\": null, \"pre_tokenizer\": {\"type\": \"Metaspace\", \"replacement\": \"▁\", "
        "\"prepend_scheme\": \"%s\", \"split\": false}, \"decoder\": {\"type\": \"Sequence\", \"decoders\": "
        "[{\"type\": "
        "\"Replace\", \"pattern\": {\"String\": \"▁\"}, \"content\": \" \"}, {\"type\": \"ByteFallback\"}, {\"type\": "
        "\"Fuse\"}, {\"type\": \"Strip\", \"content\": \" \", \"start\": 1, \"stop\": 0}]}, \"model\": {\"type\": "
        "\"BPE\", "
        "\"unk_token\": \"<unk>\", \"fuse_unk\": true, \"byte_fallback\": true, \"vocab\": {\"<unk>\": 0%s, \"%s\": "
        "257, "
        "\"a\": 258, \"▁\": 259, \"aa\": 260}, \"merges\": [\"a a\"]}}";
    static const struct {
        const char *token, *scheme;
        bool is_spaced;
    } rows[] = {
        {"[INST]", "first", true}, {"</s>", "first", false}, {"[INST]", "never", false}, {"[INST]", "always", false}};
    struct buffer bytes = {0};
    for (int i = 0; i < 256; i++)
        buffer_printf(&bytes, ", \"<0x%02X>\": %d", (unsigned)i, i + 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *text = memory_printf(form, rows[i].token, rows[i].scheme, buffer_string(&bytes), rows[i].token);
        struct gguf_vocabulary v = {
            .size = 261, .tokens = memory_alloc(261 * sizeof v.tokens[0]), .bos = -1, .eos = -1};
        EXPECT_OK(gguf_vocabulary_from_json(&v, text, strlen(text), "t.json"));
        EXPECT((v.spaced != NULL) == rows[i].is_spaced && (!v.spaced || strcmp(v.spaced, "[INST]") == 0));
        gguf_vocabulary_free(&v);
        free(text);
    }
    buffer_free(&bytes);
}

static void expect_token(const struct gguf_vocabulary *v, int32_t id, const char *text) {
    EXPECT(id >= 0 && id < v->size);
    EXPECT_STRING(v->tokens[id].text, text);
}

// A T5 of Megatron ends texts with the end-of-text token, not with the one between documents, and begins with its own.
// One of Hugging Face begins as config.json says. The ids there are not those of another tokenizer.
TEST(special_ids) {
    struct model_source source = source_with("SentencePieceTokenizer", "tests/golden/gguf_unigram.model");
    source.config.model.form = CONFIG_T5;
    source.config.data.vocab_extra_ids = 3;
    static const char text[] = "{\"eos_token_id\": 9, \"decoder_start_token_id\": 7}";
    struct gguf_vocabulary v;
    EXPECT_OK(json_parse(&source.foreign_config, text, strlen(text), "config.json"));
    EXPECT_OK(gguf_vocabulary_make(&v, &source, 1000));
    expect_token(&v, v.eos, "</s>");
    expect_token(&v, v.decoder_start, "<BOS>");
    gguf_vocabulary_free(&v);
    source.has_foreign_tokenizer = true;
    EXPECT_OK(gguf_vocabulary_make(&v, &source, 1000));
    EXPECT_INT(v.eos, 9);
    EXPECT_INT(v.decoder_start, 7);
    gguf_vocabulary_free(&v);
    json_free(source.foreign_config);
    forget(&source);
}

// The token named by --eod-token ends texts, whatever a tokenizer_config.json beside the tokenizer says.
TEST(named_end) {
    struct temporary folder = temporary_create_fast();
    char *path = file_join(folder.path, "tokenizer_config.json");
    static const char text[] = "{\"eos_token\": \"mm\"}";
    EXPECT_OK(file_write_all(path, text, strlen(text)));
    struct model_source source = source_with("HuggingFaceTokenizer", "tests/golden/hf/gpt2.json");
    checkpoint_file_list_add(&source.files, HF_ROLE, path);
    for (int is_named = 0; is_named < 2; is_named++) {
        source.config.data.eod_token = is_named ? memory_string("nd") : NULL;
        struct gguf_vocabulary v;
        EXPECT_OK(gguf_vocabulary_make(&v, &source, 500));
        expect_token(&v, v.eos, is_named ? "nd" : "mm");
        gguf_vocabulary_free(&v);
    }
    forget(&source);
    temporary_remove(&folder);
    free(path);
}

TEST_MAIN(TEST_CASE(vocabularies), TEST_CASE(ends), TEST_CASE(special_ids), TEST_CASE(named_end), TEST_CASE(scores),
          TEST_CASE(words_that_merges_do_not_make), TEST_CASE(spaces_after_tokens), TEST_CASE(refused))
