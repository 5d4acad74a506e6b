// Runs a command on a terminal of its own, types to it, and writes down what a person would see there.
// usage: terminal COLUMNSxROWS FILE [ACTION…] -- COMMAND…
//   -o PATH            the command's stdout is this file, not the terminal
//   -w TEXT            waits until TEXT has come since the action before
//   -t KEYS            types them; \003 is Ctrl-C
//   -s PATH            writes down what was to be seen when the text that was waited for had come
//   -r COLUMNSxROWS    gives the window another size
//   -p                 stops reading for good, as a connection that stalls; the command must end all the same
//   -h                 closes the terminal
// FILE gets what is to be seen at the end, FILE.raw every byte. The exit code is the command's, 128 + N after a signal;
// 99 if a text did not come.
#include "../terminal.h"
#include "base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_SECONDS = 900, NO_TEXT = 99 };

struct session_of_terminal {
    struct terminal screen;
    int control;  // our end; -1 once it is closed
    pid_t child;
    char *raw;
    size_t length;
    size_t seen;  // where the search for the next text begins, and what the screen has got: what came later waits
};

static _Noreturn void stop(const char *what) {
    perror(what);
    exit(98);
}

static void write_file(const char *path, const char *bytes, size_t length) {
    FILE *file = fopen(path, "w");
    if (!file || fwrite(bytes, 1, length, file) != length || fclose(file) != 0)
        stop(path);
}

static void write_screen(const struct session_of_terminal *s, const char *path) {
    char *text = terminal_text(&s->screen);
    write_file(path, text, strlen(text));
    free(text);
}

static struct winsize parse_size(const char *text) {
    int columns = 80, rows = 24;
    if (sscanf(text, "%dx%d", &columns, &rows) != 2 || columns > TERMINAL_MOST_COLUMNS || rows > TERMINAL_MOST_ROWS) {
        fprintf(stderr, "terminal: %s is not a size\n", text);
        exit(98);
    }
    return (struct winsize){.ws_col = (unsigned short)columns, .ws_row = (unsigned short)rows};
}

static void start(struct session_of_terminal *s, struct winsize size, const char *stdout_path, char **command) {
    s->control = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (s->control < 0 || grantpt(s->control) < 0 || unlockpt(s->control) < 0)
        exit(77);
    ioctl(s->control, TIOCSWINSZ, &size);
    terminal_open(&s->screen, size.ws_col, size.ws_row);
    const char *name = ptsname(s->control);
    s->child = fork();
    if (s->child != 0)
        return;
    setsid();
    int terminal = open(name, O_RDWR);
    if (terminal < 0)
        _exit(98);
    ioctl(terminal, TIOCSCTTY, 0);
    for (int i = 0; i < 3; i++)
        dup2(terminal, i);
    close(terminal);
    if (stdout_path) {
        int file = open(stdout_path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        dup2(file, 1);
        close(file);
    }
    execvp(command[0], command);
    _exit(127);
}

// Takes what has come; false at the end.
static bool take(struct session_of_terminal *s, int milliseconds) {
    char bytes[4096];
    struct pollfd wait = {.fd = s->control, .events = POLLIN};
    if (poll(&wait, 1, milliseconds) == 0)
        return true;
    ssize_t count = terminal_read(s->control, bytes, sizeof bytes);
    if (count <= 0)
        return count < 0 && errno == EINTR;
    s->raw = realloc(s->raw, s->length + (size_t)count + 1);
    if (!s->raw)
        stop("realloc");
    memcpy(s->raw + s->length, bytes, (size_t)count);
    s->length += (size_t)count;
    s->raw[s->length] = '\0';
    return true;
}

static void show_up_to(struct session_of_terminal *s, size_t end) {
    terminal_feed(&s->screen, s->raw + s->seen, end - s->seen);
    s->seen = end;
}

// Takes everything received so far, so that it is not mistaken for later data.
static void show_all(struct session_of_terminal *s) {
    size_t before;
    do {
        before = s->length;
        take(s, 0);
    } while (s->length > before);
    if (s->raw)
        show_up_to(s, s->length);
}

static bool await(struct session_of_terminal *s, const char *text) {
    for (double until = clock_seconds() + MOST_SECONDS; clock_seconds() < until;) {
        char *found = s->raw ? strstr(s->raw + s->seen, text) : NULL;
        if (found) {
            show_up_to(s, (size_t)(found - s->raw) + strlen(text));
            return true;
        }
        if (!take(s, 100))
            break;
    }
    fprintf(stderr, "terminal: \"%s\" did not come\n", text);
    return false;
}

static void type(const struct session_of_terminal *s, const char *keys) {
    for (; *keys; keys++) {
        char byte = *keys;
        if (byte == '\\') {
            byte = (char)strtol((char[]){keys[1], keys[2], keys[3], '\0'}, NULL, 8);
            keys += 3;
        }
        if (write(s->control, &byte, 1) != 1)
            stop("typing");
    }
}

static int end(struct session_of_terminal *s, bool reads) {
    int status;
    while (reads && s->control >= 0 && take(s, 1000))
        continue;
    if (s->raw)
        show_up_to(s, s->length);
    while (waitpid(s->child, &status, 0) < 0 && errno == EINTR)
        continue;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// Returns false if a text did not come.
static bool act(struct session_of_terminal *s, char **actions, bool *reads) {
    for (char **at = actions; strcmp(*at, "--") != 0; at++) {
        const char *action = *at;
        if (strcmp(action, "-h") == 0) {
            close(s->control);
            s->control = -1;
        } else if (strcmp(action, "-p") == 0) {
            *reads = false;
        } else if (strcmp(action, "-w") == 0) {
            if (!await(s, *++at))
                return false;
        } else if (strcmp(action, "-t") == 0) {
            type(s, *++at);
        } else if (strcmp(action, "-s") == 0) {
            write_screen(s, *++at);
        } else if (strcmp(action, "-r") == 0) {
            struct winsize size = parse_size(*++at);
            show_all(s);
            ioctl(s->control, TIOCSWINSZ, &size);
            terminal_resize(&s->screen, size.ws_col, size.ws_row);
        } else if (strcmp(action, "-o") == 0) {
            at++;
        }
    }
    return true;
}

int main(int argc, char **argv) {
    static struct session_of_terminal s;
    const char *stdout_path = NULL;
    int command = 3;
    for (; command < argc && strcmp(argv[command], "--") != 0; command++)
        if (strcmp(argv[command], "-o") == 0)
            stdout_path = argv[command + 1];
    if (command + 1 >= argc) {
        fprintf(stderr, "usage: terminal COLUMNSxROWS FILE [ACTION…] -- COMMAND…\n");
        return 98;
    }
    signal(SIGPIPE, SIG_IGN);
    start(&s, parse_size(argv[1]), stdout_path, argv + command + 1);
    bool reads = true, has_come = act(&s, argv + 3, &reads);
    if (!has_come)
        kill(s.child, SIGKILL);
    int code = end(&s, reads);
    write_screen(&s, argv[2]);
    char raw[4096];
    snprintf(raw, sizeof raw, "%s.raw", argv[2]);
    write_file(raw, s.raw ? s.raw : "", s.length);
    if (s.screen.unknown > 0)
        fprintf(stderr, "terminal: %d sequences are unknown\n", s.screen.unknown);
    return has_come ? code : NO_TEXT;
}
