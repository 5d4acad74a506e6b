// Files of a run: checking their sizes, reading new data, and reading parts of them again.
#include "report/board/run.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// Longer lines or records are not ours.
enum { MOST_LINE_BYTES = 64 << 20, MOST_AGAIN_BYTES = 256 << 20 };

// Opens only regular files, without blocking: there may be a pipe of that name.
static int open_file(const char *path, int flags, struct stat *status) {
    int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | flags);
    if (descriptor < 0)
        return -1;
    if (fstat(descriptor, status) == 0 && S_ISREG(status->st_mode))
        return descriptor;
    close(descriptor);
    return -1;
}

int run_open_beside(const struct board_run *run, const char *path) {
    struct stat status, own;
    if (stat(run->path, &own) < 0)
        return -1;
    int descriptor = open_file(path, O_NOFOLLOW, &status);
    if (descriptor < 0 || status.st_uid == own.st_uid)
        return descriptor;
    close(descriptor);
    return -1;
}

static bool is_other_file(const struct run_file *file, const struct stat *status) {
    return file->inode != 0 && (file->inode != (uint64_t)status->st_ino || file->device != (uint64_t)status->st_dev ||
                                (uint64_t)status->st_size < file->offset);
}

bool run_look(struct board_run *run) {
    uint64_t total = 0, done = 0;
    bool has_more = false, has_changed = false;
    for (int i = 0; i < run->file_count; i++) {
        struct run_file *file = &run->files[i];
        struct stat status;
        // A removed file keeps its curve until the folder is searched again.
        if (stat(file->path, &status) < 0 || !S_ISREG(status.st_mode))
            continue;
        has_changed = has_changed || is_other_file(file, &status);
        file->inode = (uint64_t)status.st_ino;
        file->device = (uint64_t)status.st_dev;
        bool has_grown = (uint64_t)status.st_size > file->size;
        file->size = (uint64_t)status.st_size;
        has_more = has_more || (has_grown && !file->is_lost);
        total += file->size;
        done += file->is_lost ? file->size : file->offset;
    }
    if (has_changed) {
        run_clear(run);
        return run_look(run);
    }
    run->total_bytes = total;
    run->done_bytes = done < total ? done : total;
    return has_more;
}

ssize_t run_read_at(int descriptor, uint64_t offset, size_t size, struct buffer *out) {
    buffer_clear(out);
    buffer_reserve(out, size + LINE_SLACK_BYTES);
    out->length = file_read_at(descriptor, out->data, size, offset);
    bool has_failed = out->length < size && errno != 0;
    memset(out->data + out->length, 0, LINE_SLACK_BYTES);
    return has_failed ? -1 : (ssize_t)out->length;
}

// Skips the rest of a line that is too long, up to its end or all of it.
static size_t pass_long_line(struct run_file *file, const char *bytes, size_t size) {
    const char *newline = memchr(bytes, '\n', size);
    file->is_in_long_line = newline == NULL;
    return newline ? (size_t)(newline - bytes) + 1 : size;
}

// Number of usable bytes of `size`. *wanted is doubled if not even one line was whole.
static size_t take_bytes(struct board_run *run, int index, const struct buffer *bytes, size_t *wanted) {
    struct run_file *file = &run->files[index];
    if (file->is_in_long_line)
        return pass_long_line(file, bytes->data, bytes->length);
    size_t done = run->is_events ? run_read_events(run, index, bytes->data, bytes->length)
                                 : run_read_lines(run, index, bytes->data, bytes->length);
    if (done > 0 || bytes->length < *wanted)
        return done;
    if (*wanted < MOST_LINE_BYTES) {
        *wanted *= 2;
        return 0;
    }
    run->bad_lines++;
    if (!run->is_events)
        return pass_long_line(file, bytes->data, bytes->length);
    file->is_lost = true;
    return 0;
}

// Whether the file was rewritten since: the bytes read ended with a newline.
static bool is_rewritten(const struct board_run *run, int descriptor, const struct run_file *file) {
    char last = '\n';
    if (run->is_events || file->offset == 0 || file->is_in_long_line)
        return false;
    return pread(descriptor, &last, 1, (off_t)file->offset - 1) != 1 || last != '\n';
}

