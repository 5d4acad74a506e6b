// Gathering slices, taking them out of whole tensors, and moving them between a device and a file. See gather.h.
#include "store/gather.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/watchdog.h"
#include "comm/comm.h"
#include "store/convert.h"
#include "tensor/moment8.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool gather_is_split(const struct checkpoint_tensor *tensor) {
    return tensor->pieces || (tensor->shard && tensor->shard->parts > 1);
}

int gather_shape(const struct checkpoint_tensor *tensor, int64_t shape[TENSOR_MAX_RANK]) {
    if (!gather_is_split(tensor)) {
        memcpy(shape, tensor->tensor.shape, sizeof tensor->tensor.shape);
        return tensor->tensor.rank;
    }
    memcpy(shape, tensor->shard->global, sizeof(int64_t) * (size_t)tensor->shard->rank);
    return tensor->shard->rank;
}

size_t gather_bytes(const struct checkpoint_tensor *tensor) {
    int64_t shape[TENSOR_MAX_RANK], count = 1;
    int rank = gather_shape(tensor, shape);
    for (int i = 0; i < rank; i++)
        count *= shape[i];
    return (size_t)count * dtype_bytes(coded_dtype(tensor));
}

// Copies a slice in host memory into its places in the whole.
static void place_slice(unsigned char *whole, const unsigned char *slice, const struct shard *shard, size_t element) {
    for (int64_t i = 0; i < shard_run_count(shard); i++) {
        struct shard_run run = shard_run(shard, i);
        memcpy(whole + (size_t)run.global_offset * element, slice + (size_t)run.local_offset * element,
               (size_t)run.count * element);
    }
}

// ---- from the holders to the writer ----
//
// The writer's replica is the ranks that share layers with it. Those of them that hold slices of the tensor are its
// heads: first every other replica sends its pieces to the head that has the same slice, then the heads send whole
// slices to the writer. Every rank goes through tensors and senders in the same order, so there is no deadlock. A rank
// that others wait for may still be writing earlier tensors, and a slow file system can take any time for that: so
// there is no deadline here (comm_patience_begin).

struct gather_place {
    int part, replica;
};

static struct gather_place place_of(const struct gather *gather, int rank) {
    const struct mesh *mesh = gather->ranks->mesh;
    int place[AXIS_COUNT];
    memcpy(place, mesh->place, sizeof place);
    mesh_move(mesh, place, MESH_STAGE, rank);
    return (struct gather_place){mesh_index(mesh, place, gather->tensor->group->slices),
                                 mesh_index(mesh, place, gather->tensor->group->replicas)};
}

static int rank_at(const struct gather *gather, int part, int replica) {
    const struct mesh *mesh = gather->ranks->mesh;
    int place[AXIS_COUNT];
    memcpy(place, mesh->place, sizeof place);
    mesh_move(mesh, place, gather->tensor->group->slices, part);
    mesh_move(mesh, place, gather->tensor->group->replicas, replica);
    return mesh_index(mesh, place, MESH_STAGE);
}

// Whether the ranks with this part send their slice; of a tensor that all have whole, one slice is enough.
static bool is_wanted(const struct gather *gather, int part) {
    return gather->tensor->shard->parts > 1 || part == place_of(gather, gather->writer).part;
}

// Most bytes of a message: a GPU that training fills has room for one message, not for the largest slice.
enum { MESSAGE_BYTES = 16 << 20 };

static int64_t message_elements(const struct gather *gather, int64_t count) {
    int64_t most = MESSAGE_BYTES / (int64_t)dtype_bytes(coded_dtype(gather->tensor));
    return count < most ? count : most;
}

// Device memory for one message of a slice of `count` elements; to be freed.
static struct tensor take_staging(const struct gather *gather, int64_t count) {
    enum dtype dtype = coded_dtype(gather->tensor);
    int64_t elements = message_elements(gather, count);
    void *memory = device_alloc(gather->device, (size_t)elements * dtype_bytes(dtype));
    if (!memory)
        die_code(EXIT_CODE_OUT_OF_MEMORY, "no room to gather a checkpoint: %s", error_message());
    return tensor_1d(memory, dtype, elements);
}

