// Hugging Face's tokenizer.json against golden ids and texts of their library (tests/golden/make_hf.py), and the errors
// of unsupported files.
#include "base/utf8.h"
#include "data/tokenizer/hf.h"
#include "json_ids.h"

#define HF "tests/golden/hf/"

static const char *const shapes[] = {"gpt2",    "llama3", "neox", "roberta", "falcon", "llama2",
                                     "mistral", "bert",   "t5",   "words",   "clip",   "added"};
enum { SHAPE_COUNT = sizeof shapes / sizeof shapes[0] };

static void need_normal_forms(void) {
    if (normal_form_require() < 0)
        test_skip("this build has no normal forms");
}

TEST(golden_ids) {
    need_normal_forms();
    for (int i = 0; i < SHAPE_COUNT; i++) {
        char file[64], cases[64];
        snprintf(file, sizeof file, HF "%s.json", shapes[i]);
        snprintf(cases, sizeof cases, HF "%s.jsonl", shapes[i]);
        struct tokenizer_options options = {.type = "HuggingFaceTokenizer", .model_file = file};
        EXPECT(json_ids_check_file(&options, "ids", cases) > 20);
        options.hf_without_specials = true;
        EXPECT(json_ids_check_file(&options, "plain", cases) > 20);
    }
}

// Pipelines composed step by step, each with the same model (tests/golden/make_hf_steps.py).
static void check_steps(const struct json *line, void *context) {
    const struct buffer *model = context;
    const struct json *steps = json_member(line, "steps"), *texts = json_member(line, "texts");
    const struct json *ids = json_member(line, "ids");
    struct buffer file = {0};
    buffer_printf(&file, "{\"model\": %s, %s}", model->data, steps->string);
    struct hf *hf;
    struct hf_state state;
    struct token_list list = {0};
    EXPECT_OK(hf_parse(&hf, file.data, file.length, steps->string));
    hf_state_init(&state);
    for (size_t i = 0; i < texts->count; i++) {
        const struct json *expected = &ids->items[i];
        list.count = 0;
        EXPECT_OK(hf_encode(hf, &state, texts->items[i].string, texts->items[i].length, &list));
        bool same = (size_t)list.count == expected->count;
        for (size_t k = 0; same && k < expected->count; k++)
            same = list.ids[k] == (int32_t)expected->items[k].number;
        if (!same)
            test_fail("%s: \"%s\": other ids", steps->string, texts->items[i].string);
    }
    hf_state_free(&state);
    token_list_free(&list);
    hf_free(hf);
    buffer_free(&file);
}

TEST(steps_give_golden_ids) {
    need_normal_forms();
    struct buffer model = {0};
    EXPECT_OK(file_read_all(HF "steps_model.json", (size_t)1 << 20, &model));
    buffer_append_byte(&model, 0);
    for_each_case(HF "steps.jsonl", check_steps, &model);
    buffer_free(&model);
}

// Our decoding returns the bytes unchanged; the library turns those that are not UTF-8 into U+FFFD.
static void replace_ill_formed(struct buffer *text) {
    struct buffer out = {0};
    for (size_t at = 0; at < text->length;) {
        uint32_t character;
        char bytes[4];
        at += utf8_decode((const unsigned char *)text->data + at, text->length - at, &character, NULL);
        buffer_append(&out, bytes, utf8_encode(character, bytes));
    }
    buffer_free(text);
    *text = out;
}

static void check_decoded(const struct json *line, void *context) {
    const struct json *ids = json_member(line, "ids"), *decoded = json_member(line, "decoded");
    struct token_list list = {0};
    struct buffer text = {0};
    for (size_t i = 0; i < ids->count; i++)
        token_list_append(&list, (int32_t)ids->items[i].number);
    EXPECT_OK(tokenizer_decode(context, list.ids, list.count, &text));
    replace_ill_formed(&text);
    if (text.length != decoded->length || memcmp(buffer_string(&text), decoded->string, text.length) != 0)
        test_fail("decoded \"%s\", expected \"%s\"", buffer_string(&text), decoded->string);
    token_list_free(&list);
    buffer_free(&text);
}

