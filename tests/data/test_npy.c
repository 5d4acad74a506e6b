// .npy files: byte for byte like numpy.save, and nothing else is accepted.
#include "data/sample/index_cache.h"

#include "fixture.h"

static enum npy_dtype dtype_of(const char *name) {
    return strcmp(name, "int32") == 0 ? NPY_I32 : strcmp(name, "uint32") == 0 ? NPY_U32 : NPY_I64;
}

static void *make_array(struct npy_shape shape) {
    size_t count = (size_t)(shape.rows * shape.columns);
    unsigned char *data = memory_alloc(count * 8 + 1);
    for (size_t i = 0; i < count; i++) {
        int64_t value = 3 * (int64_t)i;
        memcpy(data + i * npy_item_bytes(shape.dtype), &value, npy_item_bytes(shape.dtype));
    }
    return data;
}

static void expect_bytes(const struct buffer *bytes, const char *hexadecimal) {
    size_t count = strlen(hexadecimal) / 2;
    EXPECT(bytes->length >= count);
    for (size_t i = 0; i < count; i++) {
        unsigned expected;
        EXPECT_INT(sscanf(hexadecimal + 2 * i, "%2x", &expected), 1);
        EXPECT_INT((unsigned char)bytes->data[i], expected);
    }
}

TEST(same_bytes_as_numpy) {
    FILE *golden = fopen("tests/golden/npy.txt", "r");
    EXPECT(golden);
    scratch_open();
    char line[2048], name[16], hexadecimal[1024];
    int64_t rows, columns, size;
    int cases = 0;
    while (fgets(line, sizeof line, golden)) {
        if (line[0] == '#')
            continue;
        EXPECT_INT(
            sscanf(line, "%15s %" SCNd64 " %" SCNd64 " %" SCNd64 " %1023s", name, &rows, &columns, &size, hexadecimal),
            5);
        struct npy_shape shape = {dtype_of(name), columns ? 2 : 1, rows, columns ? columns : 1};
        void *data = make_array(shape);
        EXPECT_OK(npy_write(scratch_path("x.npy"), shape, data));
        struct buffer bytes = read_bytes(scratch_path("x.npy"));
        EXPECT_INT(bytes.length, size);
        expect_bytes(&bytes, hexadecimal);
        struct npy npy;
        EXPECT_OK(npy_open(&npy, scratch_path("x.npy")));
        EXPECT_INT(npy.shape.dtype, shape.dtype);
        EXPECT_INT(npy.shape.dimensions, shape.dimensions);
        EXPECT_INT(npy.shape.rows, rows);
        EXPECT_INT(npy.shape.columns, shape.columns);
        EXPECT(memcmp(npy.data, data, (size_t)(rows * shape.columns) * npy_item_bytes(shape.dtype)) == 0);
        npy_close(&npy);
        for (size_t cut = 0; cut < bytes.length && bytes.length < 1000; cut++)
            EXPECT(npy_parse(&npy, (unsigned char *)bytes.data, cut, "cut") < 0);
        buffer_free(&bytes);
        free(data);
        cases++;
    }
    EXPECT_INT(cases, 18);
    fclose(golden);
    scratch_close();
}

// A version-1 file with this dictionary and `data_bytes` bytes of data.
static int parse(const char *dictionary, size_t data_bytes) {
    struct buffer bytes = {0};
    buffer_append(&bytes, "\x93NUMPY\1\0", 8);
    uint16_t length = (uint16_t)strlen(dictionary);
    buffer_append(&bytes, &length, 2);
    buffer_append_string(&bytes, dictionary);
    for (size_t i = 0; i < data_bytes; i++)
        buffer_append_byte(&bytes, 0);
    struct npy npy;
    int result = npy_parse(&npy, (unsigned char *)bytes.data, bytes.length, "test.npy");
    buffer_free(&bytes);
    return result;
}

TEST(dictionaries) {
    EXPECT_OK(parse("{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }", 12));
    EXPECT_OK(parse("{'shape':(3,2),'fortran_order':False,'descr':'<i8'}\n", 48));
    EXPECT_OK(parse("{ 'shape' : ( 0 , ) , 'fortran_order' : False , 'descr' : '<u4' } \n ", 0));
    static const char *const bad[] = {
        "",
        "{}",
        "{",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), ",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), } x",
        "{'descr': '<i4', 'fortran_order': True, 'shape': (3,), }",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '>i4', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (3), }",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (), }",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (-3,), }",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (3, 1, 1), }",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (99999999999999999999,), }",
        "{'descr': '<i4', 'fortran_order': False, 'fortran_order': False, }",
        "{'descr': '<i4', 'descr': '<i4', 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<i4' 'fortran_order': False, 'shape': (3,), }",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
        "{'descr': '<i4', 'fortran_order': False, 'shape': (3,),, }",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        EXPECT_ERROR(parse(bad[i], 12), "test.npy: byte ");
        EXPECT_INT(error_exit_code(), EXIT_CODE_BAD_DATA);
    }
    EXPECT_ERROR(parse("{'descr': '<i4', 'fortran_order': False, 'shape': (3,), }", 13), "13 bytes of data");
    EXPECT_ERROR(parse("{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387904,), }", 0), "0 bytes");
    EXPECT_ERROR(parse("{'descr': '<i8', 'fortran_order': False, 'shape': (4611686018427387904, 4), }", 0), "0 bytes");
}

TEST(preambles) {
    unsigned char bytes[256] = "\x93NUMPY\2";
    const char *dictionary = "{'descr': '<i4', 'fortran_order': False, 'shape': (1,), }";
    size_t length = strlen(dictionary);
    bytes[8] = (unsigned char)length;
    memcpy(bytes + 12, dictionary, length);
    struct npy npy;
    EXPECT_OK(npy_parse(&npy, bytes, 12 + length + 4, "two"));
    EXPECT_INT(npy.shape.rows, 1);
    bytes[6] = 3;
    EXPECT_OK(npy_parse(&npy, bytes, 12 + length + 4, "three"));
    bytes[6] = 4;
    EXPECT_ERROR(npy_parse(&npy, bytes, 12 + length + 4, "four"), "four: byte 6: .npy version 4");
    bytes[6] = 2;
    bytes[11] = 255;
    EXPECT_ERROR(npy_parse(&npy, bytes, 12 + length + 4, "long"), "a header of 42781");
    EXPECT_ERROR(npy_parse(&npy, bytes, 11, "short"), "is truncated");
    EXPECT_ERROR(npy_parse(&npy, (const unsigned char *)"PK", 2, "zip"), "not an .npy file");
    EXPECT_ERROR(npy_parse(&npy, NULL, 0, "empty"), "not an .npy file");
    scratch_open();
    write_bytes(scratch_path("empty.npy"), "", 0);
    EXPECT_ERROR(npy_open(&npy, scratch_path("empty.npy")), "not an .npy file");
    EXPECT_ERROR(npy_open(&npy, scratch_path("none.npy")), "none.npy");
    scratch_close();
}

TEST_MAIN(TEST_CASE(same_bytes_as_numpy), TEST_CASE(dictionaries), TEST_CASE(preambles))
