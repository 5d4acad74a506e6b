// Shell commands beside the program's work. See errand.h.
//
// The command has a process group of its own: a Ctrl-C of the terminal does not end it, and it can be ended together
// with its own children. The thread leaves only when the queue is empty or closed, so every child is waited for, unless
// it still runs when the program exits.
#include "base/errand.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/thread.h"
#include "base/utf8.h"
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { QUEUE_LENGTH = 16, MOST_LINES = 50, LINE_BYTES = 1000, TURN_MILLISECONDS = 20, DROPPED_NAMES = 8 };
static const double END_SECONDS = 2;  // between SIGTERM and SIGKILL

struct errand_copy {
    char *label, *input;
    char **variables;
};

struct errands {
    struct errand_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct errand_copy queue[QUEUE_LENGTH];
    int first, count;
    bool is_busy, is_closing, is_left;  // is_left: the thread frees everything
    int64_t dropped;
    struct buffer dropped_names;
};

static void free_copy(struct errand_copy *copy) {
    free(copy->label);
    free(copy->input);
    for (char **at = copy->variables; at && *at; at++)
        free(*at);
    free(copy->variables);
}

static struct errand_copy copy_of(const struct errand *errand) {
    size_t count = 0;
    while (errand->variables[count])
        count++;
    struct errand_copy copy = {.label = memory_string(errand->label),
                               .input = memory_string(errand->input ? errand->input : ""),
                               .variables = memory_alloc(sizeof(char *) * (count + 1))};
    for (size_t i = 0; i < count; i++)
        copy.variables[i] = memory_string(errand->variables[i]);
    return copy;
}

// ---- the command ----

// This process's variables, replaced by those of the errand where names are equal. The caller owns the array, not the
// strings.
static char **make_environment(char *const *variables) {
    size_t own = 0, added = 0;
    while (environ[own])
        own++;
    while (variables[added])
        added++;
    char **all = memory_alloc(sizeof *all * (own + added + 1));
    size_t count = 0;
    for (size_t i = 0; i < own; i++) {
        bool is_replaced = false;
        for (size_t k = 0; k < added; k++) {
            size_t name = strcspn(variables[k], "=") + 1;
            is_replaced = is_replaced || strncmp(environ[i], variables[k], name) == 0;
        }
        if (!is_replaced)
            all[count++] = environ[i];
    }
    for (size_t k = 0; k < added; k++)
        all[count++] = variables[k];
    return all;
}

// Starts the command; *in is the end of the pipe to its standard input, *out that from its output.
static int start(const char *command, char **environment, int *in, int *out, pid_t *child) {
    int to[2], from[2];
    if (pipe2(to, O_CLOEXEC) < 0)
        return errno;
    if (pipe2(from, O_CLOEXEC) < 0) {
        int error = errno;
        close(to[0]);
        close(to[1]);
        return error;
    }
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, usual;
    sigemptyset(&none);
    sigfillset(&usual);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setflags(&attributes,
                             (short)(POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
    bool is_file = command[0] == '@';
    char shell[] = "sh", *option = memory_string(is_file ? "--" : "-c"), *text = memory_string(command + is_file);
    int error =
        posix_spawn(child, "/bin/sh", &actions, &attributes, (char *const[]){shell, option, text, NULL}, environment);
    free(option);
    free(text);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    *in = to[1];
    *out = from[0];
    fcntl(*in, F_SETFL, O_NONBLOCK);
    fcntl(*out, F_SETFL, O_NONBLOCK);
    if (error != 0) {
        close(*in);
        close(*out);
    }
    return error;
}

// Logs the whole lines of the command's output so far; an incomplete line stays in the buffer.
struct errand_output {
    struct buffer line;
    int lines;
};

static void log_output(const struct errands *errands, struct errand_output *output, const char *bytes, size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != '\n') {
            if (output->line.length < LINE_BYTES)
                buffer_append_byte(&output->line, bytes[i] ? bytes[i] : ' ');
            continue;
        }
        if (output->line.length > 0)
            utf8_make_printable(output->line.data, "\t");
        if (output->lines < MOST_LINES)
            log_info("%s: %s", errands->options.name, buffer_string(&output->line));
        else if (output->lines == MOST_LINES)
            log_info("%s: (more than %d lines of output; the rest is not shown)", errands->options.name, MOST_LINES);
        output->lines++;
        buffer_clear(&output->line);
    }
}

