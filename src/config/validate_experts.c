// Mixtures of experts: layers, groups and ranks that must fit, and the losses that balance experts.
#include "base/log.h"
#include "base/memory.h"
#include "config/flags.h"
#include "config/validate.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is(const char *text, const char *name) {
    return text && strcmp(text, name) == 0;
}

static bool is_from_command(const struct config *config, const char *flag) {
    return flag_source(&config->given, flag) == FLAG_FROM_COMMAND;
}

static void validate_layers(const struct config *config, struct complaints *complaints) {
    bool *layers = memory_alloc((size_t)config->model.num_layers + 1);
    if (config->model.num_layers > 0 &&
        config_parse_layer_freq(config->model.moe_layer_freq, layers, config->model.num_layers) < 0)
        complain(complaints,
                 "--moe-layer-freq %s is neither a number nor a list of 0 and 1 for each of the %" PRId64
                 " layers; give 1, or e.g. [0]*1+[1]*%" PRId64,
                 config->model.moe_layer_freq, config->model.num_layers, config->model.num_layers - 1);
    else if (config->model.num_layers > 0 && config_expert_layers(&config->model) == 0)
        complain(complaints,
                 "--moe-layer-freq %s gives no layer experts; name one with a 1, or leave out --num-experts",
                 config->model.moe_layer_freq);
    free(layers);
}

static void validate_groups(const struct config *config, struct complaints *complaints) {
    int64_t E = config->model.num_experts, K = config->model.moe_router_topk;
    int64_t groups = config->model.moe_router_num_groups, chosen = config->model.moe_router_group_topk;
    int64_t best = config->model.moe_router_group_best;
    if (groups == 0 || chosen == 0)
        return;
    if (E % groups != 0)
        complain(complaints,
                 "--num-experts %" PRId64 " cannot be cut into --moe-router-num-groups %" PRId64
                 " equal groups; nearest: --moe-router-num-groups %" PRId64,
                 E, groups, nearest_divisor(E, groups));
    else if (chosen > groups)
        complain(complaints,
                 "--moe-router-group-topk %" PRId64 " is above --moe-router-num-groups %" PRId64 "; give fewer", chosen,
                 groups);
    else if (best == 0 && (K % chosen != 0 || K / chosen > E / groups))
        complain(complaints,
                 "--moe-router-topk %" PRId64 " cannot be shared by --moe-router-group-topk %" PRId64
                 " groups of %" PRId64 " experts; give a multiple of the groups, and at most that many of each",
                 K, chosen, E / groups);
    else if (best > E / groups || K > chosen * (E / groups))
        complain(complaints,
                 "the %" PRId64 " groups of %" PRId64 " experts that a token chooses within have too few for "
                 "--moe-router-topk %" PRId64 " or --moe-router-group-best %" PRId64 "; give less",
                 chosen, E / groups, K, best);
}

static void validate_router(const struct config *config, struct complaints *complaints) {
    int64_t E = config->model.num_experts, K = config->model.moe_router_topk;
    if (K > E)
        complain(complaints, "--moe-router-topk %" PRId64 " is above --num-experts %" PRId64 "; give at most that many",
                 K, E);
    if (config->model.moe_router_dtype == ROUTER_DTYPE_FP64)
        complain(complaints, "--moe-router-dtype fp64 is not supported: routers compute in fp32; leave it out");
    validate_groups(config, complaints);
}

