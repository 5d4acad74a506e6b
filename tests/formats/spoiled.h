// A copy of a model of tests/golden/foreign that a test damages.
#ifndef TESTS_FORMATS_SPOILED_H
#define TESTS_FORMATS_SPOILED_H

#include "base/memory.h"
#include "formats/model_source.h"
#include "store/safetensors.h"
#include "store/temporary.h"
#include "test.h"

static const char golden[] = "tests/golden/foreign";

// A folder with a copied model.
struct spoiled {
    struct temporary folder;
    char path[128];
};

static inline void copy_file(const char *from_folder, const char *to_folder, const char *name) {
    char *from = file_join(from_folder, name), *to = file_join(to_folder, name);
    if (file_exists(from)) {
        struct buffer content = read_whole(from);
        write_whole(to, buffer_string(&content), content.length);
        buffer_free(&content);
    }
    free(from);
    free(to);
}

static inline struct spoiled copy_model(const char *name) {
    static const char *const names[] = {"config.json",
                                        "model.safetensors",
                                        "pytorch_model.bin",
                                        "model.safetensors.index.json",
                                        "model-00001-of-00003.safetensors",
                                        "model-00002-of-00003.safetensors",
                                        "model-00003-of-00003.safetensors"};
    struct spoiled spoiled = {.folder = temporary_create()};
    snprintf(spoiled.path, sizeof spoiled.path, "%s/model", spoiled.folder.path);
    EXPECT_OK(file_make_folders(spoiled.path));
    char *from = file_join(golden, name);
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        copy_file(from, spoiled.path, names[i]);
    free(from);
    return spoiled;
}

static inline int open_model(const char *path) {
    struct model_source source;
    TRY(model_source_open(&source, &(struct model_source_options){.path = path, .step = -1}));
    model_source_close(&source);
    return 0;
}

// Replaces a text in a file of the folder.
static inline void replace(const struct spoiled *spoiled, const char *name, const char *from, const char *to) {
    char *path = file_join(spoiled->path, name);
    struct buffer content = read_whole(path), changed = {0};
    const char *at = strstr(buffer_string(&content), from);
    if (!at)
        test_fail("%s is not in %s", from, path);
    buffer_append(&changed, content.data, (size_t)(at - content.data));
    buffer_append_string(&changed, to);
    buffer_append_string(&changed, at + strlen(from));
    write_whole(path, changed.data, changed.length);
    buffer_free(&content);
    buffer_free(&changed);
    free(path);
}

// Rewrites model.safetensors with one tensor changed.
struct change {
    const char *tensor;
    const char *renamed;  // NULL: dropped, unless one of the others is set
    bool is_turned;       // shape (a, b) becomes (b, a)
    bool is_integer;      // i32 instead of fp32
    bool is_half;         // bf16 instead of fp32
};

static inline void rewrite(const struct spoiled *spoiled, const struct change *change) {
    char *path = file_join(spoiled->path, "model.safetensors");
    struct safetensors file;
    EXPECT_OK(safetensors_open(&file, path));
    struct safetensors_tensor *tensors = memory_alloc((file.count + 1) * sizeof tensors[0]);
    size_t count = 0;
    bool was_found = false;
    for (size_t i = 0; i < file.count; i++) {
        tensors[count] = file.tensors[i];
        if (strcmp(file.tensors[i].name, change->tensor) == 0) {
            was_found = true;
            if (!change->renamed && !change->is_turned && !change->is_integer && !change->is_half)
                continue;
            if (change->renamed)
                tensors[count].name = change->renamed;
            if (change->is_turned) {
                tensors[count].shape[0] = file.tensors[i].shape[1];
                tensors[count].shape[1] = file.tensors[i].shape[0];
            }
            if (change->is_integer)
                tensors[count].dtype = DTYPE_I32;
            if (change->is_half) {
                tensors[count].dtype = DTYPE_BF16;
                tensors[count].bytes /= 2;
            }
        }
        count++;
    }
    EXPECT(was_found);
    struct safetensors_layout layout = {.tensors = tensors, .count = count};
    struct safetensors_writer writer;
    char *fresh = memory_printf("%s.new", path);
    EXPECT_OK(safetensors_create(&writer, fresh, &layout));
    for (size_t i = 0; i < count; i++)
        EXPECT_OK(safetensors_write(&writer, tensors[i].data, tensors[i].bytes));
    EXPECT_OK(safetensors_commit(&writer, NULL));
    safetensors_close(&file);
    EXPECT_OK(file_rename(fresh, path));
    free(fresh);
    free(tensors);
    free(path);
}

#endif