// False at the end of the output.
static bool read_output(const struct errands *errands, int out, struct errand_output *output) {
    char bytes[4096];
    ssize_t count;
    while ((count = read(out, bytes, sizeof bytes)) > 0)
        log_output(errands, output, bytes, (size_t)count);
    return count < 0 && (errno == EAGAIN || errno == EINTR);
}

// Writes as much input as the command takes now; closes and returns -1 once it has everything or accepts no more.
static int feed(int in, const char **input) {
    while (**input) {
        ssize_t count = write(in, *input, strlen(*input));
        if (count < 0 && (errno == EAGAIN || errno == EINTR))
            return in;
        if (count <= 0)
            break;
        *input += count;
    }
    close(in);
    return -1;
}

static void tell_end(const struct errands *errands, const char *label, int status, bool is_ended) {
    const char *name = errands->options.name;
    if (is_ended)
        log_warn("%s: the command for \"%s\" took longer than %.0f s and was ended", name, label,
                 errands->options.limit_seconds);
    else if (WIFSIGNALED(status))
        log_warn("%s: the command for \"%s\" was ended by signal %d", name, label, WTERMSIG(status));
    else if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        log_warn("%s: the command for \"%s\" failed with exit code %d", name, label, WEXITSTATUS(status));
}

// Waits for the command itself; its background children may hold the pipes open for longer.
static int attend(const struct errands *errands, pid_t child, int in, int out, const char *input, bool *is_ended) {
    struct errand_output output = {0};
    double started = clock_now(errands->options.clock), told = 0;
    int status = 0;
    bool is_open = true;
    for (;;) {
        pid_t found = waitpid(child, &status, WNOHANG);
        if (found == child || (found < 0 && errno != EINTR))
            break;
        in = in >= 0 ? feed(in, &input) : in;
        is_open = is_open && read_output(errands, out, &output);
        double now = clock_now(errands->options.clock);
        if (told == 0 && now - started > errands->options.limit_seconds) {
            *is_ended = true;
            told = now;
            kill(-child, SIGTERM);
        } else if (told > 0 && now - told > END_SECONDS) {
            kill(-child, SIGKILL);
        }
        struct pollfd ends[] = {{.fd = is_open ? out : -1, .events = POLLIN}, {.fd = in, .events = POLLOUT}};
        (void)poll(ends, 2, TURN_MILLISECONDS);
    }
    (void)read_output(errands, out, &output);
    if (output.line.length > 0)
        log_output(errands, &output, "\n", 1);
    if (in >= 0)
        close(in);
    close(out);
    buffer_free(&output.line);
    return status;
}

static void run_errand(const struct errands *errands, const struct errand_copy *errand) {
    char **environment = make_environment(errand->variables);
    int in = -1, out = -1;
    pid_t child = -1;
    int error = start(errands->options.command, environment, &in, &out, &child);
    free(environment);
    if (error != 0) {
        log_warn("%s: cannot start the command for \"%s\": %s", errands->options.name, errand->label, strerror(error));
        return;
    }
    bool is_ended = false;
    int status = attend(errands, child, in, out, errand->input, &is_ended);
    tell_end(errands, errand->label, status, is_ended);
}

// ---- the queue ----

// Call with the lock held.
static struct errand_copy take_first(struct errands *errands) {
    struct errand_copy errand = errands->queue[errands->first];
    errands->first = (errands->first + 1) % QUEUE_LENGTH;
    errands->count--;
    return errand;
}

static void drop_first(struct errands *errands) {
    struct errand_copy errand = take_first(errands);
    if (errands->dropped++ < DROPPED_NAMES)
        buffer_printf(&errands->dropped_names, "%s\"%s\"", errands->dropped > 1 ? ", " : "", errand.label);
    free_copy(&errand);
}

