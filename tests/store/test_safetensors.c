// Safetensors: our files read back, those of Hugging Face can be read, and every hostile file is refused. Called with
// "write FILE" or "check FILE" it is one half of tests/peers/safetensors_peers.py.
#include "base/hash.h"
#include "store/safetensors.h"
#include "store/temporary.h"
#include "test.h"

static const float matrix[6] = {0, -1.5f, 2, 3e-8f, 1e30f, 5};
static const uint16_t brain[3] = {0x3f80, 0xc020, 0x4049};
static const int64_t numbers[2] = {INT64_MIN, 77};

static const struct safetensors_tensor example[] = {
    {.name = "layers.0.weight", .dtype = DTYPE_F32, .rank = 2, .shape = {2, 3}},
    {.name = "a \"quoted\" ünïcode name", .dtype = DTYPE_BF16, .rank = 1, .shape = {3}},
    {.name = "nothing", .dtype = DTYPE_F32, .rank = 2, .shape = {0, 4}},
    {.name = "numbers", .dtype = DTYPE_I64, .rank = 1, .shape = {2}},
    {.name = "one", .dtype = DTYPE_U8, .rank = 0},
};
static const struct safetensors_text texts[] = {{"format", "pt"}, {"note", "line\nbreak"}};
static const struct safetensors_layout example_layout = {
    .tensors = example, .count = 5, .metadata = texts, .metadata_count = 2};

static int write_example(const char *path, struct safetensors_digest *digest) {
    struct safetensors_writer writer;
    TRY(safetensors_create(&writer, path, &example_layout));
    // In pieces that do not end where tensors end.
    TRY(safetensors_write(&writer, matrix, 7));
    TRY(safetensors_write(&writer, (const char *)matrix + 7, sizeof matrix - 7));
    TRY(safetensors_write(&writer, brain, sizeof brain));
    TRY(safetensors_write(&writer, numbers, sizeof numbers));
    TRY(safetensors_write(&writer, "!", 1));
    return safetensors_commit(&writer, digest);
}

static void check_example(const struct safetensors *file) {
    EXPECT_INT(file->count, 5);
    const struct safetensors_tensor *t = safetensors_find(file, "layers.0.weight");
    EXPECT(t && t->dtype == DTYPE_F32 && t->rank == 2 && t->shape[0] == 2 && t->shape[1] == 3);
    EXPECT_INT(t->bytes, sizeof matrix);
    EXPECT(memcmp(t->data, matrix, sizeof matrix) == 0);
    t = safetensors_find(file, "a \"quoted\" ünïcode name");
    EXPECT(t && t->dtype == DTYPE_BF16 && memcmp(t->data, brain, sizeof brain) == 0);
    t = safetensors_find(file, "nothing");
    EXPECT(t && t->bytes == 0 && t->shape[1] == 4);
    t = safetensors_find(file, "numbers");
    EXPECT(t && t->dtype == DTYPE_I64 && memcmp(t->data, numbers, sizeof numbers) == 0);
    t = safetensors_find(file, "one");
    EXPECT(t && t->rank == 0 && t->bytes == 1 && t->data[0] == '!');
    EXPECT(safetensors_find(file, "layers.0.weigh") == NULL);
    EXPECT_STRING(safetensors_metadata(file, "format"), "pt");
    EXPECT_STRING(safetensors_metadata(file, "note"), "line\nbreak");
    EXPECT(safetensors_metadata(file, "other") == NULL);
}

TEST(round_trip) {
    struct temporary folder = temporary_create();
    char *path = file_join(folder.path, "x.safetensors");
    struct safetensors_digest written = {0};
    char file_hash[65];
    uint64_t expected_bytes = 0, bytes = 0;
    EXPECT_OK(write_example(path, &written));
    EXPECT_OK(sha256_file(path, file_hash));
    EXPECT_STRING(written.sha256, file_hash);
    // The running checksums are those of the file up to each place, the last one that of the file.
    EXPECT_INT(written.count, 6);
    char last[13];
    (void)snprintf(last, sizeof last, "%012llx", (unsigned long long)written.sums[5]);
    EXPECT(strncmp(last, file_hash, 12) == 0);
    free(written.sums);
    EXPECT_OK(safetensors_file_bytes(&example_layout, &expected_bytes));
    EXPECT_OK(file_size(path, &bytes));
    EXPECT_INT(bytes, expected_bytes);
    struct safetensors file;
    EXPECT_OK(safetensors_open(&file, path));
    check_example(&file);
    EXPECT_INT((file.map.size - sizeof matrix - sizeof brain - sizeof numbers - 1) % 8, 0);
    safetensors_close(&file);
    free(path);
    temporary_remove(&folder);
}

