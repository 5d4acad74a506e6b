// tokenizer.json as the trainer of Hugging Face's library would have written it.
#include "data/tokenizer/hf_save.h"
#include "data/tokenizer/vocabulary.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include <string.h>

static const char end_of_text[] = "<|endoftext|>";

static void write_flag(struct json_writer *json, const char *key, bool value) {
    json_key(json, key);
    json_bool(json, value);
}

static void write_null(struct json_writer *json, const char *key) {
    json_key(json, key);
    json_null(json);
}

static void write_string(struct json_writer *json, const char *key, const char *value) {
    json_key(json, key);
    json_cstring(json, value);
}

static void write_added(struct json_writer *json, const struct vocabulary *vocabulary) {
    int32_t id = vocabulary_find(vocabulary, end_of_text, sizeof end_of_text - 1);
    json_key(json, "added_tokens");
    json_begin_array(json);
    if (id >= 0) {
        json_begin_object(json);
        json_key(json, "id");
        json_int(json, id);
        write_string(json, "content", end_of_text);
        write_flag(json, "single_word", false);
        write_flag(json, "lstrip", false);
        write_flag(json, "rstrip", false);
        write_flag(json, "normalized", false);
        write_flag(json, "special", true);
        json_end_object(json);
    }
    json_end_array(json);
}

static void write_byte_level(struct json_writer *json, const char *key, bool prefix_space) {
    json_key(json, key);
    json_begin_object(json);
    write_string(json, "type", "ByteLevel");
    write_flag(json, "add_prefix_space", prefix_space);
    write_flag(json, "trim_offsets", true);
    write_flag(json, "use_regex", true);
    json_end_object(json);
}

static void write_vocabulary(struct json_writer *json, const struct vocabulary *vocabulary) {
    json_key(json, "vocab");
    json_begin_object(json);
    for (int64_t id = 0; id < vocabulary->size; id++) {
        size_t length;
        const char *string = vocabulary_string(vocabulary, (int32_t)id, &length);
        if (!string)
            continue;
        json_key(json, string);
        json_int(json, id);
    }
    json_end_object(json);
}

// Lines "LEFT RIGHT" become pairs; the line #version is left out.
static int write_merges(struct json_writer *json, const struct buffer *merges, const char *name) {
    json_key(json, "merges");
    json_begin_array(json);
    const char *at = buffer_string(merges), *end = at + merges->length;
    for (bool first = true; at < end; first = false) {
        const char *next = memchr(at, '\n', (size_t)(end - at));
        size_t length = (size_t)((next ? next : end) - at);
        const char *blank = memchr(at, ' ', length);
        bool comment = first && length >= 8 && memcmp(at, "#version", 8) == 0;
        if (!comment && length > 0) {
            if (!blank)
                return error_set("%s: \"%.*s\" is no merge", name, length < 60 ? (int)length : 60, at);
            json_begin_array(json);
            json_string(json, at, (size_t)(blank - at));
            json_string(json, blank + 1, length - (size_t)(blank + 1 - at));
            json_end_array(json);
        }
        at = next ? next + 1 : end;
    }
    json_end_array(json);
    return 0;
}

static int write_model(struct json_writer *json, const struct vocabulary *vocabulary, const struct buffer *merges,
                       const char *merge_file) {
    json_key(json, "model");
    json_begin_object(json);
    write_string(json, "type", "BPE");
    write_null(json, "dropout");
    write_null(json, "unk_token");
    write_null(json, "continuing_subword_prefix");
    write_null(json, "end_of_word_suffix");
    write_flag(json, "fuse_unk", false);
    write_flag(json, "byte_fallback", false);
    write_flag(json, "ignore_merges", false);
    write_vocabulary(json, vocabulary);
    TRY(write_merges(json, merges, merge_file));
    json_end_object(json);
    return 0;
}

int hf_write_bpe(const char *vocab_file, const char *merge_file, struct buffer *out) {
    enum { LARGEST_FILE = 1 << 30 };
    struct vocabulary vocabulary;
    struct buffer merges = {0};
    TRY(vocabulary_read_json(&vocabulary, vocab_file));
    int status = file_read_all(merge_file, LARGEST_FILE, &merges);
    if (status == 0) {
        struct json_writer json = {.out = out, .indent = 1};
        json_begin_object(&json);
        write_string(&json, "version", "1.0");
        write_null(&json, "truncation");
        write_null(&json, "padding");
        write_added(&json, &vocabulary);
        write_null(&json, "normalizer");
        write_byte_level(&json, "pre_tokenizer", false);
        write_byte_level(&json, "post_processor", false);
        write_byte_level(&json, "decoder", true);
        status = write_model(&json, &vocabulary, &merges, merge_file);
        json_end_object(&json);
        buffer_append_byte(out, '\n');
    }
    vocabulary_free(&vocabulary);
    buffer_free(&merges);
    return status;
}

int hf_save_bpe(const char *vocab_file, const char *merge_file, const char *json_file) {
    struct buffer text = {0};
    int status = hf_write_bpe(vocab_file, merge_file, &text);
    if (status == 0)
        status = file_write_all(json_file, text.data, text.length);
    buffer_free(&text);
    return status;
}
