// Writes a model source as a GGUF file, one tensor at a time. The file has a temporary name until it has been read
// back, so it is complete or absent.
#include "formats/gguf_model.h"

#include "base/error.h"
#include "base/file.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/progress.h"
#include "formats/hf_config.h"
#include "formats/model_bytes.h"
#include "formats/model_source.h"
#include "formats/names.h"
#include "ops/ops.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// One tensor of the file: rows [first, first + shape[0]) of one of ours, or of each of its experts.
struct gguf_output {
    char *name;
    size_t from;
    int64_t first;
    int64_t heads;        // whose rows are reordered; 0: none are
    int64_t expert_rows;  // rows of ours per expert or head; 0: there are none
    bool is_turned;       // each head's matrix is transposed
    const float *values;  // the elements, if they are not those of a tensor of ours
    float scale;          // elements are multiplied by it
};

struct gguf_job {
    const struct model_write *asked;
    const struct model_write *write;  // `asked`, but in fp32 and with whole gains
    const struct gguf_architecture *architecture;
    struct gguf_output *outputs;
    struct gguf_tensor *tensors;  // one for each output
    size_t count;
    int64_t rows;  // of the vocabulary
    struct model_bytes bytes;
    struct gguf_vocabulary vocabulary;
    struct gguf_pairs pairs;
    float factors[ROPE_MOST_PAIRS];
    struct name_list unaligned;  // tensors that do not fit into blocks
};

// ---- which tensors ----

// Tensors that stay in fp32, as in llama.cpp's own files: mostly those that ggml adds or multiplies elementwise.
static bool is_always_f32(const struct gguf_tensor *tensor) {
    return tensor->rank == 1 || name_ends(tensor->name, "_norm.weight") || !name_ends(tensor->name, ".weight") ||
           name_ends(tensor->name, "ffn_gate_inp.weight") || name_ends(tensor->name, "ffn_gate_inp_shexp.weight") ||
           strcmp(tensor->name, "position_embd.weight") == 0 || strcmp(tensor->name, "token_types.weight") == 0 ||
           name_ends(tensor->name, "attn_rel_b.weight");
}

static enum gguf_format format_of(struct gguf_job *job, const struct gguf_tensor *tensor, enum dtype dtype) {
    const struct model_write *asked = job->asked;
    bool is_q8 = asked->is_q8;
    // Not every CPU backend of ggml can multiply by quantized three-dimensional tensors.
    bool is_latent = name_ends(tensor->name, "attn_k_b.weight") || name_ends(tensor->name, "attn_v_b.weight");
    if (is_always_f32(tensor) || (is_q8 && is_latent))
        return GGUF_FORMAT_F32;
    if (is_q8 && tensor->shape[tensor->rank - 1] % gguf_block_of(GGUF_FORMAT_Q8_0).elements == 0)
        return GGUF_FORMAT_Q8_0;
    if (is_q8)
        name_list_add(&job->unaligned, tensor->name);
    dtype = is_q8 ? DTYPE_F16 : asked->has_dtype ? asked->dtype : dtype;
    return dtype == DTYPE_BF16 ? GGUF_FORMAT_BF16 : dtype == DTYPE_F16 ? GGUF_FORMAT_F16 : GGUF_FORMAT_F32;
}

static struct gguf_tensor *add_output(struct gguf_job *job, char *name, size_t from) {
    struct gguf_output *output = &job->outputs[job->count];
    struct gguf_tensor *tensor = &job->tensors[job->count++];
    *output = (struct gguf_output){.name = name, .from = from, .scale = 1};
    *tensor = (struct gguf_tensor){.name = name, .name_length = strlen(name)};
    return tensor;
}

// Splits our (heads × both, latent) into keys (heads, latent, channels) and values (heads, channels, latent).
static void shape_latent(struct gguf_output *output, struct gguf_tensor *tensor, const struct config *config,
                         bool is_keys) {
    int64_t keys = config->model.qk_head_dim, values = config->model.v_head_dim;
    output->expert_rows = keys + values;
    output->first = is_keys ? 0 : keys;
    output->is_turned = is_keys;
    tensor->rank = 3;
    tensor->shape[0] = config->model.num_attention_heads;
    tensor->shape[1] = is_keys ? config->model.kv_lora_rank : values;
    tensor->shape[2] = is_keys ? keys : config->model.kv_lora_rank;
}

