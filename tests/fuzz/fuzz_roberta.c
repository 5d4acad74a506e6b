// layer: formats
// A RoBERTa checkpoint of fairseq from hostile bytes. Every tensor of a file that opens has the bytes of its shape and
// no more than the input, and is read.
#include "fuzz.h"

#include "base/log.h"
#include "base/memory.h"
#include "formats/model_source.h"
#include "mend.h"
#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    log_set_level(LOG_ERROR);
    char *path = file_join(fuzz_folder(), "model.pt");
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    struct model_source source;
    if (model_source_open(&source, &(struct model_source_options){.path = path, .step = -1}) == 0) {
        for (size_t i = 0; i < source.count; i++) {
            const struct source_tensor *tensor = &source.tensors[i];
            size_t count = (size_t)tensor->shape[0] * (tensor->rank == 2 ? (size_t)tensor->shape[1] : 1);
            CHECK(tensor->bytes == count * dtype_bytes(tensor->dtype) && tensor->bytes <= 3 * size);
            unsigned char *values = memory_alloc(tensor->bytes + 1);
            (void)model_source_read(&source, i, values);
            free(values);
        }
        model_source_close(&source);
    }
    free(path);
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    return seed % 2 == 0 ? LLVMFuzzerMutate(data, size, max_size) : mend_torch(data, size, max_size);
}
