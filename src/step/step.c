// One training step, evaluation and generation over the same model. See step.h.
#include "step/step.h"
#include "base/error.h"
#include "base/memory.h"
#include "step/memory.h"
#include "step/update.h"

#include <stdlib.h>
#include <string.h>

struct pass step_pass(struct step *step, int64_t B, int64_t T) {
    return (struct pass){.device = step->device,
                         .mesh = &step->mesh,
                         .saved = &step->saved,
                         .scratch = &step->scratch,
                         .dtype = step->dtype,
                         .B = B,
                         .T = T / step->mesh.length[AXIS_CONTEXT],
                         .is_training = step->mode == STEP_TRAIN,
                         .seed = (uint64_t)step->config->seed,
                         .splits_rows = choices_splits_rows(step->config, &step->mesh),
                         .cache = step->mode == STEP_GENERATE ? &step->cache : NULL};
}

static int build(struct step *step) {
    if (!device_supports(step->device, step->dtype)) {
        char text[128];
        device_describe(step->device, text, sizeof text);
        return error_set("%s cannot train in %s; leave --bf16/--fp16 out or choose another --device", text,
                         dtype_name(step->dtype));
    }
    if (step->mode == STEP_GENERATE && config_form(step->config) == CONFIG_BERT)
        return error_set("a BERT fills in words and writes no text; generate needs --model gpt or t5");
    if (step->mode == STEP_GENERATE && step->mesh.length[AXIS_CONTEXT] > 1)
        return error_set("ranks that share sequences cannot write text; leave --context-parallel-size out");
    if (step->config->fp8_format && !device_supports(step->device, DTYPE_E4M3)) {
        char text[128];
        device_describe(step->device, text, sizeof text);
        return error_set("%s cannot multiply in 8 bits; leave --fp8-format out or use a GPU of compute capability 8.9 "
                         "or later (L4, H100)",
                         text);
    }
    model_build(&step->model, &step->params, step->config, &step->mesh);
    model_flight_open(&step->flight, &step->model);
    param_list_layout(&step->params);
    step_divide_optimizer(step);
    size_t layers = (size_t)step->model.decoder.L;
    step->cache.keys = memory_alloc(sizeof(struct tensor) * layers);
    step->cache.values = memory_alloc(sizeof(struct tensor) * layers);
    step->cache.across = memory_alloc(sizeof(struct tensor) * layers);
    return step_take_memory(step);
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
    step_give_memory_back(step);
    model_flight_close(&step->flight);
    model_free(&step->model);
    param_list_free(&step->params);
    free(step->cache.keys);
    free(step->cache.across);
    free(step->cache.values);
    free(step);
}

// Forward, and with learning backward, of one micro-batch. Adds its counts to *counts.
static int run_micro_batch(struct step *step, const struct step_source *source, bool is_learning, bool is_first,
                           struct step_counts *counts) {
    struct step_input input = {0};
    TRY(source->next(source->context, &input));
    struct step_upload upload = {.has_weights = is_learning,
                                 .divisor = (double)source->count * step->mesh.length[AXIS_DATA]};
    struct step_counts own = step_upload_input(step, step->inputs, &input, &upload);
    counts->tokens += own.tokens;
    counts->pairs += own.pairs;
    struct pass pass = step_pass(step, input.B, input.T);
    pass.is_training = is_learning;
    pass.is_first = is_first;
    struct device_batch batch = step_input_tensors(step, &input, step->inputs);
    if (!is_learning)
        batch.targets.weights = batch.pair.weights = (struct tensor){0};
    scaler_scale_loss(&step->adam.scaler, step->device, batch.targets.weights);
    scaler_scale_loss(&step->adam.scaler, step->device, batch.pair.weights);
    size_t mark = arena_mark(&step->saved);
    model_forward(&step->model, &pass, &step->flight, &batch);
    if (is_learning)
        model_backward(&step->model, &pass, &step->flight, &batch);
    arena_release(&step->saved, mark);
    return 0;
}

