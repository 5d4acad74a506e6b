// Finds flags that would make a too large step fit. Every proposal is a changed copy of the run's configuration,
// checked like a command line and measured on paper, for each stage of its pipeline; proposals that would be refused,
// or would not fit, are dropped.
//
// Single changes come first, the cheapest first; if none of them is enough, all that save memory together, without
// those that turn out not to be needed; then the same on more ranks. The global batch stays as it is. Not all layouts
// are tried, so there may be one on fewer ranks than those that are named.
#include "plan/setup.h"
#include "base/error.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_NAMED = 3,
    MOST_TENSOR = 8,    // ranks that share layers are fast within a machine only
    MOST_TIMES = 1024,  // as many ranks as the run has; with more, a smaller model is what is needed
};

// The possible changes.
enum saving_way { OPTIMIZER, ROWS, BF16, SELECTIVE, FULL, MICRO_BATCH, TENSOR, PIPELINE, GLOBAL_BATCH, CHANGE_COUNT };
// Its flags, in the order in which they are named.
static const struct {
    enum saving_way change;
    const char *flag, *value;  // no value: that of the change; "": a switch
} spellings[] = {{OPTIMIZER, "--use-distributed-optimizer", ""},
                 {ROWS, "--sequence-parallel", ""},
                 {BF16, "--bf16", ""},
                 {SELECTIVE, "--recompute-granularity", "selective"},
                 {FULL, "--recompute-granularity", "full"},
                 {FULL, "--recompute-method", "uniform"},
                 {FULL, "--recompute-num-layers", "1"},
                 {MICRO_BATCH, "--micro-batch-size", NULL},
                 {TENSOR, "--tensor-model-parallel-size", NULL},
                 {PIPELINE, "--pipeline-model-parallel-size", NULL},
                 {GLOBAL_BATCH, "--global-batch-size", NULL}};
enum { SPELLINGS = sizeof spellings / sizeof spellings[0] };

struct proposal {
    int64_t change[CHANGE_COUNT];  // 0: stays as it is
    int times;                     // how many times as many ranks
    size_t bytes;  // found by measure: what the rank that needs most needs, or the first one that needs too much
};

struct search {
    const struct setup *setup;
    const struct config *config;
    size_t limit;
    bool is_training;
    int named;
    struct buffer *out;
};

static int ranks_of(const struct search *search, const struct proposal *proposal) {
    return search->setup->mesh->size * (proposal->times > 0 ? proposal->times : 1);
}

static int64_t or_else(int64_t value, int64_t otherwise) {
    return value > 0 ? value : otherwise;
}

// The global batch of a proposal that does not name it: a micro-batch of each copy of the model.
static int64_t default_batch(const struct search *search, const struct proposal *proposal) {
    struct config changed = *search->config;
    changed.machine.tensor_model_parallel_size =
        or_else(proposal->change[TENSOR], changed.machine.tensor_model_parallel_size);
    changed.machine.pipeline_model_parallel_size =
        or_else(proposal->change[PIPELINE], changed.machine.pipeline_model_parallel_size);
    int64_t micro_batch = or_else(proposal->change[MICRO_BATCH], changed.run.micro_batch_size);
    return micro_batch * (ranks_of(search, proposal) / config_model_ranks(&changed));
}

// The global batch is named if it would otherwise follow from others.
static struct proposal name_batch(const struct search *search, struct proposal proposal) {
    const struct config *config = search->config;
    const int64_t *change = proposal.change;
    bool moves_batch = change[MICRO_BATCH] > 0 || change[TENSOR] > 0 || change[PIPELINE] > 0 || proposal.times > 1;
    if (search->is_training && moves_batch && !flag_is_given(&config->given, "--global-batch-size") &&
        config->run.global_batch_size != default_batch(search, &proposal))
        proposal.change[GLOBAL_BATCH] = config->run.global_batch_size;
    return proposal;
}

// The value of a flag of a proposal, "" if it is a switch, NULL if the proposal does not have it.
static const char *value_of(const struct proposal *proposal, int i, char text[24]) {
    int64_t number = proposal->change[spellings[i].change];
    snprintf(text, 24, "%" PRId64, number);
    return number == 0 ? NULL : spellings[i].value ? spellings[i].value : text;
}

static int apply(const struct search *search, const struct proposal *proposal, struct config *config) {
    static const enum config_use uses[] = {
        [STEP_TRAIN] = CONFIG_TRAIN, [STEP_EVALUATE] = CONFIG_EVALUATE, [STEP_GENERATE] = CONFIG_GENERATE};
    struct flag_table table = config_flag_table(0);
    const struct proposal named = name_batch(search, *proposal);
    for (int i = 0; i < SPELLINGS; i++) {
        char text[24];
        const char *value = value_of(&named, i, text);
        if (value)
            TRY(flag_set(&table, config, spellings[i].flag, value[0] ? value : "true", FLAG_FROM_COMMAND));
    }
    TRY(config_validate_for(config, ranks_of(search, proposal), uses[search->setup->mode]));
    return search->setup->mode == STEP_GENERATE ? config_check_writing(config) : 0;
}

