// A model source written as a distributed checkpoint of Megatron-LM (torch_dist) that any of its layouts loads: the
// inverse of megatron_distributed.c. Every layer is a piece of a stack, and the states of a distributed optimizer lie
// beside the parameters (fully_reshardable). A tensor that exceeds the largest piece is split by rows. All pieces are
// in one file; .metadata says where.
#include "formats/megatron_folder.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "formats/model_bytes.h"
#include "formats/torch_write.h"
#include "store/convert.h"
#include "store/folder.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char data_name[] = "__0_0.distcp";
enum { THE_WEIGHT = -1 };  // or a state

struct written_piece {
    char *name;     // theirs, the same for all layers of a stack
    int64_t layer;  // -1 if it is not of a stack
    size_t from;    // the parameter
    int state;      // THE_WEIGHT or enum source_state
    enum dtype dtype;
    int rank;
    int64_t shape[SHARD_MAX_RANK + 1];    // of the whole tensor, layers included
    int64_t offsets[SHARD_MAX_RANK + 1];  // of the piece in the tensor
    int64_t sizes[SHARD_MAX_RANK + 1];
    uint64_t offset, bytes;  // in the file
};

// The elements of a tensor in the file's order, kept while its pieces are written.
struct whole_tensor {
    unsigned char *elements;
    size_t bytes, from;
    int state;
};

struct megatron_job {
    const struct model_write *write;
    char *folder;  // iter_…
    struct written_piece *pieces;
    size_t count, capacity;
    struct whole_tensor whole;
    struct file_writer file;
    uint64_t nothing_offset, nothing_bytes;  // a None, stored as the extra state of Transformer Engine's modules
};

// ---- names ----

// Modules with an extra state, of either implementation.
static const char *const with_extra[] = {"self_attention.linear_qkv", "self_attention.linear_proj",
                                         "self_attention.core_attention", "mlp.linear_fc1", "mlp.linear_fc2"};
// In layers with experts these replace the last two.
static const char *const with_extra_shared[] = {"mlp.shared_experts.linear_fc1", "mlp.shared_experts.linear_fc2"};
static const char *const with_extra_experts[] = {"mlp.experts.experts.linear_fc1", "mlp.experts.experts.linear_fc2"};
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

// Multi-token prediction: its layers are not in a stack, and their numbers stay in their names.
static char *depth_name(const char *ours) {
    static const char depths[] = "mtp.layers.", layer[] = ".transformer_layer.";
    if (strncmp(ours, depths, strlen(depths)) != 0)
        return NULL;
    const char *inside = strstr(ours, layer);
    if (!inside)
        return memory_string(ours);
    const char *part = inside + strlen(layer);
    OWNED char *before = memory_printf("%.*s", (int)(part - ours), ours);
    return megatron_their_part(part, before);
}

static char *their_name(const char *ours, int64_t *layer) {
    static const char *const same[] = {"embedding.word_embeddings.weight", "embedding.position_embeddings.weight",
                                       "decoder.final_layernorm.weight", "decoder.final_layernorm.bias",
                                       "output_layer.weight"};
    static const char stack[] = "decoder.layers.";
    *layer = -1;
    for (size_t i = 0; i < COUNT(same); i++)
        if (strcmp(ours, same[i]) == 0)
            return memory_string(ours);
    if (strncmp(ours, stack, strlen(stack)) != 0)
        return depth_name(ours);
    char *rest;
    *layer = strtoll(ours + strlen(stack), &rest, 10);
    return *rest == '.' ? megatron_their_part(rest + 1, stack) : NULL;
}

static int compare_pieces(const void *a, const void *b) {
    const struct written_piece *x = a, *y = b;
    int names = strcmp(x->name, y->name);
    for (int i = 0; i < x->rank && names == 0; i++)
        names = x->offsets[i] < y->offsets[i] ? -1 : x->offsets[i] > y->offsets[i];
    return names;
}

static void add_piece(struct megatron_job *job, const struct written_piece *piece) {
    MEMORY_GROW(job->pieces, job->count, job->capacity);
    job->pieces[job->count] = *piece;
    job->pieces[job->count++].name = memory_string(piece->name);
}

// Splits a piece that has too many bytes along its first dimension after the layers.
static int add_cut(struct megatron_job *job, const struct written_piece *whole) {
    int axis = whole->layer >= 0 ? 1 : 0;
    uint64_t most = job->write->shard_bytes;
    most = most > 0 && most < TORCH_MOST_BYTES ? most : TORCH_MOST_BYTES;
    size_t row = dtype_bytes(whole->dtype);
    for (int i = axis + 1; i < whole->rank; i++)
        row *= (size_t)whole->shape[i];
    if (row > TORCH_MOST_BYTES)
        return error_set("a row of %s has %.2f GB, more than a piece of a checkpoint of Megatron-LM", whole->name,
                         (double)row / 1e9);
    int64_t rows = most > row ? (int64_t)(most / row) : 1, all = axis < whole->rank ? whole->sizes[axis] : 1;
    struct written_piece piece = *whole;
    for (int64_t first = 0; first < all; first += rows) {
        if (axis < whole->rank) {
            piece.offsets[axis] = first;
            piece.sizes[axis] = rows < all - first ? rows : all - first;
        }
        add_piece(job, &piece);
    }
    return 0;
}

