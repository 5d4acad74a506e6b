// Megatron checkpoints in zip archives: the same model as the packed folder, compressed or not; with changed bytes an
// error or the same model; and archives of other content are left to other readers.
#include "base/file.h"
#include "base/memory.h"
#include "data/extract/codec.h"
#include "formats/contents.h"
#include "formats/model_source.h"
#include "formats/torch_file.h"
#include "test.h"
#include <stdlib.h>
#include <unistd.h>

#define FOREIGN "tests/golden/foreign/"

static struct model_source_options options_of(const char *path, int64_t step) {
    return (struct model_source_options){.path = path, .step = step, .attention_heads = 6};
}

// Whether both have the same tensors, byte for byte.
static bool is_same(struct model_source *a, struct model_source *b) {
    bool same = a->count == b->count && a->config.model.num_layers == b->config.model.num_layers;
    for (size_t i = 0; i < a->count && same; i++) {
        same = strcmp(a->tensors[i].name, b->tensors[i].name) == 0 && a->tensors[i].bytes == b->tensors[i].bytes;
        unsigned char *x = memory_alloc(a->tensors[i].bytes + 1), *y = memory_alloc(b->tensors[i].bytes + 1);
        same = same && model_source_read(a, i, x) == 0 && model_source_read(b, i, y) == 0 &&
               memcmp(x, y, a->tensors[i].bytes) == 0;
        free(x);
        free(y);
    }
    return same;
}

static void expect_same(const char *folder, const char *archive, int64_t step) {
    struct model_source plain, packed;
    struct model_source_options from = options_of(folder, -1), to = options_of(archive, step);
    EXPECT_OK(model_source_open(&plain, &from));
    EXPECT_OK(model_source_open(&packed, &to));
    EXPECT_STRING(packed.kind, "megatron");
    EXPECT(is_same(&plain, &packed));
    EXPECT_INT(plain.state.iteration, packed.state.iteration);
    model_source_close(&plain);
    model_source_close(&packed);
}

static struct contents look(const char *path, int64_t step) {
    struct contents contents;
    EXPECT_OK(contents_look(&contents, path, step));
    return contents;
}

TEST(same_as_the_folder) {
    expect_same(FOREIGN "megatron_v0", FOREIGN "megatron_v0.zip", -1);
    expect_same(FOREIGN "megatron_v0_tp2", FOREIGN "megatron_v0_tp2.zip", -1);
    expect_same(FOREIGN "megatron_v0_tp2", FOREIGN "megatron_v0_tp2.zip", 100);
    expect_same(FOREIGN "megatron_v0", FOREIGN "megatron_v0_tp2.zip", 50);
    EXPECT_INT(look(FOREIGN "megatron_v0_tp2.zip", -1).iteration, 100);
    EXPECT_INT(look(FOREIGN "megatron_v0_tp2.zip", 50).iteration, 50);
    EXPECT_INT(look(FOREIGN "megatron_v0_tp2.zip", 51).iteration, -1);
    EXPECT_INT(look(FOREIGN "megatron_v0.zip", -1).iteration, -1);
    struct model_source source;
    struct model_source_options missing = options_of(FOREIGN "megatron_v0_tp2.zip", 51);
    EXPECT_ERROR(model_source_open(&source, &missing), "megatron_v0_tp2.zip has no checkpoint iter_0000051");
}

static bool is_foreign(const char *path) {
    struct contents contents = look(path, -1);
    return contents_is_foreign(&contents);
}

TEST(other_files) {
    EXPECT(is_foreign(FOREIGN "megatron_v0.zip"));
    EXPECT(!is_foreign("tests/golden/torch/plain.pt"));
    EXPECT(!is_foreign("tests/golden/torch/evil_cut.pt"));
    EXPECT(!is_foreign("tests/golden/make_zip.py"));
    EXPECT(!is_foreign("tests/golden/none.zip"));
    // torch.save never compresses, so the reader for its files accepts nothing compressed.
    struct buffer bytes = {0};
    struct torch_zip zip;
    EXPECT_OK(file_read_all(FOREIGN "megatron_v0.zip", 1 << 20, &bytes));
    EXPECT_ERROR(torch_zip_parse(&zip, (unsigned char *)bytes.data, bytes.length), "is compressed (method 8");
    EXPECT_OK(torch_zip_parse_packed(&zip, (unsigned char *)bytes.data, bytes.length));
    EXPECT_INT(zip.count, 2);
    torch_zip_free(&zip);
    buffer_free(&bytes);
}

// Opens an archive of these bytes under another name and compares it with the whole one: -1 if it is refused.
static int open_changed(const struct buffer *bytes, struct model_source *whole) {
    char path[] = "/tmp/bevatron_test_zip_XXXXXX";
    int descriptor = mkstemp(path);
    EXPECT(descriptor >= 0);
    close(descriptor);
    EXPECT_OK(file_write_all(path, bytes->data, bytes->length));
    struct model_source source;
    struct model_source_options options = options_of(path, -1);
    int status = model_source_open(&source, &options);
    if (status == 0) {
        EXPECT(is_same(whole, &source));
        model_source_close(&source);
    }
    EXPECT_INT(unlink(path), 0);
    return status;
}

TEST(damaged) {
    struct model_source whole;
    struct model_source_options options = options_of(FOREIGN "megatron_v0.zip", -1);
    struct buffer bytes = {0};
    EXPECT_OK(model_source_open(&whole, &options));
    EXPECT_OK(file_read_all(options.path, 1 << 20, &bytes));
    int refused = 0, tried = 0;
    for (size_t at = 7; at < bytes.length; at += 997, tried++) {
        bytes.data[at] ^= 0x41;
        refused += open_changed(&bytes, &whole) < 0;
        bytes.data[at] ^= 0x41;
    }
    EXPECT(refused > tried / 2);
    size_t length = bytes.length;
    for (bytes.length = length - 1; bytes.length > 100; bytes.length /= 2)
        EXPECT_INT(open_changed(&bytes, &whole), -1);
    bytes.length = length;
    EXPECT_OK(open_changed(&bytes, &whole));
    buffer_free(&bytes);
    model_source_close(&whole);
}

TEST(inflating) {
    // "hello hello hello hello\n" by Python's zlib, without header and checksum.
    static const unsigned char packed[] = {0xcb, 0x48, 0xcd, 0xc9, 0xc9, 0x57, 0xc8, 0x40, 0x27, 0xb9, 0x00};
    static const char text[] = "hello hello hello hello\n";
    char out[64];
    EXPECT_OK(inflate_bytes(packed, sizeof packed, out, sizeof text - 1));
    EXPECT(memcmp(out, text, sizeof text - 1) == 0);
    EXPECT_ERROR(inflate_bytes(packed, sizeof packed, out, sizeof text - 2), "damaged");
    EXPECT_ERROR(inflate_bytes(packed, sizeof packed, out, sizeof text), "damaged");
    EXPECT_ERROR(inflate_bytes(packed, sizeof packed - 1, out, sizeof text - 1), "damaged");
    EXPECT_ERROR(inflate_bytes(packed, 0, out, 1), "damaged");
}

TEST_MAIN(TEST_CASE(same_as_the_folder), TEST_CASE(other_files), TEST_CASE(damaged), TEST_CASE(inflating))
