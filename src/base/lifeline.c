// A page that a run and its supervisor share. See lifeline.h.
#include "base/lifeline.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/watchdog.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const uint64_t MAGIC = 0x6c6966656c696e66;

// The layout of the file. A label may be read while it is written: it is only informative.
struct lifeline_page {
    uint64_t magic;
    atomic_int_fast64_t iteration, beats;
    _Atomic double beat_at;
    atomic_bool is_attached, has_told_end, cannot_save;
    char phase[48];
};

struct lifeline {
    char *path;
    struct lifeline_page *page;
};

// The run's pages: the supervisor's and the node's. A missing one is `nobody`.
static struct lifeline_page nobody, *own[2] = {&nobody, &nobody};
enum { PAGES = sizeof own / sizeof own[0] };

static struct lifeline_page *map(int file) {
    void *page = mmap(NULL, sizeof(struct lifeline_page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return page == MAP_FAILED ? NULL : page;
}

// Sizes and maps a new file, and closes it; NULL on failure.
static struct lifeline_page *begin_page(int file) {
    bool has_size = file >= 0 && ftruncate(file, sizeof(struct lifeline_page)) == 0;
    struct lifeline_page *page = has_size ? map(file) : NULL;
    if (file >= 0)
        close(file);
    return page;
}

struct lifeline *lifeline_create(const char *folder) {
    char *stem = memory_printf("%s/bevatron-lifeline", folder);
    file_sweep(stem);
    char *path = file_temporary_name(stem);
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    free(stem);
    struct lifeline_page *page = begin_page(file);
    if (!page) {
        if (file >= 0)
            unlink(path);
        free(path);
        return NULL;
    }
    struct lifeline *lifeline = memory_alloc(sizeof *lifeline);
    *lifeline = (struct lifeline){.path = path, .page = page};
    lifeline_reset(lifeline);
    return lifeline;
}

const char *lifeline_path(const struct lifeline *lifeline) {
    return lifeline->path;
}

void lifeline_reset(struct lifeline *lifeline) {
    struct lifeline_page *page = lifeline->page;
    page->magic = MAGIC;
    page->iteration = -1;
    page->beats = 0;
    page->beat_at = 0;
    page->is_attached = page->has_told_end = page->cannot_save = false;
    memset(page->phase, 0, sizeof page->phase);
}

void lifeline_free(struct lifeline *lifeline) {
    if (!lifeline)
        return;
    munmap(lifeline->page, sizeof *lifeline->page);
    unlink(lifeline->path);
    free(lifeline->path);
    free(lifeline);
}

static struct lifeline_state state_of(const struct lifeline_page *page) {
    struct lifeline_state state = {.is_attached = page->is_attached,
                                   .has_told_end = page->has_told_end,
                                   .cannot_save = page->cannot_save,
                                   .iteration = page->iteration,
                                   .beats = page->beats,
                                   .beat_at = page->beat_at};
    memcpy(state.phase, page->phase, sizeof state.phase - 1);
    return state;
}

struct lifeline_state lifeline_look(const struct lifeline *lifeline) {
    return state_of(lifeline->page);
}

// Maps a file of ours; NULL if it is something else.
static struct lifeline_page *open_page(const char *path) {
    struct stat status;
    int file = path && *path ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
    if (file < 0)
        return NULL;
    bool is_ours = fstat(file, &status) == 0 && S_ISREG(status.st_mode) &&
                   status.st_size == (off_t)sizeof(struct lifeline_page) && status.st_uid == geteuid();
    struct lifeline_page *page = is_ours ? map(file) : NULL;
    close(file);
    if (page && page->magic != MAGIC) {
        munmap(page, sizeof *page);
        page = NULL;
    }
    return page;
}

bool lifeline_make(const char *path) {
    unlink(path);
    int file = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    struct lifeline_page *page = begin_page(file);
    if (!page) {
        if (file >= 0)
            unlink(path);
        return false;
    }
    lifeline_reset(&(struct lifeline){.page = page});
    munmap(page, sizeof *page);
    return true;
}

bool lifeline_read(const char *path, struct lifeline_state *state) {
    struct lifeline_page *page = open_page(path);
    if (!page)
        return false;
    *state = state_of(page);
    munmap(page, sizeof *page);
    return true;
}

static void report_to(struct lifeline_page **place, struct lifeline_page *page) {
    *place = page ? page : &nobody;
    if (page)
        page->is_attached = true;
    lifeline_beat();
}

void lifeline_attach(const char *path) {
    report_to(&own[0], open_page(path));
}

void lifeline_publish(const char *path) {
    if (path && *path)
        report_to(&own[1], lifeline_make(path) ? open_page(path) : NULL);
}

void lifeline_iteration(int64_t iteration) {
    run_position_set_iteration(iteration + 1);
    watchdog_iteration(iteration);
    for (int i = 0; i < PAGES; i++)
        own[i]->iteration = iteration;
    lifeline_beat();
}

void lifeline_beat(void) {
    watchdog_beat_all();
    double now = clock_tick_seconds();
    for (int i = 0; i < PAGES; i++) {
        own[i]->beat_at = now;
        own[i]->beats++;
    }
}

void lifeline_phase(const char *label) {
    // Other threads have phases of their own.
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < PAGES; i++) {
        strncpy(own[i]->phase, label, sizeof own[i]->phase - 1);
        own[i]->phase[sizeof own[i]->phase - 1] = '\0';
    }
    pthread_mutex_unlock(&lock);
    lifeline_beat();
}

void lifeline_told_end(void) {
    for (int i = 0; i < PAGES; i++)
        own[i]->has_told_end = true;
}

void lifeline_cannot_save(void) {
    for (int i = 0; i < PAGES; i++)
        own[i]->cannot_save = true;
}
