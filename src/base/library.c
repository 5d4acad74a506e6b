// Looks for shared libraries and loads them. See library.h.
#include "base/library.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"

#include <dlfcn.h>
#include <glob.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const void *library_tables[LIBRARY_COUNT];

static struct { char *path, version[64]; } loaded[LIBRARY_COUNT];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *(*environment)(const char *name);

void library_set_environment(const char *(*get)(const char *name)) {
    environment = get;
}

static const char *variable(const char *name) {
    const char *value = environment && name ? environment(name) : NULL;
    return value && *value ? value : NULL;
}

// Files that were found but rejected, with the reasons: "A is …; B has no …; ".
struct library_search {
    const struct library *library;
    struct buffer refused;
};

// The path of the file of a handle.
static char *path_of(void *handle) {
    struct link_map *map = NULL;
    if (dlinfo(handle, RTLD_DI_LINKMAP, &map) < 0 || !map)
        return memory_string("");
    char *real = realpath(map->l_name, NULL);
    return real ? real : memory_string(map->l_name);
}

// Fills the table; returns the name of the first missing symbol, or NULL.
static const char *find_symbols(const struct library *library, void *handle, unsigned char *table) {
    const char *missing = NULL;
    for (int i = 0; i < library->symbol_count; i++) {
        void *address = dlsym(handle, library->symbols[i]);
        // C has no cast from a data pointer to a function pointer; in POSIX both have one size.
        memcpy(table + sizeof address * (size_t)i, &address, sizeof address);
        if (!address && !missing)
            missing = library->symbols[i];
    }
    return missing;
}

