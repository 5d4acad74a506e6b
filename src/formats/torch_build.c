// The arena of values, and the construction of tensors and containers from a pickle's names and arguments. Offsets,
// shapes and strides are checked against their storage before any element is read.
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "formats/torch_machine.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK_BYTES = 64 << 10, ALIGNMENT = 16 };

struct torch_block {
    struct torch_block *next;
    size_t used, capacity;
    _Alignas(ALIGNMENT) unsigned char bytes[];
};

static void *allocate(struct torch_pickle *pickle, size_t bytes) {
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct torch_block *block = pickle->blocks;
    if (!block || block->capacity - block->used < bytes) {
        size_t capacity = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        block = memory_alloc(sizeof *block + capacity);
        block->capacity = capacity;
        block->next = pickle->blocks;
        pickle->blocks = block;
    }
    void *memory = block->bytes + block->used;
    block->used += bytes;
    return memory;
}

void torch_pickle_free(struct torch_pickle *pickle) {
    while (pickle->blocks) {
        struct torch_block *next = pickle->blocks->next;
        free(pickle->blocks);
        pickle->blocks = next;
    }
    free(pickle->storages);
    free(pickle->slots);
    *pickle = (struct torch_pickle){0};
}

struct torch_value *torch_new(struct torch_pickle *pickle, enum torch_type type) {
    struct torch_value *value = allocate(pickle, sizeof *value);
    *value = (struct torch_value){.type = type};
    return value;
}

struct torch_value *torch_new_text(struct torch_pickle *pickle, const unsigned char *bytes, size_t length) {
    struct torch_value *value = torch_new(pickle, TORCH_STRING);
    char *text = allocate(pickle, length + 1);
    memcpy(text, bytes, length);
    text[length] = '\0';
    value->text = text;
    value->length = length;
    return value;
}

void torch_append(struct torch_pickle *pickle, struct torch_value *list, struct torch_value *item) {
    if (list->count == list->capacity) {
        // The old array stays in the arena; doubling keeps the waste below the size of the last.
        size_t capacity = list->capacity ? list->capacity * 2 : 4;
        struct torch_value **items = allocate(pickle, capacity * sizeof items[0]);
        if (list->count > 0)
            memcpy(items, list->items, list->count * sizeof items[0]);
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = item;
}

const struct torch_value *torch_get(const struct torch_value *dict, const char *key) {
    if (!dict || dict->type != TORCH_DICT)
        return NULL;
    for (size_t i = dict->count; i >= 2; i -= 2) {
        const struct torch_value *candidate = dict->items[i - 2];
        if (candidate->type == TORCH_STRING && candidate->length == strlen(key) &&
            memcmp(candidate->text, key, candidate->length) == 0)
            return dict->items[i - 1];
    }
    return NULL;
}

int torch_make_name(struct torch_pickle *pickle, const char *module, const char *attribute,
                    struct torch_value **value) {
    OWNED char *name = memory_printf("%s.%s", module, attribute);
    int result = 0;
    if (strcmp(name, "torch._utils._rebuild_tensor_v3") == 0)
        result = error_set("it has tensors of a dtype that is not read from torch files, most likely fp8; save the "
                           "model as safetensors (save_pretrained of transformers does)");
    else if (torch_name_role(name) == ROLE_REFUSED)
        result =
            error_set("it refers to %.200s, which is neither a tensor nor a plain container; nothing was executed; if "
                      "you trust the file, save the weights alone (torch.save(model.state_dict(), …))",
                      name);
    if (result == 0) {
        struct torch_value *text = torch_new_text(pickle, (const unsigned char *)name, strlen(name));
        *value = torch_new(pickle, TORCH_NAME);
        (*value)->name = text->text;
    }
    return result;
}

static const struct torch_value *argument(const struct torch_value *arguments, size_t i, enum torch_type type) {
    return i < arguments->count && arguments->items[i]->type == type ? arguments->items[i] : NULL;
}

// A list of sizes or strides, none negative.
static int read_sizes(const struct torch_value *list, int64_t sizes[TENSOR_MAX_RANK], int *rank) {
    if (!list || list->count > TENSOR_MAX_RANK)
        return error_set("it has a tensor of more than %d dimensions, or without a shape", TENSOR_MAX_RANK);
    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i]->type != TORCH_INT || list->items[i]->integer < 0)
            return error_set("it has a tensor whose shape or strides are not sizes");
        sizes[i] = list->items[i]->integer;
    }
    *rank = (int)list->count;
    return 0;
}

