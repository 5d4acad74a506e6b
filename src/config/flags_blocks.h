// The rows of flags that arrange a block: its norms, residual additions, positions and activations; and of those behind
// the last layer. A part of the table in flags.c.
#ifndef CONFIG_FLAGS_BLOCKS_H
#define CONFIG_FLAGS_BLOCKS_H

#define BLOCK_ROWS                                                                                                     \
    SWITCH("--apply-layernorm-1p", apply_layernorm_1p,                                                                 \
           "store the gains of norms as gain - 1, which is more exact in 16 bits", ADVANCED),                          \
        SWITCH("--no-norm-bias", no_norm_bias, "LayerNorms without biases, as in Command R", ADVANCED),                \
        SWITCH("--embed-layernorm", embed_layernorm, "normalize word embeddings, as in BLOOM", ADVANCED),              \
        SWITCH("--qk-layernorm", qk_layernorm, "normalize each head's queries and keys before rope, as in Qwen3",      \
               ADVANCED),                                                                                              \
        SWITCH("--qk-layernorm-all-heads", qk_layernorm_all_heads,                                                     \
               "with --qk-layernorm: one norm over all queries and one over all keys of a token, as in OLMo 2",        \
               ADVANCED),                                                                                              \
        SWITCH("--qk-layernorm-per-head", qk_layernorm_per_head,                                                       \
               "with --qk-layernorm: each head has gains of its own, and no biases, as in Command R+", ADVANCED),      \
        SWITCH("--qk-layernorm-after-rope", qk_layernorm_after_rope,                                                   \
               "with --qk-layernorm: normalize queries and keys after rope, as in Hunyuan", ADVANCED),                 \
        CHOICE(                                                                                                        \
            "--norm-placement", norm_placement, "pre", ONE_OF("pre", "post", "output", "both"),                        \
            "norm before each sublayer, after its residual as in BERT (post), of its result as in OLMo 2 (output), "   \
            "or both as in Gemma 2",                                                                                   \
            ADVANCED),                                                                                                 \
        SWITCH("--parallel-residual", parallel_residual,                                                               \
               "attention and MLP of a layer read the same input and are added together, as in GPT-NeoX", ADVANCED),   \
        SWITCH("--parallel-residual-one-norm", parallel_residual_one_norm,                                             \
               "with --parallel-residual: attention and MLP also share one norm, as in Phi and GPT-J", ADVANCED),      \
        REAL("--embedding-multiplier", embedding_multiplier, "1", 0, 1e6,                                              \
             "multiply word embeddings by this, as in Granite; 0: the root of --hidden-size, as in Gemma", ADVANCED),  \
        REAL("--residual-multiplier", residual_multiplier, "1", 0, 1e6,                                                \
             "multiply the result of each sublayer by this before it is added, as in Granite",                         \
             .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),                                                                  \
        REAL("--logits-scaling", logits_scaling, "1", 0, 1e6, "divide logits by this, as in Granite",                  \
             .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),                                                                  \
        INT("--no-rope-freq", no_rope_freq, "0", 0, MOST_LAYERS,                                                       \
            "every N-th layer has no rotary positions, as in SmolLM3; 0 for none", ADVANCED),                          \
        INT("--mtp-num-layers", mtp_num_layers, "0", 0, CONFIG_MOST_DEPTHS,                                            \
            "multi-token prediction: also predict N tokens beyond the next, with one more layer each"),                \
        REAL("--mtp-loss-scaling-factor", mtp_loss_scaling_factor, "0.1", 0, 1e6,                                      \
             "weight of the mean of those losses in the gradients", ADVANCED)

// How an MLP activates.
#define MLP_ROWS                                                                                                       \
    SWITCH("--swiglu", swiglu, "gated MLP with SiLU (SwiGLU) instead of GELU"),                                        \
        SWITCH("--squared-relu", squared_relu, "MLP with squared ReLU instead of GELU", ADVANCED),                     \
        SWITCH("--quick-geglu", quick_geglu, "gated MLP with the quick GELU, x * sigmoid(1.702 x), as in gpt-oss",     \
               ADVANCED),                                                                                              \
        REAL("--glu-linear-offset", glu_linear_offset, "0", -1e6, 1e6,                                                 \
             "gated MLP: add this to what the activation multiplies, as in gpt-oss (1)", ADVANCED),                    \
        REAL(                                                                                                          \
            "--activation-func-clamp-value", activation_func_clamp_value, NULL, 0, 1e6,                                \
            "gated MLP: bound the activation's input above, and what it multiplies on both sides; default: no bounds", \
            .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),                                                                   \
        CHOICE("--activation", activation, NULL, ACTIVATIONS,                                                          \
               "activation of the MLP; default: gelu_tanh, or gelu without biases or bias-GELU fusion", ADVANCED),     \
        CHOICE("--lm-head-activation", lm_head_activation, NULL, ACTIVATIONS,                                          \
               "activation of BERT's head; default: that of the MLP", ADVANCED),                                       \
        SWITCH("--gated-linear-unit", gated_linear_unit, "gated MLP: the activation multiplies a second projection",   \
               ADVANCED)

#endif