TEST(writer_refuses) {
    struct safetensors_tensor twice[2] = {{.name = "a", .dtype = DTYPE_F32}, {.name = "a", .dtype = DTYPE_F32}};
    struct safetensors_layout layout = {.tensors = twice, .count = 2};
    uint64_t bytes;
    EXPECT_ERROR(safetensors_file_bytes(&layout, &bytes), "two tensors are called \"a\"");
    twice[1].name = "__metadata__";
    EXPECT_ERROR(safetensors_file_bytes(&layout, &bytes), "reserves");
    twice[1] = (struct safetensors_tensor){.name = "b", .dtype = DTYPE_F32, .rank = 2, .shape = {1ll << 40, 1ll << 40}};
    EXPECT_ERROR(safetensors_file_bytes(&layout, &bytes), "more bytes than 64 bits");
    struct safetensors_writer writer;
    EXPECT_ERROR(safetensors_create(&writer, "/nonexistent/folder/x", &example_layout), "/nonexistent/folder/x");
    safetensors_abort(&writer);
}

TEST(abort_leaves_nothing) {
    struct temporary folder = temporary_create();
    char *path = file_join(folder.path, "x.safetensors");
    struct safetensors_writer writer;
    EXPECT_OK(safetensors_create(&writer, path, &example_layout));
    EXPECT_OK(safetensors_write(&writer, matrix, 5));
    safetensors_abort(&writer);
    EXPECT_INT(rmdir(folder.path), 0);  // fails if anything is left
    free(path);
}

TEST(hugging_face) {
    struct safetensors file;
    EXPECT_OK(safetensors_open(&file, "tests/golden/huggingface.safetensors"));
    EXPECT_INT(file.count, 9);
    const struct safetensors_tensor *t = safetensors_find(&file, "matrix");
    EXPECT(t && t->dtype == DTYPE_F32 && t->rank == 2 && t->shape[0] == 3 && t->shape[1] == 4);
    for (size_t i = 0; i < 12; i++) {
        float value;
        memcpy(&value, t->data + 4 * i, 4);
        EXPECT_NEAR(value, (double)i / 8, 0);
    }
    t = safetensors_find(&file, "brain");
    EXPECT(t && t->dtype == DTYPE_BF16 && memcmp(t->data, brain, sizeof brain) == 0);
    t = safetensors_find(&file, "half");
    EXPECT(t && t->dtype == DTYPE_F16 && memcmp(t->data, "\x00\x38\xff\x7b", 4) == 0);
    t = safetensors_find(&file, "words");
    EXPECT(t && t->dtype == DTYPE_I32 && memcmp(t->data, "\xff\xff\xff\xff\xff\xff\xff\x7f", 8) == 0);
    t = safetensors_find(&file, "long");
    EXPECT(t && t->dtype == DTYPE_I64 && memcmp(t->data, "\0\0\0\0\0\1\0\0", 8) == 0);
    t = safetensors_find(&file, "bytes");
    EXPECT(t && t->dtype == DTYPE_U8 && memcmp(t->data, "\x00\x01\xfe\xff\x09", 5) == 0);
    t = safetensors_find(&file, "scalar");
    EXPECT(t && t->rank == 0 && memcmp(t->data, "\0\0\x28\x42", 4) == 0);
    t = safetensors_find(&file, "empty");
    EXPECT(t && t->rank == 2 && t->bytes == 0 && t->shape[0] == 0);
    t = safetensors_find(&file, "ünïcode \"name\"");
    EXPECT(t && t->rank == 4 && t->bytes == 16);
    EXPECT_STRING(safetensors_metadata(&file, "who"), "Hugging Face");
    safetensors_close(&file);
}

// A file with this header, followed by `data_bytes` zeros. JSON is used as is, including NULs.
static struct buffer make_file(const char *json, size_t length, size_t data_bytes) {
    struct buffer out = {0};
    uint64_t size = length;
    buffer_append(&out, &size, 8);
    buffer_append(&out, json, length);
    for (size_t i = 0; i < data_bytes; i++)
        buffer_append_byte(&out, 0);
    return out;
}

