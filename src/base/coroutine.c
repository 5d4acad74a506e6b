// Two tasks that take turns, by the contexts of the C library. See coroutine.h.
#include "base/coroutine.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

// As large as a program's stack: unused pages cost nothing.
enum { STACK_BYTES = 8 << 20 };

struct coroutine {
    unsigned char *stack;  // of the second task; its lowest page is a guard
    struct coroutine_task tasks[2];
    ucontext_t contexts[2];
    bool has_ended[2];
    int current;
    // For sanitizers.
    const void *bottoms[2];  // of the stacks
    size_t bytes[2];
    void *fibers[2];
};

// Sanitizers have to know which stack is in use.
#if defined __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>

static void tell_leaving(struct coroutine *coroutine, void **fake, int next) {
    __sanitizer_start_switch_fiber(fake, coroutine->bottoms[next], coroutine->bytes[next]);
}

static void tell_arrived(struct coroutine *coroutine, void *fake, int last) {
    __sanitizer_finish_switch_fiber(fake, &coroutine->bottoms[last], &coroutine->bytes[last]);
}

static void tell_start(struct coroutine *coroutine) {
    (void)coroutine;
}

static void tell_end(struct coroutine *coroutine) {
    (void)coroutine;
}
#elif defined __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>

static void tell_start(struct coroutine *coroutine) {
    coroutine->fibers[0] = __tsan_get_current_fiber();
    coroutine->fibers[1] = __tsan_create_fiber(0);
}

static void tell_end(struct coroutine *coroutine) {
    __tsan_destroy_fiber(coroutine->fibers[1]);
}

// Inlined: its return would count as one on the other stack.
static inline __attribute__((always_inline)) void tell_leaving(struct coroutine *coroutine, void **fake, int next) {
    (void)fake;
    __tsan_switch_to_fiber(coroutine->fibers[next], 0);
}

static void tell_arrived(struct coroutine *coroutine, void *fake, int last) {
    (void)coroutine, (void)fake, (void)last;
}
#else
static void tell_start(struct coroutine *coroutine) {
    (void)coroutine;
}

static void tell_end(struct coroutine *coroutine) {
    (void)coroutine;
}

static void tell_leaving(struct coroutine *coroutine, void **fake, int next) {
    (void)coroutine, (void)fake, (void)next;
}

static void tell_arrived(struct coroutine *coroutine, void *fake, int last) {
    (void)coroutine, (void)fake, (void)last;
}
#endif

int coroutine_open(struct coroutine **result) {
    struct coroutine *coroutine = memory_alloc(sizeof *coroutine);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, page, PROT_NONE) != 0) {
        if (stack != MAP_FAILED)
            munmap(stack, STACK_BYTES);
        free(coroutine);
        return error_set_code(EXIT_CODE_OUT_OF_MEMORY, "no memory for a stack of %d MB", STACK_BYTES >> 20);
    }
    coroutine->stack = stack;
    coroutine->bottoms[1] = coroutine->stack + page;
    coroutine->bytes[1] = STACK_BYTES - page;
    *result = coroutine;
    return 0;
}

void coroutine_close(struct coroutine *coroutine) {
    if (coroutine)
        munmap(coroutine->stack, STACK_BYTES);
    free(coroutine);
}

static void hand_to(struct coroutine *coroutine, int next) {
    int last = coroutine->current;
    void *fake = NULL;
    coroutine->current = next;
    // NULL frees what a sanitizer keeps of a stack. The first task's stack is the caller's, which is used again.
    tell_leaving(coroutine, last == 1 && coroutine->has_ended[1] ? NULL : &fake, next);
    CHECK(swapcontext(&coroutine->contexts[last], &coroutine->contexts[next]) == 0);
    tell_arrived(coroutine, fake, next);
}

void coroutine_yield(struct coroutine *coroutine) {
    int other = !coroutine->current;
    if (!coroutine->has_ended[other])
        hand_to(coroutine, other);
}

// Entry of the second task, to which the C library passes only ints.
static void begin_second(unsigned high, unsigned low) {
    struct coroutine *coroutine = (struct coroutine *)(((uintptr_t)high << 32) | low);
    tell_arrived(coroutine, NULL, 0);
    coroutine->tasks[1].work(coroutine->tasks[1].context);
    coroutine->has_ended[1] = true;
    hand_to(coroutine, 0);
}

void coroutine_run(struct coroutine *coroutine, struct coroutine_task first, struct coroutine_task second) {
    uint64_t self = (uintptr_t)coroutine;
    coroutine->tasks[0] = first;
    coroutine->tasks[1] = second;
    coroutine->has_ended[0] = coroutine->has_ended[1] = false;
    coroutine->current = 0;
    CHECK(getcontext(&coroutine->contexts[1]) == 0);
    coroutine->contexts[1].uc_stack.ss_sp = coroutine->stack;
    coroutine->contexts[1].uc_stack.ss_size = STACK_BYTES;
    coroutine->contexts[1].uc_link = NULL;
    makecontext(&coroutine->contexts[1], (void (*)(void))begin_second, 2, (unsigned)(self >> 32), (unsigned)self);
    tell_start(coroutine);
    first.work(first.context);
    coroutine->has_ended[0] = true;
    while (!coroutine->has_ended[1])
        hand_to(coroutine, 1);
    tell_end(coroutine);
}
