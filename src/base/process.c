// Runs another program and collects its output. See process.h.
#include "base/process.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { IN, OUT, ERR, STREAMS };

static void close_both(int ends[2]) {
    for (int i = 0; i < 2; i++) {
        if (ends[i] >= 0)
            close(ends[i]);
        ends[i] = -1;
    }
}

// Our ends of the three pipes until the program has closed its own.
static void talk(int in, int out, int err, const char *input, struct process_result *result) {
    size_t left = input ? strlen(input) : 0;
    struct pollfd ends[STREAMS] = {{in, POLLOUT, 0}, {out, POLLIN, 0}, {err, POLLIN, 0}};
    while (ends[OUT].fd >= 0 || ends[ERR].fd >= 0) {
        if (left == 0 && ends[IN].fd >= 0) {
            close(ends[IN].fd);
            ends[IN].fd = -1;
        }
        if (poll(ends, STREAMS, -1) < 0 && errno != EINTR)
            break;
        if (ends[IN].fd >= 0 && ends[IN].revents) {
            ssize_t sent = write(ends[IN].fd, input, left);
            // A program may stop reading its input.
            left = sent > 0 ? left - (size_t)sent : errno == EAGAIN || errno == EINTR ? left : 0;
            input += sent > 0 ? sent : 0;
        }
        for (int stream = OUT; stream <= ERR; stream++) {
            char bytes[4096];
            if (ends[stream].fd < 0 || !ends[stream].revents)
                continue;
            ssize_t count = read(ends[stream].fd, bytes, sizeof bytes);
            if (count > 0)
                buffer_append(stream == OUT ? &result->output : &result->errors, bytes, (size_t)count);
            else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
                close(ends[stream].fd);
                ends[stream].fd = -1;
            }
        }
    }
    if (ends[IN].fd >= 0)
        close(ends[IN].fd);
}

static int start(const char *const *argv, int pipes[STREAMS][2], pid_t *child) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, pipes[IN][0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipes[OUT][1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, pipes[ERR][1], STDERR_FILENO);
    int status = posix_spawnp(child, argv[0], &actions, NULL, (char *const *)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (status == ENOENT)
        return error_set("there is no program \"%s\" on PATH", argv[0]);
    return status == 0 ? 0 : error_set("cannot start %s: %s", argv[0], strerror(status));
}

int process_run(const char *const *argv, const char *input, struct process_result *result) {
    *result = (struct process_result){0};
    int pipes[STREAMS][2] = {{-1, -1}, {-1, -1}, {-1, -1}}, status = 0;
    for (int i = 0; i < STREAMS && status == 0; i++)
        if (pipe2(pipes[i], O_CLOEXEC) < 0)
            status = error_set("cannot create a pipe to %s: %s", argv[0], strerror(errno));
    pid_t child = -1;
    if (status == 0)
        status = start(argv, pipes, &child);
    if (status < 0) {
        for (int i = 0; i < STREAMS; i++)
            close_both(pipes[i]);
        return -1;
    }
    close(pipes[IN][0]);
    close(pipes[OUT][1]);
    close(pipes[ERR][1]);
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    sigaction(SIGPIPE, &ignore, &before);
    fcntl(pipes[IN][1], F_SETFL, O_NONBLOCK);
    talk(pipes[IN][1], pipes[OUT][0], pipes[ERR][0], input, result);
    sigaction(SIGPIPE, &before, NULL);
    int ended = 0;
    while (waitpid(child, &ended, 0) < 0 && errno == EINTR) {
    }
    result->exit_code = WIFEXITED(ended) ? WEXITSTATUS(ended) : 128 + WTERMSIG(ended);
    return 0;
}

void process_result_free(struct process_result *result) {
    buffer_free(&result->output);
    buffer_free(&result->errors);
}

void process_host(char *name, size_t size) {
    if (gethostname(name, size) < 0 || name[0] == '\0')
        snprintf(name, size, "localhost");
    name[size - 1] = '\0';
}

// Signals to the processes that a launcher has started, found by their parents in /proc, and from a parent that ends.

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
        MEMORY_GROW(list, *count, capacity);
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

// ---- tasks of children ----

// Forked children take the next number from a counter in shared memory.
enum { MOST_CHILDREN = 64 };

// At the start of the shared memory; the results follow.
struct task_board {
    _Alignas(64) atomic_int next;
    atomic_int done;
};

static size_t board_bytes(const struct child_tasks *work) {
    return sizeof(struct task_board) + work->result_bytes * (size_t)work->count;
}

static void take_tasks(const struct child_tasks *work, struct task_board *board, bool watches) {
    for (int i; (i = atomic_fetch_add(&board->next, 1)) < work->count;) {
        work->task(work->context, i, (char *)(board + 1) + work->result_bytes * (size_t)i);
        int done = atomic_fetch_add(&board->done, 1) + 1;
        if (watches && work->watch)
            work->watch(work->context, done);
    }
}

static pid_t start_child(const struct child_tasks *work, struct task_board *board) {
    pid_t parent = getpid();
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        process_end_with(parent);
        take_tasks(work, board, false);
        _exit(0);
    }
    return child;
}

