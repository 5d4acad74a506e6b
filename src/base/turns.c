// Two tasks that take turns, by the contexts of the C library. See turns.h.
#include "base/turns.h"
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

struct turns {
    unsigned char *stack;  // of the second task; its lowest page is a guard
    struct turns_task tasks[2];
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

static void tell_leaving(struct turns *turns, void **fake, int next) {
    __sanitizer_start_switch_fiber(fake, turns->bottoms[next], turns->bytes[next]);
}

static void tell_arrived(struct turns *turns, void *fake, int last) {
    __sanitizer_finish_switch_fiber(fake, &turns->bottoms[last], &turns->bytes[last]);
}

static void tell_start(struct turns *turns) {
    (void)turns;
}

static void tell_end(struct turns *turns) {
    (void)turns;
}
#elif defined __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>

static void tell_start(struct turns *turns) {
    turns->fibers[0] = __tsan_get_current_fiber();
    turns->fibers[1] = __tsan_create_fiber(0);
}

static void tell_end(struct turns *turns) {
    __tsan_destroy_fiber(turns->fibers[1]);
}

// Inlined: its return would count as one on the other stack.
static inline __attribute__((always_inline)) void tell_leaving(struct turns *turns, void **fake, int next) {
    (void)fake;
    __tsan_switch_to_fiber(turns->fibers[next], 0);
}

static void tell_arrived(struct turns *turns, void *fake, int last) {
    (void)turns, (void)fake, (void)last;
}
#else
static void tell_start(struct turns *turns) {
    (void)turns;
}

static void tell_end(struct turns *turns) {
    (void)turns;
}

static void tell_leaving(struct turns *turns, void **fake, int next) {
    (void)turns, (void)fake, (void)next;
}

static void tell_arrived(struct turns *turns, void *fake, int last) {
    (void)turns, (void)fake, (void)last;
}
#endif

int turns_open(struct turns **result) {
    struct turns *turns = memory_alloc(sizeof *turns);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *stack =
        mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (stack == MAP_FAILED || mprotect(stack, page, PROT_NONE) != 0) {
        if (stack != MAP_FAILED)
            munmap(stack, STACK_BYTES);
        free(turns);
        return error_set_code(EXIT_CODE_OUT_OF_MEMORY, "no memory for a stack of %d MB", STACK_BYTES >> 20);
    }
    turns->stack = stack;
    turns->bottoms[1] = turns->stack + page;
    turns->bytes[1] = STACK_BYTES - page;
    *result = turns;
    return 0;
}

void turns_close(struct turns *turns) {
    if (turns)
        munmap(turns->stack, STACK_BYTES);
    free(turns);
}

static void hand_to(struct turns *turns, int next) {
    int last = turns->current;
    void *fake = NULL;
    turns->current = next;
    // NULL frees what a sanitizer keeps of a stack. The first task's stack is the caller's, which is used again.
    tell_leaving(turns, last == 1 && turns->has_ended[1] ? NULL : &fake, next);
    CHECK(swapcontext(&turns->contexts[last], &turns->contexts[next]) == 0);
    tell_arrived(turns, fake, next);
}

void turns_hand_over(struct turns *turns) {
    int other = !turns->current;
    if (!turns->has_ended[other])
        hand_to(turns, other);
}

// Entry of the second task, to which the C library passes only ints.
static void begin_second(unsigned high, unsigned low) {
    struct turns *turns = (struct turns *)(((uintptr_t)high << 32) | low);
    tell_arrived(turns, NULL, 0);
    turns->tasks[1].work(turns->tasks[1].context);
    turns->has_ended[1] = true;
    hand_to(turns, 0);
}

void turns_take(struct turns *turns, struct turns_task first, struct turns_task second) {
    uint64_t self = (uintptr_t)turns;
    turns->tasks[0] = first;
    turns->tasks[1] = second;
    turns->has_ended[0] = turns->has_ended[1] = false;
    turns->current = 0;
    CHECK(getcontext(&turns->contexts[1]) == 0);
    turns->contexts[1].uc_stack.ss_sp = turns->stack;
    turns->contexts[1].uc_stack.ss_size = STACK_BYTES;
    turns->contexts[1].uc_link = NULL;
    makecontext(&turns->contexts[1], (void (*)(void))begin_second, 2, (unsigned)(self >> 32), (unsigned)self);
    tell_start(turns);
    first.work(first.context);
    turns->has_ended[0] = true;
    while (!turns->has_ended[1])
        hand_to(turns, 1);
    tell_end(turns);
}
