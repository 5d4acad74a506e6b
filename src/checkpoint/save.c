// Saving: everything goes into a folder with a temporary name, the manifest last; then the folder takes its name,
// and only then the marker is replaced. A kill between any two system calls leaves the old state or the new one.
#include "checkpoint/checkpoint.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "checkpoint/extra.h"
#include "checkpoint/folder.h"
#include "checkpoint/gather.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/space.h"
#include "checkpoint/stage.h"
#include "checkpoint/state.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// One safetensors file of the checkpoint.
struct part {
    const char *holds;
    const struct checkpoint_tensor *tensors;
    size_t count;
    struct gather *gather;
    struct safetensors_layout layout;  // its tensors are owned
    struct safetensors_text metadata[3];
    char iteration[24];
};

static void part_init(struct part *part, const char *holds, const struct checkpoint_tensor *tensors, size_t count) {
    *part = (struct part){.holds = holds, .tensors = tensors, .count = count};
    struct safetensors_tensor *entries = memory_alloc((count + 1) * sizeof entries[0]);
    for (size_t i = 0; i < count; i++) {
        struct tensor t = tensors[i].tensor;
        CHECK(tensor_is_contiguous(t));
        entries[i] = (struct safetensors_tensor){.name = tensors[i].name, .dtype = t.dtype};
        entries[i].rank = gather_shape(&tensors[i], entries[i].shape);
    }
    part->layout = (struct safetensors_layout){.tensors = entries, .count = count};
}

// "format": "pt" is what Hugging Face's loaders insist on.
static void part_set_metadata(struct part *part, int64_t iteration) {
    (void)snprintf(part->iteration, sizeof part->iteration, "%" PRId64, iteration);
    part->metadata[0] = (struct safetensors_text){"format", "pt"};
    part->metadata[1] = (struct safetensors_text){"iteration", part->iteration};
    part->metadata[2] = (struct safetensors_text){"program", "bevatron " BEVATRON_VERSION};
    part->layout.metadata = part->metadata;
    part->layout.metadata_count = 3;
}

static void part_free(struct part *part) {
    free((void *)(uintptr_t)part->layout.tensors);
    part->layout.tensors = NULL;
}

static int write_tensors(const struct part *part, const struct checkpoint_save *save,
                         struct safetensors_writer *writer) {
    int result = 0;
    if (save->produce) {
        for (size_t i = 0; i < part->count && result == 0; i++)
            result = save->produce(save->context, i, writer);
        return result;
    }
    struct stage stage = {.device = save->device};
    device_synchronize(save->device);
    for (size_t i = 0; i < part->count && result == 0; i++) {
        const struct checkpoint_tensor *tensor = &part->tensors[i];
        result = gather_next(part->gather, writer);
        if (result == 0 && !gather_is_split(tensor))
            result = stage_out(&stage, tensor->tensor, writer);
    }
    stage_end(&stage);
    return result;
}

static int write_part(const struct part *part, const char *folder, const struct checkpoint_save *save,
                      struct manifest *manifest) {
    struct manifest_file file = {.name = memory_printf("%s.safetensors", part->holds),
                                 .holds = memory_string(part->holds)};
    char *path = file_join(folder, file.name);
    struct safetensors_writer writer;
    int result = safetensors_create(&writer, path, &part->layout);
    if (result == 0)
        result = write_tensors(part, save, &writer);
    if (result == 0) {
        file.bytes = writer.expected_bytes;
        result = safetensors_commit(&writer, file.sha256);
    }
    if (result < 0)
        safetensors_abort(&writer);
    free(path);
    manifest_add(manifest, file);
    return result;
}

static int check_space(const char *folder, const struct part *parts, size_t count) {
    uint64_t needed = 0, available = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t bytes = 0;
        TRY(safetensors_file_bytes(&parts[i].layout, &bytes));
        needed += bytes;
    }
    TRY(file_free_bytes(folder, &available));
    return space_check(folder, needed, available);
}

