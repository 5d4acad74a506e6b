// The piece is 16 MiB of the device's own host memory: large enough that disk and bus run at full speed, negligible
// beside a model.
#include "store/stage.h"

#include "base/error.h"
#include "base/watchdog.h"
#include "store/convert.h"
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

int stage_in(struct stage *stage, struct tensor to, const struct safetensors_tensor *from) {
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