// The last element must lie inside the storage, which must have at least as many elements, so that a few bytes cannot
// claim terabytes (a stride of 0 would).
static int check_place(const struct torch_tensor *tensor) {
    size_t last = (size_t)tensor->offset, count = 1, storage = (size_t)tensor->storage->count;
    bool fits = true;
    for (int i = 0; i < tensor->rank; i++)
        fits = fits && size_mul(count, (size_t)tensor->shape[i], &count);
    for (int i = 0; i < tensor->rank && count > 0; i++) {
        size_t reach = 0;
        fits = fits && size_mul((size_t)tensor->shape[i] - 1, (size_t)tensor->stride[i], &reach) &&
               size_add(last, reach, &last);
    }
    if (!fits || count > storage || (count > 0 && last >= storage))
        return error_set("it has a tensor that extends beyond its storage \"%.64s\" of %zu elements",
                         tensor->storage->key, storage);
    return 0;
}

static int make_tensor(struct torch_pickle *pickle, const struct torch_value *arguments, struct torch_value **value) {
    const struct torch_value *storage = argument(arguments, 0, TORCH_STORAGE),
                             *offset = argument(arguments, 1, TORCH_INT);
    if (!storage || !offset || offset->integer < 0)
        return error_set("it has a tensor without a storage or an offset");
    *value = torch_new(pickle, TORCH_TENSOR);
    struct torch_tensor *tensor = &(*value)->tensor;
    tensor->storage = storage->storage;
    tensor->dtype = tensor->storage->dtype;
    tensor->offset = offset->integer;
    int stride_rank = 0;
    TRY(read_sizes(argument(arguments, 2, TORCH_LIST), tensor->shape, &tensor->rank));
    TRY(read_sizes(argument(arguments, 3, TORCH_LIST), tensor->stride, &stride_rank));
    if (stride_rank != tensor->rank || !tensor->dtype)
        return error_set("it has a tensor with %d sizes and %d strides, or of an unknown type", tensor->rank,
                         stride_rank);
    return check_place(tensor);
}

// A tensor with attributes, as Megatron's ranks write them. They are ignored.
static int make_typed_tensor(struct torch_pickle *pickle, const struct torch_value *arguments,
                             struct torch_value **value) {
    const struct torch_value *function = argument(arguments, 0, TORCH_NAME), *own = argument(arguments, 2, TORCH_LIST);
    enum torch_role role = function ? torch_name_role(function->name) : ROLE_REFUSED;
    if (!own || (role != ROLE_TENSOR && role != ROLE_TENSOR_V2))
        return error_set("it has a tensor with attributes that is made of something else");
    return make_tensor(pickle, own, value);
}

static int make_dict(struct torch_pickle *pickle, const struct torch_value *arguments, struct torch_value **value) {
    *value = torch_new(pickle, TORCH_DICT);
    const struct torch_value *pairs = argument(arguments, 0, TORCH_LIST);
    for (size_t i = 0; pairs && i < pairs->count; i++) {
        const struct torch_value *pair = pairs->items[i];
        if (pair->type != TORCH_LIST || pair->count != 2)
            return error_set("it builds a dict from values that are not pairs");
        torch_append(pickle, *value, pair->items[0]);
        torch_append(pickle, *value, pair->items[1]);
    }
    return 0;
}

static int make_list(struct torch_pickle *pickle, const struct torch_value *arguments, struct torch_value **value) {
    *value = torch_new(pickle, TORCH_LIST);
    const struct torch_value *items = argument(arguments, 0, TORCH_LIST);
    for (size_t i = 0; items && i < items->count; i++)
        torch_append(pickle, *value, items->items[i]);
    return 0;
}

int torch_make(struct torch_pickle *pickle, const struct torch_value *name, const struct torch_value *arguments,
               struct torch_value **value) {
    bool has_no_call = name->type == TORCH_OPAQUE;
    if ((name->type != TORCH_NAME && !has_no_call) || arguments->type != TORCH_LIST)
        return error_set("it calls a value that is not a name, or without arguments");
    switch (has_no_call ? ROLE_OPAQUE : torch_name_role(name->name)) {
    case ROLE_DICT:
        return make_dict(pickle, arguments, value);
    case ROLE_NAMESPACE:
        *value = torch_new(pickle, TORCH_DICT);
        return 0;
    case ROLE_LIST:
        return make_list(pickle, arguments, value);
    case ROLE_TENSOR:
    case ROLE_TENSOR_V2:
        return make_tensor(pickle, arguments, value);
    case ROLE_TYPED_TENSOR:
        return make_typed_tensor(pickle, arguments, value);
    case ROLE_PARAMETER:
        *value = arguments->count > 0 ? arguments->items[0] : NULL;
        if (!*value || (*value)->type != TORCH_TENSOR)
            return error_set("it has a parameter without a tensor");
        return 0;
    case ROLE_STORAGE:
    case ROLE_STORAGE_UNTYPED:
        return error_set("it creates a storage that is not in the file");
    case ROLE_OPAQUE:
    case ROLE_REFUSED:
        break;
    }
    *value = torch_new(pickle, TORCH_OPAQUE);
    (*value)->name = name->name;
    return 0;
}

