// One training step, evaluation and generation with the same model. See step.h.
#include "step/step.h"
#include "base/error.h"
#include "base/memory.h"
#include "step/memory.h"
#include "step/pipeline.h"
#include "step/replay.h"
#include "step/results.h"
#include "step/step_inputs.h"
#include "step/update.h"

#include <stdlib.h>
#include <string.h>

struct pass step_pass(struct step *step, int64_t B, int64_t T) {
    return (struct pass){.device = step->device,
                         .mesh = &step->mesh,
                         .saved = &step->chunks[0].flights[0].saved,
                         .scratch = &step->scratch,
                         .dtype = step->dtype,
                         .B = B,
                         .T = T / step->mesh.length[AXIS_CONTEXT],
                         .is_training = step->mode == STEP_TRAIN,
                         .keeps_results = step->keeps_results,
                         .seed = (uint64_t)step->config->seed,
                         .splits_rows = choices_splits_rows(step->config, &step->mesh),
                         .cache = step->mode == STEP_GENERATE ? &step->cache : NULL};
}

static void broadcast_bytes(void *context, void *bytes, size_t count) {
    size_t words = (count + sizeof(int64_t) - 1) / sizeof(int64_t);
    int64_t *values = memory_alloc(words * sizeof *values);
    memcpy(values, bytes, count);
    comm_broadcast_i64(context, values, (int)words, 0, "choices of algorithms");
    memcpy(bytes, values, count);
    free(values);
}

// Ranks that hold the same layers do the same operations in the same order.
static void join_devices(struct step *step) {
    struct group *stage = step->mesh.stage;
    if (stage && group_size(stage) > 1)
        device_join(step->device,
                    &(struct device_peers){.rank = group_rank(stage), .broadcast = broadcast_bytes, .context = stage});
}

static int build(struct step *step) {
    if (!device_supports(step->device, step->dtype)) {
        char text[128];
        device_describe(step->device, text, sizeof text);
        return error_set("%s cannot train in %s; leave --bf16/--fp16 out or choose another --device", text,
                         dtype_name(step->dtype));
    }
    if (step->mode == STEP_GENERATE && config_form(step->config) == CONFIG_BERT)
        return error_set_code(EXIT_CODE_USAGE,
                              "a BERT fills in words and writes no text; generate needs --model gpt or t5");
    if (step->mode == STEP_GENERATE && step->mesh.length[AXIS_CONTEXT] > 1)
        return error_set_code(EXIT_CODE_USAGE,
                              "ranks that share sequences cannot write text; leave --context-parallel-size out");
    if (step->mode == STEP_GENERATE && choices_splits_rows(step->config, &step->mesh))
        return error_set_code(
            EXIT_CODE_USAGE,
            "text is written one token at a time, which cannot be divided; leave --sequence-parallel out");
    bool is_cut = step->mode == STEP_GENERATE && step->mesh.length[AXIS_PIPELINE] > 1;
    if (is_cut && config_form(step->config) == CONFIG_T5)
        return error_set_code(EXIT_CODE_USAGE, "a T5 writes text without a pipeline; a checkpoint loads on any layout, "
                                               "so leave --pipeline-model-parallel-size out");
    if (is_cut && config_chunks(step->config) > 1)
        return error_set_code(EXIT_CODE_USAGE, "text is written one token at a time, which goes through each stage "
                                               "once; leave virtual stages out");
    if (step->config->fp8_format && !device_supports(step->device, DTYPE_E4M3)) {
        char text[128];
        device_describe(step->device, text, sizeof text);
        return error_set("%s cannot multiply in 8 bits; leave --fp8-format out or use a GPU of compute capability 8.9 "
                         "or later (L4, H100)",
                         text);
    }
    TRY(pipeline_open(step));
    param_list_layout(&step->params);
    step_divide_optimizer(step);
    const struct stack *decoder = &step->chunks[0].model.decoder;
    size_t layers = (size_t)(decoder->first + decoder->L);
    step->cache.keys = memory_alloc(sizeof(struct tensor) * layers);
    step->cache.values = memory_alloc(sizeof(struct tensor) * layers);
    step->cache.across = memory_alloc(sizeof(struct tensor) * layers);
    TRY(step_take_memory(step));
    join_devices(step);
    return 0;
}

int step_open(struct step **result, const struct config *config, struct device *device, const struct mesh *mesh,
              enum step_mode mode) {
    struct step *step = memory_alloc(sizeof *step);
    step->config = config;
    step->device = device;
    step->mesh = *mesh;
    step->mode = mode;
    step->dtype = config->bf16 ? DTYPE_BF16 : config->fp16 ? DTYPE_F16 : DTYPE_F32;
    int status = build(step);
    *result = status == 0 ? step : NULL;
    if (status < 0)
        step_close(step);
    return status;
}

void step_close(struct step *step) {
    if (!step)
        return;
    reducer_close(&step->reducer);
    device_synchronize(step->device);  // what is queued still uses what is freed below
    replay_close(step);
    step_give_memory_back(step);
    pipeline_close(step);
    param_list_free(&step->params);
    free(step->cache.keys);
    free(step->cache.across);
    free(step->cache.values);
    free(step);
}

