// Expands the values of --input into existing files.
#include "data/extract/inputs.h"
#include "base/words.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "net/hub.h"
#include "base/log.h"
#include "base/memory.h"
#include "net/remote.h"
#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

// ---- files that are not read ----

// Files in a folder of other kinds, hidden ones, and those that tell people about the data (README.md, LICENSE, cards).
// They are counted and named; for a kind that may hold text, with the command that extracts it.
struct left_out {
    struct string_list others;  // paths
    struct string_list about;   // names of files about the data
    int64_t hidden;
};

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

// Whether the file is about the data beside it: README.md, LICENSE.txt, dataset_infos.json.
static bool is_about(const char *name) {
    static const char *const stems[] = {"readme",          "license",      "licence",      "copying",      "notice",
                                        "contributing",    "citation",     "security",     "changelog",    "authors",
                                        "code_of_conduct", "dataset_card", "datacard",     "datasheet",    "model_card",
                                        "dataset_infos",   "dataset_info", "dataset_dict", "requirements", "state"};
    static const char *const for_people[] = {".md", ".txt", ".text", ".json", NULL};
    if (strchr(name, '.') && !ending_is_among(name, for_people))
        return false;
    size_t length = strcspn(name, ".");
    // LICENSE-MIT.txt, README_de.md
    if (strncasecmp(name, "readme", 6) == 0 || strncasecmp(name, "licen", 5) == 0)
        length = strcspn(name, ".-_");
    for (size_t i = 0; i < sizeof stems / sizeof stems[0]; i++)
        if (strlen(stems[i]) == length && strncasecmp(name, stems[i], length) == 0)
            return true;
    return false;
}

// Notes a file that is not read.
static void leave_out(struct left_out *left, const char *path) {
    const char *name = name_of(path);
    if (name[0] == '.')
        left->hidden += strcmp(name, ".bevatron-cache") != 0;
    else
        string_list_add(is_about(name) ? &left->about : &left->others, path);
}

static void left_out_free(struct left_out *left) {
    string_list_free(&left->others);
    string_list_free(&left->about);
    *left = (struct left_out){0};
}

// ".parquet" or ".csv.gz" of a path; "" if it has none.
static const char *ending_of(const char *path) {
    const char *name = name_of(path);
    size_t at = ending_stem_bytes(name);
    while (at > 0 && name[at] != '.')
        at--;
    const char *last = strrchr(name, '.');
    return at > 0 ? name + at : last ? last : "";
}

static int compare_base_names(const void *a, const void *b) {
    return strcmp(name_of(*(char *const *)a), name_of(*(char *const *)b));
}

static int compare_endings(const void *a, const void *b) {
    const char *one = *(char *const *)a, *other = *(char *const *)b;
    int order = strcmp(ending_of(one), ending_of(other));
    return order != 0 ? order : strcmp(one, other);
}

// Sorted: how many files from `at` on have the same ending.
static int64_t count_alike(const struct left_out *left, int64_t at) {
    int64_t end = at;
    while (end < left->others.count &&
           strcmp(ending_of(left->others.items[end]), ending_of(left->others.items[at])) == 0)
        end++;
    return end - at;
}

// "3 .parquet files"
static void append_files(struct buffer *out, int64_t count, const char *kind) {
    buffer_printf(out, "%s%" PRId64 " %s%sfile%s", out->length > 0 ? ", " : "", count, kind, *kind ? " " : "",
                  count == 1 ? "" : "s");
}

// Sets the error that says what a file is and how to get its text; 0 if that is not known.
static int explain(const char *path) {
    return ending_is_among(path, text_format_endings) ? error_set("--input-format auto reads them, too")
                                                      : content_explain(path);
}

// Appends files that no command converts to text, by name or count.
static void append_rest(struct buffer *out, const struct left_out *left) {
    enum { MOST_NAMES = 4 };
    for (int64_t i = 0; i < left->about.count && i < MOST_NAMES; i++)
        buffer_printf(out, "%s%s", i > 0 ? ", " : "", name_of(left->about.items[i]));
    if (left->about.count > MOST_NAMES)
        append_files(out, left->about.count - MOST_NAMES, "more such");
    if (left->hidden > 0)
        append_files(out, left->hidden, "hidden");
    for (int64_t at = 0, count; at < left->others.count; at += count) {
        count = count_alike(left, at);
        if (explain(left->others.items[at]) == 0)
            append_files(out, count, ending_of(left->others.items[at]));
        error_clear();
    }
}

