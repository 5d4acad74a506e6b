// The files of a Megatron checkpoint. Layers are numbered from 0 in each file; their place in the model follows from
// the number of layers in the files before it: pipeline stages one after another, and with virtual stages ("model0",
// "model1", …) first all stages' first chunks.
#include "formats/megatron_folder.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "store/folder.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// Dicts may hold the same dict many times, so a small file can have endlessly many paths: entries are counted.
enum { MAX_DEPTH = 16, MAX_CHUNKS = 64, MAX_RANKS = 1024, MAX_ENTRIES = 1 << 22 };

const char *const megatron_file_names[] = {"model_optim_rng.pt", "model_rng.pt", NULL};

// A file's numbers: mp_rank_TT, mp_rank_TT_PPP, mp_rank_TT_EEE or mp_rank_TT_PPP_EEE. -1 for absent ones.
struct rank_numbers {
    int tensor, second, third;
};
static const struct rank_numbers first_of[] = {{0, -1, -1}, {0, 0, -1}, {0, 0, 0}};

// The file of one rank, NULL if there is none; to be freed.
static char *rank_file(const char *path, struct rank_numbers rank) {
    OWNED_BY(buffer_free) struct buffer name = {0};
    buffer_printf(&name, "%s/mp_rank_%02d", path, rank.tensor);
    if (rank.second >= 0)
        buffer_printf(&name, "_%03d", rank.second);
    if (rank.third >= 0)
        buffer_printf(&name, "_%03d", rank.third);
    char *found = NULL;
    for (size_t i = 0; megatron_file_names[i] && !found; i++) {
        char *file = file_join(buffer_string(&name), megatron_file_names[i]);
        if (file_exists(file))
            found = file;
        else
            free(file);
    }
    return found;
}

static bool has_rank(const char *path, struct rank_numbers rank) {
    OWNED char *file = rank_file(path, rank);
    return file != NULL;
}

// Without metadata.json, .metadata is that of torch.distributed.checkpoint itself: FSDP2's (torch_dcp), or that of
// Megatron-FSDP, which wraps the model and has a prefix for it.
static const char *sharded_format(const char *path) {
    OWNED_BY(file_map_close) struct file_map map = {0};
    OWNED char *file = file_join(path, ".metadata");
    bool is_wrapped = file_is_regular(file) && file_map_open(&map, file) == 0 && map.size > 0 &&
                      memmem(map.data, map.size, "model.module.", strlen("model.module."));
    error_clear();
    return is_wrapped ? "fsdp_dtensor" : "torch_dcp";
}

const char *megatron_format(const char *path) {
    const char *backend;
    if (has_rank(path, first_of[0]) || has_rank(path, first_of[1]) || has_rank(path, first_of[2]))
        return "torch";
    // A damaged metadata.json is an error only when the checkpoint is opened.
    if (megatron_metadata_read(path, &backend) < 0)
        error_clear();
    if (backend)
        return backend;
    return file_is_in(path, ".metadata") ? file_is_in(path, "metadata.json") ? "torch_dist" : sharded_format(path)
                                         : NULL;
}

// SAVE/iter_0000100, SAVE/release, or SAVE itself if it is one of them; NULL if there is none. To be freed.
static char *find_path(const char *path, int64_t step) {
    if (megatron_format(path))
        return memory_string(path);
    OWNED char *marker = file_join(path, "latest_checkpointed_iteration.txt");
    char *found = NULL;
    OWNED_BY(buffer_free) struct buffer text = {0};
    bool has_marker = file_exists(marker) && file_read_own(marker, 64, &text) == 0;
    bool is_release = has_marker && strncmp(buffer_string(&text), "release", 7) == 0;
    if (step >= 0)
        found = memory_printf("%s/iter_%07" PRId64, path, step);
    else if (is_release)
        found = file_join(path, "release");
    else if (has_marker)
        found = memory_printf("%s/iter_%07lld", path, strtoll(buffer_string(&text), NULL, 10));
    if (!found || megatron_format(found))
        return found;
    free(found);
    return NULL;
}

bool megatron_is_folder(const char *path) {
    OWNED char *found = find_path(path, -1);
    return found != NULL || megatron_zip_is(path);
}

int64_t megatron_iteration(const char *path, int64_t step) {
    struct megatron_zip zip;
    if (megatron_zip_is(path)) {
        if (megatron_zip_open(&zip, path, step) < 0) {
            error_clear();
            return -1;
        }
        const char *last = strrchr(zip.inside, '/');
        int64_t number = folder_iteration(last ? last + 1 : zip.inside);
        megatron_zip_close(&zip);
        return number;
    }
    OWNED char *found = find_path(path, step), *full = found ? realpath(found, NULL) : NULL;
    const char *slash = full ? strrchr(full, '/') : NULL;
    return slash ? folder_iteration(slash + 1) : -1;
}