// The losses that balance experts, and their coefficients one by one.
static void validate_balance(const struct config *config, struct complaints *complaints) {
    const struct string_list *types = &config->model.moe_router_load_balancing_type,
                             *coeffs = &config->model.moe_aux_loss_coeff;
    for (int64_t i = 0; i < types->count; i++) {
        const char *type = types->items[i];
        if (!is(type, "aux_loss") && !is(type, "seq_aux_loss") && !is(type, "global_aux_loss") &&
            !is(type, "sinkhorn") && !is(type, "none"))
            complain(complaints,
                     "--moe-router-load-balancing-type %s is not supported; give aux_loss, seq_aux_loss, "
                     "global_aux_loss, sinkhorn or none",
                     type);
        for (int64_t k = 0; k < i; k++)
            if (strcmp(type, types->items[k]) == 0)
                complain(complaints, "--moe-router-load-balancing-type %s is given twice; give it once", type);
    }
    if (types->count > 1 && types->count != coeffs->count)
        complain(complaints,
                 "--moe-router-load-balancing-type has %" PRId64 " losses, but --moe-aux-loss-coeff %" PRId64
                 " coefficients; give one for each",
                 types->count, coeffs->count);
    else if (coeffs->count != 1 && types->count != coeffs->count)
        complain(complaints,
                 "--moe-aux-loss-coeff has %" PRId64
                 " coefficients, but there is one loss; give one, or name the losses "
                 "with --moe-router-load-balancing-type",
                 coeffs->count);
    for (int64_t i = 0; i < coeffs->count; i++) {
        char *end = NULL;
        double value = strtod(coeffs->items[i], &end);
        if (end == coeffs->items[i] || *end || !(value >= 0 && value < 1e6))
            complain(complaints, "--moe-aux-loss-coeff %s is not a coefficient; give numbers from 0 on, e.g. 1e-2",
                     coeffs->items[i]);
    }
}

// Losses without a coefficient, and coefficients without a loss.
static void warn_of_balance(const struct config *config) {
    const struct string_list *types = &config->model.moe_router_load_balancing_type,
                             *coeffs = &config->model.moe_aux_loss_coeff;
    bool has_types = is_from_command(config, "--moe-router-load-balancing-type");
    bool has_coeffs = is_from_command(config, "--moe-aux-loss-coeff");
    for (int64_t i = 0; i < types->count && i < coeffs->count; i++) {
        bool has_loss = !is(types->items[i], "none") && !is(types->items[i], "sinkhorn");
        if (has_types && has_loss && !has_coeffs && strtod(coeffs->items[i], NULL) == 0)
            log_warn_once("--moe-router-load-balancing-type %s has no effect without --moe-aux-loss-coeff, e.g. 1e-2",
                          types->items[i]);
        if (has_coeffs && is(types->items[i], "none") && strtod(coeffs->items[i], NULL) > 0)
            log_warn_once("--moe-aux-loss-coeff %s has no effect with --moe-router-load-balancing-type none",
                          coeffs->items[i]);
    }
}

// Sinkhorn's algorithm chooses by logits alone, and the chosen experts' scores are computed separately: sigmoids if a
// token goes to one expert, else a softmax over all of them.
static void validate_sinkhorn(struct config *config, struct complaints *complaints) {
    struct config_balance balance = config_balance(&config->model);
    if (!config_has_sinkhorn(&config->model))
        return;
    if (config->model.moe_router_load_balancing_type.count > 1)
        complain(complaints, "--moe-router-load-balancing-type sinkhorn goes with no loss; give it alone");
    else if (strtod(config->model.moe_aux_loss_coeff.items[0], NULL) > 0 || balance.batch > 0)
        complain(
            complaints,
            "--moe-router-load-balancing-type sinkhorn has no loss; leave out --moe-aux-loss-coeff, as in Megatron");
    if (config->model.moe_expert_capacity_factor > 0)
        complain(complaints, "--moe-expert-capacity-factor does not work with --moe-router-load-balancing-type "
                             "sinkhorn, as in Megatron; leave one out");
    bool is_one = config->model.moe_router_topk == 1;
    enum router_score score = is_one ? ROUTER_SIGMOID : ROUTER_SOFTMAX;
    if (is_from_command(config, "--moe-router-score-function") && config->model.moe_router_score_function != score)
        complain(complaints,
                 "--moe-router-load-balancing-type sinkhorn with --moe-router-topk %" PRId64
                 " has the scores of --moe-router-score-function %s; give that, or leave it out",
                 config->model.moe_router_topk, CONFIG_NAME(model.moe_router_score_function, score));
    config->model.moe_router_score_function = score;
    config->model.moe_router_pre_softmax = !is_one;
}

