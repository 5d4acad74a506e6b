// Error messages, how they are passed on, and their limits; die(); log lines; memory and buffers.
#include "capture.h"

#include "base/buffer.h"
#include "base/log.h"
#include "base/memory.h"
#include <pthread.h>

TEST(messages) {
    error_clear();
    EXPECT_STRING(error_message(), "");
    EXPECT_INT(error_exit_code(), EXIT_CODE_OK);
    EXPECT_INT(error_set("cannot open %s", "x"), -1);
    EXPECT_STRING(error_message(), "cannot open x");
    EXPECT_INT(error_exit_code(), EXIT_CODE_ERROR);
    EXPECT_INT(error_context("line %d", 3), -1);
    EXPECT_STRING(error_message(), "line 3: cannot open x");
    // A message may quote itself.
    error_set_code(EXIT_CODE_BAD_DATA, "[%s]", error_message());
    EXPECT_STRING(error_message(), "[line 3: cannot open x]");
    error_context("ctx");
    EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    error_clear();
    EXPECT_STRING(error_message(), "");
}

TEST(long_and_hostile_messages) {
    char *text = memory_alloc(2 * ERROR_BYTES);
    memset(text, 'a', 2 * ERROR_BYTES - 1);
    error_set("%s", text);
    EXPECT_INT(strlen(error_message()), ERROR_BYTES - 1);
    error_context("%s", "front");
    EXPECT(strncmp(error_message(), "front: aaa", 10) == 0);
    EXPECT_INT(strlen(error_message()), ERROR_BYTES - 1);
    error_context("%s", text);
    EXPECT_INT(strlen(error_message()), ERROR_BYTES - 1);
    free(text);
    error_set("key \x1b[31m\x7f\r\n\tüber");
    EXPECT_STRING(error_message(), "key ?[31m??\n\tüber");
    error_context("\x1b]0;x\x07");
    EXPECT_STRING(error_message(), "?]0;x?: key ?[31m??\n\tüber");
    // Control characters of the second set, and bytes that are not text.
    error_set("\xc2\x9b"
              "31m \xff\xd8 \x9b \xe2\x82 \xed\xa0\x80 \xe2\x82\xac \xc2\xa0");
    EXPECT_STRING(error_message(), "?31m ?? ? ?? ??? \xe2\x82\xac \xc2\xa0");
    // What turns the text around it, so that "gnp.exe" reads "exe.png".
    error_set("a\xe2\x80\xaegnp\xe2\x81\xa6\xd8\x9c\xe2\x80\xa8 \xe2\x80\xa6");
    EXPECT_STRING(error_message(), "a?gnp??? \xe2\x80\xa6");
}

static void *fail_in_thread(void *unused) {
    (void)unused;
    EXPECT_STRING(error_message(), "");
    error_set_code(EXIT_CODE_HANG, "from a thread");
    return error_take();
}

TEST(messages_belong_to_threads) {
    pthread_t thread;
    void *note;
    error_clear();
    EXPECT(error_take() == NULL);
    error_set("mine");
    EXPECT(pthread_create(&thread, NULL, fail_in_thread, NULL) == 0);
    EXPECT(pthread_join(thread, &note) == 0);
    EXPECT_STRING(error_message(), "mine");
    EXPECT(pthread_create(&thread, NULL, fail_in_thread, NULL) == 0);
    void *other;
    EXPECT(pthread_join(thread, &other) == 0);
    error_drop(other);
    error_drop(NULL);
    EXPECT_STRING(error_message(), "mine");
    EXPECT_INT(error_give(note), -1);
    EXPECT_STRING(error_message(), "from a thread");
    EXPECT_INT(error_exit_code(), EXIT_CODE_HANG);
}

static void say_goodbye(enum exit_code code) {
    (void)code;
    log_error("handler ran");
}

static void say_and_die(enum exit_code code) {
    (void)code;
    log_error("handler ran");
    die("again");
}

static void die_plainly(void) {
    log_set_rank(3, 8);
    die_set_handler(say_goodbye);
    die("tensor %s is \x1b[1mbad", "w");
}

static void die_twice(void) {
    die_set_handler(say_and_die);
    CHECK(1 + 1 == 3);
}

static void hear(void *context, enum exit_code code, const char *text) {
    fprintf(stderr, "%s heard %d: %s\n", (const char *)context, (int)code, text);
}

static void die_heard(void) {
    static char name[] = "somebody", other[] = "nobody";
    die_set_handler(say_goodbye);
    die_set_witness(hear, other);
    die_set_witness(NULL, NULL);
    die_set_witness(hear, name);
    die_code(EXIT_CODE_HANG, "it %s", "hangs");
}

static void *die_in_thread(void *unused) {
    (void)unused;
    die("thread");
}

static void die_together(void) {
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, die_in_thread, NULL);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
}

static void ask_too_much(void) {
    memory_alloc(SIZE_MAX / 2);
}

TEST(dying) {
    static struct capture capture;
    capture_run(&capture, die_plainly);
    EXPECT_INT(capture.status, EXIT_CODE_ERROR);
    EXPECT(strstr(capture.text, "[rank 3] error: "));
    EXPECT(strstr(capture.text, "test_error.c:"));
    EXPECT(strstr(capture.text, ": tensor w is ?[1mbad\n"));
    EXPECT(strstr(capture.text, "handler ran"));
    capture_run(&capture, die_twice);
    EXPECT_INT(capture.status, EXIT_CODE_ERROR);
    EXPECT(strstr(capture.text, "broken invariant: 1 + 1 == 3"));
    EXPECT(!strstr(capture.text, "again"));
    capture_run(&capture, die_together);
    EXPECT_INT(capture.status, EXIT_CODE_ERROR);
    const char *first = strstr(capture.text, "thread\n");
    EXPECT(first && !strstr(first + 1, "thread\n"));
}

