// Shell commands beside the program's work. See command_queue.h.
//
// The command has a process group of its own: a Ctrl-C of the terminal does not end it, and it can be ended together
// with its own children. The thread leaves only when the queue is empty or closed, so every child is waited for, unless
// it still runs when the program exits.
#include "base/command_queue.h"

#include "base/buffer.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/interrupt.h"
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

struct command_copy {
    char *label, *input;
    char **variables;
};

struct command_queue {
    struct command_queue_options options;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct command_copy commands[QUEUE_LENGTH];
    int first, count;
    bool is_busy, is_closing, is_left;  // is_left: the thread frees everything
    int64_t dropped;
    struct buffer dropped_names;
};

static void free_copy(struct command_copy *copy) {
    free(copy->label);
    free(copy->input);
    for (char **at = copy->variables; at && *at; at++)
        free(*at);
    free(copy->variables);
}

static struct command_copy copy_of(const struct queued_command *command) {
    size_t count = 0;
    while (command->variables[count])
        count++;
    struct command_copy copy = {.label = memory_string(command->label),
                                .input = memory_string(command->input ? command->input : ""),
                                .variables = memory_alloc(sizeof(char *) * (count + 1))};
    for (size_t i = 0; i < count; i++)
        copy.variables[i] = memory_string(command->variables[i]);
    return copy;
}

// ---- the command ----

// This process's variables, replaced by those of the queued command where names are equal. The caller owns the array,
// not the strings.
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
struct command_output {
    struct buffer line;
    int lines;
};

static void log_output(const struct command_queue *queue, struct command_output *output, const char *bytes,
                       size_t length) {
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] != '\n') {
            if (output->line.length < LINE_BYTES)
                buffer_append_byte(&output->line, bytes[i] ? bytes[i] : ' ');
            continue;
        }
        if (output->line.length > 0)
            utf8_make_printable(output->line.data, "\t");
        if (output->lines < MOST_LINES)
            log_info("%s: %s", queue->options.name, buffer_string(&output->line));
        else if (output->lines == MOST_LINES)
            log_info("%s: (more than %d lines of output; the rest is not shown)", queue->options.name, MOST_LINES);
        output->lines++;
        buffer_clear(&output->line);
    }
}

