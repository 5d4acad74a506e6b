// A walk through folders. See run_find.h.
#include "report/board/run_find.h"

#include "base/error.h"
#include "base/file.h"
#include "base/file_remedy.h"
#include "base/memory.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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

// The names of one folder.
struct found_names {
    char **items;
    size_t count;
};

static void names_add(struct found_names *names, const char *name) {
    names->items = memory_realloc(names->items, (names->count + 1) * sizeof names->items[0]);
    names->items[names->count++] = memory_string(name);
}

static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void names_sort(struct found_names *names) {
    if (names->count > 1)
        qsort(names->items, names->count, sizeof names->items[0], compare_names);
}

static void names_free(struct found_names *names) {
    for (size_t i = 0; i < names->count; i++)
        free(names->items[i]);
    free(names->items);
    *names = (struct found_names){0};
}

static struct found_run *add_run(struct found_runs *found, char *path, const char *name, bool is_events) {
    found->items = memory_realloc(found->items, (found->count + 1) * sizeof found->items[0]);
    struct found_run *run = &found->items[found->count++];
    *run = (struct found_run){.path = path, .name = memory_string(name), .is_events = is_events};
    return run;
}

static void add_file(struct found_run *run, char *path) {
    run->files = memory_realloc(run->files, (run->file_count + 1) * sizeof run->files[0]);
    run->files[run->file_count++] = path;
}

// The kind of a name, without asking the file system twice where the folder provides it.
static unsigned char type_of(const char *folder, const struct dirent *entry) {
    if (entry->d_type != DT_UNKNOWN)
        return entry->d_type;
    struct stat status;
    char *path = file_join(folder, entry->d_name);
    unsigned char type = DT_UNKNOWN;
    if (lstat(path, &status) == 0)
        type = S_ISDIR(status.st_mode) ? DT_DIR : S_ISREG(status.st_mode) ? DT_REG : DT_LNK;
    free(path);
    return type;
}

// A link may lead to a file, but not to a pipe or a device, which could block.
static bool is_file(const char *folder, const char *name) {
    char *path = file_join(folder, name);
    bool is = file_is_regular(path);
    free(path);
    return is;
}

struct folder_content {
    struct found_names folders, metrics, events, notes;
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
            names_add(&content->folders, name);
        else if (type != DT_REG && type != DT_LNK)
            continue;
        else if (ends_with(name, metrics_name) && (type == DT_REG || is_file(folder, name)))
            names_add(&content->metrics, name);
        else if (ends_with(name, note_name) && type == DT_REG)
            names_add(&content->notes, name);
        else if (is_events_name(name) && content->events.count < MOST_FILES &&
                 (type == DT_REG || is_file(folder, name)))
            names_add(&content->events, name);
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
    for (size_t i = 0; i < content->notes.count; i++) {
        const char *name = content->notes.items[i];
        if (strncmp(name, metrics, prefix) == 0 && strcmp(name + prefix, note_name) == 0)
            return file_join(folder, name);
    }
    return NULL;
}

// is_in_run: the folder above has metrics; event files here belong to that run, as --tensorboard-dir puts them.
static void add_runs(struct found_runs *found, const char *folder, const char *below,
                     const struct folder_content *content, bool is_in_run) {
    for (size_t i = 0; i < content->metrics.count && found->count < MOST_RUNS; i++) {
        const char *name = content->metrics.items[i];
        char *path = file_join(folder, name), *whole = *below ? file_join(below, name) : memory_string(name);
        const char *slash = strrchr(folder, '/'), *own = slash && slash[1] ? slash + 1 : folder;
        bool is_plain = strcmp(name, metrics_name) == 0;
        struct found_run *run = add_run(found, path, is_plain ? (*below ? below : own) : whole, false);
        run->is_top = is_plain && !*below;
        run->note = find_note(folder, name, content);
        add_file(run, memory_string(path));
        free(whole);
    }
    if (content->metrics.count > 0 || is_in_run || content->events.count == 0 || found->count == MOST_RUNS)
        return;
    const char *slash = strrchr(folder, '/'), *own = slash && slash[1] ? slash + 1 : folder;
    struct found_run *run = add_run(found, memory_string(folder), *below ? below : own, true);
    run->is_top = !*below;
    run->note = find_note(folder, metrics_name, content);
    for (size_t i = 0; i < content->events.count; i++)
        add_file(run, file_join(folder, content->events.items[i]));
}

static int walk(struct found_runs *found, const char *folder, const char *below, int depth, bool is_in_run) {
    struct folder_content content = {0};
    int result = list_folder(folder, &content);
    if (result == 0)
        add_runs(found, folder, below, &content, is_in_run);
    for (size_t i = 0; result == 0 && depth < MOST_DEPTH && i < content.folders.count; i++) {
        const char *name = content.folders.items[i];
        char *path = file_join(folder, name), *whole = *below ? file_join(below, name) : memory_string(name);
        // Another user's folder may not be readable.
        if (walk(found, path, whole, depth + 1, content.metrics.count > 0) < 0)
            error_clear();
        free(path);
        free(whole);
    }
    names_free(&content.folders);
    names_free(&content.metrics);
    names_free(&content.events);
    names_free(&content.notes);
    return result;
}

int run_find(struct found_runs *found, const char *path) {
    *found = (struct found_runs){0};
    if (!file_is_regular(path))
        return walk(found, path, "", 0, false);
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct found_run *run = add_run(found, memory_string(path), name, is_events_name(name));
    run->is_top = true;
    add_file(run, memory_string(path));
    return 0;
}

void run_find_free(struct found_runs *found) {
    for (size_t i = 0; i < found->count; i++) {
        struct found_run *run = &found->items[i];
        for (size_t k = 0; k < run->file_count; k++)
            free(run->files[k]);
        free(run->files);
        free(run->path);
        free(run->name);
        free(run->note);
    }
    free(found->items);
    *found = (struct found_runs){0};
}