static void tell_dropped(struct errands *errands) {
    if (errands->dropped == 0)
        return;
    log_warn("%s: the command cannot keep up with the events; it was not run for %s%s", errands->options.name,
             buffer_string(&errands->dropped_names), errands->dropped > DROPPED_NAMES ? " and others" : "");
    errands->dropped = 0;
    buffer_clear(&errands->dropped_names);
}

static void free_errands(struct errands *errands) {
    pthread_mutex_destroy(&errands->lock);
    pthread_cond_destroy(&errands->changed);
    buffer_free(&errands->dropped_names);
    free((char *)(uintptr_t)errands->options.command);
    free(errands);
}

static void *run_queue(void *opaque) {
    struct errands *errands = opaque;
    pthread_mutex_lock(&errands->lock);
    for (;;) {
        while (errands->count == 0 && !errands->is_closing)
            pthread_cond_wait(&errands->changed, &errands->lock);
        if (errands->count == 0)
            break;
        tell_dropped(errands);
        struct errand_copy errand = take_first(errands);
        errands->is_busy = true;
        pthread_mutex_unlock(&errands->lock);
        run_errand(errands, &errand);
        free_copy(&errand);
        pthread_mutex_lock(&errands->lock);
        errands->is_busy = false;
        pthread_cond_broadcast(&errands->changed);
    }
    bool is_left = errands->is_left;
    pthread_mutex_unlock(&errands->lock);
    if (is_left)
        free_errands(errands);
    return NULL;
}

struct errands *errands_open(const struct errand_options *options) {
    struct errands *errands = memory_alloc(sizeof *errands);
    errands->options = *options;
    errands->options.command = memory_string(options->command);
    pthread_mutex_init(&errands->lock, NULL);
    pthread_cond_init(&errands->changed, NULL);
    if (thread_start(&errands->thread, run_queue, errands))
        return errands;
    free_errands(errands);
    return NULL;
}

void errands_add(struct errands *errands, const struct errand *errand) {
    struct errand_copy copy = copy_of(errand);
    pthread_mutex_lock(&errands->lock);
    if (errands->count == QUEUE_LENGTH)
        drop_first(errands);
    errands->queue[(errands->first + errands->count++) % QUEUE_LENGTH] = copy;
    pthread_cond_broadcast(&errands->changed);
    pthread_mutex_unlock(&errands->lock);
}

// Call with the lock held. Waits in short naps: while a virtual machine is paused the commands make no progress either,
// and such a pause costs only one nap.
static bool wait_until_done(struct errands *errands, double seconds) {
    const double nap = 0.1;
    struct clock *clock = errands->options.clock;
    for (double waited = 0; waited < seconds && (errands->count > 0 || errands->is_busy);) {
        double start = clock_now(clock);
        (void)clock_wait(clock, &errands->changed, &errands->lock, start + fmin(nap, seconds - waited));
        waited += fmin(clock_now(clock) - start, nap);
    }
    return errands->count == 0 && !errands->is_busy;
}

bool errands_wait(struct errands *errands, double seconds) {
    pthread_mutex_lock(&errands->lock);
    bool is_done = wait_until_done(errands, seconds);
    pthread_mutex_unlock(&errands->lock);
    return is_done;
}

void errands_close(struct errands *errands, double seconds) {
    if (!errands)
        return;
    pthread_mutex_lock(&errands->lock);
    bool is_done = wait_until_done(errands, seconds);
    while (errands->count > 0)
        drop_first(errands);
    tell_dropped(errands);
    if (!is_done)
        log_warn("%s: a command is still running after %.0f s; leaving it behind", errands->options.name, seconds);
    errands->is_closing = true;
    errands->is_left = !is_done;
    pthread_t thread = errands->thread;
    pthread_cond_broadcast(&errands->changed);
    pthread_mutex_unlock(&errands->lock);
    if (!is_done) {
        pthread_detach(thread);
        return;
    }
    pthread_join(thread, NULL);
    free_errands(errands);
}