// False at the end of the output.
static bool read_output(const struct command_queue *queue, int out, struct command_output *output) {
    char bytes[4096];
    ssize_t count;
    while ((count = read(out, bytes, sizeof bytes)) > 0)
        log_output(queue, output, bytes, (size_t)count);
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

static void tell_end(const struct command_queue *queue, const char *label, int status, bool is_ended) {
    const char *name = queue->options.name;
    if (is_ended)
        log_warn("%s: the command for \"%s\" took longer than %.0f s and was ended", name, label,
                 queue->options.limit_seconds);
    else if (WIFSIGNALED(status))
        log_warn("%s: the command for \"%s\" was ended by signal %d", name, label, WTERMSIG(status));
    else if (WIFEXITED(status) && WEXITSTATUS(status) != 0)
        log_warn("%s: the command for \"%s\" failed with exit code %d", name, label, WEXITSTATUS(status));
}

// Waits for the command itself; its background children may hold the pipes open for longer.
static int attend(const struct command_queue *queue, pid_t child, int in, int out, const char *input, bool *is_ended) {
    struct command_output output = {0};
    double started = clock_now(queue->options.clock), told = 0;
    int status = 0;
    bool is_open = true;
    for (;;) {
        pid_t found = waitpid(child, &status, WNOHANG);
        if (found == child || (found < 0 && errno != EINTR))
            break;
        in = in >= 0 ? feed(in, &input) : in;
        is_open = is_open && read_output(queue, out, &output);
        double now = clock_now(queue->options.clock);
        if (told == 0 && now - started > queue->options.limit_seconds) {
            *is_ended = true;
            told = now;
            kill(-child, SIGTERM);
        } else if (told > 0 && now - told > END_SECONDS) {
            kill(-child, SIGKILL);
        }
        struct pollfd ends[] = {{.fd = is_open ? out : -1, .events = POLLIN}, {.fd = in, .events = POLLOUT}};
        (void)poll(ends, 2, TURN_MILLISECONDS);
    }
    (void)read_output(queue, out, &output);
    if (output.line.length > 0)
        log_output(queue, &output, "\n", 1);
    if (in >= 0)
        close(in);
    close(out);
    buffer_free(&output.line);
    return status;
}

static void run_queued(const struct command_queue *queue, const struct command_copy *command) {
    char **environment = make_environment(command->variables);
    int in = -1, out = -1;
    pid_t child = -1;
    int error = start(queue->options.command, environment, &in, &out, &child);
    free(environment);
    if (error != 0) {
        log_warn("%s: cannot start the command for \"%s\": %s", queue->options.name, command->label, strerror(error));
        return;
    }
    bool is_ended = false;
    int status = attend(queue, child, in, out, command->input, &is_ended);
    tell_end(queue, command->label, status, is_ended);
}

// ---- the queue ----

// Call with the lock held.
static struct command_copy take_first(struct command_queue *queue) {
    struct command_copy command = queue->commands[queue->first];
    queue->first = (queue->first + 1) % QUEUE_LENGTH;
    queue->count--;
    return command;
}

static void drop_first(struct command_queue *queue) {
    struct command_copy command = take_first(queue);
    if (queue->dropped++ < DROPPED_NAMES)
        buffer_printf(&queue->dropped_names, "%s\"%s\"", queue->dropped > 1 ? ", " : "", command.label);
    free_copy(&command);
}

static void tell_dropped(struct command_queue *queue) {
    if (queue->dropped == 0)
        return;
    log_warn("%s: the command cannot keep up with the events; it was not run for %s%s", queue->options.name,
             buffer_string(&queue->dropped_names), queue->dropped > DROPPED_NAMES ? " and others" : "");
    queue->dropped = 0;
    buffer_clear(&queue->dropped_names);
}

static void free_queue(struct command_queue *queue) {
    pthread_mutex_destroy(&queue->lock);
    pthread_cond_destroy(&queue->changed);
    buffer_free(&queue->dropped_names);
    free((char *)(uintptr_t)queue->options.command);
    free(queue);
}

static void *run_queue(void *opaque) {
    struct command_queue *queue = opaque;
    pthread_mutex_lock(&queue->lock);
    for (;;) {
        while (queue->count == 0 && !queue->is_closing)
            pthread_cond_wait(&queue->changed, &queue->lock);
        if (queue->count == 0)
            break;
        tell_dropped(queue);
        struct command_copy command = take_first(queue);
        queue->is_busy = true;
        pthread_mutex_unlock(&queue->lock);
        run_queued(queue, &command);
        free_copy(&command);
        pthread_mutex_lock(&queue->lock);
        queue->is_busy = false;
        pthread_cond_broadcast(&queue->changed);
    }
    bool is_left = queue->is_left;
    pthread_mutex_unlock(&queue->lock);
    if (is_left)
        free_queue(queue);
    return NULL;
}

struct command_queue *command_queue_open(const struct command_queue_options *options) {
    struct command_queue *queue = memory_alloc(sizeof *queue);
    queue->options = *options;
    queue->options.command = memory_string(options->command);
    pthread_mutex_init(&queue->lock, NULL);
    pthread_cond_init(&queue->changed, NULL);
    if (thread_start(&queue->thread, run_queue, queue))
        return queue;
    free_queue(queue);
    return NULL;
}

void command_queue_add(struct command_queue *queue, const struct queued_command *command) {
    struct command_copy copy = copy_of(command);
    pthread_mutex_lock(&queue->lock);
    if (queue->count == QUEUE_LENGTH)
        drop_first(queue);
    queue->commands[(queue->first + queue->count++) % QUEUE_LENGTH] = copy;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
}

// Call with the lock held. Waits in short naps: while a virtual machine is paused the commands make no progress either,
// and such a pause costs only one nap.
static bool wait_until_done(struct command_queue *queue, double seconds) {
    const double nap = 0.1;
    struct clock *clock = queue->options.clock;
    for (double waited = 0; waited < seconds && (queue->count > 0 || queue->is_busy);) {
        double start = clock_now(clock);
        (void)clock_wait(clock, &queue->changed, &queue->lock, start + fmin(nap, seconds - waited));
        waited += fmin(clock_now(clock) - start, nap);
    }
    return queue->count == 0 && !queue->is_busy;
}

bool command_queue_wait(struct command_queue *queue, double seconds) {
    pthread_mutex_lock(&queue->lock);
    bool is_done = wait_until_done(queue, seconds);
    pthread_mutex_unlock(&queue->lock);
    return is_done;
}

void command_queue_close(struct command_queue *queue, double seconds) {
    if (!queue)
        return;
    pthread_mutex_lock(&queue->lock);
    bool is_done = wait_until_done(queue, seconds);
    while (queue->count > 0)
        drop_first(queue);
    tell_dropped(queue);
    if (!is_done)
        log_warn("%s: a command is still running after %.0f s; leaving it behind", queue->options.name, seconds);
    queue->is_closing = true;
    queue->is_left = !is_done;
    pthread_t thread = queue->thread;
    pthread_cond_broadcast(&queue->changed);
    pthread_mutex_unlock(&queue->lock);
    if (!is_done) {
        pthread_detach(thread);
        return;
    }
    pthread_join(thread, NULL);
    free_queue(queue);
}