TEST(golden_texts) {
    need_normal_forms();
    for (int i = 0; i < SHAPE_COUNT; i++) {
        char file[64], cases[64];
        snprintf(file, sizeof file, HF "%s.json", shapes[i]);
        snprintf(cases, sizeof cases, HF "%s.jsonl", shapes[i]);
        struct tokenizer_options options = {.type = "HuggingFaceTokenizer", .model_file = file};
        struct tokenizer *tokenizer;
        EXPECT_OK(tokenizer_open(&tokenizer, &options));
        for_each_case(cases, check_decoded, tokenizer);
        tokenizer_free(tokenizer);
    }
}

// The dedicated code must give the same result as the parts.
TEST(shortcuts_change_nothing) {
    need_normal_forms();
    static const char *const files[] = {"gpt2", "llama3", "neox", "roberta", "bert"};
    for (int i = 0; i < 5; i++) {
        char file[64];
        snprintf(file, sizeof file, HF "%s.json", files[i]);
        struct buffer json = {0}, text = {0};
        struct hf *hf;
        EXPECT_OK(file_read_all(file, (size_t)1 << 24, &json));
        EXPECT_OK(hf_parse(&hf, json.data, json.length, file));
        EXPECT(hf->is_bert || hf->byte_splitter);
        struct hf_state fast, slow;
        struct token_list ids = {0}, expected = {0};
        hf_state_init(&fast);
        hf_state_init(&slow);
        uint64_t random = 5;
        for (int round = 0; round < 200; round++) {
            random_bytes(&random, &text, 200);
            ids.count = expected.count = 0;
            EXPECT_OK(hf_encode(hf, &fast, text.data, text.length, &ids));
            bool is_bert = hf->is_bert;
            const struct splitter *splitter = hf->byte_splitter;
            hf->is_bert = false;
            hf->byte_splitter = NULL;
            EXPECT_OK(hf_encode(hf, &slow, text.data, text.length, &expected));
            hf->is_bert = is_bert;
            hf->byte_splitter = splitter;
            expect_ids(&ids, expected.ids, expected.count);
        }
        hf_state_free(&fast);
        hf_state_free(&slow);
        token_list_free(&ids);
        token_list_free(&expected);
        hf_free(hf);
        buffer_free(&json);
        buffer_free(&text);
    }
}

TEST(end_of_document) {
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {.type = "HuggingFaceTokenizer", .model_file = HF "gpt2.json"};
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    EXPECT_INT(tokenizer_vocab_size(tokenizer), 401);
    EXPECT_INT(tokenizer_eod(tokenizer), 400);
    tokenizer_free(tokenizer);
    options.model_file = HF "words.json";
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    EXPECT_INT(tokenizer_eod(tokenizer), -1);
    tokenizer_free(tokenizer);
    char folder[] = "/tmp/test_hf_XXXXXX", path[64];
    EXPECT(mkdtemp(folder));
    struct buffer json = {0};
    EXPECT_OK(file_read_all(HF "llama2.json", (size_t)1 << 24, &json));
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    EXPECT_OK(file_write_all(path, json.data, json.length));
    snprintf(path, sizeof path, "%s/tokenizer_config.json", folder);
    static const char config[] = "{\"eos_token\": {\"content\": \"<s>\"}}";
    EXPECT_OK(file_write_all(path, config, sizeof config - 1));
    options.model_file = folder;
    EXPECT_OK(tokenizer_open(&tokenizer, &options));
    EXPECT_INT(tokenizer_eod(tokenizer), 1);
    tokenizer_free(tokenizer);
    EXPECT_OK(file_remove_tree(folder));
    buffer_free(&json);
}

