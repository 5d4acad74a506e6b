// The block of a micro-batch on the device. See step_inputs.h.
//
// Which arrays a block has follows from the model and the input. They come in the order of enum array, the wide ones
// first, without gaps. If ranks share sequences, each rank's block only has its own chunks, see parallel/context.h.
#include "step/step_inputs.h"
#include "base/error.h"

#include <string.h>

enum array {
    ROW_IDS,          // (B, T) i64
    DECODER_ROW_IDS,  // (B, S) i64
    TOKENS,           // (B, T) i32
    POSITIONS,        // (B, T) i32
    TYPES,            // (B, T) i32
    FIRST_KEYS,       // (B, T) i32
    DECODER_TOKENS,   // (B, S) i32
    DECODER_POSITIONS,
    LENGTHS,      // (B) i32
    LABELS,       // (B, T or S) i32
    MASK,         // (B, T or S) fp32
    WEIGHTS,      // same shape
    PAIR_LABELS,  // (B) i32
    PAIR_MASK,    // (B) fp32
    PAIR_WEIGHTS,
    COUNTS,  // (2) fp32: tokens and pair samples that count, in this micro-batch and those before it
    ARRAY_COUNT
};

static size_t element_bytes(enum array array) {
    return array <= DECODER_ROW_IDS ? sizeof(int64_t) : sizeof(int32_t);
}

static bool has_position_table(const struct step *step) {
    bool has_one = false;
    for (int i = 0; i < step->chunk_count; i++)
        has_one = has_one || step->chunks[i].model.embedding.positions;
    return has_one;
}

// The number of elements of an array on this rank; 0 if the input or the model does not have it.
static int64_t elements(const struct step *step, const struct step_input *input, enum array array) {
    const struct model *model = &step->chunks[0].model;
    int64_t T = input->T / step->mesh.length[AXIS_CONTEXT], S = input->S / step->mesh.length[AXIS_CONTEXT];
    int64_t first = input->tokens ? input->B * T : 0, second = input->decoder_tokens ? input->B * S : 0;
    int64_t labelled = !input->labels ? 0 : model->form == CONFIG_T5 ? second : first;
    bool has_positions = has_position_table(step) || model->choices.rope.pairs > 0;
    bool has_pairs = step->chunks[step->chunk_count - 1].model.has_pair_head;
    switch (array) {
    case ROW_IDS:
    case TOKENS:
        return first;
    case DECODER_ROW_IDS:
    case DECODER_TOKENS:
        return second;
    case POSITIONS:
        return has_positions ? first : 0;
    case DECODER_POSITIONS:
        return has_positions ? second : 0;
    case TYPES:
        return model->embedding.types ? first : 0;
    case FIRST_KEYS:
        return input->first_keys ? first : 0;
    case LENGTHS:
        return input->lengths ? input->B : 0;
    case LABELS:
    case MASK:
    case WEIGHTS:
        return labelled;
    case PAIR_LABELS:
    case PAIR_MASK:
    case PAIR_WEIGHTS:
        return has_pairs && input->labels ? input->B : 0;
    case COUNTS:
        return input->labels ? TOTAL_COUNT - TOTAL_TOKENS : 0;
    case ARRAY_COUNT:
        break;
    }
    return 0;
}

static size_t offset_of(const struct step *step, const struct step_input *input, enum array array) {
    size_t offset = 0;
    for (int i = 0; i < (int)array; i++)
        offset += (size_t)elements(step, input, (enum array)i) * element_bytes((enum array)i);
    return offset;
}

size_t step_input_bytes(const struct step *step, const struct step_input *input) {
    return offset_of(step, input, ARRAY_COUNT);
}

uint32_t step_input_arrays(const struct step *step, const struct step_input *input) {
    uint32_t arrays = 0;
    for (int i = 0; i < ARRAY_COUNT; i++)
        arrays |= (uint32_t)(elements(step, input, (enum array)i) > 0) << i;
    return arrays;
}

struct step_input step_largest_input(const struct step *step) {
    static const int32_t some = 0;
    static const float mask = 0;
    const struct config *config = step->config;
    bool is_generating = step->mode == STEP_GENERATE, has_both = step->chunks[0].model.form == CONFIG_T5;
    struct step_input input = {.B = is_generating ? 1 : config->micro_batch_size,
                               .T = is_generating ? config->max_position_embeddings : config->seq_length,
                               .tokens = &some};
    if (has_both) {
        input.S = is_generating ? config->max_position_embeddings : config->decoder_seq_length;
        input.decoder_tokens = &some;
    }
    if (!is_generating) {
        input.labels = &some;
        input.mask = &mask;
        input.lengths = step->chunks[0].model.form == CONFIG_GPT ? NULL : &some;
        input.first_keys = config->reset_attention_mask ? &some : NULL;
    }
    return input;
}

