// The states of a distributed optimizer whose buckets were stored as they are (dp_reshardable, and
// fully_sharded_bucket_space of earlier releases): one flat tensor for each state of each bucket,
//
//   optimizer.distributed.dp_group_idx_D.gbuf_idx_G.dtype_(…).bucket_idx_B.STATE
//
// D is the place of a rank in its tensor- and pipeline-parallel group, G the number of its virtual stage. Nothing lists
// the parameters of a bucket: they lie there in the reverse of their order in the model, each at a multiple of 64
// elements. The order is that of Megatron's modules. The place of the norm before attention depends on the
// implementation of the layers, which the vectors reveal: only in its own place does an fp32 copy round to its
// parameter. Matrices are compared when they are read.
#include "base/error.h"
#include "base/memory.h"
#include "formats/megatron_folder.h"
#include "formats/model_source.h"
#include "store/convert.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prefix[] = "optimizer.distributed.dp_group_idx_";
enum { ALIGNMENT_ELEMENTS = 64, MOST_RANKS = 4096 };

struct state_bucket {
    int64_t group, buffer, number;
    const struct distributed_tensor *states[SOURCE_STATES];
};

// A parameter of a rank: its name, and its shape there.
struct placed {
    char *name;  // ours; NULL for the last stage's copy of a tied embedding
    struct weight like;
    enum megatron_split split;
};

struct bucket_space {
    struct megatron_folder *folder;
    struct state_bucket *buckets;  // by group, buffer, number
    size_t count;
    int64_t tensor_ranks, stages, chunks;  // chunks: virtual stages of a rank
    bool has_fused_norms;                  // norms are parts of the matmuls after them (Transformer Engine)
    struct placed *placed;                 // of the current rank, in the order of its modules
    size_t placed_count;
};

// ---- the buckets that are there ----

static int64_t argument(const struct megatron_folder *folder, const char *name) {
    const struct torch_value *value = torch_get(folder->args, name);
    return value && value->type == TORCH_INT ? value->integer : 0;
}

static int read_layout(struct bucket_space *space) {
    static const char *const uneven[] = {"decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers",
                                         "account_for_embedding_in_pipeline_split", "pipeline_model_parallel_layout",
                                         "account_for_loss_in_pipeline_split"};
    struct megatron_folder *folder = space->folder;
    int64_t tensor_ranks = argument(folder, "tensor_model_parallel_size"),
            stages = argument(folder, "pipeline_model_parallel_size"),
            chunks = argument(folder, "virtual_pipeline_model_parallel_size");
    space->tensor_ranks = tensor_ranks > 0 ? tensor_ranks : 1;
    space->stages = stages > 0 ? stages : 1;
    space->chunks = chunks > 0 ? chunks : 1;
    for (size_t i = 0; i < sizeof uneven / sizeof uneven[0]; i++) {
        const struct torch_value *value = torch_get(folder->args, uneven[i]);
        if (value && value->type != TORCH_NONE && !(value->type == TORCH_BOOL && !value->boolean))
            return megatron_refuse_optimizer(folder, "its pipeline stages have different numbers of layers; load and "
                                                     "save it in Megatron-LM with --dist-ckpt-optim-fully-reshardable");
    }
    bool is_possible = space->tensor_ranks <= MOST_RANKS && space->stages <= MOST_RANKS &&
                       space->chunks <= MOST_RANKS && folder->form == CONFIG_GPT &&
                       folder->layers[MEGATRON_FIRST] % (space->stages * space->chunks) == 0;
    return is_possible ? 0 : megatron_refuse_optimizer(folder, "its buckets are those of an unknown layout");
}

// Reads the number after a text; NULL if absent.
static const char *take_number(const char *at, const char *text, int64_t *number) {
    const char *found = at ? strstr(at, text) : NULL;
    size_t digits = found ? strspn(found + strlen(text), "0123456789") : 0;
    if (digits == 0 || digits > 6)
        return NULL;
    *number = strtoll(found + strlen(text), NULL, 10);
    return found + strlen(text) + digits;
}

