// Writes a model source as a folder of Hugging Face. Everything is written under a temporary name and renamed at the
// end, so the folder is complete or absent.
#include "formats/model_source.h"

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/memory.h"
#include "formats/hf_config.h"
#include "formats/hf_names.h"
#include "formats/hf_surroundings.h"
#include "formats/hf_tokenizer_files.h"
#include "formats/model_bytes.h"
#include "store/safetensors.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// One tensor of theirs: elements of one of ours starting at `first`, perhaps transposed or reordered.
struct hf_output {
    char *name;
    size_t from;
    int64_t first;
    enum hf_transform transform;
    bool is_zero;  // not ours: a zero tensor that their format requires, without effect
    struct safetensors_tensor entry;
    size_t bytes;
};

struct hf_job {
    const struct model_write *write;
    const struct hf_family *family;
    const char *folder;  // temporary
    struct hf_output *outputs;
    size_t count;
    struct model_bytes bytes;
    struct model_tokenizer tokenizer;
    size_t *file_ends;  // outputs [file_ends[f - 1], file_ends[f]) are in file f
    size_t file_count;
};

static int64_t count_of(const struct hf_shape *shape) {
    int64_t count = 1;
    for (int i = 0; i < shape->rank; i++)
        count *= shape->at[i];
    return count;
}

static int add_outputs(struct hf_job *job, size_t i, struct buffer *unknown) {
    const struct model_source *source = job->write->source;
    const struct param *param = source->params.items[i];
    const struct source_tensor *tensor = &source->tensors[i];
    enum dtype dtype = model_write_dtype(job->write, tensor);
    struct hf_match match = hf_match(job->family, param, source->config.model.num_layers);
    if (!match.row) {
        buffer_printf(unknown, "%s%s", unknown->length > 0 ? ", " : "", tensor->name);
        return 0;
    }
    int64_t first = 0;
    for (int k = 0; k < match.pieces; k++) {
        struct hf_output *output = &job->outputs[job->count++];
        struct hf_shape shape = hf_piece_shape(&match, param, k);
        *output = (struct hf_output){
            .name = hf_piece_name(&match, k), .from = i, .first = first, .transform = match.row->transform};
        first += count_of(&shape);
        if (model_is_of_vocabulary(tensor->name) && job->write->vocab_size > 0)
            shape.at[0] = job->write->vocab_size;
        output->bytes = (size_t)count_of(&shape) * dtype_bytes(dtype);
        output->entry = (struct safetensors_tensor){.name = output->name, .dtype = dtype, .rank = shape.rank};
        memcpy(output->entry.shape, shape.at, sizeof shape.at);
    }
    return 0;
}

// Their BERT has token types, used or not. Ours may have none.
static void add_token_types(struct hf_job *job, enum dtype dtype) {
    static const char ours[] = "embedding.tokentype_embeddings.weight";
    const struct hf_family *family = job->family;
    const struct config *config = &job->write->source->config;
    const struct hf_row *row;
    struct hf_key key;
    int64_t rows = 0;
    for (size_t i = 0; (row = hf_row_at(family, i)) && strcmp(row->ours, ours) != 0; i++)
        continue;
    for (size_t i = 0; hf_key_at(family, i, &key); i++)
        rows = key.instead > 0 ? key.instead : rows;
    if (!row || config_token_types(&config->model) > 0)
        return;
    struct hf_output *output = &job->outputs[job->count++];
    *output = (struct hf_output){.name = memory_string(row->theirs[0]), .is_zero = true};
    output->bytes = (size_t)(rows * config->model.hidden_size) * dtype_bytes(dtype);
    output->entry = (struct safetensors_tensor){
        .name = output->name, .dtype = dtype, .rank = 2, .shape = {rows, config->model.hidden_size}};
}

