// Work of the store's threads: find runs, see which files have grown, read them, keep memory within its limit, and
// maintain the cache.
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/file_patience.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/words.h"
#include "config/flag.h"
#include "report/board/internal.h"
#include "report/board/store.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// ---- finding runs ----

// A file of metrics, or all event files of a folder without one, unless the folder above has metrics.
struct found_run {
    char *path;   // of the metrics, or of the folder
    char *name;   // shown to users: the path below the searched folder
    char *note;   // path of the note beside it; NULL for none
    bool is_top;  // of the searched folder, whose own name is that of the run
    bool is_events;
    struct string_list files;  // sorted by name, which for event files is the order of time
};
struct found_runs {
    struct found_run *items;
    size_t count;
};

enum { MOST_DEPTH = 16, MOST_RUNS = 10000, MOST_FILES = 1024 };

static const char metrics_name[] = "metrics.jsonl", note_name[] = "note.txt";

static bool ends_with(const char *name, const char *end) {
    size_t length = strlen(name), own = strlen(end);
    return length >= own && strcmp(name + length - own, end) == 0;
}

// TensorBoard accepts every file with this in its name.
static bool is_events_name(const char *name) {
    return strstr(name, "tfevents") != NULL;
}

static void names_sort(struct string_list *names) {
    if (names->count > 1)
        qsort(names->items, (size_t)names->count, sizeof names->items[0], words_compare);
}

static struct found_run *add_run(struct found_runs *found, char *path, const char *name, bool is_events) {
    found->items = memory_realloc(found->items, (found->count + 1) * sizeof found->items[0]);
    struct found_run *run = &found->items[found->count++];
    *run = (struct found_run){.path = path, .name = memory_string(name), .is_events = is_events};
    return run;
}

// The kind of a name, without asking the file system twice where the folder provides it.
static unsigned char type_of(const char *folder, const struct dirent *entry) {
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    struct stat status;
    OWNED char *path = file_join(folder, entry->d_name);
    unsigned char type = DT_UNKNOWN;
    if (lstat(path, &status) == 0)
        type = S_ISDIR(status.st_mode) ? DT_DIR : S_ISREG(status.st_mode) ? DT_REG : DT_LNK;
    return type;
}

// A link may lead to a file, but not to a pipe or a device, which could block.
static bool is_file(const char *folder, const char *name) {
    OWNED char *path = file_join(folder, name);
    return file_is_regular(path);
}

struct folder_content {
    struct string_list folders, metrics, events, notes;
};

static int list_folder(const char *folder, struct folder_content *content) {
    DIR *stream = opendir(folder);
    if (!stream)
        return error_set("cannot list the folder %s: %s; %s", folder, strerror(errno), file_read_remedy(errno));
    const struct dirent *entry;
    while ((entry = readdir(stream))) {
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        unsigned char type = type_of(folder, entry);
        if (type == DT_DIR)
            string_list_add(&content->folders, name);
        else if (type != DT_REG && type != DT_LNK)
            continue;
        else if (ends_with(name, metrics_name) && (type == DT_REG || is_file(folder, name)))
            string_list_add(&content->metrics, name);
        else if (ends_with(name, note_name) && type == DT_REG)
            string_list_add(&content->notes, name);
        else if (is_events_name(name) && content->events.count < MOST_FILES &&
                 (type == DT_REG || is_file(folder, name)))
            string_list_add(&content->events, name);
    }
    closedir(stream);
    names_sort(&content->folders);
    names_sort(&content->metrics);
    names_sort(&content->events);
    return 0;
}

// The note of a run: note.txt beside metrics.jsonl, x-note.txt beside x-metrics.jsonl.
static char *find_note(const char *folder, const char *metrics, const struct folder_content *content) {
    size_t prefix = strlen(metrics) - (sizeof metrics_name - 1);
    for (int64_t i = 0; i < content->notes.count; i++) {
        const char *name = content->notes.items[i];
        if (strncmp(name, metrics, prefix) == 0 && strcmp(name + prefix, note_name) == 0)
            return file_join(folder, name);
    }
    return NULL;
}

