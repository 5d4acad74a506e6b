// What a manifest says about tensors: a rank opens only the files that hold what it needs, and a manifest that says
// something else than its files is found out.
#include "base/file.h"
#include "base/memory.h"
#include "store/checkpoint.h"
#include "store/devices.h"
#include "store/manifest.h"
#include "store/temporary.h"
#include "test.h"

static struct device host = {.ops = &host_ops};

// Three tensors of 4 elements in three files.
enum { COUNT = 3, LENGTH = 4 };
static float values[COUNT][LENGTH], loaded[COUNT][LENGTH];
static const char *const names[COUNT] = {"a.weight", "b.weight", "c.weight"};

static struct checkpoint_tensor tensor_of(float *data, int i) {
    return (struct checkpoint_tensor){.name = names[i], .tensor = tensor_1d(data, DTYPE_F32, LENGTH)};
}

// The iter_… folder, to be freed.
static char *save_three(const char *folder) {
    struct checkpoint_tensor model[COUNT];
    struct checkpoint_state state = {.iteration = 1, .loss_scale = 1, .config_json = "{\"num_layers\": 1}"};
    for (int i = 0; i < COUNT; i++) {
        for (int k = 0; k < LENGTH; k++)
            values[i][k] = (float)(10 * i + k);
        model[i] = tensor_of(values[i], i);
    }
    memset(loaded, 0, sizeof loaded);
    EXPECT_OK(checkpoint_save(&(struct checkpoint_save){
        .folder = folder, .device = &host, .model = model, .model_count = COUNT, .shares = COUNT, .state = &state}));
    return checkpoint_path(folder, 1);
}

// Number of the file that holds a tensor, as its own header says.
static int file_with(const struct manifest *manifest, const char *path, const char *name) {
    int found = -1;
    for (size_t i = 0; i < manifest->count; i++) {
        struct buffer bytes = {0};
        char *file = file_join(path, manifest->files[i].name);
        if (strcmp(manifest->files[i].holds, "model") == 0 && file_read_all(file, 1 << 20, &bytes) == 0 &&
            memmem(bytes.data, bytes.length, name, strlen(name)))
            found = (int)i;
        buffer_free(&bytes);
        free(file);
    }
    return found;
}

static void spoil(const struct manifest *manifest, const char *path, const char *name) {
    char *file = file_join(path, manifest->files[file_with(manifest, path, name)].name);
    EXPECT_OK(file_write_all(file, "nothing", 7));
    free(file);
}

static struct checkpoint_load load_of(const char *path, const struct checkpoint_tensor *tensors, size_t count) {
    return (struct checkpoint_load){.path = path,
                                    .part = CHECKPOINT_MODEL,
                                    .device = &host,
                                    .tensors = tensors,
                                    .count = count,
                                    .is_partial = true};
}

// The first digits of Python's hashlib.sha256(name.encode()).hexdigest().
TEST(names_are_hashed_as_documented) {
    EXPECT_INT(manifest_name_hash("decoder.final_layernorm.bias"), 0xa8d109b566c7);
    EXPECT_INT(manifest_name_hash("w"), 0x50e721e49c01);
    EXPECT_INT(manifest_name_hash(""), 0xe3b0c44298fc);
}

TEST(only_needed_files_are_opened) {
    struct temporary t = temporary_create();
    char *path = save_three(t.path);
    struct manifest manifest;
    EXPECT_OK(manifest_read(&manifest, path));
    spoil(&manifest, path, names[2]);
    struct checkpoint_tensor wanted[COUNT] = {tensor_of(loaded[0], 0), tensor_of(loaded[1], 1)};
    struct checkpoint_load load = load_of(path, wanted, 2);
    EXPECT_OK(checkpoint_load_tensors(&load));
    EXPECT(memcmp(loaded, values, 2 * sizeof values[0]) == 0);
    EXPECT_INT(checkpoint_fits(&load), 1);
    // A rank that has no elements of a tensor does not need its file either; but the tensor must be there.
    wanted[2] = (struct checkpoint_tensor){.name = names[2], .tensor = tensor_1d(NULL, DTYPE_F32, 0)};
    load.count = COUNT;
    EXPECT_OK(checkpoint_load_tensors(&load));
    wanted[2].name = "d.weight";
    EXPECT_ERROR(checkpoint_load_tensors(&load), "tensor \"d.weight\" of this model is not in the checkpoint");
    EXPECT(checkpoint_has_tensor(path, CHECKPOINT_MODEL, names[2]));
    EXPECT(!checkpoint_has_tensor(path, CHECKPOINT_MODEL, "d.weight"));
    // One that has some does.
    wanted[2] = tensor_of(loaded[2], 2);
    EXPECT_ERROR(checkpoint_load_tensors(&load), "of-00003.safetensors");
    manifest_free(&manifest);
    free(path);
    temporary_remove(&t);
}

