// Writing one file with many threads. The kernel lets one write() at a time into a file, which from about ten threads
// on is what all of them wait for. Where it is safe, large writes therefore go through maps of the file's next parts:
// the pages are made by each thread for itself. Safe means a local file system, and a kernel that can be asked to make
// pages (MADV_POPULATE_WRITE), so that a full disk is an answer and not a signal; else the caller writes as usual.
#ifndef DATA_PREPROCESS_MAP_H
#define DATA_PREPROCESS_MAP_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MAP_WINDOWS = 4 };

struct map_window {
    unsigned char *data;  // NULL if free
    uint64_t number;      // it begins at this many windows
    int users;            // threads that write to it
};

struct write_map {
    pthread_mutex_t lock;
    int descriptor;
    bool is_usable;
    uint64_t size;  // of the file, which is longer than what is written
    struct map_window windows[MAP_WINDOWS];
};

void write_map_open(struct write_map *map, int descriptor);
void write_map_close(struct write_map *map);  // safe on a zeroed one; the file keeps its size, which is to be cut
// Writes from the beginning what it can; returns how many bytes that is, 0 if none.
size_t write_map_write(struct write_map *map, uint64_t offset, const void *bytes, size_t count);

#endif
