// Checkpoints of llm.c's GPT-2 (gpt2_124M.bin, model_00019560.bin) as a model source. One file: a header of 256 32-bit
// numbers (magic, version, positions, vocabulary, layers, heads, width, padded vocabulary), then the tensors in fp32
// (version 3) or bf16 (version 5), each kind of tensor with all its layers one after another. Matrices are (out, in),
// with queries, keys and values stacked by rows, as here.
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/source_kind.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HEADER_NUMBERS = 256, HEADER_BYTES = HEADER_NUMBERS * 4, MAGIC = 20240326, LLAMA_MAGIC = 20240803 };

struct header {
    int32_t magic, version, positions, vocabulary, layers, heads, width, padded_vocabulary;
};

struct llmc_detail {
    struct file_map map;
    size_t *offset;  // (count) the beginning of each of our parameters
};

static bool read_header(const char *path, struct header *header) {
    FILE *file = file_is_regular(path) ? fopen(path, "rb") : NULL;
    bool is_read = file && fread(header, sizeof *header, 1, file) == 1;
    if (file)
        (void)fclose(file);
    return is_read;
}

static bool is_file(const char *path) {
    struct header header;
    return read_header(path, &header) && (header.magic == MAGIC || header.magic == LLAMA_MAGIC);
}

// The order of the file. A layer's entries occur once per layer.
static const char *const order[] = {"embedding.word_embeddings.weight",
                                    "embedding.position_embeddings.weight",
                                    "input_layernorm.weight",
                                    "input_layernorm.bias",
                                    "self_attention.linear_qkv.weight",
                                    "self_attention.linear_qkv.bias",
                                    "self_attention.linear_proj.weight",
                                    "self_attention.linear_proj.bias",
                                    "pre_mlp_layernorm.weight",
                                    "pre_mlp_layernorm.bias",
                                    "mlp.linear_fc1.weight",
                                    "mlp.linear_fc1.bias",
                                    "mlp.linear_fc2.weight",
                                    "mlp.linear_fc2.bias",
                                    "decoder.final_layernorm.weight",
                                    "decoder.final_layernorm.bias"};
enum { KIND_COUNT = sizeof order / sizeof order[0], FIRST_OF_LAYERS = 2, LAST_OF_LAYERS = 13 };

// Searches from a guess and wraps around: the next layer's tensor of a kind is one layer after the last one's, so that
// each lookup stays fast in models with very many layers.
static size_t find_tensor(const struct model_source *source, const char *name, size_t guess) {
    for (size_t i = 0; i < source->count; i++) {
        size_t at = (guess + i) % source->count;
        if (strcmp(source->tensors[at].name, name) == 0)
            return at;
    }
    die("the model has no %s", name);
}

// The position in the file, and which of our tensors was placed last.
struct placing {
    size_t at, last;
};

static void place(struct model_source *source, const char *name, enum dtype dtype, struct placing *placing) {
    struct llmc_detail *detail = source->detail;
    size_t i = find_tensor(source, name, placing->last);
    struct source_tensor *tensor = &source->tensors[i];
    tensor->dtype = dtype;
    tensor->bytes = (size_t)(tensor->shape[0] * (tensor->rank == 2 ? tensor->shape[1] : 1)) * dtype_bytes(dtype);
    detail->offset[i] = placing->at;
    placing->at += tensor->bytes;
    placing->last = i;
}

static size_t place_all(struct model_source *source, enum dtype dtype) {
    struct placing placing = {.at = HEADER_BYTES};
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        bool is_of_layer = kind >= FIRST_OF_LAYERS && kind <= LAST_OF_LAYERS;
        for (int64_t layer = 0; layer < (is_of_layer ? source->config.model.num_layers : 1); layer++) {
            OWNED char *name = is_of_layer ? memory_printf("decoder.layers.%" PRId64 ".%s", layer, order[kind])
                                           : memory_string(order[kind]);
            place(source, name, dtype, &placing);
        }
    }
    return placing.at;
}

