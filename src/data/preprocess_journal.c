// The folder of an unfinished run: lock, settings, journal. A journal is one line of JSON and the SHA-256 of that line.
#include "data/preprocess_run.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_patience.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/memory.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FORMAT = 1, MOST_JOURNAL_BYTES = 1 << 20 };
static const size_t most_settings_bytes = (size_t)1 << 30;

void preprocess_state_init(struct preprocess_state *state, int64_t keys) {
    *state = (struct preprocess_state){.line = 1};
    state->bytes = memory_alloc((size_t)store_files(keys) * sizeof *state->bytes);
}

void preprocess_state_copy(struct preprocess_state *to, const struct preprocess_state *from, int64_t keys) {
    uint64_t *bytes = to->bytes;
    memcpy(bytes, from->bytes, (size_t)store_files(keys) * sizeof *bytes);
    *to = *from;
    to->bytes = bytes;
}

void preprocess_state_add(struct preprocess_state *sum, const struct preprocess_state *more, int64_t keys) {
    sum->file = more->file;
    sum->offset = more->offset;
    sum->line = more->line;
    text_counts_add(&sum->counts, &more->counts);
    for (int64_t file = 0; file < store_files(keys); file++)
        sum->bytes[file] += more->bytes[file];
}

void preprocess_state_free(struct preprocess_state *state) {
    free(state->bytes);
    *state = (struct preprocess_state){0};
}

// ---- the journal as text ----

// All numbers of a state in one table, so that reading and writing cannot differ.
struct field {
    const char *name;
    int64_t *value;
};
enum { FIELDS = 11 };

static void list_fields(struct field fields[FIELDS], struct preprocess_state *state) {
    struct text_counts *counts = &state->counts;
    const struct field all[FIELDS] = {
        {"file", &state->file},
        {"line", &state->line},
        {"documents", &counts->documents},
        {"empty_documents", &counts->empty_documents},
        {"tokens", &counts->tokens},
        {"longest_tokens", &counts->longest_tokens},
        {"bad_lines", &counts->bad_lines},
        {"blank_lines", &counts->blank_lines},
        {"repaired_lines", &counts->repaired_lines},
        {"text_bytes", &counts->text_bytes},
        {"duplicates", &counts->duplicates},
    };
    memcpy(fields, all, sizeof all);
}

static void describe(struct buffer *out, enum journal_phase phase, const struct preprocess_state *state,
                     int64_t files) {
    struct preprocess_state copy = *state;
    struct field fields[FIELDS];
    list_fields(fields, &copy);
    struct json_writer json = {.out = out};
    json_begin_object(&json);
    json_put_int(&json, "format", FORMAT);
    json_put_int(&json, "phase", phase);
    json_put_int(&json, "offset", (int64_t)state->offset);
    for (int i = 0; i < FIELDS; i++) {
        json_put_int(&json, fields[i].name, *fields[i].value);
    }
    json_key(&json, "bytes");
    json_begin_array(&json);
    for (int64_t i = 0; i < files; i++)
        json_int(&json, (int64_t)state->bytes[i]);
    json_end_array(&json);
    json_end_object(&json);
}

static int read_fields(const struct json *root, enum journal_phase *phase, struct preprocess_state *state,
                       int64_t files) {
    struct field fields[FIELDS];
    int64_t value;
    list_fields(fields, state);
    TRY(json_get_int(root, "format", &value));
    if (value != FORMAT)
        return error_set("another version of the program wrote it");
    TRY(json_get_int(root, "phase", &value));
    if (value != JOURNAL_TOKENIZE && value != JOURNAL_PUBLISH)
        return error_set("phase %lld does not exist", (long long)value);
    *phase = (enum journal_phase)value;
    TRY(json_get_int(root, "offset", &value));
    if (value < 0)
        return error_set("the key \"offset\" is negative");
    state->offset = (uint64_t)value;
    for (int i = 0; i < FIELDS; i++) {
        TRY(json_get_int(root, fields[i].name, fields[i].value));
        if (*fields[i].value < 0)
            return error_set("the key \"%s\" is negative", fields[i].name);
    }
    const struct json *bytes = json_member(root, "bytes");
    if (!bytes || bytes->type != JSON_ARRAY || bytes->count != (size_t)files)
        return error_set("the key \"bytes\" does not list %lld sizes", (long long)files);
    for (int64_t i = 0; i < files; i++) {
        const struct json *item = &bytes->items[i];
        if (item->type != JSON_NUMBER || item->string[0] == '-')
            return error_set("a size is not a number");
        state->bytes[i] = strtoull(item->string, NULL, 10);
    }
    return 0;
}

