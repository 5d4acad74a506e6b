// See identity.h.
#include "train/identity.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/phase.h"
#include "base/watchdog.h"
#include "data/file_print.h"
#include "data/sample/blend.h"
#include "train/data_paths.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { FORMAT = 1, PIECES = 64, FILES = 2, MOST_BYTES = 16 << 20 };

static const char *const endings[FILES] = {".idx", ".bin"};
// The places of the pieces are the same in every run.
static const uint64_t SEED = 20261116;

// ---- taking ----

// The datasets of a run, as they are written down.
struct identity_writer {
    struct json_writer json;
    struct string_list seen;
    bool is_whole;  // --check-data full
};

static void write_hash(struct json_writer *json, const char *key, int64_t hash) {
    char hex[17];
    (void)snprintf(hex, sizeof hex, "%016" PRIx64, (uint64_t)hash);
    json_put_string(json, key, hex);
}

static void write_file(struct identity_writer *writer, const char *prefix, const char *ending) {
    struct json_writer *json = &writer->json;
    OWNED char *path = memory_printf("%s%s", prefix, ending);
    struct file_sketch sketch = file_sketch_take(path, PIECES, SEED);
    struct file_sketch whole = writer->is_whole ? file_sketch_take_whole(path) : (struct file_sketch){.bytes = -1};
    struct stat status;
    bool has_date = stat(path, &status) == 0;
    if (sketch.bytes < 0)
        return;
    json_begin_object(json);
    json_put_string(json, "ending", ending);
    json_put_int(json, "bytes", sketch.bytes);
    write_hash(json, "hash", sketch.hash);
    if (has_date)
        json_put_int(json, "modified", (int64_t)status.st_mtim.tv_sec * 1000000000 + status.st_mtim.tv_nsec);
    if (whole.bytes >= 0)
        write_hash(json, "whole", whole.hash);
    json_end_object(json);
}

static bool is_listed(const struct string_list *list, const char *name) {
    for (int64_t i = 0; i < list->count; i++)
        if (strcmp(list->items[i], name) == 0)
            return true;
    return false;
}

static void write_dataset(struct identity_writer *writer, const char *name, const char *prefix) {
    struct json_writer *json = &writer->json;
    if (is_listed(&writer->seen, name))
        return;
    string_list_add(&writer->seen, name);
    json_begin_object(json);
    json_put_string(json, "name", name);
    json_key(json, "files");
    json_begin_array(json);
    for (int i = 0; i < FILES; i++)
        write_file(writer, prefix, endings[i]);
    json_end_array(json);
    json_end_object(json);
}

// The datasets of a split: the words of the flags, and the prefixes that stand in the place of text.
static void write_split(struct identity_writer *writer, const struct identity_sources *sources, enum split which) {
    OWNED_BY(data_paths_free) struct data_paths named = {0}, opened = {0};
    OWNED_BY(blend_list_free) struct blend_list names = {0}, prefixes = {0};
    int status = data_paths_find(&named, sources->config, which);
    int again = data_paths_find(&opened, sources->config, which);
    text_data_replace(sources->texts, &opened.items);
    if (status == 0 && again == 0 && named.items.count > 0 &&
        blend_list_parse(&names, named.items.items, named.items.count, named.flag) == 0 &&
        blend_list_parse(&prefixes, opened.items.items, opened.items.count, opened.flag) == 0 &&
        names.count == prefixes.count)
        for (int64_t i = 0; i < names.count; i++)
            write_dataset(writer, names.prefixes[i], prefixes.prefixes[i]);
    error_clear();
}

static void hash_tokenizer(const struct tokenizer *tokenizer, char hex[65]) {
    struct sha256 hash;
    unsigned char digest[32];
    OWNED_BY(buffer_free) struct buffer text = {0};
    int64_t count = tokenizer_vocab_size(tokenizer), eod = tokenizer_eod(tokenizer);
    sha256_init(&hash);
    sha256_update(&hash, &count, sizeof count);
    sha256_update(&hash, &eod, sizeof eod);
    for (int64_t i = 0; i < count; i++) {
        int32_t id = (int32_t)i;
        size_t length = 0;
        const char *token = tokenizer_token(tokenizer, id, &length);
        buffer_clear(&text);
        // An id may have no token.
        if (!token && tokenizer_decode(tokenizer, &id, 1, &text) < 0)
            error_clear();
        uint64_t bytes = token ? length : text.length;
        sha256_update(&hash, &bytes, sizeof bytes);
        sha256_update(&hash, token ? token : buffer_string(&text), bytes);
    }
    sha256_final(&hash, digest);
    sha256_hex(digest, hex);
}