static int write_folder(const struct checkpoint_save *save, const struct part *parts, size_t count,
                        const char *folder) {
    struct manifest manifest = {.iteration = save->state->iteration};
    int result = file_make_folders(folder);
    for (size_t i = 0; i < count && result == 0; i++)
        result = write_part(&parts[i], folder, save, &manifest);
    if (result == 0)
        result = state_write(save->state, folder, &manifest);
    if (result == 0)
        result = extra_write(&save->files, folder, &manifest);
    if (result == 0)
        result = manifest_write(&manifest, folder);
    if (result == 0)
        result = file_sync_folder(folder);
    manifest_free(&manifest);
    return result;
}

// Removes what was written without losing the message that says why.
static int undo(const char *folder) {
    struct error_note *note = error_take();
    if (file_remove_tree(folder) < 0)
        log_warn("%s", error_message());
    return error_give(note);
}

// Whether a folder is a checkpoint of this program: only such are ever removed.
static bool is_ours(const char *path, int64_t iteration) {
    struct manifest manifest;
    if (manifest_read(&manifest, path) < 0)
        return false;
    bool is_same = manifest.iteration == iteration;
    manifest_free(&manifest);
    return is_same;
}

static void remove_old(const struct checkpoint_save *save) {
    if (save->keep_last <= 0)
        return;
    struct folder_list list;
    if (folder_list_read(&list, save->folder) < 0) {
        log_warn("old checkpoints were not removed: %s", error_message());
        return;
    }
    int64_t kept = 1;
    for (size_t i = list.count; i-- > 0;) {
        int64_t iteration = list.iterations[i];
        bool is_retained = save->retain_interval > 0 && iteration % save->retain_interval == 0;
        if (iteration >= save->state->iteration || is_retained)
            continue;
        char *path = checkpoint_path(save->folder, iteration);
        if (is_ours(path, iteration) && ++kept > save->keep_last && folder_discard(path) < 0)
            log_warn("an old checkpoint was not removed: %s", error_message());
        free(path);
    }
    folder_list_free(&list);
    error_clear();
}

// The folder is written; gives it its name and makes it the latest.
static int publish(const struct checkpoint_save *save, const char *temporary) {
    char *path = checkpoint_path(save->folder, save->state->iteration);
    int result = folder_replace(temporary, path);
    if (result == 0) {
        result = folder_marker_write(save->folder, save->state->iteration);
        if (result < 0)
            error_context("the checkpoint %s is whole (load it with --ckpt-step %" PRId64 "), but not marked as the "
                          "latest",
                          path, save->state->iteration);
    }
    free(path);
    return result;
}

static int save_files(const struct checkpoint_save *save, struct gather *gather) {
    CHECK(save->state->iteration >= 0);
    TRY(file_make_folders(save->folder));
    folder_restore(save->folder);
    if (folder_remove_leftovers(save->folder) < 0)
        log_warn("%s", error_message());
    struct part parts[2];
    size_t count = 0;
    part_init(&parts[count++], "model", save->model, save->model_count);
    if (save->optimizer_count > 0)
        part_init(&parts[count++], "optimizer", save->optimizer, save->optimizer_count);
    for (size_t i = 0; i < count; i++)
        part_set_metadata(&parts[i], save->state->iteration);
    parts[0].gather = parts[count - 1].gather = gather;
    char *path = checkpoint_path(save->folder, save->state->iteration);
    char *temporary = file_temporary_name(path);
    int result = check_space(save->folder, parts, count);
    if (result == 0)
        result = write_folder(save, parts, count, temporary);
    if (result == 0)
        result = publish(save, temporary);
    if (result < 0)
        undo(temporary);
    else
        remove_old(save);
    for (size_t i = 0; i < count; i++)
        part_free(&parts[i]);
    free(temporary);
    free(path);
    return result;
}

int checkpoint_save(const struct checkpoint_save *save) {
    struct gather gather = {.device = save->device,
                            .group = save->shares,
                            .lists = {save->model, save->optimizer},
                            .counts = {save->model_count, save->optimizer_count}};
    if (save->shares && group_rank(save->shares) > 0) {
        gather_give(&gather);
        return 0;
    }
    int result = save_files(save, &gather);
    if (result < 0)
        gather_forget_rest(&gather);
    return result;
}
