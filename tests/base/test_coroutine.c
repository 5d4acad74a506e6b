// Two tasks of a thread take turns in the order of their calls, each to its end, whichever ends first.
#include "base/coroutine.h"
#include "test.h"

#include <math.h>
#include <setjmp.h>
#include <unistd.h>

enum { MOST = 64, MANY = 70000 };

// With it, variables of a function do not lie on its stack, so AddressSanitizer has to be told whose they are. clang's
// does this by default.
const char *__asan_default_options(void);  // NOLINT: the sanitizer calls it
const char *__asan_default_options(void) {
    return "detect_stack_use_after_return=1";
}

struct log {
    char text[MOST];
    int length;
    struct coroutine *coroutine;
};
struct talker {
    struct log *log;
    char first;
    int times;
};

// Writes as many letters, and hands over after each.
static void talk(void *context) {
    struct talker *talker = context;
    for (int i = 0; i < talker->times; i++) {
        talker->log->text[talker->log->length++] = (char)(talker->first + i);
        coroutine_yield(talker->log->coroutine);
    }
}

static void expect_order(struct coroutine *coroutine, int first, int second, const char *want) {
    struct log log = {.coroutine = coroutine};
    struct talker a = {&log, 'a', first}, b = {&log, 'A', second};
    coroutine_run(coroutine, (struct coroutine_task){talk, &a}, (struct coroutine_task){talk, &b});
    EXPECT_STRING(log.text, want);
}

TEST(tasks_alternate_until_both_have_ended) {
    struct coroutine *coroutine;
    EXPECT_OK(coroutine_open(&coroutine));
    expect_order(coroutine, 3, 3, "aAbBcC");
    expect_order(coroutine, 1, 4, "aABCD");
    expect_order(coroutine, 4, 1, "aAbcd");
    expect_order(coroutine, 2, 0, "ab");
    expect_order(coroutine, 0, 2, "AB");
    expect_order(coroutine, 0, 0, "");
    coroutine_close(coroutine);
}

// Deep stacks and numbers in registers survive.
struct sum {
    struct coroutine *coroutine;
    int depth;
    double total;
};

static double add_up(struct sum *sum, int depth) {
    volatile double here[32];
    for (int i = 0; i < 32; i++)
        here[i] = sqrt(depth + i);
    coroutine_yield(sum->coroutine);
    double rest = depth > 0 ? add_up(sum, depth - 1) : 0;
    for (int i = 0; i < 32; i++)
        rest += here[i];
    return rest;
}

static void add_task(void *context) {
    struct sum *sum = context;
    sum->total = add_up(sum, sum->depth);
}

TEST(stacks_stay_apart) {
    struct coroutine *coroutine;
    EXPECT_OK(coroutine_open(&coroutine));
    struct sum sums[2] = {{coroutine, 700, 0}, {coroutine, 900, 0}};
    coroutine_run(coroutine, (struct coroutine_task){add_task, &sums[0]}, (struct coroutine_task){add_task, &sums[1]});
    for (int which = 0; which < 2; which++) {
        double want = 0;
        for (int depth = 0; depth <= sums[which].depth; depth++)
            for (int i = 0; i < 32; i++)
                want += sqrt(depth + i);
        EXPECT_NEAR(sums[which].total, want, 1e-6);
    }
    coroutine_close(coroutine);
}

// A jump back, after which AddressSanitizer looks for variables of functions that did not return: on this stack only.
static void jump_back(int times) {
    jmp_buf before;
    volatile int left = times;
    (void)setjmp(before);
    if (left-- > 0)
        longjmp(before, 1);
}

static void jump_task(void *context) {
    struct sum *sum = context;
    volatile double here[32];
    for (int i = 0; i < 32; i++)
        here[i] = i;
    for (int round = 0; round < sum->depth; round++) {
        coroutine_yield(sum->coroutine);
        jump_back(3);
    }
    for (int i = 0; i < 32; i++)
        sum->total += here[i];
}

// AddressSanitizer writes a warning instead if it does not know the stack.
TEST(jumps_leave_the_other_stack_alone) {
    struct coroutine *coroutine;
    EXPECT_OK(coroutine_open(&coroutine));
    struct sum sums[2] = {{coroutine, 5, 0}, {coroutine, 7, 0}};
    FILE *file = tmpfile();
    int standard = dup(2);
    EXPECT(file && standard >= 0 && dup2(fileno(file), 2) == 2);
    coroutine_run(coroutine, (struct coroutine_task){jump_task, &sums[0]},
                  (struct coroutine_task){jump_task, &sums[1]});
    EXPECT(dup2(standard, 2) == 2);
    close(standard);
    char text[256] = "";
    rewind(file);
    EXPECT_STRING(fgets(text, sizeof text, file) ? text : "", "");
    fclose(file);
    EXPECT_NEAR(sums[0].total, 496, 0);
    EXPECT_NEAR(sums[1].total, 496, 0);
    coroutine_close(coroutine);
}

// A sanitizer's memory for a stack is released.
TEST(many_pairs_leave_nothing_behind) {
    struct coroutine *coroutine;
    EXPECT_OK(coroutine_open(&coroutine));
    for (int i = 0; i < MANY; i++)
        expect_order(coroutine, 1, 2, "aAB");
    coroutine_close(coroutine);
}

int main(void) {
    const struct test_case cases[] = {TEST_CASE(tasks_alternate_until_both_have_ended), TEST_CASE(stacks_stay_apart),
                                      TEST_CASE(jumps_leave_the_other_stack_alone),
                                      TEST_CASE(many_pairs_leave_nothing_behind)};
    return test_main(cases, sizeof cases / sizeof cases[0]);
}
