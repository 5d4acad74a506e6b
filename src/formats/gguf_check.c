// Compares a written file with its source. The mapping from tensors back to parameters is stated here independently:
// for each row of ours, its place in the file.
#include "formats/gguf_model.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/progress.h"
#include "formats/gguf.h"
#include "formats/model_bytes.h"
#include "formats/names.h"
#include "formats/source_kind.h"
#include "model/census.h"
#include "ops/ops.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Tolerances of logits: for the order of summation (0), for rounding to bf16 and fp16, for q8_0.
static const double HALF_TOLERANCE = 0.1, Q8_TOLERANCE = 0.5;

struct opened {
    struct gguf file;
    const struct gguf_architecture *architecture;
};

static void close_opened(struct opened *opened) {
    gguf_close(&opened->file);
}

static bool has_experts(const struct source_tensor *tensor) {
    return tensor->rank == 3 || gguf_is_expert_bias(tensor->name);
}

static int64_t rows_of(const struct source_tensor *tensor) {
    return has_experts(tensor) ? tensor->shape[0] * tensor->shape[1] : tensor->shape[0];
}

static int64_t columns_of(const struct source_tensor *tensor) {
    return tensor->rank > 1 && !gguf_is_expert_bias(tensor->name) ? tensor->shape[tensor->rank - 1] : 1;
}

// Our row (head, half, channel) is the file's row (head, channel, half).
static int64_t place_of(int64_t row, int64_t rows, int64_t heads) {
    int64_t channels = rows / heads, head = row / channels, inside = row % channels;
    int64_t half = inside / (channels / 2), channel = inside % (channels / 2);
    return head * channels + 2 * channel + half;
}

struct slice {
    const struct gguf_tensor *tensor;
    int64_t rows, heads;  // heads: 0 if rows are in our order; rows: of one expert, if there are any
};

static int find_slice(const struct model_source *source, size_t i, const struct gguf_match *match, int k,
                      struct slice *slice) {
    const struct opened *opened = source->detail;
    const struct param *param = source->params.items[i];
    const struct config *config = &source->config;
    OWNED char *name = name_fill(match->row->theirs[k], match->layer);
    *slice = (struct slice){.tensor = gguf_find_tensor(&opened->file, name)};
    const struct source_tensor *ours = &source->tensors[i];
    int axis = has_experts(ours) ? 1 : 0;  // of the rows
    slice->rows = match->pieces > 1 ? param->shard.segments[k] : ours->shape[axis];
    if (gguf_has(opened->architecture, GGUF_INTERLEAVED) && match->pieces == 3 && k < 2)
        slice->heads = k == 0 ? config->model.num_attention_heads : config_query_groups(&config->model);
    const struct gguf_tensor *tensor = slice->tensor;
    bool has_shape = tensor && tensor->rank == ours->rank && tensor->shape[axis] == slice->rows &&
                     (axis == 0 || tensor->shape[0] == ours->shape[0]) &&
                     (tensor->rank == axis + 1 || tensor->shape[tensor->rank - 1] == columns_of(ours));
    return has_shape ? 0 : error_set("%s: the tensor %s is missing or has another shape", source->path, name);
}

// Heads' keys and values from latents: our matrix stacks both per head; the file stores keys transposed.
static int read_latent(const struct model_source *source, const struct gguf_match *match, float *to) {
    const struct opened *opened = source->detail;
    const struct config *config = &source->config;
    int64_t H = config->model.num_attention_heads, L = config->model.kv_lora_rank, K = config->model.qk_head_dim,
            V = config->model.v_head_dim;
    const int64_t shapes[2][3] = {{H, L, K}, {H, V, L}};
    for (int k = 0; k < 2; k++) {
        OWNED char *name = name_fill(match->row->theirs[k], match->layer);
        const struct gguf_tensor *tensor = gguf_find_tensor(&opened->file, name);
        bool has_shape = tensor && tensor->rank == 3 && memcmp(tensor->shape, shapes[k], sizeof shapes[k]) == 0;
        TRY(has_shape ? 0 : error_set("%s: the tensor %s is missing or has another shape", source->path, name));
        int64_t rows = shapes[k][0] * shapes[k][1], columns = shapes[k][2];
        OWNED float *row = memory_alloc((size_t)columns * sizeof row[0]);
        for (int64_t r = 0; r < rows; r++) {
            int64_t head = r / shapes[k][1], inside = r % shapes[k][1];
            gguf_decode((enum gguf_format)tensor->format, tensor->data + tensor->bytes / (size_t)rows * (size_t)r,
                        (size_t)columns, row);
            for (int64_t c = 0; c < columns; c++)
                to[k == 0 ? (head * (K + V) + c) * L + inside : (head * (K + V) + K + inside) * L + c] = row[c];
        }
    }
    return 0;
}

