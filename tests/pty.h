// Runs a function in a child process whose stdout and stderr are a pseudo-terminal, and shows what stands there then.
#ifndef TESTS_PTY_H
#define TESTS_PTY_H

#include "terminal.h"
#include "test.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct pty_run {
    struct terminal screen;
    int control;
    pid_t child;
};

// The child begins; nothing is read from it yet. *terminal, if it is asked for, is its end of the terminal, kept open.
static inline void pty_begin(struct pty_run *run, int columns, void (*function)(void), int *terminal) {
    struct winsize size = {.ws_col = (unsigned short)columns, .ws_row = 10};
    run->control = posix_openpt(O_RDWR | O_NOCTTY);
    if (run->control < 0 || grantpt(run->control) < 0 || unlockpt(run->control) < 0)
        test_skip("no pseudo-terminals here");
    ioctl(run->control, TIOCSWINSZ, &size);
    terminal_open(&run->screen, columns, size.ws_row);
    int file = open(ptsname(run->control), O_RDWR | O_NOCTTY);
    EXPECT(file >= 0);
    fflush(stdout);
    run->child = fork();
    EXPECT(run->child >= 0);
    if (run->child == 0) {
        close(run->control);
        dup2(file, STDOUT_FILENO);
        dup2(file, STDERR_FILENO);
        close(file);
        function();
        _exit(0);
    }
    if (terminal)
        *terminal = file;
    else
        close(file);
}

// Reads to the end, unless another process still has the terminal open; the child's exit status.
static inline int pty_end(struct pty_run *run) {
    char bytes[4096];
    int status;
    for (ssize_t count; (count = terminal_read(run->control, bytes, sizeof bytes)) > 0;)
        terminal_feed(&run->screen, bytes, (size_t)count);
    close(run->control);
    EXPECT(waitpid(run->child, &status, 0) == run->child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// The whole of it: what stands on the terminal at the end, to be freed.
static inline char *pty_text(int columns, void (*function)(void)) {
    static struct pty_run run;
    pty_begin(&run, columns, function, NULL);
    EXPECT_INT(pty_end(&run), 0);
    EXPECT_INT(run.screen.unknown, 0);
    char *text = terminal_text(&run.screen);
    terminal_close(&run.screen);
    return text;
}

#endif
