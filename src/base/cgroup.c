// Files of control groups. What is not there, or not readable, sets no limit: none of it is an error.
#include "base/cgroup.h"

#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL_FILE_BYTES = 1 << 16 };

void cgroup_visit(const char *root, const char *membership, void (*visit)(void *context, const char *folder),
                  void *context) {
    struct buffer groups = {0};
    if (file_read_all(membership, SMALL_FILE_BYTES, &groups) < 0) {
        error_clear();
        return;
    }
    const char *line = strstr(buffer_string(&groups), "0::/");
    size_t length = line ? strcspn(line + 3, "\n") : 0;
    char *folder = memory_printf("%s%.*s", root, (int)length, line ? line + 3 : "");
    while (strlen(folder) >= strlen(root)) {
        visit(context, folder);
        char *parent = file_parent(folder);
        free(folder);
        folder = parent;
    }
    free(folder);
    buffer_free(&groups);
}

int cgroup_read_numbers(const char *folder, const char *name, int64_t numbers[2]) {
    struct buffer text = {0};
    char *path = file_join(folder, name);
    int count = 0;
    if (file_read_all(path, SMALL_FILE_BYTES, &text) == 0)
        count = sscanf(buffer_string(&text), "%" SCNd64 " %" SCNd64, &numbers[0], &numbers[1]);
    error_clear();
    buffer_free(&text);
    free(path);
    return count > 0 ? count : 0;
}

int64_t cgroup_read_key(const char *folder, const char *name, const char *key) {
    struct buffer text = {0};
    char *path = file_join(folder, name);
    int64_t number = 0;
    size_t length = strlen(key);
    if (file_read_all(path, SMALL_FILE_BYTES, &text) == 0)
        for (const char *line = buffer_string(&text); line; line = strchr(line, '\n')) {
            line += *line == '\n';
            if (strncmp(line, key, length) == 0 && (line[length] == ' ' || line[length] == ':'))
                number = strtoll(line + length + 1, NULL, 10);
        }
    error_clear();
    buffer_free(&text);
    free(path);
    return number;
}