// Names the format of an unsupported checkpoint, and the tool that converts it into a supported one.
static int refuse_format(const char *path, const char *format) {
    if (strcmp(format, "zarr") == 0)
        return error_set_code(EXIT_CODE_NO_CHECKPOINT,
                              "%s has the unsupported format zarr; load it in Megatron-LM (core 0.15 or older) with "
                              "--ckpt-convert-format torch_dist --ckpt-convert-save DIR, then use DIR/torch_dist",
                              path);
    if (strcmp(format, "torch_dcp") == 0)
        return error_set_code(
            EXIT_CODE_NO_CHECKPOINT,
            "%s has the unsupported format torch_dcp; run mkdir -p DIR/mp_rank_00 && python -m "
            "torch.distributed.checkpoint.format_utils dcp_to_torch %s DIR/mp_rank_00/model_optim_rng.pt, then use DIR",
            path, path);
    return error_set_code(EXIT_CODE_NO_CHECKPOINT,
                          "%s is a Megatron-LM checkpoint in fsdp_dtensor format (Megatron-FSDP), which is not "
                          "supported; export it to Hugging Face with Megatron Bridge, then use that folder",
                          path);
}

// ---- tensors ----

// State for adding one chunk of one file to the list.
struct flattening {
    struct megatron_folder *folder;
    const struct torch_file *file;
    int tensor_rank;
    struct megatron_place place;
    int64_t layers[MEGATRON_STACKS];  // seen so far
    int64_t entries;                  // seen so far
    struct megatron_order *order;
    int expert_rank;
    int64_t experts;  // in the file
};

static void add_entry(struct megatron_order *order, struct megatron_entry entry) {
    MEMORY_GROW(order->entries, order->count, order->capacity);
    order->entries[order->count] = entry;
    order->entries[order->count++].key = entry.key ? memory_string(entry.key) : NULL;
}

// Adds experts packed into one matrix, transposed: (C, experts * rows) is read as (experts, C, rows), and the second
// matrix as (experts, columns, C).
static void add_packed(struct flattening *flat, const char *ours, const struct torch_tensor *packed) {
    bool is_second = strstr(ours, ".linear_fc2.");
    int64_t experts = flat->experts, all = torch_tensor_count(packed);
    int64_t width = packed->rank == 2 ? packed->shape[is_second ? 1 : 0] : 0;  // C
    bool is_plain = width > 0 && experts > 0 && experts <= all / width && all % (experts * width) == 0 &&
                    packed->stride[1] == 1 && packed->stride[0] == packed->shape[1];
    for (int64_t i = 0; is_plain && i < experts; i++) {
        int64_t other = all / (experts * width);
        struct torch_tensor *view = memory_alloc(sizeof *view);
        *view = *packed;
        view->offset += i * width * other;
        view->shape[0] = is_second ? width : other;
        view->shape[1] = is_second ? other : width;
        view->stride[0] = 1;
        view->stride[1] = view->shape[0];
        megatron_keep_view(flat->folder, view);
        OWNED char *key =
            memory_printf("%02d/%s#%" PRId64, flat->tensor_rank, ours, flat->expert_rank * flat->experts + i);
        weights_add_tensor(&flat->folder->weights, key, flat->file, view);
    }
    add_entry(flat->order, (struct megatron_entry){.tensor = packed, .is_expert = true});
}

static void add_tensor(struct flattening *flat, const char *name, const struct torch_tensor *tensor) {
    struct megatron_found found = megatron_name(name, &flat->place);
    if (found.layer >= flat->layers[found.stack])
        flat->layers[found.stack] = found.layer + 1;
    if (!found.ours && !found.is_ignored)
        name_list_add(&flat->folder->unknown, name);
    // The last stage's copy of the embedding has a state of its own.
    if (!found.ours && flat->expert_rank == 0 && strstr(name, "word_embeddings_for_head."))
        add_entry(flat->order, (struct megatron_entry){.tensor = tensor});
    // The ranks of an expert-parallel group differ in their experts only.
    bool is_copy = flat->expert_rank > 0 && found.expert < 0 && !found.is_packed;
    if (found.ours && found.is_packed)
        add_packed(flat, found.ours, tensor);
    if (!found.ours || found.is_packed || is_copy) {
        free(found.ours);
        return;
    }
    OWNED char *key = found.expert < 0 ? memory_printf("%02d/%s", flat->tensor_rank, found.ours)
                                       : memory_printf("%02d/%s#%" PRId64, flat->tensor_rank, found.ours,
                                                       flat->expert_rank * flat->experts + found.expert);
    bool is_first = found.layer >= 0 || !megatron_is_there(flat->folder, key);
    if (is_first)
        weights_add_tensor(&flat->folder->weights, key, flat->file, tensor);
    add_entry(flat->order, (struct megatron_entry){key, tensor, is_first, found.expert >= 0});
    free(found.ours);
}