static void add_piece(struct gguf_job *job, size_t i, const struct gguf_match *match, int k) {
    const struct model_source *source = job->write->source;
    const struct config *config = &source->config;
    const struct param *param = source->params.items[i];
    const struct source_tensor *ours = &source->tensors[i];
    struct gguf_tensor *tensor = add_output(job, name_fill(match->row->theirs[k], match->layer), i);
    struct gguf_output *output = &job->outputs[job->count - 1];
    for (int before = 0; before < k && !gguf_is_latent(match->row); before++)
        output->first += param->shard.segments[before];
    tensor->rank = ours->rank;
    memcpy(tensor->shape, ours->shape, sizeof tensor->shape);
    bool has_experts = ours->rank == 3 || gguf_is_expert_bias(ours->name);
    int rows = has_experts ? 1 : 0;  // the axis of rows
    output->expert_rows = has_experts ? ours->shape[1] : 0;
    if (gguf_is_latent(match->row))
        shape_latent(output, tensor, config, k == 0);
    else if (match->pieces > 1)
        tensor->shape[rows] = param->shard.segments[k];
    if (model_is_of_vocabulary(ours->name))
        tensor->shape[0] = job->rows;
    if (strcmp(ours->name, "embedding.position_embeddings.weight") == 0) {
        output->first = config->model.position_offset;  // skips rows without a position
        tensor->shape[0] -= config->model.position_offset;
    }
    if (gguf_has(job->architecture, GGUF_INTERLEAVED) && match->pieces == 3 && k < 2)  // queries and keys
        output->heads = k == 0 ? config->model.num_attention_heads : config_query_groups(&config->model);
    if (strcmp(ours->name, "decoder.final_layernorm.weight") == 0)
        output->scale = gguf_output_scale(config);
    tensor->format = format_of(job, tensor, ours->dtype);
}

static int list_outputs(struct gguf_job *job) {
    const struct model_source *source = job->write->source;
    const struct gguf_architecture *architecture = job->architecture;
    OWNED_BY(buffer_free) struct buffer unknown = {0};
    size_t most = source->count * GGUF_MAX_PIECES + 3;
    job->outputs = memory_alloc(most * sizeof job->outputs[0]);
    job->tensors = memory_alloc(most * sizeof job->tensors[0]);
    bool is_tied = !source->config.model.untie_embeddings_and_output_weights;
    int64_t pairs = gguf_has(architecture, GGUF_ROPE_FACTORS) ? gguf_rope_factors(&source->config, job->factors) : 0;
    if (pairs > 0) {
        struct gguf_tensor *tensor = add_output(job, memory_string("rope_freqs.weight"), 0);
        tensor->rank = 1;
        tensor->shape[0] = pairs;
        job->outputs[job->count - 1].values = job->factors;
    }
    for (size_t i = 0; i < source->count; i++) {
        struct gguf_match match = gguf_match(architecture, source->params.items[i]);
        if (!match.row && !match.is_dropped)
            buffer_printf(&unknown, "%s%s", unknown.length > 0 ? ", " : "", source->tensors[i].name);
        for (int k = 0; k < match.pieces; k++)
            add_piece(job, i, &match, k);
        if (match.row && is_tied && gguf_has(architecture, GGUF_OUTPUT) &&
            strcmp(match.row->theirs[0], "token_embd.weight") == 0) {
            static const struct gguf_row row = {"", {"output.weight"}};
            add_piece(job, i, &(struct gguf_match){.row = &row, .pieces = 1}, 0);
        }
    }
    return unknown.length > 0 ? error_set("llama.cpp's %s has no place for %s; export with --to huggingface instead",
                                          architecture->name, unknown.data)
                              : 0;
}

// ---- elements ----

// Our row for row r of the file's tensor. The halves of a head that are rotated together become neighbours.
static int64_t row_of(const struct gguf_output *output, const struct gguf_tensor *tensor, int64_t r) {
    int64_t rows = tensor->shape[0];
    if (output->expert_rows > 0)
        return r / tensor->shape[1] * output->expert_rows + output->first + r % tensor->shape[1];
    if (output->heads == 0)
        return output->first + r;
    int64_t channels = rows / output->heads, head = r / channels, channel = r % channels;
    return output->first + head * channels + (channel % 2) * (channels / 2) + channel / 2;
}