static const struct hostile {
    const char *json;
    size_t data_bytes;
    const char *message;
} hostile[] = {
    {"", 0, "does not start with {"},
    {" {}", 0, "does not start with {"},
    {"[]", 0, "does not start with {"},
    {"{\"a\":}", 0, "header"},
    {"{} x", 0, "header"},
    {"{\"a\":1}", 0, "tensor \"a\" is not a JSON object"},
    {"{\"a\":{\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no \"dtype\""},
    {"{\"a\":{\"dtype\":5,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "no \"dtype\""},
    {"{\"a\":{\"dtype\":\"F31\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "\"F31\""},
    {"{\"a\":{\"dtype\":\"F32\\u0000\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "element type"},
    {"{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "no \"shape\""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "5 dimensions"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "not a size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "not a size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1e0],\"data_offsets\":[0,4]}}", 4, "not a size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[\"1\"],\"data_offsets\":[0,4]}}", 4, "not a size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[9223372036854775808],\"data_offsets\":[0,4]}}", 4, "not a size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999999],\"data_offsets\":[0,4]}}", 4, "not a size"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387905,4],\"data_offsets\":[0,16]}}", 16, "more bytes than"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4294967296,4294967296,0],\"data_offsets\":[0,0]}}", 0, "more bytes than"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "no \"data_offsets\""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0]}}", 4, "no \"data_offsets\""},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,0]}}", 4, "bytes 4 to 0"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}", 4, "bytes 0 to 8"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,4]}}", 4, "fp32 (2), 8 bytes, but has 4"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"dtype\":\"I32\"}}", 4, "\"dtype\" twice"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"a\":{\"dtype\":\"F32\",\"shape\":[1],"
     "\"data_offsets\":[4,8]}}",
     8, "\"a\" occurs twice"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
     "\"data_offsets\":[0,4]}}",
     4, "overlap or leave gaps"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[2],"
     "\"data_offsets\":[4,12]}}",
     12, "overlap or leave gaps"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}", 8, "overlap or leave gaps"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],"
     "\"data_offsets\":[8,12]}}",
     12, "overlap or leave gaps"},
    {"{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 5, "end at byte 4 of the data, which has 5"},
    {"{}", 1, "end at byte 0"},
    {"{\"__metadata__\":[]}", 0, "\"__metadata__\" is not a JSON object"},
    {"{\"__metadata__\":{\"a\":1}}", 0, "is not a string"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, "twice"},
    {"{\"a\\u0000b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "NUL"},
};

TEST(hostile_headers) {
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++) {
        struct buffer bytes = make_file(hostile[i].json, strlen(hostile[i].json), hostile[i].data_bytes);
        struct safetensors file;
        EXPECT_ERROR(safetensors_parse(&file, bytes.data, bytes.length, "test"), hostile[i].message);
        EXPECT(strstr(error_message(), "cannot read test") != NULL);
        EXPECT(file.tensors == NULL);
        buffer_free(&bytes);
    }
}

TEST(hostile_lengths) {
    struct safetensors file;
    struct buffer bytes = make_file("{}", 2, 0);
    const uint64_t lengths[] = {3,          1 << 20,    1ull << 24, (1ull << 24) + 1,
                                1ull << 32, 1ull << 63, UINT64_MAX, UINT64_MAX - 7};
    EXPECT_OK(safetensors_parse(&file, bytes.data, bytes.length, "test"));
    safetensors_close(&file);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memcpy(bytes.data, &lengths[i], 8);
        EXPECT_ERROR(safetensors_parse(&file, bytes.data, bytes.length, "test"), "its header claims");
    }
    EXPECT_ERROR(safetensors_parse(&file, bytes.data, 7, "test"), "too few");
    EXPECT_ERROR(safetensors_parse(&file, NULL, 0, "test"), "too few");
    buffer_free(&bytes);
}

// Any file may be truncated anywhere, and any bit may flip: the first is always detected, the second never does harm.
TEST(cut_and_flipped) {
    struct buffer whole = read_whole("tests/golden/huggingface.safetensors");
    struct safetensors file;
    for (size_t length = 0; length < whole.length; length++) {
        // A copy of the exact size, so that the sanitizer detects a read past the end.
        char *cut = malloc(length ? length : 1);
        memcpy(cut, whole.data, length);
        EXPECT_ERROR(safetensors_parse(&file, cut, length, "test"), "cannot read test");
        free(cut);
    }
    for (size_t bit = 0; bit < whole.length * 8; bit++) {
        whole.data[bit / 8] = (char)(whole.data[bit / 8] ^ (1 << bit % 8));
        if (safetensors_parse(&file, whole.data, whole.length, "test") == 0) {
            for (size_t i = 0; i < file.count; i++)
                EXPECT((const char *)file.tensors[i].data + file.tensors[i].bytes <= whole.data + whole.length);
            safetensors_close(&file);
        }
        whole.data[bit / 8] = (char)(whole.data[bit / 8] ^ (1 << bit % 8));
    }
    buffer_free(&whole);
}

static int check_file(const char *path) {
    struct safetensors file;
    TRY(safetensors_open(&file, path));
    for (size_t i = 0; i < file.count; i++) {
        char text[128], sha256[65];
        unsigned char digest[32];
        struct sha256 hash;
        sha256_init(&hash);
        sha256_update(&hash, file.tensors[i].data, file.tensors[i].bytes);
        sha256_final(&hash, digest);
        sha256_hex(digest, sha256);
        safetensors_describe(&file.tensors[i], text, sizeof text);
        printf("%s|%s|%s\n", file.tensors[i].name, text, sha256);
    }
    safetensors_close(&file);
    return 0;
}

int main(int argc, char **argv) {
    static const struct test_case cases[] = {
        TEST_CASE(round_trip),      TEST_CASE(writer_refuses),  TEST_CASE(abort_leaves_nothing),
        TEST_CASE(hugging_face),    TEST_CASE(hostile_headers), TEST_CASE(hostile_lengths),
        TEST_CASE(cut_and_flipped),
    };
    if (argc == 3) {
        int result = strcmp(argv[1], "write") == 0 ? write_example(argv[2], NULL) : check_file(argv[2]);
        if (result < 0)
            fprintf(stderr, "%s\n", error_message());
        return result < 0;
    }
    return test_main(cases, sizeof cases / sizeof cases[0]);
}