static void sort(struct left_out *left) {
    if (left->about.count > 0)
        qsort(left->about.items, (size_t)left->about.count, sizeof *left->about.items, compare_base_names);
    if (left->others.count > 0)
        qsort(left->others.items, (size_t)left->others.count, sizeof *left->others.items, compare_endings);
}

// Logs the files left out of the folder, with a warning for each kind that may hold text.
static void say_left_out(struct left_out *left, const char *folder) {
    struct buffer rest = {0};
    sort(left);
    for (int64_t at = 0, count; at < left->others.count; at += count) {
        struct buffer files = {0};
        count = count_alike(left, at);
        append_files(&files, count, ending_of(left->others.items[at]));
        if (explain(left->others.items[at]) < 0)
            log_warn("%s left out of %s: %s", buffer_string(&files), folder, error_message());
        error_clear();
        buffer_free(&files);
    }
    append_rest(&rest, left);
    if (rest.length > 0)
        log_info("note: left out of %s: %s", folder, buffer_string(&rest));
    buffer_free(&rest);
}

// The error of a folder that has nothing to read, and wanted files with the first of the endings: -1.
static int refuse_left_out(struct left_out *left, const char *folder, const char *const *endings) {
    struct buffer rest = {0}, wanted = {0};
    sort(left);
    for (int64_t at = 0; at < left->others.count; at += count_alike(left, at))
        if (explain(left->others.items[at]) < 0) {
            append_files(&rest, count_alike(left, at), ending_of(left->others.items[at]));
            error_context("%s has no text but %s", folder, buffer_string(&rest));
            buffer_free(&rest);
            return -1;
        }
    append_rest(&rest, left);
    for (; *endings; endings++)
        buffer_printf(&wanted, "%s%s", wanted.length > 0 ? ", " : "", *endings);
    error_set("%s is a folder without %s files (or .gz, .bz2, .xz, .zst of them)%s%s; name the files, e.g. '%s/*'",
              folder, buffer_string(&wanted), rest.length > 0 ? "; it has " : "", buffer_string(&rest), folder);
    buffer_free(&rest);
    buffer_free(&wanted);
    return -1;
}

// ---- patterns ----

// A pattern may also match files about the data (README.md): they are left out unless it matches nothing else.
static void take_found(struct string_list *files, char *const *names, size_t count, const char *pattern) {
    struct left_out left = {0};
    size_t about = 0;
    for (size_t i = 0; i < count; i++)
        about += is_about(name_of(names[i]));
    for (size_t i = 0; i < count; i++)
        string_list_add(about < count && is_about(name_of(names[i])) ? &left.about : files, names[i]);
    say_left_out(&left, pattern);
    left_out_free(&left);
}

static int expand_pattern(struct string_list *files, const char *pattern) {
    glob_t found;
    int status = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (status != 0) {
        globfree(&found);
        return error_set("no file matches %s; check the path", pattern);
    }
    struct string_list names = {0};
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, words_compare);
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (!file_is_folder(found.gl_pathv[i]))
            string_list_add(&names, found.gl_pathv[i]);
    take_found(files, names.items, (size_t)names.count, pattern);
    string_list_free(&names);
    globfree(&found);
    return 0;
}

// Whether another of the names is a file in the folder of this one that is not about the data.
static bool has_data_beside(const struct string_list *names, const char *name) {
    const size_t folder = (size_t)(name_of(name) - name);
    for (int64_t i = 0; i < names->count; i++) {
        const char *other = names->items[i];
        if (strncmp(other, name, folder) == 0 && (size_t)(name_of(other) - other) == folder && file_exists(other) &&
            !is_about(name_of(other)))
            return true;
    }
    return false;
}