// Waits for all children; returns the number of those that failed.
static int await_children(const struct child_tasks *work, struct task_board *board, pid_t *children, int count) {
    int left = count, failed = 0;
    while (left > 0) {
        for (int i = 0; i < count; i++) {
            int status = 0;
            pid_t ended = children[i] == 0 ? 0 : waitpid(children[i], &status, WNOHANG);
            if (ended == 0 || (ended < 0 && errno == EINTR))
                continue;
            failed += ended > 0 && (!WIFEXITED(status) || WEXITSTATUS(status) != 0);
            children[i] = 0;
            left--;
        }
        if (work->watch)
            work->watch(work->context, atomic_load(&board->done));
        if (left > 0)
            nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    // If SIGCHLD is ignored, the exit status of a child is lost; its unfinished tasks show that it failed.
    return failed == 0 && atomic_load(&board->done) < work->count ? 1 : failed;
}

static int share_tasks(const struct child_tasks *work, struct task_board *board, int children) {
    pid_t pids[MOST_CHILDREN] = {0};
    int started = 0;
    if (children > MOST_CHILDREN)
        children = MOST_CHILDREN;
    while (started < children && (pids[started] = start_child(work, board)) > 0)
        started++;
    if (started == 0) {
        take_tasks(work, board, true);  // slower, and as good
        return 0;
    }
    int failed = await_children(work, board, pids, started);
    return failed == 0 ? 0
                       : error_set("%d of %d worker processes ended early; please report the command", failed, started);
}

void *child_tasks_run(const struct child_tasks *work, int children) {
    void *memory = mmap(NULL, board_bytes(work), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        error_set("no memory for the results of %d tasks: %s", work->count, strerror(errno));
        return NULL;
    }
    struct task_board *board = memory;
    int status = 0;
    if (children <= 1 || work->count <= 1)
        take_tasks(work, board, true);
    else
        status = share_tasks(work, board, children < work->count ? children : work->count);
    if (status == 0)
        return board + 1;
    munmap(memory, board_bytes(work));
    return NULL;
}

void child_tasks_free(void *results, const struct child_tasks *work) {
    if (results)
        munmap((struct task_board *)results - 1, board_bytes(work));
}

// ---- the position of a run; the state is that of the process ----

static atomic_int own_rank = -1;
static atomic_int_fast64_t own_iteration = -1;
static const char *_Atomic own_phase;

void run_position_set_rank(int rank) {
    atomic_store(&own_rank, rank);
}

void run_position_set_iteration(int64_t iteration) {
    atomic_store_explicit(&own_iteration, iteration, memory_order_relaxed);
}

const char *run_position_set_phase(const char *label) {
    return atomic_exchange_explicit(&own_phase, label, memory_order_relaxed);
}

void run_position_change_phase(const char *from, const char *label) {
    atomic_compare_exchange_strong(&own_phase, &from, label);
}

int64_t run_position_iteration(void) {
    return atomic_load_explicit(&own_iteration, memory_order_relaxed);
}

const char *run_position_phase(void) {
    const char *phase = atomic_load_explicit(&own_phase, memory_order_relaxed);
    return phase ? phase : "";
}

// Uses no memory and no locks: snprintf needs none for whole numbers and strings.
const char *run_position_text(char *text, size_t size) {
    char host[256], at[48] = "", who[32] = "";
    const char *phase = run_position_phase();
    int64_t iteration = run_position_iteration();
    int rank = atomic_load(&own_rank);
    text[0] = '\0';
    if (iteration < 0 && !*phase)
        return text;
    process_host(host, sizeof host);
    if (iteration >= 0)
        snprintf(at, sizeof at, "iteration %lld", (long long)iteration);
    if (rank >= 0)
        snprintf(who, sizeof who, "rank %d ", rank);
    snprintf(text, size, "%s%s%s, %son %s", at, *at && *phase ? ", " : "", phase, who, host);
    return text;
}
