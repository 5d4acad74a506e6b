// Loads GPT-2's pair of files: vocab.json ({"token": id, …}, tokens written with the byte map) and merges.txt (a line
// "#version: 0.2", then "LEFT RIGHT" per line, the first merge having the lowest rank). The two must agree: all 256
// bytes are tokens, and so are both sides and the result of every merge; and merges produce all tokens except a few
// that may have been added.
#include "data/tokenizer/bpe.h"
#include "data/tokenizer/bpe_train.h"
#include "data/tokenizer/byte_map.h"
#include "data/tokenizer/hf_save.h"
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/utf8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- vocab.json ----

// The whole file is checked here, so that users of the vocabulary can rely on unique ids that are
// dense enough to index arrays.

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

int32_t vocabulary_append(struct vocabulary *vocabulary, const char *string, size_t length) {
    int32_t id = (int32_t)vocabulary->size++;
    struct byte_string *token = byte_table_get(&vocabulary->tokens, string, length);
    token->value = id;
    MEMORY_GROW(vocabulary->index, id, vocabulary->capacity);
    vocabulary->index[id] = (int32_t)(token - vocabulary->tokens.strings);
    return id;
}

static int add_token(struct vocabulary *vocabulary, const struct json_key *key, int32_t id, const char *path) {
    if (key->length == 0)
        return error_set("%s: the token with id %" PRId32 " is the empty string; remove it", path, id);
    size_t length;
    const char *other = vocabulary_string(vocabulary, id, &length);
    if (other)
        return error_set("%s: tokens \"%.*s\" and \"%.*s\" have the same id %" PRId32 "; each token needs its own",
                         path, shown(length), other, shown(key->length), key->string, id);
    if (byte_table_add(&vocabulary->tokens, key->string, key->length, id) < 0)
        return error_set("%s: token \"%.*s\" appears twice, with ids %" PRId32 " and %" PRId32 "; remove one", path,
                         shown(key->length), key->string, vocabulary_find(vocabulary, key->string, key->length), id);
    vocabulary->index[id] = (int32_t)vocabulary->tokens.count - 1;
    return 0;
}

static int fill(struct vocabulary *vocabulary, const struct json *root, const char *path) {
    int32_t id = 0, highest = -1;
    for (size_t i = 0; i < root->count; i++) {
        TRY(read_id(&root->items[i], &root->keys[i], (int64_t)root->count, path, &id));
        highest = id > highest ? id : highest;
    }
    vocabulary->size = (int64_t)highest + 1;
    vocabulary->index = memory_alloc((size_t)vocabulary->size * sizeof *vocabulary->index);
    memset(vocabulary->index, 0xFF, (size_t)vocabulary->size * sizeof *vocabulary->index);
    for (size_t i = 0; i < root->count; i++)
        TRY(add_token(vocabulary, &root->keys[i], (int32_t)root->items[i].number, path));
    return 0;
}

int vocabulary_parse_json(struct vocabulary *vocabulary, const char *text, size_t length, const char *name) {
    struct json *root;
    *vocabulary = (struct vocabulary){0};
    TRY(json_parse(&root, text, length, name));
    bool is_list = root->type == JSON_OBJECT && root->count > 0;
    int status = is_list
                     ? fill(vocabulary, root, name)
                     : error_set("%s: not a vocabulary, which is a JSON object {\"token\": id, …} with at least one "
                                 "token",
                                 name);
    json_free(root);
    if (status < 0)
        vocabulary_free(vocabulary);
    return status;
}

int vocabulary_read_json(struct vocabulary *vocabulary, const char *path) {
    struct buffer text = {0};
    *vocabulary = (struct vocabulary){0};
    int status = file_read_all(path, VOCABULARY_LIMIT_BYTES, &text);
    if (status == 0)
        status = vocabulary_parse_json(vocabulary, buffer_string(&text), text.length, path);
    buffer_free(&text);
    return status;
}

void vocabulary_free(struct vocabulary *vocabulary) {
    byte_table_free(&vocabulary->tokens);
    free(vocabulary->index);
    *vocabulary = (struct vocabulary){0};
}