static int run_all(struct step *step, const struct step_source *source, bool is_learning) {
    TRY(step_run_pipeline(step, source, is_learning));
    if (is_learning)
        step_reduce_gradients(step);
    comm_all_reduce(step->mesh.replicas, step->totals, REDUCE_SUM, "loss");
    // Only the last stage has losses.
    comm_broadcast(step->mesh.group[AXIS_PIPELINE], step->totals, step->mesh.length[AXIS_PIPELINE] - 1, "loss");
    return 0;
}

int step_train_paced(struct step *step, const struct step_source *source, const struct adam_pace *paces) {
    CHECK(step->mode == STEP_TRAIN);
    CHECK(step->borrow.border == 0 || source->count == 1);  // else the second pass would find no sum of gradients
    results_send_rates(step, paces);
    // Weights are rounded to 8 bits before the first pass.
    if (step->config->fp8_format)
        step_settle(step);
    TRY(run_all(step, source, true));
    for (int i = 0; i < step->chunk_count && step->config->fp8_format; i++)
        fp8_end_step(&step->chunks[i].model.fp8, step->device, &step->mesh);
    if (!step_is_alone(step))
        step_update(step);
    adam_count(&step->adam);
    results_queue(step, true);
    return 0;
}

int step_train(struct step *step, const struct step_source *source, double lr, double weight_decay) {
    struct adam_pace paces[STEP_ROWS];
    for (int i = 0; i < STEP_ROWS; i++)
        paces[i] = (struct adam_pace){.lr = lr, .weight_decay = weight_decay, .decoupled_lr = lr};
    results_make_room(step);
    return step_train_paced(step, source, paces);
}

int step_evaluate(struct step *step, const struct step_source *source) {
    results_make_room(step);
    TRY(run_all(step, source, false));
    results_queue(step, false);
    return 0;
}

void step_forget(struct step *step) {
    step->cache.length = 0;
}

// The tokens of one sequence, to be copied to the device: the encoder's if `is_encoder`, else those whose logits are
// wanted.
static struct device_batch upload_tokens(struct step *step, const int32_t *tokens, int64_t T, bool is_encoder,
                                         struct pass *pass) {
    bool is_decoder = step->chunks[0].model.form == CONFIG_T5 && !is_encoder;
    struct step_input input = {.B = 1, .T = T, .tokens = tokens};
    if (is_decoder)
        input = (struct step_input){.B = 1, .S = T, .decoder_tokens = tokens};
    struct step_upload upload = {.divisor = 1, .first_position = is_encoder ? 0 : step->cache.length};
    step_upload_input(step, step->pipeline.batches[0].block, &input, &upload);
    *pass = step_pass(step, 1, T);
    return step_input_tensors(step, &input, step->pipeline.batches[0].block);
}

void step_encode(struct step *step, const int32_t *tokens, int64_t T) {
    CHECK(step->mode == STEP_GENERATE && T > 0 && T <= step->chunks[0].model.P &&
          step->chunks[0].model.form == CONFIG_T5);
    struct pass pass;
    struct device_batch batch = upload_tokens(step, tokens, T, true, &pass);
    struct step_chunk *chunk = &step->chunks[0];
    size_t mark = arena_mark(pass.saved);
    model_encode(&chunk->model, &pass, &chunk->flights[0].model, &batch, tensor_rows(step->encoded, 0, T));
    arena_release(pass.saved, mark);
    step_forget(step);
}

// Stages take their turns: what the one before has made of the tokens (T, C), none for the first.
static struct tensor receive_rows(const struct step *step, const struct pass *pass) {
    const struct model *model = &step->chunks[0].model;
    if (step->mesh.place[AXIS_PIPELINE] == 0)
        return (struct tensor){0};
    struct tensor x = arena_2d(pass->saved, step->dtype, pass->T, model->choices.C);
    struct comm_request request = comm_receive_start(step->mesh.links[LINK_FORWARD_IN], x, 0, "activations");
    comm_wait(&request);
    return x;
}

static void send_rows(const struct step *step, struct tensor x) {
    struct comm_request request = comm_send_start(step->mesh.links[LINK_FORWARD_OUT], x, 1, "activations");
    comm_wait(&request);
}

void step_logits(struct step *step, const int32_t *tokens, int64_t T, float *logits) {
    CHECK(step->mode == STEP_GENERATE && T > 0 && step->cache.length + T <= step->chunks[0].model.P);
    struct pass pass;
    struct device_batch batch = upload_tokens(step, tokens, T, false, &pass);
    struct step_chunk *chunk = &step->chunks[0];
    size_t mark = arena_mark(pass.saved);
    struct tensor x = receive_rows(step, &pass);
    x = model_last_logits(&chunk->model, &pass, &chunk->flights[0].model, &batch, x, step->logits);
    if (x.data)
        send_rows(step, x);
    arena_release(pass.saved, mark);
    comm_broadcast(step->mesh.group[AXIS_PIPELINE], step->logits, step->mesh.length[AXIS_PIPELINE] - 1, "logits");
    device_copy_out(step->device, logits, step->logits);
}
