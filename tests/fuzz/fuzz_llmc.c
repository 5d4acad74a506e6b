// layer: formats
// A checkpoint of llm.c's GPT-2 from hostile bytes. In a file that opens, header and tensors fill the input exactly,
// and every tensor is read. After most changes of a header the input gets the length that the model needs.
#include "fuzz.h"

#include "base/log.h"
#include "base/memory.h"
#include "formats/model_source.h"
#include "mend.h"
#include <stdio.h>

enum { HEADER_BYTES = 1024, HEADER_USED = 32 };

static unsigned sum_of(const unsigned char *bytes, size_t count) {
    unsigned sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += bytes[i];
    return sum;
}

static void read_tensors(struct model_source *source, const uint8_t *data, size_t size) {
    size_t bytes = HEADER_BYTES;
    unsigned sum = 0;
    for (size_t i = 0; i < source->count; i++) {
        size_t length = source->tensors[i].bytes;
        CHECK(length > 0 && length <= size - bytes);
        bytes += length;
        unsigned char *values = memory_alloc(length);
        CHECK(model_source_read(source, i, values) == 0);
        sum += sum_of(values, length);
        free(values);
    }
    CHECK(bytes == size && sum == sum_of(data + HEADER_BYTES, size - HEADER_BYTES));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    log_set_level(LOG_ERROR);
    char *path = file_join(fuzz_folder(), "model.bin");
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(data, 1, size, file) == size && fclose(file) == 0);
    struct model_source source;
    if (model_source_open(&source, &(struct model_source_options){.path = path, .step = -1}) == 0) {
        read_tensors(&source, data, size);
        model_source_close(&source);
    }
    free(path);
    return 0;
}

// The length of a file with this header; 0 if it is longer than any input.
static size_t whole_bytes(const uint8_t *data, size_t most) {
    int32_t numbers[HEADER_USED / 4];
    memcpy(numbers, data, sizeof numbers);
    double positions = numbers[2], layers = numbers[4], width = numbers[6], rows = numbers[7];
    double count = (rows + positions + 2) * width + layers * (12 * width * width + 13 * width);
    double bytes = HEADER_BYTES + count * (numbers[1] == 5 ? 2 : 4);
    return bytes >= HEADER_BYTES && bytes <= (double)most ? (size_t)bytes : 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    if (seed % 8 == 0 || size < HEADER_BYTES)
        return LLVMFuzzerMutate(data, size, max_size);
    uint8_t used[HEADER_USED];
    memcpy(used, data, sizeof used);
    (void)LLVMFuzzerMutate(used, sizeof used, sizeof used);
    memcpy(data + 4, used + 4, sizeof used - 4);  // the magic number stays
    size_t whole = whole_bytes(data, max_size);
    if (whole > size)
        memset(data + size, (int)(seed >> 8), whole - size);
    return whole > 0 ? whole : size;
}
