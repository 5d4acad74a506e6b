// A model source written as a checkpoint of ours: iteration and samples are kept, there is no optimizer.
#include "checkpoint/model_source.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "checkpoint/convert.h"
#include "checkpoint/model_bytes.h"
#include "checkpoint/model_check.h"
#include "checkpoint/model_range.h"
#include "checkpoint/safetensors.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

float model_gains_shift(const struct model_write *write, const struct param *param) {
    if (!param->is_gain || write->gains == GAINS_AS_THEY_ARE || (write->gains == GAINS_CENTERED) == param->is_centered)
        return 0;
    return param->is_centered ? 1 : -1;
}

int model_bytes_read(const struct model_write *write, size_t i, struct model_bytes *bytes) {
    if (bytes->data && bytes->index == i)
        return 0;
    const struct source_tensor *tensor = &write->source->tensors[i];
    enum dtype from = tensor->dtype, dtype = write->has_dtype ? write->dtype : tensor->dtype;
    size_t count = tensor->bytes / dtype_bytes(tensor->dtype);
    model_bytes_free(bytes);
    unsigned char *memory = memory_alloc(tensor->bytes + 1);
    int result = model_source_read(write->source, i, memory);
    float shift = model_gains_shift(write, write->source->params.items[i]);
    if (result == 0 && shift != 0) {
        float *shifted = convert_shifted(memory, from, count, shift);
        free(memory);
        memory = (unsigned char *)shifted;
        from = DTYPE_F32;
    }
    if (result == 0 && dtype != from) {
        unsigned char *converted = memory_alloc(count * dtype_bytes(dtype) + 1);
        convert_elements(
            &(struct convert){.to = converted, .to_dtype = dtype, .from = memory, .from_dtype = from, .count = count});
        free(memory);
        memory = converted;
    }
    *bytes = (struct model_bytes){.data = memory, .index = i, .bytes = count * dtype_bytes(dtype)};
    if (result < 0)
        model_bytes_free(bytes);
    return result;
}

void model_bytes_free(struct model_bytes *bytes) {
    free(bytes->data);
    *bytes = (struct model_bytes){0};
}

static int produce(void *context, size_t i, struct safetensors_writer *writer) {
    const struct model_write *write = context;
    struct model_bytes bytes = {0};
    TRY(model_bytes_read(write, i, &bytes));
    int result = safetensors_write(writer, bytes.data, bytes.bytes);
    model_bytes_free(&bytes);
    return result;
}

static int check(void *context, const char *folder) {
    return model_check(&(struct model_check){.write = context, .path = folder});
}

// Shape and type of a tensor that is written, without memory.
static struct tensor view_of(const struct source_tensor *from, enum dtype dtype) {
    const int64_t *shape = from->shape;
    if (from->rank == 3)
        return tensor_3d(NULL, dtype, shape[0], shape[1], shape[2]);
    return from->rank == 1 ? tensor_1d(NULL, dtype, shape[0]) : tensor_2d(NULL, dtype, shape[0], shape[1]);
}

int model_write_ours(const struct model_write *write) {
    struct model_source *source = write->source;
    bool is_new = !file_exists(write->folder);
    TRY(model_range_check(write));
    struct checkpoint_tensor *tensors = memory_alloc((source->count + 1) * sizeof tensors[0]);
    for (size_t i = 0; i < source->count; i++) {
        const struct source_tensor *from = &source->tensors[i];
        enum dtype dtype = write->has_dtype ? write->dtype : from->dtype;
        tensors[i] = (struct checkpoint_tensor){.name = from->name, .tensor = view_of(from, dtype)};
    }
    struct buffer json = {0};
    struct json_writer writer = {.out = &json};
    config_to_json(&source->config, &writer);
    struct checkpoint_state state = source->state;
    state.config_json = json.data;
    state.loss_scale = state.loss_scale > 0 ? state.loss_scale : 1;
    int result = checkpoint_save(&(struct checkpoint_save){.folder = write->folder,
                                                           .model = tensors,
                                                           .model_count = source->count,
                                                           .state = &state,
                                                           .files = source->files,
                                                           .produce = produce,
                                                           .check = check,
                                                           .context = (void *)(uintptr_t)write});
    // A folder that was made for nothing; one with something in it stays.
    if (result < 0 && is_new)
        (void)rmdir(write->folder);
    buffer_free(&json);
    free(tensors);
    return result;
}