// Lists the weight or a state of parameter i.
static int list_tensor(struct megatron_job *job, size_t i, int state, const char *name, int64_t layer) {
    static const char *const prefixes[] = {"", "optimizer.state.exp_avg.", "optimizer.state.exp_avg_sq.",
                                           "optimizer.state.param."};
    const struct model_source *source = job->write->source;
    const struct source_tensor *tensor = &source->tensors[i];
    enum dtype own = job->write->has_dtype ? job->write->dtype : tensor->dtype;
    struct written_piece piece = {.name = memory_printf("%s%s", prefixes[state + 1], name),
                                  .layer = layer,
                                  .from = i,
                                  .state = state,
                                  .dtype = state == THE_WEIGHT ? own : DTYPE_F32};
    if (layer >= 0) {
        piece.offsets[0] = layer;
        piece.sizes[0] = 1;
        piece.shape[piece.rank++] = source->config.model.num_layers;
    }
    for (int k = 0; k < tensor->rank; k++) {
        piece.sizes[piece.rank] = tensor->shape[k];
        piece.shape[piece.rank++] = tensor->shape[k];
    }
    int result = add_cut(job, &piece);
    free(piece.name);
    return result;
}

static int list_pieces(struct megatron_job *job) {
    const struct model_source *source = job->write->source;
    int states = source->has_optimizer ? SOURCE_STATES : 0, result = 0;
    for (size_t i = 0; i < source->count && result == 0; i++) {
        int64_t layer;
        OWNED char *name = their_name(source->tensors[i].name, &layer);
        if (!name)
            return error_set("%s has no counterpart in a GPT of Megatron-LM, so the model cannot be written for it",
                             source->tensors[i].name);
        // Before experts, this norm has a name of its own in Transformer Engine's layers.
        OWNED char *other =
            source->config.model.num_experts > 0 && strstr(source->tensors[i].name, ".pre_mlp_layernorm.")
                ? memory_printf("decoder.layers.pre_mlp_layernorm.%s", strrchr(source->tensors[i].name, '.') + 1)
                : NULL;
        for (int state = THE_WEIGHT; state < states && result == 0; state++) {
            result = list_tensor(job, i, state, name, layer);
            if (result == 0 && other)
                result = list_tensor(job, i, state, other, layer);
        }
    }
    qsort(job->pieces, job->count, sizeof job->pieces[0], compare_pieces);
    return result;
}

// ---- elements ----

// Reads the elements in our order; *elements is to be freed.
static int read_elements(struct megatron_job *job, const struct written_piece *piece, unsigned char **elements,
                         size_t *bytes) {
    struct model_source *source = job->write->source;
    const struct source_tensor *tensor = &source->tensors[piece->from];
    size_t count = tensor->bytes / dtype_bytes(tensor->dtype);
    *bytes = count * dtype_bytes(piece->dtype);
    if (piece->state >= 0 && (piece->state != STATE_MASTER || source->has_masters)) {
        *elements = memory_alloc(*bytes + 1);
        return model_source_read_state(source, piece->from, (enum source_state)piece->state, (float *)*elements);
    }
    struct model_write wanted = *job->write;
    wanted.has_dtype = true;
    wanted.dtype = piece->dtype;
    struct model_bytes read = {0};
    int result = model_bytes_read(&wanted, piece->from, &read);
    *elements = read.data;
    return result;
}

// Reads the tensor of a piece, unless the previous piece had the same one.
static int read_whole(struct megatron_job *job, const struct written_piece *piece) {
    const struct config *config = &job->write->source->config;
    struct whole_tensor *whole = &job->whole;
    if (whole->elements && whole->from == piece->from && whole->state == piece->state)
        return 0;
    free(whole->elements);
    *whole = (struct whole_tensor){.from = piece->from, .state = piece->state};
    TRY(read_elements(job, piece, &whole->elements, &whole->bytes));
    if (!strstr(piece->name, ".linear_qkv.weight") && !strstr(piece->name, ".linear_qkv.bias"))
        return 0;
    unsigned char *together = memory_alloc(whole->bytes + 1);
    size_t heads = (size_t)(config->model.num_attention_heads + 2 * config_query_groups(&config->model));
    convert_heads(&(struct convert_heads){.to = together,
                                          .from = whole->elements,
                                          .to_groups = true,
                                          .heads = config->model.num_attention_heads,
                                          .groups = config_query_groups(&config->model),
                                          .head_bytes = whole->bytes / heads});
    free(whole->elements);
    whole->elements = together;
    return 0;
}