// The listener gets the sentence before the handler ends the other ranks.
TEST(dying_is_heard) {
    static struct capture capture;
    capture_run(&capture, die_heard);
    EXPECT_INT(capture.status, EXIT_CODE_HANG);
    const char *heard = strstr(capture.text, "somebody heard 212: it hangs\n");
    EXPECT(heard != NULL && strstr(capture.text, "nobody") == NULL);
    EXPECT(strstr(heard, "handler ran") != NULL);
}

TEST(dying_without_memory) {
#ifdef BEVATRON_SANITIZE
    test_skip("the sanitizer ends the process itself");
#endif
    static struct capture capture;
    capture_run(&capture, ask_too_much);
    EXPECT_INT(capture.status, EXIT_CODE_OUT_OF_MEMORY);
    EXPECT(strstr(capture.text, "out of memory"));
}

static void log_at_all_levels(void) {
    log_info("i1");
    log_debug("d1");
    log_set_level(LOG_DEBUG);
    log_debug("d2");
    log_set_level(LOG_ERROR);
    log_info("i2");
    log_warn("w1");
    log_error("e1");
    log_set_level(LOG_INFO);
    log_warn("w2");
    log_hush(true);
    log_info("hushed");
    log_warn_once("hushed");
    log_hush(false);
    log_set_rank(0, 2);
    log_warn_once("w0");
    log_info("i3");
    log_set_rank(1, 2);
    log_info("i4");
    log_status("hidden");
    log_warn("w3");
    log_warn_once("of rank 0");
    char *text = memory_alloc(2 * ERROR_BYTES);
    memset(text, 'x', 2 * ERROR_BYTES - 1);
    log_error("%s", text);
    free(text);
}

static void log_around_a_bar(void) {
    log_status("bar 1");
    log_info("message");
    log_status("bar 2");
    log_status(NULL);
    log_status(NULL);
    log_info("after");
}

TEST(log_lines) {
    static struct capture capture;
    capture_run(&capture, log_at_all_levels);
    const char *expected =
        "i1\ndebug: d2\nerror: e1\nwarning: w2\n[rank 0] warning: w0\n[rank 0] i3\n[rank 1] warning: w3\n"
        "[rank 1] error: xxx";
    EXPECT(strncmp(capture.text, expected, strlen(expected)) == 0);
    size_t length = strlen(capture.text);
    EXPECT(length > ERROR_BYTES && length < ERROR_BYTES + 1000 && capture.text[length - 1] == '\n');
    capture_run(&capture, log_around_a_bar);
    EXPECT_STRING(capture.text, "\rbar 1\033[J\r\r\033[Jmessage\n\rbar 1\033[J\r\rbar 2\033[J\r\r\033[Jafter\n");
}

TEST(buffers) {
    struct buffer buffer = {0};
    EXPECT_STRING(buffer_string(&buffer), "");
    buffer_clear(&buffer);
    buffer_append(&buffer, NULL, 0);
    EXPECT_STRING(buffer_string(&buffer), "");
    for (int i = 0; i < 300; i++) {
        buffer_append_byte(&buffer, (char)('a' + i % 26));
        EXPECT_INT(buffer.length, i + 1);
        EXPECT(buffer.data[buffer.length] == '\0' && buffer.capacity > buffer.length);
    }
    buffer_clear(&buffer);
    EXPECT_STRING(buffer.data, "");
    size_t expected = 0;
    for (int width = 1; width < 400; width += 7) {
        buffer_printf(&buffer, "%*d", width, 1);
        expected += (size_t)width;
        EXPECT_INT(buffer.length, expected);
        EXPECT_INT(strlen(buffer.data), expected);
    }
    buffer_free(&buffer);
    EXPECT(buffer.data == NULL && buffer.length == 0 && buffer.capacity == 0);
    buffer_append_string(&buffer, "again");
    EXPECT_STRING(buffer.data, "again");
    buffer_reserve(&buffer, 100000);
    EXPECT(buffer.capacity > 100005);
    EXPECT_STRING(buffer.data, "again");
    buffer_free(&buffer);
}

TEST(memory) {
    size_t size = 1;
    EXPECT(size_mul(SIZE_MAX / 3, 3, &size) && size == SIZE_MAX / 3 * 3);
    EXPECT(!size_mul(SIZE_MAX / 3 + 1, 3, &size) && size == SIZE_MAX / 3 * 3);
    EXPECT(size_mul(0, SIZE_MAX, &size) && size == 0);
    EXPECT(size_add(SIZE_MAX - 1, 1, &size) && size == SIZE_MAX);
    EXPECT(!size_add(SIZE_MAX, 1, &size) && size == SIZE_MAX);
    unsigned char *zeroed = memory_alloc(1000);
    for (int i = 0; i < 1000; i++)
        EXPECT_INT(zeroed[i], 0);
    zeroed = memory_realloc(zeroed, 2000);
    EXPECT_INT(zeroed[999], 0);
    free(zeroed);
    void *nothing = memory_alloc(0);
    EXPECT(nothing != NULL);
    free(nothing);
    EXPECT(memory_string(NULL) == NULL);
    char *copy = memory_string("text"), *text = memory_printf("%s-%d", copy, 7);
    EXPECT_STRING(text, "text-7");
    free(copy);
    free(text);
}

TEST_MAIN(TEST_CASE(messages), TEST_CASE(long_and_hostile_messages), TEST_CASE(messages_belong_to_threads),
          TEST_CASE(dying), TEST_CASE(dying_is_heard), TEST_CASE(dying_without_memory), TEST_CASE(log_lines),
          TEST_CASE(buffers), TEST_CASE(memory))
