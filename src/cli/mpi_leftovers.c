// Notes about running mpiruns, and clean-up by the notes of dead ones. See session.h.
#include "cli/session.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NOTE_LIMIT_BYTES = 1 << 16, MAPS_LIMIT_BYTES = 1 << 24, MOST_SEGMENTS = 16 };

// A note is a file of lines "NAME VALUE".
struct note {
    long process;              // mpirun, or its daemon on this machine: the parent of the ranks
    unsigned long long start;  // in the kernel's ticks, since process numbers are reused
    char place[160];           // the machine's boot, and the namespace of process numbers
    char session[512];         // "" for none
    int count;
    char segments[MOST_SEGMENTS][256];  // their names up to the rank's number
};

// The folder of the notes, to be freed; NULL if no folder is writable by this user alone.
static char *notes_folder(const char *base) {
    char *path = memory_printf("%s/bevatron-mpi-%ld", base, (long)geteuid());
    struct stat status;
    (void)mkdir(path, 0700);
    if (lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
        (status.st_mode & 022) == 0)
        return path;
    free(path);
    return NULL;
}

static void find_place(char *place, size_t size) {
    char space[64] = "-";
    OWNED_BY(buffer_free) struct buffer start = {0};
    ssize_t length = readlink("/proc/self/ns/pid", space, sizeof space - 1);
    space[length > 0 ? length : 1] = '\0';
    if (file_read_all("/proc/sys/kernel/random/boot_id", 256, &start) < 0)
        error_clear();
    size_t digits = start.length > 0 ? strcspn(buffer_string(&start), "\n") : 0;
    snprintf(place, size, "%.*s/%s", (int)(digits < 64 ? digits : 64), digits ? buffer_string(&start) : "", space);
}

// A segment of Open MPI 4 (vader) or 5 (sm) in a line of /proc/PID/maps; NULL if there is none.
static const char *segment_in(const char *line) {
    static const char *const kinds[] = {"/vader_segment.", "/sm_segment."};
    const char *path = strchr(line, '/');
    for (size_t i = 0; path && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strncmp(path, "/dev/shm", 8) == 0 && strncmp(path + 8, kinds[i], strlen(kinds[i])) == 0)
            return path;
    return NULL;
}

// ---- noting ----

// The names of this rank's segments up to their last dot.
static void find_segments(struct note *note) {
    char line[1024];
    FILE *maps = fopen("/proc/self/maps", "re");
    while (maps && fgets(line, sizeof line, maps)) {
        line[strcspn(line, "\n")] = '\0';
        const char *path = segment_in(line), *dot = path ? strrchr(path, '.') : NULL;
        size_t length = dot ? (size_t)(dot + 1 - path) : 0;
        bool is_known = length == 0 || length >= sizeof note->segments[0];
        for (int i = 0; i < note->count && !is_known; i++)
            is_known = strlen(note->segments[i]) == length && strncmp(note->segments[i], path, length) == 0;
        if (!is_known && note->count < MOST_SEGMENTS)
            snprintf(note->segments[note->count++], sizeof note->segments[0], "%.*s", (int)length, path);
    }
    if (maps)
        fclose(maps);
}

// The future name of the segments of a job in Open MPI 4.
static void expect_segments(struct note *note, const char *job) {
    char host[256], *end = NULL;
    unsigned long long number = job ? strtoull(job, &end, 10) : 0;
    if (number == 0 || *end || number > UINT32_MAX)
        return;
    process_host(host, sizeof host);
    snprintf(note->segments[note->count++], sizeof note->segments[0], "/dev/shm/vader_segment.%.64s.%ld.%llx.", host,
             (long)geteuid(), number);
}

char *mpi_leftovers_note(const char *base, const char *session, const char *job) {
    struct note note = {.process = getppid()};
    note.start = process_start((pid_t)note.process);
    expect_segments(&note, job);
    find_segments(&note);
    OWNED char *folder = note.start > 0 && (note.count > 0 || session) ? notes_folder(base) : NULL;
    if (!folder)
        return NULL;
    find_place(note.place, sizeof note.place);
    OWNED_BY(buffer_free) struct buffer text = {0};
    buffer_printf(&text, "process %ld\nstart %llu\nplace %s\n", note.process, note.start, note.place);
    if (session && !strchr(session, '\n'))
        buffer_printf(&text, "session %s\n", session);
    for (int i = 0; i < note.count; i++)
        buffer_printf(&text, "segment %s\n", note.segments[i]);
    char *path = memory_printf("%s/%ld", folder, note.process);
    if (file_write_here(path, text.data, text.length) < 0) {
        log_debug("%s", error_message());
        error_clear();
        free(path);
        path = NULL;
    }
    return path;
}

void mpi_leftovers_forget(char *note) {
    if (note)
        unlink(note);
    free(note);
}

// ---- removing ----

