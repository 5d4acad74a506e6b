// The block of a micro-batch on the device. See internal.h.
//
// A block's fields depend on the model and the micro-batch, see the table in data/batch.h. If ranks share sequences,
// each rank's block has only its own strips, see parallel/shard.h.
#include "step/internal.h"
#include "base/error.h"

#include <string.h>

// The fields that are made here; the others are copied.
static const uint32_t made_here =
    BATCH_BIT(ROW_IDS) | BATCH_BIT(DECODER_ROW_IDS) | BATCH_BIT(CONTEXT_ROW_IDS) | BATCH_BIT(WHOLE_ROW_IDS) |
    BATCH_BIT(WHOLE_DOCUMENT_STARTS) | BATCH_BIT(NEAR_ROW_IDS) | BATCH_BIT(NEAR_DOCUMENT_STARTS) |
    BATCH_BIT(POSITIONS) | BATCH_BIT(DECODER_POSITIONS) | BATCH_BIT(LOSS_WEIGHTS) | BATCH_BIT(PAIR_MASK) |
    BATCH_BIT(PAIR_WEIGHTS) | BATCH_BIT(COUNTS) | BATCH_BIT(DEPTH_TOKENS) | BATCH_BIT(DEPTH_POSITIONS) |
    BATCH_BIT(DEPTH_LABELS) | BATCH_BIT(DEPTH_MASK) | BATCH_BIT(DEPTH_WEIGHTS);

static bool has_position_table(const struct step *step) {
    bool has_one = false;
    for (int i = 0; i < step->chunk_count; i++)
        has_one = has_one || model_embedding(&step->chunks[i].model)->positions;
    return has_one;
}

static bool is_rotary(const struct step *step) {
    return step->chunks[0].model.choices.rope.pairs > 0;
}

// Only the last chunk has depths.
static int64_t depths_here(const struct step *step) {
    return step->chunks[step->chunk_count - 1].model.depth_count;
}

static bool is_reader(const struct step *step, enum batch_reader reader) {
    switch (reader) {
    case READER_ALL:
        return true;
    case READER_POSITIONS:
        return has_position_table(step) || is_rotary(step);
    case READER_TYPES:
        return model_embedding(&step->chunks[0].model)->types;
    case READER_PAIRS:
        return step->chunks[step->chunk_count - 1].model.has_pair_head;
    case READER_DEPTHS:
        return depths_here(step) > 0;
    case READER_DEPTH_POSITIONS:
        return depths_here(step) > 0 && has_position_table(step);
    case READER_HEADS:
        return step->mesh.length[AXIS_CONTEXT] > 1 &&
               step->chunks[0].model.choices.head_ranks == step->mesh.length[AXIS_CONTEXT];
    case READER_NEAR:
        return step->mesh.near_ranks > 1;
    case READER_HOST:
        break;
    }
    return false;
}

struct batch_form step_block_form(const struct step *step, const struct batch_form *form) {
    int ranks = step->mesh.length[AXIS_CONTEXT];
    struct batch_form block = {.B = form->B,
                               .T = form->T / ranks,
                               .S = form->S / ranks,
                               .depths = depths_here(step),
                               .whole = form->T,
                               .near = form->T / ranks * step->mesh.near_ranks};
    for (int i = 0; i < BATCH_FIELD_COUNT; i++) {
        const struct batch_rule *rule = batch_rule((enum batch_field)i);
        bool is_given = form->fields >> rule->with & 1;
        block.fields |= (uint32_t)(is_given && is_reader(step, rule->reader)) << i;
    }
    return block;
}

struct device_batch step_device_batch(const struct step *step, const struct batch_form *form, struct tensor block) {
    struct batch_form part = step_block_form(step, form);
    struct device_batch batch = device_batch_in_block(&part, block.data);
    batch.loss_sum = step_total(step, TOTAL_LOSS);
    batch.pair_loss_sum = step_total(step, TOTAL_PAIR_LOSS);
    batch.top_hits = step_total(step, TOTAL_HITS);
    batch.depth_losses = step_total(step, TOTAL_DEPTH_LOSSES);
    batch.depth_counts = step_total(step, TOTAL_DEPTH_TOKENS);
    batch.balance_sums = step_total(step, TOTAL_BALANCE);
    batch.expert_counts = step_total(step, TOTAL_EXPERT_ROWS);
    batch.global_sums = step_total(step, TOTAL_GLOBAL_SHARES);
    batch.global_counts = step_total(step, TOTAL_GLOBAL_ROWS);
    batch.expert_bias = step->expert_bias;
    batch.expert_load = step->expert_load;
    if (step->scores.data && batch.labels.data) {
        struct tensor flat = tensor_flat(step->scores);
        int64_t most = step->scores.shape[1], rows = tensor_count(batch.labels);
        batch.scores = (struct token_scores){.losses = tensor_rows(flat, 0, rows),
                                             .largest = tensor_rows(flat, most, rows),
                                             .target = tensor_rows(flat, 2 * most, rows)};
    }
    if (batch.counts.data)
        batch.balance_share = tensor_rows(batch.counts, COUNT_SHARE, 1);
    return batch;
}