// The slot of a key: its own, or the free one where it belongs.
static size_t *find_slot(const struct torch_pickle *pickle, const char *key) {
    size_t slot = (size_t)hash_bytes(key, strlen(key), 0) & (pickle->slot_count - 1);
    while (pickle->slots[slot] && strcmp(pickle->storages[pickle->slots[slot] - 1]->key, key) != 0)
        slot = (slot + 1) & (pickle->slot_count - 1);
    return &pickle->slots[slot];
}

struct torch_storage *torch_find_storage(const struct torch_pickle *pickle, const char *key) {
    size_t index = pickle->slot_count > 0 ? *find_slot(pickle, key) : 0;
    return index > 0 ? pickle->storages[index - 1] : NULL;
}

// Keeps the table at most half full.
static void grow_slots(struct torch_pickle *pickle) {
    if (pickle->storage_count * 2 < pickle->slot_count)
        return;
    pickle->slot_count = pickle->slot_count ? pickle->slot_count * 2 : 128;
    pickle->storages = memory_realloc(pickle->storages, pickle->slot_count * sizeof pickle->storages[0]);
    free(pickle->slots);
    pickle->slots = memory_alloc(pickle->slot_count * sizeof pickle->slots[0]);
    for (size_t i = 0; i < pickle->storage_count; i++)
        *find_slot(pickle, pickle->storages[i]->key) = i + 1;
}

// ("storage", torch.FloatStorage, key, location, elements[, view]).
int torch_make_storage(struct torch_pickle *pickle, const struct torch_value *id, struct torch_value **value) {
    const struct torch_value *kind = id->type == TORCH_LIST ? argument(id, 0, TORCH_STRING) : NULL;
    if (!kind || strcmp(kind->text, "storage") != 0)
        return error_set("it refers to an object outside the pickle that is not a storage");
    const struct torch_value *name = argument(id, 1, TORCH_NAME), *key = argument(id, 2, TORCH_STRING),
                             *count = argument(id, 4, TORCH_INT);
    if (!name || !key || !count || count->integer < 0 || strlen(key->text) != key->length)
        return error_set("it has a storage without type, key or length");
    if (id->count > 5 && id->items[5]->type != TORCH_NONE)
        return error_set("the storage \"%.64s\" is a view of another, as torch before 0.4 wrote; save the file again "
                         "with a newer torch",
                         key->text);
    const struct torch_dtype *dtype = torch_dtype_of_storage(name->name);
    if (!dtype)
        return error_set("the storage \"%.64s\" is a %.100s, whose element type is unknown", key->text, name->name);
    *value = torch_new(pickle, TORCH_STORAGE);
    grow_slots(pickle);
    size_t *slot = find_slot(pickle, key->text);
    if (*slot == 0) {
        struct torch_storage *fresh = allocate(pickle, sizeof *fresh);
        *fresh = (struct torch_storage){.dtype = dtype, .key = key->text, .count = count->integer};
        pickle->storages[pickle->storage_count++] = fresh;
        *slot = pickle->storage_count;
    }
    struct torch_storage *storage = pickle->storages[*slot - 1];
    if (storage->count != count->integer || storage->dtype != dtype)
        return error_set("the storage \"%.64s\" occurs with two lengths or types", key->text);
    (*value)->storage = storage;
    return 0;
}

int torch_set_state(struct torch_pickle *pickle, struct torch_value *object, const struct torch_value *state) {
    // Namespaces are empty until their state comes; an OrderedDict's state is attributes that no reader needs.
    if (object->type == TORCH_DICT && object->count == 0 && state->type == TORCH_DICT)
        for (size_t i = 0; i < state->count; i++)
            torch_append(pickle, object, state->items[i]);
    return 0;
}

// ---- the list of accepted names: any other name is an error ----

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