// Reads nested dicts of old files and flat ones of new files alike: names are joined by dots.
static int flatten(struct flattening *flat, const struct torch_value *dict, const char *prefix, int depth) {
    if (depth > MAX_DEPTH)
        return error_set("its model has dicts nested deeper than %d", MAX_DEPTH);
    for (size_t i = 0; i < dict->count; i += 2) {
        const struct torch_value *key = dict->items[i], *value = dict->items[i + 1];
        if (++flat->entries > MAX_ENTRIES)
            return error_set("its model has more than %d entries", MAX_ENTRIES);
        if (key->type != TORCH_STRING || strlen(key->text) != key->length)
            continue;
        OWNED char *name = memory_printf("%s%s%s", prefix, *prefix ? "." : "", key->text);
        int result = 0;
        if (value->type == TORCH_TENSOR)
            add_tensor(flat, name, &value->tensor);
        else if (value->type == TORCH_DICT)
            result = flatten(flat, value, name, depth + 1);
        TRY(result);
    }
    return 0;
}

// Virtual stage c's chunk; without virtual stages there is one. NULL if absent.
static const struct torch_value *chunk_of(const struct torch_file *file, int chunk) {
    const struct torch_value *root = file->pickle.root, *model = torch_get(root, "model");
    char *name = memory_printf("model%d", chunk);
    const struct torch_value *part = torch_get(root, name);
    free(name);
    part = part ? part : chunk == 0 ? model : NULL;
    return part && part->type == TORCH_DICT ? part : NULL;
}

static bool has_file_of(const struct megatron_folder *folder, struct rank_numbers rank) {
    if (folder->zip)
        return rank.third < 0 && megatron_zip_rank(folder->zip, rank.tensor, rank.second);
    return has_rank(folder->path, rank);
}

static int open_entry(struct megatron_folder *folder, const struct torch_zip_entry *entry,
                      const struct torch_file **file) {
    const unsigned char *bytes;
    if (megatron_zip_bytes(folder->zip, entry, &bytes) < 0)
        return error_context("cannot read %s", folder->path);
    OWNED char *name = file_join(folder->path, entry->name);
    return weights_parse_torch(&folder->weights, bytes, entry->bytes, name, file);
}

static int open_file(struct megatron_folder *folder, struct rank_numbers rank, const struct torch_file **file) {
    if (!has_file_of(folder, rank))
        return error_set("%s lacks the file of tensor-parallel rank %d%s", folder->path, rank.tensor,
                         rank.second > 0 ? " of one of its pipeline stages or expert-parallel ranks" : "");
    if (folder->zip)
        return open_entry(folder, megatron_zip_rank(folder->zip, rank.tensor, rank.second), file);
    OWNED char *path = rank_file(folder->path, rank);
    return weights_open_torch(&folder->weights, path, file);
}

// Files in the order stage, rank; opened once.
struct rank_files {
    const struct torch_file *files[MAX_RANKS];
    size_t count;
};

static int64_t argument(const struct torch_value *args, const char *name) {
    const struct torch_value *value = torch_get(args, name);
    return value && value->type == TORCH_INT ? value->integer : 0;
}

// A lone second number counts pipeline stages or, if there is only one, expert-parallel ranks: the arguments decide.
static int is_second_expert(const struct megatron_folder *folder, bool *is_expert) {
    OWNED_BY(torch_close) struct torch_file file = {0};
    OWNED char *path = folder->zip ? NULL : rank_file(folder->path, first_of[1]);
    *is_expert = false;
    if (!path)
        return 0;
    TRY(torch_open(&file, path));
    const struct torch_value *args = torch_get(file.pickle.root, "args");
    *is_expert =
        argument(args, "pipeline_model_parallel_size") <= 1 && argument(args, "expert_model_parallel_size") > 1;
    return 0;
}

