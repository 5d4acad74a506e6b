// Output without a reader: writers do not wait for a reader that has stopped, and do not die with one that has exited.
// tier: all
#include "base/console.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "pty.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

enum { LINES = 200000, LINE_LENGTH = sizeof "line 00000000 of those that are to be relayed" };

// For what takes no time on an idle machine; 70 waits of some seconds take longer.
static const double LONG_SECONDS = 200;

static void write_all(int file, const char *bytes, size_t length) {
    for (ssize_t count; length > 0; bytes += count, length -= (size_t)count)
        if ((count = write(file, bytes, length)) < 0)
            _exit(errno == EPIPE ? 3 : 4);
}

// A process that writes numbered lines, some 9 MB; exits with 3 if the pipe was closed on it.
static pid_t start_writer(int writer) {
    pid_t child = fork();
    if (child == 0) {
        signal(SIGPIPE, SIG_IGN);
        for (int i = 0; i < LINES; i++) {
            char line[64];
            int length = snprintf(line, sizeof line, "line %08d of those that are to be relayed\n", i);
            write_all(writer, line, (size_t)length);
        }
        _exit(0);
    }
    close(writer);
    return child;
}

static int wait_for(pid_t child) {
    int status;
    EXPECT(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

struct console_reader {
    int file;
    struct buffer text;
};

static void read_to_end(struct console_reader *reader) {
    char bytes[65536];
    for (ssize_t count; (count = read(reader->file, bytes, sizeof bytes)) > 0;)
        buffer_append(&reader->text, bytes, (size_t)count);
}

static void read_some(struct console_reader *reader) {
    char bytes[65536];
    ssize_t count = read(reader->file, bytes, sizeof bytes);
    if (count <= 0)
        _exit(5);
    buffer_append(&reader->text, bytes, (size_t)count);
}

// Every line is complete and the numbers increase; a gap is as long as the note before the next line says. Returns the
// number of lost lines, -1 if the text is not like that.
static int64_t count_lost(const char *text) {
    int64_t next = 0, lost = 0;
    for (const char *end; *text; text = end + 1) {
        end = strchr(text, '\n');
        if (!end)
            return -1;
        bool is_note = text[0] == '(';
        long long number = strtoll(text + (is_note ? 1 : strlen("line ")), NULL, 10);
        if (is_note) {
            lost += number;
            next += number;
            continue;
        }
        if (strncmp(text, "line ", 5) != 0 || number != next || end - text != LINE_LENGTH - 1)
            return -1;
        next = number + 1;
    }
    return lost;
}

TEST(everything_is_passed_on) {
    for (int is_socket = 0; is_socket < 2; is_socket++) {
        int ends[2], writer;
        EXPECT((is_socket ? socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : pipe(ends)) == 0);
        FILE *file = tmpfile();
        pid_t reading = fork();
        if (reading == 0) {
            struct console_reader reader = {.file = ends[0]};
            close(ends[1]);
            read_to_end(&reader);
            _exit(fwrite(reader.text.data, 1, reader.text.length, file) == reader.text.length && fflush(file) == 0 ? 0
                                                                                                                   : 1);
        }
        close(ends[0]);
        struct console_relay *relay = console_relay_open(ends[1], &writer);
        EXPECT(relay != NULL);
        pid_t child = start_writer(writer);
        EXPECT(wait_for(child) == 0);
        console_relay_close(relay);
        close(ends[1]);
        EXPECT(wait_for(reading) == 0);
        rewind(file);
        struct console_reader reader = {.file = fileno(file)};
        lseek(reader.file, 0, SEEK_SET);
        read_to_end(&reader);
        // A busy machine may keep the reader from running for longer than the relay waits; then it is told.
        int64_t lost = count_lost(buffer_string(&reader.text));
        EXPECT(lost >= 0 && lost < LINES);
        buffer_free(&reader.text);
        fclose(file);
    }
}

TEST(a_reader_that_went_away_stops_nobody) {
    int ends[2], writer;
    EXPECT(pipe(ends) == 0);
    close(ends[0]);
    struct console_relay *relay = console_relay_open(ends[1], &writer);
    EXPECT(relay != NULL);
    EXPECT(wait_for(start_writer(writer)) == 0);
    console_relay_close(relay);
    close(ends[1]);
}

TEST(a_reader_that_stopped_stops_nobody_and_learns_what_it_missed) {
    int ends[2], writer;
    EXPECT(pipe(ends) == 0);
    // Room for everything: a child of a process with other threads must not allocate, one of them may hold the lock.
    struct console_reader reader = {.file = ends[0]};
    buffer_reserve(&reader.text, (size_t)LINES * LINE_LENGTH + 4096);
    struct console_relay *relay = console_relay_open(ends[1], &writer);
    EXPECT(relay != NULL);
    int kept = dup(writer);
    EXPECT(wait_for(start_writer(writer)) == 0);  // nobody has read anything yet
    // It wakes up while the writer's end is still open and gets everything that was kept; then one more line.
    pid_t feeding = fork();
    if (feeding == 0) {
        char last[] = "line 00200000 of those that are to be relayed\n";
        alarm(300);
        close(ends[1]);
        while (reader.text.length < (4 << 20) - 65536)
            read_some(&reader);
        write_all(kept, last, sizeof last - 1);
        close(kept);
        while (!strstr(reader.text.data + reader.text.length - sizeof last, last))
            read_some(&reader);
        int64_t lost = count_lost(buffer_string(&reader.text));
        _exit(lost > LINES / 4 ? 0 : 6);
    }
    close(kept);
    close(ends[0]);
    EXPECT(wait_for(feeding) == 0);
    console_relay_close(relay);
    close(ends[1]);
    buffer_free(&reader.text);
}

TEST(only_pipes_and_sockets_need_a_relay) {
    int writer;
    FILE *file = tmpfile();
    EXPECT(console_relay_open(fileno(file), &writer) == NULL);
    fclose(file);
}

// In a separate process, since a full standard output is remembered.
TEST(our_own_lines_are_refused_while_nobody_reads) {
    int ends[2];
    EXPECT(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        char page[4096];
        memset(page, '.', sizeof page - 1);
        page[sizeof page - 1] = '\n';
        dup2(ends[1], STDOUT_FILENO);
        while (console_is_ready(STDOUT_FILENO))
            write_all(STDOUT_FILENO, page, sizeof page);
        double start = clock_seconds();
        for (int i = 0; i < 1000; i++)
            if (console_is_ready(STDOUT_FILENO))
                _exit(7);
        bool is_quick = clock_seconds() - start < LONG_SECONDS;  // each of them could have waited for seconds
        char note[4096] = "";
        struct console_reader reader = {.file = ends[0]};
        fcntl(ends[0], F_SETFL, O_NONBLOCK);
        read_to_end(&reader);
        if (!console_is_ready(STDOUT_FILENO))
            _exit(8);
        ssize_t count = read(ends[0], note, sizeof note - 1);
        _exit(is_quick && count > 0 && strncmp(note, "(1001 lines are missing here", 28) == 0 ? 0 : 9);
    }
    close(ends[0]);
    close(ends[1]);
    EXPECT(wait_for(child) == 0);
}

TEST(a_closed_pipe_counts_as_ready) {
    int ends[2];
    EXPECT(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        dup2(ends[1], STDERR_FILENO);
        _exit(console_is_ready(STDERR_FILENO) ? 0 : 1);
    }
    close(ends[0]);
    close(ends[1]);
    EXPECT(wait_for(child) == 0);
}

// Far more than a terminal and what is kept for it have room for.
static void print_lines(int count) {
    char line[64];
    for (int i = 0; i < count; i++) {
        int length = snprintf(line, sizeof line, "line %08d of those that are to be relayed\n", i);
        console_print(STDERR_FILENO, line, (size_t)length);
    }
}

static void print_much(void) {
    print_lines(LINES);
}

TEST(a_terminal_that_nobody_reads_stops_nobody) {
    static struct pty_run run;
    int status;
    pty_begin(&run, 80, print_much, NULL);
    EXPECT(waitpid(run.child, &status, 0) == run.child && status == 0);  // nothing was read
    close(run.control);
}

// A launcher that reads what its ranks write, more slowly than they write it: all of it arrives.
enum { LAUNCHER_LINES = 30000 };

static void print_to_launcher(void) {
    console_set_patience(STDERR_FILENO, LONG_SECONDS);
    print_lines(LAUNCHER_LINES);
}

TEST(a_terminal_of_a_launcher_loses_nothing) {
    static struct pty_run run;
    struct console_reader reader = {0};
    char bytes[4096];
    int status;
    pty_begin(&run, 80, print_to_launcher, NULL);
    for (ssize_t count; (count = terminal_read(run.control, bytes, sizeof bytes)) > 0; clock_sleep(1e-4))
        for (ssize_t i = 0; i < count; i++)
            if (bytes[i] != '\r')
                buffer_append_byte(&reader.text, bytes[i]);
    EXPECT(waitpid(run.child, &status, 0) == run.child && status == 0);
    EXPECT_INT(count_lost(buffer_string(&reader.text)), 0);
    EXPECT_INT(reader.text.length, (int64_t)LAUNCHER_LINES * LINE_LENGTH);
    buffer_free(&reader.text);
    close(run.control);
}

// Without a reader it is waited for once; then it is as any other.
static void print_to_stuck_launcher(void) {
    console_set_patience(STDERR_FILENO, 1e-3);
    print_lines(LAUNCHER_LINES);
}

TEST(a_launcher_that_does_not_read_stops_nobody) {
    static struct pty_run run;
    int status;
    pty_begin(&run, 80, print_to_stuck_launcher, NULL);
    EXPECT(waitpid(run.child, &status, 0) == run.child && status == 0);
    close(run.control);
}

// Ctrl-S is this.
static void print_on_hold(void) {
    tcflow(STDERR_FILENO, TCOOFF);
    double start = clock_seconds();
    console_print(STDERR_FILENO, "one\n", 4);
    for (int i = 0; i < 70; i++) {
        if (console_is_clear(STDERR_FILENO))
            _exit(1);
        console_print(STDOUT_FILENO, ".", 1);
    }
    if (clock_seconds() - start > LONG_SECONDS)
        _exit(2);
    console_print(STDOUT_FILENO, "\n", 1);
    tcflow(STDERR_FILENO, TCOON);
    console_print(STDERR_FILENO, "three\n", 6);
    if (!console_is_clear(STDERR_FILENO))
        _exit(3);
}

TEST(a_terminal_on_hold_gets_its_lines_later) {
    char *text = pty_text(80, print_on_hold);
    EXPECT_STRING(text, "one\n......................................................................\nthree\n");
    free(text);
}

static void print_and_end_on_hold(void) {
    tcflow(STDERR_FILENO, TCOOFF);
    console_print(STDERR_FILENO, "last words\n", 11);
    tcflow(STDERR_FILENO, TCOON);
    exit(0);
}

TEST(what_is_kept_is_written_at_the_end) {
    char *text = pty_text(80, print_and_end_on_hold);
    EXPECT_STRING(text, "last words\n");
    free(text);
}

// A view that is larger than what the kernel writes to a terminal in one go, and an answer to each signal.
enum { VIEWS = 600, VIEW_BYTES = 6000 };

static void answer_signal(int number) {
    (void)number;
    (void)!write(STDERR_FILENO, "!", 1);
}

static void print_views(void) {
    char view[VIEW_BYTES], go;
    memset(view, 'v', sizeof view);
    view[0] = '<';
    view[VIEW_BYTES - 1] = '>';
    // Not signal(): under ThreadSanitizer it does not resume the read below.
    sigaction(SIGINT, &(struct sigaction){.sa_handler = answer_signal, .sa_flags = SA_RESTART}, NULL);
    console_print(STDERR_FILENO, "=", 1);
    for (int i = 0; i < VIEWS && read(STDERR_FILENO, &go, 1) == 1; i++)
        console_print(STDERR_FILENO, view, sizeof view);
}

// Signals come all the time. The child prints a view when it is asked to, so the terminal has room for all of it.
TEST(an_answer_to_a_signal_does_not_stand_inside_a_view) {
    static struct pty_run run;
    struct termios settings;
    int terminal, views = 0, answers = 0;
    bool is_inside = false;
    pty_begin(&run, 80, print_views, &terminal);
    EXPECT(tcgetattr(terminal, &settings) == 0);
    cfmakeraw(&settings);
    EXPECT(tcsetattr(terminal, TCSANOW, &settings) == 0);
    fcntl(run.control, F_SETFL, O_NONBLOCK);
    for (double end = clock_seconds() + LONG_SECONDS; views < VIEWS && clock_seconds() < end;) {
        char bytes[4096];
        ssize_t count = read(run.control, bytes, sizeof bytes);
        for (ssize_t i = 0; i < count; i++) {
            bool is_answer = bytes[i] == '!';
            if (is_answer && is_inside)
                test_fail("an answer inside view %d", views);
            answers += is_answer;
            is_inside = bytes[i] == '<' || (is_inside && bytes[i] != '>');
            views += bytes[i] == '>';
            if (bytes[i] == '>' || bytes[i] == '=')
                EXPECT(write(run.control, "g", 1) == 1);
        }
        if (views + answers > 0 || is_inside)
            kill(run.child, SIGINT);
    }
    EXPECT_INT(views, VIEWS);
    EXPECT(answers > 0);
    close(terminal);
    kill(run.child, SIGKILL);
    EXPECT(waitpid(run.child, NULL, 0) == run.child);
    close(run.control);
}

static void print_after_hangup(void) {
    // The parent has closed its end when this arrives.
    char byte;
    while (read(STDERR_FILENO, &byte, 1) > 0)
        continue;
    for (int i = 0; i < 1000; i++)
        console_print(STDERR_FILENO, "line\n", 5);
}

TEST(a_terminal_that_is_gone_stops_nobody) {
    static struct pty_run run;
    int status;
    pty_begin(&run, 80, print_after_hangup, NULL);
    close(run.control);
    EXPECT(waitpid(run.child, &status, 0) == run.child && status == 0);
}

TEST_MAIN(TEST_CASE(a_terminal_that_nobody_reads_stops_nobody), TEST_CASE(a_terminal_of_a_launcher_loses_nothing),
          TEST_CASE(a_launcher_that_does_not_read_stops_nobody), TEST_CASE(a_terminal_on_hold_gets_its_lines_later),
          TEST_CASE(what_is_kept_is_written_at_the_end), TEST_CASE(a_terminal_that_is_gone_stops_nobody),
          TEST_CASE(an_answer_to_a_signal_does_not_stand_inside_a_view), TEST_CASE(everything_is_passed_on),
          TEST_CASE(a_reader_that_went_away_stops_nobody),
          TEST_CASE(a_reader_that_stopped_stops_nobody_and_learns_what_it_missed),
          TEST_CASE(only_pipes_and_sockets_need_a_relay), TEST_CASE(our_own_lines_are_refused_while_nobody_reads),
          TEST_CASE(a_closed_pipe_counts_as_ready))