// Reads a parameter's elements from the file, in fp32.
static int read_parameter(struct model_source *source, size_t i, void *to) {
    const struct opened *opened = source->detail;
    struct gguf_match match = gguf_match(opened->architecture, source->params.items[i]);
    const struct source_tensor *ours = &source->tensors[i];
    if (gguf_is_latent(match.row))
        return read_latent(source, &match, to);
    int64_t columns = columns_of(ours), experts = has_experts(ours) ? ours->shape[0] : 1;
    float *row = to;
    // Our pieces of one expert are adjacent; the file has one tensor per piece for all experts.
    for (int64_t step = 0; step < experts * match.pieces; step++) {
        struct slice slice;
        TRY(find_slice(source, i, &match, (int)(step % match.pieces), &slice));
        size_t row_bytes = slice.tensor->bytes / (size_t)(slice.rows * experts);
        int64_t first = step / match.pieces * slice.rows;
        for (int64_t r = 0; r < slice.rows; r++, row += columns) {
            int64_t place = first + (slice.heads > 0 ? place_of(r, slice.rows, slice.heads) : r);
            gguf_decode((enum gguf_format)slice.tensor->format, slice.tensor->data + (size_t)place * row_bytes,
                        (size_t)columns, row);
        }
    }
    return 0;
}

static const struct model_source_kind kind = {.name = "gguf", .read = read_parameter};

// The model that llama.cpp computes from the file, in our terms: gains are whole, logits unscaled, GELU has its tanh
// form, and there is no window.
static void describe(struct model_source *written, const struct gguf_check *check, struct opened *opened) {
    const struct model_source *source = check->asked->source;
    *written =
        (struct model_source){.kind = kind.name, .path = memory_string(check->path), .of = &kind, .detail = opened};
    struct config *config = &written->config;
    config_copy(config, &source->config);
    config->model.padded_vocab_size = check->rows;
    config->model.apply_layernorm_1p = false;
    config->model.scale_tied_output = false;
    bool has_windows = gguf_has(check->architecture, GGUF_WINDOWS);
    if (!has_windows && config->model.sliding_window > 0 &&
        config->model.sliding_window < config->model.max_position_embeddings)
        config->model.max_position_embeddings = config->model.sliding_window;
    config->model.sliding_window = has_windows ? config->model.sliding_window : 0;
    config->model.position_offset = 0;
    if (config_activation(&config->model) == ACTIVATION_GELU)
        config->model.activation = ACTIVATION_GELU_TANH;
    config->model.mtp_num_layers = 0;
    census_declare(config, &written->params);
    written->biases = source_declare_biases(config, &written->params);
    written->count = (size_t)written->params.count;
    written->tensors = memory_alloc((written->count + 1) * sizeof written->tensors[0]);
    for (size_t i = 0; i < written->count; i++) {
        const struct param *param = written->params.items[i];
        struct source_tensor *tensor = &written->tensors[i];
        *tensor = (struct source_tensor){.name = param->name, .dtype = DTYPE_F32, .rank = param->shard.rank};
        memcpy(tensor->shape, param->shard.global, sizeof tensor->shape);
        tensor->bytes = (size_t)(rows_of(tensor) * columns_of(tensor)) * sizeof(float);
    }
}

static void forget(struct model_source *written) {
    config_free(&written->config);
    param_list_free(&written->params);
    free(written->tensors);
    free(written->path);
}

// ---- elements ----