static void load_companions(const struct library *library, const char *path) {
    char *folder = file_parent(path), *pattern = file_join(folder, library->companions);
    glob_t found = {0};
    if (glob(pattern, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            (void)dlopen(found.gl_pathv[i], RTLD_LAZY | RTLD_GLOBAL);
    globfree(&found);
    free(pattern);
    free(folder);
}

// Takes the library if it fits; returns whether it does.
static bool accept(struct library_search *search, void *handle) {
    const struct library *library = search->library;
    char *path = path_of(handle), version[sizeof loaded[0].version] = "";
    unsigned char *table = memory_alloc(sizeof(void *) * (size_t)library->symbol_count);
    const char *missing = find_symbols(library, handle, table);
    // If the version can be read, a wrong one explains the missing symbols.
    bool has_version = missing != library->symbols[0];
    bool is_wrong = has_version && library->check(table, version, sizeof version) < 0;
    if (!is_wrong && !missing) {
        loaded[library->id].path = path;
        memcpy(loaded[library->id].version, version, sizeof version);
        library_tables[library->id] = table;
        if (library->companions)
            load_companions(library, path);
        return true;
    }
    if (!strstr(buffer_string(&search->refused), path))
        buffer_printf(&search->refused, "%s %s%s; ", path, is_wrong ? error_message() : "has no symbol ",
                      is_wrong ? "" : missing);
    error_clear();
    free(table);
    free(path);
    dlclose(handle);
    return false;
}

// `name` is a path, or a soname for the dynamic loader. Files that it does not find are not reported; files that it
// finds and cannot load are, e.g. a library that needs another one.
static bool try_name(struct library_search *search, const char *name) {
    void *handle = dlopen(name, RTLD_LAZY | (search->library->is_global ? RTLD_GLOBAL : RTLD_LOCAL));
    if (handle)
        return accept(search, handle);
    const char *why = dlerror();
    size_t length = strlen(name);
    bool is_absent = why && strncmp(why, name, length) == 0 && strstr(why, "No such file") != NULL;
    if (why && !is_absent && !strstr(buffer_string(&search->refused), why))
        buffer_printf(&search->refused, "%s; ", why);
    return false;
}

static bool try_folder(struct library_search *search, const char *folder) {
    bool is_found = false;
    for (const char *const *soname = search->library->sonames; *soname && !is_found; soname++) {
        char *path = file_join(folder, *soname);
        is_found = file_exists(path) && try_name(search, path);
        free(path);
    }
    return is_found;
}

// The folder of a process's program; NULL if it cannot be read. To be freed.
static char *folder_of_program(const char *process) {
    char link[64], program[4096];
    snprintf(link, sizeof link, "/proc/%s/exe", process);
    ssize_t length = readlink(link, program, sizeof program - 1);
    if (length <= 0)
        return NULL;
    program[length] = 0;
    return file_parent(program);
}

// Replaces a leading $NAME by its value; NULL if it has none. To be freed.
static char *expand(const char *pattern) {
    if (pattern[0] != '$')
        return memory_string(pattern);
    size_t length = strcspn(pattern, "/");
    if (strncmp(pattern, "$ORIGIN", length) == 0) {
        char *origin = folder_of_program("self"),
             *path = origin ? memory_printf("%s%s", origin, pattern + length) : NULL;
        free(origin);
        return path;
    }
    char *name = memory_printf("%.*s", (int)length - 1, pattern + 1);
    const char *value = variable(name);
    free(name);
    return value ? memory_printf("%s%s", value, pattern + length) : NULL;
}

static bool try_pattern(struct library_search *search, const char *pattern) {
    char *expanded = expand(pattern);
    glob_t found = {0};
    bool is_found = false;
    if (expanded && glob(expanded, 0, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc && !is_found; i++)
            is_found = try_folder(search, found.gl_pathv[i]);
    globfree(&found);
    free(expanded);
    return is_found;
}

// PREFIX/bin/mpirun has its library in PREFIX/lib or PREFIX/lib64.
static bool try_beside_starter(struct library_search *search) {
    static const char *const names[] = {"lib64", "lib"};
    char process[32];
    snprintf(process, sizeof process, "%d", (int)getppid());
    char *bin = folder_of_program(process);
    if (!bin)
        return false;
    char *prefix = file_parent(bin);
    bool is_found = false;
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !is_found; i++) {
        char *folder = file_join(prefix, names[i]);
        is_found = try_folder(search, folder);
        free(folder);
    }
    free(prefix);
    free(bin);
    return is_found;
}

static bool find_library(struct library_search *search) {
    const struct library *library = search->library;
    const char *given = variable(library->variable);
    if (given)
        return file_is_folder(given) ? try_folder(search, given) : try_name(search, given);
    if (library->is_beside_starter && try_beside_starter(search))
        return true;
    for (const char *const *soname = library->sonames; *soname && !library->is_own; soname++)
        if (try_name(search, *soname))
            return true;
    for (const char *const *folder = library->folders; *folder; folder++)
        if (try_pattern(search, *folder))
            return true;
    return false;
}

// Names an installed library that the user may have mistaken for this one.
static void find_rival(struct library_search *search) {
    const struct library *library = search->library;
    for (const char *const *rival = library->rivals; rival && *rival; rival++) {
        void *handle = dlopen(*rival, RTLD_LAZY | RTLD_LOCAL);
        if (!handle)
            continue;
        char *path = path_of(handle);
        buffer_printf(&search->refused, "%s is %s; ", path, library->rivals_are);
        free(path);
        dlclose(handle);
        return;
    }
}

// "libnccl.so.2 was searched for with the dynamic loader (LD_LIBRARY_PATH is not set) and in A, B".
static void say_where(const struct library *library, struct buffer *out) {
    const char *path = variable("LD_LIBRARY_PATH"), *before = library->is_own ? " in " : " and in ";
    for (const char *const *soname = library->sonames; *soname; soname++)
        buffer_printf(out, "%s%s", soname == library->sonames ? "" : " or ", *soname);
    buffer_append_string(out, " was searched for");
    if (!library->is_own)
        buffer_printf(out, " with the dynamic loader (LD_LIBRARY_PATH is %s)", path ? path : "not set");
    for (const char *const *folder = library->folders; *folder; folder++) {
        char *expanded = expand(*folder);
        if (expanded)
            buffer_printf(out, "%s%s", before, expanded);
        before = expanded ? ", " : before;
        free(expanded);
    }
}

// The remedy. If the user has named a file, nothing else was tried.
static void say_remedy(const struct library *library, bool is_short, struct buffer *out) {
    const char *given = variable(library->variable);
    if (given)
        buffer_printf(out, "%s is %s%s: correct or unset it", library->variable, given,
                      file_exists(given) ? "" : ", which does not exist");
    else
        buffer_append_string(out, library->package);
    if (!given && !is_short)
        buffer_printf(out, ", or set %s to its path", library->variable);
    if (!is_short && library->instead)
        buffer_printf(out, ", or %s", library->instead);
}

// Loads it; the reasons for rejecting files are in the search, which the caller frees.
static int load(struct library_search *search) {
    if (library_tables[search->library->id] || find_library(search))
        return 0;
    if (!variable(search->library->variable))
        find_rival(search);
    return -1;
}

int library_load(const struct library *library) {
    struct library_search search = {.library = library};
    pthread_mutex_lock(&lock);
    int status = load(&search);
    pthread_mutex_unlock(&lock);
    if (status < 0) {
        struct buffer text = {0};
        if (!variable(library->variable)) {
            say_where(library, &text);
            buffer_append_string(&text, "; ");
        }
        say_remedy(library, false, &text);
        error_set("cannot load %s, which %s need: %s%s", library->name, library->user, buffer_string(&search.refused),
                  buffer_string(&text));
        buffer_free(&text);
    }
    buffer_free(&search.refused);
    return status;
}

bool library_describe(const struct library *library, struct buffer *out) {
    struct library_search search = {.library = library};
    pthread_mutex_lock(&lock);
    bool is_loaded = load(&search) == 0;
    pthread_mutex_unlock(&lock);
    if (is_loaded) {
        buffer_printf(out, "%s  %s", loaded[library->id].version, loaded[library->id].path);
    } else {
        buffer_printf(out, "%s: %s", search.refused.length > 0 ? "unfit" : "missing", buffer_string(&search.refused));
        say_remedy(library, true, out);
    }
    buffer_free(&search.refused);
    return is_loaded;
}
