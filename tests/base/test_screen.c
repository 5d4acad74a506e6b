// Lines at the bottom of a terminal: messages stand above them, nothing of what they showed before is left, and what a
// terminal cannot do is not asked of it.
// tier: all
#include "base/screen.h"
#include "base/log.h"
#include "pty.h"

#include <signal.h>

static void expect_screen(int columns, void (*function)(void), const char *expected) {
    char *text = pty_text(columns, function);
    EXPECT_STRING(text, expected);
    free(text);
}

static void draw_and_log(void) {
    log_info("before");
    log_view("first line of the view\nsecond line");
    log_status("loading: 50 %");
    log_info("a message above");
    log_print(stdout, "a result above\n");
    log_view("first line\nsecond\nthird");
    log_status("loading: 60 %");
    log_warn("another");
}

TEST(messages_stand_above) {
    expect_screen(
        60, draw_and_log,
        "before\na message above\na result above\nwarning: another\nfirst line\nsecond\nthird\nloading: 60 %\n");
}

static void draw_and_clear(void) {
    draw_and_log();
    log_status(NULL);
    log_view("short");
    log_view(NULL);
    log_info("after");
}

TEST(nothing_is_left) {
    expect_screen(60, draw_and_clear, "before\na message above\na result above\nwarning: another\nafter\n");
}

static void draw_wide(void) {
    log_view("\033[2mname\033[0m ▁▂▃▄▅▆▇█ a line that is wider than the terminal\nanother line that is too wide");
    log_info("a message");
}

TEST(lines_are_cut) {
    expect_screen(20, draw_wide, "a message\nname ▁▂▃▄▅▆▇█ a lin\nanother line that i\n");
}

static void draw_many(void) {
    for (int i = 0; i < 12; i++)
        log_info("message %d", i);
    log_view("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13");
    log_status("status");
    log_info("last message");
}

// Ten rows: eight of the view, the status, and room for a message.
TEST(a_low_window_shows_the_first_lines_and_the_status) {
    char *text = pty_text(40, draw_many);
    const char *end = "message 11\nlast message\n1\n2\n3\n4\n5\n6\n7\n8\nstatus\n";
    EXPECT(strlen(text) > strlen(end));
    EXPECT_STRING(text + strlen(text) - strlen(end), end);
    free(text);
}

// Another process writes without knowing of the view: its line is not lost.
static void share_the_terminal(void) {
    log_view("first\nsecond");
    (void)!write(STDERR_FILENO, "[rank 1] a line\n", 16);
    log_view("first\nsecond");
}

TEST(lines_of_others_stay) {
    expect_screen(40, share_the_terminal, "[rank 1] a line\nfirst\nsecond\n");
}

static void fail_at_the_end(void) {
    log_view("first\nsecond");
    log_error("it broke");
}

TEST(an_error_is_the_last_word) {
    expect_screen(40, fail_at_the_end, "error: it broke\n");
}

// A shell that starts the tests in the background makes them ignore SIGINT.
static void die_of_a_signal(void) {
    signal(SIGINT, SIG_DFL);
    log_info("begin");
    log_status("working: 12 %");
    raise(SIGINT);
}

TEST(a_signal_leaves_nothing) {
    static struct pty_run run;
    pty_begin(&run, 40, die_of_a_signal, NULL);
    EXPECT_INT(pty_end(&run), -1);
    char *text = terminal_text(&run.screen);
    EXPECT_STRING(text, "begin\n");
    free(text);
    terminal_close(&run.screen);
}

static void be_another_rank(void) {
    log_set_rank(1, 2);
    log_view("a view");
    log_warn("text");
}

TEST(one_rank_draws) {
    expect_screen(40, be_another_rank, "[rank 1] warning: text\n");
}

// The board as drawn by another process.
static void draw_beside(void) {
    static const char drawn[] = "\ra view that is long\033[K\r\nand another line\033[J\033[A\r";
    EXPECT(write(STDERR_FILENO, drawn, sizeof drawn - 1) == sizeof drawn - 1);
    log_share_terminal();
}

static void write_over_a_view(void) {
    draw_beside();
    log_warn("text");
}

