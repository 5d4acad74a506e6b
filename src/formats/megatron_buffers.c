// The states of Megatron's distributed optimizer in the format torch: distrib_optim.pt beside the file of each rank,
// which has one flat tensor for each state. Parameters lie there in the reverse of their order in the model, each at a
// multiple of 64 elements from the beginning of its bucket; the next bucket begins where the last one ends. The sizes
// of buckets are not stored, so whether a parameter begins a new one is inferred from its fp32 copy: only in its own
// place does it round to the parameter. Experts on several ranks have buffers of their own, listed after those of the
// parameters that all ranks have, which only the first rank's file has.
#include "base/error.h"
#include "base/memory.h"
#include "formats/megatron_folder.h"
#include "formats/model_source.h"
#include "store/convert.h"
#include <string.h>

enum { ALIGNMENT_ELEMENTS = 64 };

struct flat_states {
    struct megatron_folder *folder;
    const struct megatron_order *order;
    const struct torch_file *file;                     // distrib_optim.pt
    const struct torch_value *root;                    // its dict of buffers
    const struct torch_tensor *states[SOURCE_STATES];  // (elements)
    int64_t count;                                     // elements of each
};

// A parameter's place in a flat tensor, as a tensor of its shape.
static struct torch_tensor view_of(const struct torch_tensor *flat, int64_t at, const struct torch_tensor *like) {
    struct torch_tensor view = *flat;
    view.offset += at;
    view.rank = like->rank;
    int64_t stride = 1;
    for (int i = like->rank; i-- > 0;) {
        view.shape[i] = like->shape[i];
        view.stride[i] = stride;
        stride *= like->shape[i];
    }
    return view;
}

// *is_there: whether the parameter's fp32 copy is at this place. -1 if it cannot be read.
static int is_at(const struct flat_states *flat, const struct megatron_entry *entry, int64_t at, bool *is_there) {
    int64_t count = torch_tensor_count(entry->tensor);
    *is_there = false;
    if (at > flat->count || count > flat->count - at || !entry->tensor->dtype->is_readable ||
        !convert_is_possible(entry->tensor->dtype->dtype, DTYPE_F32))
        return 0;
    struct torch_tensor view = view_of(flat->states[STATE_MASTER], at, entry->tensor);
    enum dtype dtype = entry->tensor->dtype->dtype;
    size_t bytes = (size_t)count * dtype_bytes(dtype);
    OWNED float *copy = memory_alloc((size_t)count * sizeof *copy + 1);
    OWNED unsigned char *weights = memory_alloc(bytes + 1), *rounded = memory_alloc(bytes + 1);
    TRY(torch_read(flat->file, &view, copy));
    TRY(torch_read(flat->order->file, entry->tensor, weights));
    convert_elements(&(struct convert){
        .to = rounded, .to_dtype = dtype, .from = copy, .from_dtype = DTYPE_F32, .count = (size_t)count});
    *is_there = memcmp(weights, rounded, bytes) == 0;
    return 0;
}

static void add_states(const struct flat_states *flat, const struct megatron_entry *entry, int64_t at) {
    for (int state = 0; entry->is_first && state < SOURCE_STATES; state++) {
        struct torch_tensor *view = memory_alloc(sizeof *view);
        *view = view_of(flat->states[state], at, entry->tensor);
        megatron_keep_view(flat->folder, view);
        OWNED char *key = memory_printf("%.2s/%s/%s", entry->key, source_state_names[state], entry->key + 3);
        weights_add_tensor(&flat->folder->states, key, flat->file, view);
    }
}

static int place_parameters(const struct flat_states *flat) {
    int64_t bucket = 0, end = 0;
    for (size_t i = flat->order->count; i-- > 0;) {
        const struct megatron_entry *entry = &flat->order->entries[i];
        int64_t within = end - bucket;
        int64_t at = bucket + (within + ALIGNMENT_ELEMENTS - 1) / ALIGNMENT_ELEMENTS * ALIGNMENT_ELEMENTS;
        bool is_there;
        TRY(is_at(flat, entry, at, &is_there));
        if (!is_there && at != end) {
            at = bucket = end;
            TRY(is_at(flat, entry, at, &is_there));
        }
        if (!is_there)
            return megatron_refuse_optimizer(flat->folder,
                                             "the buffers in distrib_optim.pt are not those of the model");
        add_states(flat, entry, at);
        end = at + torch_tensor_count(entry->tensor);
    }
    return flat->count - end < ALIGNMENT_ELEMENTS
               ? 0
               : megatron_refuse_optimizer(flat->folder, "distrib_optim.pt has more than the parameters of the model");
}

// The tensors of the only buffer: {"buckets_coalesced": True, 0: {types: {"param": …, "exp_avg": …, "exp_avg_sq": …}}}.
static int find_states(struct flat_states *flat) {
    static const char *const names[SOURCE_STATES] = {"exp_avg", "exp_avg_sq", "param"};
    const struct torch_value *root = flat->root, *buffer = NULL;
    size_t buffers = 0;
    if (!torch_get(root, "buckets_coalesced"))
        return megatron_refuse_optimizer(flat->folder, "distrib_optim.pt is older than February 2024; convert it in "
                                                       "Megatron-LM with --ckpt-convert-update-legacy-dist-opt-format");
    for (size_t i = 0; i < root->count; i += 2)
        if (root->items[i]->type == TORCH_INT) {
            buffer = root->items[i + 1];
            buffers++;
        }
    if (buffers != 1 || buffer->type != TORCH_DICT || buffer->count != 2)
        return megatron_refuse_optimizer(flat->folder, "it has several buffers, as virtual stages and parameters of "
                                                       "several types make them");
    for (int state = 0; state < SOURCE_STATES; state++) {
        const struct torch_value *value = torch_get(buffer->items[1], names[state]);
        const struct torch_tensor *tensor = value && value->type == TORCH_TENSOR ? &value->tensor : NULL;
        bool is_flat = tensor && tensor->rank == 1 && (tensor->stride[0] == 1 || tensor->shape[0] < 2) &&
                       tensor->dtype->is_readable && tensor->dtype->dtype == DTYPE_F32;
        if (!is_flat || (state > 0 && tensor->shape[0] != flat->count))
            return megatron_refuse_optimizer(flat->folder, "distrib_optim.pt lacks a flat tensor of Adam's in fp32");
        flat->states[state] = tensor;
        flat->count = tensor->shape[0];
    }
    return 0;
}

// The dict of one of two optimizers, or of the only one.
static int find_root(struct flat_states *flat, int which) {
    const struct torch_value *root = flat->file->pickle.root;
    bool is_list = root->type == TORCH_LIST && root->count == MEGATRON_OPTIMIZERS;
    if (which >= 0 && is_list)
        root = root->items[which];
    if (root->type != TORCH_DICT || (which >= 0 && !is_list))
        return megatron_refuse_optimizer(flat->folder,
                                         "distrib_optim.pt does not have the buffers of every optimizer of its rank");
    flat->root = root;
    return 0;
}

int megatron_take_buffers(struct megatron_folder *folder, const struct megatron_order *order, int which) {
    OWNED char *parent = file_parent(order->file->path), *path = file_join(parent, "distrib_optim.pt");
    struct flat_states flat = {.folder = folder, .order = order};
    if (folder->zip || !file_exists(path))
        return megatron_refuse_optimizer(folder, "distrib_optim.pt, which has its states, is missing");
    TRY(weights_open_torch(&folder->states, path, &flat.file));
    TRY(find_root(&flat, which));
    TRY(find_states(&flat));
    return place_parameters(&flat);
}