// Receives another rank's elements into host memory.
static void receive(const struct gather *gather, int from, int64_t count, unsigned char *to) {
    struct tensor staging = take_staging(gather, count);
    for (int64_t first = 0, n; first < count; first += n) {
        n = message_elements(gather, count - first);
        struct tensor part = tensor_rows(staging, 0, n);
        struct comm_request request = comm_receive_start(gather->ranks->mesh->stage, part, from, "checkpoint");
        comm_wait(&request);
        device_copy_out(gather->device, to + (size_t)first * dtype_bytes(part.dtype), part);
    }
    device_free(gather->device, staging.data);
}

static void send(const struct gather *gather, int to, struct tensor x) {
    for (int64_t first = 0, n; first < tensor_count(x); first += n) {
        n = message_elements(gather, tensor_count(x) - first);
        struct comm_request request =
            comm_send_start(gather->ranks->mesh->stage, tensor_rows(x, first, n), to, "checkpoint");
        comm_wait(&request);
    }
}

// Sends elements from host memory.
static void send_from_host(const struct gather *gather, int to, const unsigned char *from, int64_t count) {
    struct tensor staging = take_staging(gather, count);
    for (int64_t first = 0, n; first < count; first += n) {
        n = message_elements(gather, count - first);
        struct tensor part = tensor_rows(staging, 0, n);
        device_copy_in(gather->device, part, from + (size_t)first * dtype_bytes(part.dtype));
        device_synchronize(gather->device);
        send(gather, to, part);
    }
    device_free(gather->device, staging.data);
}

// Assembles a slice, in host memory of a head, from the pieces that all replicas hold.
static void collect_pieces(const struct gather *gather, unsigned char *slice) {
    const struct checkpoint_tensor *tensor = gather->tensor;
    size_t element = dtype_bytes(coded_dtype(tensor));
    struct pieces pieces = *tensor->pieces;
    int64_t end = tensor->offset + shard_local_count(tensor->shard);
    int part = place_of(gather, group_rank(gather->ranks->mesh->stage)).part;
    OWNED unsigned char *message = memory_alloc((size_t)(end - tensor->offset) * element);
    for (pieces.part = 0; pieces.part < pieces.parts; pieces.part++) {
        struct piece run;
        int64_t count = 0;
        for (int64_t at = tensor->offset; pieces_next(&pieces, &at, end, &run);)
            count += run.count;
        if (count == 0)
            continue;
        if (pieces.part == tensor->pieces->part)
            coded_copy_out(gather->device, message, tensor);
        else
            receive(gather, rank_at(gather, part, pieces.part), count, message);
        const unsigned char *from = message;
        for (int64_t at = tensor->offset; pieces_next(&pieces, &at, end, &run); from += (size_t)run.count * element)
            memcpy(slice + (size_t)(run.flat_offset - tensor->offset) * element, from, (size_t)run.count * element);
    }
}

// This rank's slice, whole, in host memory; to be freed.
static unsigned char *own_slice(const struct gather *gather) {
    const struct checkpoint_tensor *tensor = gather->tensor;
    unsigned char *slice =
        memory_alloc((size_t)shard_local_count(tensor->shard) * dtype_bytes(coded_dtype(tensor)) + 1);
    if (tensor->pieces)
        collect_pieces(gather, slice);
    else
        coded_copy_out(gather->device, slice, tensor);
    return slice;
}

void gather_receive(const struct gather *gather, unsigned char *whole) {
    const struct checkpoint_tensor *tensor = gather->tensor;
    if (!gather_is_split(tensor)) {
        coded_copy_out(gather->device, whole, tensor);
        return;
    }
    size_t element = dtype_bytes(coded_dtype(tensor));
    struct gather_place place = place_of(gather, gather->writer);
    struct shard shard = *tensor->shard;
    if (shard_local_count(&shard) > 0) {
        unsigned char *slice = own_slice(gather);
        place_slice(whole, slice, &shard, element);
        free(slice);
    }
    for (shard.part = 0; shard.part < shard.parts; shard.part++) {
        int64_t count = shard_local_count(&shard);
        if (count == 0 || shard.part == tensor->shard->part)
            continue;
        unsigned char *slice = memory_alloc((size_t)count * element);
        receive(gather, rank_at(gather, shard.part, place.replica), count, slice);
        place_slice(whole, slice, &shard, element);
        free(slice);
    }
}

