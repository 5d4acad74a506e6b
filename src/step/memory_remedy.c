// Which flags would make a step fit that does not. Every proposal is a changed copy of the run's configuration, checked
// like a command line and measured on paper, for each stage of its pipeline; what would be refused, or would not fit
// either, is not named.
//
// Single changes come first, the cheapest first; if none of them is enough, all that save memory together, without
// those that turn out not to be needed; then the same on more ranks. The global batch stays as it is. Not all layouts
// are tried, so there may be one on fewer ranks than those that are named.
#include "base/error.h"
#include "base/log.h"
#include "base/memory.h"
#include "step/memory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_NAMED = 3,
    MOST_SETTINGS = 12,
    MOST_TENSOR = 8,    // ranks that share layers are fast within a machine only
    MOST_TIMES = 1024,  // as many ranks as the run has; with more, a smaller model is what is needed
};

enum recompute { RECOMPUTE_AS_IS, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL };

// What is changed; what is false or 0 stays as it is.
struct proposal {
    bool divides_optimizer, divides_rows, is_bf16;
    enum recompute recompute;
    int64_t micro_batch, tensor, pipeline;
    int times;     // how many times as many ranks
    size_t bytes;  // found by measure: what the rank that needs most needs, or the first one that needs too much
};

struct search {
    const struct step *step;
    const struct config *config;
    size_t limit;
    bool is_training;
    int named;
    struct buffer *out;
};

struct setting {
    const char *flag;
    char value[24];  // "": a switch
};

static void set(struct setting *settings, int *count, const char *flag, const char *value) {
    struct setting *setting = &settings[(*count)++];
    setting->flag = flag;
    snprintf(setting->value, sizeof setting->value, "%s", value);
}

static void set_number(struct setting *settings, int *count, const char *flag, int64_t number) {
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, number);
    if (number > 0)
        set(settings, count, flag, text);
}

static int ranks_of(const struct search *search, const struct proposal *proposal) {
    return search->step->mesh.size * (proposal->times > 0 ? proposal->times : 1);
}

// The global batch of a proposal that does not name it: a micro-batch of each copy of the model.
static int64_t default_batch(const struct search *search, const struct proposal *proposal) {
    const struct config *config = search->config;
    int64_t micro_batch = proposal->micro_batch > 0 ? proposal->micro_batch : config->micro_batch_size;
    int64_t tensor = proposal->tensor > 0 ? proposal->tensor : config->tensor_model_parallel_size;
    int64_t pipeline = proposal->pipeline > 0 ? proposal->pipeline : config->pipeline_model_parallel_size;
    return micro_batch * (ranks_of(search, proposal) / (tensor * pipeline * config->context_parallel_size));
}

// The flags of a proposal, as a user would add them. The global batch is named if it would otherwise follow from
// others.
static int spell(const struct search *search, const struct proposal *proposal, struct setting *settings) {
    int count = 0;
    if (proposal->divides_optimizer)
        set(settings, &count, "--use-distributed-optimizer", "");
    if (proposal->divides_rows)
        set(settings, &count, "--sequence-parallel", "");
    if (proposal->is_bf16)
        set(settings, &count, "--bf16", "");
    if (proposal->recompute == RECOMPUTE_SELECTIVE)
        set(settings, &count, "--recompute-granularity", "selective");
    if (proposal->recompute == RECOMPUTE_FULL) {
        set(settings, &count, "--recompute-granularity", "full");
        set(settings, &count, "--recompute-method", "uniform");
        set(settings, &count, "--recompute-num-layers", "1");
    }
    set_number(settings, &count, "--micro-batch-size", proposal->micro_batch);
    set_number(settings, &count, "--tensor-model-parallel-size", proposal->tensor);
    set_number(settings, &count, "--pipeline-model-parallel-size", proposal->pipeline);
    bool moves_batch =
        proposal->micro_batch > 0 || proposal->tensor > 0 || proposal->pipeline > 0 || proposal->times > 1;
    if (search->is_training && moves_batch && !flag_is_given(&search->config->given, "--global-batch-size") &&
        search->config->global_batch_size != default_batch(search, proposal))
        set_number(settings, &count, "--global-batch-size", search->config->global_batch_size);
    CHECK(count <= MOST_SETTINGS);
    return count;
}

