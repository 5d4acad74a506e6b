// Parameters that several stages of a pipeline hold: a tied embedding on the first and the last stage, the tables of
// relative positions on every stage of their stack. They are found by declaring the parameters of every stage, except
// those of layers, which belong to one stage. Each stage has its own gradient of such a parameter; the true gradient is
// their sum. The first stage that holds the parameter adds them up and sends the sum back, so that all copies stay the
// same bit for bit.
#include "base/memory.h"
#include "ops/device.h"
#include "step/pipeline.h"

#include <stdlib.h>
#include <string.h>

void shared_declare_stage(const struct step *step, int stage, struct param_list *params) {
    int stages = step->mesh.length[AXIS_PIPELINE];
    for (int chunk = 0; chunk < step->chunk_count; chunk++) {
        struct model_options options = pipeline_chunk(step, (int64_t)chunk * stages + stage);
        struct model model;
        model_build(&model, params, &options);
        model_free(&model);
    }
}

// Declares the parameters that stages may share: the ends of a stage's chunks, and the tables of stacks with layers.
static void declare_sharable(const struct step *step, int stage, struct param_list *params) {
    const struct model *own = &step->chunks[0].model;
    int64_t most = own->form == CONFIG_T5 || own->choices.has_relative_bias ? 1 : 0;
    for (int chunk = 0; chunk < step->chunk_count; chunk++) {
        struct model_options options = pipeline_chunk(step, (int64_t)chunk * step->mesh.length[AXIS_PIPELINE] + stage);
        struct config_chunk *part = &options.chunk;
        part->encoder_count = part->encoder_count < most ? part->encoder_count : most;
        part->decoder_count = part->decoder_count < most ? part->decoder_count : most;
        if (!part->begins && !part->ends && part->depths == 0 && most == 0)
            continue;
        struct model model;
        model_build(&model, params, &options);
        model_free(&model);
    }
}

// A parameter and a stage that holds it.
struct holding {
    const char *name;
    int stage;
};

static int compare(const void *a, const void *b) {
    const struct holding *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order != 0 ? order : x->stage - y->stage;
}

// Records a parameter that several stages hold.
static void add_shared(struct step *step, const struct holding *holdings, int count) {
    int *holders = memory_alloc(sizeof *holders * (size_t)count);
    for (int i = 0; i < count; i++)
        holders[i] = holdings[i].stage;
    struct param *own = param_find(&step->params, holdings[0].name);
    if (own) {
        own->is_shared = true;
        own->is_copy = holders[0] != step->mesh.place[AXIS_PIPELINE];
    }
    step->shared = memory_realloc(step->shared, sizeof *step->shared * (size_t)(step->shared_count + 1));
    step->shared[step->shared_count++] =
        (struct step_shared){.name = memory_string(holdings[0].name), .param = own, .holders = holders, .count = count};
}

// All stages find the same parameters in the same order, that of their names, so that their exchanges match.
void shared_open(struct step *step) {
    int stages = step->mesh.length[AXIS_PIPELINE], count = 0;
    if (stages == 1)
        return;
    OWNED struct param_list *lists = memory_alloc(sizeof *lists * (size_t)stages);
    for (int stage = 0; stage < stages; stage++) {
        declare_sharable(step, stage, &lists[stage]);
        count += lists[stage].count;
    }
    struct holding *holdings = memory_alloc(sizeof *holdings * (size_t)count), *next = holdings;
    for (int stage = 0; stage < stages; stage++)
        for (int i = 0; i < lists[stage].count; i++)
            *next++ = (struct holding){lists[stage].items[i]->name, stage};
    qsort(holdings, (size_t)count, sizeof *holdings, compare);
    for (int first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && strcmp(holdings[end].name, holdings[first].name) == 0;)
            end++;
        if (end - first > 1)
            add_shared(step, holdings + first, end - first);
    }
    for (int stage = 0; stage < stages; stage++)
        param_list_free(&lists[stage]);
    free(holdings);
}

void shared_close(struct step *step) {
    for (int i = 0; i < step->shared_count; i++) {
        free(step->shared[i].name);
        free(step->shared[i].holders);
    }
    free(step->shared);
}

// The rows of a gradient that are summed at a time: all would need as much memory again as the gradient has.
static int64_t rows_at_once(struct tensor grad) {
    enum { ELEMENTS = 1 << 22 };
    return grad.shape[1] < ELEMENTS ? ELEMENTS / grad.shape[1] : 1;
}

static void exchange_rows(struct step *step, const struct step_shared *shared, struct tensor grad) {
    struct group *pipeline = step->mesh.group[AXIS_PIPELINE];
    struct comm_request request;
    if (shared->param->is_copy) {
        request = comm_send_start(pipeline, grad, shared->holders[0], "shared gradients");
        comm_wait(&request);
        request = comm_receive_start(pipeline, grad, shared->holders[0], "shared gradients");
        comm_wait(&request);
        return;
    }
    struct tensor other = arena_2d(&step->scratch, DTYPE_F32, grad.shape[0], grad.shape[1]);
    for (int i = 1; i < shared->count; i++) {
        request = comm_receive_start(pipeline, other, shared->holders[i], "shared gradients");
        comm_wait(&request);
        op_dropout_add(step->device, &(struct op_dropout_add){.out = grad, .x = other, .residual = grad});
    }
    for (int i = 1; i < shared->count; i++) {
        request = comm_send_start(pipeline, grad, shared->holders[i], "shared gradients");
        comm_wait(&request);
    }
}

// Parameters that several stages hold, and their gradients, are two-dimensional.
static void exchange(struct step *step, const struct step_shared *shared) {
    struct tensor grad = shared->param->grad;
    int64_t most = rows_at_once(grad);
    for (int64_t row = 0; row < grad.shape[0]; row += most) {
        int64_t rows = grad.shape[0] - row < most ? grad.shape[0] - row : most;
        size_t mark = arena_mark(&step->scratch);
        exchange_rows(step, shared, tensor_rows(grad, row, rows));
        arena_release(&step->scratch, mark);
    }
}

void shared_sum_gradients(struct step *step) {
    for (int i = 0; i < step->shared_count; i++) {
        if (step->shared[i].param)
            exchange(step, &step->shared[i]);
    }
}
