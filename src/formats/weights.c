// Lists of tensors from files. See weights.h.
#include "formats/weights.h"

#include "base/error.h"
#include "base/memory.h"
#include "store/manifest.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct weight *add(struct weights *weights) {
    MEMORY_GROW(weights->items, weights->count, weights->capacity);
    struct weight *weight = &weights->items[weights->count++];
    *weight = (struct weight){0};
    return weight;
}

int weights_add_safetensors(struct weights *weights, const char *path) {
    struct safetensors *file = memory_alloc(sizeof *file);
    if (safetensors_open(file, path) < 0) {
        free(file);
        return -1;
    }
    weights->safetensors =
        memory_realloc(weights->safetensors, (weights->safetensors_count + 1) * sizeof weights->safetensors[0]);
    weights->safetensors[weights->safetensors_count++] = file;
    for (size_t i = 0; i < file->count; i++) {
        const struct safetensors_tensor *tensor = &file->tensors[i];
        struct weight *weight = add(weights);
        weight->name = memory_string(tensor->name);
        weight->is_readable = !tensor->other_dtype;
        weight->other_dtype = tensor->other_dtype;
        weight->dtype = tensor->dtype;
        weight->rank = tensor->rank;
        memcpy(weight->shape, tensor->shape, sizeof weight->shape);
        weight->bytes = tensor->bytes;
        weight->data = tensor->data;
    }
    return 0;
}

void weights_add_tensor(struct weights *weights, const char *name, const struct torch_file *file,
                        const struct torch_tensor *tensor) {
    struct weight *weight = add(weights);
    weight->name = memory_string(name);
    weight->is_readable = tensor->dtype->is_readable;
    weight->dtype = tensor->dtype->dtype;
    weight->rank = tensor->rank;
    memcpy(weight->shape, tensor->shape, sizeof weight->shape);
    weight->bytes = (size_t)torch_tensor_count(tensor) * tensor->dtype->bytes;
    weight->torch = tensor;
    weight->torch_file = file;
}

void weights_add_distributed(struct weights *weights, const char *name, const struct distributed_tensor *tensor,
                             int64_t first) {
    struct weight *weight = add(weights);
    int skipped = first == DISTRIBUTED_ALL ? 0 : 1;
    weight->name = memory_string(name);
    weight->is_readable = tensor->dtype->is_readable;
    weight->other_dtype = tensor->dtype->name;
    weight->dtype = tensor->dtype->dtype;
    weight->rank = tensor->rank - skipped;
    weight->bytes = tensor->dtype->bytes;
    for (int i = 0; i < weight->rank; i++) {
        weight->shape[i] = tensor->shape[i + skipped];
        weight->bytes *= (size_t)weight->shape[i];
    }
    weight->piecewise = tensor;
    weight->distributed = weights->distributed;
    weight->first = first;
}

void weights_add_flat(struct weights *weights, const char *name, const struct distributed_tensor *tensor, int64_t first,
                      const struct weight *like, enum weight_pieces pieces) {
    weights_add_distributed(weights, name, tensor, DISTRIBUTED_ALL);
    struct weight *weight = &weights->items[weights->count - 1];
    weight->rank = like->rank;
    weight->bytes = tensor->dtype->bytes;
    for (int i = 0; i < like->rank; i++) {
        weight->shape[i] = like->shape[i];
        weight->bytes *= (size_t)like->shape[i];
    }
    weight->first = first;
    weight->pieces = pieces;
}

int weights_open_distributed(struct weights *weights, const char *path, bool (*is_wanted)(const char *name)) {
    CHECK(!weights->distributed);
    weights->distributed = memory_alloc(sizeof *weights->distributed);
    return distributed_open(weights->distributed, path, is_wanted);
}

static const struct torch_file *keep_torch(struct weights *weights, const struct torch_file *opened) {
    struct torch_file *file = memory_alloc(sizeof *file);
    *file = *opened;
    weights->torch_files =
        memory_realloc(weights->torch_files, (weights->torch_count + 1) * sizeof weights->torch_files[0]);
    weights->torch_files[weights->torch_count++] = file;
    return file;
}

int weights_open_torch(struct weights *weights, const char *path, const struct torch_file **file) {
    struct torch_file opened;
    TRY(torch_open(&opened, path));
    *file = keep_torch(weights, &opened);
    return 0;
}

int weights_parse_torch(struct weights *weights, const void *bytes, size_t size, const char *name,
                        const struct torch_file **file) {
    struct torch_file opened;
    TRY(torch_parse(&opened, bytes, size, name));
    *file = keep_torch(weights, &opened);
    return 0;
}