// Since core 0.15 Megatron opens GPT-2's and BERT's files with the library.
TEST(other_files_as_today) {
    need_normal_forms();
    struct tokenizer_options options = {
        .type = "BertWordPieceCase", .vocab_file = "tests/golden/wordpiece/vocab.txt", .as_today = true};
    struct json_ids open = json_ids_open(&options, "");
    struct token_list ids = {0};
    EXPECT_INT(tokenizer_vocab_size(open.tokenizer), 520);
    EXPECT_INT(tokenizer_eod(open.tokenizer), 3);
    EXPECT_OK(tokenizer_encode(open.encoder, "[MASK]<extra_id_99>", 19, &ids));
    expect_ids(&ids, (const int32_t[]){2, 4, 519, 3}, 4);
    json_ids_close(&open);
    options = (struct tokenizer_options){
        .vocab_file = GOLDEN "vocab.json", .merge_file = GOLDEN "merges.txt", .as_today = true};
    open = json_ids_open(&options, "");
    ids.count = 0;
    EXPECT_OK(tokenizer_encode(open.encoder, "<|endoftext|>!", 14, &ids));
    expect_ids(&ids, (const int32_t[]){599, 0}, 2);
    EXPECT_INT(tokenizer_eod(open.tokenizer), 599);
    json_ids_close(&open);
    token_list_free(&ids);
}

// A file with a small BPE model and the given parts.
static void expect_bad(const char *parts, const char *message) {
    struct buffer json = {0};
    buffer_printf(&json, "{%s}", parts);
    struct hf *hf;
    EXPECT_ERROR(hf_parse(&hf, json.data, json.length, "t.json"), message);
    EXPECT(hf == NULL);
    buffer_free(&json);
}

#define MODEL "\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"ab\": 2}, \"merges\": [\"a b\"]}"

TEST(what_is_not_supported_is_named) {
    expect_bad("", "t.json: model: is missing");
    expect_bad(MODEL ", \"decoder\": null, \"decoder\": null", "t.json: decoder: it, or a part of it, is there twice");
    expect_bad(MODEL ", \"normalizer\": {\"type\": \"Lowercase\", \"type\": \"NFC\"}", "t.json: normalizer: it, or");
    expect_bad("\"model\": {\"type\": \"BPE\", \"type\": \"WordLevel\", \"vocab\": {}}", "t.json: type: it, or a part");
    expect_bad("\"model\": {\"type\": \"Neural\", \"vocab\": {}}", "the model type \"Neural\" is not supported");
    expect_bad(MODEL ", \"normalizer\": {\"type\": \"Rot13\"}", "the normalizer \"Rot13\" is not supported");
    expect_bad(MODEL ", \"normalizer\": {}", "without a \"type\"");
    expect_bad(MODEL ", \"normalizer\": {\"type\": \"Sequence\"}", "a Sequence without its list");
    expect_bad(MODEL ", \"pre_tokenizer\": {\"type\": \"UnicodeScripts\"}",
               "the pre_tokenizer \"UnicodeScripts\" is not supported");
    expect_bad(MODEL ", \"decoder\": {\"type\": \"CTC\"}", "the decoder \"CTC\" is not supported");
    expect_bad(MODEL ", \"post_processor\": {\"type\": \"Odd\"}", "the post_processor \"Odd\" is not supported");
    expect_bad(MODEL ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"(?P<x>a)\"}}",
               "the group (?P at byte 0");
    expect_bad(MODEL ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"Regex\": \"\\\\p{Klingon}+\"}}",
               "the property \\p{Klingon} at byte 0");
    expect_bad(MODEL
               ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Replace\", \"pattern\": "
               "{\"Regex\": \"^\"}, \"content\": \"a\"}, {\"type\": \"Lowercase\"}]}",
               "use Prepend");
    expect_bad(MODEL ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {}}", "neither a String nor a Regex");
    expect_bad(MODEL
               ", \"pre_tokenizer\": {\"type\": \"Split\", \"pattern\": {\"String\": \"a\"}, \"behavior\": \"Odd\"}",
               "the behavior \"Odd\"");
    expect_bad(MODEL ", \"pre_tokenizer\": {\"type\": \"Metaspace\"}", "replacement: is missing");
    expect_bad(MODEL ", \"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"A\"}", "is not base64");
    expect_bad(MODEL ", \"normalizer\": {\"type\": \"Precompiled\", \"precompiled_charsmap\": \"/////w==\"}",
               "normalization rules are damaged");
}

