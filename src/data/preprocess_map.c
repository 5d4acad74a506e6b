// A few windows of the file are mapped at a time; a new one takes the place of the first that nobody uses.
#include "data/preprocess_map.h"
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { WINDOW_BYTES = 32 << 20, POPULATE_WRITE = 23 };  // the second is Linux's number, missing in older headers

// Local file systems that make pages of a map as readily as those of a write.
static bool is_known(int descriptor) {
    static const unsigned long known[] = {0x01021994, 0xEF53, 0x58465342, 0x794C7630};  // tmpfs, ext4, XFS, overlay
    struct statfs status;
    if (fstatfs(descriptor, &status) < 0)
        return false;
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if ((unsigned long)status.f_type == known[i])
            return true;
    return false;
}

void write_map_open(struct write_map *map, int descriptor) {
    struct stat status;
    *map = (struct write_map){.descriptor = descriptor};
    pthread_mutex_init(&map->lock, NULL);
    map->is_usable = is_known(descriptor) && fstat(descriptor, &status) == 0;
    map->size = map->is_usable ? (uint64_t)status.st_size : 0;
}

static void release(struct map_window *window) {
    if (window->data)
        munmap(window->data, WINDOW_BYTES);
    *window = (struct map_window){0};
}

void write_map_close(struct write_map *map) {
    for (int i = 0; i < MAP_WINDOWS; i++)
        release(&map->windows[i]);
    map->is_usable = false;
}

// Maps a window; the file grows to its end. With the lock held.
static bool begin_window(struct write_map *map, struct map_window *window, uint64_t number) {
    uint64_t end = (number + 1) * WINDOW_BYTES;
    if (end > map->size && ftruncate(map->descriptor, (off_t)end) < 0)
        return false;
    map->size = end > map->size ? end : map->size;
    void *data =
        mmap(NULL, WINDOW_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, map->descriptor, (off_t)(number * WINDOW_BYTES));
    if (data == MAP_FAILED)
        return false;
    *window = (struct map_window){.data = data, .number = number};
    return true;
}

// The window of this number, in use by one more; NULL if there is no place for it. With the lock held.
static struct map_window *take_window(struct write_map *map, uint64_t number) {
    struct map_window *place = NULL;
    for (int i = 0; i < MAP_WINDOWS; i++) {
        struct map_window *window = &map->windows[i];
        if (window->data && window->number == number) {
            window->users++;
            return window;
        }
        bool is_better = !place || !window->data || (place->data && window->number < place->number);
        if (window->users == 0 && is_better)
            place = window;
    }
    if (!place)
        return NULL;
    release(place);
    if (!begin_window(map, place, number)) {
        map->is_usable = false;
        return NULL;
    }
    place->users = 1;
    return place;
}

static size_t write_part(struct write_map *map, uint64_t offset, const void *bytes, size_t count) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), first = (size_t)(offset % WINDOW_BYTES);
    size_t part = WINDOW_BYTES - first < count ? WINDOW_BYTES - first : count;
    pthread_mutex_lock(&map->lock);
    struct map_window *window = map->is_usable ? take_window(map, offset / WINDOW_BYTES) : NULL;
    pthread_mutex_unlock(&map->lock);
    if (!window)
        return 0;
    size_t begin = first / page * page, end = (first + part + page - 1) / page * page;
    bool is_there = madvise(window->data + begin, end - begin, POPULATE_WRITE) == 0;
    if (is_there)
        memcpy(window->data + first, bytes, part);
    pthread_mutex_lock(&map->lock);
    map->is_usable = map->is_usable && is_there;
    window->users--;
    pthread_mutex_unlock(&map->lock);
    return is_there ? part : 0;
}

size_t write_map_write(struct write_map *map, uint64_t offset, const void *bytes, size_t count) {
    size_t done = 0, part = 1;
    while (done < count && part > 0) {
        part = write_part(map, offset + done, (const char *)bytes + done, count - done);
        done += part;
    }
    return done;
}
