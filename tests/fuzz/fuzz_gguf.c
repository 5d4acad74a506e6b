// layer: formats
// A GGUF file from hostile bytes. Everything that parses lies inside the input: keys, strings, arrays and tensors,
// whose sizes follow from their shapes; and each is found by its name.
#include "fuzz.h"

#include "base/memory.h"
#include "formats/gguf.h"

static unsigned char sum_of(const void *bytes, size_t count, const uint8_t *data, size_t size) {
    const uint8_t *at = bytes;
    CHECK(count == 0 || (at >= data && at + count <= data + size));
    unsigned char sum = 0;
    for (size_t i = 0; i < count; i++)
        sum = (unsigned char)(sum + at[i]);
    return sum;
}

static unsigned char check_value(const struct gguf_value *value, const uint8_t *data, size_t size) {
    unsigned char sum = sum_of(value->key, value->key_length, data, size);
    if (value->type == GGUF_STRING)
        return (unsigned char)(sum + sum_of(value->data, (size_t)value->count, data, size));
    size_t cursor = 0;
    for (uint64_t i = 0; value->type == GGUF_ARRAY && value->element == GGUF_STRING && i < value->count; i++) {
        uint64_t length;
        const char *text = gguf_next_string(value, &cursor, &length);
        sum = (unsigned char)(sum + sum_of(text, (size_t)length, data, size));
    }
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct gguf file;
    if (gguf_parse(&file, data, size, "fuzz") < 0)
        return 0;
    unsigned char sum = 0;
    for (size_t i = 0; i < file.value_count; i++)
        sum = (unsigned char)(sum + check_value(&file.values[i], data, size));
    for (size_t i = 0; i < file.tensor_count; i++) {
        const struct gguf_tensor *tensor = &file.tensors[i];
        struct gguf_block block = gguf_block_of(tensor->format);
        size_t elements = 1;
        for (int k = 0; k < tensor->rank; k++)
            elements *= (size_t)tensor->shape[k];
        CHECK(block.name && tensor->bytes == elements / (size_t)block.elements * block.bytes);
        sum = (unsigned char)(sum + sum_of(tensor->name, tensor->name_length, data, size));
        sum = (unsigned char)(sum + sum_of(tensor->data, tensor->bytes, data, size));
        char *name = memory_alloc(tensor->name_length + 1);
        memcpy(name, tensor->name, tensor->name_length);
        CHECK(strlen(name) < tensor->name_length || gguf_find_tensor(&file, name) == tensor);
        free(name);
    }
    volatile unsigned char sink = sum;
    (void)sink;
    gguf_close(&file);
    return 0;
}