static void take(struct identity *identity, const struct identity_sources *sources) {
    const struct config *config = sources->config;
    struct identity_writer writer = {.json.out = &identity->json,
                                     .is_whole = strcmp(config->run.check_data, "full") == 0};
    struct json_writer *json = &writer.json;
    if (config->data.mock_data && !sources->tokenizer)
        return;
    json_begin_object(json);
    json_put_int(json, "format", FORMAT);
    json_key(json, "datasets");
    json_begin_array(json);
    for (int which = 0; which < SPLIT_COUNT && !config->data.mock_data; which++)
        write_split(&writer, sources, (enum split)which);
    if (config->data.titles_data_path && !config->data.mock_data)
        write_dataset(&writer, config->data.titles_data_path, config->data.titles_data_path);
    json_end_array(json);
    if (sources->tokenizer) {
        char hex[65];
        hash_tokenizer(sources->tokenizer, hex);
        json_put_string(json, "tokenizer", hex);
    }
    json_end_object(json);
    buffer_append_byte(&identity->json, '\n');
    string_list_free(&writer.seen);
}

void identity_take(struct identity *identity, const struct identity_sources *sources) {
    struct watchdog_work work;
    IN_PHASE("hashing the data");
    comm_patience_begin(sources->mesh->all, "hashing the data");
    watchdog_begin(&work, WATCHDOG_LOAD, "hashing the data");
    if (sources->mesh->rank == 0)
        take(identity, sources);
    watchdog_end(&work);
    comm_patience_end(sources->mesh->all);
}

void identity_free(struct identity *identity) {
    buffer_free(&identity->json);
}

// ---- comparing ----

static const struct json *find_by(const struct json *list, const char *key, const char *text) {
    const char *own;
    for (size_t i = 0; list && list->type == JSON_ARRAY && i < list->count; i++)
        if (json_get_string(&list->items[i], key, &own) == 0 && strcmp(own, text) == 0)
            return &list->items[i];
    return NULL;
}

static int same_size(const char *name, const char *ending, const char *path) {
    return error_set_code(EXIT_CODE_BAD_DATA,
                          "the dataset %s has changed since %s was saved: %s has the same size and other content", name,
                          path, ending);
}

// Two files with the same size and pieces: all bytes if both have their hash, otherwise their dates.
static int compare_rest(const struct json *now, const struct json *then, const char *name, const char *path) {
    const char *ending, *whole = "", *whole_then = "";
    int64_t bytes, date, date_then;
    TRY(json_get_string(then, "ending", &ending));
    TRY(json_get_int(then, "bytes", &bytes));
    bool is_asked = json_get_string(now, "whole", &whole) == 0,
         is_known = json_get_string(then, "whole", &whole_then) == 0;
    bool has_dates = json_get_int(now, "modified", &date) == 0 && json_get_int(then, "modified", &date_then) == 0;
    error_clear();
    if (is_asked && is_known)
        return strcmp(whole, whole_then) == 0 ? 0 : same_size(name, ending, path);
    if (is_asked && file_sketch_is_partial(bytes))
        log_info("the dataset %s: %s has no hash of all bytes of %s; the checkpoints of this run have it", name, path,
                 ending);
    if (has_dates && date != date_then && file_sketch_is_partial(bytes))
        log_warn("the dataset %s: %s has another date than when %s was saved, and only %d pieces of it were compared; "
                 "ignore this if it was copied; --check-data full compares all bytes with checkpoints saved with it",
                 name, ending, path, PIECES);
    return 0;
}

static int compare_file(const struct json *now, const struct json *then, const char *name, const char *path) {
    const char *ending, *hash, *hash_then;
    int64_t bytes, bytes_then;
    TRY(json_get_string(then, "ending", &ending));
    TRY(json_get_string(then, "hash", &hash_then));
    TRY(json_get_int(then, "bytes", &bytes_then));
    const struct json *file = find_by(json_member(now, "files"), "ending", ending);
    if (!file)
        return 0;
    TRY(json_get_string(file, "hash", &hash));
    TRY(json_get_int(file, "bytes", &bytes));
    if (bytes != bytes_then)
        return error_set_code(EXIT_CODE_BAD_DATA,
                              "the dataset %s has changed since %s was saved: %s has %" PRId64
                              " bytes and had %" PRId64,
                              name, path, ending, bytes, bytes_then);
    return strcmp(hash, hash_then) != 0 ? same_size(name, ending, path) : compare_rest(file, then, name, path);
}