static void clear_a_view(void) {
    draw_beside();
    log_clear_terminal();
}

TEST(the_view_of_another_process_is_cleared) {
    expect_screen(40, write_over_a_view, "warning: text\n");
    expect_screen(40, clear_a_view, "\n");
}

static void change_size(void) {
    log_view("a view of forty columns less one: 89012345");
    ioctl(STDERR_FILENO, TIOCSWINSZ, &(struct winsize){.ws_col = 20, .ws_row = 10});
    log_info("message");
}

TEST(the_size_is_asked_when_something_is_drawn) {
    char *text = pty_text(40, change_size);
    EXPECT_STRING(text, "message\na view of forty col\n");
    free(text);
}

static const char *environment[4][2];

static const char *look_up(const char *name) {
    for (size_t i = 0; i < 4 && environment[i][0]; i++)
        if (strcmp(environment[i][0], name) == 0)
            return environment[i][1];
    return NULL;
}

static struct screen_looks looks_with(const char *term, const char *name, const char *value) {
    memset(environment, 0, sizeof environment);
    environment[0][0] = "TERM";
    environment[0][1] = term;
    environment[1][0] = name;
    environment[1][1] = value;
    return screen_looks_of(look_up);
}

TEST(what_the_environment_says) {
    struct screen_looks looks = looks_with("xterm-256color", NULL, NULL);
    EXPECT(!looks.is_dumb && looks.has_color && looks.has_symbols);
    looks = looks_with("dumb", NULL, NULL);
    EXPECT(looks.is_dumb && !looks.has_color && !looks.has_symbols);
    EXPECT(looks_with(NULL, NULL, NULL).is_dumb);
    EXPECT(!looks_with("xterm", "NO_COLOR", "1").has_color);
    EXPECT(looks_with("xterm", "NO_COLOR", "").has_color);
    EXPECT(!looks_with("linux", NULL, NULL).has_symbols);
    EXPECT(!looks_with("xterm", "LANG", "de_DE.ISO-8859-1").has_symbols);
    EXPECT(looks_with("xterm", "LC_ALL", "C.UTF-8").has_symbols);
    EXPECT(looks_with("xterm", "LC_CTYPE", "en_US.utf8").has_symbols);
    EXPECT(looks_with("xterm", "LANG", "C").has_symbols);
}

TEST(a_dumb_terminal_is_not_drawn_on) {
    screen_set_looks((struct screen_looks){.is_dumb = true});
    EXPECT(!screen_is_live());
    screen_set_looks((struct screen_looks){.has_symbols = true});
}

TEST(widths) {
    EXPECT_INT(screen_width(""), 0);
    EXPECT_INT(screen_width("abc"), 3);
    EXPECT_INT(screen_width("\033[2ma▁b\033[0m"), 3);
    EXPECT_INT(screen_width("\033[2"), 0);
}

TEST(a_block_that_has_no_room_is_not_torn) {
    char out[32];
    struct screen_block block = {
        .view = "a view\nthat is longer than there is room for it", .status = "", .columns = 80, .rows = 24};
    size_t length = screen_compose(out, sizeof out, &block);
    EXPECT(length < sizeof out && out[length] == '\0');
    block = (struct screen_block){.view = "", .status = "", .columns = 80, .rows = 24};
    EXPECT_INT(screen_compose(out, sizeof out, &block), 0);
}

TEST_MAIN(TEST_CASE(messages_stand_above), TEST_CASE(nothing_is_left), TEST_CASE(lines_are_cut),
          TEST_CASE(a_low_window_shows_the_first_lines_and_the_status), TEST_CASE(lines_of_others_stay),
          TEST_CASE(an_error_is_the_last_word), TEST_CASE(a_signal_leaves_nothing), TEST_CASE(one_rank_draws),
          TEST_CASE(the_view_of_another_process_is_cleared), TEST_CASE(the_size_is_asked_when_something_is_drawn),
          TEST_CASE(what_the_environment_says), TEST_CASE(a_dumb_terminal_is_not_drawn_on), TEST_CASE(widths),
          TEST_CASE(a_block_that_has_no_room_is_not_torn))