static void checksum(char hex[65], const char *text, size_t length) {
    unsigned char digest[32];
    struct sha256 hash;
    sha256_init(&hash);
    sha256_update(&hash, text, length);
    sha256_final(&hash, digest);
    sha256_hex(digest, hex);
}

static int parse(const struct buffer *text, enum journal_phase *phase, struct preprocess_state *state, int64_t files) {
    const char *end = text->length ? memchr(text->data, '\n', text->length) : NULL;
    char hex[65];
    if (!end)
        return error_set("it is truncated");
    checksum(hex, text->data, (size_t)(end - text->data));
    if (text->length - (size_t)(end - text->data) != sizeof hex + 1 || memcmp(end + 1, hex, 64) != 0)
        return error_set("its checksum is wrong");
    struct json *root;
    TRY(json_parse(&root, text->data, (size_t)(end - text->data), "the journal"));
    int result = read_fields(root, phase, state, files);
    json_free(root);
    return result;
}

int journal_write(struct journal *journal, enum journal_phase phase, const struct preprocess_state *state) {
    struct buffer text = {0};
    char hex[65];
    describe(&text, phase, state, store_files(journal->keys));
    checksum(hex, text.data, text.length);
    buffer_printf(&text, "\n%s\n", hex);
    char *path = file_join(journal->folder, "journal");
    int result = file_write_all(path, text.data, text.length);
    journal->is_kept = journal->is_kept || result == 0;
    free(path);
    buffer_free(&text);
    return result;
}

// ---- the folder ----

