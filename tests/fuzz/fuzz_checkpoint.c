// layer: formats
// The small files of a checkpoint from hostile bytes (MANIFEST NUL STATE NUL CONFIG NUL MARKER). A manifest must list
// plain names inside its folder with complete digests, and the writer must reproduce what was read.
#include "fuzz.h"

#include "base/memory.h"
#include "store/checkpoint.h"
#include "store/folder.h"
#include "store/manifest.h"
#include <string.h>

static const char *folder;

static void write_parts(const uint8_t *data, size_t size) {
    static const char *const names[] = {"manifest.json", "state.json", "config.json",
                                        "latest_checkpointed_iteration.txt"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const uint8_t *end = size > 0 ? memchr(data, 0, size) : NULL;
        size_t length = end ? (size_t)(end - data) : size;
        char *path = file_join(folder, names[i]);
        FILE *file = fopen(path, "wb");
        CHECK(file && fwrite(data, 1, length, file) == length && fclose(file) == 0);
        free(path);
        data += length + (end != NULL);
        size -= length + (end != NULL);
    }
}

static void check_manifest(const struct manifest *manifest) {
    CHECK(manifest->iteration >= 0);
    for (size_t i = 0; i < manifest->count; i++) {
        const struct manifest_file *file = &manifest->files[i];
        CHECK(file->name[0] && !strchr(file->name, '/') && strcmp(file->name, "..") != 0);
        CHECK(strlen(file->sha256) == 64 && strspn(file->sha256, "0123456789abcdef") == 64);
    }
    struct manifest again;
    CHECK(manifest_write(manifest, folder) == 0 && manifest_read(&again, folder) == 0);
    CHECK(manifest_digest(manifest) == manifest_digest(&again));
    manifest_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    folder = fuzz_folder();
    write_parts(data, size);
    int64_t iteration = 0;
    if (folder_marker_read(folder, &iteration) == 1)
        CHECK(iteration >= 0);
    struct checkpoint_state state;
    if (checkpoint_load_state(folder, &state) == 0)
        CHECK(state.iteration >= 0 && state.program_version);
    checkpoint_state_free(&state);
    struct manifest manifest;
    if (manifest_read(&manifest, folder) == 0)
        check_manifest(&manifest);
    manifest_free(&manifest);
    return 0;
}
