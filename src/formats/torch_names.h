// The names a pickle may mention and what they stand for. Internal to this folder.
#ifndef FORMATS_TORCH_NAMES_H
#define FORMATS_TORCH_NAMES_H

#include "formats/torch_pickle.h"

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
