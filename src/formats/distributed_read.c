// Puts a tensor of a distributed checkpoint together from its pieces, which tile it like a wall: each is checked
// against .metadata, and together they must cover the requested part exactly once.
#include "base/error.h"
#include "base/memory.h"
#include "formats/distributed.h"
#include <stdlib.h>
#include <string.h>

// The part that is read, and the strides of its dimensions in bytes of the result.
struct reading {
    const struct distributed *checkpoint;
    const struct distributed_tensor *tensor;
    int64_t first;  // of the first dimension, or DISTRIBUTED_ALL
    size_t stride[TENSOR_MAX_RANK];
    unsigned char *to;
};

static int64_t number(const struct torch_value *list, int i) {
    return list->items[i]->integer;
}

static bool is_met(const struct reading *reading, const struct distributed_piece *piece) {
    int64_t first = reading->first;
    return first == DISTRIBUTED_ALL ||
           (number(piece->offsets, 0) <= first && first - number(piece->offsets, 0) < number(piece->sizes, 0));
}

static size_t piece_elements(const struct reading *reading, const struct distributed_piece *piece) {
    size_t count = 1;
    for (int i = reading->first == DISTRIBUTED_ALL ? 0 : 1; i < reading->tensor->rank; i++)
        count *= (size_t)number(piece->sizes, i);
    return count;
}

static bool do_overlap(const struct distributed_piece *a, const struct distributed_piece *b, int rank) {
    for (int i = 0; i < rank; i++) {
        int64_t left = number(a->offsets, i), right = number(b->offsets, i);
        if (left + number(a->sizes, i) <= right || right + number(b->sizes, i) <= left)
            return false;
    }
    return true;
}

// Copies the rows (last dimension) of the part read of a piece to their places in the result.
static void scatter(const struct reading *reading, const struct distributed_piece *piece, const unsigned char *from) {
    const struct distributed_tensor *tensor = reading->tensor;
    int64_t at[TENSOR_MAX_RANK] = {0}, sizes[TENSOR_MAX_RANK], offsets[TENSOR_MAX_RANK];
    for (int i = 0; i < tensor->rank; i++) {
        bool is_one = i == 0 && reading->first != DISTRIBUTED_ALL;
        sizes[i] = is_one ? 1 : number(piece->sizes, i);
        offsets[i] = is_one ? 0 : number(piece->offsets, i);
    }
    int last = tensor->rank - 1;
    size_t width = tensor->dtype->bytes, row = (last >= 0 ? (size_t)sizes[last] : 1) * width;
    for (;; from += row) {
        size_t to = 0;
        for (int i = 0; i < tensor->rank; i++)
            to += (size_t)(offsets[i] + at[i]) * reading->stride[i];
        memcpy(reading->to + to, from, row);
        int i = last - 1;
        while (i >= 0 && ++at[i] == sizes[i])
            at[i--] = 0;
        if (i < 0)
            return;
    }
}

// The wanted part of a piece: all of it, or one index of its first dimension.
static struct torch_tensor narrow(const struct reading *reading, const struct distributed_piece *piece,
                                  const struct torch_tensor *whole) {
    struct torch_tensor part = *whole;
    if (reading->first != DISTRIBUTED_ALL) {
        part.offset += (reading->first - number(piece->offsets, 0)) * part.stride[0];
        part.shape[0] = 1;
    }
    return part;
}

// A piece of many layers is read for each of them; its checksum is compared once.
static int copy_elements(const struct reading *reading, struct distributed_piece *piece, const struct torch_file *file,
                         const struct torch_tensor *whole) {
    struct torch_tensor part = narrow(reading, piece, whole);
    unsigned char *elements = memory_alloc((size_t)torch_tensor_count(&part) * part.dtype->bytes);
    part.storage->is_proven = piece->is_proven;
    int result = torch_read(file, &part, elements);
    if (result == 0) {
        piece->is_proven = true;
        scatter(reading, piece, elements);
    }
    free(elements);
    return result;
}

static int read_piece(const struct reading *reading, struct distributed_piece *piece) {
    const struct distributed_tensor *tensor = reading->tensor;
    struct torch_file file;
    TRY(torch_parse(&file, piece->data, piece->bytes, reading->checkpoint->path));
    const struct torch_value *root = file.pickle.root;
    bool is_right =
        root->type == TORCH_TENSOR && root->tensor.dtype == tensor->dtype && root->tensor.rank == tensor->rank;
    for (int i = 0; i < tensor->rank && is_right; i++)
        is_right = root->tensor.shape[i] == number(piece->sizes, i);
    int result = 0;
    if (!is_right)
        result = error_set("%s: a piece of \"%.200s\" is not the tensor that .metadata describes",
                           reading->checkpoint->path, tensor->name);
    else if (torch_tensor_count(&root->tensor) > 0)
        result = copy_elements(reading, piece, &file, &root->tensor);
    torch_close(&file);
    return result;
}

// The pieces that intersect the part must have all its elements, each once.
static int check_cover(const struct reading *reading, size_t wanted) {
    const struct distributed_tensor *tensor = reading->tensor;
    size_t covered = 0;
    for (size_t i = 0; i < tensor->piece_count; i++) {
        if (!is_met(reading, &tensor->pieces[i]))
            continue;
        covered += piece_elements(reading, &tensor->pieces[i]);
        for (size_t k = 0; k < i; k++)
            if (is_met(reading, &tensor->pieces[k]) && do_overlap(&tensor->pieces[k], &tensor->pieces[i], tensor->rank))
                return error_set("%s: two pieces of \"%.200s\" overlap", reading->checkpoint->path, tensor->name);
    }
    return covered == wanted
               ? 0
               : error_set("%s: pieces of \"%.200s\" are missing", reading->checkpoint->path, tensor->name);
}

int distributed_read(const struct distributed *checkpoint, const struct distributed_tensor *tensor, int64_t first,
                     void *to) {
    struct reading reading = {.checkpoint = checkpoint, .tensor = tensor, .first = first, .to = to};
    CHECK(tensor->dtype->is_readable && first < (tensor->rank > 0 ? tensor->shape[0] : 0));
    size_t elements = 1;
    for (int i = tensor->rank - 1; i >= 0; i--) {
        reading.stride[i] = elements * tensor->dtype->bytes;
        if (i > 0 || first == DISTRIBUTED_ALL)
            elements *= (size_t)tensor->shape[i];
    }
    TRY(check_cover(&reading, elements));
    for (size_t i = 0; i < tensor->piece_count; i++)
        if (is_met(&reading, &tensor->pieces[i]))
            TRY(read_piece(&reading, &tensor->pieces[i]));
    return 0;
}
