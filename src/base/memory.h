// Allocation that succeeds or ends the process (for small host memory), and arithmetic on sizes that come from files.
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

void *memory_alloc(size_t bytes);                  // dies if there is none; zeroed
void *memory_realloc(void *memory, size_t bytes);  // dies if there is none; new bytes are not zeroed
char *memory_string(const char *string);           // a copy; NULL stays NULL
char *memory_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));

// A local variable that is released when its block is left, by whichever way; it must have a value from the start. To
// keep what it points to, hand that on and set the variable to NULL.
//
//     OWNED char *path = file_join(folder, name);
//     OWNED_BY(buffer_free) struct buffer text = {0};
#define OWNED_BY(release) __attribute__((cleanup(release)))
#define OWNED OWNED_BY(memory_drop)
void memory_drop(void *variable);  // frees the memory that the variable points to

// Makes room for one more item in a list that is full, by doubling it. `items` and `capacity` are assigned.
#define MEMORY_GROW(items, count, capacity)                                                                            \
    do {                                                                                                               \
        if ((size_t)(count) >= (size_t)(capacity)) {                                                                   \
            (capacity) = (capacity) ? 2 * (capacity) : 16;                                                             \
            (items) = memory_realloc((items), (size_t)(capacity) * sizeof *(items));                                   \
        }                                                                                                              \
    } while (0)

// For sizes read from files: false on overflow, and nothing is stored.
bool size_mul(size_t a, size_t b, size_t *product);
bool size_add(size_t a, size_t b, size_t *sum);

#endif