// Ids of tokenizers 0.23 for tokens that share an id, and for a token that occurs twice.
TEST(ids_may_be_shared) {
    static const struct {
        const char *model, *text;
        int32_t ids[8];
        int64_t count;
    } rows[] = {
        {"{\"type\": \"WordLevel\", \"unk_token\": \"u\", \"vocab\": {\"u\": 0, \"a\": 1, \"b\": 1, \"c\": 2, \"c\": "
         "3}}",
         "a b c <s>",
         {1, 1, 3, 4},
         4},
        {"{\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"b\": 1, \"c\": 1, \"ab\": 2, \"abb\": 2, \"d\": 5, \"d\": 6}, "
         "\"merges\": [\"a b\", \"ab b\"]}",
         "abb acc abc d <s>",
         {2, 2, 2, 6, 6},
         5},
        {"{\"type\": \"WordPiece\", \"unk_token\": \"u\", \"vocab\": {\"u\": 0, \"a\": 1, \"##b\": 1, \"##c\": 2, "
         "\"ab\": 3, "
         "\"b\": 3}, \"continuing_subword_prefix\": \"##\", \"max_input_chars_per_word\": 100}",
         "abb acc abc d",
         {3, 1, 1, 2, 2, 3, 2, 0},
         8},
        {"{\"type\": \"Unigram\", \"unk_id\": 0, \"vocab\": [[\"<unk>\", 0], [\"a\", -1], [\"a\", -2], [\"b\", -1], "
         "[\"<unk>\", 0]]}",
         "a b x <s>",
         {2, 3, 0, 5},
         4},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct buffer json = {0};
        struct hf *hf;
        struct hf_state state;
        struct token_list ids = {0};
        buffer_printf(&json,
                      "{\"model\": %s, \"pre_tokenizer\": {\"type\": \"Whitespace\"}, \"added_tokens\": "
                      "[{\"content\": \"<s>\", \"normalized\": false}]}",
                      rows[i].model);
        EXPECT_OK(hf_parse(&hf, json.data, json.length, "shared"));
        hf_state_init(&state);
        EXPECT_OK(hf_encode(hf, &state, rows[i].text, strlen(rows[i].text), &ids));
        expect_ids(&ids, rows[i].ids, rows[i].count);
        hf_state_free(&state);
        token_list_free(&ids);
        hf_free(hf);
        buffer_free(&json);
    }
}

TEST(bad_models) {
    expect_bad("\"model\": {\"type\": \"BPE\", \"vocab\": 1, \"merges\": []}", "is not an object of tokens");
    expect_bad("\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": -1}, \"merges\": []}", "not a non-negative integer");
    expect_bad("\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 99999999}, \"merges\": []}", "far above");
    expect_bad("\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}}", "\"merges\" is not a list");
    expect_bad("\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a a\"]}", "not in the vocabulary");
    expect_bad("\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [\"a\"]}", "separated by one space");
    expect_bad("\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [1]}", "neither a string nor a pair");
    expect_bad("\"model\": {\"type\": \"BPE\", \"vocab\": {\"a\": 0}, \"merges\": [], \"dropout\": 0.1}", "random");
    expect_bad("\"model\": {\"type\": \"Unigram\", \"vocab\": {}}", "not a list of pieces");
    expect_bad("\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\"]]}", "[piece, score]");
    expect_bad("\"model\": {\"type\": \"Unigram\", \"vocab\": [[\"a\", 0]], \"unk_id\": 1}", "\"unk_id\"");
    expect_bad(MODEL ", \"added_tokens\": [{\"id\": 1}]", "without \"content\"");
    expect_bad(MODEL ", \"post_processor\": {\"type\": \"BertProcessing\", \"sep\": [\"x\"]}", "not [token, id]");
    expect_bad(MODEL ", \"post_processor\": {\"type\": \"TemplateProcessing\", \"single\": []}", "exactly once");
    struct tokenizer *tokenizer;
    struct tokenizer_options options = {.type = "HuggingFaceTokenizer"};
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "--tokenizer-model");
    options.model_file = "tests/golden";
    EXPECT_ERROR(tokenizer_open(&tokenizer, &options), "tests/golden/tokenizer.json");
}

