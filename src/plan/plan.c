// Runs a step on paper and tells the time. See plan.h.
#include "plan/plan.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/trace.h"
#include "model/census.h"
#include "step/spans.h"
#include "train/setup.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CHUNKS = 32 };

// How long the items of a kind of stage take, on average over its micro-batches.
struct stage_costs {
    double seconds[WORK_COUNT][MOST_CHUNKS];
    double count[WORK_COUNT][MOST_CHUNKS];
};

struct making {
    struct plan *plan;
    const struct plan_options *options;
    struct hardware hardware;
    struct comm_fabric fabric;
    struct stage_costs *costs;  // one per measured stage
    double message_bytes;
    struct world *world;  // any of the stages', for the times of messages
    struct mesh mesh;     // of rank 0
};

static bool is_pass(enum work work) {
    return work >= WORK_FORWARD && work <= WORK_BACKWARD_WEIGHT;
}

// Adds up what the trace says of the items.
static void take_items(struct device *device, struct stage_costs *costs, struct plan_stage *stage) {
    struct trace_event event;
    double start, end;
    while (trace_take(&event, INT64_MAX)) {
        if (event.track != TRACK_DEVICE || event.is_inner || event.tag < 1 || event.tag > WORK_COUNT ||
            !device_read_stamp(device, event.stamps[0], &start) || !device_read_stamp(device, event.stamps[1], &end))
            continue;
        enum work work = (enum work)(event.tag - 1);
        int chunk = is_pass(work) && event.chunk > 0 ? event.chunk : 0;
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
    stage->context += sign * group_exposed_seconds(mesh->group[AXIS_CONTEXT]);
    stage->data += sign * group_exposed_seconds(mesh->group[AXIS_DATA]);
    stage->other += sign * group_exposed_seconds(mesh->group[AXIS_PIPELINE]);
    for (int i = 0; i < mesh->set_count; i++) {
        const struct mesh_set *set = &mesh->sets[i];
        if (set->group && !is_axis(mesh, set->group))
            *(set->axes & AXES(AXIS_DATA) ? &stage->data : &stage->other) += sign * group_exposed_seconds(set->group);
    }
}

// Micro-batches of zeros. Before each one, what the trace says so far is taken, so that it need not hold a whole step.
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

// A step in the midst of others: the one before it has sent parameters that are still on their way.
static int run_steps(struct step *step, struct blank_batches *blanks, int64_t micro_batches) {
    struct step_source source = {next_batch, blanks, micro_batches};
    struct stage_costs *costs = blanks->costs, before = {0};
    struct plan_stage *stage = blanks->stage, unused = {0};
    blanks->costs = &before;
    blanks->stage = &unused;
    TRY(step_train(step, &source, 0, 0));
    take_items(blanks->device, &before, &unused);
    blanks->costs = costs;
    blanks->stage = stage;
    struct device_totals first = device_totals(blanks->device);
    add_waits(step_mesh(step), -1, stage);
    TRY(step_train(step, &source, 0, 0));
    take_items(blanks->device, costs, stage);
    add_waits(step_mesh(step), 1, stage);
    struct device_totals totals = device_totals(blanks->device);
    stage->compute = totals.seconds - first.seconds;
    stage->flops = totals.matmul_flops - first.matmul_flops + totals.attention_flops - first.attention_flops;
    return 0;
}

// A rank of this stage.
static int run_stage(const struct making *making, const struct setup *setup, struct plan_stage *stage,
                     struct stage_costs *costs) {
    // Of one micro-batch's passes and of the update: several for every layer and bucket.
    enum { SPANS = 1 << 19 };
    struct step *step = NULL;
    TRY(setup_step(&step, setup));
    struct batch_form form = setup_options(setup).largest;
    struct blank_batches blanks = {.device = setup->device, .costs = costs, .stage = stage};
    stage->memory = *step_memory(step);
    stage->parameters = held_parameters(step_params(step));
    if (making->options->stops_if_too_large && (double)stage->memory.total > plan_room(making->options->machine)) {
        step_close(step);
        return 0;
    }
    batch_allocate(&blanks.batch, &form, form.B);
    device_clock_start(setup->device, 2 * SPANS);  // a span has two stamps
    trace_open(SPANS);
    int status = run_steps(step, &blanks, making->plan->micro_batches);
    if (trace_take_lost() > 0 && status == 0)
        status = error_set("a step of this many layers and buckets is too long to be planned");
    trace_close();
    device_clock_stop(setup->device);
    batch_free(&blanks.batch);
    step_close(step);
    return status;
}

static int measure_stage(struct making *making, int index) {
    struct plan_stage *stage = &making->plan->stage[index];
    struct device *device;
    struct world *world = NULL;
    struct mesh place = making->mesh, mesh;
    place.place[AXIS_PIPELINE] = stage->stage;
    place.rank = mesh_rank_at(&place, place.place);
    TRY(device_open_twin(&device, NULL));
    int status = mesh_open_twin(&mesh, &world, &place, device);
    if (status == 0) {
        struct device_rates rates = making->hardware.rates;
        rates.memory_bytes = making->options->machine->gpus > 0 ? plan_room(making->options->machine) : 0;
        device_set_rates(device, &rates);
        world_set_fabric(world, &making->fabric);
        // The first tiles cannot be sent before they are computed.
        if (making->options->hides_tensor)
            group_set_hidden(mesh.group[AXIS_TENSOR], 1 - 1.0 / mesh.length[AXIS_TENSOR]);
        const struct setup setup = {making->options->config, device, &mesh, STEP_TRAIN};
        status = run_stage(making, &setup, stage, &making->costs[index]);
    }
    if (making->world)
        world_close(world);
    else
        making->world = world;
    device_close(device);
    return status;
}

// Stages between the first and the last hold equally many layers and differ only in how many micro-batches are in
// flight, most in the second. The stages of an encoder and a decoder all differ.
static void choose_stages(struct plan *plan, bool are_different) {
    enum { FEW = 4 };
    bool takes_all = plan->stages <= FEW || (are_different && plan->stages <= PLAN_MOST_STAGES);
    plan->measured = takes_all ? plan->stages : 3;
    for (int i = 0; i < plan->measured; i++)
        plan->stage[i].stage = takes_all || i < 2 ? i : plan->stages - 1;
}

// Stages that were not measured are like the second.
static int measured_as(const struct plan *plan, int stage) {
    for (int i = 0; i < plan->measured; i++)
        if (plan->stage[i].stage == stage)
            return i;
    return 1;
}

static double cost_of_item(const void *context, int stage, struct schedule_item item) {
    const struct making *making = context;
    const struct stage_costs *costs = &making->costs[measured_as(making->plan, stage)];
    int chunk = is_pass(item.work) ? item.chunk : 0;
    double count = costs->count[item.work][chunk], seconds = costs->seconds[item.work][chunk];
    // The list has one update, which stands for those of all buckets.
    if (item.work == WORK_UPDATE)
        return seconds + costs->seconds[WORK_GATHER][chunk];
    return count > 0 ? seconds / count : 0;
}

static double cost_of_message(const void *context, int from, int to) {
    const struct making *making = context;
    int here[AXIS_COUNT], there[AXIS_COUNT];
    memcpy(here, making->mesh.place, sizeof here);
    memcpy(there, making->mesh.place, sizeof there);
    here[AXIS_PIPELINE] = from;
    there[AXIS_PIPELINE] = to;
    return world_message_seconds(making->world, mesh_rank_at(&making->mesh, here), mesh_rank_at(&making->mesh, there),
                                 making->message_bytes);
}

// Runs the lists of all stages together.
static int run_lists(struct making *making, const struct step_options *options) {
    struct plan *plan = making->plan;
    struct schedule schedule;
    struct schedule_shape shape = options->schedule;
    shape.micro_batches = (int)plan->micro_batches;
    struct schedule_run run;
    TRY(schedule_build(&schedule, &shape));
    struct schedule_cost cost = {.of_item = cost_of_item, .of_message = cost_of_message, .context = making};
    int status = schedule_simulate(&schedule, &cost, &run, making->options->watcher);
    plan->seconds = run.seconds;
    plan->bubble = run.idle;
    // The same with messages that take no time.
    cost.of_message = NULL;
    if (status == 0)
        status = schedule_simulate(&schedule, &cost, &run, NULL);
    plan->messages = plan->seconds - run.seconds;
    schedule_free(&schedule);
    return status;
}

static void add_executed(struct plan *plan) {
    for (int i = 0; i < plan->stages; i++)
        plan->executed += plan->stage[measured_as(plan, i)].flops * (plan->ranks / plan->stages);
}

// Of an optimizer that leaves them to AdamW, which has one more state for each element: tables; vectors are few.
static double elements_left(const struct config *config) {
    double tables = config->untie_embeddings_and_output_weights ? 2 : 1;
    double positions =
        strcmp(config->position_embedding_type, "learned_absolute") == 0 ? (double)config->max_position_embeddings : 0;
    return (tables * (double)config->padded_vocab_size + positions) * (double)config->hidden_size;
}

// Weights; for the optimizer, masters in fp32 of those in 16 bits and its states.
static double checkpoint_bytes(const struct config *config) {
    const struct optimizer_rule *rule = optimizer_find(config->optimizer);
    double elements = (double)census_parameters(config), weight = config->bf16 || config->fp16 ? 2 : 4;
    double optimizer = elements * (4 * optimizer_state_count(rule) + (weight < 4 ? 4 : 0));
    if (rule->leaves_rest)
        optimizer += 4 * elements_left(config);
    return elements * weight + (config->no_save_optim ? 0 : optimizer);
}

static void find_fullest(struct plan *plan) {
    for (int i = 1; i < plan->measured; i++)
        if (plan->stage[i].memory.total > plan->stage[plan->fullest].memory.total)
            plan->fullest = i;
}

static int make(struct making *making) {
    struct plan *plan = making->plan;
    const struct config *config = making->options->config;
    const struct setup setup = {config, NULL, &making->mesh, STEP_TRAIN};
    struct step_options options = setup_options(&setup);
    bool is_too_large = false;
    for (int i = 0; i < plan->measured && !is_too_large; i++) {
        TRY(measure_stage(making, i));
        find_fullest(plan);
        is_too_large = making->options->stops_if_too_large && !plan_fits(plan, making->options->machine);
    }
    if (is_too_large)
        return 0;
    double rows = (double)config->micro_batch_size * (double)config->seq_length / making->mesh.length[AXIS_CONTEXT];
    if (options.splits_rows)
        rows /= making->mesh.length[AXIS_TENSOR];
    making->message_bytes = rows * (double)config->hidden_size * (double)dtype_bytes(options.dtype);
    add_executed(plan);
    return run_lists(making, &options);
}

int plan_make(struct plan *plan, const struct plan_options *options) {
    struct config *config = options->config;
    struct making making = {.plan = plan, .options = options};
    if (options->hardware)
        making.hardware = *options->hardware;
    else
        TRY(hardware_of(&making.hardware, options->machine));
    if (config->fp8_format && making.hardware.peak[1] == 0)
        return error_set_code(EXIT_CODE_USAGE, "a %s has no fp8; leave out --fp8-format, or give another --machine",
                              options->machine->name);
    if (config_chunks(config) > MOST_CHUNKS)
        return error_set_code(EXIT_CODE_USAGE, "a plan can have %d virtual stages for each rank, not %lld",
                              (int)MOST_CHUNKS, (long long)config_chunks(config));
    TRY(mesh_place_config(&making.mesh, 0, options->ranks, config));
    const char *attention = config->attention_backend;
    making.hardware.rates.writes_scores = attention && (!strcmp(attention, "unfused") || !strcmp(attention, "local"));
    making.fabric = hardware_fabric(&making.hardware, options->machine, options->ranks);
    int data = making.mesh.length[AXIS_DATA], each = hardware_ranks(options->machine);
    *plan = (struct plan){.ranks = options->ranks,
                          .nodes = options->nodes > 0 ? options->nodes : (options->ranks + each - 1) / each,
                          .data_parallel = data,
                          .parameters = census_parameters(config),
                          .global_batch_size = config->global_batch_size,
                          .micro_batches = config->global_batch_size / (config->micro_batch_size * data),
                          .tokens = (double)config->global_batch_size * (double)config->seq_length,
                          .stages = making.mesh.length[AXIS_PIPELINE],
                          .checkpoint_bytes = checkpoint_bytes(config),
                          .peak = making.hardware.peak[config->fp8_format != NULL]};
    struct census census = census_take(config);
    plan->flops = census_flops(&census, config, config->global_batch_size);
    control_plan(&making.mesh, plan->control);
    choose_stages(plan, config_form(config) == CONFIG_T5);
    making.costs = memory_alloc(sizeof *making.costs * (size_t)plan->measured);
    int status = make(&making);
    world_close(making.world);
    free(making.costs);
    if (status == 0 && !(isfinite(plan->seconds) && plan->seconds >= 0))
        return error_set_code(EXIT_CODE_USAGE, "the speeds of this hardware give no time for a step; look at the rows "
                                               "of --print-hardware");
    return status;
}

double plan_room(const struct machine *machine) {
    // What the driver, CUDA's context and its libraries take of a GPU; of a machine's memory, what its system takes.
    const double own_gib = machine->gpus > 0 ? 1 : 2;
    return ((double)(machine->gpus > 0 ? machine->gpu_gib : machine->memory_gib) - own_gib) * 0x1p30;
}

bool plan_fits(const struct plan *plan, const struct machine *machine) {
    return (double)plan->stage[plan->fullest].memory.total <= plan_room(machine);
}

const struct plan_stage *plan_stage_of(const struct plan *plan, int stage) {
    return &plan->stage[measured_as(plan, stage)];
}

const struct plan_stage *plan_slowest(const struct plan *plan) {
    const struct plan_stage *slowest = &plan->stage[0];
    for (int i = 1; i < plan->measured; i++) {
        const struct plan_stage *stage = &plan->stage[i];
        if (stage->compute + stage->tensor + stage->context > slowest->compute + slowest->tensor + slowest->context)
            slowest = stage;
    }
    return slowest;
}

double plan_hfu(const struct plan *plan) {
    return plan->executed / plan->seconds / plan->ranks / plan->peak;
}

double plan_mfu(const struct plan *plan) {
    return plan->flops / plan->seconds / plan->ranks / plan->peak;
}
