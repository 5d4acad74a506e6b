// The list of accepted names: any other name is an error.
#include "formats/torch_machine.h"

#include <string.h>

static const struct torch_dtype dtypes[] = {
    {"FloatStorage", "float32", 4, true, DTYPE_F32},      {"HalfStorage", "float16", 2, true, DTYPE_F16},
    {"BFloat16Storage", "bfloat16", 2, true, DTYPE_BF16}, {"LongStorage", "int64", 8, true, DTYPE_I64},
    {"IntStorage", "int32", 4, true, DTYPE_I32},          {"ByteStorage", "uint8", 1, true, DTYPE_U8},
    {"DoubleStorage", "float64", 8, false, DTYPE_F32},    {"ShortStorage", "int16", 2, false, DTYPE_F32},
    {"CharStorage", "int8", 1, false, DTYPE_F32},         {"BoolStorage", "bool", 1, false, DTYPE_F32},
};

static const struct {
    const char *name;
    enum torch_role role;
} known[] = {
    {"collections.OrderedDict", ROLE_DICT},
    {"argparse.Namespace", ROLE_NAMESPACE},
    {"types.SimpleNamespace", ROLE_NAMESPACE},
    {"torch.Size", ROLE_LIST},
    {"builtins.set", ROLE_LIST},
    {"builtins.frozenset", ROLE_LIST},
    {"__builtin__.set", ROLE_LIST},
    {"torch._utils._rebuild_tensor", ROLE_TENSOR},
    {"torch._utils._rebuild_tensor_v2", ROLE_TENSOR_V2},
    {"torch._tensor._rebuild_from_type_v2", ROLE_TYPED_TENSOR},
    {"torch._utils._rebuild_parameter", ROLE_PARAMETER},
    {"torch._utils._rebuild_parameter_with_state", ROLE_PARAMETER},
    {"torch.distributed.checkpoint.metadata.Metadata", ROLE_NAMESPACE},
    {"torch.distributed.checkpoint.metadata.MetadataIndex", ROLE_NAMESPACE},
    {"torch.distributed.checkpoint.metadata.TensorStorageMetadata", ROLE_NAMESPACE},
    {"torch.distributed.checkpoint.metadata.ChunkStorageMetadata", ROLE_NAMESPACE},
    {"torch.distributed.checkpoint.filesystem._StorageInfo", ROLE_NAMESPACE},
    {"torch.storage.UntypedStorage", ROLE_STORAGE_UNTYPED},
    {"torch.UntypedStorage", ROLE_STORAGE_UNTYPED},
};

// Found in checkpoints of Megatron and its descendants, in arguments and states of random generators; their values are
// never read. A name ending in a dot is a whole package.
static const char *const opaque[] = {
    "numpy.",
    "torch.distributed.checkpoint.",
    "torch.serialization._get_layout",
    "megatron.",
    "apex.",
    "fairseq.",
    "omegaconf.",
    "transformer_engine.",
    "argparse.",
    "enum.",
    "datetime.",
    "signal.Signals",
    "pathlib.PosixPath",
    "_codecs.encode",
    "collections.defaultdict",
    "collections.deque",
    "builtins.complex",
    "builtins.int",
    "builtins.bytearray",
    "__builtin__.int",
    "copyreg._reconstructor",
    "copy_reg._reconstructor",
    "builtins.object",
    "__builtin__.object",
    "torch.dtype",
    "torch.Tensor",
    "torch.device",
    "torch.random.",
    "torch.Generator",
    "torch._C.Generator",
    "torch.nn.parameter.Parameter",
    "torch.float32",
    "torch.float16",
    "torch.half",
    "torch.float",
    "torch.bfloat16",
    "torch.float64",
    "torch.int64",
    "torch.int32",
    "torch.int16",
    "torch.int8",
    "torch.uint8",
    "torch.bool",
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const struct torch_dtype *torch_dtype_of_storage(const char *name) {
    static const char *const modules[] = {"torch.", "torch.cuda.", "torch.storage."};
    for (size_t m = 0; m < COUNT(modules); m++) {
        size_t length = strlen(modules[m]);
        if (strncmp(name, modules[m], length) != 0)
            continue;
        for (size_t i = 0; i < COUNT(dtypes); i++)
            if (strcmp(name + length, dtypes[i].storage) == 0)
                return &dtypes[i];
    }
    return NULL;
}

static bool is_opaque(const char *name) {
    for (size_t i = 0; i < COUNT(opaque); i++) {
        size_t length = strlen(opaque[i]);
        bool is_package = opaque[i][length - 1] == '.';
        if (is_package ? strncmp(name, opaque[i], length) == 0 : strcmp(name, opaque[i]) == 0)
            return true;
    }
    return false;
}

enum torch_role torch_name_role(const char *name) {
    for (size_t i = 0; i < COUNT(known); i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].role;
    if (torch_dtype_of_storage(name))
        return ROLE_STORAGE;
    return is_opaque(name) ? ROLE_OPAQUE : ROLE_REFUSED;
}
