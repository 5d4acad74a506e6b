// Runs a step on paper and reports its time. See plan.h.
#include "plan/plan.h"
#include "base/error.h"
#include "base/memory.h"
#include "plan/setup.h"
#include "plan/steady.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct making {
    struct plan *plan;
    const struct plan_options *options;
    struct hardware hardware;
    struct comm_fabric fabric;
    bool are_different;         // stages between the first and the last differ in their layers
    struct stage_costs *costs;  // one per measured stage
    double message_bytes;
    struct world *world;  // of any stage, for the times of messages
    struct mesh mesh;     // of rank 0
};

// Compute capability × 10 of the GPUs that multiply many matrices at once (src/ops/cuda/hopper).
enum { HOPPER = 90 };

// Kernels that send rows to experts of other ranks take processors from concurrent computation: 32 in Megatron-Bridge's
// recipes (moe_hybridep_num_sms, v0.5.0).
static void burden_exchanges(struct mesh *mesh, double processors) {
    const double senders = 32;
    for (int i = 0; i < mesh->set_count; i++)
        if (mesh->sets[i].axes == MESH_EXPERTS && mesh->sets[i].group)
            group_set_burden(mesh->sets[i].group, fmin(1, senders / processors));
}

// Adds the time of extra passes over a rank's gradients, in programs that make them.
static void add_gradient_kernels(const struct device_rates *rates, struct plan_stage *stage,
                                 struct stage_costs *costs) {
    double seconds = (double)stage->parameters * rates->gradient_bytes / rates->bytes_per_second;
    stage->compute += seconds;
    stage->update += seconds;
    costs->seconds[WORK_UPDATE][0] += seconds;
}

static int measure_stage(struct making *making, int index) {
    struct plan_stage *stage = &making->plan->stage[index];
    struct device *device, *host = NULL;
    struct world *world = NULL;
    struct mesh place = making->mesh, mesh;
    place.place[AXIS_PIPELINE] = stage->stage;
    place.rank = mesh_rank_at(&place, place.place);
    // The cost of 16-bit computation on a CPU is that of this machine's CPU.
    if (making->options->machine->gpus == 0)
        TRY(device_open(&host, &(struct device_options){.threads = 1}));
    int status = device_open_twin(&device, host);
    if (status < 0) {
        device_close(host);
        return -1;
    }
    status = mesh_open_twin(&mesh, &world, &place, device);
    if (status == 0) {
        struct device_rates rates = making->hardware.rates;
        rates.memory_bytes = making->options->machine->gpus > 0 ? plan_room(making->options->machine) : 0;
        rates.gains_by_many = making->options->machine->capability == HOPPER;
        device_set_rates(device, &rates);
        world_set_fabric(world, &making->fabric);
        // The first tiles cannot be sent before they are computed.
        if (making->options->hides_tensor)
            group_set_hidden(mesh.group[AXIS_TENSOR], 1 - 1.0 / mesh.length[AXIS_TENSOR]);
        if (making->options->config->machine.overlap_moe_expert_parallel_comm && making->options->machine->gpus > 0)
            burden_exchanges(&mesh, rates.processors);
        const struct setup setup = {making->options->config, device, &mesh, STEP_TRAIN};
        // All stages between the first and the last are like the second. Pairs have forwards of other chunks.
        bool is_like_second = !making->are_different && index > 1 && stage->stage < making->plan->stages - 1 &&
                              !making->options->config->machine.overlap_moe_expert_parallel_comm;
        const struct measured_stage second = {&making->plan->stage[1], &making->costs[1]};
        status = stage_run(&setup, making->options, stage, &making->costs[index], is_like_second ? &second : NULL);
    }
    if (making->world)
        world_close(world);
    else
        making->world = world;
    device_close(device);
    device_close(host);
    return status;
}

// Layers of a chunk: all; those without a window in a model with windows; those with experts; those in bf16 among
// others in fp8.
struct layer_kinds {
    int64_t all, whole, sparse, wide;
};