// Reads up to about `bytes` of one file. True if it has more.
static bool read_file(struct board_run *run, int index, size_t bytes, struct buffer *scratch) {
    struct run_file *file = &run->files[index];
    struct stat status;
    int descriptor = open_file(file->path, 0, &status);
    if (descriptor < 0) {
        file->size = file->offset;
        return false;
    }
    if (is_other_file(file, &status) || is_rewritten(run, descriptor, file)) {
        close(descriptor);
        run_clear(run);
        (void)run_look(run);
        return true;
    }
    size_t wanted = bytes, before;
    ssize_t got;
    do {
        before = wanted;
        got = run_read_at(descriptor, file->offset, wanted, scratch);
        if (got > 0)
            file->offset += take_bytes(run, index, scratch, &wanted);
    } while (wanted != before && !file->is_lost);
    close(descriptor);
    return got >= (ssize_t)wanted && !file->is_lost;
}

// Trims spaces and line breaks at both ends; NULL if nothing is left. Other control characters become spaces.
static char *trimmed(const char *begin, const char *end) {
    while (begin < end && (unsigned char)*begin <= ' ')
        begin++;
    while (end > begin && (unsigned char)end[-1] <= ' ')
        end--;
    char *text = begin < end ? memory_printf("%.*s", (int)(end - begin), begin) : NULL;
    for (char *at = text; at && *at; at++)
        *at = (unsigned char)*at < ' ' && *at != '\n' ? ' ' : *at;
    return text;
}

static bool replace(char **string, char *value) {
    bool is_same = value && *string ? strcmp(value, *string) == 0 : value == *string;
    free(*string);
    *string = value;
    return !is_same;
}

bool run_read_note(struct board_run *run, const char *path) {
    enum { MOST_TITLE_BYTES = 100, MOST_NOTE_BYTES = 4096 };
    OWNED_BY(buffer_free) struct buffer bytes = {0};
    int descriptor = path ? run_open_beside(run, path) : -1;
    if (descriptor >= 0) {
        (void)run_read_at(descriptor, 0, MOST_NOTE_BYTES, &bytes);
        close(descriptor);
    }
    const char *begin = buffer_string(&bytes), *line = begin + strcspn(begin, "\n"), *end = begin + strlen(begin);
    // A long first line is a sentence of the note, not a title.
    bool has_title = line - begin <= MOST_TITLE_BYTES;
    bool has_changed = replace(&run->title, has_title ? trimmed(begin, line) : NULL);
    return replace(&run->note, trimmed(has_title ? line : begin, end)) || has_changed;
}

bool run_read(struct board_run *run, size_t bytes, struct buffer *scratch) {
    bool has_more = false;
    for (int i = 0; i < run->file_count && !has_more; i++) {
        struct run_file *file = &run->files[i];
        if (file->size > file->offset && !file->is_lost)
            has_more = read_file(run, i, bytes, scratch);
    }
    uint64_t done = 0;
    for (int i = 0; i < run->file_count; i++)
        done += has_more && !run->files[i].is_lost ? run->files[i].offset : run->files[i].size;
    run->done_bytes = done;
    run_count_curves(run);
    if (scratch->capacity > 4 * bytes)
        buffer_free(scratch);
    return has_more;
}

int run_read_bytes(const struct board_run *run, uint32_t file, uint64_t begin, size_t size, struct buffer *out) {
    struct stat status;
    if (file >= (uint32_t)run->file_count)
        return -1;
    int descriptor = open_file(run->files[file].path, 0, &status);
    if (descriptor < 0)
        return -1;
    uint64_t there = (uint64_t)status.st_size;
    bool is_same = !is_other_file(&run->files[file], &status) && begin <= there && size <= there - begin;
    ssize_t got = is_same ? run_read_at(descriptor, begin, size, out) : -1;
    close(descriptor);
    return got == (ssize_t)size ? 0 : -1;
}

int run_read_again(struct board_run *run, const struct run_again *again) {
    const struct pyramid_place *place = &again->bin->last;
    OWNED_BY(buffer_free) struct buffer bytes = {0};
    if (place->end <= place->begin || place->end - place->begin > MOST_AGAIN_BYTES)
        return -1;
    size_t size = (size_t)(place->end - place->begin);
    int result = run_read_bytes(run, place->file, place->begin, size, &bytes);
    if (result == 0 && run->is_events)
        run_events_again(run, again, bytes.data, size);
    else if (result == 0)
        run_lines_again(run, again, bytes.data, size);
    return result;
}

struct json *run_read_mark(const struct board_run *run, const struct run_mark *mark) {
    OWNED_BY(buffer_free) struct buffer bytes = {0};
    struct json *root = NULL;
    if (run_read_bytes(run, mark->file, mark->begin, mark->bytes, &bytes) == 0 &&
        json_parse(&root, bytes.data, mark->bytes, run->path) < 0)
        root = NULL;
    error_clear();
    return root;
}