static int write_piece(struct megatron_job *job, struct written_piece *piece) {
    TRY(read_whole(job, piece));
    int axis = piece->layer >= 0 ? 1 : 0;
    size_t row = dtype_bytes(piece->dtype), bytes = row;
    for (int i = axis; i < piece->rank; i++) {
        row *= i > axis ? (size_t)piece->sizes[i] : 1;
        bytes *= (size_t)piece->sizes[i];
    }
    const unsigned char *elements = job->whole.elements;
    elements += axis < piece->rank ? (size_t)piece->offsets[axis] * row : 0;
    OWNED_BY(buffer_free) struct buffer pickle = {0};
    pickle_begin(&pickle);
    pickle_tensor(&pickle, piece->dtype, piece->sizes, piece->rank, 0);
    pickle_end(&pickle);
    piece->offset = job->file.written_bytes;
    int result = torch_write(&job->file, &pickle, &(struct torch_storage_bytes){elements, bytes}, 1);
    piece->bytes = job->file.written_bytes - piece->offset;
    return result;
}

static int write_nothing(struct megatron_job *job) {
    OWNED_BY(buffer_free) struct buffer pickle = {0};
    pickle_begin(&pickle);
    pickle_begin_list(&pickle);  // objects are lists of one
    pickle_none(&pickle);
    pickle_end_list(&pickle);
    pickle_end(&pickle);
    job->nothing_offset = job->file.written_bytes;
    int result = torch_write(&job->file, &pickle, NULL, 0);
    job->nothing_bytes = job->file.written_bytes - job->nothing_offset;
    return result;
}

static int write_data(struct megatron_job *job) {
    OWNED char *path = file_join(job->folder, data_name);
    int result = file_create(&job->file, path);
    TRY(result);
    for (size_t i = 0; i < job->count && result == 0; i++)
        result = write_piece(job, &job->pieces[i]);
    free(job->whole.elements);
    job->whole = (struct whole_tensor){0};
    if (result == 0)
        result = write_nothing(job);
    if (result == 0)
        return file_commit(&job->file);
    file_abort(&job->file);
    return result;
}

// ---- .metadata ----

static const char metadata_module[] = "torch.distributed.checkpoint.metadata";

static void put_chunk(struct buffer *out, const struct written_piece *piece) {
    pickle_begin_object(out, metadata_module, "ChunkStorageMetadata");
    pickle_text(out, "offsets");
    pickle_size(out, piece->offsets, piece->rank);
    pickle_text(out, "sizes");
    pickle_size(out, piece->sizes, piece->rank);
    pickle_end_object(out);
}

// Writes the metadata of the tensor with pieces first to last - 1, which share a name.
static void put_tensor(struct buffer *out, const struct written_piece *first, const struct written_piece *last) {
    pickle_text(out, first->name);
    pickle_begin_object(out, metadata_module, "TensorStorageMetadata");
    pickle_text(out, "properties");
    pickle_name(out, metadata_module, "TensorProperties");
    pickle_name(out, "torch",
                first->dtype == DTYPE_BF16  ? "bfloat16"
                : first->dtype == DTYPE_F16 ? "float16"
                                            : "float32");
    buffer_append(out, "\x85R", 2);
    pickle_text(out, "size");
    pickle_size(out, first->shape, first->rank);
    pickle_text(out, "chunks");
    pickle_begin_list(out);
    for (const struct written_piece *piece = first; piece < last; piece++)
        put_chunk(out, piece);
    pickle_end_list(out);
    pickle_end_object(out);
}

// Writes a place in the file; offsets: NULL for an object.
static void put_place(struct buffer *out, const char *name, const struct written_piece *piece, uint64_t offset,
                      uint64_t bytes) {
    pickle_begin_object(out, metadata_module, "MetadataIndex");
    pickle_text(out, "fqn");
    pickle_text(out, name);
    if (piece) {
        pickle_text(out, "offset");
        pickle_size(out, piece->offsets, piece->rank);
    }
    pickle_text(out, "index");
    pickle_none(out);
    pickle_end_object(out);
    pickle_begin_object(out, "torch.distributed.checkpoint.filesystem", "_StorageInfo");
    pickle_text(out, "relative_path");
    pickle_text(out, data_name);
    pickle_text(out, "offset");
    pickle_int(out, (int64_t)offset);
    pickle_text(out, "length");
    pickle_int(out, (int64_t)bytes);
    pickle_end_object(out);
}