static int set_config(struct config *config, const struct header *header) {
    const struct {
        const char *flag;
        int64_t value;
    } numbers[] = {{"--num-layers", header->layers},         {"--hidden-size", header->width},
                   {"--num-attention-heads", header->heads}, {"--max-position-embeddings", header->positions},
                   {"--vocab-size", header->vocabulary},     {"--padded-vocab-size", header->padded_vocabulary}};
    struct flag_table table = config_flag_table(0);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        char text[32];
        (void)snprintf(text, sizeof text, "%" PRId64, numbers[i].value);
        TRY(flag_set(&table, config, numbers[i].flag, text, FLAG_FROM_FILE));
    }
    TRY(flag_set(&table, config, "--hidden-dropout", "0", FLAG_FROM_FILE));
    return flag_set(&table, config, "--attention-dropout", "0", FLAG_FROM_FILE);
}

// A header must not ask for more layers than the file can hold.
static int check_size(const struct header *header, size_t bytes, const char *path) {
    enum { WIDEST = 1 << 20 };
    bool is_size = header->width > 0 && header->width <= WIDEST && header->layers > 0;
    uint64_t layer = is_size ? (uint64_t)header->width * (uint64_t)header->width * 12 * dtype_bytes(DTYPE_BF16) : 1;
    return is_size && (uint64_t)header->layers <= bytes / layer
               ? 0
               : error_set("%s has %zu bytes, which does not fit %" PRId32 " layers of width %" PRId32
                           "; the file is truncated or damaged",
                           path, bytes, header->layers, header->width);
}

static int check_header(const struct header *header, const char *path) {
    if (header->magic == LLAMA_MAGIC)
        return error_set("%s is a Llama of llm.c; only GPT-2 of llm.c is supported: use the Hugging Face folder", path);
    if (header->version != 3 && header->version != 5)
        return error_set("%s is an llm.c checkpoint of version %" PRId32
                         "; versions 3 (fp32) and 5 (bf16) are supported",
                         path, header->version);
    if (header->vocabulary > header->padded_vocabulary)
        return error_set("%s: its vocabulary of %" PRId32 " is larger than with padding, %" PRId32, path,
                         header->vocabulary, header->padded_vocabulary);
    return 0;
}

static int open_source(struct model_source *source, const struct model_source_options *options) {
    struct llmc_detail *detail = memory_alloc(sizeof *detail);
    source->detail = detail;
    struct header header = {0};
    TRY(file_map_open(&detail->map, options->path));
    if (detail->map.size < HEADER_BYTES)
        return error_set("%s ends within its header; the file is truncated", options->path);
    memcpy(&header, detail->map.data, sizeof header);
    TRY(check_header(&header, options->path));
    TRY(check_size(&header, detail->map.size, options->path));
    if (set_config(&source->config, &header) < 0)
        return error_context("the header of %s", options->path);
    if (source_build(source) < 0)
        return error_context("the header of %s", options->path);
    detail->offset = memory_alloc((source->count + 1) * sizeof detail->offset[0]);
    size_t end = place_all(source, header.version == 3 ? DTYPE_F32 : DTYPE_BF16);
    if (end != detail->map.size)
        return error_set("%s has %zu bytes, but a model with that header has %zu; the file is truncated or damaged",
                         options->path, detail->map.size, end);
    return 0;
}

static int read_tensor(struct model_source *source, size_t i, void *to) {
    const struct llmc_detail *detail = source->detail;
    memcpy(to, (const unsigned char *)detail->map.data + detail->offset[i], source->tensors[i].bytes);
    return 0;
}

static void close_source(struct model_source *source) {
    OWNED struct llmc_detail *detail = source->detail;
    if (!detail)
        return;
    file_map_close(&detail->map);
    free(detail->offset);
}

const struct model_source_kind source_llmc = {
    .name = "llm.c", .is_folder = is_file, .open = open_source, .read = read_tensor, .close = close_source};
