// Passes that are recorded once and then replayed. Small models are limited by how fast the host can launch kernels; a
// recorded pass is a single launch. See replay.h, and docs/internals/ops.md for what a recording is.
//
// A pass does the same work on the same addresses whenever the shapes of its micro-batch are the same: one rank has one
// block of inputs and one flight, arenas return the same memory in the same order, dropout is drawn from row numbers
// that are inputs, and what a step changes (rates, loss scale, 8-bit ranges) lies on the device. The first pass of a
// step begins by clearing its sums, and on a rank without peers the last one ends with the optimizer, so a step of one
// micro-batch is one launch. Communication within a pass is part of the recording if the device itself waits for it.
//
// Whatever does not fit runs as it would without recordings: ranks that communicate through the host, sums and gathers
// that are started in one pass and waited for in another, schedules with several micro-batches in flight, the first
// passes of a shape (they choose algorithms, load kernels and connect ranks), and profiles. What a pass leaves in host
// memory, a replay does not; nothing after it reads that.
#include "step/replay.h"
#include "ops/device.h"
#include "step/step_inputs.h"

#include <string.h>

enum { RUNS_BEFORE = 2 };

// The axes whose ranks communicate within a pass.
static const enum axis talking[] = {AXIS_TENSOR, AXIS_CONTEXT};
enum { TALKING = sizeof talking / sizeof talking[0] };

static bool can_record_talk(const struct step *step) {
    bool can = step->mesh.length[AXIS_PIPELINE] == 1;
    for (int i = 0; i < TALKING; i++)
        can = can && comm_records(step->mesh.group[talking[i]]);
    return can;
}

// Whether ranks that hold the same parameters communicate within this pass.
static bool has_reduction(const struct step *step, const struct replay_pass *pass) {
    const struct reducer *reducer = &step->reducer;
    return group_size(step->mesh.replicas) > 1 &&
           ((pass->is_first && reducer->overlaps_gather) || (pass->is_last && reducer->overlaps_reduction));
}

static bool can_replay(const struct step *step, const struct replay_pass *pass) {
    return device_records(step->device) && !step->config->no_cuda_graph && can_record_talk(step) &&
           step->chunk_count == 1 && step->chunks[0].flight_count == 1 && step->pipeline.batch_count == 1 &&
           !has_reduction(step, pass);
}

static struct step_shape shape_of(const struct step *step, const struct step_batch *batch) {
    return (struct step_shape){.B = batch->input.B,
                               .T = batch->input.T,
                               .S = batch->input.S,
                               .arrays = step_input_arrays(step, &batch->input),
                               .is_known = step->chunks[0].model.fp8.is_known};
}

static bool is_same(const struct step_shape *a, const struct step_shape *b) {
    return a->B == b->B && a->T == b->T && a->S == b->S && a->arrays == b->arrays && a->is_known == b->is_known;
}

static void record(struct step *step, struct step_replay *replay, const struct replay_pass *pass) {
    device_record_begin(step->device);
    pass->run(pass->context);
    replay->recording = device_record_end(step->device);
    replay->is_refused = !replay->recording;
}

void replay_run(struct step *step, const struct replay_pass *pass) {
    struct step_replay *replay = &step->replays[pass->is_first][pass->is_last];
    if (!can_replay(step, pass) || replay->is_refused) {
        pass->run(pass->context);
        return;
    }
    struct step_shape shape = shape_of(step, pass->batch);
    if (!is_same(&shape, &replay->shape)) {
        device_recording_free(step->device, replay->recording);
        *replay = (struct step_replay){.shape = shape};
    }
    if (!replay->recording && replay->runs++ >= RUNS_BEFORE)
        record(step, replay, pass);
    if (!replay->recording) {
        pass->run(pass->context);
        return;
    }
    device_replay(step->device, replay->recording);
    for (int i = 0; i < TALKING; i++)
        comm_replayed(step->mesh.group[talking[i]], "recorded pass");
}

void replay_close(struct step *step) {
    for (int i = 0; i < 4; i++)
        device_recording_free(step->device, step->replays[i / 2][i % 2].recording);
}