// A whole model that has fewer tensors than the checkpoint is another model.
TEST(tensors_too_many_are_found) {
    struct temporary t = temporary_create();
    char *path = save_three(t.path);
    struct checkpoint_tensor wanted[2] = {tensor_of(loaded[0], 0), tensor_of(loaded[1], 1)};
    struct checkpoint_load load = load_of(path, wanted, 2);
    load.is_partial = false;
    EXPECT_ERROR(checkpoint_load_tensors(&load),
                 "tensor \"c.weight\", fp32 (4), of the checkpoint is not in this model");
    free(path);
    temporary_remove(&t);
}

// A program that does not know a member of the manifest must be told by the version.
static void expect_version(const char *folder, int version) {
    char *path = file_join(folder, "manifest.json"), wanted[32];
    struct buffer text = {0};
    snprintf(wanted, sizeof wanted, "\"version\": %d,", version);
    EXPECT_OK(file_read_all(path, MANIFEST_MOST_BYTES, &text));
    EXPECT(strstr(buffer_string(&text), wanted) != NULL);
    buffer_free(&text);
    free(path);
}

// Older programs did not list tensors: all files are opened, whatever is in them.
TEST(older_manifests_are_read) {
    struct temporary t = temporary_create();
    char *path = save_three(t.path);
    struct manifest manifest;
    EXPECT_OK(manifest_read(&manifest, path));
    expect_version(path, 2);
    for (size_t i = 0; i < manifest.count; i++) {
        free(manifest.files[i].tensors);
        manifest.files[i].tensors = NULL;
        manifest.files[i].tensor_count = 0;
    }
    EXPECT_OK(manifest_write(&manifest, path));
    expect_version(path, 1);
    EXPECT_OK(checkpoint_verify(path, false));
    struct checkpoint_tensor wanted[COUNT];
    for (int i = 0; i < COUNT; i++)
        wanted[i] = tensor_of(loaded[i], i);
    struct checkpoint_load load = load_of(path, wanted, COUNT);
    EXPECT_OK(checkpoint_load_tensors(&load));
    EXPECT(memcmp(loaded, values, sizeof values) == 0);
    EXPECT(checkpoint_has_tensor(path, CHECKPOINT_MODEL, names[2]));
    EXPECT(!checkpoint_has_tensor(path, CHECKPOINT_MODEL, "d.weight"));
    manifest_free(&manifest);
    free(path);
    temporary_remove(&t);
}

TEST(wrong_lists_are_found) {
    struct temporary t = temporary_create();
    char *path = save_three(t.path);
    struct manifest manifest;
    EXPECT_OK(manifest_read(&manifest, path));
    int at = file_with(&manifest, path, names[0]);
    manifest.files[at].tensors[0] ^= 1;
    EXPECT_OK(manifest_write(&manifest, path));
    EXPECT_ERROR(checkpoint_verify(path, false), "the manifest lists other tensors for it");
    manifest.files[at].tensor_count = 0;
    EXPECT_OK(manifest_write(&manifest, path));
    EXPECT_ERROR(checkpoint_verify(path, false), "has 2 checksums for 0 tensors");
    manifest_free(&manifest);
    free(path);
    temporary_remove(&t);
}

// Two files for each of thousands of ranks.
TEST(many_files) {
    enum { FILES = 24000 };
    struct temporary t = temporary_create();
    struct manifest manifest = {0}, again;
    for (int i = 0; i < FILES; i++) {
        struct manifest_file file = {.name = memory_printf("model-%05d.safetensors", i),
                                     .holds = memory_string("model")};
        memset(file.sha256, '0', 64);
        manifest_add(&manifest, file);
    }
    EXPECT_OK(manifest_write(&manifest, t.path));
    EXPECT_OK(manifest_read(&again, t.path));
    EXPECT_INT(again.count, FILES);
    manifest_free(&again);
    memcpy(manifest.files[FILES - 1].name, manifest.files[5].name, strlen(manifest.files[5].name));
    EXPECT_OK(manifest_write(&manifest, t.path));
    EXPECT_ERROR(manifest_read(&again, t.path), "it lists \"model-00005.safetensors\" twice");
    manifest_free(&manifest);
    temporary_remove(&t);
}

TEST_MAIN(TEST_CASE(names_are_hashed_as_documented), TEST_CASE(only_needed_files_are_opened),
          TEST_CASE(tensors_too_many_are_found), TEST_CASE(older_manifests_are_read), TEST_CASE(wrong_lists_are_found),
          TEST_CASE(many_files))