void inputs_leave_out(struct string_list *names, bool says_so) {
    struct string_list kept = {0};
    struct left_out left = {0};
    char *end;
    for (int64_t i = 0; i < names->count; i++) {
        const char *name = names->items[i];
        const bool is_weight = strtod(name, &end) >= 0 && *end == '\0';
        if (is_weight && !file_exists(name))
            break;
        const bool is_left = file_is_regular(name) && is_about(name_of(name)) && has_data_beside(names, name);
        string_list_add(is_left ? &left.about : &kept, name);
    }
    if (left.about.count > 0 && left.about.count + kept.count == names->count) {
        if (says_so)
            say_left_out(&left, "the files given");
        string_list_free(names);
        *names = kept;
        kept = (struct string_list){0};
    }
    string_list_free(&kept);
    left_out_free(&left);
}

// ---- walking a folder ----

// The files to read in a folder or prefix, and those left out.
struct input_walk {
    struct string_list *files;
    const char *const *endings;
    struct left_out left;
};

static void take_file(struct input_walk *walk, const char *path, const char *name) {
    bool is_data = name[0] != '.' && !is_about(name) && ending_is_among(name, walk->endings);
    if (is_data)
        string_list_add(walk->files, path);
    else
        leave_out(&walk->left, path);
}

static int walk_folder(struct input_walk *walk, const char *path) {
    DIR *folder = opendir(path);
    if (!folder)
        return error_set("cannot open the folder %s: %s; check its permissions", path, strerror(errno));
    int result = 0;
    const struct dirent *entry;
    while (result == 0 && (errno = 0, entry = readdir(folder))) {
        struct stat status;
        const char *name = entry->d_name;
        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
            continue;
        char *inner = file_join(path, name);
        if (name[0] != '.' && lstat(inner, &status) == 0 && S_ISDIR(status.st_mode))
            result = walk_folder(walk, inner);
        else if (name[0] == '.' || !file_is_folder(inner))
            take_file(walk, inner, name);
        free(inner);
    }
    // Otherwise unlisted files would be missing silently.
    if (result == 0 && errno != 0)
        result = error_set("cannot list all of the folder %s: %s; check the disk", path, strerror(errno));
    closedir(folder);
    return result;
}

static int expand_folder(struct string_list *files, const char *path, const char *const *endings) {
    int64_t before = files->count;
    struct input_walk walk = {.files = files, .endings = endings};
    int status = walk_folder(&walk, path);
    if (status == 0 && files->count == before)
        status = refuse_left_out(&walk.left, path, endings);
    else if (status == 0)
        say_left_out(&walk.left, path);
    left_out_free(&walk.left);
    TRY(status);
    qsort(files->items + before, (size_t)(files->count - before), sizeof *files->items, words_compare);
    return 0;
}

// ---- S3 and the web ----

// The objects below a prefix that ends with a slash.
static int add_prefix(struct string_list *files, const char *prefix, const char *const *endings) {
    struct remote_list list;
    struct input_walk walk = {.files = files, .endings = endings};
    int64_t before = files->count;
    TRY(remote_list(&list, prefix, false));
    for (size_t i = 0; i < list.count; i++) {
        const char *url = list.objects[i].url, *name = url + strlen(prefix), *slash = strrchr(name, '/');
        name = strstr(name, "/.") ? "" : slash ? slash + 1 : name;
        if (*name)
            take_file(&walk, url, name);
    }
    if (files->count > before)
        say_left_out(&walk.left, prefix);
    left_out_free(&walk.left);
    remote_list_free(&list);
    return 0;
}

static int expand_prefix(struct string_list *files, const char *prefix, const char *const *endings) {
    int64_t before = files->count;
    if (!endings)
        return error_set("%s is a prefix of many objects; name them, e.g. '%s*.jsonl'", prefix, prefix);
    TRY(add_prefix(files, prefix, endings));
    if (files->count == before)
        return error_set("there are no %s objects (or .gz, .bz2, .xz, .zst of them) below %s; check the prefix, or "
                         "give a pattern, e.g. '%s*'",
                         endings[0], prefix, prefix);
    return 0;
}

