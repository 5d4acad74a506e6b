// Parameters that several stages of a pipeline hold: a tied embedding on the first and the last stage, the tables of
// relative positions on every stage of their stack. Which they are is found by declaring the parameters of every stage.
// Each stage has its own gradient of such a parameter; the true gradient is their sum. The first stage that holds the
// parameter adds them up and sends the sum back, so that all copies stay the same bit for bit.
#include "base/memory.h"
#include "ops/device.h"
#include "step/pipeline.h"

#include <stdlib.h>

// The parameters of all pieces of a stage.
static void declare_stage(const struct step *step, int stage, struct param_list *params) {
    int stages = step->mesh.length[AXIS_PIPELINE];
    for (int chunk = 0; chunk < step->chunk_count; chunk++) {
        struct model model;
        model_build(&model, params,
                    &(struct model_options){.config = step->config,
                                            .mesh = &step->mesh,
                                            .piece = config_piece(step->config, (int64_t)chunk * stages + stage)});
        model_free(&model);
    }
}

// Notes parameter `name`, which stage `first` holds, if that is the first of several stages.
static void add_if_shared(struct step *step, const struct param_list *lists, int first, const char *name) {
    int stages = step->mesh.length[AXIS_PIPELINE], mine = step->mesh.place[AXIS_PIPELINE], count = 0;
    int *holders = memory_alloc(sizeof *holders * (size_t)stages);
    for (int stage = 0; stage < stages; stage++)
        if (param_find(&lists[stage], name))
            holders[count++] = stage;
    struct param *own = param_find(&step->params, name);
    if (count < 2 || holders[0] != first) {
        free(holders);
        return;
    }
    if (own) {
        own->is_shared = true;
        own->is_copy = first != mine;
    }
    step->shared = memory_realloc(step->shared, sizeof *step->shared * (size_t)(step->shared_count + 1));
    step->shared[step->shared_count++] =
        (struct step_shared){.name = memory_string(name), .param = own, .holders = holders, .count = count};
}

void shared_open(struct step *step) {
    int stages = step->mesh.length[AXIS_PIPELINE];
    if (stages == 1)
        return;
    struct param_list *lists = memory_alloc(sizeof *lists * (size_t)stages);
    for (int stage = 0; stage < stages; stage++)
        declare_stage(step, stage, &lists[stage]);
    // All stages go through the same list in the same order, so that their exchanges match.
    for (int stage = 0; stage < stages; stage++)
        for (int i = 0; i < lists[stage].count; i++)
            add_if_shared(step, lists, stage, lists[stage].items[i]->name);
    for (int stage = 0; stage < stages; stage++)
        param_list_free(&lists[stage]);
    free(lists);
}

void shared_close(struct step *step) {
    for (int i = 0; i < step->shared_count; i++) {
        free(step->shared[i].name);
        free(step->shared[i].holders);
    }
    free(step->shared);
}

// Parameters that several stages hold, and their gradients, are two-dimensional.
static void exchange(struct step *step, const struct step_shared *shared) {
    struct group *pipeline = step->mesh.group[AXIS_PIPELINE];
    struct tensor grad = shared->param->grad;
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

void shared_sum_gradients(struct step *step) {
    for (int i = 0; i < step->shared_count; i++) {
        if (!step->shared[i].param)
            continue;
        size_t mark = arena_mark(&step->scratch);
        exchange(step, &step->shared[i]);
        arena_release(&step->scratch, mark);
    }
}

void shared_measure(struct step *step) {
    for (int i = 0; i < step->shared_count; i++) {
        if (!step->shared[i].param || step->mode != STEP_TRAIN)
            continue;
        struct tensor grad = step->shared[i].param->grad;
        size_t mark = arena_mark(&step->scratch);
        (void)arena_2d(&step->scratch, DTYPE_F32, grad.shape[0], grad.shape[1]);
        arena_release(&step->scratch, mark);
    }
}
