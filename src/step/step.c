// One training step, evaluation and generation with the same model. See step.h.
#include "step/step.h"
#include "base/error.h"
#include "base/memory.h"
#include "step/internal.h"
#include "step/pipeline.h"

#include <stdlib.h>
#include <string.h>

struct pass step_pass(struct step *step, int64_t B, int64_t T) {
    return (struct pass){.device = step->device,
                         .mesh = &step->mesh,
                         .activations = &step->chunks[0].flights[0].activations,
                         .scratch = &step->scratch,
                         .dtype = step->dtype,
                         .B = B,
                         .T = T / step->mesh.length[AXIS_CONTEXT],
                         .is_training = step->mode == STEP_TRAIN,
                         .keeps_results = step->keeps_results,
                         .seed = step->options.seed,
                         .splits_rows = step->options.splits_rows,
                         .input_offload = step->input_offload.device ? &step->input_offload : NULL,
                         .has_cache = step->mode == STEP_GENERATE,
                         .cached = step->cached};
}

static void broadcast_bytes(void *context, void *bytes, size_t count) {
    size_t words = (count + sizeof(int64_t) - 1) / sizeof(int64_t);
    OWNED int64_t *values = memory_alloc(words * sizeof *values);
    memcpy(values, bytes, count);
    comm_broadcast_i64(context, values, (int)words, 0, "choices of algorithms");
    memcpy(bytes, values, count);
}

// Ranks that hold the same layers do the same operations in the same order.
static void join_devices(struct step *step) {
    struct group *stage = step->mesh.stage;
    if (stage && group_size(stage) > 1)
        device_join(step->device,
                    &(struct device_peers){.rank = group_rank(stage), .broadcast = broadcast_bytes, .context = stage});
}

static int build(struct step *step, struct step_room *room) {
    TRY(step_assemble(step));
    TRY(step_take_memory(step, room));
    join_devices(step);
    return 0;
}

// Stages know only their own layers' names; all stages' are declared, so that every rank finds the same factors.
static int take_factors(struct step *step) {
    struct param_list all = {0};
    for (int stage = 0; stage < step->mesh.length[AXIS_PIPELINE]; stage++)
        shared_declare_stage(step, stage, &all);
    int status = step->options.take_factors(step->options.optimizer.config, &all, &step->params);
    param_list_free(&all);
    return status;
}

int step_assemble(struct step *step) {
    TRY(pipeline_open(step));
    if (step->mode == STEP_TRAIN && step->options.take_factors)
        TRY(take_factors(step));
    step_divide_optimizer(step);
    return 0;
}

struct step *step_new(const struct step_options *options) {
    struct step *step = memory_alloc(sizeof *step);
    step->options = *options;
    step->device = options->device;
    step->mesh = *options->mesh;
    step->options.mesh = step->options.model.mesh = &step->mesh;
    step->mode = options->mode;
    step->dtype = options->dtype;
    return step;
}

int step_open(struct step **result, const struct step_options *options, struct step_room *room) {
    struct step *step = step_new(options);
    *room = (struct step_room){0};
    int status = build(step, room);
    *result = status == 0 ? step : NULL;
    if (status < 0)
        step_close(step);
    return status;
}

void step_close(struct step *step) {
    if (!step)
        return;
    reducer_close(&step->reducer);
    device_synchronize(step->device);  // queued work still uses memory that is freed below
    replay_close(step);
    step_give_memory_back(step);
    pipeline_close(step);
    param_list_free(&step->params);
    free(step->seen);
    free(step);
}

struct device *step_device(const struct step *step) {
    return step->device;
}

const struct mesh *step_mesh(const struct step *step) {
    return &step->mesh;
}

const struct param_list *step_params(const struct step *step) {
    return &step->params;
}

const struct step_memory *step_memory(const struct step *step) {
    return &step->memory;
}

struct tensor step_values(const struct step *step) {
    return step->values;
}

int step_train_paced(struct step *step, const struct step_source *source, const struct pace *paces) {
    CHECK(step->mode == STEP_TRAIN);
    CHECK(step->borrow.border == 0 || source->count == 1);  // else the second pass would find no sum of gradients
    return step_run(step, source, paces);
}

int step_train_twice(struct step *step, const struct step_source *first, const struct step_source *again,
                     const struct pace *paces) {
    int status = 0;
    // Gradients are compared before they leave this rank.
    bool overlaps = step->reducer.overlaps_reduction;
    step->reducer.overlaps_reduction = false;
    step->expected_gradients = step_digest_passes(step, first, &status);
    step->expects_gradients = true;
    if (status == 0)
        status = step_train_paced(step, again, paces);
    step->expects_gradients = false;
    step->reducer.overlaps_reduction = overlaps;
    return status;
}

double step_data_seconds(const struct step *step) {
    return step->data_seconds;
}

void step_set_records(struct step *step, bool records) {
    step->options.records = records;
}

int step_train(struct step *step, const struct step_source *source, double lr, double weight_decay) {
    struct pace paces[STEP_ROWS];
    for (int i = 0; i < STEP_ROWS; i++)
        paces[i] = (struct pace){.lr = lr, .weight_decay = weight_decay, .decoupled_lr = lr};
    results_make_room(step);
    return step_train_paced(step, source, paces);
}

int step_evaluate(struct step *step, const struct step_source *source) {
    CHECK(!step->options.only_trains);
    results_make_room(step);
    return step_run(step, source, NULL);
}

