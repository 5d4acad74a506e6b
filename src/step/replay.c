// Ranges of a list that are recorded once and then replayed. Small models are limited by how fast the host can launch
// kernels; a recorded range is a single launch. See internal.h, and docs/internals/ops.md for what a recording is.
//
// A range has the forward and backward pass of one micro-batch; the first also the beginning of the step and, on a rank
// without peers, the last also clipping and the update. It does the same work on the same addresses whenever the shapes
// of its micro-batch are the same: one rank has one block of inputs and one flight, arenas return the same memory in
// the same order, dropout is drawn from row numbers that are inputs, and values that a step changes (rates, loss scale,
// fp8 ranges) are on the device. Loading inputs ends a range, so a step of one micro-batch is one launch. Communication
// within a pass is part of the recording if the device itself waits for it.
//
// Everything else is run item by item: ranks that communicate through the host, sums and gathers that are started in
// one pass and waited for in another, schedules with several micro-batches in flight, the first passes of a shape (they
// choose algorithms, load kernels and connect ranks), and profiles. A range's writes to host memory are not replayed;
// nothing reads them later.
#include "step/internal.h"
#include "ops/device.h"
#include "step/pipeline.h"
#include "step/spans.h"

#include <string.h>

enum { RUNS_BEFORE = 2 };

// Lists the groups that communicate within a pass; returns their number.
enum { MOST_TALKING = AXIS_COUNT + 3 };
static int talking_groups(const struct mesh *mesh, struct group *groups[MOST_TALKING]) {
    struct group *const parts[] = {mesh->kv_group, mesh->near_group, mesh->far_group};
    int count = 0;
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        if (MESH_TALKING & AXES(axis))
            groups[count++] = mesh->group[axis];
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (parts[i])
            groups[count++] = parts[i];
    return count;
}

static bool can_record_talk(const struct step *step) {
    // The host must know how many rows go to experts of other ranks.
    bool can = step->mesh.length[AXIS_PIPELINE] == 1 && !mesh_deals_experts(&step->mesh);
    struct group *groups[MOST_TALKING];
    for (int i = 0, count = talking_groups(&step->mesh, groups); i < count; i++)
        can = can && comm_records(groups[i]);
    return can;
}

// Whether ranks that hold the same parameters communicate within the passes of this micro-batch.
static bool has_reduction(const struct step *step, const struct schedule *schedule, int micro_batch) {
    const struct reducer *reducer = &step->reducer;
    bool is_first = micro_batch == 0, is_last = micro_batch == schedule->shape.micro_batches - 1;
    return reducer_has_peers(reducer) &&
           ((is_first && reducer->overlaps_gather) || (is_last && reducer->overlaps_reduction));
}

// ICT's data-parallel ranks communicate within a pass, beside those along MESH_TALKING.
static bool compares_replicas(const struct step *step) {
    return step->chunks[0].model.form == CONFIG_ICT && mesh_count(&step->mesh, MESH_SAMPLES) > 1;
}

static bool can_record(const struct step *step, const struct schedule *schedule) {
    return device_records(step->device) && step->options.records && !schedule->shape.is_evaluation &&
           can_record_talk(step) && !compares_replicas(step) && step->chunk_count == 1 &&
           step->chunks[0].flight_count == 1 && step->pipeline.batch_count == 1;
}

// Whether an item of a list that can be recorded only queues work on the device.
static bool is_recordable(const struct step *step, const struct schedule *schedule, struct schedule_item item) {
    switch (item.work) {
    case WORK_BEGIN:
    case WORK_FORWARD:
    case WORK_BACKWARD:
        // Inputs of layers in host memory are copied on other streams.
        return !step->input_offload.device && !has_reduction(step, schedule, item.micro_batch);
    case WORK_REDUCE:
    case WORK_TOTALS:
        return step_is_alone(step);
    case WORK_CLIP:
    case WORK_UPDATE:
        // States in host memory are copied on other streams.
        return step_is_alone(step) && !step->updates.offload;
    default:
        return false;
    }
}

int replay_range_end(const struct step *step, const struct schedule *schedule, int first) {
    const struct schedule_list *list = pipeline_list(step, schedule);
    enum work work = list->items[first].work;
    int end = first;
    if ((work != WORK_BEGIN && work != WORK_FORWARD) || !can_record(step, schedule))
        return first;
    while (end < list->count && is_recordable(step, schedule, list->items[end]))
        end++;
    return end;
}

static struct step_shape shape_of(const struct step *step, const struct step_batch *batch) {
    return (struct step_shape){.form = batch->batch.form, .is_known = step->chunks[0].model.fp8.is_known};
}

static bool is_same(const struct step_shape *a, const struct step_shape *b) {
    return batch_form_is_same(&a->form, &b->form) && a->is_known == b->is_known;
}

static void record(struct step *step, struct step_replay *replay, const struct replay_range *range) {
    device_record_begin(step->device);
    step->is_recording = true;
    range->run(range->context);
    step->is_recording = false;
    replay->recording = device_record_end(step->device);
    replay->is_refused = !replay->recording;
}

void replay_run(struct step *step, const struct replay_range *range) {
    struct step_replay *replay = &step->replays[range->is_first][range->is_last];
    if (replay->is_refused) {
        range->run(range->context);
        return;
    }
    struct step_shape shape = shape_of(step, range->batch);
    if (!is_same(&shape, &replay->shape)) {
        device_recording_free(step->device, replay->recording);
        *replay = (struct step_replay){.shape = shape};
    }
    if (!replay->recording && replay->runs++ >= RUNS_BEFORE)
        record(step, replay, range);
    if (!replay->recording) {
        range->run(range->context);
        return;
    }
    struct step_span span = span_begin(step, "recorded pass");
    device_replay(step->device, replay->recording);
    span_end_part(step, span, STEP_TAG_RECORDED);
    struct group *groups[MOST_TALKING];
    for (int i = 0, count = talking_groups(&step->mesh, groups); i < count; i++)
        comm_replayed(groups[i], "recorded pass");
}

void replay_close(struct step *step) {
    for (int i = 0; i < 4; i++)
        device_recording_free(step->device, step->replays[i / 2][i % 2].recording);
}