// Sends the elements that this rank holds.
static void send_held(const struct gather *gather, int to) {
    const struct checkpoint_tensor *tensor = gather->tensor;
    if (!coded_is(tensor) && !tensor->is_hosted) {
        send(gather, to, tensor_flat(tensor->tensor));
        return;
    }
    OWNED unsigned char *held = memory_alloc((size_t)tensor_count(tensor->tensor) * dtype_bytes(coded_dtype(tensor)));
    coded_copy_out(gather->device, held, tensor);
    send_from_host(gather, to, held, tensor_count(tensor->tensor));
}

// A head sends its slice, which is in host memory if it was assembled from pieces.
static void send_slice(const struct gather *gather) {
    const struct checkpoint_tensor *tensor = gather->tensor;
    if (!tensor->pieces) {
        send_held(gather, gather->writer);
        return;
    }
    OWNED unsigned char *slice = own_slice(gather);
    send_from_host(gather, gather->writer, slice, shard_local_count(tensor->shard));
}

void gather_send(const struct gather *gather) {
    const struct checkpoint_tensor *tensor = gather->tensor;
    if (!gather->ranks || !gather_is_split(tensor))
        return;
    struct gather_place own = place_of(gather, group_rank(gather->ranks->mesh->stage)),
                        writer = place_of(gather, gather->writer);
    if (!is_wanted(gather, own.part) || shard_local_count(tensor->shard) == 0)
        return;
    if (own.replica == writer.replica)
        send_slice(gather);
    else if (tensor->pieces && tensor_count(tensor->tensor) > 0)
        send_held(gather, rank_at(gather, own.part, writer.replica));
}

// ---- loading ----

// Moves the elements of this rank's pieces to the beginning of the slice; returns their bytes.
static size_t keep_pieces(const struct checkpoint_tensor *wanted, unsigned char *slice, size_t element) {
    unsigned char *to = slice;
    struct piece run;
    int64_t end = wanted->offset + shard_local_count(wanted->shard);
    for (int64_t at = wanted->offset; pieces_next(wanted->pieces, &at, end, &run); to += (size_t)run.count * element)
        memmove(to, slice + (size_t)(run.flat_offset - wanted->offset) * element, (size_t)run.count * element);
    return (size_t)(to - slice);
}

// Assembles the elements in host memory and copies them to the device like a tensor of a file.
static int take_elements(struct stage *stage, const struct checkpoint_tensor *wanted,
                         const struct safetensors_tensor *found) {
    if (!gather_is_split(wanted))
        return coded_copy_in(stage, wanted, found);
    size_t element = dtype_bytes(found->dtype), bytes = (size_t)shard_local_count(wanted->shard) * element;
    OWNED unsigned char *slice = memory_alloc(bytes + 1);
    for (int64_t i = 0; i < shard_run_count(wanted->shard); i++) {
        struct shard_run run = shard_run(wanted->shard, i);
        memcpy(slice + (size_t)run.local_offset * element, found->data + (size_t)run.global_offset * element,
               (size_t)run.count * element);
    }
    if (wanted->pieces)
        bytes = keep_pieces(wanted, slice, element);
    struct safetensors_tensor local = *found;
    local.data = slice;
    local.bytes = bytes;
    local.rank = wanted->tensor.rank;
    memcpy(local.shape, wanted->tensor.shape, sizeof wanted->tensor.shape);
    CHECK(bytes == (size_t)tensor_count(wanted->tensor) * element);
    int result = coded_copy_in(stage, wanted, &local);
    device_synchronize(stage->device);  // the memory is about to go
    return result;
}

int gather_take(struct stage *stage, const struct checkpoint_tensor *wanted, const struct safetensors_tensor *found) {
    if (wanted->added == 0)
        return take_elements(stage, wanted, found);
    size_t count = found->bytes / dtype_bytes(found->dtype);
    OWNED float *shifted = convert_shifted(found->data, found->dtype, count, wanted->added);
    struct safetensors_tensor other = *found;
    other.dtype = DTYPE_F32;
    other.data = (const unsigned char *)shifted;
    other.bytes = count * sizeof *shifted;
    int result = take_elements(stage, wanted, &other);
    device_synchronize(stage->device);  // the memory is about to go
    return result;
}

// ---- between a device and a file ----

// The piece is 16 MiB of the device's own host memory: large enough that disk and bus run at full speed, negligible
// beside a model.

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