// is_in_run: the folder above has metrics; event files here belong to that run, as --tensorboard-dir puts them.
static void add_runs(struct found_runs *found, const char *folder, const char *below,
                     const struct folder_content *content, bool is_in_run) {
    for (int64_t i = 0; i < content->metrics.count && found->count < MOST_RUNS; i++) {
        const char *name = content->metrics.items[i];
        char *path = file_join(folder, name), *whole = *below ? file_join(below, name) : memory_string(name);
        const char *slash = strrchr(folder, '/'), *own = slash && slash[1] ? slash + 1 : folder;
        bool is_plain = strcmp(name, metrics_name) == 0;
        struct found_run *run = add_run(found, path, is_plain ? (*below ? below : own) : whole, false);
        run->is_top = is_plain && !*below;
        run->note = find_note(folder, name, content);
        string_list_add(&run->files, path);
        free(whole);
    }
    if (content->metrics.count > 0 || is_in_run || content->events.count == 0 || found->count == MOST_RUNS)
        return;
    const char *slash = strrchr(folder, '/'), *own = slash && slash[1] ? slash + 1 : folder;
    struct found_run *run = add_run(found, memory_string(folder), *below ? below : own, true);
    run->is_top = !*below;
    run->note = find_note(folder, metrics_name, content);
    for (int64_t i = 0; i < content->events.count; i++) {
        OWNED char *path = file_join(folder, content->events.items[i]);
        string_list_add(&run->files, path);
    }
}

static int walk(struct found_runs *found, const char *folder, const char *below, int depth, bool is_in_run) {
    struct folder_content content = {0};
    int result = list_folder(folder, &content);
    if (result == 0)
        add_runs(found, folder, below, &content, is_in_run);
    for (int64_t i = 0; result == 0 && depth < MOST_DEPTH && i < content.folders.count; i++) {
        const char *name = content.folders.items[i];
        OWNED char *path = file_join(folder, name), *whole = *below ? file_join(below, name) : memory_string(name);
        // Another user's folder may not be readable.
        if (walk(found, path, whole, depth + 1, content.metrics.count > 0) < 0)
            error_clear();
    }
    string_list_free(&content.folders);
    string_list_free(&content.metrics);
    string_list_free(&content.events);
    string_list_free(&content.notes);
    return result;
}

// -1 if the folder itself cannot be listed; folders below it that cannot be are skipped. Links to folders are not
// followed: they could lead in circles. `path` may be a file.
static int run_find(struct found_runs *found, const char *path) {
    *found = (struct found_runs){0};
    if (!file_is_regular(path))
        return walk(found, path, "", 0, false);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct found_run *run = add_run(found, memory_string(path), name, is_events_name(name));
    run->is_top = true;
    string_list_add(&run->files, path);
    return 0;
}

static void run_find_free(struct found_runs *found) {
    for (size_t i = 0; i < found->count; i++) {
        struct found_run *run = &found->items[i];
        string_list_free(&run->files);
        free(run->path);
        free(run->name);
        free(run->note);
    }
    free(found->items);
    *found = (struct found_runs){0};
}

// ---- reading them ----

// A chunk is read under the run's lock, so it bounds the delay of a query; a turn is the amount that a thread reads of
// a run before it checks whether another one is nearly done.
enum { CHUNK_BYTES = 1 << 20, TURN_CHUNKS = 32, CACHE_LEAST_BYTES = 8 << 20, CACHE_DAYS = 30 };

static bool is_id_taken(const struct board_store *store, const char *id) {
    for (size_t i = 0; i < store->count; i++)
        if (strcmp(store->runs[i]->id, id) == 0)
            return true;
    return false;
}

// Two paths may have the same hash; the second then gets the next number.
static void make_id_unique(const struct board_store *store, struct board_run *run) {
    while (is_id_taken(store, run->id)) {
        unsigned long id = strtoul(run->id, NULL, 16) + 1;
        snprintf(run->id, sizeof run->id, "%08lx", id & 0xFFFFFFFFul);
    }
}

static struct board_run *find_path(const struct board_store *store, const char *path) {
    uint64_t hash = hash_bytes(path, strlen(path), 0);
    for (size_t i = 0; i < store->count; i++)
        if (store->runs[i]->path_hash == hash && strcmp(store->runs[i]->path, path) == 0)
            return store->runs[i];
    return NULL;
}