// A few lines that turn one letter into a text of any length: steps that multiply each other, in encoding and in
// decoding, and a template of thousands of tokens.
TEST(small_files_make_no_huge_texts) {
    struct buffer steps = {0}, json = {0}, out = {0};
    struct hf_state state;
    struct token_list ids = {0};
    for (int i = 0; i < 40; i++)
        buffer_printf(&steps, "%s{\"type\": \"Replace\", \"pattern\": {\"String\": \"a\"}, \"content\": \"aaaa\"}",
                      i ? ", " : "");
    buffer_printf(&json,
                  "{" MODEL ", \"normalizer\": {\"type\": \"Sequence\", \"normalizers\": [%s]}, "
                  "\"decoder\": {\"type\": \"Sequence\", \"decoders\": [%s]}}",
                  steps.data, steps.data);
    struct hf *hf;
    EXPECT_OK(hf_parse(&hf, json.data, json.length, "t.json"));
    hf_state_init(&state);
    EXPECT_ERROR(hf_encode(hf, &state, "a", 1, &ids), "t.json: normalizer: makes a text more than 64 times as long");
    EXPECT(state.normal.length < (4 << 20) && state.swap.length < (4 << 20));
    EXPECT_ERROR(hf_decode(hf, (const int32_t[]){0}, 1, &out), "t.json: decoder: makes a text more than 64 times");
    EXPECT_INT(out.length, 0);
    EXPECT_OK(hf_encode(hf, &state, "b", 1, &ids));
    EXPECT_OK(hf_decode(hf, (const int32_t[]){1}, 1, &out));
    hf_state_free(&state);
    hf_free(hf);
    buffer_clear(&steps);
    for (int i = 0; i < 1002; i++)
        buffer_append_string(&steps, "{\"SpecialToken\": {\"id\": \"a\"}}, ");
    buffer_clear(&json);
    buffer_printf(&json,
                  MODEL
                  ", \"post_processor\": {\"type\": \"TemplateProcessing\", \"special_tokens\": {\"a\": {\"ids\": "
                  "[0]}}, \"single\": [%s{\"Sequence\": {\"id\": \"A\"}}]}",
                  steps.data);
    expect_bad(json.data, "thousands of tokens around a text");
    token_list_free(&ids);
    buffer_free(&steps);
    buffer_free(&json);
    buffer_free(&out);
}

// A file truncated anywhere is an error, never a crash.
TEST(truncated_files) {
    struct buffer json = {0};
    EXPECT_OK(file_read_all(HF "words.json", (size_t)1 << 24, &json));
    for (size_t length = 0; length + 2 < json.length; length += 7) {
        struct hf *hf;
        EXPECT_ERROR(hf_parse(&hf, json.data, length, "t.json"), "t.json");
    }
    buffer_free(&json);
}

TEST(llama2_known_ids) {
    char *path = shared_file("llama2/tokenizer.json");
    struct tokenizer_options options = {.type = "HuggingFaceTokenizer", .model_file = path};
    struct json_ids open = json_ids_open(&options, "");
    EXPECT_INT(tokenizer_vocab_size(open.tokenizer), 32000);
    EXPECT_INT(tokenizer_eod(open.tokenizer), 2);
    struct token_list ids = {0};
    EXPECT_OK(tokenizer_encode(open.encoder, "Hello world", 11, &ids));
    expect_ids(&ids, (const int32_t[]){1, 15043, 3186}, 3);
    token_list_free(&ids);
    json_ids_close(&open);
    free(path);
}

TEST_MAIN(TEST_CASE(golden_ids), TEST_CASE(steps_give_golden_ids), TEST_CASE(golden_texts),
          TEST_CASE(shortcuts_change_nothing), TEST_CASE(end_of_document), TEST_CASE(other_files_as_today),
          TEST_CASE(what_is_not_supported_is_named), TEST_CASE(ids_may_be_shared), TEST_CASE(bad_models),
          TEST_CASE(small_files_make_no_huge_texts), TEST_CASE(truncated_files), TEST_CASE(llama2_known_ids))
