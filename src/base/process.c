// Runs another program and collects its output. See process.h.
#include "base/process.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
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
