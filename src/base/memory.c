// Small host memory, allocated or the process ends, and checked arithmetic on sizes.
#include "base/memory.h"

#include "base/error.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Noreturn void die_without_memory(size_t bytes) {
    die_code(EXIT_CODE_OUT_OF_MEMORY,
             "out of memory: cannot allocate %zu bytes; give the job more memory or a smaller task", bytes);
}

void *memory_alloc(size_t bytes) {
    // calloc(1, 0) may be NULL, and callers take NULL for "not there".
    void *memory = calloc(1, bytes ? bytes : 1);
    if (!memory)
        die_without_memory(bytes);
    return memory;
}

void *memory_realloc(void *memory, size_t bytes) {
    void *moved = realloc(memory, bytes ? bytes : 1);
    if (!moved)
        die_without_memory(bytes);
    return moved;
}

char *memory_string(const char *string) {
    if (!string)
        return NULL;
    size_t bytes = strlen(string) + 1;
    char *copy = memory_alloc(bytes);
    memcpy(copy, string, bytes);
    return copy;
}

void memory_drop(void *variable) {
    free(*(void **)variable);
}

char *memory_printf(const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    char most[256];  // names of parameters are shorter, and formatted only once
    int length = vsnprintf(most, sizeof most, format, arguments);
    va_end(arguments);
    CHECK(length >= 0);
    size_t bytes = (size_t)length + 1;
    char *text = memory_alloc(bytes);
    if (bytes <= sizeof most)
        memcpy(text, most, bytes);
    else
        vsnprintf(text, bytes, format, again);
    va_end(again);
    return text;
}

bool size_mul(size_t a, size_t b, size_t *product) {
    size_t result;
    if (__builtin_mul_overflow(a, b, &result))
        return false;
    *product = result;
    return true;
}

bool size_add(size_t a, size_t b, size_t *sum) {
    size_t result;
    if (__builtin_add_overflow(a, b, &result))
        return false;
    *sum = result;
    return true;
}
