// Construction of the stack machine's values in the arena: tensors and containers replace the results of Python's
// calls. Internal to this folder.
#ifndef FORMATS_TORCH_BUILD_H
#define FORMATS_TORCH_BUILD_H

#include "formats/torch_pickle.h"

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

#endif