// A run found by the search, known or new.
static void add_found(struct board_store *store, const struct found_run *found) {
    pthread_mutex_lock(&store->lock);
    struct board_run *run = find_path(store, found->path);
    if (run)
        run->seen = store->searches;
    pthread_mutex_unlock(&store->lock);
    bool is_new = !run;
    if (is_new)
        run = run_new(found->path, found->name, found->is_events, store->bin_limit);
    run_lock(run);
    run->is_top = found->is_top;
    if (run_read_note(run, found->note))
        store->is_dirty = true;
    for (int64_t i = 0; i < found->files.count; i++)
        run_add_file(run, found->files.items[i]);
    run_unlock(run);
    if (!is_new && !run->is_gone)
        return;
    pthread_mutex_lock(&store->lock);
    if (is_new) {
        make_id_unique(store, run);
        run->seen = store->searches;
        store->runs = memory_realloc(store->runs, (store->count + 1) * sizeof store->runs[0]);
        store->runs[store->count++] = run;
    }
    run->is_gone = false;
    run->has_work = true;
    store->is_dirty = true;
    pthread_cond_signal(&store->work);
    pthread_mutex_unlock(&store->lock);
}

// Forgets a run whose files were removed. Its slot stays, so that pointers to it remain valid.
static void remove_run(struct board_store *store, struct board_run *run) {
    run_lock(run);
    run_clear(run);
    run->total_bytes = 0;
    run->is_cache_tried = false;
    run->is_gone = true;
    run_unlock(run);
    store->is_dirty = true;
}

static int find_runs(struct board_store *store) {
    OWNED_BY(run_find_free) struct found_runs found = {0};
    int result = run_find(&found, store->logdir);
    pthread_mutex_lock(&store->lock);
    store->searches++;
    pthread_mutex_unlock(&store->lock);
    for (size_t i = 0; result == 0 && i < found.count; i++)
        add_found(store, &found.items[i]);
    TRY(result);
    size_t count;
    OWNED struct board_run **runs = store_runs(store, &count);
    for (size_t i = 0; i < count; i++) {
        pthread_mutex_lock(&store->lock);
        bool is_there = runs[i]->seen == store->searches;
        pthread_mutex_unlock(&store->lock);
        if (!is_there)
            remove_run(store, runs[i]);
    }
    return 0;
}

int store_look(struct board_store *store, bool finds) {
    // A folder that sometimes cannot be listed (a network file system) keeps its runs.
    if (finds)
        TRY(find_runs(store));
    size_t count;
    OWNED struct board_run **runs = store_runs(store, &count);
    for (size_t i = 0; i < count; i++) {
        run_lock(runs[i]);
        // Before the cache is tried, there is nothing to compare the files with.
        bool has_more = !runs[i]->is_cache_tried || run_look(runs[i]);
        run_unlock(runs[i]);
        if (!has_more)
            continue;
        pthread_mutex_lock(&store->lock);
        runs[i]->has_work = true;
        pthread_cond_signal(&store->work);
        pthread_mutex_unlock(&store->lock);
    }
    return 0;
}

static void read_cache(struct board_store *store, struct board_run *run) {
    enum { MOST_BYTES = 64 << 20 };
    OWNED_BY(buffer_free) struct buffer bytes = {0};
    OWNED char *path = run_cache_path(run, store->cache_dir);
    if (file_is_regular(path) && file_read_all(path, MOST_BYTES, &bytes) == 0 &&
        run_cache_read(run, bytes.data, bytes.length) == 0)
        (void)utimensat(AT_FDCWD, path, NULL, 0);  // keeps a used file from being swept
    error_clear();
}

void store_write_cache(struct board_store *store, struct board_run *run, uint64_t least_bytes) {
    if (!store->cache_dir || run->is_gone)
        return;
    OWNED_BY(buffer_free) struct buffer bytes = {0};
    uint64_t read = 0;
    run_lock(run);
    for (int i = 0; i < run->file_count; i++)
        read += run->files[i].offset;
    bool is_due = read >= CACHE_LEAST_BYTES && read - run->cached_bytes >= least_bytes;
    if (is_due) {
        run_cache_write(run, &bytes);
        run->cached_bytes = read;
    }
    run_unlock(run);
    if (is_due) {
        OWNED char *path = run_cache_path(run, store->cache_dir);
        (void)file_write_private(path, bytes.data, bytes.length);
    }
    error_clear();
}

