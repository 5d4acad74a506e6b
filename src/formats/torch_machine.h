// The state of the stack machine that reads pickles: the bytes left to run, its stack, the marks on it, and the memo of
// values for reuse. Every opcode takes at least one byte and makes at most one value, memo slots are numbered below the
// length of the pickle, and the bytes of texts are copied once, so memory is a small multiple of the input. All
// functions fail with a message if the pickle refers to something missing. Internal to this folder.
#ifndef FORMATS_TORCH_MACHINE_H
#define FORMATS_TORCH_MACHINE_H

#include "formats/torch_pickle.h"

struct pickle_machine {
    struct torch_pickle *pickle;
    const unsigned char *bytes;
    size_t size, at;
    struct torch_value **stack;
    size_t depth, stack_capacity;
    size_t *marks;
    size_t mark_count, mark_capacity;
    struct torch_value **memo;
    size_t memo_count, memo_capacity;
};

// The next bytes of the pickle; a little-endian number of `width` bytes; a text preceded by its length in `width`
// bytes; the rest of a line, as a string.
int machine_take(struct pickle_machine *m, size_t count, const unsigned char **bytes);
int machine_take_number(struct pickle_machine *m, size_t width, uint64_t *number);
int machine_take_text(struct pickle_machine *m, size_t width, const unsigned char **bytes, size_t *length);
int machine_take_line(struct pickle_machine *m, char *line, size_t size);

// The stack. Nothing below the last mark can be popped.
int machine_push(struct pickle_machine *m, struct torch_value *value);
int machine_pop(struct pickle_machine *m, struct torch_value **value);
int machine_top(struct pickle_machine *m, struct torch_value **value);
int machine_mark(struct pickle_machine *m);
// Everything above the last mark; valid until the next push.
int machine_pop_to_mark(struct pickle_machine *m, struct torch_value ***items, size_t *count);

// Memoizes the top of the stack under a number; pushes the value of a number.
int machine_memo_put(struct pickle_machine *m, uint64_t index);
int machine_memo_get(struct pickle_machine *m, uint64_t index);

void machine_free(struct pickle_machine *m);

#endif
