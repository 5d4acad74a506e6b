// See hf_tokenizer_files.h.
#include "formats/hf_tokenizer_files.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "store/extra.h"
#include <inttypes.h>
#include <string.h>

enum { LARGEST_FILE = 1 << 28 };

struct end {
    int32_t id;
    const char *text;
    size_t length;
};

struct json *hf_read_beside(const struct model_source *source, const char *name) {
    struct json *root = NULL;
    for (size_t i = 0; i < source->files.count && !root; i++)
        if (strcmp(extra_name(&source->files.items[i]), name) == 0 &&
            json_parse_own(&root, source->files.items[i].path, LARGEST_FILE) < 0)
            error_clear();
    return root;
}

const struct json *hf_token_text(const struct json *root, const char *key) {
    const struct json *token = root ? json_member(root, key) : NULL;
    if (token && token->type == JSON_OBJECT)
        token = json_member(token, "content");
    return token && token->type == JSON_STRING && token->length > 0 ? token : NULL;
}

bool hf_end_is_other(const struct model_source *source) {
    const char *named = source->config.data.eod_token;
    if (!named || source->config.model.form != CONFIG_GPT)
        return false;
    OWNED struct json *config = hf_read_beside(source, "tokenizer_config.json");
    OWNED struct json *map = hf_read_beside(source, "special_tokens_map.json");
    const struct json *theirs = hf_token_text(config, "eos_token");
    theirs = theirs ? theirs : hf_token_text(map, "eos_token");
    return !theirs || strcmp(theirs->string, named) != 0;
}

static bool is_text(const char *text, size_t length, const char *wanted) {
    return length == strlen(wanted) && memcmp(text, wanted, length) == 0;
}

static bool has_string(const struct json *value, const char *wanted) {
    bool is_there = value && value->type == JSON_STRING && is_text(value->string, value->length, wanted);
    bool has_items = value && (value->type == JSON_ARRAY || value->type == JSON_OBJECT);
    for (size_t i = 0; has_items && i < value->count && !is_there; i++)
        is_there = has_string(&value->items[i], wanted) ||
                   (value->type == JSON_OBJECT && is_text(value->keys[i].string, value->keys[i].length, wanted));
    return is_there;
}

// Whether transformers already finds this token's text anywhere in a text. Naming an ordinary token as the end would
// make it do so, which gives other ids.
static bool is_special(const struct model_source *source, const char *token) {
    static const char *const names[] = {"tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
                                        "tokenizer.json"};
    bool is_there = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !is_there; i++) {
        OWNED struct json *root = hf_read_beside(source, names[i]);
        is_there = has_string(i == 3 ? json_member(root, "added_tokens") : root, token);
    }
    return is_there;
}

// Writes a token by its text; existing properties are kept.
static void write_token(struct json_writer *json, const struct json *before, const struct end *end) {
    if (!before || before->type != JSON_OBJECT) {
        json_string(json, end->text, end->length);
        return;
    }
    json_begin_object(json);
    for (size_t i = 0; i < before->count; i++) {
        json_key_bytes(json, before->keys[i].string, before->keys[i].length);
        if (strcmp(before->keys[i].string, "content") == 0)
            json_string(json, end->text, end->length);
        else
            json_value(json, &before->items[i]);
    }
    json_end_object(json);
}

// Writes a token by its id. If several ids end a text, the new one goes first.
static void write_id(struct json_writer *json, const struct json *before, const struct end *end) {
    if (!before || before->type != JSON_ARRAY) {
        json_int(json, end->id);
        return;
    }
    json_begin_array(json);
    json_int(json, end->id);
    for (size_t i = 0; i < before->count; i++)
        if (before->items[i].type != JSON_NUMBER || before->items[i].number != (double)end->id)
            json_value(json, &before->items[i]);
    json_end_array(json);
}

struct edit {
    const char *name, *key;
    void (*write)(struct json_writer *json, const struct json *before, const struct end *end);
    bool adds;  // adds the member if the file lacks it
};

static int rewrite(const struct edit *edit, const struct end *end, const struct json *root, const char *path) {
    const struct json *before = json_member(root, edit->key);
    if (root->type != JSON_OBJECT || (!before && !edit->adds))
        return 0;
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct json_writer json = {.out = &text, .indent = 2};
    json_begin_object(&json);
    for (size_t i = 0; i < root->count; i++) {
        json_key_bytes(&json, root->keys[i].string, root->keys[i].length);
        if (&root->items[i] == before)
            edit->write(&json, before, end);
        else
            json_value(&json, &root->items[i]);
    }
    if (!before) {
        json_key(&json, edit->key);
        edit->write(&json, NULL, end);
    }
    json_end_object(&json);
    buffer_append_byte(&text, '\n');
    return file_write_all(path, text.data, text.length);
}

int hf_end_write(const char *folder, const struct model_source *source, const struct tokenizer *tokenizer) {
    static const struct edit edits[] = {{"generation_config.json", "eos_token_id", write_id, false},
                                        {"config.json", "eos_token_id", write_id, true},
                                        {"tokenizer_config.json", "eos_token", write_token, true},
                                        {"special_tokens_map.json", "eos_token", write_token, true}};
    struct end end = {.id = tokenizer_eod(tokenizer)};
    end.text = tokenizer_token(tokenizer, end.id, &end.length);
    size_t count = is_special(source, source->config.data.eod_token) ? 4 : 2;
    int result = 0;
    if (count == 2)
        log_warn("--eod-token \"%s\" is an ordinary token: config.json ends texts with its id %" PRId32
                 ", and the tokenizer keeps its own eos_token, because transformers would split texts at it",
                 source->config.data.eod_token, end.id);
    for (size_t i = 0; i < count && result == 0 && end.text; i++) {
        OWNED char *path = file_join(folder, edits[i].name);
        OWNED struct json *root = NULL;
        if (file_exists(path))
            result = json_parse_own(&root, path, LARGEST_FILE);
        if (result == 0 && root)
            result = rewrite(&edits[i], &end, root, path);
    }
    return result;
}
