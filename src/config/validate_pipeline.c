// The flags of a pipeline: whether the layers can be split as requested, and whether the schedule supports that number
// of micro-batches. Refusals name numbers that would work.
#include "config/pipeline_layout.h"
#include "config/validate.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is(const char *text, const char *name) {
    return text && strcmp(text, name) == 0;
}

// Checks one stack of `layers` over `stages`: a complaint if they do not divide.
static void validate_even(const char *what, int64_t layers, int64_t stages, struct complaints *complaints) {
    char text[256];
    if (layers < stages || layers % stages != 0)
        complain(
            complaints,
            "%s, %" PRId64 ", cannot be split into %" PRId64
            " pipeline stages; numbers of stages that work are %s; nearest: --pipeline-model-parallel-size %" PRId64
            " or %s %" PRId64,
            what, layers, stages, divisors(layers, text, sizeof text), nearest_divisor(layers, stages), what,
            nearest_multiple(layers, stages));
}

// Whether `left` layers divide evenly among the stages between the first and the last.
static bool goes_into(int64_t left, int64_t between) {
    return between == 0 ? left == 0 : left >= between && left % between == 0;
}

// Legal numbers of layers of one stage, where `left` are for it and `between` other stages: "1, 4, 7"; "none" if no
// number works.
static const char *working_layers(int64_t left, int64_t between, char *text, size_t size) {
    size_t length = 0;
    snprintf(text, size, "none");
    for (int64_t layers = 1; layers <= left && length + 24 < size; layers++)
        if (goes_into(left - layers, between))
            length += (size_t)snprintf(text + length, size - length, "%s%" PRId64, length ? ", " : "", layers);
    return text;
}

static void validate_uneven(const struct config *config, struct complaints *complaints) {
    int64_t stages = config->machine.pipeline_model_parallel_size, layers = config_layers(&config->model);
    int64_t first = config->machine.decoder_first_pipeline_num_layers,
            last = config->machine.decoder_last_pipeline_num_layers;
    int64_t between = stages - (first > 0) - (last > 0), left = layers - first - last;
    if (goes_into(left, between))
        return;
    char firsts[128], lasts[128];
    complain(complaints,
             "--num-layers %" PRId64 " less %" PRId64 " of the first and %" PRId64 " of the last stage leaves %" PRId64
             " for %" PRId64 " stages, which does not work out; numbers that do are, for %s, %s%s%s",
             layers, first, last, left, between,
             first > 0 ? "--decoder-first-pipeline-num-layers" : "--decoder-last-pipeline-num-layers",
             first > 0 ? working_layers(layers - last, between, firsts, sizeof firsts)
                       : working_layers(layers, between, lasts, sizeof lasts),
             first > 0 && last > 0 ? ", or for --decoder-last-pipeline-num-layers " : "",
             first > 0 && last > 0 ? working_layers(layers - first, between, lasts, sizeof lasts) : "");
}

// Weight of a model's ends: each counts as a layer of its stage, which gets one layer less. A stage may be left with an
// end and no layers.
static void validate_weighed(const struct config *config, struct complaints *complaints) {
    int64_t stages = config->machine.pipeline_model_parallel_size, layers = config_layers(&config->model);
    int64_t ends =
        config->machine.account_for_embedding_in_pipeline_split + config->machine.account_for_loss_in_pipeline_split;
    char text[256];
    if ((layers + ends) % stages != 0)
        complain(complaints,
                 "--num-layers %" PRId64 " and %" PRId64
                 " more for the embedding and the loss cannot be split into %" PRId64
                 " pipeline stages; numbers of stages that work are the divisors of %" PRId64 ": %s",
                 layers, ends, stages, layers + ends, divisors(layers + ends, text, sizeof text));
}

// Whether an expanded layout begins with E, ends with L, and has only layers and then depths between them.
static bool is_in_order(const char *layout) {
    size_t length = strcspn(layout, "L"), depths = strcspn(layout, "m");
    return layout[0] == 'E' && layout[length] == 'L' && layout[length + 1] == 0 && !strchr(layout + 1, 'E') &&
           (depths >= length || !strchr(layout + depths, 't'));
}