static int open_files(struct megatron_folder *folder, struct rank_files *files) {
    bool has_second = !has_file_of(folder, first_of[0]), has_third = has_second && !has_file_of(folder, first_of[1]);
    bool is_expert = false;
    if (has_second && !has_third)
        TRY(is_second_expert(folder, &is_expert));
    struct rank_numbers at = {.second = has_second ? 0 : -1, .third = has_third ? 0 : -1};
    for (; has_file_of(folder, at) && folder->tensor_ranks <= MAX_RANKS; at.tensor++)
        folder->tensor_ranks++;
    at.tensor = 0;
    int seconds = 1, thirds = 1;
    for (at.second = 1; has_second && has_file_of(folder, at) && seconds <= MAX_RANKS; at.second++)
        seconds++;
    at.second = 0;
    for (at.third = 1; has_third && has_file_of(folder, at) && thirds <= MAX_RANKS; at.third++)
        thirds++;
    folder->stages = is_expert ? 1 : seconds;
    folder->expert_ranks = is_expert ? seconds : thirds;
    if ((int64_t)folder->tensor_ranks * folder->stages * folder->expert_ranks > MAX_RANKS)
        return error_set("%s has the files of more than %d ranks", folder->path, MAX_RANKS);
    for (int stage = 0; stage < folder->stages; stage++)
        for (int expert = 0; expert < folder->expert_ranks; expert++)
            for (int rank = 0; rank < folder->tensor_ranks; rank++) {
                int second = !has_second ? -1 : is_expert ? expert : stage;
                TRY(open_file(folder, (struct rank_numbers){rank, second, has_third ? expert : -1},
                              &files->files[files->count++]));
            }
    return 0;
}

static int flatten_chunk(struct megatron_folder *folder, int stage, int chunk) {
    int64_t layers[MEGATRON_STACKS] = {0};
    int ranks = folder->expert_ranks * folder->tensor_ranks;
    for (int rank = 0; rank < ranks; rank++) {
        struct megatron_order *order = &folder->orders[stage * ranks + rank];
        struct flattening flat = {.folder = folder,
                                  .file = order->file,
                                  .order = order,
                                  .tensor_rank = rank % folder->tensor_ranks,
                                  .expert_rank = rank / folder->tensor_ranks,
                                  .experts = argument(folder->args, "num_experts") / folder->expert_ranks,
                                  .place.form = folder->form};
        order->expert_rank = flat.expert_rank;
        memcpy(flat.place.first_layer, folder->layers, sizeof folder->layers);
        const struct torch_value *model = chunk_of(flat.file, chunk);
        if (!model)
            return error_set("%s has no \"model\"", flat.file->path);
        if (flatten(&flat, model, "", 0) < 0)
            return error_context("cannot use %s", flat.file->path);
        for (int stack = 0; stack < MEGATRON_STACKS; stack++)
            layers[stack] = flat.layers[stack] > layers[stack] ? flat.layers[stack] : layers[stack];
    }
    for (int stack = 0; stack < MEGATRON_STACKS; stack++)
        folder->layers[stack] += layers[stack];
    return 0;
}

void megatron_read_numbers(struct megatron_folder *folder, const struct torch_value *root) {
    const struct torch_value *version = torch_get(root, "checkpoint_version");
    const struct torch_value *iteration = torch_get(root, "iteration"), *args = torch_get(root, "args");
    if (version)
        folder->version = version->type == TORCH_FLOAT ? version->real
                          : version->type == TORCH_INT ? (double)version->integer
                                                       : 0;
    if (iteration && iteration->type == TORCH_INT && iteration->integer > 0)
        folder->iteration = iteration->integer;
    folder->args = args && args->type == TORCH_DICT ? args : NULL;
}

// Whether a key in a dict, or in the dicts within it, holds the text.
static bool has_key(const struct torch_value *dict, const char *text, int depth, int64_t *entries) {
    for (size_t i = 0; depth <= MAX_DEPTH && i < dict->count && ++*entries <= MAX_ENTRIES; i += 2) {
        const struct torch_value *key = dict->items[i], *value = dict->items[i + 1];
        if (key->type == TORCH_STRING && strstr(key->text, text))
            return true;
        if (value->type == TORCH_DICT && has_key(value, text, depth + 1, entries))
            return true;
    }
    return false;
}

static bool has_name(const struct torch_file *file, const char *text) {
    int64_t entries = 0;
    for (int chunk = 0; chunk < MAX_CHUNKS && chunk_of(file, chunk); chunk++)
        if (has_key(chunk_of(file, chunk), text, 0, &entries))
            return true;
    return false;
}