static int expand_objects(struct string_list *files, const char *pattern) {
    struct remote_list list;
    struct string_list names = {0};
    TRY(remote_glob(&list, pattern));
    for (size_t i = 0; i < list.count; i++)
        string_list_add(&names, list.objects[i].url);
    take_found(files, names.items, (size_t)names.count, pattern);
    string_list_free(&names);
    remote_list_free(&list);
    return 0;
}

// One object or web file. If there is no object of that name, it may be a folder, as on disk.
static int expand_object(struct string_list *files, const char *name, const char *const *endings) {
    struct remote_object object;
    char *shown = url_is_s3(name) ? memory_string(name) : remote_hide(name);
    int64_t before = files->count;
    int status = remote_find(&object, shown);
    remote_object_free(&object);
    if (status > 0) {
        string_list_add(files, shown);
    } else if (status == 0) {
        char *folder = url_join(name, "");
        status = url_is_s3(name) && endings ? add_prefix(files, folder, endings) : 0;
        if (status == 0 && files->count == before)
            status =
                error_set("cannot open %s: no such %s; check the address", shown, url_is_s3(name) ? "object" : "file");
        free(folder);
    }
    free(shown);
    return status < 0 ? -1 : 0;
}

static int expand_remote(struct string_list *files, const char *name, const char *const *endings) {
    size_t length = strlen(name);
    bool is_bucket = url_is_s3(name) && !strchr(name + strlen("s3://"), '/');
    TRY(content_check_name(name));
    if (url_is_s3(name) && strpbrk(name, "*?["))
        return expand_objects(files, name);
    if (is_bucket) {
        char *folder = url_join(name, "");
        int status = expand_prefix(files, folder, endings);
        free(folder);
        return status;
    }
    if (url_is_s3(name) && name[length - 1] == '/')
        return expand_prefix(files, name, endings);
    return expand_object(files, name, endings);
}

int inputs_expand_folders(struct string_list *files, const struct string_list *given, const char *const *endings) {
    OWNED_BY(string_list_free) struct string_list names = {0};
    for (int64_t i = 0; i < given->count; i++)
        string_list_add(&names, given->items[i]);
    inputs_leave_out(&names, true);
    for (int64_t i = 0; i < names.count; i++) {
        const char *name = names.items[i];
        if (url_is_remote(name))
            TRY(expand_remote(files, name, endings));
        else if (strcmp(name, "-") == 0 || (file_exists(name) && !file_is_folder(name)))
            string_list_add(files, name);
        else if (file_is_folder(name) && !endings)
            return error_set("%s is a folder; name the files in it, e.g. '%s/*.jsonl'", name, name);
        else if (file_is_folder(name))
            TRY(expand_folder(files, name, endings));
        else if (content_check_name(name) < 0)
            return -1;
        else if (strpbrk(name, "*?["))
            TRY(expand_pattern(files, name));
        else
            return error_set("cannot open %s: no such file; check the path", name), hub_suggest(name, HUB_DATASET);
    }
    if (files->count == 0)
        return error_set("no input files");
    return 0;
}

int inputs_expand(struct string_list *files, const struct string_list *names) {
    return inputs_expand_folders(files, names, NULL);
}

// 0 if unknown, without an error: the object is opened soon anyway.
static uint64_t remote_bytes(const char *url) {
    struct remote_object object;
    bool is_known = remote_find(&object, url) > 0 && object.size != UINT64_MAX;
    uint64_t size = is_known ? object.size : 0;
    remote_object_free(&object);
    error_clear();
    return size;
}

uint64_t inputs_bytes(const struct string_list *files) {
    uint64_t total = 0;
    for (int64_t i = 0; i < files->count; i++) {
        struct stat status;
        if (url_is_remote(files->items[i])) {
            uint64_t size = remote_bytes(files->items[i]);
            if (size == 0)
                return 0;
            total += size;
            continue;
        }
        if (strcmp(files->items[i], "-") == 0 || stat(files->items[i], &status) < 0 || !S_ISREG(status.st_mode))
            return 0;
        total += (uint64_t)status.st_size;
    }
    return total;
}
