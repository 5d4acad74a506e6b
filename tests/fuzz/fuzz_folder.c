// layer: formats
// A folder that claims to be a model, ours or one of Hugging Face or Megatron-LM, from hostile parts (see parts.h). The
// tensors of a model that opens have the sizes of their shapes, and every one is read. Our own checkpoints get a
// matching manifest unless the input has one, since no guess would ever match a SHA-256.
#include "fuzz.h"

#include "base/log.h"
#include "base/memory.h"
#include "formats/model_source.h"
#include "mend.h"
#include "parts.h"
#include "store/manifest.h"
#include "store/safetensors.h"
#include <stdio.h>
#include <unistd.h>

enum { MOST_READ_BYTES = 64 << 20 };

static const char *folder;

static void write_part(const struct fuzz_part *part, const uint8_t *data) {
    char *path = file_join(folder, fuzz_part_names[part->name]);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(data + part->begin, 1, part->length, file) == part->length && fclose(file) == 0);
    free(path);
}

static void remove_parts(void) {
    for (size_t i = 0; i < FUZZ_PART_NAMES; i++) {
        char *path = file_join(folder, fuzz_part_names[i]);
        unlink(path);
        free(path);
    }
}

// The folders stay: without its files, a folder is not a model.
static void make_folders(void) {
    folder = fuzz_folder();
    for (size_t i = 0; i < FUZZ_PART_NAMES; i++) {
        char *path = file_join(folder, fuzz_part_names[i]);
        CHECK(file_make_parent(path) == 0);
        free(path);
    }
}

static void add_sums(struct manifest_file *file, const char *path, uint64_t *sums, uint64_t *ends) {
    struct safetensors tensors;
    if (safetensors_open(&tensors, path) < 0) {
        error_clear();
        CHECK(sha256_file(path, file->sha256) == 0);
        return;
    }
    const struct safetensors_tensor **order = safetensors_order(&tensors);
    size_t count = tensors.count + 1, data = 0;
    for (size_t i = 0; i < tensors.count; i++)
        data += order[i]->bytes;
    ends[0] = tensors.map.size - data;
    for (size_t i = 0; i < tensors.count; i++)
        ends[i + 1] = ends[i] + order[i]->bytes;
    struct sha256_marks marks = {.ends = ends, .sums = sums, .count = count};
    CHECK(sha256_file_marked(path, file->sha256, &marks) == 0);
    file->sums = memory_alloc(count * sizeof sums[0]);
    file->sum_count = count;
    memcpy(file->sums, sums, count * sizeof sums[0]);
    file->tensors = memory_alloc(count * sizeof file->tensors[0]);
    file->tensor_count = tensors.count;
    for (size_t i = 0; i < tensors.count; i++)
        file->tensors[i] = manifest_name_hash(order[i]->name);
    free(order);
    safetensors_close(&tensors);
}

static bool write_manifest(const char *iteration) {
    static const struct {
        const char *name, *holds;
    } files[] = {{"model.safetensors", "model"},
                 {"state.json", "state"},
                 {"config.json", "config"},
                 {"tokenizer-model_tokenizer.json", "file"}};
    static uint64_t sums[1 << 16], ends[1 << 16];  // more than an input has tensors
    struct manifest manifest = {.iteration = 1};
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        char *path = file_join(iteration, files[i].name);
        struct manifest_file file = {.name = memory_string(files[i].name), .holds = memory_string(files[i].holds)};
        if (file_exists(path)) {
            CHECK(file_size(path, &file.bytes) == 0);
            add_sums(&file, path, sums, ends);
            manifest_add(&manifest, file);
        } else {
            free(file.name);
            free(file.holds);
        }
        free(path);
    }
    bool has_any = manifest.count > 0;
    if (has_any)
        CHECK(manifest_write(&manifest, iteration) == 0 && checkpoint_verify(iteration, false) == 0);
    manifest_free(&manifest);
    return has_any;
}