// A micro-batch on the device.
struct place {
    const struct step *step;
    const struct step_input *input;
    unsigned char *block;
};

static struct tensor tensor_at(const struct place *place, enum array array, enum dtype dtype) {
    int64_t count = elements(place->step, place->input, array);
    unsigned char *data = place->block + offset_of(place->step, place->input, array);
    return count > 0 ? tensor_1d(data, dtype, count) : (struct tensor){0};
}

struct device_batch step_input_tensors(const struct step *step, const struct step_input *input, struct tensor block) {
    const struct place at = {.step = step, .input = input, .block = block.data};
    return (struct device_batch){
        .row_ids = tensor_at(&at, ROW_IDS, DTYPE_I64),
        .tokens = tensor_at(&at, TOKENS, DTYPE_I32),
        .positions = tensor_at(&at, POSITIONS, DTYPE_I32),
        .types = tensor_at(&at, TYPES, DTYPE_I32),
        .lengths = tensor_at(&at, LENGTHS, DTYPE_I32),
        .first_keys = tensor_at(&at, FIRST_KEYS, DTYPE_I32),
        .decoder_row_ids = tensor_at(&at, DECODER_ROW_IDS, DTYPE_I64),
        .decoder_tokens = tensor_at(&at, DECODER_TOKENS, DTYPE_I32),
        .decoder_positions = tensor_at(&at, DECODER_POSITIONS, DTYPE_I32),
        .S = input->S / step->mesh.length[AXIS_CONTEXT],
        .targets = {.labels = tensor_at(&at, LABELS, DTYPE_I32),
                    .mask = tensor_at(&at, MASK, DTYPE_F32),
                    .weights = tensor_at(&at, WEIGHTS, DTYPE_F32),
                    .loss_sum = tensor_rows(step->totals, TOTAL_LOSS, 1)},
        .pair = {.labels = tensor_at(&at, PAIR_LABELS, DTYPE_I32),
                 .mask = tensor_at(&at, PAIR_MASK, DTYPE_F32),
                 .weights = tensor_at(&at, PAIR_WEIGHTS, DTYPE_F32),
                 .loss_sum = tensor_rows(step->totals, TOTAL_PAIR_LOSS, 1)},
    };
}

struct tensor step_input_counts(const struct step *step, const struct step_input *input, struct tensor block) {
    const struct place at = {.step = step, .input = input, .block = block.data};
    return tensor_at(&at, COUNTS, DTYPE_F32);
}

// A micro-batch being written to its staging memory.
struct staging {
    const struct step *step;
    const struct step_input *input;
    unsigned char *host;
};

static void *place(const struct staging *staging, enum array array) {
    return staging->host + offset_of(staging->step, staging->input, array);
}

// Copies an array with one element per sample; writes zeros if there is no source.
static void put(const struct staging *staging, enum array array, const void *source) {
    size_t bytes = (size_t)elements(staging->step, staging->input, array) * element_bytes(array);
    if (bytes > 0 && source)
        memcpy(place(staging, array), source, bytes);
    else if (bytes > 0)
        memset(place(staging, array), 0, bytes);
}

// Copies this rank's part of an array (B, columns).
static void put_columns(const struct staging *staging, enum array array, const void *source, int64_t columns) {
    if (!source || elements(staging->step, staging->input, array) == 0) {
        put(staging, array, NULL);
        return;
    }
    context_take(&staging->step->mesh, place(staging, array), source,
                 &(struct context_slice){staging->input->B, columns, element_bytes(array)});
}

// The column of the whole array from which element n of this rank's part comes.
static int64_t column_of(const struct staging *staging, int64_t n, int64_t columns) {
    const struct mesh *mesh = &staging->step->mesh;
    int64_t length = columns / context_all_chunks(mesh);
    int which = (int)(n / (staging->input->B * length));
    return length * context_chunk(mesh, mesh->place[AXIS_CONTEXT], which) + n % length;
}

// Rotary models number the columns of a row, whatever the data says about positions, as Megatron does.
static void put_positions(const struct staging *staging, enum array array, const int32_t *source,
                          int64_t first_position) {
    int64_t count = elements(staging->step, staging->input, array);
    int64_t columns = array == POSITIONS ? staging->input->T : staging->input->S;
    if (source && staging->step->chunks[0].model.choices.rope.pairs == 0) {
        put_columns(staging, array, source, columns);
        return;
    }
    int32_t *positions = place(staging, array);
    for (int64_t n = 0; n < count; n++)
        positions[n] = (int32_t)(first_position + column_of(staging, n, columns));
}

