// Writes a model source as a checkpoint of ours, with its iteration, its samples and the optimizer's state.
#include "formats/model_source.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "formats/model_bytes.h"
#include "store/convert.h"
#include "store/safetensors.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

float model_gains_shift(const struct model_write *write, const struct param *param) {
    if (!param->is_gain || write->gains == GAINS_AS_THEY_ARE || (write->gains == GAINS_CENTERED) == param->is_centered)
        return 0;
    return param->is_centered ? 1 : -1;
}

enum dtype model_write_dtype(const struct model_write *write, const struct source_tensor *tensor) {
    bool may_round = !model_is_bias_of_experts(tensor->name);
    return write->has_dtype && (may_round || write->dtype == DTYPE_F32) ? write->dtype : tensor->dtype;
}

int model_bytes_read(const struct model_write *write, size_t i, struct model_bytes *bytes) {
    if (bytes->data && bytes->index == i)
        return 0;
    const struct source_tensor *tensor = &write->source->tensors[i];
    enum dtype from = tensor->dtype, dtype = model_write_dtype(write, tensor);
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

// The optimizer's list has the parameters once for each state.
static int produce_state(const struct model_write *write, size_t i, struct safetensors_writer *writer) {
    struct model_source *source = write->source;
    size_t trained = source->count - source->biases, param = i % trained;
    const struct source_tensor *tensor = &source->tensors[param];
    size_t count = tensor->bytes / dtype_bytes(tensor->dtype);
    OWNED float *memory = memory_alloc(count * sizeof *memory + 1);
    TRY(model_source_read_state(source, param, (enum source_state)(i / trained), memory));
    return safetensors_write(writer, memory, count * sizeof *memory);
}

static int produce(void *context, enum checkpoint_part part, size_t i, struct safetensors_writer *writer) {
    const struct model_write *write = context;
    if (part == CHECKPOINT_OPTIMIZER)
        return produce_state(write, i, writer);
    OWNED_BY(model_bytes_free) struct model_bytes bytes = {0};
    TRY(model_bytes_read(write, i, &bytes));
    return safetensors_write(writer, bytes.data, bytes.bytes);
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

static struct checkpoint_tensor *list_states(const struct model_source *source, size_t *count) {
    size_t states = !source->has_optimizer ? 0 : source->has_masters ? SOURCE_STATES : STATE_MASTER;
    struct checkpoint_tensor *list = memory_alloc((states * source->count + 1) * sizeof list[0]);
    *count = 0;
    for (size_t state = 0; state < states; state++)
        for (size_t i = 0; i < source->count - source->biases; i++)
            list[(*count)++] = (struct checkpoint_tensor){
                .name = memory_printf("%s.%s", source_state_names[state], source->tensors[i].name),
                .tensor = view_of(&source->tensors[i], DTYPE_F32)};
    return list;
}

static void free_states(struct checkpoint_tensor *list, size_t count) {
    for (size_t i = 0; i < count; i++)
        free((char *)(uintptr_t)list[i].name);
    free(list);
}

int model_write_check(const struct model_write *write) {
    const struct config *config = &write->source->config;
    if (file_exists(write->folder) && (!file_is_folder(write->folder) || !file_is_empty_folder(write->folder)))
        return error_set("%s exists and is not an empty folder; give another name or remove it", write->folder);
    return write->vocab_size <= config->model.padded_vocab_size
               ? 0
               : error_set_code(EXIT_CODE_USAGE,
                                "the model's vocabulary has %" PRId64 " rows, fewer than --vocab-size %" PRId64,
                                config->model.padded_vocab_size, write->vocab_size);
}

int model_write_renamed(const struct model_write *write, int (*make)(void *job, const char *temporary), void *job) {
    OWNED char *temporary = file_temporary_name(write->folder);
    file_sweep(write->folder);
    int result = file_make_parent(write->folder);
    if (result == 0)
        result = make(job, temporary);
    if (result == 0) {
        (void)rmdir(write->folder);  // an empty one
        result = file_rename(temporary, write->folder);
    }
    if (result < 0) {
        struct error_note *note = error_take();
        if (file_remove_tree(temporary) < 0)
            log_warn("%s", error_message());
        error_give(note);
    }
    return result;
}

int model_write_ours(const struct model_write *write) {
    struct model_source *source = write->source;
    bool is_new = !file_exists(write->folder);
    TRY(model_range_check(write));
    if (!write->leaves_optimizer)
        TRY(model_source_open_optimizer(source));
    OWNED struct checkpoint_tensor *tensors = memory_alloc((source->count + 1) * sizeof tensors[0]);
    for (size_t i = 0; i < source->count; i++) {
        const struct source_tensor *from = &source->tensors[i];
        enum dtype dtype = model_write_dtype(write, from);
        tensors[i] = (struct checkpoint_tensor){.name = from->name, .tensor = view_of(from, dtype)};
    }
    size_t state_count;
    struct checkpoint_tensor *states = list_states(source, &state_count);
    OWNED_BY(buffer_free) struct buffer json = {0};
    struct json_writer writer = {.out = &json};
    config_to_json(&source->config, &writer);
    struct checkpoint_state state = source->state;
    state.config_json = json.data;
    state.loss_scale = state.loss_scale > 0 ? state.loss_scale : 1;
    int result = checkpoint_save(&(struct checkpoint_save){.folder = write->folder,
                                                           .model = tensors,
                                                           .model_count = source->count,
                                                           .optimizer = states,
                                                           .optimizer_count = state_count,
                                                           .state = &state,
                                                           .files = source->files,
                                                           .produce = produce,
                                                           .check = check,
                                                           .context = (void *)(uintptr_t)write});
    // Removes a folder that this call created, unless it has content.
    if (result < 0 && is_new)
        (void)rmdir(write->folder);
    free_states(states, state_count);
    return result;
}