// Adds up the memory of every stage, as far as they fit. The first data-parallel rank stands for all.
static int measure_stages(const struct search *search, const struct config *config, struct proposal *proposal) {
    struct mesh mesh;
    struct device *paper;
    TRY(mesh_place_config(&mesh, 0, ranks_of(search, proposal), config));
    TRY(device_open_twin(&paper, search->setup->device));
    int status = 0;
    proposal->bytes = 0;
    for (int stage = 0; stage < mesh.length[AXIS_PIPELINE] && status == 0; stage++) {
        struct step *step;
        struct step_room room;
        mesh.place[AXIS_PIPELINE] = stage;
        mesh.rank = mesh_rank_at(&mesh, mesh.place);
        struct step_options options = setup_options(&(struct setup){config, paper, &mesh, search->setup->mode});
        status = step_open(&step, &options, &room);
        size_t bytes = room.needed.total + room.needed.device_own;
        if (status == 0 && bytes > proposal->bytes)
            proposal->bytes = bytes;
        step_close(step);
        if (proposal->bytes > search->limit)
            break;
    }
    device_close(paper);
    return status;
}

static bool fits(const struct search *search, struct proposal *proposal) {
    struct config config;
    config_copy(&config, search->config);
    proposal->bytes = SIZE_MAX;
    int status = apply(search, proposal, &config);
    if (status == 0)
        status = measure_stages(search, &config, proposal);
    config_free(&config);
    error_clear();
    return status == 0 && proposal->bytes <= search->limit;
}

static void name(struct search *search, const struct proposal *proposal) {
    buffer_append_string(search->out, search->named++ > 0 ? ", or" : "it would fit");
    if (proposal->times > 1)
        buffer_printf(search->out, " on %d ranks with this much memory each", ranks_of(search, proposal));
    const struct proposal named = name_batch(search, *proposal);
    const char *before = proposal->times > 1 ? ", with " : " with ";
    for (int i = 0; i < SPELLINGS; i++) {
        char text[24];
        const char *value = value_of(&named, i, text);
        if (value)
            buffer_printf(search->out, "%s%s%s%s", before, spellings[i].flag, value[0] ? " " : "", value);
        before = value ? " " : before;
    }
    buffer_printf(search->out, " (%.2f GB)", (double)proposal->bytes / 1e9);
}

// Returns whether this one change is enough; names it if so.
static bool name_if_fits(struct search *search, enum saving_way change, int64_t value) {
    struct proposal proposal = {0};
    proposal.change[change] = value;
    bool is_enough = search->named < MOST_NAMED && fits(search, &proposal);
    if (is_enough)
        name(search, &proposal);
    return is_enough;
}

static bool has_replicas(const struct search *search) {
    return mesh_count(search->setup->mesh, MESH_REPLICAS) > 1;
}

static bool is_recomputed(const struct config *config) {
    return config->machine.recompute_granularity && strcmp(config->machine.recompute_granularity, "full") == 0 &&
           (!config->machine.recompute_method || strcmp(config->machine.recompute_method, "uniform") == 0) &&
           config->machine.recompute_num_layers <= 1;
}

// The largest smaller micro-batch that fits together with the rest of the proposal.
static bool shrink_batch(const struct search *search, struct proposal *proposal) {
    int64_t most = search->config->run.micro_batch_size;
    for (int64_t size = most - 1; size > 0; size--) {
        proposal->change[MICRO_BATCH] = size;
        if (most % size == 0 && fits(search, proposal))
            return true;
    }
    return false;
}