static int take_lock(struct journal *journal) {
    char *path = file_join(journal->folder, "lock");
    journal->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    int result = 0;
    if (journal->lock < 0)
        result = error_set("cannot create %s: %s; choose a writable folder", path, strerror(errno));
    else if (flock(journal->lock, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        result = error_set("another process is writing to %s; wait for it, or choose another --output-prefix",
                           journal->folder);
    if (result < 0 && journal->lock >= 0) {
        close(journal->lock);
        journal->lock = -1;
    }
    free(path);
    return result;
}

// Names that this program gives to files in the folder; any other file there is kept.
static bool is_own_name(const char *name) {
    static const char *const begins[] = {"data.", "journal.tmp.", "settings.tmp."};
    bool is_own = strcmp(name, "journal") == 0 || strcmp(name, "settings") == 0;
    for (size_t i = 0; i < sizeof begins / sizeof begins[0]; i++)
        is_own = is_own || strncmp(name, begins[i], strlen(begins[i])) == 0;
    return is_own;
}

// Removes the files in the folder except those needed to resume, or all except the lock.
static void remove_files(const struct journal *journal, bool keeps_notes) {
    DIR *folder = opendir(journal->folder);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        const char *name = entry->d_name;
        bool is_note = strcmp(name, "journal") == 0 || strcmp(name, "settings") == 0;
        if (!is_own_name(name) || (keeps_notes && is_note))
            continue;
        char *path = file_join(journal->folder, name);
        unlink(path);
        free(path);
    }
    if (folder)
        closedir(folder);
}

static void remove_file(const struct journal *journal, const char *name) {
    char *path = file_join(journal->folder, name);
    unlink(path);
    free(path);
}

// Reports the first line in which two lists of settings differ: its old and its new form.
static int report_difference(const struct journal *journal, const char *old, const char *now) {
    size_t old_length = strcspn(old, "\n"), now_length = strcspn(now, "\n");
    while (old_length == now_length && memcmp(old, now, old_length) == 0 && old[old_length] && now[now_length]) {
        old += old_length + 1;
        now += now_length + 1;
        old_length = strcspn(old, "\n");
        now_length = strcspn(now, "\n");
    }
    enum { SHOWN = 300 };
    return error_set_code(EXIT_CODE_USAGE,
                          "%s holds a run with other settings (\"%.*s\" then, \"%.*s\" now); give the same flags and "
                          "inputs to resume it, or start over with --restart",
                          journal->folder, old_length < SHOWN ? (int)old_length : SHOWN, old,
                          now_length < SHOWN ? (int)now_length : SHOWN, now);
}

// Finds an unfinished run: its phase and state, or an error if its settings are not the requested ones.
static int find_begun(struct journal *journal, const char *settings, enum journal_phase *phase,
                      struct preprocess_state *state) {
    char *journal_path = file_join(journal->folder, "journal"), *settings_path = file_join(journal->folder, "settings");
    struct buffer text = {0}, old = {0};
    FILE_PATIENCE();
    int result = 0;
    if (file_exists(journal_path)) {
        journal->is_kept = true;
        result = file_read_all(settings_path, most_settings_bytes, &old);
        if (result == 0 && strcmp(buffer_string(&old), settings) != 0)
            result = report_difference(journal, buffer_string(&old), settings);
        if (result == 0)
            result = file_read_all(journal_path, MOST_JOURNAL_BYTES, &text);
        if (result == 0 && parse(&text, phase, state, store_files(journal->keys)) < 0)
            result = error_context("cannot resume %s (start over with --restart)", journal_path);
    }
    // A new run would remove the work of an unfinished one.
    if (result == 0)
        result = file_doubt();
    free(journal_path);
    free(settings_path);
    buffer_free(&text);
    buffer_free(&old);
    return result;
}

static int begin(struct journal *journal, const struct journal_options *options, enum journal_phase *phase,
                 struct preprocess_state *state) {
    TRY(file_make_folders(journal->folder));
    TRY(take_lock(journal));
    if (!options->restart)
        TRY(find_begun(journal, options->settings, phase, state));
    if (*phase != JOURNAL_NEW)
        return 0;
    journal->is_kept = false;
    // Remove the journal first: the rest means nothing without it.
    remove_file(journal, "journal");
    remove_files(journal, false);
    char *path = file_join(journal->folder, "settings");
    int result = file_write_all(path, options->settings, strlen(options->settings));
    free(path);
    return result;
}

int journal_open(struct journal *journal, const struct journal_options *options, enum journal_phase *phase,
                 struct preprocess_state *state) {
    *journal = (struct journal){.lock = -1, .keys = options->keys};
    journal->folder = memory_printf("%s.unfinished", options->output_prefix);
    journal->prefix = file_join(journal->folder, "data");
    *phase = JOURNAL_NEW;
    if (begin(journal, options, phase, state) == 0)
        return 0;
    journal_close(journal, false);
    return -1;
}

void journal_close(struct journal *journal, bool finished) {
    if (journal->lock >= 0) {
        struct error_note *present = error_take();
        if (finished || !journal->is_kept) {
            // Remove the journal after the other files, since until then the run can be finished again, but before the
            // settings.
            remove_files(journal, true);
            remove_file(journal, "journal");
            remove_file(journal, "settings");
            remove_file(journal, "lock");
            rmdir(journal->folder);
        }
        close(journal->lock);
        if (present)
            error_give(present);
    }
    free(journal->folder);
    free(journal->prefix);
    *journal = (struct journal){.lock = -1};
}