// Frees `name`.
static void put_extra_state(const struct megatron_job *job, struct buffer *out, char *name, bool is_place) {
    if (is_place) {
        put_place(out, name, NULL, job->nothing_offset, job->nothing_bytes);
    } else {
        pickle_text(out, name);
        pickle_name(out, metadata_module, "BytesStorageMetadata");
        buffer_append(out, ")\x81", 2);
    }
    free(name);
}

static void put_extra_states(const struct megatron_job *job, struct buffer *out, bool are_places) {
    const struct config *config = &job->write->source->config;
    int64_t layers = config->model.num_layers, experts = config->model.num_experts;
    for (int64_t layer = 0; layer < layers; layer++) {
        for (size_t i = 0; i < COUNT(with_extra); i++) {
            bool is_shared = experts > 0 && i >= COUNT(with_extra) - 2;
            const char *module = is_shared ? with_extra_shared[i - COUNT(with_extra) + 2] : with_extra[i];
            put_extra_state(
                job, out,
                memory_printf("decoder.layers.%s._extra_state/shard_%" PRId64 "_%" PRId64, module, layer, layers),
                are_places);
        }
        for (int64_t k = 0; k < 2 * experts; k++)
            put_extra_state(job, out,
                            memory_printf("decoder.layers.%s._extra_state/shard_%" PRId64 ".%" PRId64 "_%" PRId64
                                          ".%" PRId64,
                                          with_extra_experts[k % 2], layer, k / 2, layers, experts),
                            are_places);
    }
    for (int64_t depth = 0; depth < config->model.mtp_num_layers; depth++) {
        put_extra_state(job, out, memory_printf("mtp.layers.%" PRId64 ".eh_proj._extra_state/shard_0_1", depth),
                        are_places);
        for (size_t i = 0; i < COUNT(with_extra); i++)
            put_extra_state(job, out,
                            memory_printf("mtp.layers.%" PRId64 ".transformer_layer.%s._extra_state/shard_0_1", depth,
                                          with_extra[i]),
                            are_places);
    }
}

static int write_metadata(const struct megatron_job *job) {
    OWNED_BY(buffer_free) struct buffer out = {0};
    pickle_begin(&out);
    pickle_begin_object(&out, metadata_module, "Metadata");
    pickle_text(&out, "state_dict_metadata");
    pickle_begin_dict(&out);
    for (size_t i = 0, end; i < job->count; i = end) {
        for (end = i + 1; end < job->count && strcmp(job->pieces[end].name, job->pieces[i].name) == 0;)
            end++;
        put_tensor(&out, &job->pieces[i], &job->pieces[end]);
    }
    put_extra_states(job, &out, false);
    pickle_end_dict(&out);
    pickle_text(&out, "planner_data");
    pickle_none(&out);
    pickle_text(&out, "storage_data");
    pickle_begin_dict(&out);
    for (size_t i = 0; i < job->count; i++)
        put_place(&out, job->pieces[i].name, &job->pieces[i], job->pieces[i].offset, job->pieces[i].bytes);
    put_extra_states(job, &out, true);
    pickle_end_dict(&out);
    pickle_end_object(&out);
    pickle_end(&out);
    return file_write_in(job->folder, ".metadata", out.data, out.length);
}

// ---- the folder ----

static int write_all(void *context, const char *temporary) {
    struct megatron_job *job = context;
    static const char format[] = "{\"sharded_backend\": \"torch_dist\", \"sharded_backend_version\": 1, "
                                 "\"common_backend\": \"torch\", \"common_backend_version\": 1}";
    job->folder = checkpoint_path(temporary, job->write->source->state.iteration);
    TRY(list_pieces(job));
    TRY(file_make_folders(job->folder));
    TRY(write_data(job));
    TRY(write_metadata(job));
    TRY(megatron_write_common(job->write, job->folder));
    TRY(file_write_in(job->folder, "metadata.json", format, strlen(format)));
    TRY(folder_marker_write(temporary, job->write->source->state.iteration));
    return model_check(&(struct model_check){.write = job->write, .path = temporary});
}

static int check_model(const struct config *config) {
    if (config->model.form != CONFIG_GPT)
        return error_set("only GPTs are written for Megatron-LM");
    if (config->model.num_experts > 0 && config->model.mtp_num_layers > 0)
        return error_set("experts with multi-token prediction are not written for Megatron-LM");
    return megatron_check_arguments(config);
}

int model_write_megatron(const struct model_write *write) {
    struct model_source *source = write->source;
    TRY(model_write_check(write));
    TRY(check_model(&source->config));
    TRY(model_range_check(write));
    if (!write->leaves_optimizer)
        TRY(model_source_open_optimizer(source));
    struct megatron_job job = {.write = write};
    int result = model_write_renamed(write, write_all, &job);
    for (size_t i = 0; i < job.count; i++)
        free(job.pieces[i].name);
    free(job.pieces);
    free(job.folder);
    return result;
}
