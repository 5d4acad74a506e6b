// layer: formats
// A file of torch.save from hostile bytes, both containers. If it parses, every tensor must be inside its storage and
// every storage inside the input; all readable tensors are read. Most changes are made to the pickle in a zip archive,
// whose checksum is then corrected.
#include "fuzz.h"

#include "base/memory.h"
#include "formats/torch_file.h"
#include "mend.h"

struct walk {
    const struct torch_file *file;
    const uint8_t *data;
    size_t size;
    size_t left;  // values left to visit: cycles end here
};

static void check_tensor(const struct walk *walk, const struct torch_tensor *tensor) {
    const struct torch_storage *storage = tensor->storage;
    size_t bytes = (size_t)storage->count * storage->dtype->bytes;
    CHECK(storage->data >= walk->data && storage->data + bytes <= walk->data + walk->size);
    CHECK(torch_tensor_count(tensor) <= storage->count);
    if (!tensor->dtype->is_readable)
        return;
    unsigned char *values = memory_alloc((size_t)torch_tensor_count(tensor) * tensor->dtype->bytes + 1);
    (void)torch_read(walk->file, tensor, values);
    free(values);
}

static void visit(struct walk *walk, const struct torch_value *value, int depth) {
    if (walk->left == 0 || depth > 20)
        return;
    walk->left--;
    if (value->type == TORCH_TENSOR)
        check_tensor(walk, &value->tensor);
    if (value->type == TORCH_STRING)
        CHECK(value->text[value->length] == '\0');
    if (value->type == TORCH_LIST || value->type == TORCH_DICT)
        for (size_t i = 0; i < value->count; i++)
            visit(walk, value->items[i], depth + 1);
    CHECK(value->type != TORCH_DICT || value->count % 2 == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct torch_file file;
    if (torch_parse(&file, data, size, "fuzz") < 0)
        return 0;
    struct walk walk = {.file = &file, .data = data, .size = size, .left = 10000};
    visit(&walk, file.pickle.root, 0);
    torch_close(&file);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    return seed % 4 == 0 ? LLVMFuzzerMutate(data, size, max_size) : mend_torch(data, size, max_size);
}
