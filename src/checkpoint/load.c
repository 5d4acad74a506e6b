// Loading tensors. All names, shapes and types are compared before the first element is copied, so a checkpoint of
// another model changes nothing.
#include "checkpoint/checkpoint.h"

#include "base/error.h"
#include "base/file.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "base/phase.h"
#include "checkpoint/coded.h"
#include "checkpoint/convert.h"
#include "checkpoint/gather.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/stage.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char remedy[] = "the checkpoint is of another model; give the model flags it was made with (see its "
                             "config.json), or load another one";

static const char *const part_names[] = {[CHECKPOINT_MODEL] = "model", [CHECKPOINT_OPTIMIZER] = "optimizer"};

// The files that hold one part; usually one.
struct part_files {
    struct safetensors *files;
    size_t count;
};

static void part_close(struct part_files *part) {
    for (size_t i = 0; i < part->count; i++)
        safetensors_close(&part->files[i]);
    free(part->files);
    *part = (struct part_files){0};
}

static int part_open(struct part_files *part, const char *path, enum checkpoint_part which) {
    *part = (struct part_files){0};
    struct manifest manifest;
    TRY(manifest_read(&manifest, path));
    part->files = memory_alloc(manifest.count * sizeof part->files[0]);
    int result = 0;
    for (size_t i = 0; i < manifest.count && result == 0; i++) {
        if (strcmp(manifest.files[i].holds, part_names[which]) != 0)
            continue;
        char *file_path = file_join(path, manifest.files[i].name);
        result = safetensors_open(&part->files[part->count], file_path);
        free(file_path);
        if (result == 0)
            part->count++;
    }
    manifest_free(&manifest);
    if (result == 0 && part->count == 0)
        result = error_set("the checkpoint %s has no %s state; %s", path, part_names[which],
                           which == CHECKPOINT_OPTIMIZER
                               ? "it was saved with --no-save-optim: load it with --no-load-optim or --finetune"
                               : "load another one");
    if (result < 0)
        part_close(part);
    return result;
}

static const struct safetensors_tensor *part_find(const struct part_files *part, const char *name) {
    for (size_t i = 0; i < part->count; i++) {
        const struct safetensors_tensor *found = safetensors_find(&part->files[i], name);
        if (found)
            return found;
    }
    return NULL;
}

static int check_tensor(const struct checkpoint_load *load, const struct checkpoint_tensor *wanted,
                        const struct safetensors_tensor *found) {
    CHECK((wanted->tensor.data || tensor_count(wanted->tensor) == 0) && tensor_is_contiguous(wanted->tensor));
    if (!found)
        return error_set("%s: tensor \"%s\" of this model is not in the checkpoint; %s", load->path, wanted->name,
                         remedy);
    char ours[128], theirs[128];
    tensor_describe(wanted->tensor, ours, sizeof ours);
    safetensors_describe(found, theirs, sizeof theirs);
    int64_t shape[TENSOR_MAX_RANK];
    int rank = gather_shape(wanted, shape);
    if (found->rank != rank || memcmp(found->shape, shape, (size_t)rank * sizeof shape[0]) != 0)
        return error_set("%s: tensor \"%s\" is %s in the checkpoint and %s in this model; %s", load->path, wanted->name,
                         theirs, ours, remedy);
    if (found->other_dtype || !convert_is_possible(found->dtype, coded_dtype(wanted)))
        return error_set(
            "%s: tensor \"%s\" is %s in the checkpoint and %s in this model, and one cannot be converted into "
            "the other",
            load->path, wanted->name, theirs, ours);
    return 0;
}

static int compare_wanted(const void *a, const void *b) {
    const struct checkpoint_tensor *x = a, *y = b;
    return strcmp(x->name, y->name);
}

// Unexpected tensors mean another model too, e.g. one with more layers.
static int check_rest(const struct checkpoint_load *load, const struct part_files *part) {
    struct checkpoint_tensor *sorted = memory_alloc((load->count + 1) * sizeof sorted[0]);
    if (load->count > 0) {
        memcpy(sorted, load->tensors, load->count * sizeof sorted[0]);
        qsort(sorted, load->count, sizeof sorted[0], compare_wanted);
    }
    int result = 0;
    for (size_t i = 0; i < part->count && result == 0; i++) {
        for (size_t j = 0; j < part->files[i].count && result == 0; j++) {
            const struct safetensors_tensor *found = &part->files[i].tensors[j];
            struct checkpoint_tensor key = {.name = found->name};
            if (bsearch(&key, sorted, load->count, sizeof sorted[0], compare_wanted))
                continue;
            char theirs[128];
            safetensors_describe(found, theirs, sizeof theirs);
            result = error_set("%s: tensor \"%.200s\", %s, of the checkpoint is not in this model; %s", load->path,
                               found->name, theirs, remedy);
        }
    }
    free(sorted);
    return result;
}

static int check_all(const struct checkpoint_load *load, const struct part_files *part) {
    for (size_t i = 0; i < load->count; i++)
        TRY(check_tensor(load, &load->tensors[i], part_find(part, load->tensors[i].name)));
    return load->is_partial ? 0 : check_rest(load, part);
}

static struct phase *begin_phase(const struct checkpoint_load *load) {
    double bytes = 0;
    for (size_t i = 0; i < load->count; i++)
        bytes += (double)tensor_bytes(load->tensors[i].tensor);
    return phase_begin_amount(load->part == CHECKPOINT_MODEL ? "loading the weights" : "loading the optimizer state",
                              "bytes", bytes);
}

static int load_all(const struct checkpoint_load *load, const struct part_files *part) {
    struct stage stage = {.device = load->device};
    struct phase *phase = begin_phase(load);
    int result = 0;
    for (size_t i = 0; i < load->count && result == 0; i++) {
        const struct checkpoint_tensor *wanted = &load->tensors[i];
        const struct safetensors_tensor *found = part_find(part, wanted->name);
        result = interrupt_check();
        if (result == 0)
            result = gather_take(&stage, wanted, found);
        phase_advance(phase, (int64_t)tensor_bytes(wanted->tensor));
    }
    stage_end(&stage);
    phase_end(phase);
    return result;
}

int checkpoint_load_tensors(const struct checkpoint_load *load) {
    struct part_files part;
    TRY(part_open(&part, load->path, load->part));
    int result = check_all(load, &part);
    if (result == 0)
        result = load_all(load, &part);
    part_close(&part);
    return result;
}

bool checkpoint_has_part(const char *path, enum checkpoint_part part) {
    struct manifest manifest;
    if (manifest_read(&manifest, path) < 0)
        return false;
    bool has = false;
    for (size_t i = 0; i < manifest.count; i++)
        has = has || strcmp(manifest.files[i].holds, part_names[part]) == 0;
    manifest_free(&manifest);
    return has;
}

bool checkpoint_has_tensor(const char *path, enum checkpoint_part part, const char *name) {
    struct part_files files;
    if (part_open(&files, path, part) < 0)
        return false;
    bool has = part_find(&files, name) != NULL;
    part_close(&files);
    return has;
}

int checkpoint_fits(const struct checkpoint_load *load) {
    struct part_files files;
    TRY(part_open(&files, load->path, load->part));
    bool fits = check_all(load, &files) == 0;
    part_close(&files);
    if (!fits)
        error_clear();
    return fits;
}