// One changed bit anywhere in a file of a checkpoint is detected, and the message names the file.
static void change_bit(const char *iteration, const uint8_t *data, size_t size) {
    static const char *const names[] = {"model.safetensors", "state.json", "config.json"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char *path = file_join(iteration, names[i]);
        uint64_t bytes = 0;
        FILE *file = file_exists(path) && file_size(path, &bytes) == 0 && bytes > 0 ? fopen(path, "r+b") : NULL;
        for (int again = 0; file && again < 2; again++) {  // and back
            long at = (long)((size * 2654435761u + data[size / 2]) % bytes);
            CHECK(fseek(file, at, SEEK_SET) == 0);
            int byte = fgetc(file);
            CHECK(byte >= 0 && fseek(file, at, SEEK_SET) == 0 && fputc(byte ^ 1 << size % 8, file) >= 0 &&
                  fflush(file) == 0);
            CHECK((checkpoint_verify(iteration, false) < 0) == (again == 0));
            CHECK(again == 1 || strstr(error_message(), names[i]));
        }
        if (file)
            fclose(file);
        free(path);
    }
}

static void read_tensors(struct model_source *source) {
    size_t left = MOST_READ_BYTES;
    for (size_t i = 0; i < source->count; i++) {
        const struct source_tensor *tensor = &source->tensors[i];
        int64_t count = 1;
        for (int axis = 0; axis < tensor->rank; axis++)
            count *= tensor->shape[axis];
        CHECK(count > 0 && tensor->bytes == (size_t)count * dtype_bytes(tensor->dtype));
        if (tensor->bytes > left)
            return;
        left -= tensor->bytes;
        void *values = memory_alloc(tensor->bytes);
        (void)model_source_read(source, i, values);
        free(values);
        float *state = memory_alloc((size_t)count * sizeof *state);
        for (int k = 0; source->has_optimizer && k < (source->has_masters ? SOURCE_STATES : STATE_MASTER); k++)
            (void)model_source_read_state(source, i, (enum source_state)k, state);
        free(state);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    log_set_level(LOG_ERROR);
    if (!folder)
        make_folders();
    struct fuzz_part parts[FUZZ_MOST_PARTS];
    size_t count = fuzz_parts_read(data, size, parts);
    bool has_manifest = false;
    for (size_t i = 0; i < count; i++) {
        write_part(&parts[i], data);
        has_manifest = has_manifest || strstr(fuzz_part_names[parts[i].name], "manifest.json") != NULL;
    }
    if (!has_manifest) {
        char *iteration = file_join(folder, "iter_0000001");
        if (write_manifest(iteration) && size % 4 == 0)
            change_bit(iteration, data, size);
        free(iteration);
    }
    struct model_source source;
    struct model_source_options options = {.path = folder, .step = -1, .attention_heads = size % 2 ? 4 : 0};
    if (model_source_open(&source, &options) == 0) {
        if (model_source_open_optimizer(&source) < 0)
            source.has_optimizer = false;
        read_tensors(&source);
        model_source_close(&source);
    }
    remove_parts();
    return 0;
}

// Changes one part according to its format, and sometimes anything at all.
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed) {
    struct fuzz_part parts[FUZZ_MOST_PARTS];
    size_t count = fuzz_parts_read(data, size, parts);
    if (count == 0 || seed % 16 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    const struct fuzz_part *part = &parts[seed / 16 % count];
    const char *name = fuzz_part_names[part->name];
    size_t after = size - part->begin - part->length, most = max_size - part->begin - after;
    uint8_t *bytes = malloc(most + 1);
    memcpy(bytes, data + part->begin, part->length);
    size_t length;
    if (seed / 256 % 8 == 0)
        length = LLVMFuzzerMutate(bytes, part->length, most);
    else if (strstr(name, ".safetensors") && !strstr(name, ".json"))
        length = mend_safetensors(bytes, part->length, most);
    else if (strstr(name, ".pt") || strcmp(name, "pytorch_model.bin") == 0)
        length = mend_torch(bytes, part->length, most);
    else if (strstr(name, ".distcp"))
        length = mend_distributed(bytes, part->length, most, seed / 2048);
    else
        length = LLVMFuzzerMutate(bytes, part->length, most);
    length = length > 0xffffff ? 0xffffff : length;
    memmove(data + part->begin + length, data + part->begin + part->length, after);
    memcpy(data + part->begin, bytes, length);
    fuzz_part_head(data + part->begin - FUZZ_PART_HEAD, part->name, length);
    free(bytes);
    return part->begin + length + after;
}
