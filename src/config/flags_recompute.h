// The rows of flags about what is computed again or never kept. A part of the table in flags.c.
#ifndef CONFIG_FLAGS_RECOMPUTE_H
#define CONFIG_FLAGS_RECOMPUTE_H

#define RECOMPUTE_ROWS                                                                                                 \
    CHOICE("--recompute-granularity", recompute_granularity, NULL, ONE_OF("selective", "full"),                        \
           "recompute activations in the backward pass: attention (selective) or whole layers (full)"),                \
        CHOICE("--recompute-method", recompute_method, NULL, ONE_OF("uniform", "block"),                               \
               "which layers --recompute-granularity full covers", ADVANCED),                                          \
        INT("--recompute-num-layers", recompute_num_layers, NULL, 1, MOST_LAYERS, "layers per recomputed unit",        \
            ADVANCED),                                                                                                 \
        LIST("--recompute-modules", recompute_modules, "NAME…",                                                        \
             "parts that selective recompute covers: core_attn (the default), mlp_act, mlp, moe_act, moe, "            \
             "shared_experts, mla_up_proj, layernorm (norms, SwiGLU)",                                                 \
             ADVANCED),                                                                                                \
        SWITCH("--moe-layer-recompute", moe_layer_recompute,                                                           \
               "--recompute-granularity selective with moe beside the other --recompute-modules", ADVANCED),           \
        SWITCH("--distribute-saved-activations", distribute_saved_activations,                                         \
               "shard saved layer inputs over tensor-parallel ranks", ADVANCED),                                       \
        SWITCH("--recompute-keep-attention", recompute_keep_attention,                                                 \
               "--recompute-granularity full: keep the result of attention instead of computing it again"),            \
        SWITCH(                                                                                                        \
            "--cpu-offloading", cpu_offloading,                                                                        \
            "--recompute-granularity full: keep the inputs of layers in host memory, copied beside the computation",   \
            ADVANCED),                                                                                                 \
        INT("--cpu-offloading-num-layers", cpu_offloading_num_layers, "0", 0, MOST_LAYERS,                             \
            "layers behind the first whose inputs --cpu-offloading moves; 0 for all", ADVANCED),                       \
        INT("--logits-at-once", logits_at_once, "0", 0, MOST_TOKENS,                                                   \
            "compute the logits of N tokens at a time, and keep none; 0: of all tokens, or 1 GiB of logits at a time", \
            ADVANCED)

#endif
