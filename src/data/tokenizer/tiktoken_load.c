// Reads rank files and builds the table of pairs from them. tiktoken looks up the rank of the joint bytes of two
// neighbours; here a table of all ways to split a token into two tokens gives the same answer for two ids.
#include "data/tokenizer/base64.h"
#include "data/tokenizer/tiktoken.h"
#include "base/error.h"
#include "base/json.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// A longer token than any tokenizer has would take time quadratic in its length.
enum { LONGEST_TOKEN = 4096 };

static int add_token(struct tiktoken_ranks *ranks, const struct buffer *bytes, int64_t rank, const char *place) {
    if (bytes->length == 0 || bytes->length > LONGEST_TOKEN)
        return error_set("%s: a token of %zu bytes; it must have 1 to %d", place, bytes->length, LONGEST_TOKEN);
    if (byte_table_add(&ranks->tokens, bytes->data, bytes->length, (int32_t)rank) < 0)
        return error_set("%s: the same token occurs earlier in the file; remove one", place);
    ranks->size = rank + 1 > ranks->size ? rank + 1 : ranks->size;
    ranks->count++;
    return 0;
}

// An empty token: no text contains it, but its rank is taken.
static int add_empty(struct tiktoken_ranks *ranks, int64_t rank, const char *place) {
    if (ranks->empty >= 0)
        return error_set("%s: the same token occurs earlier in the file; remove one", place);
    ranks->empty = rank;
    ranks->size = rank + 1 > ranks->size ? rank + 1 : ranks->size;
    ranks->count++;
    return 0;
}

// Every byte is a token, no rank occurs twice, and none is so high that the file must be damaged.
static int check_ranks(const struct tiktoken_ranks *ranks, const char *name) {
    int64_t count = ranks->tokens.count;
    if (ranks->size > count * 4 + 4096)
        return error_set("%s: a token has rank %" PRId64 ", but there are only %" PRId64
                         " tokens; the file is damaged or not a rank file",
                         name, ranks->size - 1, count);
    unsigned char *seen = memory_alloc((size_t)ranks->size + 1);
    int status = 0;
    if (ranks->empty >= 0)
        seen[ranks->empty] = 1;
    for (int64_t i = 0; status == 0 && i < count; i++)
        if (seen[ranks->tokens.strings[i].value]++)
            status = error_set("%s: two tokens have the rank %" PRId64 "; each needs its own", name,
                               ranks->tokens.strings[i].value);
    free(seen);
    for (int byte = 0; status == 0 && byte < 256; byte++)
        if (byte_table_find(&ranks->tokens, &(unsigned char){(unsigned char)byte}, 1) < 0)
            status = error_set(
                "%s: byte %d is not a token, so not every text could be encoded; this is not a rank file", name, byte);
    return status;
}

static int finish(struct tiktoken_ranks *ranks, int status, const char *name) {
    if (status == 0)
        status = check_ranks(ranks, name);
    if (status < 0)
        byte_table_free(&ranks->tokens);
    return status;
}

// ---- lines ----

static int parse_line(struct tiktoken_ranks *ranks, const char *line, size_t length, const char *place) {
    const char *blank = memchr(line, ' ', length);
    struct buffer bytes = {0};
    bool is_empty = blank == line + 1 && *line == '=';  // in Whisper's file; Python decodes it to nothing
    if (!blank || (!is_empty && !base64_decode(line, (size_t)(blank - line), &bytes))) {
        buffer_free(&bytes);
        return error_set("%s: not a token in base64, a space and a rank; the file is damaged or not a rank file",
                         place);
    }
    int64_t rank = 0;
    const char *digit = blank + 1, *end = line + length;
    while (digit < end && *digit >= '0' && *digit <= '9' && rank < INT32_MAX)
        rank = rank * 10 + (*digit++ - '0');
    int status = digit < end || digit == blank + 1 || rank >= INT32_MAX
                     ? error_set("%s: the rank is not a number from 0 to %d", place, INT32_MAX - 1)
                 : is_empty ? add_empty(ranks, rank, place)
                            : add_token(ranks, &bytes, rank, place);
    buffer_free(&bytes);
    return status;
}

int tiktoken_parse_ranks(struct tiktoken_ranks *ranks, const char *text, size_t length, const char *name) {
    *ranks = (struct tiktoken_ranks){.empty = -1};
    const char *end = text + length;
    int status = 0;
    struct buffer place = {0};
    for (int64_t line = 1; status == 0 && text < end; line++) {
        const char *next = memchr(text, '\n', (size_t)(end - text));
        size_t bytes = (size_t)((next ? next : end) - text);
        if (bytes > 0 && text[bytes - 1] == '\r')
            bytes--;
        buffer_clear(&place);
        buffer_printf(&place, "%s:%" PRId64, name, line);
        if (bytes > 0)
            status = parse_line(ranks, text, bytes, place.data);
        text = next ? next + 1 : end;
    }
    buffer_free(&place);
    return finish(ranks, status, name);
}

// ---- Megatron's JSON ----

