// A test program is a list of functions: TEST(name) { … EXPECT… } and one TEST_MAIN(name, …) at the end. Each EXPECT
// prints file, line and both values; a failed one ends its test, and the program continues with the next. test_skip()
// marks a test that needs something this machine lacks: it is printed, and counted separately. Arguments select tests:
// only those whose name contains one of them run. BEVATRON_TEST_PART=K/N runs every Nth of those, starting at the Kth,
// so that a slow program can run as N processes in parallel.
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include "base/error.h"
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// Defined in a build with AddressSanitizer; NULL in any other.
extern size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));
extern void __lsan_do_leak_check(void) __attribute__((weak));

struct test_case {
    const char *name;
    void (*run)(void);
};

static jmp_buf test_escape;
enum { TEST_FAILED = 1, TEST_SKIPPED = 2 };

#define TEST(name) static void test_##name(void)
#define TEST_CASE(name)                                                                                                \
    { #name, test_##name }

#define test_fail(...)                                                                                                 \
    do {                                                                                                               \
        printf("    %s:%d: ", __FILE__, __LINE__);                                                                     \
        printf(__VA_ARGS__);                                                                                           \
        printf("\n");                                                                                                  \
        longjmp(test_escape, TEST_FAILED);                                                                             \
    } while (0)

#define test_skip(...)                                                                                                 \
    do {                                                                                                               \
        printf("    skipped: ");                                                                                       \
        printf(__VA_ARGS__);                                                                                           \
        printf("\n");                                                                                                  \
        longjmp(test_escape, TEST_SKIPPED);                                                                            \
    } while (0)

#define EXPECT(condition)                                                                                              \
    do {                                                                                                               \
        if (!(condition))                                                                                              \
            test_fail("expected %s", #condition);                                                                      \
    } while (0)

#define EXPECT_INT(actual, expected)                                                                                   \
    do {                                                                                                               \
        int64_t actual_ = (int64_t)(actual), expected_ = (int64_t)(expected);                                          \
        if (actual_ != expected_)                                                                                      \
            test_fail("%s is %" PRId64 ", expected %" PRId64, #actual, actual_, expected_);                            \
    } while (0)

#define EXPECT_STRING(actual, expected)                                                                                \
    do {                                                                                                               \
        const char *actual_ = (actual), *expected_ = (expected);                                                       \
        if (!actual_ || strcmp(actual_, expected_) != 0)                                                               \
            test_fail("%s is \"%s\", expected \"%s\"", #actual, actual_ ? actual_ : "(null)", expected_);              \
    } while (0)

// |actual - expected| <= tolerance * max(1, |expected|)
#define EXPECT_NEAR(actual, expected, tolerance)                                                                       \
    do {                                                                                                               \
        double actual_ = (double)(actual), expected_ = (double)(expected);                                             \
        double scale_ = fabs(expected_) > 1 ? fabs(expected_) : 1;                                                     \
        if (!(fabs(actual_ - expected_) <= (tolerance)*scale_))                                                        \
            test_fail("%s is %.9g, expected %.9g within %g", #actual, actual_, expected_, (double)(tolerance));        \
    } while (0)

// The call must succeed; if not, its error message is printed.
#define EXPECT_OK(call)                                                                                                \
    do {                                                                                                               \
        if ((call) < 0)                                                                                                \
            test_fail("%s failed: %s", #call, error_message());                                                        \
    } while (0)

// The call must fail, and its message must contain the text.
#define EXPECT_ERROR(call, text)                                                                                       \
    do {                                                                                                               \
        error_clear();                                                                                                 \
        if ((call) >= 0)                                                                                               \
            test_fail("%s succeeded, expected an error with \"%s\"", #call, text);                                     \
        if (!strstr(error_message(), text))                                                                            \
            test_fail("%s: message \"%s\" lacks \"%s\"", #call, error_message(), text);                                \
    } while (0)

// CPU time of this process so far. Unlike wall time it does not grow while a busy machine makes the process wait.
static inline double test_cpu_seconds(void) {
    return (double)clock() / CLOCKS_PER_SEC;
}

// A separate function, so that no variable of test_main lives across the jump.
static int test_run(const struct test_case *test) {
    int outcome = setjmp(test_escape);
    if (outcome == 0)
        test->run();
    return outcome;
}

static inline bool test_is_wanted(const struct test_case *test, int wanted, char **names) {
    bool is_wanted = wanted == 0;
    for (int i = 0; i < wanted; i++)
        is_wanted = is_wanted || strstr(test->name, names[i]);
    return is_wanted;
}

// Whether the test with this number among the selected ones belongs to our part.
static inline bool test_is_in_part(int number) {
    const char *text = getenv("BEVATRON_TEST_PART");
    char *slash = NULL;
    if (!text || !*text)
        return true;
    long part = strtol(text, &slash, 10), parts = *slash == '/' ? strtol(slash + 1, NULL, 10) : 0;
    if (part < 1 || part > parts) {
        printf("BEVATRON_TEST_PART is \"%s\", expected K/N with 1 <= K <= N\n", text);
        exit(2);
    }
    return number % parts == part - 1;
}

static void *test_wait_for_all(void *barrier) {
    pthread_barrier_wait(barrier);
    return NULL;
}

// Makes the C library allocate what it keeps of ended threads now, so that it does not look like a leak later.
static inline void test_warm_threads(void) {
    enum { COUNT = 5 };
    pthread_t threads[COUNT];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, COUNT);
    for (int i = 0; i < COUNT; i++)
        if (pthread_create(&threads[i], NULL, test_wait_for_all, &barrier) != 0)
            exit(1);
    for (int i = 0; i < COUNT; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
}

static inline size_t test_allocated_bytes(void) {
    return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes() : 0;
}

// The leak check takes four seconds per process on aarch64, where the sanitizer walks the whole address space (GCC 12,
// measured 2026-11). If no more is allocated than before, nothing can have leaked. So tests/CMakeLists.txt disables the
// check at every exit, and it is done here if there is a reason.
static inline void test_look_for_leaks(size_t before) {
    if (__lsan_do_leak_check && test_allocated_bytes() > before)
        __lsan_do_leak_check();
}

// Runs the cases whose names contain one of the `wanted` names; all if none is given.
static inline int test_main_of(const struct test_case *cases, size_t count, int wanted, char **names) {
    int passed = 0, failed = 0, skipped = 0, number = 0;
    if (__lsan_do_leak_check)
        test_warm_threads();
    printf("%zu tests\n", count);  // standard output has its buffer from here on
    size_t before = test_allocated_bytes();
    for (size_t i = 0; i < count; i++) {
        if (!test_is_wanted(&cases[i], wanted, names) || !test_is_in_part(number++))
            continue;
        printf("  %s\n", cases[i].name);
        fflush(stdout);
        int outcome = test_run(&cases[i]);
        if (outcome == 0) {
            passed++;
        } else if (outcome == TEST_SKIPPED) {
            skipped++;
        } else {
            failed++;
        }
    }
    printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped);
    fflush(stdout);
    // A failed test left without freeing its memory.
    if (!failed)
        test_look_for_leaks(before);
    if (failed || passed + skipped == 0)  // a name that matches no test must not look like a success
        return 1;
    return passed == 0 ? 77 : 0;
}

static inline int test_main(const struct test_case *cases, size_t count) {
    return test_main_of(cases, count, 0, NULL);
}

#define TEST_MAIN(...)                                                                                                 \
    int main(int argc, char **argv) {                                                                                  \
        const struct test_case cases[] = {__VA_ARGS__};                                                                \
        return test_main_of(cases, sizeof cases / sizeof cases[0], argc - 1, argv + 1);                                \
    }

#endif