// Dropout masks are keyed by the token's place in the run: its sample number and position.
static void put_row_ids(const struct staging *staging, enum array array, int64_t columns) {
    const struct step_input *input = staging->input;
    int64_t count = elements(staging->step, input, array), *row_ids = place(staging, array);
    int64_t length = columns / context_all_chunks(&staging->step->mesh);
    for (int64_t n = 0; n < count; n++) {
        int64_t b = n / length % input->B;
        row_ids[n] = (input->samples ? input->samples[b] : b) * columns + column_of(staging, n, columns);
    }
}

// Megatron's mean of means: each micro-batch divides by its own count, which is `count`. Returns this rank's part of
// it.
static double put_weights(const struct staging *staging, enum array mask_array, enum array weights_array, double count,
                          const struct step_upload *upload) {
    const float *mask = place(staging, mask_array);
    float *weights = place(staging, weights_array);
    int64_t rows = elements(staging->step, staging->input, mask_array);
    double divisor = (count > 1 ? count : 1) * upload->divisor, own = 0;
    for (int64_t n = 0; n < rows; n++) {
        weights[n] = upload->has_weights ? (float)((double)mask[n] / divisor) : 0;
        own += (double)mask[n];
    }
    return own;
}

static double count_tokens(const struct step_input *input, int64_t columns) {
    double count = 0;
    for (int64_t n = 0; input->mask && n < input->B * columns; n++)
        count += (double)input->mask[n];
    return count;
}

// Padding rows and rows without a label do not count for the pair head; none count if another rank has the first
// tokens. Returns how many count over all ranks.
static double put_pair_mask(const struct staging *staging) {
    const struct step_input *input = staging->input;
    float *mask = place(staging, PAIR_MASK);
    bool has_first = staging->step->mesh.place[AXIS_CONTEXT] == 0;
    double count = 0;
    for (int64_t b = 0; b < elements(staging->step, input, PAIR_MASK); b++) {
        bool counts = input->pair_labels && (!input->samples || input->samples[b] >= 0);
        mask[b] = counts && has_first ? 1.0f : 0.0f;
        count += counts;
    }
    return count;
}

static void put_all(const struct staging *staging, struct step_upload *upload) {
    const struct step_input *input = staging->input;
    int64_t labelled = staging->step->chunks[0].model.form == CONFIG_T5 ? input->S : input->T;
    put_row_ids(staging, ROW_IDS, input->T);
    put_row_ids(staging, DECODER_ROW_IDS, input->S);
    put_columns(staging, TOKENS, input->tokens, input->T);
    put_positions(staging, POSITIONS, input->positions, upload->first_position);
    put_columns(staging, TYPES, input->types, input->T);
    put_columns(staging, FIRST_KEYS, input->first_keys, input->T);
    put_columns(staging, DECODER_TOKENS, input->decoder_tokens, input->S);
    put_positions(staging, DECODER_POSITIONS, input->decoder_positions, upload->first_position);
    put(staging, LENGTHS, input->lengths);
    put_columns(staging, LABELS, input->labels, labelled);
    put_columns(staging, MASK, input->mask, labelled);
    put(staging, PAIR_LABELS, input->pair_labels);
    double tokens = count_tokens(input, labelled), pairs = put_pair_mask(staging);
    upload->counts.tokens += put_weights(staging, MASK, WEIGHTS, tokens, upload);
    upload->counts.pairs += put_weights(staging, PAIR_MASK, PAIR_WEIGHTS, pairs, upload);
    put(staging, COUNTS, (float[]){(float)upload->counts.tokens, (float)upload->counts.pairs});
}

void step_upload_input(struct step *step, struct tensor block, const struct step_input *input,
                       struct step_upload *upload) {
    int64_t bytes = (int64_t)step_input_bytes(step, input);
    CHECK(bytes <= tensor_count(block));
    const struct ops *ops = step->device->ops;
    struct step_slot *slot = &step->slots[step->next_slot];
    step->next_slot = !step->next_slot;
    if (slot->is_used) {
        ops->event_wait(step->device, slot->copied);
        ops->stream_wait(step->device, STREAM_COPY, slot->taken);
    }
    put_all(&(struct staging){.step = step, .input = input, .host = slot->host}, upload);
    ops->copy_in(step->device, slot->landing.data, slot->host, (size_t)bytes, STREAM_COPY);
    ops->event_record(step->device, slot->copied, STREAM_COPY);
    ops->stream_wait(step->device, STREAM_COMPUTE, slot->copied);
    op_copy(step->device,
            &(struct op_copy){.dst = tensor_rows(block, 0, bytes), .src = tensor_rows(slot->landing, 0, bytes)});
    ops->event_record(step->device, slot->taken, STREAM_COMPUTE);
    slot->is_used = true;
}
