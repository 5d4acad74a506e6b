// Signals to the processes that a launcher has started, found by their parents in /proc, and from a parent that ends.
// See process.h.
#include "base/process.h"

#include "base/memory.h"
#include <dirent.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

struct relative {
    pid_t self, parent;
    bool is_below;
};

// The fields of /proc/PID/stat after the program's name, which may contain anything; NULL if the process is gone.
static const char *read_fields(pid_t process, char *text, size_t size) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)process);
    FILE *file = fopen(path, "r");
    if (!file)
        return NULL;
    size_t length = fread(text, 1, size - 1, file);
    fclose(file);
    text[length] = '\0';
    const char *end = strrchr(text, ')');
    return end ? end + 1 : NULL;
}

// The parent of a process, 0 if it is gone.
static pid_t parent_of(pid_t process) {
    char text[512];
    const char *fields = read_fields(process, text, sizeof text);
    int parent = 0;
    return fields && sscanf(fields, " %*c %d", &parent) == 1 ? parent : 0;
}

unsigned long long process_start(pid_t process) {
    char text[512], state;
    const char *fields = read_fields(process, text, sizeof text);
    unsigned long long start;
    // Field 22 of the file; the first of these is field 3.
    bool is_read =
        fields && sscanf(fields, " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
                         &state, &start) == 2;
    return is_read && state != 'Z' && state != 'X' ? start : 0;
}

static struct relative *list_processes(size_t *count) {
    struct relative *list = NULL;
    size_t capacity = 0;
    DIR *stream = opendir("/proc");
    const struct dirent *entry;
    *count = 0;
    while (stream && (entry = readdir(stream))) {
        char *end;
        long number = strtol(entry->d_name, &end, 10);
        if (*end || number <= 0 || number > INT_MAX)
            continue;
        if (*count == capacity) {
            capacity = capacity ? 2 * capacity : 256;
            list = memory_realloc(list, capacity * sizeof list[0]);
        }
        list[(*count)++] = (struct relative){.self = (pid_t)number, .parent = parent_of((pid_t)number)};
    }
    if (stream)
        closedir(stream);
    return list;
}

unsigned long long process_oldest_start(void) {
    size_t count;
    struct relative *list = list_processes(&count);
    unsigned long long oldest = process_start(getpid());
    for (size_t i = 0; i < count; i++) {
        unsigned long long start = process_start(list[i].self);
        oldest = start > 0 && start < oldest ? start : oldest;
    }
    free(list);
    return oldest;
}

static bool runs(pid_t process, const struct stat *program) {
    char path[64];
    struct stat status;
    snprintf(path, sizeof path, "/proc/%d/exe", (int)process);
    return stat(path, &status) == 0 && status.st_dev == program->st_dev && status.st_ino == program->st_ino;
}

bool process_catches(pid_t process, int number) {
    char path[64], line[128];
    unsigned long long mask = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)process);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "SigCgt: %llx", &mask) == 1)
            break;
    if (file)
        fclose(file);
    return mask >> (number - 1) & 1;
}

int process_list_below(pid_t ancestor, const char *program, pid_t **found) {
    size_t count;
    struct stat status;
    *found = NULL;
    if (stat(program, &status) < 0)
        return 0;
    struct relative *list = list_processes(&count);
    // Generation by generation, since a child may precede its parent in the list.
    for (bool is_new = true; is_new;) {
        is_new = false;
        for (size_t i = 0; i < count; i++) {
            bool is_below = list[i].parent == ancestor;
            for (size_t k = 0; k < count && !is_below && !list[i].is_below; k++)
                is_below = list[k].is_below && list[k].self == list[i].parent;
            is_new = is_new || (is_below && !list[i].is_below);
            list[i].is_below = list[i].is_below || is_below;
        }
    }
    int below = 0;
    *found = memory_alloc((count + 1) * sizeof **found);
    for (size_t i = 0; i < count; i++)
        if (list[i].is_below && runs(list[i].self, &status))
            (*found)[below++] = list[i].self;
    free(list);
    return below;
}

// Applies `act` to each of them; returns the number of successes.
static int for_all_below(pid_t ancestor, const char *program, bool (*act)(pid_t process, int number), int number) {
    pid_t *list;
    int count = process_list_below(ancestor, program, &list), successes = 0;
    for (int i = 0; i < count; i++)
        successes += act(list[i], number);
    free(list);
    return successes;
}

static bool reaches(pid_t process, int number) {
    return kill(process, number) == 0;
}

int process_signal_below(pid_t ancestor, const char *program, int number) {
    return for_all_below(ancestor, program, reaches, number);
}

int process_catching_below(pid_t ancestor, const char *program, int number) {
    return for_all_below(ancestor, program, process_catches, number);
}

void process_end_with(pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    // The parent ended before the call above. Sent to the process, not to this thread: if the signal is blocked, the
    // program that this process becomes still receives it.
    if (getppid() != parent)
        kill(getpid(), SIGTERM);
}
