// Names of unfinished files and folders: PATH.tmp.HOST.PID.RANDOM. Host and random part separate files of machines and
// containers with equal process numbers in one shared folder; all three tell a later process which files are dead.
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define DIGITS "0123456789"
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

static const char mark[] = ".tmp.";

enum { HOST_BYTES = 33, RANDOM_DIGITS = 8, DAY_SECONDS = 24 * 60 * 60 };

// Dots separate the parts of a name, so the host has none; a long host name is cut, because file names end at 255
// bytes.
static void host_part(char host[HOST_BYTES]) {
    char name[256] = "";
    if (gethostname(name, sizeof name - 1) < 0 || name[0] == '\0')
        memcpy(name, "host", sizeof "host");
    size_t length = 0;
    for (; length < HOST_BYTES - 1 && name[length]; length++) {
        char c = name[length];
        bool is_plain = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        host[length] = '-';
        if (is_plain)
            host[length] = c;
    }
    host[length] = '\0';
}

char *file_temporary_name(const char *path) {
    char host[HOST_BYTES];
    uint32_t value = 0;
    host_part(host);
    // Without random numbers the clock still differs from one call to the next.
    if (getrandom(&value, sizeof value, GRND_NONBLOCK) != (ssize_t)sizeof value) {
        struct timespec now = {0};
        (void)clock_gettime(CLOCK_REALTIME, &now);
        value = (uint32_t)now.tv_nsec ^ (uint32_t)now.tv_sec << 8;
    }
    return memory_printf("%s.tmp.%s.%ld.%08" PRIx32, path, host, (long)getpid(), value);
}

// Whether this is exactly HOST.PID.RANDOM.
static bool is_suffix(const char *host) {
    const char *process = host + strspn(host, LETTERS DIGITS "-");
    if (process == host || *process++ != '.')
        return false;
    const char *random = process + strspn(process, DIGITS);
    if (random == process || *random++ != '.')
        return false;
    return strlen(random) == RANDOM_DIGITS && strspn(random, DIGITS "abcdef") == RANDOM_DIGITS;
}

size_t file_temporary_stem(const char *name) {
    const char *found = NULL;
    for (const char *at = strstr(name, mark); at; at = strstr(at + 1, mark))
        found = at;
    return found && is_suffix(found + sizeof mark - 1) ? (size_t)(found - name) : 0;
}

// The process in the last parts of a name, "….HOST.PID.RANDOM", if they are of this host and well-formed; else 0.
static pid_t process_of(const char *path) {
    char expected[HOST_BYTES];
    host_part(expected);
    const char *random = strrchr(path, '.');
    if (!random || strlen(random + 1) != RANDOM_DIGITS || strspn(random + 1, "0123456789abcdef") != RANDOM_DIGITS)
        return 0;
    const char *number = random;
    while (number > path && number[-1] >= '0' && number[-1] <= '9')
        number--;
    size_t host = strlen(expected);
    if (random - number < 1 || random - number > 9 || (size_t)(number - path) < host + 2)
        return 0;
    const char *name = number - 1 - host;
    if (number[-1] != '.' || name[-1] != '.' || strncmp(name, expected, host) != 0)
        return 0;
    return (pid_t)strtol(number, NULL, 10);
}

// A zombie writes nothing more, and may stay: not every first process of a container asks how orphans ended.
static bool has_ended(pid_t process) {
    char path[48], text[512];
    if (kill(process, 0) < 0)
        return errno == ESRCH;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)process);
    FILE *file = fopen(path, "r");
    if (!file)
        return false;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    // "PID (NAME) STATE …"; the name may contain anything.
    const char *name_end = strrchr(text, ')');
    return name_end && (strncmp(name_end, ") Z", 3) == 0 || strncmp(name_end, ") X", 3) == 0);
}

enum file_temporary_owner file_temporary_owner(const char *path) {
    struct stat status;
    pid_t process = process_of(path);
    if (process > 0 && process == getpid())
        return FILE_TEMPORARY_OWN;
    if (process > 0 && has_ended(process))
        return FILE_TEMPORARY_DEAD;
    // Processes of other hosts cannot be checked; but no write of one file lasts a day.
    if (lstat(path, &status) == 0 && status.st_mtime < time(NULL) - DAY_SECONDS)
        return FILE_TEMPORARY_DEAD;
    return FILE_TEMPORARY_LIVE;
}

// Removes temporary files of a file or folder left by killed processes: names PATH.tmp.HOST.PID.RANDOM whose process is
// gone, and temporary names of such names.

static bool is_temporary_of(const char *name, const char *target) {
    size_t length = strlen(target), stem = file_temporary_stem(name);
    if (stem <= length)
        return stem == length && strncmp(name, target, length) == 0;
    char *inner = memory_printf("%.*s", (int)stem, name);
    bool is = is_temporary_of(inner, target);
    free(inner);
    return is;
}

// A folder with a temporary name is new and is removed as a whole. Thousands of ranks may write to it, and must not all
// list the files of all others.
static bool is_new(const char *folder) {
    const char *slash = strrchr(folder, '/');
    return file_temporary_stem(slash ? slash + 1 : folder) > 0;
}

void file_sweep(const char *path) {
    const char *slash = strrchr(path, '/'), *target = slash ? slash + 1 : path;
    char *parent = file_parent(path);
    DIR *folder = is_new(parent) ? NULL : opendir(parent);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        if (!is_temporary_of(entry->d_name, target))
            continue;
        char *leftover = file_join(parent, entry->d_name);
        struct error_note *note = error_take();
        if (file_temporary_owner(leftover) == FILE_TEMPORARY_DEAD && file_remove_tree(leftover) < 0)
            error_clear();
        if (note)
            (void)error_give(note);
        free(leftover);
    }
    if (folder)
        closedir(folder);
    free(parent);
}