static struct layer_kinds count_kinds(const struct config *config, int64_t chunk) {
    const struct config_chunk layers = config_chunk(config, chunk);
    struct layer_kinds kinds = {.all = layers.encoder_count + layers.decoder_count};
    OWNED bool *has_experts = config_list_expert_layers(&config->model);
    for (int64_t i = 0; i < layers.decoder_count; i++) {
        kinds.whole += config_layer_window(&config->model, layers.decoder_first + i) != config->model.sliding_window;
        kinds.sparse += config->model.num_experts > 0 && has_experts[layers.decoder_first + i];
        kinds.wide += config_layer_is_bf16(config, layers.decoder_first + i, config_decoder_layers(&config->model));
    }
    return kinds;
}

// Whether a stage between the first and the last has other layers than the second.
static bool has_different_stages(const struct config *config) {
    int64_t stages = config->machine.pipeline_model_parallel_size;
    bool is_different = config->model.form == CONFIG_T5;
    for (int64_t first = 0; first < stages * config_chunks(config) && !is_different; first += stages) {
        struct layer_kinds second = count_kinds(config, first + 1);
        for (int64_t stage = 2; stage < stages - 1; stage++) {
            struct layer_kinds own = count_kinds(config, first + stage);
            is_different = is_different || memcmp(&own, &second, sizeof own) != 0;
        }
    }
    return is_different;
}

// Stages between the first and the last hold equally many layers and differ only in the number of micro-batches in
// flight, most in the second. With an encoder and a decoder all stages differ; with layers of several kinds they may.
static void choose_stages(struct plan *plan, bool are_different) {
    enum { FEW = 4 };
    bool takes_all = plan->stages <= FEW || (are_different && plan->stages <= PLAN_MOST_STAGES);
    plan->measured = takes_all ? plan->stages : 3;
    for (int i = 0; i < plan->measured; i++)
        plan->stage[i].stage = takes_all || i < 2 ? i : plan->stages - 1;
}

// The measured stage that stands for a stage: the second, if it was not measured.
static int measured_as(const struct plan *plan, int stage) {
    for (int i = 0; i < plan->measured; i++)
        if (plan->stage[i].stage == stage)
            return i;
    return 1;
}