// Copies one row of the file's tensor from our fp32 elements.
static void take_row(const struct gguf_output *output, const struct gguf_tensor *tensor, const struct model_bytes *from,
                     int64_t r, float *values) {
    bool is_column = tensor->rank == 1 || (output->expert_rows > 0 && tensor->rank == 2);
    int64_t columns = is_column ? 1 : tensor->shape[tensor->rank - 1];
    const float *ours = (const float *)(const void *)from->data;
    if (output->is_turned) {
        int64_t latent = tensor->shape[1], head = r / latent;
        for (int64_t c = 0; c < columns; c++)
            values[c] = ours[(head * output->expert_rows + c) * latent + r % latent];
        return;
    }
    size_t begin = (size_t)(row_of(output, tensor, r) * columns);
    CHECK((begin + (size_t)columns) * sizeof values[0] <= from->bytes);
    memcpy(values, ours + begin, (size_t)columns * sizeof values[0]);
}

static int write_output(struct gguf_job *job, size_t i, struct gguf_writer *writer) {
    const struct gguf_output *output = &job->outputs[i];
    const struct gguf_tensor *tensor = &job->tensors[i];
    if (output->values)
        return gguf_write(writer, output->values, tensor->bytes);
    bool is_column = tensor->rank == 1 || (output->expert_rows > 0 && tensor->rank == 2);
    int64_t rows = output->expert_rows > 0 ? tensor->shape[0] * tensor->shape[1] : tensor->shape[0];
    int64_t columns = is_column ? 1 : tensor->shape[tensor->rank - 1];
    if (model_bytes_read(job->write, output->from, &job->bytes) < 0) {
        gguf_abort(writer);
        return -1;
    }
    size_t row_bytes = tensor->bytes / (size_t)rows;
    OWNED float *values = memory_alloc((size_t)columns * sizeof values[0]);
    OWNED unsigned char *bytes = memory_alloc(row_bytes);
    int result = 0;
    for (int64_t r = 0; r < rows && result == 0; r++) {
        take_row(output, tensor, &job->bytes, r, values);
        for (int64_t c = 0; c < columns && output->scale != 1; c++)
            values[c] *= output->scale;
        if (gguf_encode((enum gguf_format)tensor->format, values, (size_t)columns, bytes)) {
            result = gguf_write(writer, bytes, row_bytes);
            continue;
        }
        gguf_abort(writer);
        result = error_set("%s has values that %s cannot represent (too large, or not finite); use --dtype bf16",
                           job->write->source->tensors[output->from].name, gguf_block_of(tensor->format).name);
    }
    return result;
}

// ---- the file ----

// llama.cpp's number for the format that most of the file has.
static uint32_t file_type(const struct gguf_job *job) {
    size_t bytes[GGUF_FORMAT_BF16 + 1] = {0};
    for (size_t i = 0; i < job->count; i++)
        bytes[job->tensors[i].format] += job->tensors[i].rank > 1 ? job->tensors[i].bytes : 0;
    uint32_t most = GGUF_FORMAT_F32;
    for (uint32_t format = 0; format <= GGUF_FORMAT_BF16; format++)
        most = bytes[format] > bytes[most] ? format : most;
    return most == GGUF_FORMAT_Q8_0 ? 7 : most == GGUF_FORMAT_BF16 ? 32 : most == GGUF_FORMAT_F16 ? 1 : 0;
}

// llama.cpp gives tokens other meanings in models whose name has "phi-3" or "modern-bert" in it.
static void add_name(struct gguf_pairs *pairs, const char *path) {
    const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
    size_t length = strlen(base);
    length -= name_ends(base, ".gguf") ? 5 : 0;
    if (length > 0 && !strcasestr(base, "phi") && !strcasestr(base, "bert"))
        gguf_add_string(pairs, "general.name", base, length);
}

