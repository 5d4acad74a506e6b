// Commands beside the program's work: what they are told, what becomes of their output, and that slow, failing and
// hostile ones hold up nothing and leave nothing behind.
// tier: all
#include "base/command_queue.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "capture.h"
#include "moved_clock.h"
#include "test.h"
#include <errno.h>
#include <signal.h>

static struct capture capture;
static char folder[64], command[512];

static void begin(void) {
    snprintf(folder, sizeof folder, "/tmp/bevatron_command_XXXXXX");
    EXPECT(mkdtemp(folder) != NULL);
}

static void end(void) {
    EXPECT_OK(file_remove_tree(folder));
}

static struct buffer content(const char *name) {
    char path[128];
    struct buffer text = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    EXPECT_OK(file_read_all(path, 1 << 20, &text));
    return text;
}

static const char *const no_variables[] = {NULL};
static const double LONG_SECONDS = 600;

static struct command_queue *open_with(const char *text, double limit_seconds) {
    struct command_queue *queue = command_queue_open(
        &(struct command_queue_options){.name = "--hook", .command = text, .limit_seconds = limit_seconds});
    CHECK(queue != NULL);
    return queue;
}

// Text that a shell would run is only text, in a variable and on standard input.
TEST(facts) {
    static const char hostile[] = "NAME=`touch pwned` $(touch pwned); touch pwned '\"\\ \n&";
    static const char *const variables[] = {hostile, "HOME=elsewhere", NULL};
    begin();
    setenv("NAME", "old", 1);
    snprintf(command, sizeof command, "cd %s; printf %%s \"$NAME\" >name; printf %%s \"$HOME\" >home; cat >input",
             folder);
    struct command_queue *queue = open_with(command, LONG_SECONDS);
    command_queue_add(
        queue, &(struct queued_command){.label = "first", .variables = variables, .input = "{\"a\": \"$(exit)\"}\n"});
    command_queue_close(queue, LONG_SECONDS);
    struct buffer name = content("name"), home = content("home"), input = content("input");
    EXPECT_STRING(buffer_string(&name), hostile + strlen("NAME="));
    EXPECT_STRING(buffer_string(&home), "elsewhere");
    EXPECT_STRING(buffer_string(&input), "{\"a\": \"$(exit)\"}\n");
    char path[128];
    snprintf(path, sizeof path, "%s/pwned", folder);
    EXPECT(!file_exists(path) && !file_exists("pwned"));
    buffer_free(&name);
    buffer_free(&home);
    buffer_free(&input);
    // Nothing is left to wait for.
    EXPECT(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
    end();
}

// The shell is told the file's name alone: its own line says so, which is what `ps` shows.
TEST(a_script_in_a_file) {
    begin();
    char path[128], named[160];
    snprintf(path, sizeof path, "%s/-notify.sh", folder);
    snprintf(command, sizeof command, "tr '\\0' ' ' </proc/$$/cmdline >%s/line; echo \"$NAME\" >%s/name\n", folder,
             folder);
    struct buffer script = {0};
    buffer_append_string(&script, command);
    EXPECT_OK(file_write_all(path, script.data, script.length));
    buffer_free(&script);
    snprintf(named, sizeof named, "@%s", path);
    static const char *const variables[] = {"NAME=saved", NULL};
    struct command_queue *queue = open_with(named, LONG_SECONDS);
    command_queue_add(queue, &(struct queued_command){.label = "first", .variables = variables});
    command_queue_close(queue, LONG_SECONDS);
    struct buffer line = content("line"), name = content("name");
    snprintf(named, sizeof named, "sh -- %s ", path);
    EXPECT_STRING(buffer_string(&line), named);
    EXPECT_STRING(buffer_string(&name), "saved\n");
    buffer_free(&line);
    buffer_free(&name);
    end();
}

static void speak(void) {
    struct command_queue *queue =
        open_with("echo one; printf 'a\\033[31mb\\ntwo'; echo three >&2; exit 7", LONG_SECONDS);
    command_queue_add(queue, &(struct queued_command){.label = "saved at 5", .variables = no_variables});
    command_queue_close(queue, LONG_SECONDS);
    queue = open_with("yes | head -n 1000", LONG_SECONDS);
    command_queue_add(queue, &(struct queued_command){.label = "more", .variables = no_variables});
    command_queue_close(queue, LONG_SECONDS);
    queue = open_with("kill -9 $$", LONG_SECONDS);
    command_queue_add(queue, &(struct queued_command){.label = "killed", .variables = no_variables});
    command_queue_close(queue, LONG_SECONDS);
}

TEST(output) {
    capture_run(&capture, speak);
    EXPECT_INT(capture.status, 0);
    EXPECT(strstr(capture.text, "--hook: one\n--hook: a?[31mb\n") != NULL);
    EXPECT(strstr(capture.text, "two") != NULL && strstr(capture.text, "three") != NULL);
    EXPECT(strstr(capture.text, "warning: --hook: the command for \"saved at 5\" failed with exit code 7\n") != NULL);
    EXPECT(strstr(capture.text, "the rest is not shown") != NULL);
    EXPECT(strlen(capture.text) < 4000);
    EXPECT(strstr(capture.text, "the command for \"killed\" was ended by signal 9") != NULL);
}

// Ten seconds pass in a millisecond.
static void take_too_long(void) {
    static struct moved_clock moved;
    moved_clock_open(&moved, false);
    // It ignores the polite signal, and so does its child.
    struct command_queue *queue =
        command_queue_open(&(struct command_queue_options){.name = "--hook",
                                                           .command = "trap '' TERM; sleep 1000; sleep 1000",
                                                           .limit_seconds = 60,
                                                           .clock = &moved.clock});
    CHECK(queue != NULL);
    command_queue_add(queue, &(struct queued_command){.label = "slow", .variables = no_variables});
    for (; !command_queue_wait(queue, 0); clock_sleep(1e-3))
        moved_clock_move(&moved, 10);
    command_queue_close(queue, LONG_SECONDS);
    _exit(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD ? 0 : 1);
}

TEST(limit) {
    capture_run(&capture, take_too_long);
    EXPECT_INT(capture.status, 0);
    EXPECT(strstr(capture.text, "the command for \"slow\" took longer than 60 s and was ended") != NULL);
}

// A command that never reads, and leaves a process behind that holds its output.
static void leave_behind(void) {
    char *large = malloc(1 << 20);
    memset(large, 'x', (1 << 20) - 1);
    large[(1 << 20) - 1] = '\0';
    struct command_queue *queue = open_with("sleep 1000 & echo \"left $!\"", LONG_SECONDS);
    command_queue_add(queue, &(struct queued_command){.label = "behind", .variables = no_variables, .input = large});
    command_queue_close(queue, LONG_SECONDS);
    free(large);
}

TEST(background) {
    capture_run(&capture, leave_behind);
    EXPECT_INT(capture.status, 0);
    const char *left = strstr(capture.text, "--hook: left ");
    EXPECT(left != NULL);
    int process = (int)strtol(left + strlen("--hook: left "), NULL, 10);
    EXPECT(process > 1);
    kill(process, SIGKILL);
}

static void overrun(void) {
    char path[128], begun[128], label[32];
    snprintf(path, sizeof path, "%s/go", folder);
    snprintf(begun, sizeof begun, "%s/begun", folder);
    snprintf(command, sizeof command, "touch %s; while [ ! -e %s ]; do sleep 0.02; done", begun, path);
    struct command_queue *queue = open_with(command, LONG_SECONDS);
    // One runs and 16 wait; each of the rest takes the place of the oldest that waits.
    for (int i = 0; i < 30; i++) {
        snprintf(label, sizeof label, "event %d", i);
        command_queue_add(queue, &(struct queued_command){.label = label, .variables = no_variables});
        while (!file_exists(begun))
            clock_sleep(0.01);
    }
    if (command_queue_wait(queue, 0.01) || file_write_all(path, "", 0) < 0)
        _exit(9);
    command_queue_close(queue, LONG_SECONDS);
}

// Adding never waits for a command, and what was dropped is named.
TEST(queue) {
    begin();
    capture_run(&capture, overrun);
    EXPECT_INT(capture.status, 0);
    EXPECT(strstr(capture.text, "the command cannot keep up with the events; it was not run for \"event ") != NULL);
    EXPECT(strstr(capture.text, "\"event 5\"") != NULL && strstr(capture.text, " and others\n") != NULL);
    EXPECT(strstr(capture.text, "\"event 29\"") == NULL);
    end();
}

TEST(closing_early) {
    begin();
    snprintf(command, sizeof command, "while [ -e %s ]; do sleep 0.05; done", folder);
    struct command_queue *queue = open_with(command, LONG_SECONDS);
    command_queue_add(queue, &(struct queued_command){.label = "first", .variables = no_variables});
    EXPECT(!command_queue_wait(queue, 0.01));
    command_queue_close(queue, 0.01);
    command_queue_close(NULL, 1);
    end();
}

TEST_MAIN(TEST_CASE(facts), TEST_CASE(a_script_in_a_file), TEST_CASE(output), TEST_CASE(limit), TEST_CASE(background),
          TEST_CASE(queue), TEST_CASE(closing_early))
