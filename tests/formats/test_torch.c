// Files of torch.save in both containers, written by torch itself (tests/golden/make_torch.py), and hostile ones: each
// is refused with its reason, and nothing is executed.
#include "base/file.h"
#include "base/memory.h"
#include "formats/torch_file.h"
#include "test.h"

static const char folder[] = "tests/golden/torch";

static struct torch_file open_golden(const char *name) {
    char *path = memory_printf("%s/%s", folder, name);
    struct torch_file file;
    EXPECT_OK(torch_open(&file, path));
    free(path);
    return file;
}

static const struct torch_tensor *tensor_of(const struct torch_file *file, const char *name) {
    const struct torch_value *value = torch_get(torch_get(file->pickle.root, "model"), name);
    EXPECT(value && value->type == TORCH_TENSOR);
    return &value->tensor;
}

static void expect_tensor(const struct torch_file *file, const char *name, const char *description, const void *bytes,
                          size_t count) {
    const struct torch_tensor *tensor = tensor_of(file, name);
    char text[128];
    torch_describe(tensor, text, sizeof text);
    EXPECT_STRING(text, description);
    if (!tensor->dtype->is_readable)
        return;
    unsigned char values[256] = {0};
    EXPECT_INT((size_t)torch_tensor_count(tensor) * tensor->dtype->bytes, count);
    EXPECT_OK(torch_read(file, tensor, values));
    EXPECT(count == 0 || memcmp(values, bytes, count) == 0);
}

static void check_plain(const char *name) {
    struct torch_file file = open_golden(name);
    float matrix[24], transposed[24];
    for (int i = 0; i < 24; i++) {
        matrix[i] = (float)i;
        transposed[(i % 6) * 4 + i / 6] = (float)i;
    }
    const float slice[6] = {8, 9, 10, 14, 15, 16}, scalar = 2.5f, parameter[2] = {4, 5};
    const uint16_t half[3] = {0x3c00, 0xc100, 0x7bff}, brain[3] = {0x3f80, 0xc020, 0x4049};
    const int64_t numbers[2] = {INT64_MIN, 77};
    const int32_t integers[4] = {1, -2, 3, 4};
    expect_tensor(&file, "matrix", "float32 (4, 6)", matrix, sizeof matrix);
    expect_tensor(&file, "transposed", "float32 (6, 4)", transposed, sizeof transposed);
    expect_tensor(&file, "slice", "float32 (2, 3)", slice, sizeof slice);
    expect_tensor(&file, "half", "float16 (3)", half, sizeof half);
    expect_tensor(&file, "brain", "bfloat16 (3)", brain, sizeof brain);
    expect_tensor(&file, "long", "int64 (2)", numbers, sizeof numbers);
    expect_tensor(&file, "int", "int32 (2, 2)", integers, sizeof integers);
    expect_tensor(&file, "byte", "uint8 (2)", "\0\xff", 2);
    expect_tensor(&file, "double", "float64 (1)", NULL, 0);
    expect_tensor(&file, "bool", "bool (2)", NULL, 0);
    expect_tensor(&file, "scalar", "float32 ()", &scalar, sizeof scalar);
    expect_tensor(&file, "empty", "float32 (0, 3)", NULL, 0);
    expect_tensor(&file, "parameter", "float32 (2)", parameter, sizeof parameter);
    EXPECT(tensor_of(&file, "matrix")->storage == tensor_of(&file, "transposed")->storage);

    const struct torch_value *root = file.pickle.root, *args = torch_get(root, "args");
    EXPECT_INT(torch_get(root, "iteration")->integer, 1000);
    EXPECT(torch_get(root, "checkpoint_version")->real == 3.0);
    EXPECT_INT(torch_get(args, "num_layers")->integer, 2);
    EXPECT(torch_get(args, "lr")->real == 1.5e-4);
    EXPECT_STRING(torch_get(args, "name")->text, "gpt ünï");
    EXPECT(torch_get(args, "fp16")->type == TORCH_BOOL && torch_get(args, "fp16")->boolean);
    EXPECT(torch_get(args, "load")->type == TORCH_NONE);
    EXPECT_INT(torch_get(args, "many")->count, 3);
    EXPECT_INT(torch_get(args, "big")->integer, (int64_t)1 << 40);
    EXPECT_INT(torch_get(args, "negative")->integer, -5);
    EXPECT_INT(torch_get(args, "size")->items[1]->integer, 4);
    EXPECT(torch_get(args, "missing") == NULL);
    EXPECT_INT(torch_get(torch_get(torch_get(root, "nested"), "deep"), "value")->items[1]->items[0]->integer, 2);
    EXPECT_INT(torch_get(root, "set")->items[0]->integer, 7);
    // The numpy array in the state is read as opaque.
    EXPECT(torch_get(root, "np_rng_state")->items[1]->type == TORCH_OPAQUE);
    torch_close(&file);
}

TEST(zip) {
    check_plain("plain.pt");
}

TEST(legacy) {
    check_plain("legacy.pt");
}

TEST(protocol_4) {
    check_plain("protocol4.pt");
}