// A pair is measured as one item, its backward.
static double cost_of_item(const void *context, int stage, struct schedule_item item) {
    const struct making *making = context;
    const struct stage_costs *costs = &making->costs[measured_as(making->plan, stage)];
    int chunk = work_is_pass(item.work) ? item.chunk : 0;
    if (item.is_paired)
        return item.work == WORK_BACKWARD && costs->pairs[chunk] > 0 ? costs->pair_seconds[chunk] / costs->pairs[chunk]
                                                                     : 0;
    double count = costs->count[item.work][chunk], seconds = costs->seconds[item.work][chunk];
    // The list has one update, for all buckets.
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
static int run_lists(struct making *making, const struct schedule_shape *shape) {
    struct plan *plan = making->plan;
    int (*simulate)(const struct schedule_shape *, const struct schedule_cost *, struct schedule_run *,
                    const struct schedule_watcher *) =
        making->options->runs_all ? steady_simulate_all : steady_simulate;
    struct schedule_run run;
    struct schedule_cost cost = {.of_item = cost_of_item, .of_message = cost_of_message, .context = making};
    TRY(simulate(shape, &cost, &run, making->options->watcher));
    plan->seconds = run.seconds;
    plan->bubble = run.idle;
    // A second run whose messages take no time.
    cost.of_message = NULL;
    TRY(simulate(shape, &cost, &run, NULL));
    plan->messages = plan->seconds - run.seconds;
    return 0;
}

// Elements left to another optimizer, which may have more states per element: tables; vectors are negligible.
static double elements_left(const struct config *config) {
    double tables = config->model.untie_embeddings_and_output_weights ? 2 : 1;
    double positions =
        config->model.position_embedding_type == POSITIONS_LEARNED ? (double)config->model.max_position_embeddings : 0;
    return (tables * (double)config->model.padded_vocab_size + positions) * (double)config->model.hidden_size;
}

// Bytes of weights, of fp32 masters of weights in 16 bits, and of optimizer states.
static double checkpoint_bytes(const struct config *config, double elements) {
    const struct optimizer_rule *rule = optimizer_find(config->run.optimizer);
    double weight = config->run.bf16 || config->run.fp16 ? 2 : 4;
    double optimizer = elements * (optimizer_saved_bytes(rule, config) + (weight < 4 ? 4 : 0));
    if (rule->leaves_rest)
        optimizer +=
            elements_left(config) * (optimizer_saved_bytes(optimizer_find(config->run.muon_scalar_optimizer), config) -
                                     optimizer_saved_bytes(rule, config));
    return elements * weight + (config->run.no_save_optim ? 0 : optimizer);
}

// Counts tensors: weights, and for each weight the optimizer's master and states.
static void describe_checkpoint(struct plan *plan, const struct config *config) {
    double elements = (double)plan->parameters, weight = config->run.bf16 || config->run.fp16 ? 2 : 4, tensors = 0;
    for (int i = 0; i < plan->stages; i++)
        tensors += plan->stage[measured_as(plan, i)].tensors;
    double states = config->run.no_save_optim ? 0 : round((plan->checkpoint_bytes / elements - weight) / sizeof(float));
    plan->control.weights = tensors;
    plan->control.states = states;
    plan->control.splits_optimizer = config->machine.use_distributed_optimizer;
    plan->control.checkpoint_bytes = plan->checkpoint_bytes;
    plan->control.writers = config->run.ckpt_writers;
    plan->control.removes_old = config->run.keep_last > 0;
}

static int make(struct making *making) {
    struct plan *plan = making->plan;
    const struct config *config = making->options->config;
    const struct setup setup = {config, NULL, &making->mesh, STEP_TRAIN};
    struct step_options options = setup_options(&setup);
    bool is_too_large = false;
    for (int i = 0; i < plan->measured && !is_too_large; i++) {
        TRY(measure_stage(making, i));
        if (plan->stage[i].memory.total > plan->stage[plan->fullest].memory.total)
            plan->fullest = i;
        double room = making->options->room;
        is_too_large = room > 0 && (double)plan->stage[plan->fullest].memory.total > room;
    }
    if (is_too_large)
        return 0;
    for (int i = 0; i < plan->measured; i++)
        add_gradient_kernels(&making->hardware.rates, &plan->stage[i], &making->costs[i]);
    double rows =
        (double)config->run.micro_batch_size * (double)config->run.seq_length / making->mesh.length[AXIS_CONTEXT];
    if (options.splits_rows)
        rows /= making->mesh.length[AXIS_TENSOR];
    making->message_bytes = rows * (double)config->model.hidden_size * (double)dtype_bytes(options.dtype);
    for (int i = 0; i < plan->stages; i++)
        plan->executed += plan->stage[measured_as(plan, i)].flops * (plan->ranks / plan->stages);
    describe_checkpoint(plan, config);
    return run_lists(making, &options.schedule);
}

const char *plan_missing_matmuls(const struct config *config, const struct machine *machine) {
    enum { BLACKWELL = 100 };
    bool is_mx = config->run.fp8_format && strcmp(config->run.fp8_recipe, "mxfp8") == 0;
    bool is_blockwise = config->run.fp8_format && strcmp(config->run.fp8_recipe, "blockwise") == 0;
    if ((config->run.fp4_format || is_mx) && machine->capability < BLACKWELL)
        return config->run.fp4_format ? "fp4" : "mxfp8";
    return is_blockwise && machine->capability != HOPPER ? "blockwise fp8" : NULL;
}

int plan_check_precision(const struct config *config, const struct machine *machine, const struct hardware *hardware) {
    if (config->run.fp4_format && (hardware->peak[2] == 0 || hardware->rates.matmul[3] == 0))
        return error_set_code(
            EXIT_CODE_USAGE,
            "a %s has no NVFP4; leave out --fp4-format, or give a --machine with B200, B300, GB200 or "
            "GB300 GPUs",
            machine->name);
    const char *missing = plan_missing_matmuls(config, machine);
    if (config->run.fp8_format && hardware->peak[1] == 0)
        return error_set_code(EXIT_CODE_USAGE, "a %s has no fp8; leave out --fp8-format, or give another --machine",
                              machine->name);
    if (missing && !config->run.fp4_format)
        return error_set_code(
            EXIT_CODE_USAGE,
            "a %s has no %s matmuls; give --fp8-format hybrid --fp8-recipe delayed, or another --machine",
            machine->name, missing);
    TRY(config_check_whole_blocks(config));
    if (config->run.fp8_format && config->model.num_experts > 0 && !config->machine.has_wide_experts &&
        !machine_trains_experts8(machine))
        return error_set_code(EXIT_CODE_USAGE,
                              "GPUs of a %s do not train experts in fp8 with this program; leave out --fp8-format, or "
                              "give a --machine with H100 or H200 GPUs",
                              machine->name);
    if (config->run.bf16 && machine_has_old_gpus(machine))
        return error_set_code(EXIT_CODE_USAGE,
                              "a %s has no bf16: its %s GPUs are too old; give --fp16 instead of "
                              "--bf16, or another --machine",
                              machine->name, machine->gpu);
    return 0;
}

int plan_make(struct plan *plan, const struct plan_options *options) {
    struct config *config = options->config;
    struct making making = {.plan = plan, .options = options};
    if (options->hardware)
        making.hardware = *options->hardware;
    else
        TRY(hardware_of(&making.hardware, options->machine));
    TRY(plan_check_precision(config, options->machine, &making.hardware));
    if (config_chunks(config) > STAGE_MOST_CHUNKS)
        return error_set_code(EXIT_CODE_USAGE, "a plan can have %d virtual stages for each rank, not %lld",
                              (int)STAGE_MOST_CHUNKS, (long long)config_chunks(config));
    TRY(mesh_place_config(&making.mesh, 0, options->ranks, config));
    const char *attention = config->machine.attention_backend;
    making.hardware.rates.writes_scores = attention && (!strcmp(attention, "unfused") || !strcmp(attention, "local"));
    making.fabric = hardware_fabric(&making.hardware, options->machine, options->ranks);
    int data = mesh_count(&making.mesh, MESH_SAMPLES), each = hardware_ranks(options->machine);
    const struct census census = options->census ? *options->census : census_take(config);
    *plan = (struct plan){.ranks = options->ranks,
                          .nodes = options->nodes > 0 ? options->nodes : (options->ranks + each - 1) / each,
                          .data_parallel = data,
                          .expert_parallel = mesh_count(&making.mesh, MESH_EXPERTS),
                          .parameters = census.parameters,
                          .active = census.active,
                          .global_batch_size = config->run.global_batch_size,
                          .micro_batches = config->run.global_batch_size / (config->run.micro_batch_size * data),
                          .tokens = (double)config->run.global_batch_size * (double)config->run.seq_length,
                          .stages = making.mesh.length[AXIS_PIPELINE],
                          .checkpoint_bytes = checkpoint_bytes(config, (double)census.parameters),
                          .peak = making.hardware.peak[config->run.fp4_format   ? 2
                                                       : config->run.fp8_format ? 1
                                                                                : 0]};
    plan->flops = census_flops(&census, config, config->run.global_batch_size);
    plan->control = control_shape_of(&making.mesh);
    making.are_different = plan->stages > 1 && has_different_stages(config);
    choose_stages(plan, making.are_different);
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
    // Taken by the driver, CUDA's context and its libraries on a GPU, or by a machine's system.
    const double own_gib = machine->gpus > 0 ? 1 : 2;
    return ((double)(machine->gpus > 0 ? machine->gpu_gib : machine->memory_gib) - own_gib) * 0x1p30;
}

bool plan_fits(const struct plan *plan, const struct machine *machine) {
    return (double)plan->stage[plan->fullest].memory.total <= plan_room(machine);
}

const struct plan_stage *plan_stage_of(const struct plan *plan, int stage) {
    return &plan->stage[measured_as(plan, stage)];
}

static double seconds_of_passes(const struct plan_stage *stage) {
    return stage->compute + stage->tensor + stage->context + stage->expert;
}

const struct plan_stage *plan_slowest(const struct plan *plan) {
    const struct plan_stage *slowest = &plan->stage[0];
    for (int i = 1; i < plan->measured; i++) {
        const struct plan_stage *stage = &plan->stage[i];
        if (seconds_of_passes(stage) > seconds_of_passes(slowest))
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
