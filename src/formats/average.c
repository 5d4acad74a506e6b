// Averages of checkpoints, see average.h: a model source whose tensors are the averages of those of other sources.
#include "formats/average.h"

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "formats/source_kind.h"
#include "formats/weights.h"
#include "model/likeness.h"
#include "optim/optimizer.h"
#include "store/checkpoint.h"
#include "store/convert.h"
#include "store/folder.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- which checkpoints ----

static int add_path(struct average_list *list, char *path) {
    for (size_t i = 0; i < list->count; i++)
        if (file_is_same(list->paths[i], path)) {
            int status = error_set("%s is named twice; name every checkpoint once", path);
            free(path);
            return status;
        }
    list->paths = memory_realloc(list->paths, (list->count + 1) * sizeof list->paths[0]);
    list->paths[list->count++] = path;
    return 0;
}

// The path without trailing slashes, so that a checkpoint has one name.
static char *plain_path(const char *path) {
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    char *plain = memory_string(path);
    plain[length] = '\0';
    return plain;
}

static int add_last(struct average_list *list, const char *folder, int64_t last) {
    OWNED_BY(folder_list_free) struct folder_list found = {0};
    TRY(folder_list_read(&found, folder));
    int status = 0;
    if (found.count == 0)
        status = error_set_code(EXIT_CODE_NO_CHECKPOINT, "%s has no checkpoint; name a --save folder", folder);
    else if ((uint64_t)last > found.count)
        status =
            error_set("%s has %zu checkpoint%s, not %" PRId64 "; give --last %zu, or save more often and keep them "
                      "(--save-interval, --keep-last)",
                      folder, found.count, found.count == 1 ? "" : "s", last, found.count);
    for (size_t i = 0; status == 0 && i < (size_t)last; i++)
        status = add_path(list, checkpoint_path(folder, found.iterations[found.count - 1 - i]));
    return status;
}

int average_list_add(struct average_list *list, const char *folder, int64_t last) {
    struct contents contents;
    TRY(contents_look(&contents, folder, -1));
    if (contents_is_foreign(&contents))
        return error_set("%s is a model of another program; convert it first: bevatron checkpoint convert --input %s "
                         "--output DIR --to bevatron",
                         folder, folder);
    char *plain = plain_path(folder);
    if (file_is_in(plain, "manifest.json"))
        return add_path(list, plain);
    int status = add_last(list, plain, last);
    free(plain);
    return status;
}

int average_list_add_step(struct average_list *list, const char *folder, int64_t iteration) {
    char *plain = plain_path(folder), *path = checkpoint_path(plain, iteration);
    free(plain);
    if (!file_is_in(path, "manifest.json")) {
        int status = error_set_code(EXIT_CODE_NO_CHECKPOINT,
                                    "there is no checkpoint %s; run bevatron checkpoint "
                                    "inspect %s to see which there are",
                                    path, folder);
        free(path);
        return status;
    }
    return add_path(list, path);
}

void average_list_free(struct average_list *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->paths[i]);
    free(list->paths);
    *list = (struct average_list){0};
}

// By iteration, then by path.
static int compare_paths(const void *a, const void *b) {
    const char *one = *(char *const *)a, *other = *(char *const *)b;
    int64_t first = folder_own_iteration(one), second = folder_own_iteration(other);
    return first != second ? (first > second ? 1 : -1) : strcmp(one, other);
}

// ---- their average ----

// One of the checkpoints that are averaged.
struct averaged_member {
    struct model_source source;
    struct weights optimizer;  // empty if it has none
};

struct averaged {
    struct averaged_member *members;  // the newest is last
    size_t count;
    bool is_ema;
};

// The optimizer's tensor that is read instead of the model's: the moving average or the fp32 master; NULL if there is
// none.
static const struct weight *finer(const struct averaged *averaged, const struct averaged_member *member,
                                  const char *name) {
    OWNED char *other = memory_printf("%s.%s", averaged->is_ema ? OPTIMIZER_AVERAGE : "master", name);
    return weights_find(&member->optimizer, other);
}

// Adds a member's elements, in fp32, to the sums.
static int add_member(const struct averaged *averaged, struct averaged_member *member, size_t i, double *sums) {
    const struct source_tensor *tensor = &member->source.tensors[i];
    const struct weight *weight = finer(averaged, member, tensor->name);
    size_t count = tensor->bytes / dtype_bytes(tensor->dtype), bytes = weight ? weight->bytes : tensor->bytes;
    enum dtype dtype = weight ? weight->dtype : tensor->dtype;
    OWNED unsigned char *read = memory_alloc(bytes + 1);
    OWNED float *values = memory_alloc(count * sizeof *values + 1);
    TRY(weight ? weight_read(weight, read) : model_source_read(&member->source, i, read));
    convert_elements(
        &(struct convert){.to = values, .to_dtype = DTYPE_F32, .from = read, .from_dtype = dtype, .count = count});
    for (size_t n = 0; n < count; n++)
        sums[n] += (double)values[n];
    return 0;
}

static int read_average(struct model_source *source, size_t i, void *to) {
    const struct averaged *averaged = source->detail;
    size_t count = source->tensors[i].bytes / sizeof(float);
    OWNED double *sums = memory_alloc(count * sizeof *sums + 1);
    for (size_t k = 0; k < averaged->count; k++)
        TRY(add_member(averaged, &averaged->members[k], i, sums));
    for (size_t n = 0; n < count; n++) {
        float mean = (float)(sums[n] / (double)averaged->count);
        memcpy((unsigned char *)to + n * sizeof mean, &mean, sizeof mean);
    }
    return 0;
}

