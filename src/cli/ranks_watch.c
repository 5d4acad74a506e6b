// A thread that polls descriptors of processes. See ranks.h.
#include "cli/ranks.h"

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/process.h"
#include "base/thread.h"
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LOOK_MS = 20, MOST_NAMED = 4, ENVIRONMENT_BYTES = 1 << 22 };

struct watched_rank {
    int rank;
    pid_t process;
};

struct ranks_watch {
    struct ranks_watch_options options;
    struct watched_rank *ranks;  // (count)
    struct pollfd *polls;        // (count + 1) the last one ends the watch
    int count;
    int ends[2];  // a pipe: closing the writer ends the watch
    pthread_t thread;
    char text[128];
};

// The rank of a process from its launcher's variables; -1 if there is none.
static int rank_of(pid_t process) {
    static const char *const names[] = {"OMPI_COMM_WORLD_RANK=", "PMIX_RANK=", "PMI_RANK="};
    struct buffer all = {0};
    char path[64];
    int rank = -1;
    snprintf(path, sizeof path, "/proc/%ld/environ", (long)process);
    if (file_read_all(path, ENVIRONMENT_BYTES, &all) < 0)
        error_clear();
    buffer_append_byte(&all, '\0');
    for (const char *at = all.data; rank < 0 && at < all.data + all.length; at += strlen(at) + 1)
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (strncmp(at, names[i], strlen(names[i])) == 0)
                rank = (int)strtol(at + strlen(names[i]), NULL, 10);
    buffer_free(&all);
    return rank;
}

// Opens all ranks that exist.
static void find_ranks(struct ranks_watch *watch) {
    pid_t *found;
    int count = process_list_below(watch->options.mpirun, watch->options.program, &found);
    watch->ranks = memory_alloc(sizeof *watch->ranks * (size_t)(count + 1));
    watch->polls = memory_alloc(sizeof *watch->polls * (size_t)(count + 1));
    for (int i = 0; i < count; i++) {
        int rank = rank_of(found[i]);
        int file = rank < 0 ? -1 : (int)syscall(SYS_pidfd_open, found[i], 0);
        if (file < 0)
            continue;
        watch->ranks[watch->count] = (struct watched_rank){rank, found[i]};
        watch->polls[watch->count++] = (struct pollfd){.fd = file, .events = POLLIN};
    }
    watch->polls[watch->count] = (struct pollfd){.fd = watch->ends[0], .events = POLLIN};
    free(found);
}

static void name_ended(struct ranks_watch *watch) {
    int named = 0;
    size_t length = 0;
    for (int i = 0; i < watch->count && named < MOST_NAMED; i++) {
        if (!watch->polls[i].revents || length >= sizeof watch->text)
            continue;
        length += (size_t)snprintf(watch->text + length, sizeof watch->text - length, "%srank %d (process %ld)",
                                   named++ ? " or " : "", watch->ranks[i].rank, (long)watch->ranks[i].process);
    }
}

static void *watch_ranks(void *argument) {
    struct ranks_watch *watch = argument;
    struct pollfd end = {.fd = watch->ends[0], .events = POLLIN};
    bool is_ready = false;
    while (!is_ready && poll(&end, 1, LOOK_MS) == 0)
        is_ready = watch->options.is_ready(watch->options.mark);
    if (!is_ready)
        return NULL;
    find_ranks(watch);
    // If one is missing, it may be the first that ended.
    if (watch->count == watch->options.nproc && poll(watch->polls, (nfds_t)watch->count + 1, -1) > 0)
        name_ended(watch);
    return NULL;
}

struct ranks_watch *ranks_watch_start(const struct ranks_watch_options *options) {
    struct ranks_watch *watch = memory_alloc(sizeof *watch);
    *watch = (struct ranks_watch){.options = *options};
    if (pipe2(watch->ends, O_CLOEXEC) < 0) {
        free(watch);
        return NULL;
    }
    if (thread_start(&watch->thread, watch_ranks, watch))
        return watch;
    close(watch->ends[0]);
    close(watch->ends[1]);
    free(watch);
    return NULL;
}

void ranks_watch_end(struct ranks_watch *watch, char *text, size_t size) {
    text[0] = '\0';
    if (!watch)
        return;
    close(watch->ends[1]);
    pthread_join(watch->thread, NULL);
    snprintf(text, size, "%s", watch->text);
    for (int i = 0; i < watch->count; i++)
        close(watch->polls[i].fd);
    close(watch->ends[0]);
    free(watch->ranks);
    free(watch->polls);
    free(watch);
}