int32_t vocabulary_find(const struct vocabulary *vocabulary, const char *string, size_t length) {
    return byte_table_find(&vocabulary->tokens, string, length);
}

const char *vocabulary_string(const struct vocabulary *vocabulary, int32_t id, size_t *length) {
    bool is_token = vocabulary->index[id] >= 0;
    const struct byte_string *token = is_token ? &vocabulary->tokens.strings[vocabulary->index[id]] : NULL;
    *length = token ? token->length : 0;
    return token ? byte_table_text(&vocabulary->tokens, token) : NULL;
}

// ---- merges.txt ----

static const char version_line[] = "#version";
// How many tokens without a merge are accepted as added by hand: FEW_ADDED in any vocabulary, up to MOST_ADDED if they
// are less than one in a hundred.
enum { FEW_ADDED = 4, MOST_ADDED = 16 };
#define SAME_TRAINING "use the vocab.json and merges.txt of one tokenizer"

// State while the two files are read.
struct loading {
    struct bpe *bpe;
    const struct vocabulary *vocabulary;
    const struct bpe_merge_text *merges;
    struct buffer joined;  // the string of a merge's result
};

struct string_view {
    const char *text;
    size_t length;
};

// The bytes of every token, for decoding. Tokens with characters outside the byte map (added special tokens) stand for
// themselves.
static void load_token_bytes(struct loading *load, const struct byte_map *map) {
    struct bpe *bpe = load->bpe;
    struct buffer bytes = {0};
    bpe->vocab_size = load->vocabulary->size;
    bpe->begin = memory_alloc((size_t)(bpe->vocab_size + 1) * sizeof *bpe->begin);
    for (int64_t id = 0; id < bpe->vocab_size; id++) {
        size_t length;
        const char *string = vocabulary_string(load->vocabulary, (int32_t)id, &length);
        bpe->begin[id] = bytes.length;
        if (string && !byte_map_read(map, string, length, &bytes))
            buffer_append(&bytes, string, length);
    }
    bpe->begin[bpe->vocab_size] = bytes.length;
    bpe->bytes = (unsigned char *)bytes.data;  // the token table owns the buffer's memory from here on
}

static int load_byte_ids(struct loading *load, const struct byte_map *map) {
    for (int byte = 0; byte < 256; byte++) {
        char symbol[4];
        size_t length = utf8_encode(map->character[byte], symbol);
        load->bpe->byte_id[byte] = vocabulary_find(load->vocabulary, symbol, length);
        if (load->bpe->byte_id[byte] < 0)
            return error_set("%s: byte %d has no token \"%.*s\"; this is not the vocabulary of a byte-level BPE "
                             "tokenizer",
                             load->merges->vocab_name, byte, (int)length, symbol);
    }
    return 0;
}

static int find_token(struct loading *load, struct string_view token, int64_t line, int32_t *id) {
    *id = vocabulary_find(load->vocabulary, token.text, token.length);
    if (*id < 0)
        return error_set("%s:%" PRId64 ": \"%.*s\" is not a token of %s; " SAME_TRAINING, load->merges->merge_name,
                         line, shown(token.length), token.text, load->merges->vocab_name);
    return 0;
}

static int load_merge(struct loading *load, struct string_view text, int64_t line) {
    const char *blank = memchr(text.text, ' ', text.length);
    if (!blank || blank == text.text || blank + 1 == text.text + text.length ||
        memchr(blank + 1, ' ', text.length - (size_t)(blank + 1 - text.text)))
        return error_set("%s:%" PRId64 ": \"%.*s\" is not a merge: two tokens separated by one space",
                         load->merges->merge_name, line, shown(text.length), text.text);
    struct string_view left = {text.text, (size_t)(blank - text.text)};
    struct string_view right = {blank + 1, text.length - left.length - 1};
    struct bpe_pair pair = {.rank = (int32_t)load->bpe->merge_count};
    TRY(find_token(load, left, line, &pair.left));
    TRY(find_token(load, right, line, &pair.right));
    buffer_clear(&load->joined);
    buffer_append(&load->joined, left.text, left.length);
    buffer_append(&load->joined, right.text, right.length);
    struct string_view result = {load->joined.data, load->joined.length};
    if (find_token(load, result, line, &pair.id) < 0)
        return error_context("the result of a merge is missing");
    if (bpe_pairs_add(load->bpe, pair) < 0)
        return error_set("%s:%" PRId64 ": the merge \"%.*s\" occurs twice; remove one of the lines",
                         load->merges->merge_name, line, shown(text.length), text.text);
    load->bpe->merge_count++;
    return 0;
}

