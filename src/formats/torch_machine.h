// How a pickle is read: the state of the stack machine, the names that a pickle may mention, and the values made from
// them. Every opcode takes at least one byte and makes at most one value, memo slots are numbered below the length of
// the pickle, and the bytes of texts are copied once, so memory is a small multiple of the input. All functions fail
// with a message if the pickle refers to something missing. Internal to this folder.
#ifndef FORMATS_TORCH_MACHINE_H
#define FORMATS_TORCH_MACHINE_H

#include "formats/torch_file.h"

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

// Construction of the stack machine's values in the arena: tensors and containers replace the results of Python's
// calls.

struct torch_value *torch_new(struct torch_pickle *pickle, enum torch_type type);
struct torch_value *torch_new_text(struct torch_pickle *pickle, const unsigned char *bytes, size_t length);
// Appends to a list; to a dict, keys and values alternately.
void torch_append(struct torch_pickle *pickle, struct torch_value *list, struct torch_value *item);

// A mentioned name; -1 if it is not on the list.
int torch_make_name(struct torch_pickle *pickle, const char *module, const char *attribute, struct torch_value **value);
// The value that Python would get by calling the name with the arguments. Nothing is called.
int torch_make(struct torch_pickle *pickle, const struct torch_value *name, const struct torch_value *arguments,
               struct torch_value **value);
// The storage that a persistent id names; the same object for the same key.
int torch_make_storage(struct torch_pickle *pickle, const struct torch_value *id, struct torch_value **value);
// BUILD: sets the members of a namespace; for other objects the state is ignored.
int torch_set_state(struct torch_pickle *pickle, struct torch_value *object, const struct torch_value *state);

// The names a pickle may mention and what they stand for.

enum torch_role {
    ROLE_REFUSED,
    ROLE_OPAQUE,
    ROLE_DICT,            // called with nothing or with a list of pairs
    ROLE_NAMESPACE,       // its state is a dict
    ROLE_LIST,            // torch.Size, set, list, tuple of one argument
    ROLE_TENSOR,          // _rebuild_tensor(storage, offset, size, stride)
    ROLE_TENSOR_V2,       // … requires_grad, hooks
    ROLE_TYPED_TENSOR,    // _rebuild_from_type_v2(one of these two, type, its arguments, attributes)
    ROLE_PARAMETER,       // _rebuild_parameter(tensor, …)
    ROLE_STORAGE,         // torch.FloatStorage
    ROLE_STORAGE_UNTYPED  // torch.UntypedStorage
};

// `name` is "module.attribute".
enum torch_role torch_name_role(const char *name);
const struct torch_dtype *torch_dtype_of_storage(const char *name);  // "torch.FloatStorage"; NULL for none

#endif