static int change(const struct search *search, const struct proposal *proposal, struct config *config) {
    static const enum config_use uses[] = {
        [STEP_TRAIN] = CONFIG_TRAIN, [STEP_EVALUATE] = CONFIG_EVALUATE, [STEP_GENERATE] = CONFIG_GENERATE};
    struct setting settings[MOST_SETTINGS];
    struct flag_table table = config_flag_table(0);
    int count = spell(search, proposal, settings);
    for (int i = 0; i < count; i++)
        TRY(flag_set(&table, config, settings[i].flag, settings[i].value[0] ? settings[i].value : "true",
                     FLAG_FROM_COMMAND));
    return config_validate_for(config, ranks_of(search, proposal), uses[search->step->mode]);
}

// Adds up the memory of every stage, as far as they fit. The first data-parallel rank stands for all.
static int measure_stages(const struct search *search, const struct config *config, struct proposal *proposal) {
    struct mesh mesh;
    struct device *paper;
    TRY(mesh_place(&mesh, 0, ranks_of(search, proposal), (int)config->tensor_model_parallel_size,
                   (int)config->context_parallel_size, (int)config->pipeline_model_parallel_size));
    TRY(device_open_paper(&paper));
    paper_stand_for(paper, search->step->device);
    int status = 0;
    proposal->bytes = 0;
    for (int stage = 0; stage < mesh.length[AXIS_PIPELINE] && status == 0; stage++) {
        struct step *step;
        mesh.place[AXIS_PIPELINE] = stage;
        mesh.rank = mesh_rank_at(&mesh, mesh.place);
        status = step_open(&step, config, paper, &mesh, search->step->mode);
        if (status == 0 && step->memory.total + step->memory.device_own > proposal->bytes)
            proposal->bytes = step->memory.total + step->memory.device_own;
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
    int status = change(search, proposal, &config);
    if (status == 0)
        status = measure_stages(search, &config, proposal);
    config_free(&config);
    error_clear();
    return status == 0 && proposal->bytes <= search->limit;
}

// Only more copies of the model may need no flags.
static void append_flags(const struct search *search, const struct proposal *proposal) {
    struct setting settings[MOST_SETTINGS];
    int count = spell(search, proposal, settings);
    if (count > 0)
        buffer_append_string(search->out, proposal->times > 1 ? ", with " : " with ");
    for (int i = 0; i < count; i++)
        buffer_printf(search->out, "%s%s%s%s", i > 0 ? " " : "", settings[i].flag, settings[i].value[0] ? " " : "",
                      settings[i].value);
}

static void name(struct search *search, const struct proposal *proposal) {
    buffer_append_string(search->out, search->named++ > 0 ? ", or" : "it would fit");
    if (proposal->times > 1)
        buffer_printf(search->out, " on %d ranks that have as much memory each", ranks_of(search, proposal));
    append_flags(search, proposal);
    buffer_printf(search->out, " (%.2f GB)", (double)proposal->bytes / 1e9);
}

// Returns whether this one change is enough; names it if so.
static bool name_if_fits(struct search *search, struct proposal proposal) {
    bool is_enough = search->named < MOST_NAMED && fits(search, &proposal);
    if (is_enough)
        name(search, &proposal);
    return is_enough;
}

static bool has_replicas(const struct config *config) {
    return config->data_parallel_size * config->context_parallel_size > 1;
}

static bool is_recomputed(const struct config *config) {
    return config->recompute_granularity && strcmp(config->recompute_granularity, "full") == 0 &&
           (!config->recompute_method || strcmp(config->recompute_method, "uniform") == 0) &&
           config->recompute_num_layers <= 1;
}

// The largest smaller micro-batch that fits together with the rest of the proposal.
static bool shrink_batch(const struct search *search, struct proposal *proposal) {
    int64_t most = search->config->micro_batch_size;
    for (int64_t size = most - 1; size > 0; size--) {
        proposal->micro_batch = size;
        if (most % size == 0 && fits(search, proposal))
            return true;
    }
    return false;
}

static void try_single(struct search *search) {
    const struct config *config = search->config;
    bool is_training = search->is_training, is_generation = search->step->mode == STEP_GENERATE;
    if (is_training && has_replicas(config) && !config->use_distributed_optimizer)
        name_if_fits(search, (struct proposal){.divides_optimizer = true});
    if (is_training && config->tensor_model_parallel_size > 1 && !config->sequence_parallel)
        name_if_fits(search, (struct proposal){.divides_rows = true});
    if (is_training && !config->recompute_granularity)
        name_if_fits(search, (struct proposal){.recompute = RECOMPUTE_SELECTIVE});
    if (is_training && !is_recomputed(config))
        name_if_fits(search, (struct proposal){.recompute = RECOMPUTE_FULL});
    struct proposal smaller = {0};
    if (!is_generation && search->named < MOST_NAMED && shrink_batch(search, &smaller))
        name(search, &smaller);
    // Ranks that would hold the same slices share layers instead, or follow each other.
    for (int64_t times = 2; times <= config->data_parallel_size; times *= 2)
        if (name_if_fits(search, (struct proposal){.tensor = config->tensor_model_parallel_size * times}))
            break;
    for (int64_t times = 2; times <= config->data_parallel_size; times *= 2)
        if (name_if_fits(search, (struct proposal){.pipeline = config->pipeline_model_parallel_size * times}))
            break;
    // The CPU computes in fp32 all the same.
    if (!config->bf16 && !config->fp16 && !search->step->device->ops->is_host_memory &&
        device_supports(search->step->device, DTYPE_BF16))
        name_if_fits(search, (struct proposal){.is_bf16 = true});
}

// Everything that saves memory, beside what the proposal says of ranks.
static struct proposal all_savings(const struct search *search, struct proposal proposal) {
    const struct config *config = search->config;
    if (search->step->mode != STEP_GENERATE && config->micro_batch_size > 1)
        proposal.micro_batch = 1;
    if (!search->is_training)
        return proposal;
    int64_t tensor = proposal.tensor > 0 ? proposal.tensor : config->tensor_model_parallel_size;
    proposal.divides_optimizer = has_replicas(config) && !config->use_distributed_optimizer;
    proposal.divides_rows = tensor > 1 && !config->sequence_parallel;
    proposal.recompute = is_recomputed(config) ? RECOMPUTE_AS_IS : RECOMPUTE_FULL;
    return proposal;
}

// Leaves out what is not needed for a proposal to fit, the most expensive first.
static struct proposal thin_out(const struct search *search, struct proposal proposal) {
    struct proposal less = proposal;
    less.micro_batch = 0;
    if (proposal.micro_batch > 0 && (fits(search, &less) || shrink_batch(search, &less)))
        proposal = less;
    less = proposal;
    less.recompute = RECOMPUTE_AS_IS;
    if (proposal.recompute != RECOMPUTE_AS_IS && fits(search, &less))
        proposal = less;
    less = proposal;
    less.divides_rows = false;
    if (proposal.divides_rows && fits(search, &less))
        proposal = less;
    less = proposal;
    less.divides_optimizer = false;
    if (proposal.divides_optimizer && fits(search, &less))
        proposal = less;
    return proposal;
}

// Of `times` as many ranks, `sharing` times as many share layers, and there are `copies` times as many copies of the
// model, which divide the optimizer among themselves; the rest follow each other.
static struct proposal on_ranks(const struct search *search, int times, int sharing, int copies) {
    const struct config *config = search->config;
    int stages = times / sharing / copies;
    struct proposal proposal = all_savings(
        search, (struct proposal){.times = times,
                                  .tensor = sharing > 1 ? config->tensor_model_parallel_size * sharing : 0,
                                  .pipeline = stages > 1 ? config->pipeline_model_parallel_size * stages : 0});
    if (copies > 1)
        proposal.divides_optimizer = !config->use_distributed_optimizer;
    return proposal;
}

// Few ranks on which it fits. Copies of the model save memory by the divided optimizer alone, so they come last.
static bool find_ranks(const struct search *search, struct proposal *found) {
    int64_t tensor = search->config->tensor_model_parallel_size;
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
// was still refused, nobody knows how much is not; a tenth less may help.
void memory_remedies(const struct step *step, size_t room, struct buffer *out) {
    size_t total = step->memory.total;
    size_t usable = room < total ? room : total - total / 10;
    struct search search = {.step = step,
                            .config = step->config,
                            .limit = usable - usable / 20,
                            .is_training = step->mode == STEP_TRAIN,
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
            step->mesh.size * MOST_TIMES);
}
