// The piece is 16 MiB of the device's own host memory: large enough that disk and bus run at full speed, negligible
// beside a model.
#include "store/stage.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/watchdog.h"
#include "store/convert.h"
#include "tensor/moment8.h"
#include <math.h>
#include <stdlib.h>

enum { PIECE_BYTES = 16 << 20 };

static int prepare_piece(struct stage *stage) {
    if (!stage->piece)
        stage->piece = device_host_alloc(stage->device, PIECE_BYTES);
    return stage->piece ? 0 : -1;
}

int stage_out(struct stage *stage, struct tensor from, struct safetensors_writer *writer) {
    if (stage->device->ops->is_host_memory)
        return safetensors_write(writer, from.data, tensor_bytes(from));
    TRY(prepare_piece(stage));
    struct tensor flat = tensor_flat(from);
    int64_t limit = PIECE_BYTES / (int64_t)dtype_bytes(from.dtype);
    for (int64_t first = 0; first < flat.shape[0]; first += limit) {
        int64_t count = flat.shape[0] - first < limit ? flat.shape[0] - first : limit;
        struct tensor view = tensor_rows(flat, first, count);
        device_copy_out(stage->device, stage->piece, view);
        TRY(safetensors_write(writer, stage->piece, tensor_bytes(view)));
    }
    return 0;
}

// Fills a contiguous tensor from a file's tensor with as many elements, converting if the float types differ.
static int stage_in(struct stage *stage, struct tensor to, const struct safetensors_tensor *from) {
    watchdog_beat();
    CHECK(convert_is_possible(from->dtype, to.dtype));
    struct convert convert = {.to_dtype = to.dtype, .from_dtype = from->dtype};
    if (stage->device->ops->is_host_memory) {
        convert.to = to.data;
        convert.from = from->data;
        convert.count = (size_t)tensor_count(to);
        convert_elements(&convert);
        return 0;
    }
    TRY(prepare_piece(stage));
    convert.to = stage->piece;
    struct tensor flat = tensor_flat(to);
    int64_t limit = PIECE_BYTES / (int64_t)dtype_bytes(to.dtype);
    for (int64_t first = 0; first < flat.shape[0]; first += limit) {
        convert.count = (size_t)(flat.shape[0] - first < limit ? flat.shape[0] - first : limit);
        convert.from = from->data + (size_t)first * dtype_bytes(from->dtype);
        // The previous copy may still be reading the piece.
        device_synchronize(stage->device);
        convert_elements(&convert);
        device_copy_in(stage->device, tensor_rows(flat, first, (int64_t)convert.count), stage->piece);
    }
    return 0;
}

void stage_end(struct stage *stage) {
    device_synchronize(stage->device);
    if (stage->piece)
        device_host_free(stage->device, stage->piece);
    stage->piece = NULL;
}

// ---- moments in 8 bits ----

enum dtype coded_dtype(const struct checkpoint_tensor *tensor) {
    return coded_is(tensor) ? moment8_exact_dtype(tensor->kind) : tensor->tensor.dtype;
}

// Codes and exponents, in host memory of their own.
struct codes {
    uint8_t *codes, *exponents;
};

static struct codes codes_take(const struct checkpoint_tensor *tensor) {
    return (struct codes){memory_alloc((size_t)tensor_count(tensor->tensor) + 1),
                          memory_alloc((size_t)tensor_count(tensor->exponents) + 1)};
}

static void codes_free(struct codes codes) {
    free(codes.codes);
    free(codes.exponents);
}

void coded_copy_out(struct device *device, void *to, const struct checkpoint_tensor *tensor) {
    if (!coded_is(tensor)) {
        device_copy_out(device, to, tensor_flat(tensor->tensor));
        return;
    }
    int64_t count = tensor_count(tensor->tensor);
    struct codes codes = codes_take(tensor);
    device_copy_out(device, codes.codes, tensor_flat(tensor->tensor));
    device_copy_out(device, codes.exponents, tensor->exponents);
    for (int64_t i = 0; i < count; i++) {
        float x = moment8_decode(tensor->kind, codes.codes[i], codes.exponents[i / MOMENT8_SHARE]);
        if (tensor->kind == MOMENT8_FIRST)
            ((uint16_t *)to)[i] = half_to_bf16(x);
        else
            ((float *)to)[i] = x;
    }
    codes_free(codes);
}

static void encode(struct codes to, const float *x, int64_t count, enum moment8_kind kind) {
    for (int64_t at = 0; at < count; at += MOMENT8_SHARE) {
        int64_t end = count - at < MOMENT8_SHARE ? count : at + MOMENT8_SHARE;
        float largest = 0;
        for (int64_t i = at; i < end; i++)
            largest = fmaxf(largest, moment8_size(kind, x[i]));
        uint8_t exponent = to.exponents[at / MOMENT8_SHARE] = moment8_exponent(kind, largest);
        for (int64_t i = at; i < end; i++)
            to.codes[i] = moment8_encode(kind, x[i], exponent, MOMENT8_NEAREST);
    }
}

int coded_copy_in(struct stage *stage, const struct checkpoint_tensor *to, const struct safetensors_tensor *from) {
    if (!coded_is(to))
        return stage_in(stage, to->tensor, from);
    int64_t count = tensor_count(to->tensor);
    OWNED float *x = memory_alloc(sizeof *x * (size_t)(count + 1));
    convert_elements(&(struct convert){
        .to = x, .to_dtype = DTYPE_F32, .from = from->data, .from_dtype = from->dtype, .count = (size_t)count});
    struct codes codes = codes_take(to);
    encode(codes, x, count, to->kind);
    if (count > 0) {
        device_copy_in(stage->device, tensor_flat(to->tensor), codes.codes);
        device_copy_in(stage->device, to->exponents, codes.exponents);
    }
    device_synchronize(stage->device);  // the memory is freed next
    codes_free(codes);
    return 0;
}
