// layer: data
// A pair of .bin and .idx from one input: two bytes with the length of .bin, then .bin and .idx. A dataset that opens
// must be safe to read and to draw samples from; a verified one must be readable to the last token, and every sample
// must exist.
#include "fuzz.h"

#include "data/sample/gpt.h"
#include <string.h>

static int32_t tokens[1 << 16];

static void must(bool condition) {
    if (!condition)
        abort();
}

static void read_sequences(const struct index_reader *reader, bool is_verified) {
    for (int64_t i = 0; i < reader->sequence_count; i++) {
        int64_t length = index_length(reader, i);
        if (length > (int64_t)(sizeof tokens / sizeof tokens[0]))
            length = sizeof tokens / sizeof tokens[0];
        bool is_read = index_read(reader, i, 0, length, tokens) == 0;
        must(is_read || !is_verified);
    }
}

// Samples without files: the arrays stay in memory.
static void draw_samples(struct index_reader *reader, bool is_verified, uint8_t choice) {
    struct gpt_dataset dataset = {
        .reader = reader, .range = {reader, choice % 3 ? 0 : reader->sequence_count / 2, reader->sequence_count}};
    struct gpt_index index;
    if (gpt_shape_make(&dataset.shape, dataset.range, 1 + choice / 32, choice % 8) < 0)
        return;
    bool is_built = gpt_index_build(&index, &dataset.shape, dataset.range, 1234) == 0;
    must(is_built || !is_verified);
    if (!is_built)
        return;
    dataset.name = "fuzz";
    dataset.arrays[GPT_DOCUMENTS].data = (unsigned char *)index.documents;
    dataset.arrays[GPT_SAMPLES].data = index.samples;
    dataset.arrays[GPT_ORDER].data = index.order;
    for (int64_t i = 0; i < dataset.shape.samples; i++) {
        bool is_read = gpt_dataset_sample(&dataset, i, tokens) == 0;
        must(is_read || !is_verified);
    }
    gpt_index_free(&index);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size < 3)
        return 0;
    size_t bin_bytes = data[0] | (size_t)data[1] << 8;
    uint8_t choice = data[2];
    data += 3;
    size -= 3;
    if (bin_bytes > size)
        bin_bytes = size;
    struct file_map bin = {data, bin_bytes}, idx = {data + bin_bytes, size - bin_bytes};
    struct index_reader *reader;
    if (index_open_bytes(&reader, "fuzz", idx, bin) < 0)
        return 0;
    bool is_verified = index_verify_tokens(reader, 0) == 0;
    read_sequences(reader, is_verified);
    if (reader->dtype != INDEX_F32 && reader->dtype != INDEX_F64)
        draw_samples(reader, is_verified, choice);
    index_close(reader);
    return 0;
}
