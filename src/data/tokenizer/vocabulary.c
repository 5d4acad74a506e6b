// Reads vocab.json. The whole file is checked here, so that users of the vocabulary can rely on unique ids that are
// dense enough to index arrays.
#include "data/tokenizer/vocabulary.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { VOCABULARY_LIMIT_BYTES = 1 << 30, SHOWN_BYTES = 60 };

// Ids may have gaps, but an id far beyond the number of tokens means a damaged file, and would cost memory.
static int64_t largest_id(int64_t count) {
    int64_t most = count * 4 + 4096;
    return most < INT32_MAX - 1 ? most : INT32_MAX - 1;
}

// How much of a token to print in messages.
static int shown(size_t length) {
    return length < SHOWN_BYTES ? (int)length : SHOWN_BYTES;
}

static int read_id(const struct json *value, const struct json_key *key, int64_t count, const char *path, int32_t *id) {
    double number = value->type == JSON_NUMBER ? value->number : -1;
    if (!(number >= 0 && number <= INT32_MAX - 1) || number != (double)(int32_t)number)
        return error_set("%s: the id of token \"%.*s\" is not an integer from 0 to %d; this is not a vocabulary file "
                         "{\"token\": id, …}",
                         path, shown(key->length), key->string, INT32_MAX - 1);
    if (number > (double)largest_id(count))
        return error_set("%s: token \"%.*s\" has id %.0f, but there are only %" PRId64
                         " tokens; the file is damaged or not a vocabulary",
                         path, shown(key->length), key->string, number, count);
    *id = (int32_t)number;
    return 0;
}

static size_t find_slot(const struct vocabulary *vocabulary, const char *string, size_t length) {
    size_t slot = (size_t)hash_bytes(string, length, 0) & vocabulary->slot_mask;
    for (;; slot = (slot + 1) & vocabulary->slot_mask) {
        int32_t id = vocabulary->slots[slot];
        if (id < 0)
            return slot;
        const struct vocabulary_token *token = &vocabulary->tokens[id];
        if (token->length == length && memcmp(vocabulary->text.data + token->begin, string, length) == 0)
            return slot;
    }
}

static int add_token(struct vocabulary *vocabulary, const struct json_key *key, int32_t id, const char *path) {
    if (key->length == 0)
        return error_set("%s: the token with id %" PRId32 " is the empty string; remove it", path, id);
    size_t length;
    const char *other = vocabulary_string(vocabulary, id, &length);
    if (other)
        return error_set("%s: tokens \"%.*s\" and \"%.*s\" have the same id %" PRId32 "; each token needs its own",
                         path, shown(length), other, shown(key->length), key->string, id);
    size_t slot = find_slot(vocabulary, key->string, key->length);
    if (vocabulary->slots[slot] >= 0)
        return error_set("%s: token \"%.*s\" appears twice, with ids %" PRId32 " and %" PRId32 "; remove one", path,
                         shown(key->length), key->string, vocabulary->slots[slot], id);
    vocabulary->tokens[id] = (struct vocabulary_token){vocabulary->text.length, key->length};
    buffer_append(&vocabulary->text, key->string, key->length);
    buffer_append_byte(&vocabulary->text, 0);
    vocabulary->slots[slot] = id;
    return 0;
}

static int fill(struct vocabulary *vocabulary, const struct json *root, const char *path) {
    vocabulary->count = (int64_t)root->count;
    int32_t id = 0, highest = -1;
    for (size_t i = 0; i < root->count; i++) {
        TRY(read_id(&root->items[i], &root->keys[i], vocabulary->count, path, &id));
        highest = id > highest ? id : highest;
    }
    vocabulary->size = (int64_t)highest + 1;
    vocabulary->tokens = memory_alloc((size_t)vocabulary->size * sizeof *vocabulary->tokens);
    size_t slots = 16;
    while (slots < root->count * 2)
        slots *= 2;
    vocabulary->slot_mask = slots - 1;
    vocabulary->slots = memory_alloc(slots * sizeof *vocabulary->slots);
    memset(vocabulary->slots, 0xFF, slots * sizeof *vocabulary->slots);
    for (size_t i = 0; i < root->count; i++) {
        TRY(read_id(&root->items[i], &root->keys[i], vocabulary->count, path, &id));
        TRY(add_token(vocabulary, &root->keys[i], id, path));
    }
    return 0;
}

static int take(struct vocabulary *vocabulary, struct json *root, const char *name) {
    int status;
    *vocabulary = (struct vocabulary){0};
    if (root->type != JSON_OBJECT || root->count == 0)
        status =
            error_set("%s: not a vocabulary, which is a JSON object {\"token\": id, …} with at least one token", name);
    else
        status = fill(vocabulary, root, name);
    json_free(root);
    if (status < 0)
        vocabulary_free(vocabulary);
    return status;
}

int vocabulary_read_json(struct vocabulary *vocabulary, const char *path) {
    struct json *root;
    TRY(json_parse_file(&root, path, VOCABULARY_LIMIT_BYTES));
    return take(vocabulary, root, path);
}

int vocabulary_parse_json(struct vocabulary *vocabulary, const char *text, size_t length, const char *name) {
    struct json *root;
    TRY(json_parse(&root, text, length, name));
    return take(vocabulary, root, name);
}

void vocabulary_free(struct vocabulary *vocabulary) {
    buffer_free(&vocabulary->text);
    free(vocabulary->tokens);
    free(vocabulary->slots);
    *vocabulary = (struct vocabulary){0};
}

int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *string, size_t length) {
    return length ? vocabulary->slots[find_slot(vocabulary, string, length)] : -1;
}

const char *vocabulary_string(const struct vocabulary *vocabulary, int32_t id, size_t *length) {
    const struct vocabulary_token *token = &vocabulary->tokens[id];
    *length = token->length;
    return token->length ? vocabulary->text.data + token->begin : NULL;
}