static void describe(const struct gguf_job *job, struct gguf_pairs *pairs) {
    const struct config *config = &job->write->source->config;
    gguf_config_write(job->architecture, config, job->rows, pairs);
    add_name(pairs, job->write->folder);
    gguf_add_u32(pairs, "general.file_type", file_type(job));
    gguf_add_u32(pairs, "general.quantization_version", 2);
    if (config->model.form == CONFIG_T5 && job->vocabulary.decoder_start >= 0)
        gguf_add_u32(pairs, "t5.decoder_start_token_id", (uint32_t)job->vocabulary.decoder_start);
    gguf_vocabulary_write(&job->vocabulary, pairs);
}

static int write_file(struct gguf_job *job, const char *path) {
    struct gguf_writer writer;
    struct progress progress;
    describe(job, &job->pairs);
    int result = 0;
    TRY(gguf_create(&writer, path, &job->pairs, job->tensors, job->count));
    progress_begin(&progress, "writing", "tensors", (double)job->count);
    for (size_t i = 0; i < job->count && result == 0; i++) {
        result = write_output(job, i, &writer);
        progress_update(&progress, (double)(i + 1), NULL);
    }
    progress_end(&progress, NULL);
    return result == 0 ? gguf_commit(&writer) : result;
}

static void tell(struct gguf_job *job) {
    OWNED_BY(buffer_free) struct buffer text = {0};
    name_list_describe(&job->unaligned,
                       "these tensors stay in fp16, because the length of their rows is not a multiple of 32", &text);
    if (text.length > 0)
        log_info("note: %s", buffer_string(&text));
    if (job->write->source->config.model.mtp_num_layers > 0)
        log_info("note: the layers that predict further tokens (--mtp-num-layers) are left out");
    if (job->write->source->config.model.form == CONFIG_BERT)
        log_info("note: llama.cpp's bert returns hidden states; the masked-LM and sentence heads are left out");
}

static const struct gguf_architecture *choose_architecture(const struct model_write *write) {
    const struct hf_family *family = hf_family_choose(write);
    if (!family)
        return NULL;
    const struct gguf_architecture *architecture = gguf_architecture_of(family->model_type);
    if (architecture)
        return architecture;
    OWNED char *known = gguf_family_list();
    error_set("the family %s cannot be written as GGUF, only %s; export with --to huggingface instead",
              family->model_type, known);
    return NULL;
}

static int make(void *context, const char *temporary) {
    struct gguf_job *job = context;
    const struct model_source *source = job->write->source;
    TRY(gguf_config_check(job->architecture, &source->config));
    TRY(list_outputs(job));
    TRY(gguf_vocabulary_make(&job->vocabulary, source, job->rows));
    const char *spaced = job->vocabulary.spaced;
    if (spaced && !job->write->allows_near)
        return error_set(
            "llama.cpp adds a space after every special token, and this tokenizer does not (its "
            "prepend_scheme is \"first\"), so prompts with %.64s would get other ids; pass --allow-inexact to "
            "write it all the same, or export with --to huggingface instead",
            spaced);
    if (spaced)
        log_warn(
            "llama.cpp adds a space after every special token, unlike this tokenizer: prompts with %.64s get other "
            "ids there",
            spaced);
    tell(job);
    TRY(write_file(job, temporary));
    return gguf_check(&(struct gguf_check){.asked = job->asked,
                                           .architecture = job->architecture,
                                           .path = temporary,
                                           .rows = job->rows,
                                           .pairs = &job->pairs});
}

int model_write_gguf(const struct model_write *write) {
    const struct config *config = &write->source->config;
    if (file_exists(write->folder))
        return error_set("%s exists; give another name or remove it", write->folder);
    TRY(model_write_check(write));
    struct model_write whole = *write;
    whole.has_dtype = true;
    whole.dtype = DTYPE_F32;
    whole.gains = GAINS_WHOLE;
    struct gguf_job job = {.asked = write,
                           .write = &whole,
                           .architecture = choose_architecture(write),
                           .rows = write->vocab_size > 0 ? write->vocab_size : config->model.padded_vocab_size};
    if (!job.architecture)
        return -1;
    int result = model_write_renamed(write, make, &job);
    for (size_t i = 0; i < job.count; i++)
        free(job.outputs[i].name);
    free(job.outputs);
    free(job.tensors);
    model_bytes_free(&job.bytes);
    gguf_vocabulary_free(&job.vocabulary);
    buffer_free(&job.pairs.bytes);
    name_list_free(&job.unaligned);
    return result;
}