static void validate_layout_parts(const struct config *config, const char *layout, struct complaints *complaints) {
    int64_t chunks = pipeline_layout_chunks(layout), stages = config->machine.pipeline_model_parallel_size;
    int64_t layers = pipeline_layout_before(layout, chunks, 't'), depths = pipeline_layout_before(layout, chunks, 'm');
    if (!is_in_order(layout))
        complain(complaints,
                 "--pipeline-model-parallel-layout must begin with E and end with L, have each of them once, and "
                 "all t before m, e.g. Et|tt|tL");
    else if (layers != config_layers(&config->model))
        complain(complaints,
                 "--pipeline-model-parallel-layout has %" PRId64 " layers (t), but --num-layers is %" PRId64
                 "; make them equal",
                 layers, config_layers(&config->model));
    else if (depths != config->model.mtp_num_layers)
        complain(complaints,
                 "--pipeline-model-parallel-layout has %" PRId64
                 " depths of multi-token prediction (m), but --mtp-num-layers is %" PRId64 "; make them equal",
                 depths, config->model.mtp_num_layers);
    else if (chunks % stages != 0)
        complain(complaints,
                 "--pipeline-model-parallel-layout has %" PRId64 " chunks, which %" PRId64
                 " stages cannot share evenly; make them a multiple of --pipeline-model-parallel-size",
                 chunks, stages);
    else if (chunks / stages > LAYOUT_MOST_CHUNKS)
        complain(complaints,
                 "--pipeline-model-parallel-layout has %" PRId64
                 " chunks for each stage, more than %d; leave out some of the |",
                 chunks / stages, LAYOUT_MOST_CHUNKS);
    else if (depths > 0 && pipeline_layout_count(layout, chunks - 1, 'm') != depths)
        complain(complaints,
                 "--pipeline-model-parallel-layout has m in another chunk than L; multi-token prediction uses the "
                 "head, so end the layout with mL");
}

static void validate_layout(const struct config *config, struct complaints *complaints) {
    struct layout_mistake mistake;
    const char *text = config->machine.pipeline_model_parallel_layout;
    char *layout = pipeline_layout_expand(text, &mistake);
    if (!layout)
        complain(complaints, "--pipeline-model-parallel-layout %s: %s (at byte %zu)", text, mistake.what, mistake.at);
    else
        validate_layout_parts(config, layout, complaints);
    free(layout);
}

static bool can_split(const struct config *config, int64_t stages, int64_t split) {
    return split >= 1 && split < stages && goes_into(config_encoder_layers(&config->model), split) &&
           goes_into(config_decoder_layers(&config->model), stages - split);
}

// Where both stacks divide: "2, 4"; for a number of stages the stages where the decoder may begin, for 0 the numbers of
// stages with such a place; "" if there is none.
static const char *working_splits(const struct config *config, int64_t stages, char *text, size_t size) {
    size_t length = 0;
    int64_t most = stages > 0                             ? stages - 1
                   : config_layers(&config->model) < 1024 ? config_layers(&config->model)
                                                          : 1024;
    text[0] = '\0';
    for (int64_t n = 1; n <= most && length + 24 < size; n++) {
        bool works = stages > 0 && can_split(config, stages, n);
        for (int64_t split = 1; stages == 0 && split < n && !works; split++)
            works = can_split(config, n, split);
        if (works)
            length += (size_t)snprintf(text + length, size - length, "%s%" PRId64, length ? ", " : "", n);
    }
    return text;
}

static void validate_split(const struct config *config, struct complaints *complaints) {
    int64_t stages = config->machine.pipeline_model_parallel_size, split = config_split_stage(config);
    char splits[128], sizes[128];
    if (!can_split(config, stages, split)) {
        working_splits(config, stages, splits, sizeof splits);
        working_splits(config, 0, sizes, sizeof sizes);
        complain(complaints,
                 "the encoder's %" PRId64 " and the decoder's %" PRId64 " layers cannot be split into %" PRId64
                 " pipeline stages with the decoder beginning at stage %" PRId64 "; %s%s",
                 config_encoder_layers(&config->model), config_decoder_layers(&config->model), stages, split,
                 splits[0] ? "numbers for --pipeline-model-parallel-split-rank that work are "
                           : "numbers for --pipeline-model-parallel-size that work are ",
                 splits[0] ? splits : sizes);
    }
}

// Chunks of a stage: every stage's layers, and the ends that count as layers, must be divisible by their number.
static void validate_chunks(const struct config *config, struct complaints *complaints) {
    int64_t stages = config->machine.pipeline_model_parallel_size, chunks = config_chunks(config);
    int64_t together = config->machine.num_layers_per_virtual_pipeline_stage;
    char text[256];
    for (int64_t stage = 0; stage < stages; stage++) {
        int64_t layers = config_stage_places(config, stage);
        if (layers > 0 && together > 0 && layers % together == 0 && layers != together * chunks)
            complain(complaints,
                     "--num-layers-per-virtual-pipeline-stage %" PRId64 " makes %" PRId64
                     " chunks of the first stage's layers and %" PRId64 " of the %" PRId64 " of stage %" PRId64
                     "; choose stages with equally many layers",
                     together, chunks, layers / together, layers, stage);
        else if (layers > 0 && together > 0 && layers % together != 0)
            complain(complaints,
                     "--num-layers-per-virtual-pipeline-stage %" PRId64 " does not divide the %" PRId64
                     " layers of stage %" PRId64 "; numbers that do are %s",
                     together, layers, stage, divisors(layers, text, sizeof text));
        else if (layers > 0 && layers % chunks != 0)
            complain(complaints,
                     "--num-virtual-stages-per-pipeline-rank %" PRId64 " does not divide the %" PRId64
                     " layers of stage %" PRId64 "; numbers that do are %s",
                     chunks, layers, stage, divisors(layers, text, sizeof text));
        else
            continue;
        return;
    }
}