// The last stage shows the form: only T5 has cross attention, and otherwise only BERT's head has parameters of its own.
static enum config_form form_of(const struct torch_file *file) {
    if (has_name(file, "inter_attention") || has_name(file, "cross_attention"))
        return CONFIG_T5;
    return has_name(file, "lm_head") ? CONFIG_BERT : CONFIG_GPT;
}

static int read_folder(struct megatron_folder *folder, struct rank_files *files) {
    TRY(open_files(folder, files));
    megatron_read_numbers(folder, files->files[0]->pickle.root);
    folder->common = files->files[0]->pickle.root;
    folder->common_file = files->files[0];
    folder->orders = memory_alloc((files->count + 1) * sizeof folder->orders[0]);
    folder->order_count = files->count;
    for (size_t i = 0; i < files->count; i++)
        folder->orders[i].file = files->files[i];
    folder->form = form_of(files->files[files->count - 1]);
    for (int chunk = 0; chunk < MAX_CHUNKS && chunk_of(files->files[0], chunk); chunk++)
        for (int stage = 0; stage < folder->stages; stage++)
            TRY(flatten_chunk(folder, stage, chunk));
    if (folder->weights.count == 0)
        return error_set("%s has no \"model\" with tensors", files->files[0]->path);
    return weights_sort(&folder->weights);
}

static int open_zip(struct megatron_folder *folder, const char *path, int64_t step) {
    struct megatron_zip *zip = memory_alloc(sizeof *zip);
    OWNED struct rank_files *files = memory_alloc(sizeof *files);
    *folder = (struct megatron_folder){.path = memory_string(path), .zip = zip};
    int result = megatron_zip_open(zip, path, step);
    if (result == 0)
        result = read_folder(folder, files);
    if (result < 0)
        megatron_close(folder);
    return result;
}

int megatron_open(struct megatron_folder *folder, const char *path, int64_t step) {
    if (megatron_zip_is(path))
        return open_zip(folder, path, step);
    *folder = (struct megatron_folder){.path = find_path(path, step)};
    if (!folder->path)
        return error_set_code(EXIT_CODE_NO_CHECKPOINT,
                              "%s has no Megatron-LM checkpoint%s: found neither mp_rank_00/model_optim_rng.pt nor "
                              "metadata.json and .metadata (torch_dist)",
                              path, step >= 0 ? " of that iteration" : "");
    const char *format = megatron_format(folder->path);
    OWNED struct rank_files *files = memory_alloc(sizeof *files);
    int result;
    if (strcmp(format, "torch") == 0)
        result = read_folder(folder, files);
    else if (strcmp(format, "torch_dist") == 0)
        result = megatron_read_distributed(folder);
    else
        result = refuse_format(folder->path, format);
    if (result < 0)
        megatron_close(folder);
    return result;
}

void megatron_close(struct megatron_folder *folder) {
    for (size_t i = 0; i < folder->order_count; i++) {
        for (size_t k = 0; k < folder->orders[i].count; k++)
            free(folder->orders[i].entries[k].key);
        free(folder->orders[i].entries);
    }
    free(folder->orders);
    for (size_t i = 0; i < folder->view_count; i++)
        free(folder->views[i]);
    free(folder->views);
    weights_close(&folder->states);
    weights_close(&folder->weights);
    if (folder->zip)
        megatron_zip_close(folder->zip);
    free(folder->zip);
    name_list_free(&folder->unknown);
    free(folder->path);
    *folder = (struct megatron_folder){0};
}

void megatron_keep_view(struct megatron_folder *folder, struct torch_tensor *view) {
    if ((folder->view_count & (folder->view_count - 1)) == 0)  // the capacity is a power of two
        folder->views =
            memory_realloc(folder->views, (folder->view_count ? folder->view_count * 2 : 1) * sizeof folder->views[0]);
    folder->views[folder->view_count++] = view;
}

bool megatron_is_there(const struct megatron_folder *folder, const char *key) {
    for (size_t i = 0; i < folder->weights.count; i++)
        if (strcmp(folder->weights.items[i].name, key) == 0)
            return true;
    return false;
}

const struct weight *megatron_find_state(const struct megatron_folder *folder, int tensor_rank, const char *state,
                                         const char *ours) {
    OWNED char *key = memory_printf("%02d/%s/%s", tensor_rank, state, ours);
    return weights_find(&folder->states, key);
}

const struct weight *megatron_find(const struct megatron_folder *folder, int tensor_rank, const char *ours) {
    OWNED char *key = memory_printf("%02d/%s", tensor_rank, ours);
    return weights_find(&folder->weights, key);
}
