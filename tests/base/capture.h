// Runs a function in a child process and keeps its stderr and exit status.
#ifndef TESTS_BASE_CAPTURE_H
#define TESTS_BASE_CAPTURE_H

#include "test.h"
#include <sys/wait.h>
#include <unistd.h>

struct capture {
    char text[65536];
    int status;  // exit status, or -1 if a signal ended it
};

static void capture_run(struct capture *capture, void (*function)(void)) {
    int ends[2];
    EXPECT(pipe(ends) == 0);
    fflush(stdout);
    pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        close(ends[1]);
        function();
        _exit(0);
    }
    close(ends[1]);
    size_t length = 0;
    for (ssize_t count; (count = read(ends[0], capture->text + length, sizeof capture->text - 1 - length)) > 0;)
        length += (size_t)count;
    capture->text[length] = '\0';
    close(ends[0]);
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    capture->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#endif
