// Arenas: alignment, marks, the peak, and running out of memory, which ends the process.
#include "test.h"
#include "tensor/arena.h"
#include <sys/wait.h>
#include <unistd.h>

static _Alignas(ARENA_ALIGNMENT) unsigned char memory[8192];

TEST(stack_of_tensors) {
    struct arena arena;
    arena_init(&arena, "test", memory, sizeof memory);
    struct tensor a = arena_1d(&arena, DTYPE_F32, 3);
    EXPECT(a.data == memory && arena.used == ARENA_ALIGNMENT);
    size_t mark = arena_mark(&arena);
    struct tensor b = arena_2d(&arena, DTYPE_BF16, 10, 20);
    EXPECT(b.data == memory + 256 && tensor_is_contiguous(b));
    EXPECT_INT(arena.used, 256 + 512);
    struct tensor c = arena_4d(&arena, DTYPE_I64, 2, 2, 2, 4);
    EXPECT(c.data == memory + 768);
    EXPECT_INT(arena.peak, 1024);
    arena_release(&arena, mark);
    EXPECT_INT(arena.used, 256);
    struct tensor d = arena_3d(&arena, DTYPE_U8, 1, 1, 1);
    EXPECT(d.data == b.data);
    EXPECT_INT(arena.peak, 1024);
    EXPECT(arena_1d(&arena, DTYPE_F32, 0).data != NULL);
    arena_release(&arena, 0);
    EXPECT(arena_alloc(&arena, sizeof memory) == memory);
}

// An arena without memory is for measuring: nothing is read or written.
TEST(measuring) {
    struct arena paper;
    arena_init(&paper, "paper", (void *)((uintptr_t)1 << 40), SIZE_MAX >> 2);
    struct tensor large = arena_2d(&paper, DTYPE_F32, 1 << 20, 1 << 20), next = arena_1d(&paper, DTYPE_F32, 1);
    EXPECT(paper.peak == ((size_t)1 << 42) + ARENA_ALIGNMENT);
    EXPECT((uintptr_t)next.data - (uintptr_t)large.data == (uintptr_t)1 << 42);
}

// Beyond its border it is at another address, and no block crosses the border.
TEST(border) {
    static _Alignas(ARENA_ALIGNMENT) unsigned char elsewhere[1024];
    struct arena arena;
    arena_init(&arena, "two parts", memory, 2048);
    arena_set_border(&arena, 1024, elsewhere);
    EXPECT(arena_alloc(&arena, 768) == memory);
    size_t mark = arena_mark(&arena);
    EXPECT(arena_alloc(&arena, 512) == elsewhere && arena.used == 1024 + 512);
    EXPECT(arena_alloc(&arena, 100) == elsewhere + 512);
    arena_release(&arena, mark);
    EXPECT(arena_alloc(&arena, 256) == memory + 768);
    EXPECT(arena_alloc(&arena, 1024) == elsewhere && arena.peak == 2048);
    arena_release(&arena, 0);
    EXPECT(arena_alloc(&arena, 1024) == memory);
    EXPECT(arena_alloc(&arena, 0) == elsewhere);
}

// Whether a child that requests this many bytes from an arena dies.
static bool dies(size_t capacity, size_t bytes) {
    (void)fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stderr))
            _exit(0);
        struct arena arena;
        arena_init(&arena, "small", memory, capacity);
        (void)arena_alloc(&arena, bytes);
        _exit(0);
    }
    int status = 0;
    (void)waitpid(child, &status, 0);
    return !(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(running_out) {
    EXPECT(!dies(1024, 1024));
    EXPECT(dies(1024, 1025));
    EXPECT(dies(1024, SIZE_MAX));
    EXPECT(dies(1024, SIZE_MAX - 100));
    EXPECT(dies(0, 1));
}

TEST_MAIN(TEST_CASE(stack_of_tensors), TEST_CASE(measuring), TEST_CASE(border), TEST_CASE(running_out))
