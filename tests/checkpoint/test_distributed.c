// Distributed checkpoints (torch_dist) that megatron-core wrote (tests/golden/make_distributed.py): tensors of several
// ranks are put together; what is missing, cut, changed or leads out of the folder is told; no damage does harm. That
// their models compute megatron-core's logits is shown by tests/train/test_foreign.c.
#include "base/memory.h"
#include "checkpoint/distributed.h"
#include "checkpoint/model_source.h"
#include "temporary.h"

static const char golden[] = "tests/golden/foreign/megatron_dist_llama/iter_0000100";
static const char *const files[] = {".metadata",    "metadata.json", "common.pt",   "__0_0.distcp",
                                    "__0_1.distcp", "__1_0.distcp",  "__1_1.distcp"};
enum { FILE_COUNT = sizeof files / sizeof files[0], METADATA = 0, COMMON = 2, FIRST_DATA = 3 };

// A copy of the checkpoint that a test may spoil.
struct copy {
    struct temporary temporary;
    const char *folder;
    struct buffer bytes[FILE_COUNT];
};

static void write_file(const struct copy *copy, int file) {
    char *path = file_join(copy->folder, files[file]);
    write_whole(path, copy->bytes[file].data, copy->bytes[file].length);
    free(path);
}

static void make_copy(struct copy *copy) {
    *copy = (struct copy){.temporary = temporary_create_fast()};
    copy->folder = copy->temporary.path;
    for (int i = 0; i < FILE_COUNT; i++) {
        char *path = file_join(golden, files[i]);
        copy->bytes[i] = read_whole(path);
        free(path);
        write_file(copy, i);
    }
}

static void end_copy(struct copy *copy) {
    for (int i = 0; i < FILE_COUNT; i++)
        buffer_free(&copy->bytes[i]);
    temporary_remove(&copy->temporary);
}

// Opens the model and reads all of it.
static int read_model(const char *folder) {
    struct model_source source;
    if (model_source_open(&source, &(struct model_source_options){.path = folder, .step = -1}) < 0)
        return -1;
    int result = 0;
    for (size_t i = 0; i < source.count && result == 0; i++) {
        void *memory = memory_alloc(source.tensors[i].bytes + 1);
        result = model_source_read(&source, i, memory);
        free(memory);
    }
    model_source_close(&source);
    return result;
}

static bool is_wanted(const char *name) {
    return strstr(name, "linear_fc1.weight") || strstr(name, "word_embeddings");
}

TEST(pieces) {
    struct distributed checkpoint;
    EXPECT_OK(distributed_open(&checkpoint, golden, is_wanted));
    EXPECT_INT(checkpoint.count, 2);
    for (size_t i = 0; i < checkpoint.count; i++) {
        const struct distributed_tensor *tensor = &checkpoint.tensors[i];
        bool is_stack = strstr(tensor->name, "layers") != NULL;
        EXPECT_INT(tensor->rank, is_stack ? 3 : 2);
        EXPECT_INT(tensor->piece_count, is_stack ? 12 : 2);  // three layers of two halves on two ranks
        EXPECT_STRING(tensor->dtype->name, "float32");
        size_t layer = (size_t)(tensor->shape[tensor->rank - 2] * tensor->shape[tensor->rank - 1]) * sizeof(float);
        size_t layers = is_stack ? (size_t)tensor->shape[0] : 1;
        unsigned char *whole = memory_alloc(layer * layers), *part = memory_alloc(layer);
        EXPECT_OK(distributed_read(&checkpoint, tensor, DISTRIBUTED_ALL, whole));
        for (size_t k = 0; is_stack && k < layers; k++) {
            EXPECT_OK(distributed_read(&checkpoint, tensor, (int64_t)k, part));
            EXPECT(memcmp(part, whole + k * layer, layer) == 0);
        }
        free(whole);
        free(part);
    }
    distributed_close(&checkpoint);
}

TEST(what_is_missing) {
    struct copy copy;
    make_copy(&copy);
    EXPECT_OK(read_model(copy.folder));
    char *path = file_join(copy.folder, files[COMMON]);
    EXPECT_INT(unlink(path), 0);
    EXPECT_ERROR(read_model(copy.folder), "common.pt is missing");
    free(path);
    write_file(&copy, COMMON);
    path = file_join(copy.folder, files[FIRST_DATA]);
    EXPECT_INT(unlink(path), 0);
    EXPECT_ERROR(read_model(copy.folder), "__0_0.distcp");
    free(path);
    copy.bytes[FIRST_DATA].length -= 100;
    write_file(&copy, FIRST_DATA);
    EXPECT_ERROR(read_model(copy.folder), "the file was cut");
    end_copy(&copy);
}

// Every place where one text stands becomes another of the same length.
static void replace(struct buffer *bytes, const char *from, const char *to) {
    size_t length = strlen(from), count = 0;
    EXPECT_INT(length, strlen(to));
    for (size_t i = 0; i + length <= bytes->length; i++)
        if (memcmp(bytes->data + i, from, length) == 0) {
            memcpy(bytes->data + i, to, length);
            count++;
        }
    EXPECT(count > 0);
}

TEST(places_outside) {
    struct copy copy;
    make_copy(&copy);
    replace(&copy.bytes[METADATA], "__1_0.distcp", "../../passwd");
    write_file(&copy, METADATA);
    EXPECT_ERROR(read_model(copy.folder), "no file of the folder");
    replace(&copy.bytes[METADATA], "../../passwd", "__1_1.distcp");  // pieces of other tensors
    write_file(&copy, METADATA);
    EXPECT(read_model(copy.folder) < 0);
    end_copy(&copy);
}

TEST(names_that_would_call) {
    struct copy copy;
    make_copy(&copy);
    replace(&copy.bytes[METADATA], "torch.distributed.checkpoint.planner", "subprocess.distributed.chec.planners");
    write_file(&copy, METADATA);
    EXPECT_ERROR(read_model(copy.folder), "nothing of it was executed");
    end_copy(&copy);
}

// The checksums of the archives within find what changes in tensors; in the rest, damage is an error or harmless.
TEST(damage) {
    struct copy copy;
    make_copy(&copy);
    for (int file = 0; file < FILE_COUNT; file++) {
        size_t step = file == METADATA ? 61 : 977;
        int refused = 0;
        for (size_t i = 0; i < copy.bytes[file].length; i += step) {
            copy.bytes[file].data[i] ^= (char)(1 << i % 8);
            write_file(&copy, file);
            refused += read_model(copy.folder) < 0;
            copy.bytes[file].data[i] ^= (char)(1 << i % 8);
        }
        write_file(&copy, file);
        EXPECT(refused > 0 || file == METADATA + 1);
    }
    for (size_t length = 0; length < copy.bytes[METADATA].length; length += 331) {
        struct buffer whole = copy.bytes[METADATA];
        copy.bytes[METADATA].length = length;
        write_file(&copy, METADATA);
        EXPECT(read_model(copy.folder) < 0);
        copy.bytes[METADATA] = whole;
    }
    end_copy(&copy);
}

TEST_MAIN(TEST_CASE(pieces), TEST_CASE(what_is_missing), TEST_CASE(places_outside), TEST_CASE(names_that_would_call),
          TEST_CASE(damage))