void step_token_scores(const struct step *step, struct step_scores *scores) {
    const struct mesh *mesh = &step->mesh;
    const struct device_batch *batch = &step->pipeline.batches[0].batch;
    bool is_last = mesh->place[AXIS_PIPELINE] == mesh->length[AXIS_PIPELINE] - 1;
    scores->count = is_last && mesh->place[AXIS_TENSOR] == 0 ? tensor_count(batch->labels) : 0;
    if (scores->count == 0)
        return;
    device_copy_out(step->device, scores->places, batch->row_ids);
    device_copy_out(step->device, scores->losses, batch->scores.losses);
    device_copy_out(step->device, scores->largest, batch->scores.largest);
    device_copy_out(step->device, scores->of_label, batch->scores.target);
}

struct tensor step_evaluated_logits(const struct step *step) {
    return tensor_flat(step->chunks[0].flights[0].model.head.logits);
}

struct step_embeddings step_evaluated_embeddings(const struct step *step) {
    const struct biencoder_flight *flight = &step->chunks[0].flights[0].model.biencoder;
    return (struct step_embeddings){.queries = flight->queries, .contexts = flight->contexts};
}

bool step_has_encoder(const struct step *step) {
    return step->chunks[0].model.form == CONFIG_T5;
}

int64_t step_vocabulary(const struct step *step) {
    return step->chunks[0].model.V;
}

int64_t step_window(const struct step *step) {
    return step->options.largest.T;
}

int64_t step_window_left(const struct step *step) {
    return step_window(step) - step->cached;
}

void step_forget(struct step *step) {
    step->cached = 0;
}

// The tokens of one sequence, to be copied to the device: the encoder's if `is_encoder`, else those whose logits are
// wanted.
static struct device_batch upload_tokens(struct step *step, const int32_t *tokens, int64_t T, bool is_encoder,
                                         struct pass *pass) {
    bool is_decoder = step->chunks[0].model.form == CONFIG_T5 && !is_encoder;
    struct batch host = {.B = 1};
    *(is_decoder ? &host.S : &host.T) = T;
    *(is_decoder ? &host.decoder_tokens : &host.tokens) = (int32_t *)tokens;
    struct step_upload upload = {.divisor = 1, .first_position = is_encoder ? 0 : step->cached};
    step_upload_batch(step, step->pipeline.batches[0].block, &host, &upload);
    *pass = step_pass(step, 1, T);
    struct batch_form form = batch_form(&host);
    return step_device_batch(step, &form, step->pipeline.batches[0].block);
}

void step_encode(struct step *step, const int32_t *tokens, int64_t T) {
    CHECK(step->mode == STEP_GENERATE && T > 0 && T <= step_window(step) && step->chunks[0].model.form == CONFIG_T5);
    struct pass pass;
    struct device_batch batch = upload_tokens(step, tokens, T, true, &pass);
    struct step_chunk *chunk = &step->chunks[0];
    size_t mark = arena_mark(pass.activations);
    model_encode(&chunk->model, &pass, &chunk->flights[0].model, &batch, tensor_rows(step->encoded, 0, T));
    arena_release(pass.activations, mark);
    step_forget(step);
}

// Stages run in turn: receives the previous stage's rows (T, C), none for the first.
static struct tensor receive_rows(const struct step *step, const struct pass *pass) {
    const struct model *model = &step->chunks[0].model;
    if (step->mesh.place[AXIS_PIPELINE] == 0)
        return (struct tensor){0};
    struct tensor x = arena_2d(pass->activations, step->dtype, pass->T, model->choices.C);
    struct comm_request request = comm_receive_start(step->mesh.links[LINK_FORWARD_IN], x, 0, "activations");
    comm_wait(&request);
    return x;
}

static void send_rows(const struct step *step, struct tensor x) {
    struct comm_request request = comm_send_start(step->mesh.links[LINK_FORWARD_OUT], x, 1, "activations");
    comm_wait(&request);
}

// LongRoPE: when a sequence outgrows the short frequencies, the keys of earlier tokens have the wrong ones, and all its
// tokens are processed again.
static void read_again(struct step *step, const int32_t **tokens, int64_t *T) {
    int64_t limit = step->chunks[0].model.choices.rope.short_length;
    if (limit == 0)
        return;
    if (!step->seen)
        step->seen = memory_alloc(sizeof *step->seen * (size_t)step_window(step));
    memcpy(step->seen + step->cached, *tokens, sizeof *step->seen * (size_t)*T);
    if (step->cached > 0 && step->cached <= limit && step->cached + *T > limit) {
        *tokens = step->seen;
        *T += step->cached;
        step->cached = 0;
    }
}

void step_logits(struct step *step, const int32_t *tokens, int64_t T, float *logits) {
    CHECK(step->mode == STEP_GENERATE && T > 0 && T <= step_window_left(step));
    read_again(step, &tokens, &T);
    struct pass pass;
    struct device_batch batch = upload_tokens(step, tokens, T, false, &pass);
    struct step_chunk *chunk = &step->chunks[0];
    size_t mark = arena_mark(pass.activations);
    struct tensor x = receive_rows(step, &pass);
    x = model_last_logits(&chunk->model, &pass, &chunk->flights[0].model, &batch, x, step->logits);
    step->cached += T;
    if (x.data)
        send_rows(step, x);
    arena_release(pass.activations, mark);
    comm_broadcast(step->mesh.group[AXIS_PIPELINE], step->logits, step->mesh.length[AXIS_PIPELINE] - 1, "logits");
    // Ranks that share out experts must write the same text, but may have rounded differently.
    if (step->mesh.parts[AXIS_DATA][AXIS_DEALS] > 1)
        comm_broadcast(step->mesh.group[AXIS_DATA], step->logits, 0, "logits");
    device_copy_out(step->device, logits, step->logits);
}