// Writes a tensor a second time under another name, which is freed in the end.
static void add_copy(struct hf_job *job, const char *of, char *name) {
    for (size_t i = 0; i < job->count; i++) {
        if (strcmp(job->outputs[i].name, of) != 0)
            continue;
        struct hf_output *output = &job->outputs[job->count++];
        *output = job->outputs[i];
        output->name = name;
        output->entry.name = name;
        return;
    }
    free(name);
}

// Depths of multi-token prediction come with copies of the tensors they share with the model.
static void add_depth_copies(struct hf_job *job) {
    const struct config *config = &job->write->source->config;
    for (int64_t layer = config->model.num_layers; layer < config->model.num_layers + config->model.mtp_num_layers;
         layer++) {
        add_copy(job, job->family->embedding, memory_printf("model.layers.%lld.embed_tokens.weight", (long long)layer));
        add_copy(job, job->family->head, memory_printf("model.layers.%lld.shared_head.head.weight", (long long)layer));
    }
}

static int list_outputs(struct hf_job *job) {
    const struct model_source *source = job->write->source;
    OWNED_BY(buffer_free) struct buffer unknown = {0};
    size_t most = 3 + 2 * (size_t)source->config.model.mtp_num_layers;  // including tensors that may be added
    for (size_t i = 0; i < source->count; i++)
        most += (size_t)hf_match(job->family, source->params.items[i], source->config.model.num_layers).pieces;
    job->outputs = memory_alloc(most * sizeof job->outputs[0]);
    job->file_ends = memory_alloc(most * sizeof job->file_ends[0]);
    int result = 0;
    for (size_t i = 0; i < source->count && result == 0; i++)
        result = add_outputs(job, i, &unknown);
    if (result == 0 && unknown.length > 0)
        result = error_set("Hugging Face's %s has no tensors for %s", job->family->model_type, unknown.data);
    add_token_types(job, job->count > 0 ? job->outputs[0].entry.dtype : DTYPE_F32);
    if (hf_config_doubles_head(job->family, &source->config)) {
        log_info(
            "note: %s is written as a copy of %s, since transformers before 5 scales the output of a T5 without it",
            job->family->head, job->family->embedding);
        add_copy(job, job->family->embedding, memory_string(job->family->head));
    }
    add_depth_copies(job);
    uint64_t used = 0;
    for (size_t i = 0; i < job->count; i++) {
        if (i > 0 && used + job->outputs[i].bytes > job->write->shard_bytes) {
            job->file_ends[job->file_count++] = i;
            used = 0;
        }
        used += job->outputs[i].bytes;
    }
    job->file_ends[job->file_count++] = job->count;
    return result;
}

static char *file_name(const struct hf_job *job, size_t f) {
    if (job->file_count == 1)
        return memory_string("model.safetensors");
    return memory_printf("model-%05zu-of-%05zu.safetensors", f + 1, job->file_count);
}

// Writes a tensor in their order: transposed, by groups of heads, or with alternating rows.
static int write_reordered(struct hf_job *job, const struct hf_output *output, struct safetensors_writer *writer) {
    const struct model_source *source = job->write->source;
    OWNED unsigned char *reordered = memory_alloc(output->bytes + 1);
    hf_reorder(&(struct hf_reorder){.transform = output->transform,
                                    .to_theirs = true,
                                    .to = reordered,
                                    .from = job->bytes.data,
                                    .param = source->params.items[output->from],
                                    .config = &source->config,
                                    .bytes = output->bytes,
                                    .element = dtype_bytes(output->entry.dtype)});
    return safetensors_write(writer, reordered, output->bytes);
}

static int write_output(struct hf_job *job, const struct hf_output *output, struct safetensors_writer *writer) {
    if (output->is_zero) {
        OWNED unsigned char *zeros = memory_alloc(output->bytes + 1);
        return safetensors_write(writer, zeros, output->bytes);
    }
    TRY(model_bytes_read(job->write, output->from, &job->bytes));
    if (hf_is_reordered(output->transform))
        return write_reordered(job, output, writer);
    size_t skipped = (size_t)output->first * dtype_bytes(output->entry.dtype);
    CHECK(skipped + output->bytes <= job->bytes.bytes);
    return safetensors_write(writer, job->bytes.data + skipped, output->bytes);
}

