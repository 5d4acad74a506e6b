// A temporary folder for a test, removed at the end, and small files for it.
#ifndef TESTS_STORE_TEMPORARY_H
#define TESTS_STORE_TEMPORARY_H

#include "base/buffer.h"
#include "base/file.h"
#include "test.h"
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct temporary {
    char path[64];
};

static inline struct temporary temporary_create(void) {
    struct temporary folder = {"/tmp/bevatron_test_XXXXXX"};
    EXPECT(mkdtemp(folder.path) != NULL);
    return folder;
}

// In memory if the system has such a folder: for tests that sync small files thousands of times.
static inline struct temporary temporary_create_fast(void) {
    struct temporary folder = {"/dev/shm/bevatron_test_XXXXXX"};
    return mkdtemp(folder.path) ? folder : temporary_create();
}

static inline void temporary_remove(const struct temporary *folder) {
    EXPECT_OK(file_remove_tree(folder->path));
}

// The whole file; the caller frees the buffer.
static inline struct buffer read_whole(const char *path) {
    struct buffer content = {0};
    EXPECT_OK(file_read_all(path, 1 << 24, &content));
    return content;
}

static inline void write_whole(const char *path, const void *bytes, size_t count) {
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL);
    EXPECT_INT(fwrite(bytes, 1, count, file), count);
    EXPECT_INT(fclose(file), 0);
}

// Counts the names in the folder that contain ".tmp.".
static inline int count_leftovers(const char *folder) {
    DIR *stream = opendir(folder);
    EXPECT(stream != NULL);
    int count = 0;
    const struct dirent *entry;
    while ((entry = readdir(stream)))
        count += strstr(entry->d_name, ".tmp.") != NULL;
    closedir(stream);
    return count;
}

#endif
