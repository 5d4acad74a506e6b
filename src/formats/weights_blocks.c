// Matrices in fp8 with a scale for each block of 128 x 128, as DeepSeek-V3 has them: NAME in E4M3 beside NAME_scale_inv
// in fp32. They are read as bf16: each number times its scale, in fp32, rounded once. transformers does the same.
#include "formats/weights.h"

#include "base/error.h"
#include "base/memory.h"
#include "tensor/float8.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 128 };
static const char ending[] = "_scale_inv";

static int64_t blocks_of(int64_t length) {
    return (length + BLOCK - 1) / BLOCK;
}

bool weight_is_scale(const struct weights *weights, const char *name) {
    size_t length = strlen(name), end = sizeof ending - 1;
    if (length <= end || strcmp(name + length - end, ending) != 0)
        return false;
    char *of = memory_printf("%.*s", (int)(length - end), name);
    const struct weight *matrix = weights_find(weights, of);
    free(of);
    return matrix && matrix->scales;
}

static int pair_up(const struct weights *weights, struct weight *weight) {
    char *name = memory_printf("%s%s", weight->name, ending);
    const struct weight *scales = weights_find(weights, name);
    free(name);
    if (!scales)
        return error_set("the tensor \"%.200s\" is in fp8 and has no \"%.200s%s\" beside it", weight->name,
                         weight->name, ending);
    if (!weight->data)
        return error_set(
            "the tensor \"%.200s\" is in fp8 in a torch file, which is only read from safetensors; save the "
            "model as safetensors",
            weight->name);
    bool is_grid = scales->is_readable && scales->dtype == DTYPE_F32 && scales->rank == 2 && weight->rank == 2 &&
                   scales->shape[0] == blocks_of(weight->shape[0]) && scales->shape[1] == blocks_of(weight->shape[1]);
    if (!is_grid)
        return error_set("the scales \"%.200s\" are not in fp32, one for each block of %d x %d", scales->name,
                         (int)BLOCK, (int)BLOCK);
    weight->scales = scales;
    weight->is_readable = true;
    weight->dtype = DTYPE_BF16;
    weight->bytes *= dtype_bytes(DTYPE_BF16);
    return 0;
}

int weights_pair_blocks(struct weights *weights) {
    for (size_t i = 0; i < weights->count; i++) {
        struct weight *weight = &weights->items[i];
        if (!weight->is_readable && weight->other_dtype && strcmp(weight->other_dtype, "F8_E4M3") == 0)
            TRY(pair_up(weights, weight));
    }
    return 0;
}

int weight_read_blocks(const struct weight *weight, void *to) {
    int64_t rows = weight->shape[0], columns = weight->shape[1], grid = blocks_of(columns);
    float *scales = memory_alloc(weight->scales->bytes + 1), values[256];
    uint16_t *row = memory_alloc((size_t)columns * sizeof *row + 1);
    int result = weight_read(weight->scales, scales);
    for (int code = 0; code < 256; code++)
        values[code] = float8_decode(DTYPE_E4M3, (uint8_t)code);
    for (int64_t r = 0; r < rows && result == 0; r++) {
        const unsigned char *from = weight->data + r * columns;
        for (int64_t c = 0; c < columns; c++)
            row[c] = half_to_bf16(values[from[c]] * scales[r / BLOCK * grid + c / BLOCK]);
        memcpy((unsigned char *)to + (size_t)(r * columns) * sizeof *row, row, (size_t)columns * sizeof *row);
    }
    free(scales);
    free(row);
    return result;
}