static const struct model_source_kind source_average = {.name = "bevatron", .read = read_average};

// Every tensor must be present in the model's shape. Biases that balance experts are not parameters: the model's are
// averaged.
static int check_finer(const struct averaged *averaged, const struct averaged_member *member, const char *path) {
    for (size_t i = 0; i < member->source.count - member->source.biases; i++) {
        const struct source_tensor *tensor = &member->source.tensors[i];
        const struct weight *weight = finer(averaged, member, tensor->name);
        if (!weight && averaged->is_ema)
            return error_set("%s keeps no moving average of %s; only runs with --ema-decay do", path, tensor->name);
        if (!weight)
            continue;
        if (!weight->is_readable || !convert_is_possible(weight->dtype, DTYPE_F32) ||
            weight->bytes / dtype_bytes(weight->dtype) != tensor->bytes / dtype_bytes(tensor->dtype))
            return error_set("%s: the optimizer's tensor for %s does not match the model's shape", path, tensor->name);
    }
    return 0;
}

static int check_same_model(const struct averaged_member *first, const struct averaged_member *other,
                            const struct average_list *list, size_t i) {
    OWNED_BY(buffer_free) struct buffer differences = {0};
    likeness_compare(&first->source.config, &other->source.config, LIKENESS_SAME, &differences);
    int status = 0;
    if (differences.length > 0)
        status = error_set("%s and %s are different models: %s; average checkpoints of one model", list->paths[0],
                           list->paths[i], buffer_string(&differences));
    else if (first->source.config.model.apply_layernorm_1p != other->source.config.model.apply_layernorm_1p)
        status = error_set("%s and %s store gains of norms in different ways (--apply-layernorm-1p); average "
                           "checkpoints of one model",
                           list->paths[0], list->paths[i]);
    else if (first->source.count != other->source.count)
        status = error_set("%s and %s have different numbers of tensors; average checkpoints of one model",
                           list->paths[0], list->paths[i]);
    for (size_t n = 0; status == 0 && n < first->source.count; n++) {
        const struct source_tensor *one = &first->source.tensors[n], *its = &other->source.tensors[n];
        if (strcmp(one->name, its->name) != 0 || one->rank != its->rank ||
            memcmp(one->shape, its->shape, (size_t)one->rank * sizeof one->shape[0]) != 0)
            status = error_set("%s of %s and %s of %s differ in name or shape; average checkpoints of one model",
                               one->name, list->paths[0], its->name, list->paths[i]);
    }
    return status;
}

static int open_member(struct averaged *averaged, struct average *average, size_t i) {
    struct averaged_member *member = &averaged->members[i];
    const char *path = average->list->paths[i];
    TRY(model_source_open(&member->source, &(struct model_source_options){.path = path, .step = -1}));
    averaged->count++;
    if (checkpoint_has_part(path, CHECKPOINT_OPTIMIZER))
        TRY(weights_open_checkpoint(&member->optimizer, path, "optimizer"));
    TRY(check_same_model(&averaged->members[0], member, average->list, i));
    TRY(check_finer(averaged, member, path));
    average->from_masters += finer(averaged, member, member->source.tensors[0].name) != NULL;
    return 0;
}

// Writes the newest checkpoint with the averaged tensors.
static int write_averaged(struct averaged *averaged, struct average *average) {
    struct model_source source = averaged->members[averaged->count - 1].source;
    OWNED struct source_tensor *tensors = memory_alloc((source.count + 1) * sizeof tensors[0]);
    enum dtype dtype = source.tensors[0].dtype;
    for (size_t i = 0; i < source.count; i++) {
        tensors[i] = source.tensors[i];
        tensors[i].bytes = tensors[i].bytes / dtype_bytes(tensors[i].dtype) * sizeof(float);
        tensors[i].dtype = DTYPE_F32;
    }
    source.tensors = tensors;
    source.of = &source_average;
    source.detail = averaged;
    average->iteration = source.state.iteration;
    return model_write_ours(&(struct model_write){.source = &source,
                                                  .folder = average->folder,
                                                  .has_dtype = true,
                                                  .dtype = average->has_dtype ? average->dtype : dtype});
}

int average_write(struct average *average) {
    struct average_list *list = average->list;
    if (list->count > AVERAGE_MOST)
        return error_set("%zu checkpoints are too many; average at most %d", list->count, AVERAGE_MOST);
    qsort(list->paths, list->count, sizeof list->paths[0], compare_paths);
    struct averaged averaged = {.members = memory_alloc(list->count * sizeof averaged.members[0]),
                                .is_ema = average->is_ema};
    average->from_masters = 0;
    int status = 0;
    for (size_t i = 0; status == 0 && i < list->count; i++)
        status = open_member(&averaged, average, i);
    if (status == 0)
        status = write_averaged(&averaged, average);
    for (size_t i = 0; i < averaged.count; i++) {
        weights_close(&averaged.members[i].optimizer);
        model_source_close(&averaged.members[i].source);
    }
    free(averaged.members);
    return status;
}

// ---- one checkpoint, divided among other files ----

// Nothing is converted: bytes go from the mapped files to the new ones, so it needs no more memory than the machine has
// for its file cache.

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