static int compare_buckets(const void *a, const void *b) {
    const struct state_bucket *x = a, *y = b;
    if (x->group != y->group)
        return x->group < y->group ? -1 : 1;
    if (x->buffer != y->buffer)
        return x->buffer < y->buffer ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

static const struct state_bucket *find_bucket(const struct bucket_space *space, int64_t group, int64_t buffer,
                                              int64_t number) {
    const struct state_bucket wanted = {.group = group, .buffer = buffer, .number = number};
    return space->count > 0 ? bsearch(&wanted, space->buckets, space->count, sizeof space->buckets[0], compare_buckets)
                            : NULL;
}

static int64_t elements_of(const struct distributed_tensor *tensor) {
    return tensor->rank == 2 ? tensor->shape[0] * tensor->shape[1] : tensor->shape[0];
}

// Whether a bucket has all its states in fp32.
static bool is_whole(const struct state_bucket *bucket) {
    for (int i = 0; i < SOURCE_STATES; i++) {
        const struct distributed_tensor *tensor = bucket->states[i];
        if (!tensor || tensor->rank < 1 || tensor->rank > 2 || !tensor->dtype->is_readable ||
            tensor->dtype->dtype != DTYPE_F32 || elements_of(tensor) != elements_of(bucket->states[0]))
            return false;
    }
    return true;
}

static int list_buckets(struct bucket_space *space) {
    static const char *const names[SOURCE_STATES] = {".exp_avg", ".exp_avg_sq", ".param"};
    const struct distributed *checkpoint = space->folder->states.distributed;
    space->buckets = memory_alloc((checkpoint->count + 1) * sizeof space->buckets[0]);
    for (size_t i = 0; i < checkpoint->count; i++) {
        const struct distributed_tensor *tensor = &checkpoint->tensors[i];
        struct state_bucket found = {0};
        const char *at = take_number(tensor->name, prefix, &found.group);
        at = take_number(at, ".gbuf_idx_", &found.buffer);
        at = take_number(at, ".bucket_idx_", &found.number);
        int state = 0;
        while (at && state < SOURCE_STATES && strcmp(at, names[state]) != 0)
            state++;
        if (!at || state == SOURCE_STATES)
            continue;
        size_t k = 0;
        while (k < space->count && compare_buckets(&space->buckets[k], &found) != 0)
            k++;
        if (k == space->count)
            space->buckets[space->count++] = found;
        space->buckets[k].states[state] = tensor;
    }
    qsort(space->buckets, space->count, sizeof space->buckets[0], compare_buckets);
    for (size_t i = 0; i < space->count; i++)
        if (!is_whole(&space->buckets[i]))
            return megatron_refuse_optimizer(space->folder, "a bucket lacks a flat tensor of Adam's in fp32");
    return 0;
}

// An object of the first group of ranks, a list of one value; NULL if there is none.
static int open_object(struct megatron_folder *folder, int64_t group, const char *name,
                       const struct torch_value **value) {
    const struct torch_file *file = NULL;
    const unsigned char *bytes = NULL;
    size_t size = 0;
    *value = NULL;
    OWNED char *key = memory_printf("%s%" PRId64 ".%s/shard_0_1", prefix, group, name);
    TRY(distributed_find_object(folder->states.distributed, key, &bytes, &size));
    if (!bytes)
        return 0;
    TRY(weights_parse_torch(&folder->states, bytes, size, key, &file));
    const struct torch_value *list = file->pickle.root;
    *value = list->type == TORCH_LIST && list->count == 1 ? list->items[0] : NULL;
    return 0;
}

// ---- the order of modules ----

static void add_placed(struct bucket_space *space, char *name, bool is_kept) {
    const struct weight *whole = megatron_find(space->folder, 0, name);
    if (!whole) {
        free(name);
        return;
    }
    struct placed *placed = &space->placed[space->placed_count++];
    *placed = (struct placed){.name = is_kept ? name : NULL, .like = *whole, .split = megatron_split(name, false)};
    if (!is_kept)
        free(name);
    megatron_shard_shape(placed->split, space->tensor_ranks, placed->like.shape);
}

static void add_layer(struct bucket_space *space, int64_t layer) {
    static const char *const modules[] = {"input_layernorm",
                                          "self_attention.linear_proj",
                                          "self_attention.linear_qkv",
                                          "self_attention.q_layernorm",
                                          "self_attention.k_layernorm",
                                          "pre_mlp_layernorm",
                                          "mlp.linear_fc1",
                                          "mlp.linear_fc2"};
    for (size_t i = 0; i < sizeof modules / sizeof modules[0]; i++) {
        const char *module = modules[space->has_fused_norms && i < 2 ? 1 - i : i];
        add_placed(space, memory_printf("decoder.layers.%" PRId64 ".%s.weight", layer, module), true);
        add_placed(space, memory_printf("decoder.layers.%" PRId64 ".%s.bias", layer, module), true);
    }
}

// The parameters of virtual stage `chunk` of stage `stage`.
static void list_placed(struct bucket_space *space, int64_t stage, int64_t chunk) {
    int64_t layers = space->folder->layers[MEGATRON_FIRST], each = layers / (space->stages * space->chunks);
    int64_t place = chunk * space->stages + stage;
    space->placed_count = 0;
    if (place == 0) {
        add_placed(space, memory_string("embedding.word_embeddings.weight"), true);
        add_placed(space, memory_string("embedding.position_embeddings.weight"), true);
    }
    for (int64_t i = 0; i < each; i++)
        add_layer(space, place * each + i);
    if (place != space->stages * space->chunks - 1)
        return;
    add_placed(space, memory_string("decoder.final_layernorm.weight"), true);
    add_placed(space, memory_string("decoder.final_layernorm.bias"), true);
    if (megatron_find(space->folder, 0, "output_layer.weight"))
        add_placed(space, memory_string("output_layer.weight"), true);
    else if (place > 0)
        add_placed(space, memory_string("embedding.word_embeddings.weight"), false);
}

static void forget_placed(struct bucket_space *space) {
    for (size_t i = 0; i < space->placed_count; i++)
        free(space->placed[i].name);
    space->placed_count = 0;
}

// ---- buckets ----

// Whether a vector that every rank has whole is at this place.
static int is_at(const struct bucket_space *space, const struct placed *placed, const struct state_bucket *bucket,
                 int64_t at, bool *is_there) {
    const struct weight *whole = megatron_find(space->folder, 0, placed->name);
    *is_there = true;
    if (whole->rank != 1 || placed->split != SPLIT_WHOLE || !whole->is_readable ||
        !convert_is_possible(whole->dtype, DTYPE_F32))
        return 0;
    int64_t count = whole->shape[0];
    OWNED float *copy = memory_alloc((size_t)count * sizeof *copy + 1);
    OWNED unsigned char *wanted = memory_alloc(whole->bytes + 1), *rounded = memory_alloc(whole->bytes + 1);
    const struct distributed_range range = {.checkpoint = space->folder->states.distributed,
                                            .tensor = bucket->states[STATE_MASTER],
                                            .first = at,
                                            .count = count};
    TRY(distributed_read_range(&range, copy));
    TRY(weight_read(whole, wanted));
    convert_elements(&(struct convert){
        .to = rounded, .to_dtype = whole->dtype, .from = copy, .from_dtype = DTYPE_F32, .count = (size_t)count});
    *is_there = memcmp(wanted, rounded, whole->bytes) == 0;
    return 0;
}

static void add_states(const struct bucket_space *space, const struct placed *placed, const struct state_bucket *bucket,
                       int64_t at) {
    for (int state = 0; state < SOURCE_STATES; state++) {
        OWNED char *key = memory_printf("%02d/%s/%s", (int)(bucket->group % space->tensor_ranks),
                                        source_state_names[state], placed->name);
        weights_add_flat(&space->folder->states, key, bucket->states[state], at, &placed->like, PIECES_RANGE);
    }
}

// Number of elements of each bucket of a buffer that belong to parameters; the rest is padding. NULL if not stored.
static const struct torch_value *sizes_of(const struct torch_value *sizes, int64_t buffer) {
    const struct torch_value *of =
        sizes && sizes->type == TORCH_LIST && (uint64_t)buffer < sizes->count ? sizes->items[buffer] : NULL;
    bool is_pair = of && of->type == TORCH_DICT && of->count == 2 && of->items[1]->type == TORCH_LIST;
    return is_pair ? of->items[1] : NULL;
}

static int64_t bucket_end(const struct state_bucket *bucket, const struct torch_value *sizes) {
    int64_t all = elements_of(bucket->states[0]);
    bool is_there = sizes && (uint64_t)bucket->number < sizes->count;
    const struct torch_value *size = is_there ? sizes->items[bucket->number] : NULL;
    return size && size->type == TORCH_INT && size->integer > 0 && size->integer < all ? size->integer : all;
}

// Places the parameters of one buffer. *fits is false if they are not those of its buckets.
static int place_buffer(const struct bucket_space *space, int64_t group, int64_t buffer,
                        const struct torch_value *sizes, bool *fits) {
    const struct state_bucket *bucket = find_bucket(space, group, buffer, 0);
    int64_t end = bucket ? bucket_end(bucket, sizes) : 0, at = 0;
    *fits = bucket != NULL;
    for (size_t i = space->placed_count; i-- > 0 && *fits;) {
        const struct placed *placed = &space->placed[i];
        int64_t count = 1;
        for (int k = 0; k < placed->like.rank; k++)
            count *= placed->like.shape[k];
        at = (at + ALIGNMENT_ELEMENTS - 1) / ALIGNMENT_ELEMENTS * ALIGNMENT_ELEMENTS;
        if (at > end || count > end - at) {
            bucket = find_bucket(space, group, buffer, bucket->number + 1);
            end = bucket ? bucket_end(bucket, sizes) : 0;
            at = 0;
        }
        *fits = bucket && count <= end;
        if (*fits && placed->name) {
            TRY(is_at(space, placed, bucket, at, fits));
            add_states(space, placed, bucket, at);
        }
        at += count;
    }
    *fits = *fits && at == end && !find_bucket(space, group, buffer, bucket->number + 1);
    return 0;
}

static int place_all(struct bucket_space *space, bool *fits) {
    *fits = true;
    for (int64_t group = 0; group < space->tensor_ranks * space->stages && *fits; group++) {
        const struct torch_value *sizes;
        TRY(open_object(space->folder, group, "per_bucket_numel_unpadded", &sizes));
        for (int64_t chunk = 0; chunk < space->chunks && *fits; chunk++) {
            list_placed(space, group / space->tensor_ranks, chunk);
            int result = place_buffer(space, group, chunk, sizes_of(sizes, chunk), fits);
            forget_placed(space);
            TRY(result);
        }
        *fits = *fits && !find_bucket(space, group, space->chunks, 0);
    }
    return 0;
}

static int place_either_way(struct bucket_space *space) {
    const struct torch_value *kind = torch_get(space->folder->args, "transformer_impl");
    bool is_local = kind && kind->type == TORCH_STRING && strcmp(kind->text, "local") == 0, fits = false;
    size_t most = (size_t)space->folder->weights.count + 8;
    space->placed = memory_alloc(most * sizeof space->placed[0]);
    for (int attempt = 0; attempt < 2 && !fits; attempt++) {
        space->has_fused_norms = is_local == (attempt == 1);
        weights_clear(&space->folder->states);
        TRY(place_all(space, &fits));
    }
    return fits ? 0
                : megatron_refuse_optimizer(space->folder,
                                            "its buckets are not those of the model; load and save it in Megatron-LM "
                                            "with --dist-ckpt-optim-fully-reshardable");
}

static void free_space(struct bucket_space *space) {
    free(space->placed);
    free(space->buckets);
}

int megatron_open_bucket_space(struct megatron_folder *folder) {
    OWNED_BY(free_space) struct bucket_space space = {.folder = folder};
    TRY(read_layout(&space));
    TRY(list_buckets(&space));
    TRY(place_either_way(&space));
    TRY(open_object(folder, 0, "optimizer", &folder->inner));
    TRY(open_object(folder, 0, "grad_scaler", &folder->scaler));
    folder->state_ranks = (int)space.tensor_ranks;
    folder->needs_proof = true;
    return 0;
}