static int compare_dataset(const struct json *datasets, const struct json *then, const char *path) {
    const char *name;
    TRY(json_get_string(then, "name", &name));
    const struct json *now = find_by(datasets, "name", name), *files = json_member(then, "files");
    for (size_t i = 0; now && files && files->type == JSON_ARRAY && i < files->count; i++)
        TRY(compare_file(now, &files->items[i], name, path));
    return 0;
}

static int compare_roots(const struct json *now, const struct json *then, const char *path) {
    const struct json *datasets = json_member(then, "datasets"), *own = json_member(now, "datasets");
    const char *tokenizer, *tokenizer_then;
    int64_t format;
    TRY(json_get_int(then, "format", &format));
    // The rules of later versions of the format are not known here.
    if (format != FORMAT)
        return 0;
    for (size_t i = 0; datasets && datasets->type == JSON_ARRAY && i < datasets->count; i++)
        TRY(compare_dataset(own, &datasets->items[i], path));
    if (!json_member(now, "tokenizer") || !json_member(then, "tokenizer"))
        return 0;
    TRY(json_get_string(now, "tokenizer", &tokenizer));
    TRY(json_get_string(then, "tokenizer", &tokenizer_then));
    return strcmp(tokenizer, tokenizer_then) == 0
               ? 0
               : error_set_code(EXIT_CODE_BAD_DATA,
                                "the tokenizer has changed since %s was saved: its tokens or their ids differ", path);
}

int identity_compare(const struct buffer *now, const struct buffer *then, const char *path) {
    OWNED struct json *own = NULL, *saved = NULL;
    TRY(json_parse(&own, now->data, now->length, "what the run trains on"));
    TRY(json_parse(&saved, then->data, then->length, path));
    return compare_roots(own, saved, path);
}

int identity_check(const struct identity *identity, const struct config *config, const char *path) {
    OWNED_BY(checkpoint_file_list_free) struct checkpoint_file_list files = {0};
    OWNED_BY(buffer_free) struct buffer then = {0};
    if (identity->json.length == 0)
        return 0;
    TRY(checkpoint_file_list_read(&files, path));
    const char *file = checkpoint_file_find(&files, CHECKPOINT_ROLE_DATA);
    int status = file ? file_read_own(file, MOST_BYTES, &then) : 0;
    if (status == 0 && file)
        status = identity_compare(&identity->json, &then, path);
    if (status == 0)
        return 0;
    if (config->run.allow_changed_data) {
        log_warn("%s; resuming anyway (--allow-changed-data)", error_message());
        error_clear();
        return 0;
    }
    OWNED char *message = memory_string(error_message());
    error_set_code(EXIT_CODE_BAD_DATA,
                   "%s; put the old one back, or resume with --allow-changed-data, or start a new run from these "
                   "weights with --finetune",
                   message);
    return -1;
}

void identity_warn_of_tokenizer(const struct tokenizer *tokenizer, const char *path) {
    OWNED_BY(checkpoint_file_list_free) struct checkpoint_file_list files = {0};
    OWNED_BY(buffer_free) struct buffer then = {0}, now = {0};
    char hash[65];
    // Models of other programs have no list of files.
    if (checkpoint_file_list_read(&files, path) < 0) {
        error_clear();
        return;
    }
    const char *file = checkpoint_file_find(&files, CHECKPOINT_ROLE_DATA);
    hash_tokenizer(tokenizer, hash);
    buffer_printf(&now, "{\"format\": %d, \"tokenizer\": \"%s\"}", FORMAT, hash);
    if (file && file_read_own(file, MOST_BYTES, &then) == 0 && identity_compare(&now, &then, path) < 0)
        log_warn_once(
            "the tokenizer is not the one of %s: its tokens or their ids differ, so the results mean nothing; "
            "leave its flags out to use the copy in the checkpoint",
            path);
    error_clear();
}