static int parse_entry(struct tiktoken_ranks *ranks, const struct json *entry, int64_t index, const char *place) {
    const struct json *token = json_member(entry, "token_bytes");
    int64_t rank;
    if (!token || token->type != JSON_STRING)
        return error_set("%s has no string \"token_bytes\"", place);
    if (json_get_int(entry, "rank", &rank) < 0)
        return error_context("%s", place);
    if (rank != index)
        return error_set("%s: has rank %" PRId64 "; the list must be in the order of ranks", place, rank);
    struct buffer bytes = {0};
    int status = base64_decode(token->string, token->length, &bytes)
                     ? add_token(ranks, &bytes, rank, place)
                     : error_set("%s: \"token_bytes\" is not base64", place);
    buffer_free(&bytes);
    return status;
}

int tiktoken_parse_list(struct tiktoken_ranks *ranks, const struct json *list, const char *name, int64_t most) {
    *ranks = (struct tiktoken_ranks){.empty = -1};
    int status = 0;
    struct buffer place = {0};
    for (int64_t i = 0; status == 0 && i < most; i++) {
        buffer_clear(&place);
        buffer_printf(&place, "%s: entry %" PRId64, name, i);
        status = parse_entry(ranks, &list->items[i], i, place.data);
    }
    buffer_free(&place);
    return finish(ranks, status, name);
}

int tiktoken_parse_json(struct tiktoken_ranks *ranks, const char *text, size_t length, const char *name, int64_t most) {
    struct json *root;
    *ranks = (struct tiktoken_ranks){.empty = -1};
    TRY(json_parse(&root, text, length, name));
    int status;
    if (root->type != JSON_ARRAY || (int64_t)root->count < most)
        status = error_set("%s: has %zu tokens, but --vocab-size minus the special tokens is %" PRId64
                           "; give a --vocab-size that the file has tokens for",
                           name, root->type == JSON_ARRAY ? root->count : 0, most);
    else
        status = tiktoken_parse_list(ranks, root, name, most);
    json_free(root);
    return status;
}

// ---- pairs ----

struct pair_list {
    struct bpe_pair *items;
    int64_t count, capacity;
};

static void add_pair(struct pair_list *list, struct bpe_pair pair) {
    MEMORY_GROW(list->items, list->count, list->capacity);
    list->items[list->count++] = pair;
}

static void add_cuts(struct pair_list *list, const struct byte_table *tokens, const struct byte_string *token) {
    const char *bytes = tokens->bytes.data + token->begin;
    for (size_t cut = 1; cut < token->length; cut++) {
        int32_t left = byte_table_find(tokens, bytes, cut);
        int32_t right = left < 0 ? -1 : byte_table_find(tokens, bytes + cut, token->length - cut);
        if (right >= 0)
            add_pair(list, (struct bpe_pair){left, right, (int32_t)token->value, (int32_t)token->value});
    }
}

static void load_bytes(struct bpe *bpe, const struct tiktoken_ranks *ranks, int32_t shift) {
    struct buffer bytes = {0};
    const struct byte_string **by_id = memory_alloc((size_t)(ranks->size + 1) * sizeof *by_id);
    for (int64_t i = 0; i < ranks->tokens.count; i++)
        by_id[ranks->tokens.strings[i].value] = &ranks->tokens.strings[i];
    bpe->vocab_size = ranks->size + shift;
    bpe->begin = memory_alloc((size_t)(bpe->vocab_size + 1) * sizeof *bpe->begin);
    for (int64_t rank = 0; rank < ranks->size; rank++) {
        bpe->begin[rank + shift] = bytes.length;
        if (by_id[rank])
            buffer_append(&bytes, ranks->tokens.bytes.data + by_id[rank]->begin, by_id[rank]->length);
    }
    bpe->begin[bpe->vocab_size] = bytes.length;
    bpe->bytes = (unsigned char *)bytes.data;
    free(by_id);
}

int tiktoken_build(struct bpe *bpe, const struct tiktoken_ranks *ranks, int32_t shift, const char *name) {
    struct pair_list list = {0};
    for (int64_t i = 0; i < ranks->tokens.count; i++)
        add_cuts(&list, &ranks->tokens, &ranks->tokens.strings[i]);
    if (list.count >= BPE_NO_RANK) {
        free(list.items);
        return error_set("%s: its tokens can be split in two in %" PRId64 " ways, which is too many", name, list.count);
    }
    *bpe = (struct bpe){.merge_count = list.count};
    bpe_pairs_create(bpe, list.count);
    for (int64_t i = 0; i < list.count; i++) {
        struct bpe_pair pair = list.items[i];
        pair.left += shift;
        pair.right += shift;
        pair.id += shift;
        CHECK(bpe_pairs_add(bpe, pair) == 0);
    }
    free(list.items);
    for (int byte = 0; byte < 256; byte++)
        bpe->byte_id[byte] = shift + byte_table_find(&ranks->tokens, &(unsigned char){(unsigned char)byte}, 1);
    load_bytes(bpe, ranks, shift);
    return 0;
}
