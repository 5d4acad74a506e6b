// Writes a trained vocabulary as GPT-2's two files, vocab.json and merges.txt, with bytes as the printable characters
// of byte_map.h, and as tokenizer.json.
#include "data/tokenizer/bpe_train.h"
#include "data/tokenizer/byte_map.h"
#include "data/tokenizer/hf_save.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include <stdlib.h>

static const char end_of_text[] = "<|endoftext|>";

// The tokens as written, one after another.
struct token_strings {
    struct buffer text;
    size_t *begin;  // (token_count + 1)
};

static void append_token(struct buffer *out, const struct token_strings *strings, int32_t id) {
    buffer_append(out, strings->text.data + strings->begin[id], strings->begin[id + 1] - strings->begin[id]);
}

// Tokens are created in the order of their ids, so both parts of a merge exist before its result.
static void spell_tokens(struct token_strings *strings, const struct bpe_merges *merges) {
    struct byte_map map;
    byte_map_init(&map);
    strings->begin = memory_alloc((size_t)(merges->token_count + 1) * sizeof *strings->begin);
    int32_t next = 0;
    for (; next < 256; next++) {
        byte_map_write(&map, &map.in_order[next], 1, &strings->text);
        strings->begin[next + 1] = strings->text.length;
    }
    struct buffer joined = {0};
    for (int64_t i = 0; i < merges->count; i++) {
        const struct bpe_merge *merge = &merges->items[i];
        if (merge->id != next)
            continue;  // the same bytes already have an id
        buffer_clear(&joined);
        append_token(&joined, strings, merge->left);
        append_token(&joined, strings, merge->right);
        buffer_append(&strings->text, joined.data, joined.length);
        strings->begin[++next] = strings->text.length;
    }
    buffer_free(&joined);
    CHECK(next == merges->token_count);
}

static void format_vocabulary(struct buffer *out, const struct token_strings *strings, int64_t token_count) {
    struct json_writer json = {.out = out};
    struct buffer key = {0};
    json_begin_object(&json);
    for (int64_t id = 0; id < token_count; id++) {
        buffer_clear(&key);
        append_token(&key, strings, (int32_t)id);
        json_key(&json, key.data);  // mapped characters are never NUL
        json_int(&json, id);
    }
    json_put_int(&json, end_of_text, token_count);
    json_end_object(&json);
    buffer_append_byte(out, '\n');
    buffer_free(&key);
}

static void format_merges(struct buffer *out, const struct token_strings *strings, const struct bpe_merges *merges) {
    buffer_append_string(out, "#version: 0.2\n");
    for (int64_t i = 0; i < merges->count; i++) {
        append_token(out, strings, merges->items[i].left);
        buffer_append_byte(out, ' ');
        append_token(out, strings, merges->items[i].right);
        buffer_append_byte(out, '\n');
    }
}

// Puts the text of a file on the disk, under its temporary name.
static int finish_file(struct file_writer *writer, const char *path, struct buffer *text) {
    TRY(file_create(writer, path));
    TRY(file_write(writer, text->data, text->length));
    buffer_clear(text);
    return file_finish(writer);
}

static int finish_files(struct file_writer *writers, const struct bpe_files *files, const struct bpe_merges *merges) {
    struct token_strings strings = {0};
    struct buffer text = {0};
    spell_tokens(&strings, merges);
    format_vocabulary(&text, &strings, merges->token_count);
    int status = finish_file(&writers[0], files->vocab, &text);
    if (status == 0) {
        format_merges(&text, &strings, merges);
        status = finish_file(&writers[1], files->merges, &text);
    }
    if (status == 0 && files->json)
        status = hf_write_gpt2(writers[0].temporary, writers[1].temporary, &text);
    if (status == 0 && files->json)
        status = finish_file(&writers[2], files->json, &text);
    buffer_free(&text);
    buffer_free(&strings.text);
    free(strings.begin);
    return status;
}

int bpe_save(const struct bpe_merges *merges, const struct bpe_files *files) {
    enum { MOST_FILES = 3 };
    struct file_writer writers[MOST_FILES] = {0};
    if (finish_files(writers, files, merges) == 0)
        return file_publish_all(writers, files->json ? MOST_FILES : MOST_FILES - 1);
    for (int i = 0; i < MOST_FILES; i++)
        file_abort(&writers[i]);
    return -1;
}
