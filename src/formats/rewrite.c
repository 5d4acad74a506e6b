// Writes a checkpoint again with another number of files. Nothing is converted: bytes go from the mapped files to the
// new ones, so it needs no more memory than the machine has for its file cache.
#include "formats/average.h"

#include "base/error.h"
#include "base/memory.h"
#include "formats/weights.h"
#include "store/checkpoint.h"

enum { MOST_FILES = 10000, BYTES_A_FILE = 64 << 20 };

static struct checkpoint_tensor *list_tensors(const struct weights *weights, uint64_t *bytes) {
    struct checkpoint_tensor *list = memory_alloc((weights->count + 1) * sizeof list[0]);
    for (size_t i = 0; i < weights->count; i++) {
        const struct weight *weight = &weights->items[i];
        struct tensor tensor = {.data = (void *)(uintptr_t)weight->data, .dtype = weight->dtype, .rank = weight->rank};
        int64_t stride = 1;
        for (int k = weight->rank; k-- > 0; stride *= weight->shape[k]) {
            tensor.shape[k] = weight->shape[k];
            tensor.stride[k] = stride;
        }
        list[i] = (struct checkpoint_tensor){.name = weight->name, .tensor = tensor};
        *bytes += weight->bytes;
    }
    return list;
}

static int check_readable(const struct weights *weights, const char *path) {
    for (size_t i = 0; i < weights->count; i++)
        if (!weights->items[i].is_readable)
            return error_set("%s: tensor \"%.200s\" has the type %s, which no checkpoint of this program has", path,
                             weights->items[i].name, weights->items[i].other_dtype);
    return 0;
}

// The opened checkpoint.
struct source {
    struct weights model, optimizer;
    struct checkpoint_state state;
    struct checkpoint_file_list files;
};

static int open_source(struct source *source, const char *path) {
    TRY(checkpoint_verify(path, false));
    TRY(weights_open_checkpoint(&source->model, path, "model"));
    if (checkpoint_has_part(path, CHECKPOINT_OPTIMIZER))
        TRY(weights_open_checkpoint(&source->optimizer, path, "optimizer"));
    TRY(check_readable(&source->model, path));
    TRY(check_readable(&source->optimizer, path));
    TRY(checkpoint_file_list_read(&source->files, path));
    return checkpoint_load_state(path, &source->state);
}

static void close_source(struct source *source) {
    weights_close(&source->model);
    weights_close(&source->optimizer);
    checkpoint_state_free(&source->state);
    checkpoint_file_list_free(&source->files);
}

static int write_source(const struct source *source, const char *folder, int64_t files) {
    uint64_t bytes = 0;
    OWNED struct checkpoint_tensor *model = list_tensors(&source->model, &bytes);
    OWNED struct checkpoint_tensor *optimizer = list_tensors(&source->optimizer, &bytes);
    if (files == 0)
        files = bytes / BYTES_A_FILE < MOST_FILES ? (int64_t)(bytes / BYTES_A_FILE) : MOST_FILES;
    return checkpoint_save(&(struct checkpoint_save){.folder = folder,
                                                     .model = model,
                                                     .model_count = source->model.count,
                                                     .optimizer = optimizer,
                                                     .optimizer_count = source->optimizer.count,
                                                     .state = &source->state,
                                                     .files = source->files,
                                                     .shares = files});
}

int checkpoint_rewrite(const char *path, const char *folder, int64_t files) {
    struct source source = {0};
    int status = open_source(&source, path);
    if (status == 0)
        status = write_source(&source, folder, files);
    close_source(&source);
    return status;
}