static void validate_capacity(const struct config *config, struct complaints *complaints) {
    bool has_capacity = config->model.moe_expert_capacity_factor > 0;
    if (!has_capacity && config->model.moe_pad_expert_input_to_capacity)
        complain(complaints,
                 "--moe-pad-expert-input-to-capacity needs --moe-expert-capacity-factor; give it, e.g. 1.0");
    if (!has_capacity && is_from_command(config, "--moe-token-drop-policy"))
        log_warn_once("--moe-token-drop-policy has no effect without --moe-expert-capacity-factor");
}

// Ranks that split experts: some or none of the tensor-parallel ranks, which then bring their own rows.
static void validate_slices(const struct config *config, struct complaints *complaints) {
    int64_t slices = config_expert_slices(config), tensor = config->machine.tensor_model_parallel_size;
    if (slices == tensor)
        return;
    if (tensor % slices != 0)
        complain(complaints,
                 "--expert-tensor-parallel-size %" PRId64 " does not divide --tensor-model-parallel-size %" PRId64
                 "; nearest: --expert-tensor-parallel-size %" PRId64,
                 slices, tensor, nearest_divisor(tensor, slices));
    else if (!config->machine.sequence_parallel)
        complain(complaints,
                 "--expert-tensor-parallel-size %" PRId64 " below --tensor-model-parallel-size %" PRId64
                 " needs ranks that have tokens of their own; give --sequence-parallel",
                 slices, tensor);
}

// Ranks that the experts are split over.
static void validate_ranks(const struct config *config, struct complaints *complaints) {
    int64_t ranks = config->machine.expert_model_parallel_size, E = config->model.num_experts,
            copies = config->machine.data_parallel_size;
    int64_t tensor = config->machine.tensor_model_parallel_size, slices = config_expert_slices(config);
    struct config_expert_ranks along;
    if (ranks == 1)
        return;
    if (E % ranks != 0)
        complain(complaints,
                 "--num-experts %" PRId64 " is not a multiple of --expert-model-parallel-size %" PRId64
                 "; nearest: --expert-model-parallel-size %" PRId64,
                 E, ranks, nearest_divisor(E, ranks));
    if (tensor % slices == 0 && config_expert_ranks(config, 0, &along) < 0)
        complain(complaints,
                 "--expert-model-parallel-size %" PRId64 " neither divides nor is a multiple of the %" PRId64
                 " tensor-parallel ranks that do not split the same expert, or of these times --context-parallel-size "
                 "%" PRId64 "; make it %" PRId64,
                 ranks, tensor / slices, config->machine.context_parallel_size,
                 tensor / slices * config->machine.context_parallel_size);
    else if (tensor % slices == 0 && copies % along.data != 0)
        complain(complaints,
                 "--expert-model-parallel-size %" PRId64 " needs a multiple of %" PRId64
                 " data-parallel ranks, not %" PRId64 "; start a multiple of %" PRId64 " ranks, or make it %" PRId64,
                 ranks, along.data, copies, config_least_ranks(config),
                 ranks / along.data * nearest_divisor(copies, along.data));
}

void validate_experts(struct config *config, struct complaints *complaints) {
    if (config->model.num_experts == 0)
        return;
    validate_layers(config, complaints);
    validate_sinkhorn(config, complaints);
    validate_router(config, complaints);
    validate_balance(config, complaints);
    warn_of_balance(config);
    validate_capacity(config, complaints);
    validate_slices(config, complaints);
    validate_ranks(config, complaints);
    // While rows of one micro-batch are in transit, another one computes.
    if (config->machine.overlap_moe_expert_parallel_comm && config->machine.pipeline_model_parallel_size > 1 &&
        config_chunks(config) == 1)
        complain(complaints, "--overlap-moe-expert-parallel-comm with --pipeline-model-parallel-size needs the "
                             "interleaved schedule; give --num-virtual-stages-per-pipeline-rank, or leave it out");
    if (config->run.moe_use_upcycling && (config->run.moe_upcycling_granularity != 1 ||
                                          config_expert_width(&config->model) != config->model.ffn_hidden_size))
        complain(complaints,
                 "--moe-use-upcycling makes every expert a whole copy of the dense MLP; leave out "
                 "--moe-upcycling-granularity and --moe-ffn-hidden-size, and give the dense --ffn-hidden-size");
}
