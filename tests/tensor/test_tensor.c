// Views of memory: shapes, strides, slices, descriptions; names and sizes of element types.
#include "test.h"
#include "tensor/tensor.h"

TEST(contiguous_views) {
    float memory[120];
    struct tensor t = tensor_4d(memory, DTYPE_F32, 2, 3, 4, 5);
    EXPECT_INT(t.rank, 4);
    EXPECT(t.stride[0] == 60 && t.stride[1] == 20 && t.stride[2] == 5 && t.stride[3] == 1);
    EXPECT_INT(tensor_count(t), 120);
    EXPECT_INT(tensor_bytes(t), 480);
    EXPECT(tensor_is_contiguous(t));
    EXPECT_INT(tensor_count((struct tensor){0}), 0);
    EXPECT_INT(tensor_bytes((struct tensor){0}), 0);
    EXPECT_INT(tensor_count(tensor_2d(memory, DTYPE_F32, 3, 0)), 0);
}

TEST(slices) {
    float memory[60];
    struct tensor t = tensor_3d(memory, DTYPE_F32, 3, 4, 5);
    struct tensor rows = tensor_rows(t, 1, 2);
    EXPECT(rows.data == memory + 20 && rows.shape[0] == 2 && tensor_is_contiguous(rows));
    struct tensor middle = tensor_slice(t, 1, 2, 2);
    EXPECT(middle.data == memory + 10 && middle.shape[1] == 2 && middle.stride[0] == 20);
    EXPECT(!tensor_is_contiguous(middle));
    EXPECT(!tensor_is_contiguous(tensor_slice(t, 2, 0, 4)));
    EXPECT(tensor_is_contiguous(tensor_slice(tensor_rows(t, 2, 1), 1, 1, 3)));  // one row: its stride does not matter
    EXPECT(tensor_rows(t, 3, 0).shape[0] == 0);
    struct tensor none = tensor_rows((struct tensor){.rank = 1, .shape = {4}, .stride = {1}}, 2, 1);
    EXPECT(none.data == NULL);
}

TEST(reshapes) {
    float memory[24];
    struct tensor t = tensor_3d(memory, DTYPE_F32, 2, 3, 4);
    struct tensor flat = tensor_flat(t), two = tensor_reshape_2d(t, 6, 4), four = tensor_reshape_4d(t, 1, 2, 2, 6);
    EXPECT(flat.rank == 1 && flat.shape[0] == 24 && flat.stride[0] == 1 && flat.data == memory);
    EXPECT(two.rank == 2 && two.shape[0] == 6 && two.stride[0] == 4);
    EXPECT(four.rank == 4 && four.stride[0] == 24 && four.stride[1] == 12 && four.stride[2] == 6);
}

TEST(descriptions) {
    float memory[60];
    char text[64];
    tensor_describe(tensor_3d(memory, DTYPE_F32, 4, 256, 768), text, sizeof text);
    EXPECT_STRING(text, "fp32 (4, 256, 768)");
    tensor_describe(tensor_slice(tensor_2d(memory, DTYPE_BF16, 4, 8), 1, 0, 4), text, sizeof text);
    EXPECT_STRING(text, "bf16 (4, 4) strides (8, 1)");
    tensor_describe((struct tensor){0}, text, sizeof text);
    EXPECT_STRING(text, "no tensor");
    for (size_t size = 1; size < 30; size++) {
        memset(text, 'x', sizeof text);
        tensor_describe(tensor_slice(tensor_2d(memory, DTYPE_BF16, 4, 8), 1, 0, 4), text, size);
        EXPECT(strlen(text) < size && text[size] == 'x');
    }
}

TEST(element_types) {
    static const size_t bytes[DTYPE_COUNT] = {4, 2, 2, 2, 4, 8, 1, 1, 1, 1};
    for (int i = 0; i < DTYPE_COUNT; i++) {
        enum dtype dtype = (enum dtype)i, back;
        EXPECT_INT(dtype_bytes(dtype), bytes[i]);
        if (dtype_is_scaled(dtype) || dtype == DTYPE_I16)
            continue;
        EXPECT_OK(dtype_from_safetensors_name(&back, dtype_safetensors_name(dtype)));
        EXPECT_INT(back, dtype);
    }
    enum dtype dtype;
    EXPECT_STRING(dtype_name(DTYPE_BF16), "bf16");
    EXPECT_STRING(dtype_safetensors_name(DTYPE_I64), "I64");
    EXPECT_ERROR(dtype_from_safetensors_name(&dtype, "F8_E4M3"), "F8_E4M3");
    EXPECT_ERROR(dtype_from_safetensors_name(&dtype, ""), "not supported");
}

TEST_MAIN(TEST_CASE(contiguous_views), TEST_CASE(slices), TEST_CASE(reshapes), TEST_CASE(descriptions),
          TEST_CASE(element_types))