static int write_file(struct hf_job *job, size_t f) {
    size_t begin = f > 0 ? job->file_ends[f - 1] : 0, end = job->file_ends[f];
    OWNED struct safetensors_tensor *entries = memory_alloc((end - begin + 1) * sizeof entries[0]);
    for (size_t i = begin; i < end; i++)
        entries[i - begin] = job->outputs[i].entry;
    const struct safetensors_text metadata = {"format", "pt"};
    struct safetensors_layout layout = {
        .tensors = entries, .count = end - begin, .metadata = &metadata, .metadata_count = 1};
    OWNED char *name = file_name(job, f), *path = file_join(job->folder, name);
    struct safetensors_writer writer;
    int result = safetensors_create(&writer, path, &layout);
    for (size_t i = begin; i < end && result == 0; i++)
        result = write_output(job, &job->outputs[i], &writer);
    if (result == 0)
        result = safetensors_commit(&writer, NULL);
    else
        safetensors_abort(&writer);
    return result;
}

static int write_index(const struct hf_job *job) {
    if (job->file_count == 1)
        return 0;
    uint64_t total = 0;
    for (size_t i = 0; i < job->count; i++)
        total += job->outputs[i].bytes;
    OWNED_BY(buffer_free) struct buffer text = {0};
    struct json_writer json = {.out = &text, .indent = 2};
    json_begin_object(&json);
    json_key(&json, "metadata");
    json_begin_object(&json);
    json_put_int(&json, "total_size", (int64_t)total);
    json_end_object(&json);
    json_key(&json, "weight_map");
    json_begin_object(&json);
    for (size_t i = 0, f = 0; i < job->count; i++) {
        while (i >= job->file_ends[f])
            f++;
        OWNED char *name = file_name(job, f);
        json_put_string(&json, job->outputs[i].name, name);
    }
    json_end_object(&json);
    json_end_object(&json);
    buffer_append_byte(&text, '\n');
    return file_write_in(job->folder, "model.safetensors.index.json", text.data, text.length);
}

static const char *dtype_there(enum dtype dtype) {
    return dtype == DTYPE_BF16 ? "bfloat16" : dtype == DTYPE_F16 ? "float16" : "float32";
}

// The dtype that from_pretrained converts every tensor to. A model of mixed types gets the one that holds them all,
// unless its own config.json has chosen.
static const char *main_dtype(const struct hf_job *job) {
    const struct json *base = job->write->source->foreign_config;
    const struct json *said = base ? json_member(base, "torch_dtype") : NULL;
    said = said || !base ? said : json_member(base, "dtype");
    bool is_mixed = false, is_among = false;
    for (size_t i = 0; i < job->count; i++) {
        is_mixed = is_mixed || job->outputs[i].entry.dtype != job->outputs[0].entry.dtype;
        is_among = is_among || (said && said->type == JSON_STRING &&
                                strcmp(said->string, dtype_there(job->outputs[i].entry.dtype)) == 0);
    }
    if (is_mixed && is_among)
        return said->string;
    return is_mixed ? "float32" : dtype_there(job->outputs[0].entry.dtype);
}

static int write_config(const struct hf_job *job) {
    struct config *config = &job->write->source->config;
    int64_t padded = config->model.padded_vocab_size;
    if (job->write->vocab_size > 0)
        config->model.padded_vocab_size = job->write->vocab_size;
    OWNED_BY(buffer_free) struct buffer text = {0};
    hf_config_write(&(struct hf_config_write){.family = job->family,
                                              .config = config,
                                              .base = job->write->source->foreign_config,
                                              .dtype = main_dtype(job),
                                              .has_base_ids = job->write->source->has_foreign_tokenizer,
                                              .ids = hf_tokenizer_ids(&job->tokenizer, job->family)},
                    &text);
    config->model.padded_vocab_size = padded;
    return file_write_in(job->folder, "config.json", text.data, text.length);
}