TEST(good_tensor) {
    struct torch_file file = open_golden("good_tensor.pt");
    const struct torch_value *value = torch_get(file.pickle.root, "t");
    float values[4];
    EXPECT_OK(torch_read(&file, &value->tensor, values));
    EXPECT(values[0] == 1 && values[3] == 4);
    torch_close(&file);
}

TEST(hostile) {
    static const struct {
        const char *name, *message;
    } rows[] = {
        {"evil_system", "it refers to posix.system, which is neither a tensor"},
        {"evil_eval", "it refers to builtins.eval"},
        {"evil_system_legacy", "it refers to posix.system"},
        {"float8", "a dtype that is not read from torch files, most likely fp8; save the model as safetensors"},
        {"evil_offset", "extends beyond its storage \"0\" of 4 elements"},
        {"evil_offset_huge", "extends beyond its storage"},
        {"evil_stride", "extends beyond its storage"},
        {"evil_stride_overflow", "extends beyond its storage"},
        {"evil_stride_negative", "shape or strides are not sizes"},
        {"evil_shape_bomb", "extends beyond its storage"},
        {"evil_shape_negative", "shape or strides are not sizes"},
        {"evil_count", "claims 5 elements of float32 and has 16 bytes"},
        {"evil_missing_storage", "the bytes of storage \"1\" are not in the archive"},
        {"evil_key", "etc/passwd\" are not in the archive"},
        {"evil_compressed", "is compressed (method 8"},
        {"evil_text", "a text of 2147483647 bytes"},
        {"evil_text8", "a text of 18446744073709551615 bytes"},
        {"evil_memo", "stores a memo under the number 4294967295"},
        {"evil_recall", "reads memo 7, which it never stored"},
        {"evil_pop", "pops more from its stack than it pushed"},
        {"evil_mark", "returns to a mark that it never set"},
        {"evil_opcode", "the opcode 0x49, which no checkpoint needs"},
        {"evil_no_stop", "the file is truncated or forged"},
        {"evil_call", "calls a value that is not a name"},
        {"evil_protocol", "has protocol 9"},
        {"evil_same_place", "has another name in its own header"},
        {"evil_overlap", "overlap"},
        {"evil_directory", "its directory claims bytes"},
        {"evil_cut", "no zip directory at its end"},
        {"evil_no_pickle", "without data.pkl"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *path = memory_printf("%s/%s.pt", folder, rows[i].name);
        struct torch_file file;
        if (torch_open(&file, path) == 0)
            test_fail("%s was read", path);
        if (!strstr(error_message(), rows[i].message) || !strstr(error_message(), path))
            test_fail("%s: \"%s\" is not in: %s", path, rows[i].message, error_message());
        free(path);
    }
    EXPECT(!file_exists("/tmp/bevatron_was_here"));
}

// Odd but harmless structures are read: endlessly nested lists, cycles.
TEST(deep_and_circular) {
    struct torch_file file = open_golden("evil_depth.pt");
    size_t depth = 0;
    for (const struct torch_value *at = file.pickle.root; at->count > 0; at = at->items[0])
        depth++;
    EXPECT_INT(depth, 19999);
    torch_close(&file);
    file = open_golden("evil_circle.pt");
    EXPECT(file.pickle.root->items[0] == file.pickle.root);
    torch_close(&file);
    file = open_golden("evil_circle_dict.pt");
    EXPECT(torch_get(file.pickle.root, "model") == file.pickle.root);
    torch_close(&file);
}

TEST(checksum) {
    struct torch_file file = open_golden("evil_checksum.pt");
    float values[4];
    EXPECT_ERROR(torch_read(&file, &torch_get(file.pickle.root, "t")->tensor, values), "its bytes have changed");
    torch_close(&file);
}

// Every prefix and every flipped bit of the real files is read or refused, never worse; sanitizers check that.
TEST(damage) {
    static const char *const names[] = {"plain.pt", "legacy.pt"};
    for (size_t n = 0; n < 2; n++) {
        char *path = memory_printf("%s/%s", folder, names[n]);
        struct buffer bytes = {0};
        EXPECT_OK(file_read_all(path, 1 << 20, &bytes));
        struct torch_file file;
        for (size_t length = 0; length < bytes.length; length += 7)
            if (torch_parse(&file, bytes.data, length, "cut") == 0)
                torch_close(&file);
        for (size_t i = 0; i < bytes.length * 8; i += 5) {
            bytes.data[i / 8] = (char)(bytes.data[i / 8] ^ 1 << (i % 8));
            if (torch_parse(&file, bytes.data, bytes.length, "flipped") == 0)
                torch_close(&file);
            bytes.data[i / 8] = (char)(bytes.data[i / 8] ^ 1 << (i % 8));
        }
        buffer_free(&bytes);
        free(path);
    }
}

TEST_MAIN(TEST_CASE(zip), TEST_CASE(legacy), TEST_CASE(protocol_4), TEST_CASE(good_tensor), TEST_CASE(hostile),
          TEST_CASE(deep_and_circular), TEST_CASE(checksum), TEST_CASE(damage))