// Lines end only at \n (a \\r before it is dropped: a checkout on Windows adds it), since merges may contain any
// character that some systems take for a line end. Only a first line that begins with #version is a comment: merges may
// begin with # too.
static int load_merges(struct loading *load) {
    const char *text = load->merges->text, *end = text + load->merges->length;
    int64_t lines = 1;
    for (const char *at = text; at < end && (at = memchr(at, '\n', (size_t)(end - at))); at++)
        lines++;
    if (lines >= BPE_NO_RANK)
        return error_set("%s: %" PRId64 " lines are more merges than ids can number", load->merges->merge_name, lines);
    bpe_pairs_create(load->bpe, lines);
    while (end > text && (end[-1] == '\n' || end[-1] == '\r'))
        end--;
    for (int64_t line = 1; text < end; line++) {
        const char *next = memchr(text, '\n', (size_t)(end - text));
        struct string_view view = {text, (size_t)((next ? next : end) - text)};
        text = next ? next + 1 : end;
        if (view.length && view.text[view.length - 1] == '\r')
            view.length--;
        if (line == 1 && view.length >= sizeof version_line - 1 &&
            memcmp(view.text, version_line, sizeof version_line - 1) == 0)
            continue;
        TRY(load_merge(load, view, line));
    }
    return 0;
}

int bpe_build(struct bpe **bpe, const struct vocabulary *vocabulary, const struct bpe_merge_text *merges) {
    struct loading load = {.bpe = memory_alloc(sizeof **bpe), .vocabulary = vocabulary, .merges = merges};
    struct byte_map map;
    byte_map_init(&map);
    int status = load_byte_ids(&load, &map);
    if (status == 0) {
        load_token_bytes(&load, &map);
        status = load_merges(&load);
    }
    buffer_free(&load.joined);
    if (status < 0)
        bpe_free(load.bpe);
    *bpe = status < 0 ? NULL : load.bpe;
    return status;
}

bool bpe_is_bracketed(const char *string, size_t length) {
    if (length < 3)
        return false;
    char first = string[0], last = string[length - 1];
    return (first == '<' && last == '>') || (first == '[' && last == ']');
}

bool *bpe_find_made(const struct bpe *bpe) {
    bool *is_made = memory_alloc((size_t)bpe->vocab_size * sizeof *is_made);
    for (int byte = 0; byte < 256; byte++)
        is_made[bpe->byte_id[byte]] = true;
    for (size_t slot = 0; slot <= bpe->pair_mask; slot++)
        if (bpe->pairs[slot].left >= 0)
            is_made[bpe->pairs[slot].id] = true;
    return is_made;
}

// Could a merge produce this token: do two tokens form it? Then *left is the length of the first.
static bool is_joined(const struct vocabulary *vocabulary, struct string_view token, size_t *left) {
    for (size_t cut = 1; cut < token.length; cut++) {
        bool is_between = ((unsigned char)token.text[cut] & 0xC0) != 0x80;
        *left = cut;
        if (is_between && vocabulary_find(vocabulary, token.text, cut) >= 0 &&
            vocabulary_find(vocabulary, token.text + cut, token.length - cut) >= 0)
            return true;
    }
    return false;
}

// Tokens that text cannot become, because no merge produces them, although they are written like text.
struct unmade {
    int64_t count;
    int32_t first;  // the lowest of them
    int32_t lost;   // the lowest that a merge could produce, so a merge must be missing; -1 for none
    size_t left;    // length of the first of the two tokens that form it
};

