// Lines of vocab.txt. Python's text files end a line at \n, \r or \r\n, and Python's strip knows 29 spaces.
#include "data/tokenizer/wordpiece_vocab.h"
#include "data/tokenizer/unicode_category.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_BYTES = 1 << 26 };

struct vocabulary_line {
    const char *text;
    size_t length;
};

static bool is_python_space(uint32_t c) {
    return unicode_is_white_space(c) || (c >= 0x1C && c <= 0x1F);
}

static struct vocabulary_line strip(struct vocabulary_line line) {
    const unsigned char *text = (const unsigned char *)line.text;
    size_t first = line.length, last = 0;
    for (size_t at = 0; at < line.length;) {
        uint32_t character;
        size_t bytes = utf8_decode(text + at, line.length - at, &character, NULL);
        if (!is_python_space(character)) {
            first = at < first ? at : first;
            last = at + bytes;
        }
        at += bytes;
    }
    return first < last ? (struct vocabulary_line){line.text + first, last - first}
                        : (struct vocabulary_line){line.text, 0};
}

static struct vocabulary_line next_line(const char **at, const char *end) {
    struct vocabulary_line line = {*at, 0};
    while (*at < end && **at != '\n' && **at != '\r')
        ++*at;
    line.length = (size_t)(*at - line.text);
    if (*at < end)
        *at += **at == '\r' && *at + 1 < end && (*at)[1] == '\n' ? 2 : 1;
    return line;
}

static void add_string(struct wordpiece_vocab *vocab, struct vocabulary_line token) {
    if (vocab->size + 2 > vocab->capacity) {
        vocab->capacity = vocab->capacity * 2 + 1024;
        vocab->begin = memory_realloc(vocab->begin, (size_t)vocab->capacity * sizeof *vocab->begin);
        vocab->begin[0] = 0;
    }
    buffer_append(&vocab->text, token.text, token.length);
    vocab->begin[++vocab->size] = vocab->text.length;
}

static int compare_keys(const void *left, const void *right) {
    const struct trie_key *a = left, *b = right;
    size_t common = a->length < b->length ? a->length : b->length;
    int order = memcmp(a->text, b->text, common);
    if (order == 0 && a->length != b->length)
        order = a->length < b->length ? -1 : 1;
    return order ? order : (a->value > b->value) - (a->value < b->value);
}

// The highest id of equal tokens counts. An empty line is a token too, but no text can contain it.
static void build_trie(struct wordpiece_vocab *vocab) {
    struct trie_key *keys = memory_alloc((size_t)vocab->size * sizeof *keys);
    for (int64_t id = 0; id < vocab->size; id++) {
        keys[id].text = wordpiece_vocab_string(vocab, (int32_t)id, &keys[id].length);
        keys[id].value = (int32_t)id;
    }
    qsort(keys, (size_t)vocab->size, sizeof *keys, compare_keys);
    int64_t kept = 0;
    for (int64_t i = 0; i < vocab->size; i++) {
        bool last = i + 1 == vocab->size || keys[i].length != keys[i + 1].length ||
                    memcmp(keys[i].text, keys[i + 1].text, keys[i].length) != 0;
        vocab->distinct += last;
        if (last && keys[i].length > 0)
            keys[kept++] = keys[i];
    }
    trie_build(&vocab->trie, keys, kept);
    free(keys);
}

int wordpiece_vocab_parse(struct wordpiece_vocab *vocab, const char *text, size_t length, const char *name) {
    size_t bad = utf8_check(text, length);
    if (bad < length)
        return error_set("%s: byte %zu is not UTF-8; this is not a vocab.txt", name, bad);
    if (length == 0 || length > MOST_BYTES)
        return error_set("%s: has %zu bytes; vocab.txt has one token on each line, and %d bytes at most", name, length,
                         MOST_BYTES);
    *vocab = (struct wordpiece_vocab){0};
    for (const char *end = text + length; text < end;)
        add_string(vocab, strip(next_line(&text, end)));
    build_trie(vocab);
    return 0;
}

void wordpiece_vocab_free(struct wordpiece_vocab *vocab) {
    trie_free(&vocab->trie);
    buffer_free(&vocab->text);
    free(vocab->begin);
    *vocab = (struct wordpiece_vocab){0};
}

const char *wordpiece_vocab_string(const struct wordpiece_vocab *vocab, int32_t id, size_t *length) {
    *length = vocab->begin[id + 1] - vocab->begin[id];
    return buffer_string(&vocab->text) + vocab->begin[id];
}

int32_t wordpiece_vocab_append(struct wordpiece_vocab *vocab, const char *string) {
    struct vocabulary_line token = {string, strlen(string)};
    int32_t id = trie_find(&vocab->trie, token.text, token.length);
    if (id >= 0)
        return id;
    // If lines were equal, this id is already that of a line; decoding then gives the line.
    id = (int32_t)vocab->distinct++;
    if (id == vocab->size)
        add_string(vocab, token);
    return id;
}