// Each value of q8_0 is off by at most half a step, and a step is the block's largest magnitude / 127.
static double step_of(enum gguf_format format, const float *wanted, int64_t count) {
    static const double parts[] = {
        [GGUF_FORMAT_F32] = 0, [GGUF_FORMAT_F16] = 1.0 / 2048, [GGUF_FORMAT_BF16] = 1.0 / 256};
    float largest = 0;
    for (int64_t i = 0; i < count; i++)
        largest = fabsf(wanted[i]) > largest ? fabsf(wanted[i]) : largest;
    double part = format == GGUF_FORMAT_Q8_0 ? 1.0 / 127 : parts[format];
    return (double)largest * part;
}

static bool is_near(enum gguf_format format, const float *wanted, const float *found, int64_t count, float scale) {
    double step = step_of(format, wanted, count);
    for (int64_t i = 0; i < count; i++) {
        float exact = wanted[i] * scale;
        bool is_same = exact == found[i] || (isnan(exact) && isnan(found[i]));
        if (!is_same && !(fabs((double)exact - (double)found[i]) <= step))
            return false;
    }
    return true;
}

// The coarsest format among a parameter's tensors.
static enum gguf_format format_of(const struct model_source *written, size_t i) {
    const struct opened *opened = written->detail;
    struct gguf_match match = gguf_match(opened->architecture, written->params.items[i]);
    enum gguf_format format = GGUF_FORMAT_F32;
    for (int k = 0; k < match.pieces && format != GGUF_FORMAT_Q8_0; k++) {
        struct slice slice;
        if (find_slice(written, i, &match, k, &slice) < 0)
            error_clear();
        format = slice.tensor ? (enum gguf_format)slice.tensor->format : format;
    }
    return format;
}

static int compare_one(const struct gguf_check *check, struct model_source *written, size_t k,
                       struct name_list *changed) {
    struct model_write write = *check->asked;
    write.has_dtype = true;
    write.dtype = DTYPE_F32;
    write.gains = GAINS_WHOLE;
    const struct source_tensor *tensor = &written->tensors[k];
    int64_t i = model_source_find(write.source, tensor->name);
    // Blocks of transposed keys cross our rows.
    bool is_whole = gguf_is_latent(gguf_match(check->architecture, written->params.items[k]).row);
    int64_t rows_here = is_whole ? 1 : rows_of(tensor), columns = rows_of(tensor) * columns_of(tensor) / rows_here;
    CHECK(i >= 0);
    OWNED_BY(model_bytes_free) struct model_bytes wanted = {0};
    OWNED float *found = memory_alloc(tensor->bytes + 1);
    TRY(model_bytes_read(&write, (size_t)i, &wanted));
    TRY(read_parameter(written, k, found));
    bool is_positions = strcmp(tensor->name, "embedding.position_embeddings.weight") == 0;
    int64_t first = is_positions ? write.source->config.model.position_offset : 0;
    bool is_last = strcmp(tensor->name, "decoder.final_layernorm.weight") == 0;
    float scale = is_last ? gguf_output_scale(&write.source->config) : 1;
    const float *rows = (const float *)(const void *)wanted.data;
    enum gguf_format format = format_of(written, k);
    bool is_same = true;
    for (int64_t r = 0; r < rows_here && is_same; r++)
        is_same = is_near(format, rows + (first + r) * columns, found + r * columns, columns, scale);
    if (!is_same)
        name_list_add(changed, tensor->name);
    return 0;
}

static int compare_elements(const struct gguf_check *check, struct model_source *written) {
    OWNED_BY(name_list_free) struct name_list changed = {0};
    struct progress progress;
    int result = 0;
    progress_begin(&progress, "reading back", "tensors", (double)written->count);
    for (size_t k = 0; k < written->count && result == 0; k++) {
        if (!gguf_match(check->architecture, written->params.items[k]).is_dropped)
            result = compare_one(check, written, k, &changed);
        progress_update(&progress, (double)(k + 1), NULL);
    }
    progress_end(&progress, NULL);
    OWNED_BY(buffer_free) struct buffer text = {0};
    name_list_describe(&changed, "tensors have other elements", &text);
    if (result == 0 && text.length > 0)
        result = error_set("%s does not read back as it was written: %s; it was removed", check->path, text.data);
    return result;
}