// The run with the least to read, so that most runs are soon complete; NULL for none. Call with the store's lock.
static struct board_run *take_run(struct board_store *store) {
    struct board_run *best = NULL;
    uint64_t least = 0;
    for (size_t i = 0; i < store->count; i++) {
        struct board_run *run = store->runs[i];
        if (!run->has_work || run->is_busy || run->is_gone)
            continue;
        uint64_t left = run->total_bytes - run->done_bytes;
        if (!best || left < least) {
            best = run;
            least = left;
        }
    }
    if (best) {
        best->is_busy = true;
        best->has_work = false;
        store->busy_count++;
    }
    return best;
}

// Reads for one turn. True if there is more.
static bool read_run(struct board_store *store, struct board_run *run, struct buffer *scratch) {
    bool has_more = true;
    run_lock(run);
    bool is_first = !run->is_cache_tried;
    if (is_first && store->cache_dir)
        read_cache(store, run);
    run->is_cache_tried = true;
    (void)run_look(run);
    if (is_first)
        run_take_peek(run);
    bool has_peek = run->peek != NULL;
    run_unlock(run);
    store->is_dirty = true;
    // All runs are checked before the first long one is read.
    if (is_first && has_peek)
        return true;
    for (int i = 0; has_more && i < TURN_CHUNKS && !store->is_closing; i++) {
        // Queries go first: with a mutex alone a reader could take it repeatedly.
        while (run->waiting > 0)
            sched_yield();
        pthread_mutex_lock(&run->lock);
        if (run->bin_limit != store->bin_limit)
            run_shrink(run, store->bin_limit);
        has_more = !run->is_gone && run_read(run, CHUNK_BYTES, scratch);
        if (!has_more)
            run_drop_peek(run);
        pthread_mutex_unlock(&run->lock);
        store->is_dirty = true;
    }
    if (!has_more)
        store_write_cache(store, run, CACHE_LEAST_BYTES);
    return has_more;
}

void store_work(struct board_store *store, bool waits) {
    OWNED_BY(buffer_free) struct buffer scratch = {0};
    pthread_mutex_lock(&store->lock);
    while (!store->is_closing) {
        struct board_run *run = take_run(store);
        if (!run && waits) {
            pthread_cond_wait(&store->work, &store->lock);
            continue;
        }
        if (!run)
            break;
        pthread_mutex_unlock(&store->lock);
        bool has_more = read_run(store, run, &scratch);
        pthread_mutex_lock(&store->lock);
        run->is_busy = false;
        run->has_work = run->has_work || has_more;
        store->busy_count--;
        if (run->has_work)
            pthread_cond_signal(&store->work);
    }
    pthread_mutex_unlock(&store->lock);
    error_clear();
}

void store_limit_memory(struct board_store *store) {
    size_t count;
    OWNED struct board_run **runs = store_runs(store, &count);
    for (;;) {
        uint64_t bytes = 0;
        for (size_t i = 0; i < count; i++)
            bytes += runs[i]->curve_bytes;
        if (bytes <= store->memory_bytes || store->bin_limit <= PYRAMID_FEWEST_BINS)
            break;
        int limit = store->bin_limit / 2;
        store->bin_limit = limit;
        for (size_t i = 0; i < count; i++) {
            run_lock(runs[i]);
            run_shrink(runs[i], limit);
            run_unlock(runs[i]);
        }
        store->is_dirty = true;
    }
}

void store_sweep_cache(const struct board_store *store) {
    DIR *stream = store->cache_dir ? opendir(store->cache_dir) : NULL;
    const struct dirent *entry;
    double now = clock_wall_seconds();
    while (stream && (entry = readdir(stream))) {
        const char *dot = strrchr(entry->d_name, '.');
        struct stat status;
        if (!dot || strcmp(dot, ".board") != 0)
            continue;
        OWNED char *path = file_join(store->cache_dir, entry->d_name);
        if (lstat(path, &status) == 0 && S_ISREG(status.st_mode) &&
            now - (double)status.st_mtime > CACHE_DAYS * 86400.0)
            (void)unlink(path);
    }
    if (stream)
        closedir(stream);
}
