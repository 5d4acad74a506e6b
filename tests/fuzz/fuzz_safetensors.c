// layer: formats
// A safetensors file from hostile bytes. The tensors of a file that parses must cover its data exactly: each inside the
// input, with the size of its shape, found by its name; and its own layout must give a file of a valid size.
#include "fuzz.h"

#include "mend.h"
#include "store/safetensors.h"

static void check_tensor(const struct safetensors *file, const struct safetensors_tensor *tensor, const uint8_t *data,
                         size_t size) {
    CHECK(tensor->rank >= 0 && tensor->rank <= TENSOR_MAX_RANK);
    size_t elements = 1;
    for (int i = 0; i < tensor->rank; i++) {
        CHECK(tensor->shape[i] >= 0);
        elements *= (size_t)tensor->shape[i];
    }
    CHECK(tensor->other_dtype ? tensor->bytes % (elements > 0 ? elements : 1) == 0
                              : tensor->bytes == elements * dtype_bytes(tensor->dtype));
    CHECK(tensor->data >= data + 8 && tensor->data + tensor->bytes <= data + size);
    CHECK(safetensors_find(file, tensor->name) == tensor);
    char text[64];
    safetensors_describe(tensor, text, sizeof text);
    CHECK(strlen(text) < sizeof text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct safetensors file;
    if (safetensors_parse(&file, data, size, "fuzz") < 0)
        return 0;
    uint64_t header_bytes = 0, data_bytes = 0, file_bytes = 0;
    memcpy(&header_bytes, data, 8);
    unsigned char sum = 0;
    bool has_others = false;
    for (size_t i = 0; i < file.count; i++) {
        const struct safetensors_tensor *tensor = &file.tensors[i];
        check_tensor(&file, tensor, data, size);
        data_bytes += tensor->bytes;
        has_others = has_others || tensor->other_dtype;
        for (size_t k = 0; k < tensor->bytes; k++)
            sum = (unsigned char)(sum + tensor->data[k]);
    }
    CHECK(8 + header_bytes + data_bytes == size);
    struct safetensors_layout layout = {
        .tensors = file.tensors, .count = file.count, .metadata = file.metadata, .metadata_count = file.metadata_count};
    // The writer only knows our own types.
    CHECK(has_others || (safetensors_file_bytes(&layout, &file_bytes) == 0 && file_bytes > data_bytes &&
                         file_bytes % 8 == data_bytes % 8));
    for (size_t i = 0; i < file.metadata_count; i++)
        CHECK(safetensors_metadata(&file, file.metadata[i].key) != NULL);
    volatile unsigned char sink = sum;
    (void)sink;
    safetensors_close(&file);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    return seed % 4 == 0 ? LLVMFuzzerMutate(data, size, max_size) : mend_safetensors(data, size, max_size);
}