// Tensors without a parameter of ours: a copy of the embedding, and the factors of rotary frequencies.
static int compare_others(const struct gguf_check *check, const struct model_source *written) {
    const struct opened *opened = written->detail;
    const struct gguf_tensor *words = gguf_find_tensor(&opened->file, "token_embd.weight");
    const struct gguf_tensor *output = gguf_find_tensor(&opened->file, "output.weight");
    const struct gguf_tensor *rope = gguf_find_tensor(&opened->file, "rope_freqs.weight");
    bool has_copy =
        gguf_has(check->architecture, GGUF_OUTPUT) && !written->config.model.untie_embeddings_and_output_weights;
    bool is_copy =
        words && output && words->bytes == output->bytes && memcmp(words->data, output->data, words->bytes) == 0;
    float factors[ROPE_MOST_PAIRS];
    int64_t pairs = gguf_has(check->architecture, GGUF_ROPE_FACTORS) ? gguf_rope_factors(&written->config, factors) : 0;
    size_t bytes = (size_t)pairs * sizeof factors[0];
    bool has_factors = pairs == 0 ? !rope : rope && rope->bytes == bytes && memcmp(rope->data, factors, bytes) == 0;
    if ((has_copy && !is_copy) || !has_factors)
        return error_set("%s does not read back as it was written: tensors have other elements: %s; it was removed",
                         check->path, has_factors ? "output.weight" : "rope_freqs.weight");
    return 0;
}

// ---- pairs ----

// An error names the key of the first byte that differs.
int gguf_check_pairs(const struct gguf_check *check, const struct gguf *file) {
    const char *wanted = buffer_string(&check->pairs->bytes), *found = (const char *)file->map.data + GGUF_HEADER_BYTES;
    size_t length = check->pairs->bytes.length, same = 0;
    bool is_long = file->map.size >= GGUF_HEADER_BYTES + length;
    while (is_long && same < length && wanted[same] == found[same])
        same++;
    if (file->value_count == check->pairs->count && is_long && same == length)
        return 0;
    const struct gguf_value *value = file->values;
    for (size_t i = 1; i < file->value_count && file->values[i].key <= found + same; i++)
        value = &file->values[i];
    return error_set("%s does not read back as it was written: the key %.*s has another value; it was removed",
                     check->path, value ? (int)value->key_length : 0, value ? value->key : "");
}

// ---- the pass ----

// 16-bit tensors may be rounded in one of the two models and not in the other.
static bool has_halves(const struct model_source *source) {
    for (size_t i = 0; i < source->count; i++)
        if (source->tensors[i].dtype != DTYPE_F32)
            return true;
    return false;
}

static int compare_logits(const struct gguf_check *check, struct model_source *written) {
    const struct model_write *asked = check->asked;
    const struct config *config = &asked->source->config;
    bool has_window =
        config->model.sliding_window > 0 && config->model.sliding_window < config->model.max_position_embeddings;
    bool is_rounded =
        asked->has_dtype || has_halves(asked->source) || config_activation(&config->model) == ACTIVATION_GELU;
    if (!asked->compare || config->model.form == CONFIG_BERT || has_window)
        return 0;
    struct model_pair pair = {.write = asked, .written = written};
    pair.tolerance = asked->is_q8 ? Q8_TOLERANCE : is_rounded ? HALF_TOLERANCE : 0;
    return asked->compare(asked->context, &pair);
}

int gguf_check(const struct gguf_check *check) {
    OWNED_BY(close_opened) struct opened opened = {.architecture = check->architecture};
    if (gguf_open(&opened.file, check->path) < 0)
        return error_context("what was written cannot be read back");
    OWNED_BY(forget) struct model_source written = {0};
    describe(&written, check, &opened);
    TRY(gguf_check_pairs(check, &opened.file));
    TRY(compare_elements(check, &written));
    TRY(compare_others(check, &written));
    return compare_logits(check, &written);
}