static void try_single(struct search *search) {
    const struct config *config = search->config;
    bool is_training = search->is_training, is_generation = search->setup->mode == STEP_GENERATE;
    if (is_training && has_replicas(search) && !config->machine.use_distributed_optimizer)
        name_if_fits(search, OPTIMIZER, 1);
    if (is_training && config->machine.tensor_model_parallel_size > 1 && !config->machine.sequence_parallel)
        name_if_fits(search, ROWS, 1);
    if (is_training && !config->machine.recompute_granularity)
        name_if_fits(search, SELECTIVE, 1);
    if (is_training && !is_recomputed(config))
        name_if_fits(search, FULL, 1);
    struct proposal smaller = {0};
    if (!is_generation && search->named < MOST_NAMED && shrink_batch(search, &smaller))
        name(search, &smaller);
    // Ranks that would hold the same slices share layers instead, or follow each other.
    for (int64_t times = 2; times <= config->machine.data_parallel_size; times *= 2)
        if (name_if_fits(search, TENSOR, config->machine.tensor_model_parallel_size * times))
            break;
    for (int64_t times = 2; times <= config->machine.data_parallel_size; times *= 2)
        if (name_if_fits(search, PIPELINE, config->machine.pipeline_model_parallel_size * times))
            break;
    // The CPU computes in fp32 all the same.
    if (!config->run.bf16 && !config->run.fp16 && !search->setup->device->ops->is_host_memory &&
        device_supports(search->setup->device, DTYPE_BF16))
        name_if_fits(search, BF16, 1);
}

// Adds every change that saves memory to the proposal's ranks.
static struct proposal all_savings(const struct search *search, struct proposal proposal) {
    const struct config *config = search->config;
    int64_t *change = proposal.change;
    if (search->setup->mode != STEP_GENERATE && config->run.micro_batch_size > 1)
        change[MICRO_BATCH] = 1;
    if (!search->is_training)
        return proposal;
    change[OPTIMIZER] = has_replicas(search) && !config->machine.use_distributed_optimizer;
    change[ROWS] =
        or_else(change[TENSOR], config->machine.tensor_model_parallel_size) > 1 && !config->machine.sequence_parallel;
    change[FULL] = !is_recomputed(config);
    return proposal;
}

// Leaves out what is not needed for a proposal to fit, the most expensive first.
static struct proposal thin_out(const struct search *search, struct proposal proposal) {
    static const enum saving_way order[] = {MICRO_BATCH, FULL, ROWS, OPTIMIZER};
    for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
        struct proposal less = proposal;
        less.change[order[i]] = 0;
        if (proposal.change[order[i]] > 0 &&
            (fits(search, &less) || (order[i] == MICRO_BATCH && shrink_batch(search, &less))))
            proposal = less;
    }
    return proposal;
}

// A proposal with `times` as many ranks: `sharing` times as many share layers, `copies` times as many copies of the
// model split the optimizer, and the remaining factor goes to pipeline stages.
static struct proposal on_ranks(const struct search *search, int times, int sharing, int copies) {
    const struct config *config = search->config;
    int stages = times / sharing / copies;
    struct proposal proposal = {.times = times};
    if (sharing > 1)
        proposal.change[TENSOR] = config->machine.tensor_model_parallel_size * sharing;
    if (stages > 1)
        proposal.change[PIPELINE] = config->machine.pipeline_model_parallel_size * stages;
    proposal = all_savings(search, proposal);
    if (copies > 1)
        proposal.change[OPTIMIZER] = !config->machine.use_distributed_optimizer;
    return proposal;
}

// Few ranks on which it fits. Copies of the model save memory by the split optimizer alone, so they come last.
static bool find_ranks(const struct search *search, struct proposal *found) {
    int64_t tensor = search->config->machine.tensor_model_parallel_size;
    for (int times = 2; times <= MOST_TIMES; times++)
        for (int copies = 1; copies <= (search->is_training ? times : 1); copies++)
            for (int sharing = MOST_TENSOR; sharing > 0; sharing /= 2) {
                if (times % (sharing * copies) != 0 || (sharing > 1 && tensor * sharing > MOST_TENSOR))
                    continue;
                *found = on_ranks(search, times, sharing, copies);
                if (fits(search, found))
                    return true;
            }
    return false;
}

// A twentieth of what is free is left to libraries, which take some memory later. If what is free would be enough and
// was still refused, the amount that would fit is unknown; a tenth less may help.
void memory_remedies(const struct setup *setup, size_t total, size_t room, struct buffer *out) {
    size_t usable = room < total ? room : total - total / 10;
    struct search search = {.setup = setup,
                            .config = setup->config,
                            .limit = usable - usable / 20,
                            .is_training = setup->mode == STEP_TRAIN,
                            .out = out};
    log_hush(true);
    try_single(&search);
    struct proposal least = all_savings(&search, (struct proposal){0}), more;
    if (search.named == 0 && fits(&search, &least)) {
        least = thin_out(&search, least);
        name(&search, &least);
    }
    if (search.named == 0 && find_ranks(&search, &more)) {
        more = thin_out(&search, more);
        name(&search, &more);
    }
    log_hush(false);
    if (search.named == 0)
        buffer_printf(
            out,
            "with all flags that save memory it would not fit in any of the layouts that were tried, on up to %d "
            "ranks; use a smaller model or a device with more memory",
            setup->mesh->size * MOST_TIMES);
}