static int write_all(void *context, const char *temporary) {
    struct hf_job *job = context;
    job->folder = temporary;
    TRY(list_outputs(job));
    TRY(file_make_folders(job->folder));
    for (size_t f = 0; f < job->file_count; f++)
        TRY(write_file(job, f));
    TRY(write_index(job));
    TRY(write_config(job));
    TRY(hf_surroundings_write(&job->write->source->files, job->folder));
    TRY(hf_tokenizer_write(&job->tokenizer, job->write->source, job->family, job->folder));
    TRY(file_sync_folder(job->folder));
    return model_check(&(struct model_check){.write = job->write, .path = temporary});
}

// A model from Hugging Face keeps its family if it still fits.
const struct hf_family *hf_family_choose(const struct model_write *write) {
    const struct config *config = &write->source->config;
    const struct json *before = write->source->foreign_config;
    const struct json *type = before ? json_member(before, "model_type") : NULL;
    const struct hf_family *family = NULL;
    if (!write->family && type && type->type == JSON_STRING)
        family = hf_config_family(config, type->string, write->allows_near);
    if (family || write->family || !type || type->type != JSON_STRING)
        return family ? family : hf_config_family(config, write->family, write->allows_near);
    OWNED char *why = memory_string(error_message());
    family = hf_config_family(config, NULL, write->allows_near);
    if (family)
        log_info("note: this model came from a %.64s and is written as a %s: %s", type->string, family->model_type,
                 why);
    return family;
}

// transformers loads both forms of names as either model.
static void note_names(const struct hf_job *job) {
    if (job->write->source->has_bare_names)
        log_info("note: the tensors of %s have a base model's names, and are written with the prefix \"%s\"",
                 job->write->source->path, job->family->prefix);
}

// generate() may sample a row that is not a token, with the small probability of an untrained row.
static void note_padding(const struct hf_job *job) {
    int64_t rows = job->write->source->config.model.padded_vocab_size;
    int64_t tokens = job->tokenizer.tokenizer ? tokenizer_vocab_size(job->tokenizer.tokenizer) : rows;
    if (job->write->vocab_size == 0 && tokens < rows)
        log_info("note: the vocabulary is padded from %" PRId64 " tokens to %" PRId64
                 " rows, all of which are written; --vocab-size %" PRId64 " leaves out the padding",
                 tokens, rows, tokens);
}

// transformers 5 treats every UMT5 as tied.
static void note_scale(const struct hf_job *job) {
    if (strcmp(job->family->model_type, "umt5") == 0 &&
        job->write->source->config.model.untie_embeddings_and_output_weights)
        log_warn("transformers 5 divides the logits of this umt5 by sqrt(d_model), because it assumes that every umt5 "
                 "is tied: greedy text is the same, losses are not; transformers 4 computes the logits as here");
}

bool model_fits_huggingface(const struct model_write *write) {
    bool fits = hf_family_choose(write) != NULL;
    error_clear();
    return fits;
}

int model_write_huggingface(const struct model_write *write) {
    TRY(model_write_check(write));
    struct model_write whole = *write;
    struct hf_job job = {.write = &whole, .family = hf_family_choose(write)};
    if (!job.family)
        return -1;
    whole.gains = job.family->has_centered_gains ? GAINS_CENTERED : GAINS_WHOLE;
    TRY(model_range_check(&whole));
    hf_tokenizer_open(&job.tokenizer, write->source);
    note_names(&job);
    note_padding(&job);
    note_scale(&job);
    int result = model_write_renamed(write, write_all, &job);
    for (size_t i = 0; i < job.count; i++)
        free(job.outputs[i].name);
    free(job.outputs);
    free(job.file_ends);
    model_bytes_free(&job.bytes);
    hf_tokenizer_close(&job.tokenizer);
    return result;
}