// A micro-batch being written to its staging memory.
struct staging {
    const struct step *step;
    const struct batch *batch;
    struct batch_form whole, part;  // of the batch, and of this rank's part
    struct batch own;               // in the staging memory
};

// Copies this rank's part of a field; writes zeros if it is not given.
static void put(const struct staging *staging, enum batch_field field) {
    const struct batch_rule *rule = batch_rule(field);
    const void *source = staging->batch->fields[field];
    void *own = staging->own.fields[field];
    size_t bytes = (size_t)batch_elements(&staging->part, field) * rule->element_bytes;
    if (!source)
        memset(own, 0, bytes);
    else if (rule->shape == SHAPE_SAMPLES)
        memcpy(own, source, bytes);
    else
        context_take(&staging->step->mesh, own, source,
                     &(struct context_slice){staging->batch->B, batch_columns(&staging->whole, rule->shape),
                                             rule->element_bytes});
}

// The column of the whole array from which element n of a rank's part comes. Elements of a strip follow each other.
static int64_t column_on(const struct mesh *mesh, int64_t B, int64_t n, int64_t columns) {
    int64_t length = columns / context_all_strips(mesh);
    int which = (int)(n / (B * length));
    return length * context_strip(mesh, mesh->place[AXIS_CONTEXT], which) + n % length;
}

static int64_t column_of(const struct staging *staging, int64_t n, int64_t columns) {
    return column_on(&staging->step->mesh, staging->batch->B, n, columns);
}

// Rotary models number the columns of a row, whatever the data says about positions, as Megatron does.
static void put_positions(const struct staging *staging, enum batch_field field, int64_t columns,
                          int64_t first_position) {
    int64_t count = batch_elements(&staging->part, field);
    if (count > 0 && staging->batch->fields[field] && !is_rotary(staging->step)) {
        put(staging, field);
        return;
    }
    int32_t *positions = staging->own.fields[field];
    int64_t length = columns / context_all_strips(&staging->step->mesh);
    for (int64_t n = 0; n < count; n += length) {
        int64_t first = first_position + column_of(staging, n, columns);
        for (int64_t i = 0; i < length; i++)
            positions[n + i] = (int32_t)(first + i);
    }
}

// Dropout masks are keyed by the token's place in the run: its sample number, which of the sample's texts it is in if
// one model reads several, and its position. The part is that of this rank of the mesh.
static void put_row_ids_on(const struct staging *staging, const struct mesh *mesh, enum batch_field field,
                           int64_t columns) {
    const struct batch *batch = staging->batch;
    int64_t count = batch_elements(&staging->part, field), *row_ids = staging->own.fields[field];
    int64_t length = columns / context_all_strips(mesh);
    int64_t texts = batch->context_tokens ? TEXT_COUNT : 1, text = field == BATCH_CONTEXT_ROW_IDS;
    for (int64_t n = 0; n < count; n += length) {
        int64_t b = n / length % batch->B, sample = batch->samples ? batch->samples[b] : b;
        int64_t first = (sample * texts + text) * columns + column_on(mesh, batch->B, n, columns);
        for (int64_t i = 0; i < length; i++)
            row_ids[n + i] = first + i;
    }
}

static void put_row_ids(const struct staging *staging, enum batch_field field, int64_t columns) {
    put_row_ids_on(staging, &staging->step->mesh, field, columns);
}

// Row ids of all tokens, or of this rank's and its neighbours', for layers that exchange heads.
static void put_merged(const struct staging *staging, int ranks, enum batch_field row_ids,
                       enum batch_field document_starts) {
    const struct batch *batch = staging->batch;
    struct mesh merged = context_merge(&staging->step->mesh, ranks);
    if (staging->own.fields[row_ids])
        put_row_ids_on(staging, &merged, row_ids, batch->T);
    if (staging->own.fields[document_starts])
        context_take(&merged, staging->own.fields[document_starts], batch->document_starts,
                     &(struct context_slice){batch->B, batch->T, sizeof *batch->document_starts});
}

