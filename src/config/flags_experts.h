// The rows of the flags of mixtures of experts, a part of the table in flags.c. Names and defaults are Megatron-LM's.
#ifndef CONFIG_FLAGS_EXPERTS_H
#define CONFIG_FLAGS_EXPERTS_H

#define EXPERT_ROWS                                                                                                    \
    GROUP("Experts"), INT("--num-experts", num_experts, NULL, 1, 1024, "experts of an MLP; default: dense MLPs"),      \
        TEXT("--moe-layer-freq", moe_layer_freq, "1", "N|LIST",                                                        \
             "layers with experts: every N-th, beginning with the first, or a list, e.g. [0]*3+[1]*21"),               \
        INT("--moe-ffn-hidden-size", moe_ffn_hidden_size, NULL, 1, 1 << 22,                                            \
            "width inside an expert; default: --ffn-hidden-size"),                                                     \
        INT("--moe-router-topk", moe_router_topk, "2", 1, 32, "experts that a token goes to"),                         \
        CHOICE("--moe-router-score-function", moe_router_score_function, "softmax",                                    \
               ONE_OF("softmax", "sigmoid", "sqrtsoftplus"), "function that turns a router's logits into scores"),     \
        SWITCH("--moe-router-pre-softmax", moe_router_pre_softmax,                                                     \
               "softmax over all experts before the choice, not over the chosen ones"),                                \
        REAL("--moe-router-topk-scaling-factor", moe_router_topk_scaling_factor, NULL, 0, 1e6,                         \
             "factor of the chosen experts' weights", .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),                         \
        INT("--moe-router-num-groups", moe_router_num_groups, NULL, 1, 1024,                                           \
            "groups of experts; a token chooses within the best --moe-router-group-topk of them", ADVANCED),           \
        INT("--moe-router-group-topk", moe_router_group_topk, NULL, 1, 1024, "groups that a token chooses within",     \
            ADVANCED),                                                                                                 \
        INT("--moe-router-group-best", moe_router_group_best, "0", 0, 1024,                                            \
            "number of its best scores by which a group is chosen; 0: topk / group topk, as in Megatron; "             \
            "DeepSeek-V2: 1",                                                                                          \
            ADVANCED),                                                                                                 \
        CHOICE("--moe-router-dtype", moe_router_dtype, NULL, ONE_OF("fp32", "fp64"),                                   \
               "accepted: logits and scores of routers are always in fp32", ADVANCED),                                 \
        LIST("--moe-router-load-balancing-type", moe_router_load_balancing_type, "TYPE…",                              \
             "aux_loss, seq_aux_loss, global_aux_loss (over a micro-batch, a sequence, the global batch), sinkhorn "   \
             "or none",                                                                                                \
             .initial = "aux_loss"),                                                                                   \
        LIST("--moe-aux-loss-coeff", moe_aux_loss_coeff, "X…",                                                         \
             "coefficient of each --moe-router-load-balancing-type, e.g. 1e-2", .initial = "0.0"),                     \
        REAL("--moe-z-loss-coeff", moe_z_loss_coeff, NULL, 0, 1e6,                                                     \
             "coefficient of the z-loss, which keeps logits of routers small, e.g. 1e-3; default: none"),              \
        REAL("--moe-input-jitter-eps", moe_input_jitter_eps, NULL, 0, 1,                                               \
             "in training, multiply a router's input by noise from 1 - X to 1 + X; default: none",                     \
             .bounds = FLAG_BELOW_MAXIMUM, ADVANCED),                                                                  \
        SWITCH("--moe-router-enable-expert-bias", moe_router_enable_expert_bias,                                       \
               "balance experts by a bias that only the choice of experts sees, updated after each step; needs "       \
               "--moe-router-score-function sigmoid or sqrtsoftplus"),                                                 \
        REAL("--moe-router-bias-update-rate", moe_router_bias_update_rate, "1e-3", 0, 1e6,                             \
             "step of that bias per iteration, up for experts with fewer tokens than the mean, else down", ADVANCED),  \
        REAL("--moe-expert-capacity-factor", moe_expert_capacity_factor, NULL, -1e6, 1e6,                              \
             "in training, an expert drops tokens beyond this factor of the mean; default or below 0: none",           \
             ADVANCED),                                                                                                \
        SWITCH("--moe-pad-expert-input-to-capacity", moe_pad_expert_input_to_capacity,                                 \
               "pad the input of each expert to its capacity", ADVANCED),                                              \
        CHOICE("--moe-token-drop-policy", moe_token_drop_policy, "probs", ONE_OF("probs", "position"),                 \
               "which tokens an expert keeps: those with the largest weights, or the first", ADVANCED),                \
        INT("--moe-shared-expert-intermediate-size", moe_shared_expert_intermediate_size, NULL, 1, 1 << 22,            \
            "width of all shared experts together, which every token goes to; default: none"),                         \
        SWITCH(                                                                                                        \
            "--moe-use-upcycling", moe_use_upcycling,                                                                  \
            "start at iteration 0 from a dense checkpoint, given by --load or --pretrained-checkpoint: every expert "  \
            "is a copy of its MLP"),                                                                                   \
        INT("--moe-upcycling-granularity", moe_upcycling_granularity, "1", 1, 1 << 20,                                 \
            "experts that a dense MLP is cut into; only 1 works", ADVANCED),                                           \
        CHOICE("--moe-token-dispatcher-type", moe_token_dispatcher_type, NULL,                                         \
               ONE_OF("allgather", "alltoall", "flex"), "accepted: changes nothing", ADVANCED),                        \
        INT("--expert-tensor-parallel-size", expert_tensor_parallel_size, NULL, 1, 1 << 20,                            \
            "tensor-parallel ranks that split an expert; default: --tensor-model-parallel-size", ADVANCED),            \
        SWITCH("--moe-shared-expert-gate", moe_shared_expert_gate,                                                     \
               "multiply the output of shared experts by the sigmoid of a learned gate, as in Qwen2-MoE", ADVANCED),

#endif
