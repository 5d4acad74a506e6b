// Names and counts of files that are not read. See left_out.h.
#include "data/extract/left_out.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/log.h"
#include "data/bad_data.h"
#include "data/extract/content.h"
#include "data/extract/inputs.h"
#include "data/extract/text_format.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *name_of(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

bool left_out_is_about(const char *name) {
    static const char *const stems[] = {"readme",          "license",      "licence",      "copying",      "notice",
                                        "contributing",    "citation",     "security",     "changelog",    "authors",
                                        "code_of_conduct", "dataset_card", "datacard",     "datasheet",    "model_card",
                                        "dataset_infos",   "dataset_info", "dataset_dict", "requirements", "state"};
    static const char *const for_people[] = {".md", ".txt", ".text", ".json", NULL};
    if (strchr(name, '.') && !inputs_are_wanted(name, for_people))
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

void left_out_add(struct left_out *left, const char *path) {
    const char *name = name_of(path);
    if (name[0] == '.')
        left->hidden += strcmp(name, ".bevatron-cache") != 0;
    else
        string_list_add(left_out_is_about(name) ? &left->about : &left->others, path);
}

void left_out_free(struct left_out *left) {
    string_list_free(&left->others);
    string_list_free(&left->about);
    *left = (struct left_out){0};
}

// ".parquet" or ".csv.gz" of a path; "" if it has none.
static const char *ending_of(const char *path) {
    const char *name = name_of(path);
    size_t at = inputs_stem_bytes(name);
    while (at > 0 && name[at] != '.')
        at--;
    const char *last = strrchr(name, '.');
    return at > 0 ? name + at : last ? last : "";
}

static int compare_names(const void *a, const void *b) {
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
    return inputs_are_wanted(path, text_format_endings) ? error_set("--input-format auto reads them, too")
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
        qsort(left->about.items, (size_t)left->about.count, sizeof *left->about.items, compare_names);
    if (left->others.count > 0)
        qsort(left->others.items, (size_t)left->others.count, sizeof *left->others.items, compare_endings);
}

void left_out_say(struct left_out *left, const char *folder) {
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

int left_out_refuse(struct left_out *left, const char *folder, const char *const *endings) {
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