// A query's own context is in its row, and the contexts of data-parallel ranks follow each other.
static void put_own_contexts(const struct staging *staging) {
    const struct mesh *mesh = &staging->step->mesh;
    int64_t B = staging->batch->B, first = B * mesh_index(mesh, mesh->place, MESH_SAMPLES);
    for (int64_t b = 0; staging->own.labels && b < B; b++)
        staging->own.labels[b] = (int32_t)(first + b);
}

double step_positions(const struct step *step) {
    const struct step_options *options = &step->options;
    return options->counts_tokens_alike ? (double)batch_elements(&options->largest, BATCH_LABELS) *
                                              options->schedule.micro_batches * mesh_count(&step->mesh, MESH_SAMPLES)
                                        : 0;
}

// Megatron's mean of means: each micro-batch divides by its own count, which is `count`.
static double divisor_of(const struct step_upload *upload, double count) {
    return upload->positions > 0 ? upload->positions : (count > 1 ? count : 1) * upload->divisor;
}

// Returns this rank's part of the count.
static double put_weights(const struct staging *staging, enum batch_field mask_field, enum batch_field weights_field,
                          double count, const struct step_upload *upload) {
    const float *mask = staging->own.fields[mask_field];
    float *weights = staging->own.fields[weights_field];
    int64_t rows = batch_elements(&staging->part, mask_field);
    double divisor = divisor_of(upload, count), own = 0;
    for (int64_t n = 0; n < rows; n++) {
        weights[n] = upload->has_weights ? (float)((double)mask[n] / divisor) : 0;
        own += (double)mask[n];
    }
    return own;
}

// Writes for the tokens t of this rank the field of token t + ahead of the same row; 0 after the end of the row. If the
// field is missing all are 0, except positions. The elements of all these fields have 4 bytes.
static void put_later(const struct staging *staging, enum batch_field to, enum batch_field from, int64_t depth) {
    int64_t B = staging->batch->B, T = staging->batch->T, rows = B * staging->part.T, ahead = depth + 1;
    int64_t length = T / context_all_strips(&staging->step->mesh);
    const unsigned char *source = staging->batch->fields[from];
    unsigned char *own = staging->own.fields[to];
    const size_t bytes = sizeof(int32_t);
    for (int64_t n = 0; own && n < rows; n += length) {
        int64_t b = n / length % B, first = column_of(staging, n, T) + ahead;
        int64_t count = first + length <= T ? length : first < T ? T - first : 0;
        unsigned char *at = own + (size_t)(depth * rows + n) * bytes;
        memset(at, 0, (size_t)length * bytes);
        for (int64_t i = 0; !source && from == BATCH_POSITIONS && i < count; i++)
            memcpy(at + (size_t)i * bytes, &(int32_t){(int32_t)(first + i)}, bytes);
        if (source && count > 0)
            memcpy(at, source + (size_t)(b * T + first) * bytes, (size_t)count * bytes);
    }
}

// The inputs and labels of multi-token prediction. As for the model's own loss, each micro-batch divides by its own
// count, here that of the labels that are left. If all tokens weigh alike, a micro-batch's mean weighs as its `tokens`,
// as in Megatron.
static void put_depths(const struct staging *staging, double tokens, const struct step_upload *upload) {
    const struct batch *batch = staging->batch;
    int64_t rows = batch->B * staging->part.T, depths = staging->part.depths;
    double divisor = upload->positions > 0 ? upload->positions / (tokens > 1 ? tokens : 1) : upload->divisor;
    for (int64_t d = 0; staging->own.depth_tokens && d < depths; d++) {
        put_later(staging, BATCH_DEPTH_TOKENS, BATCH_TOKENS, d);
        put_later(staging, BATCH_DEPTH_POSITIONS, BATCH_POSITIONS, d);
        put_later(staging, BATCH_DEPTH_LABELS, BATCH_LABELS, d);
        put_later(staging, BATCH_DEPTH_MASK, BATCH_LOSS_MASK, d);
        double count = 0;
        for (int64_t n = 0; n < batch_elements(&staging->whole, BATCH_LOSS_MASK); n++)
            count += n % batch->T > d ? (double)batch->loss_mask[n] : 0;
        double factor = staging->step->options.depth_factor / ((count > 1 ? count : 1) * divisor);
        for (int64_t n = d * rows; n < (d + 1) * rows; n++)
            staging->own.depth_weights[n] =
                upload->has_weights ? (float)((double)staging->own.depth_mask[n] * factor) : 0;
    }
}

