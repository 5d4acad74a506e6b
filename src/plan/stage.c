// A stage on paper. See plan.h.
#include "plan/plan.h"
#include "base/error.h"
#include "base/trace.h"
#include "plan/setup.h"
#include "plan/steady.h"
#include "step/spans.h"

bool work_is_pass(enum work work) {
    return work >= WORK_FORWARD && work <= WORK_BACKWARD_WEIGHT;
}

// Adds up the trace's times of the items.
static void take_items(struct device *device, struct stage_costs *costs, struct plan_stage *stage) {
    struct trace_event event;
    double start, end;
    while (trace_take(&event, INT64_MAX)) {
        bool is_pair = event.tag == STEP_TAG_PAIR, is_item = is_pair || (event.tag >= 1 && event.tag <= WORK_COUNT);
        if (event.track != TRACK_DEVICE || event.is_inner || !is_item ||
            !device_read_stamp(device, event.stamps[0], &start) || !device_read_stamp(device, event.stamps[1], &end))
            continue;
        if (is_pair) {
            costs->pair_seconds[event.chunk] += end - start;
            costs->pairs[event.chunk]++;
            continue;
        }
        enum work work = (enum work)(event.tag - 1);
        int chunk = work_is_pass(work) && event.chunk > 0 ? event.chunk : 0;
        costs->seconds[work][chunk] += end - start;
        costs->count[work][chunk]++;
        if (work >= WORK_REDUCE)
            stage->update += end - start;
    }
}

static int64_t held_parameters(const struct param_list *params) {
    int64_t count = 0;
    for (int i = 0; i < params->count; i++)
        count += tensor_count(params->items[i]->value);
    return count;
}

static bool is_axis(const struct mesh *mesh, const struct group *group) {
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        if (mesh->group[axis] == group)
            return true;
    return false;
}

// Adds the seconds in which the rank has waited for collectives so far, or subtracts them.
static void add_waits(const struct mesh *mesh, double sign, struct plan_stage *stage) {
    stage->tensor += sign * group_exposed_seconds(mesh->group[AXIS_TENSOR]);
    if (mesh->kv_group)
        stage->tensor += sign * group_exposed_seconds(mesh->kv_group);
    stage->context += sign * group_exposed_seconds(mesh->group[AXIS_CONTEXT]);
    if (mesh->near_group)
        stage->context += sign * (group_exposed_seconds(mesh->near_group) + group_exposed_seconds(mesh->far_group));
    stage->data += sign * group_exposed_seconds(mesh->group[AXIS_DATA]);
    stage->other += sign * group_exposed_seconds(mesh->group[AXIS_PIPELINE]);
    for (int i = 0; i < mesh->set_count; i++) {
        const struct mesh_set *set = &mesh->sets[i];
        bool is_within = set->axes == MESH_EXPERTS || set->axes == MESH_EXPERT_SLICES;
        if (set->group && !is_axis(mesh, set->group))
            *(is_within                     ? &stage->expert
              : set->axes & AXES(AXIS_DATA) ? &stage->data
                                            : &stage->other) += sign * group_exposed_seconds(set->group);
    }
}

// Micro-batches of zeros. Before each one the trace so far is consumed, so that it does not have to hold a whole step.
struct blank_batches {
    struct batch batch;
    struct device *device;
    struct stage_costs *costs;
    struct plan_stage *stage;
};

static int next_batch(void *context, struct batch *batch) {
    struct blank_batches *blanks = context;
    take_items(blanks->device, blanks->costs, blanks->stage);
    *batch = blanks->batch;
    return 0;
}

// Cost of a step of some micro-batches on a rank.
struct measured_step {
    struct stage_costs costs;
    struct plan_stage stage;  // its times and FLOPs
};

static int measure_step(struct step *step, struct blank_batches *blanks, int micro_batches,
                        struct measured_step *measured) {
    struct step_source source = {next_batch, blanks, micro_batches};
    *measured = (struct measured_step){0};
    blanks->costs = &measured->costs;
    blanks->stage = &measured->stage;
    struct device_totals first = device_totals(blanks->device);
    add_waits(step_mesh(step), -1, &measured->stage);
    TRY(step_train(step, &source, 0, 0));
    take_items(blanks->device, blanks->costs, blanks->stage);
    add_waits(step_mesh(step), 1, &measured->stage);
    struct device_totals totals = device_totals(blanks->device);
    measured->stage.compute = totals.seconds - first.seconds;
    measured->stage.flops = totals.matmul_flops - first.matmul_flops + totals.attention_flops - first.attention_flops;
    return 0;
}