int weights_add_torch(struct weights *weights, const char *path) {
    const struct torch_file *file = NULL;
    TRY(weights_open_torch(weights, path, &file));
    const struct torch_value *root = file->pickle.root;
    if (root->type != TORCH_DICT)
        return error_set("%s is not a dict of tensors; save it as torch.save(model.state_dict(), …)", path);
    for (size_t i = 0; i < root->count; i += 2) {
        const struct torch_value *key = root->items[i], *value = root->items[i + 1];
        if (key->type == TORCH_STRING && value->type == TORCH_TENSOR && strlen(key->text) == key->length)
            weights_add_tensor(weights, key->text, file, &value->tensor);
    }
    return 0;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const struct weight *)a)->name, ((const struct weight *)b)->name);
}

int weights_sort(struct weights *weights) {
    if (weights->count > 0)
        qsort(weights->items, weights->count, sizeof weights->items[0], compare_names);
    for (size_t i = 1; i < weights->count; i++)
        if (strcmp(weights->items[i - 1].name, weights->items[i].name) == 0)
            return error_set("the tensor \"%.200s\" occurs twice", weights->items[i].name);
    return 0;
}

void weights_clear(struct weights *weights) {
    for (size_t i = 0; i < weights->count; i++)
        free(weights->items[i].name);
    weights->count = 0;
}

void weights_close(struct weights *weights) {
    weights_clear(weights);
    free(weights->items);
    for (size_t i = 0; i < weights->safetensors_count; i++) {
        safetensors_close(weights->safetensors[i]);
        free(weights->safetensors[i]);
    }
    free(weights->safetensors);
    for (size_t i = 0; i < weights->torch_count; i++) {
        torch_close(weights->torch_files[i]);
        free(weights->torch_files[i]);
    }
    free(weights->torch_files);
    if (weights->distributed)
        distributed_close(weights->distributed);
    free(weights->distributed);
    *weights = (struct weights){0};
}

const struct weight *weights_find(const struct weights *weights, const char *name) {
    struct weight wanted = {.name = (char *)(uintptr_t)name};
    if (weights->count == 0)
        return NULL;
    return bsearch(&wanted, weights->items, weights->count, sizeof weights->items[0], compare_names);
}

static int read_pieces(const struct weight *weight, void *to) {
    if (weight->pieces == PIECES_WHOLE)
        return distributed_read(weight->distributed, weight->piecewise, weight->first, to);
    if (weight->pieces == PIECES_BLOCKS)
        return distributed_read_blocks(&(struct distributed_blocks){.checkpoint = weight->distributed,
                                                                    .tensor = weight->piecewise,
                                                                    .first = weight->first,
                                                                    .rank = weight->rank,
                                                                    .shape = weight->shape},
                                       to);
    return distributed_read_range(
        &(struct distributed_range){.checkpoint = weight->distributed,
                                    .tensor = weight->piecewise,
                                    .first = weight->first,
                                    .count = (int64_t)(weight->bytes / dtype_bytes(weight->dtype))},
        to);
}

int weight_read(const struct weight *weight, void *to) {
    CHECK(weight->is_readable);
    if (weight->scales)
        return weight_read_blocks(weight, to);
    if (weight->piecewise)
        return read_pieces(weight, to);
    if (weight->torch)
        return torch_read(weight->torch_file, weight->torch, to);
    if (weight->bytes > 0)
        memcpy(to, weight->data, weight->bytes);
    return 0;
}

void weight_describe(const struct weight *weight, char *text, size_t size) {
    if (weight->torch) {
        torch_describe(weight->torch, text, size);
        return;
    }
    struct safetensors_tensor tensor = {
        .dtype = weight->dtype, .other_dtype = weight->is_readable ? NULL : weight->other_dtype, .rank = weight->rank};
    memcpy(tensor.shape, weight->shape, sizeof tensor.shape);
    safetensors_describe(&tensor, text, size);
}

int weights_open_checkpoint(struct weights *weights, const char *path, const char *part) {
    *weights = (struct weights){0};
    OWNED_BY(manifest_free) struct manifest manifest = {0};
    TRY(manifest_read(&manifest, path));
    int result = 0;
    for (size_t i = 0; i < manifest.count && result == 0; i++) {
        if (strcmp(manifest.files[i].holds, part) != 0)
            continue;
        OWNED char *file = file_join(path, manifest.files[i].name);
        result = weights_add_safetensors(weights, file);
    }
    if (result == 0 && weights->count == 0)
        result = error_set("the checkpoint %s has no %s", path, part);
    if (result == 0)
        result = weights_sort(weights);
    if (result < 0)
        weights_close(weights);
    return result;
}