static double count_tokens(const struct staging *staging) {
    double count = 0;
    for (int64_t n = 0; n < batch_elements(&staging->whole, BATCH_LOSS_MASK); n++)
        count += (double)staging->batch->loss_mask[n];
    return count;
}

// Padding rows and rows without a label do not count for the pair head; none count if another rank has the first
// tokens. Returns how many count over all ranks.
static double put_pair_mask(const struct staging *staging) {
    const struct batch *batch = staging->batch;
    bool has_first = staging->step->mesh.place[AXIS_CONTEXT] == 0;
    double count = 0;
    for (int64_t b = 0; b < batch_elements(&staging->part, BATCH_PAIR_MASK); b++) {
        bool counts = batch->pair_labels && (!batch->samples || batch->samples[b] >= 0);
        staging->own.pair_mask[b] = counts && has_first ? 1.0f : 0.0f;
        count += counts;
    }
    return count;
}

static void put_all(const struct staging *staging, struct step_upload *upload) {
    const struct batch *batch = staging->batch;
    for (int i = 0; i < BATCH_FIELD_COUNT; i++)
        if (staging->own.fields[i] && !(made_here >> i & 1))
            put(staging, (enum batch_field)i);
    put_row_ids(staging, BATCH_ROW_IDS, batch->T);
    put_row_ids(staging, BATCH_DECODER_ROW_IDS, batch->S);
    put_row_ids(staging, BATCH_CONTEXT_ROW_IDS, batch->T);
    put_merged(staging, staging->step->mesh.length[AXIS_CONTEXT], BATCH_WHOLE_ROW_IDS, BATCH_WHOLE_DOCUMENT_STARTS);
    put_merged(staging, staging->step->mesh.near_ranks, BATCH_NEAR_ROW_IDS, BATCH_NEAR_DOCUMENT_STARTS);
    if (batch->context_tokens)
        put_own_contexts(staging);
    put_positions(staging, BATCH_POSITIONS, batch->T, upload->first_position);
    put_positions(staging, BATCH_DECODER_POSITIONS, batch->S, upload->first_position);
    double tokens = count_tokens(staging), pairs = put_pair_mask(staging);
    put_depths(staging, tokens, upload);
    upload->counts.tokens += put_weights(staging, BATCH_LOSS_MASK, BATCH_LOSS_WEIGHTS, tokens, upload);
    upload->counts.pairs += put_weights(staging, BATCH_PAIR_MASK, BATCH_PAIR_WEIGHTS, pairs, upload);
    if (staging->own.counts) {
        staging->own.counts[0] = (float)upload->counts.tokens;
        staging->own.counts[1] = (float)upload->counts.pairs;
        double all = (double)batch_elements(&staging->whole, BATCH_LOSS_MASK);
        double share = upload->positions > 0 ? all / upload->positions : 1 / upload->divisor;
        staging->own.counts[2] = upload->has_weights ? (float)share : 0;
    }
}

void step_upload_batch(struct step *step, struct tensor block, const struct batch *batch, struct step_upload *upload) {
    struct batch_form whole = batch_form(batch), part = step_block_form(step, &whole);
    int64_t bytes = (int64_t)batch_block_bytes(&part);
    CHECK(bytes <= tensor_count(block));
    const struct ops *ops = step->device->ops;
    struct step_slot *slot = &step->slots[step->next_slot];
    step->next_slot = !step->next_slot;
    if (slot->is_used) {
        ops->event_wait(step->device, slot->copied);
        ops->stream_wait(step->device, STREAM_COPY, slot->taken);
    }
    put_all(
        &(struct staging){
            .step = step, .batch = batch, .whole = whole, .part = part, .own = batch_in_block(&part, slot->host)},
        upload);
    ops->copy_in(step->device, slot->landing.data, slot->host, (size_t)bytes, STREAM_COPY);
    ops->event_record(step->device, slot->copied, STREAM_COPY);
    ops->stream_wait(step->device, STREAM_COMPUTE, slot->copied);
    op_copy(step->device,
            &(struct op_copy){.dst = tensor_rows(block, 0, bytes), .src = tensor_rows(slot->landing, 0, bytes)});
    ops->event_record(step->device, slot->taken, STREAM_COMPUTE);
    slot->is_used = true;
}