static void find_unmade(const struct bpe *bpe, const struct vocabulary *vocabulary, struct unmade *unmade) {
    bool *is_made = bpe_find_made(bpe);
    struct byte_map map;
    struct buffer bytes = {0};
    byte_map_init(&map);
    *unmade = (struct unmade){.lost = -1};
    for (int64_t id = 0; id < bpe->vocab_size; id++) {
        struct string_view token;
        token.text = vocabulary_string(vocabulary, (int32_t)id, &token.length);
        if (!token.text || is_made[id] || bpe_is_bracketed(token.text, token.length) ||
            !byte_map_read(&map, token.text, token.length, &bytes))
            continue;
        buffer_clear(&bytes);
        if (unmade->count++ == 0)
            unmade->first = (int32_t)id;
        if (unmade->lost < 0 && is_joined(vocabulary, token, &unmade->left))
            unmade->lost = (int32_t)id;
    }
    buffer_free(&bytes);
    free(is_made);
}

// Words added to a vocabulary by hand are few, and two tokens do not form them. If two tokens form a token and no merge
// produces it, its merge is missing, because the file is truncated or belongs to another tokenizer: text would get
// other ids than the model was trained on.
static int check_made(const struct bpe *bpe, const struct vocabulary *vocabulary, const struct bpe_merge_text *merges) {
    struct unmade unmade;
    find_unmade(bpe, vocabulary, &unmade);
    if (unmade.count == 0)
        return 0;
    struct string_view token;
    token.text = vocabulary_string(vocabulary, unmade.lost >= 0 ? unmade.lost : unmade.first, &token.length);
    bool is_many =
        unmade.count > MOST_ADDED || (unmade.count > FEW_ADDED && unmade.count * 100 > vocabulary->tokens.count);
    if (is_many)
        return error_set("%s: no merge of %s makes the token \"%.*s\" (id %" PRId32 "), nor %" PRId64
                         " others of the %" PRId64 " tokens, and there are %" PRId64
                         " merges; the file is truncated, or belongs to another tokenizer: " SAME_TRAINING,
                         merges->vocab_name, merges->merge_name, shown(token.length), token.text,
                         unmade.lost >= 0 ? unmade.lost : unmade.first, unmade.count - 1, vocabulary->tokens.count,
                         bpe->merge_count);
    if (unmade.lost >= 0)
        return error_set("%s: the merge \"%.*s %.*s\" is missing, without which no text becomes the token %" PRId32
                         " of %s; the file is truncated: copy or download it again, or remove the token from the "
                         "vocabulary if it was added",
                         merges->merge_name, (int)unmade.left, token.text, shown(token.length - unmade.left),
                         token.text + unmade.left, unmade.lost, merges->vocab_name);
    log_info("note: %s: no merge of %s makes %" PRId64 " of the tokens (\"%.*s\", id %" PRId32
             "), so text never becomes one of them",
             merges->vocab_name, merges->merge_name, unmade.count, shown(token.length), token.text, unmade.first);
    return 0;
}

int bpe_open(struct bpe **bpe, const struct vocabulary *vocabulary, const char *vocab_file, const char *merge_file) {
    struct file_map file;
    TRY(file_map_open(&file, merge_file));
    struct bpe_merge_text merges = {
        .text = file.size ? (const char *)file.data : "",
        .length = file.size,
        .vocab_name = vocab_file,
        .merge_name = merge_file,
    };
    int status = bpe_build(bpe, vocabulary, &merges);
    if (status == 0 && check_made(*bpe, vocabulary, &merges) < 0) {
        bpe_free(*bpe);
        *bpe = NULL;
        status = -1;
    }
    file_map_close(&file);
    return status;
}

// ---- saving ----

// Writes a trained vocabulary as GPT-2's two files, vocab.json and merges.txt, with bytes as the printable characters
// of byte_map.h, and as tokenizer.json.

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