// The interleaved schedule sends micro-batches through a chunk in groups that fill all stages.
static void validate_micro_batches(const struct config *config, struct complaints *complaints) {
    int64_t stages = config->machine.pipeline_model_parallel_size,
            unit = config->run.micro_batch_size * config->machine.data_parallel_size;
    int64_t given = config->machine.microbatch_group_size_per_virtual_pipeline_stage,
            group = given > 0 ? given : stages;
    const struct {
        const char *name;
        int64_t size;
    } sizes[] = {{"--global-batch-size", config->run.global_batch_size},
                 {"the START of --rampup-batch-size", config->run.rampup_start},
                 {"the INCREMENT of --rampup-batch-size", config->run.rampup_increment},
                 {"--eval-global-batch-size", config->run.eval_global_batch_size}};
    if (group < stages) {
        complain(complaints,
                 "--microbatch-group-size-per-virtual-pipeline-stage %" PRId64 " is below the %" PRId64
                 " stages; give %" PRId64 " or more",
                 group, stages, stages);
        return;
    }
    for (int i = 0; i < 4; i++) {
        int64_t size = sizes[i].size, count = size / unit, rest = count % group;
        bool may_rest = i == 3 || (i == 0 && !config_batch_varies(config));
        if (size == 0 || rest == 0 || (may_rest && rest >= stages))
            continue;
        complain(complaints,
                 "%s of %" PRId64 " samples makes %" PRId64 " micro-batches, which the interleaved schedule cannot "
                 "send through %" PRId64 " stages in groups of %" PRId64 "; make it %" PRId64,
                 sizes[i].name, size, count, stages, group, (count / group + 1) * group * unit);
    }
    for (int64_t i = 0; i < config->run.batch_step_count; i++) {
        int64_t size = config->run.batch_steps[i].size, count = size / unit;
        if (count % group != 0)
            complain(complaints,
                     "--step-batch-size-schedule: %" PRId64 " samples make %" PRId64
                     " micro-batches, which the interleaved "
                     "schedule cannot send through %" PRId64 " stages in groups of %" PRId64 "; make it %" PRId64,
                     size, count, stages, group, (count / group + 1) * group * unit);
    }
}

static void validate_kind(const struct config *config, struct complaints *complaints) {
    const char *kind = config->machine.pipeline_schedule;
    int64_t chunks = config_chunks(config);
    if (kind && (chunks > 1) != is(kind, "interleaved"))
        complain(
            complaints, "--pipeline-schedule %s has %s, and the other flags make %" PRId64 "; %s", kind,
            is(kind, "interleaved") ? "several chunks of layers on a rank" : "one chunk of layers on a rank", chunks,
            config->machine.pipeline_model_parallel_layout
                ? is(kind, "interleaved") ? "give --pipeline-model-parallel-layout two or more chunks for each stage"
                                          : "give --pipeline-model-parallel-layout one chunk for each stage"
            : chunks > 1 ? "leave --num-layers-per-virtual-pipeline-stage and "
                           "--num-virtual-stages-per-pipeline-rank out"
                         : "give --num-virtual-stages-per-pipeline-rank 2 or more");
}

void validate_pipeline(const struct config *config, struct complaints *complaints) {
    int64_t stages = config->machine.pipeline_model_parallel_size;
    if (stages == 1 && config->machine.num_virtual_stages_per_pipeline_rank > 1)
        complain(complaints, "--num-virtual-stages-per-pipeline-rank needs a pipeline; give "
                             "--pipeline-model-parallel-size 2 or more");
    if (stages == 1 || config->model.num_layers == 0)
        return;
    int before = complaints->count;
    if (config->model.form == CONFIG_T5)
        validate_split(config, complaints);
    else if (config->machine.pipeline_model_parallel_layout)
        validate_layout(config, complaints);
    else if (config_weighs_ends(config))
        validate_weighed(config, complaints);
    else if (config->machine.decoder_first_pipeline_num_layers > 0 ||
             config->machine.decoder_last_pipeline_num_layers > 0)
        validate_uneven(config, complaints);
    else
        validate_even("--num-layers", config_layers(&config->model), stages, complaints);
    if (complaints->count > before)
        return;
    if (!config->machine.pipeline_model_parallel_layout)
        validate_chunks(config, complaints);
    validate_kind(config, complaints);
    if (config_chunks(config) > 1)
        validate_micro_batches(config, complaints);
}
