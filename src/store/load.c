// Loads tensors. All names, shapes and types are compared before the first element is copied, so a checkpoint of
// another model changes nothing. A rank opens only the files that hold elements of its own, as far as the manifest
// lists them (older ones do not): with thousands of ranks, opening all of them would take hours.
#include "store/checkpoint.h"

#include "base/error.h"
#include "base/file.h"
#include "base/file_patience.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include "base/phase.h"
#include "store/convert.h"
#include "store/gather.h"
#include "store/manifest.h"
#include "store/safetensors.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char remedy[] = "the checkpoint is of another model; give the model flags it was made with (see its "
                             "config.json), or load another one";

static const char *const part_names[] = {[CHECKPOINT_MODEL] = "model", [CHECKPOINT_OPTIMIZER] = "optimizer"};

// The files of one part that this rank needs; often one.
struct part_files {
    struct safetensors *files;
    size_t count;
    uint64_t *others;  // hashes of the names of the tensors in the other files of the part, ascending
    size_t other_count;
};

static void part_close(struct part_files *part) {
    for (size_t i = 0; i < part->count; i++)
        safetensors_close(&part->files[i]);
    free(part->files);
    free(part->others);
    *part = (struct part_files){0};
}

static bool is_empty(const struct checkpoint_tensor *wanted) {
    return tensor_count(wanted->tensor) == 0;
}

// The hash of a requested tensor's name.
struct wanted_hash {
    uint64_t hash;
    bool is_empty;  // this rank has no elements of it
};

static int compare_hashes(const void *a, const void *b) {
    const struct wanted_hash *x = a, *y = b;
    return x->hash < y->hash ? -1 : x->hash > y->hash;
}

// Ascending, to be freed.
static struct wanted_hash *list_wanted(const struct checkpoint_load *load) {
    struct wanted_hash *list = memory_alloc((load->count + 1) * sizeof list[0]);
    for (size_t i = 0; i < load->count; i++)
        list[i] = (struct wanted_hash){manifest_name_hash(load->tensors[i].name), is_empty(&load->tensors[i])};
    qsort(list, load->count, sizeof list[0], compare_hashes);
    return list;
}

// Whether the file has, or may have, elements for this rank, or an unexpected tensor.
static bool is_needed(const struct checkpoint_load *load, const struct wanted_hash *list,
                      const struct manifest_file *file) {
    bool is = !file->tensors;
    for (size_t i = 0; i < file->tensor_count && !is; i++) {
        struct wanted_hash key = {.hash = file->tensors[i]}, *found = NULL;
        if (load->count > 0)
            found = bsearch(&key, list, load->count, sizeof list[0], compare_hashes);
        is = found ? !found->is_empty : !load->is_partial;
    }
    return is;
}