// Extrapolates the stage's step from two shorter ones.
static void extend_step(const struct steady_counts *counts, int micro_batches, const struct measured_step *shorter,
                        struct measured_step *whole) {
    const struct plan_stage *from = &shorter->stage;
    struct plan_stage *to = &whole->stage;
    const double *const values[] = {&from->compute, &from->tensor, &from->context, &from->expert,
                                    &from->data,    &from->other,  &from->flops,   &from->update};
    double *const results[] = {&to->compute, &to->tensor, &to->context, &to->expert,
                               &to->data,    &to->other,  &to->flops,   &to->update};
    for (size_t i = 0; i < sizeof results / sizeof results[0]; i++)
        *results[i] = steady_extend(counts, micro_batches, *values[i], *results[i]);
    for (int chunk = 0; chunk < STAGE_MOST_CHUNKS; chunk++) {
        double *seconds = &whole->costs.pair_seconds[chunk], *pairs = &whole->costs.pairs[chunk];
        *seconds = steady_extend(counts, micro_batches, shorter->costs.pair_seconds[chunk], *seconds);
        *pairs = steady_extend(counts, micro_batches, shorter->costs.pairs[chunk], *pairs);
    }
    for (int work = 0; work < WORK_COUNT; work++)
        for (int chunk = 0; chunk < STAGE_MOST_CHUNKS; chunk++) {
            double *seconds = &whole->costs.seconds[work][chunk], *count = &whole->costs.count[work][chunk];
            *seconds = steady_extend(counts, micro_batches, shorter->costs.seconds[work][chunk], *seconds);
            *count = steady_extend(counts, micro_batches, shorter->costs.count[work][chunk], *count);
        }
}

// Runs steps preceded by another, whose parameters are still in flight.
static int run_steps(struct step *step, struct blank_batches *blanks, const struct steady_counts *counts,
                     int micro_batches, struct measured_step *measured) {
    struct measured_step shorter;
    TRY(measure_step(step, blanks, counts->before, &shorter));
    TRY(measure_step(step, blanks, counts->shorter, &shorter));
    *measured = shorter;
    if (counts->longer > counts->shorter)
        TRY(measure_step(step, blanks, counts->longer, measured));
    extend_step(counts, micro_batches, &shorter, measured);
    return 0;
}

// Takes the times of a stage with the same layers and kept results; memory, parameters and tensors stay its own.
static bool take_times(struct plan_stage *stage, struct stage_costs *costs, const struct measured_stage *like) {
    if (!like || (stage->memory.total_kept > 0) != (like->stage->memory.total_kept > 0))
        return false;
    const struct plan_stage own = *stage;
    *stage = *like->stage;
    stage->stage = own.stage;
    stage->memory = own.memory;
    stage->parameters = own.parameters;
    stage->tensors = own.tensors;
    *costs = *like->costs;
    return true;
}

int stage_run(const struct setup *setup, const struct plan_options *options, struct plan_stage *stage,
              struct stage_costs *costs, const struct measured_stage *like) {
    // Spans of one micro-batch's passes and of the update: several per layer and bucket.
    enum { SPANS = 1 << 19 };
    struct step *step = NULL;
    const struct schedule_shape shape = setup_options(setup).schedule;
    const struct steady_counts counts = options->runs_all ? steady_all(&shape) : steady_counts(&shape);
    struct config shorter = *setup->config;
    shorter.run.global_batch_size = counts.held * (setup->config->run.global_batch_size / shape.micro_batches);
    struct setup held = *setup;
    held.config = &shorter;
    TRY(setup_step(&step, &held));
    struct batch_form form = setup_options(&held).largest;
    struct blank_batches blanks = {.device = setup->device};
    stage->memory = *step_memory(step);
    stage->memory.scratch += stage->memory.device_own;
    stage->memory.total += stage->memory.device_own;
    stage->parameters = held_parameters(step_params(step));
    stage->tensors = step_params(step)->count;
    bool is_too_large = options->room > 0 && (double)stage->memory.total > options->room;
    if (is_too_large || take_times(stage, costs, like)) {
        step_close(step);
        return 0;
    }
    batch_allocate(&blanks.batch, &form, form.B);
    device_clock_start(setup->device, 2 * SPANS);  // a span has two stamps
    trace_open(SPANS);
    struct measured_step measured = {0};
    int status = run_steps(step, &blanks, &counts, shape.micro_batches, &measured);
    if (trace_take_lost() > 0 && status == 0)
        status = error_set("a step of this many layers and buckets is too long to be planned");
    trace_close();
    device_clock_stop(setup->device);
    batch_free(&blanks.batch);
    step_close(step);
    measured.stage.stage = stage->stage;
    measured.stage.memory = stage->memory;
    measured.stage.parameters = stage->parameters;
    measured.stage.tensors = stage->tensors;
    *stage = measured.stage;
    *costs = measured.costs;
    return status;
}
