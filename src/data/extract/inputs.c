// Expands what stands after --input into files that exist.
#include "data/extract/inputs.h"
#include "base/error.h"
#include "base/file.h"
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

// strcmp order, whatever the locale, so that a dataset does not depend on it.
static int compare_names(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int expand_pattern(struct string_list *files, const char *pattern) {
    glob_t found;
    int status = glob(pattern, GLOB_NOSORT, NULL, &found);
    if (status != 0) {
        globfree(&found);
        return error_set("no file matches %s; check the path", pattern);
    }
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, compare_names);
    for (size_t i = 0; i < found.gl_pathc; i++)
        if (!file_is_folder(found.gl_pathv[i]))
            string_list_add(files, found.gl_pathv[i]);
    globfree(&found);
    return 0;
}

int inputs_expand(struct string_list *files, const struct string_list *names) {
    for (int64_t i = 0; i < names->count; i++) {
        const char *name = names->items[i];
        if (strcmp(name, "-") == 0 || (file_exists(name) && !file_is_folder(name)))
            string_list_add(files, name);
        else if (file_is_folder(name))
            return error_set("%s is a folder; name the files in it, for instance '%s/*.jsonl'", name, name);
        else if (strpbrk(name, "*?["))
            TRY(expand_pattern(files, name));
        else
            return error_set("cannot open %s: no such file; check the path", name);
    }
    if (files->count == 0)
        return error_set("no input files");
    return 0;
}

uint64_t inputs_bytes(const struct string_list *files) {
    uint64_t total = 0;
    for (int64_t i = 0; i < files->count; i++) {
        struct stat status;
        if (strcmp(files->items[i], "-") == 0 || stat(files->items[i], &status) < 0 || !S_ISREG(status.st_mode))
            return 0;
        total += (uint64_t)status.st_size;
    }
    return total;
}