static void copy(char *to, size_t size, const char *from) {
    snprintf(to, size, "%s", strlen(from) < size ? from : "");
}

static void take_line(struct note *note, const char *name, const char *value) {
    if (strcmp(name, "process") == 0)
        note->process = strtol(value, NULL, 10);
    else if (strcmp(name, "start") == 0)
        note->start = strtoull(value, NULL, 10);
    else if (strcmp(name, "place") == 0)
        copy(note->place, sizeof note->place, value);
    else if (strcmp(name, "session") == 0)
        copy(note->session, sizeof note->session, value);
    else if (strcmp(name, "segment") == 0 && note->count < MOST_SEGMENTS && segment_in(value) == value)
        copy(note->segments[note->count++], sizeof note->segments[0], value);
}

static bool read_note(struct note *note, const char *path) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    *note = (struct note){0};
    bool is_read = file_is_regular(path) && file_read_all(path, NOTE_LIMIT_BYTES, &text) == 0;
    error_clear();
    OWNED char *whole = memory_string(is_read ? buffer_string(&text) : "");
    for (char *line = whole, *next; *line; line = next) {
        size_t length = strcspn(line, "\n");
        next = line + length + (line[length] == '\n');
        line[length] = '\0';
        char *value = strchr(line, ' ');
        if (value) {
            *value++ = '\0';
            take_line(note, line, value);
        }
    }
    return note->process > 1 && note->start > 0 && note->place[0];
}

// Whether a process visible to us has one of the note's segments mapped: ranks may outlive their mpirun.
static bool is_in_use(const struct note *note) {
    DIR *processes = note->count > 0 ? opendir("/proc") : NULL;
    bool is_used = false;
    for (struct dirent *entry; processes && !is_used && (entry = readdir(processes));) {
        if (entry->d_name[strspn(entry->d_name, "0123456789")])
            continue;
        OWNED char *path = memory_printf("/proc/%s/maps", entry->d_name);
        OWNED_BY(buffer_free) struct buffer maps = {0};
        if (file_read_all(path, MAPS_LIMIT_BYTES, &maps) == 0)
            for (int i = 0; i < note->count && !is_used; i++)
                is_used = strstr(buffer_string(&maps), note->segments[i]) != NULL;
        error_clear();
    }
    if (processes)
        closedir(processes);
    return is_used;
}

// Removes this user's files with the segment's name and a rank's number at the end; returns their count.
static int remove_segments(const char *segment) {
    const char *name = strrchr(segment, '/') + 1;
    size_t length = strlen(name);
    DIR *folder = opendir("/dev/shm");
    int removed = 0;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        const char *rank = entry->d_name + length;
        struct stat status;
        if (strncmp(entry->d_name, name, length) != 0 || !*rank || rank[strspn(rank, "0123456789")])
            continue;
        if (fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(status.st_mode) &&
            status.st_uid == geteuid() && unlinkat(dirfd(folder), entry->d_name, 0) == 0)
            removed++;
    }
    if (folder)
        closedir(folder);
    return removed;
}

// …/ompi.HOST.UID/pid.PROCESS, and nothing else.
static bool remove_session(const struct note *note) {
    char name[32];
    struct stat status;
    snprintf(name, sizeof name, "pid.%ld", note->process);
    const char *last = strrchr(note->session, '/');
    OWNED char *parent = file_parent(note->session);
    const char *above = strrchr(parent, '/');
    bool is_session = last && above && note->session[0] == '/' && strcmp(last + 1, name) == 0 &&
                      strncmp(above, "/ompi.", 6) == 0 && lstat(note->session, &status) == 0 &&
                      S_ISDIR(status.st_mode) && status.st_uid == geteuid();
    bool is_removed = is_session && file_remove_tree(note->session) == 0;
    error_clear();
    return is_removed;
}

static void clean_up(const struct note *note, const char *path) {
    int segments = 0;
    for (int i = 0; i < note->count; i++)
        segments += remove_segments(note->segments[i]);
    bool had_session = remove_session(note);
    if (segments > 0 || had_session)
        log_info("removed what mpirun (process %ld) left when it was killed: %d shared-memory segments%s",
                 note->process, segments, had_session ? " and its session folder" : "");
    unlink(path);
}

void mpi_leftovers_sweep(const char *base) {
    char *folder = notes_folder(base), place[sizeof(struct note){0}.place];
    DIR *notes = folder ? opendir(folder) : NULL;
    find_place(place, sizeof place);
    for (struct dirent *entry; notes && (entry = readdir(notes));) {
        OWNED char *path = file_join(folder, entry->d_name);
        struct note note;
        // For a note from another container it is unknown whether its processes live.
        if (entry->d_name[0] != '.' && read_note(&note, path) && strcmp(note.place, place) == 0 &&
            process_start((pid_t)note.process) != note.start && !is_in_use(&note))
            clean_up(&note, path);
    }
    if (notes)
        closedir(notes);
    free(folder);
}