static int compare_numbers(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void note_others(struct part_files *part, const struct manifest_file *file) {
    part->others = memory_realloc(part->others, (part->other_count + file->tensor_count + 1) * sizeof part->others[0]);
    memcpy(part->others + part->other_count, file->tensors, file->tensor_count * sizeof part->others[0]);
    part->other_count += file->tensor_count;
}

static int open_files(struct part_files *part, const struct checkpoint_load *load) {
    const char *name = part_names[load->part];
    *part = (struct part_files){0};
    OWNED_BY(manifest_free) struct manifest manifest = {0};
    TRY(manifest_read(&manifest, load->path));
    part->files = memory_alloc(manifest.count * sizeof part->files[0]);
    OWNED struct wanted_hash *list = list_wanted(load);
    int result = 0;
    bool has_any = false;
    for (size_t i = 0; i < manifest.count && result == 0; i++) {
        const struct manifest_file *file = &manifest.files[i];
        if (strcmp(file->holds, name) != 0)
            continue;
        has_any = true;
        if (!is_needed(load, list, file)) {
            note_others(part, file);
            continue;
        }
        OWNED char *file_path = file_join(load->path, file->name);
        result = safetensors_open(&part->files[part->count], file_path);
        if (result == 0)
            part->count++;
    }
    if (part->other_count > 0)
        qsort(part->others, part->other_count, sizeof part->others[0], compare_numbers);
    if (result == 0 && !has_any)
        result = error_set("the checkpoint %s has no %s state; %s", load->path, name,
                           load->part == CHECKPOINT_OPTIMIZER
                               ? "it was saved with --no-save-optim: load it with --no-load-optim or --finetune"
                               : "load another one");
    if (result < 0)
        part_close(part);
    return result;
}

static int part_open(struct part_files *part, const struct checkpoint_load *load) {
    FILE_PATIENCE();
    return file_answer(open_files(part, load));
}

static const struct safetensors_tensor *part_find(const struct part_files *part, const char *name) {
    for (size_t i = 0; i < part->count; i++) {
        const struct safetensors_tensor *found = safetensors_find(&part->files[i], name);
        if (found)
            return found;
    }
    return NULL;
}

// Whether the manifest lists the tensor in a file that was not opened.
static bool is_elsewhere(const struct part_files *part, const char *name) {
    uint64_t hash = manifest_name_hash(name);
    return part->other_count > 0 && bsearch(&hash, part->others, part->other_count, sizeof hash, compare_numbers);
}

// Ranks without elements of a tensor leave the comparison of its shape to those with some.
static int check_tensor(const struct checkpoint_load *load, const struct part_files *part,
                        const struct checkpoint_tensor *wanted) {
    const struct safetensors_tensor *found = part_find(part, wanted->name);
    CHECK((wanted->tensor.data || is_empty(wanted)) && tensor_is_contiguous(wanted->tensor));
    if (!found && is_empty(wanted) && is_elsewhere(part, wanted->name))
        return 0;
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
    OWNED struct checkpoint_tensor *sorted = memory_alloc((load->count + 1) * sizeof sorted[0]);
    if (load->count > 0) {
        memcpy(sorted, load->tensors, load->count * sizeof sorted[0]);
        qsort(sorted, load->count, sizeof sorted[0], compare_wanted);
    }
    for (size_t i = 0; i < part->count; i++) {
        for (size_t j = 0; j < part->files[i].count; j++) {
            const struct safetensors_tensor *found = &part->files[i].tensors[j];
            struct checkpoint_tensor key = {.name = found->name};
            if (bsearch(&key, sorted, load->count, sizeof sorted[0], compare_wanted))
                continue;
            char theirs[128];
            safetensors_describe(found, theirs, sizeof theirs);
            return error_set("%s: tensor \"%.200s\", %s, of the checkpoint is not in this model; %s", load->path,
                             found->name, theirs, remedy);
        }
    }
    return 0;
}

static int check_all(const struct checkpoint_load *load, const struct part_files *part) {
    for (size_t i = 0; i < load->count; i++)
        TRY(check_tensor(load, part, &load->tensors[i]));
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
        if (result == 0 && found)
            result = gather_take(&stage, wanted, found);
        phase_advance(phase, (int64_t)tensor_bytes(wanted->tensor));
    }
    stage_end(&stage);
    phase_end(phase);
    return result;
}

int checkpoint_load_tensors(const struct checkpoint_load *load) {
    OWNED_BY(part_close) struct part_files part = {0};
    TRY(part_open(&part, load));
    TRY(check_all(load, &part));
    return load_all(load, &part);
}

// Ends the program if the checkpoint could not be read: the answer "no" would ignore what it holds.
static void end_question(void) {
    if (file_doubt() < 0)
        die_code(error_exit_code(), "%s", error_message());
}

bool checkpoint_has_part(const char *path, enum checkpoint_part part) {
    OWNED_BY(manifest_free) struct manifest manifest = {0};
    FILE_PATIENCE();
    int result = manifest_read(&manifest, path);
    end_question();
    bool has = false;
    for (size_t i = 0; result == 0 && i < manifest.count; i++)
        has = has || strcmp(manifest.files[i].holds, part_names[part]) == 0;
    return has;
}

// Only files whose tensors the manifest does not list are opened.
bool checkpoint_has_tensor(const char *path, enum checkpoint_part part, const char *name) {
    OWNED_BY(part_close) struct part_files files = {0};
    const struct checkpoint_load load = {.path = path, .part = part, .is_partial = true};
    FILE_PATIENCE();
    int result = open_files(&files, &load);
    end_question();
    return result == 0 && (part_find(&files, name) || is_elsewhere(&files, name));
}

int checkpoint_fits(const struct checkpoint_load *load) {
    OWNED_BY(part_close) struct part_files files = {0};
    TRY(part_open(&files, load));
    bool fits = check_all(load, &files) == 0;
    if (!fits)
        error_clear();
    return fits;
}
