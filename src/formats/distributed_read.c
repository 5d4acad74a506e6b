// Puts a tensor of a distributed checkpoint together from its pieces, which tile it like a wall: each is checked
// against .metadata, and together they must cover the requested part exactly once.
#include "base/error.h"
#include "base/memory.h"
#include "formats/torch_file.h"
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
    OWNED unsigned char *elements = memory_alloc((size_t)torch_tensor_count(&part) * part.dtype->bytes);
    part.storage->is_proven = piece->is_proven;
    int result = torch_read(file, &part, elements);
    if (result == 0) {
        piece->is_proven = true;
        scatter(reading, piece, elements);
    }
    return result;
}

// Opens a piece, which must be the tensor that .metadata describes.
static int open_piece(const struct distributed *checkpoint, const struct distributed_tensor *tensor,
                      const struct distributed_piece *piece, struct torch_file *file) {
    TRY(torch_parse(file, piece->data, piece->bytes, checkpoint->path));
    const struct torch_value *root = file->pickle.root;
    bool is_right =
        root->type == TORCH_TENSOR && root->tensor.dtype == tensor->dtype && root->tensor.rank == tensor->rank;
    for (int i = 0; i < tensor->rank && is_right; i++)
        is_right = root->tensor.shape[i] == number(piece->sizes, i);
    return is_right ? 0
                    : error_set("%s: a piece of \"%.200s\" is not the tensor that .metadata describes",
                                checkpoint->path, tensor->name);
}

static int read_piece(const struct reading *reading, struct distributed_piece *piece) {
    OWNED_BY(torch_close) struct torch_file file = {0};
    TRY(open_piece(reading->checkpoint, reading->tensor, piece, &file));
    const struct torch_tensor *whole = &file.pickle.root->tensor;
    return torch_tensor_count(whole) > 0 ? copy_elements(reading, piece, &file, whole) : 0;
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

// Tensors of a distributed checkpoint that are stored flat. Earlier releases of Megatron-LM cut the states of an
// optimizer without regard to rows: a tensor (X, Y) whose ranks have parts (x, y) is stored as (X / x, Y / y, x y), the
// elements of each part one after another. And buckets of a distributed optimizer hold many parameters, with unwritten
// gaps between them.

bool distributed_is_blocks(const struct distributed_tensor *tensor, int64_t first, int rank, const int64_t *shape) {
    int skipped = first == DISTRIBUTED_ALL ? 0 : 1;
    if (tensor->rank - skipped != rank + 1 || rank < 1)
        return false;
    int64_t elements = 1;
    for (int i = 0; i < rank; i++) {
        int64_t parts = tensor->shape[skipped + i];
        if (parts < 1 || shape[i] % parts != 0)
            return false;
        elements *= shape[i] / parts;
    }
    return elements == tensor->shape[tensor->rank - 1];
}

// Copies the elements of one part, row by row.
static void place_block(const struct distributed_blocks *blocks, const int64_t *part, const int64_t *at,
                        const unsigned char *from, unsigned char *to) {
    int64_t row[TENSOR_MAX_RANK] = {0};
    int last = blocks->rank - 1;
    size_t width = blocks->tensor->dtype->bytes, bytes = (size_t)part[last] * width;
    for (;; from += bytes) {
        size_t place = 0;
        for (int i = 0; i < blocks->rank; i++)
            place = place * (size_t)blocks->shape[i] + (size_t)(at[i] * part[i] + row[i]);
        memcpy(to + place * width, from, bytes);
        int i = last - 1;
        while (i >= 0 && ++row[i] == part[i])
            row[i--] = 0;
        if (i < 0)
            return;
    }
}

int distributed_read_blocks(const struct distributed_blocks *blocks, void *to) {
    CHECK(distributed_is_blocks(blocks->tensor, blocks->first, blocks->rank, blocks->shape));
    int skipped = blocks->first == DISTRIBUTED_ALL ? 0 : 1;
    int64_t part[TENSOR_MAX_RANK], parts[TENSOR_MAX_RANK], at[TENSOR_MAX_RANK] = {0}, elements = 1;
    for (int i = 0; i < blocks->rank; i++) {
        parts[i] = blocks->tensor->shape[skipped + i];
        part[i] = blocks->shape[i] / parts[i];
        elements *= blocks->shape[i];
    }
    OWNED unsigned char *flat = memory_alloc((size_t)elements * blocks->tensor->dtype->bytes + 1);
    int result = distributed_read(blocks->checkpoint, blocks->tensor, blocks->first, flat);
    size_t block_bytes = (size_t)blocks->tensor->shape[blocks->tensor->rank - 1] * blocks->tensor->dtype->bytes;
    for (const unsigned char *from = flat; result == 0; from += block_bytes) {
        place_block(blocks, part, at, from, to);
        int i = blocks->rank - 1;
        while (i >= 0 && ++at[i] == parts[i])
            at[i--] = 0;
        if (i < 0)
            break;
    }
    return result;
}

// ---- ranges ----

// The place of a piece that lies in one row. Tensors have one dimension, or two: ranks, and elements of each.
static bool flat_place(const struct distributed_tensor *tensor, const struct distributed_piece *piece, int64_t *at,
                       int64_t *count) {
    int last = tensor->rank - 1;
    *at = piece->offsets->items[last]->integer;
    *count = piece->sizes->items[last]->integer;
    if (tensor->rank == 1)
        return true;
    *at += piece->offsets->items[0]->integer * tensor->shape[1];
    return tensor->rank == 2 && piece->sizes->items[0]->integer == 1;
}

// Reads elements [from, from + count) of a piece.
static int read_part(const struct distributed_range *range, struct distributed_piece *piece, int64_t from,
                     int64_t count, unsigned char *to) {
    OWNED_BY(torch_close) struct torch_file file = {0};
    TRY(open_piece(range->checkpoint, range->tensor, piece, &file));
    struct torch_tensor part = file.pickle.root->tensor;
    part.offset += from * part.stride[part.rank - 1];
    part.shape[part.rank - 1] = count;
    part.storage->is_proven = piece->is_proven;
    TRY(torch_read(&file, &part, to));
    piece->is_proven = true;
    return 0;
}

int distributed_read_range(const struct distributed_range *range, void *to) {
    const struct distributed_tensor *tensor = range->tensor;
    CHECK(tensor->dtype->is_readable);
    int64_t at = range->first, end = range->first + range->count;
    for (size_t i = 0; i < tensor->piece_count && at < end; i++) {
        int64_t first, count;
        if (!flat_place(tensor, &tensor->pieces[i], &first, &count))
            return error_set("%s: pieces of \"%.200s\" are not those of a bucket", range->checkpoint->path,
                             tensor->name);
        if (first + count <= at || count == 0)
            continue;
        if (first > at)
            break;
        int64_t taken = (first + count < end ? first + count : end) - at;
        unsigned char *place = (unsigned char *)to + (size_t)(at - range->first) * tensor->dtype->bytes;
        TRY(read_part(range, &tensor->pieces[i], at - first, taken, place));
        at += taken;
    }
    return at == end ? 0 : error_set("%s: pieces of \"%.200s\" are missing", range->checkpoint->path, tensor->name);
}