static int run_all(struct step *step, const struct step_source *source, bool is_learning) {
    device_zero(step->device, step->totals);
    struct step_counts counts = {0};
    for (int64_t i = 0; i < source->count; i++)
        TRY(run_micro_batch(step, source, is_learning, i == 0, &counts));
    float tokens = (float)counts.tokens, pairs = (float)counts.pairs;
    device_copy_in(step->device, tensor_rows(step->totals, 1, 1), &tokens);
    device_copy_in(step->device, tensor_rows(step->totals, 3, 1), &pairs);
    device_synchronize(step->device);
    comm_all_reduce(step->mesh.replicas, step->totals, REDUCE_SUM, "loss");
    return 0;
}

int step_train(struct step *step, const struct step_source *source, double lr, double weight_decay) {
    CHECK(step->mode == STEP_TRAIN);
    model_clear_gradients(&step->model, step->device, &step->params, step->grads);
    fp8_begin_step(&step->model.fp8, step->device);
    TRY(run_all(step, source, true));
    fp8_end_step(&step->model.fp8, step->device, &step->mesh);
    step_update(step, lr, weight_decay);
    return 0;
}

int step_evaluate(struct step *step, const struct step_source *source) {
    return run_all(step, source, false);
}

struct step_result step_result(struct step *step) {
    float totals[4];
    device_copy_out(step->device, totals, step->totals);
    double tokens = (double)totals[1], pairs = (double)totals[3];
    return (struct step_result){.loss = (double)totals[0] / (tokens > 1 ? tokens : 1),
                                .tokens = tokens,
                                .pair_loss = (double)totals[2] / (pairs > 1 ? pairs : 1),
                                .pairs = pairs,
                                .grad_norm = step->mode == STEP_TRAIN ? adam_grad_norm(&step->adam, step->device) : 0};
}

void step_forget(struct step *step) {
    step->cache.length = 0;
}

// Tokens of one sequence on their way in: the encoder's where `is_encoder`, else those whose logits are wanted.
static struct device_batch upload_tokens(struct step *step, const int32_t *tokens, int64_t T, bool is_encoder,
                                         struct pass *pass) {
    bool is_decoder = step->model.form == CONFIG_T5 && !is_encoder;
    struct step_input input = {.B = 1, .T = T, .tokens = tokens};
    if (is_decoder)
        input = (struct step_input){.B = 1, .S = T, .decoder_tokens = tokens};
    struct step_upload upload = {.divisor = 1, .first_position = is_encoder ? 0 : step->cache.length};
    (void)step_upload_input(step, step->inputs, &input, &upload);
    *pass = step_pass(step, 1, T);
    return step_input_tensors(step, &input, step->inputs);
}

void step_encode(struct step *step, const int32_t *tokens, int64_t T) {
    CHECK(step->mode == STEP_GENERATE && T > 0 && T <= step->model.P && step->model.form == CONFIG_T5);
    struct pass pass;
    struct device_batch batch = upload_tokens(step, tokens, T, true, &pass);
    size_t mark = arena_mark(&step->saved);
    model_encode(&step->model, &pass, &step->flight, &batch, tensor_rows(step->encoded, 0, T));
    arena_release(&step->saved, mark);
    step_forget(step);
}

void step_logits(struct step *step, const int32_t *tokens, int64_t T, float *logits) {
    CHECK(step->mode == STEP_GENERATE && T > 0 && step->cache.length + T <= step->model.P);
    struct pass pass;
    struct device_batch batch = upload_tokens(step, tokens, T, false, &pass);
    size_t mark = arena_mark(&step->saved);
    model_last_logits(&step->model, &pass, &step->flight, &batch, step->logits);
    arena_release(&step->saved, mark);
    device_copy_out(step->device, logits, step->logits);
}
