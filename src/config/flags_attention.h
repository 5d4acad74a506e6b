// The rows of flags that say what a token attends to and how. A part of the table in flags.c.
#ifndef CONFIG_FLAGS_ATTENTION_H
#define CONFIG_FLAGS_ATTENTION_H

#define ATTENTION_ROWS                                                                                                 \
    INT("--sliding-window", sliding_window, "0", 0, MOST_TOKENS,                                                       \
        "number of last tokens that a token attends to, itself included; 0 for all", ADVANCED),                        \
        TEXT("--window-size", window_size, NULL, "LEFT,0",                                                             \
             "--sliding-window as Megatron-LM counts it: tokens before a token, so one less; -1,0 for all", ADVANCED), \
        TEXT("--window-attn-skip-freq", window_attn_skip_freq, NULL, "N|LIST",                                         \
             "layers with the window: all but every N-th, or a list, e.g. [1]*5+[0]; default: all", ADVANCED),         \
        REAL("--rotary-base-local", rotary_base_local, "0", 0, 1e12,                                                   \
             "base of rotary positions in layers with the window, never scaled, as in Gemma 3; 0: as in the others",   \
             ADVANCED),                                                                                                \
        REAL("--attn-logit-softcapping", attn_logit_softcapping, "0", 0, 1e6,                                          \
             "soft cap of attention scores: cap * tanh(score / cap), as in Gemma 2; 0 for none", ADVANCED),            \
        REAL("--final-logit-softcapping", final_logit_softcapping, "0", 0, 1e6,                                        \
             "soft cap of the logits, as in Gemma 2; 0 for none", ADVANCED),                                           \
        CHOICE(                                                                                                        \
            "--softmax-type", softmax_type, "vanilla", ONE_OF("vanilla", "off-by-one", "learnable"),                   \
            "softmax of attention: learnable gives each head a score without a value, as in gpt-oss; off-by-one is "   \
            "not supported",                                                                                           \
            ADVANCED),                                                                                                 \
        SWITCH("--multi-latent-attention", multi_latent_attention,                                                     \
               "latent attention, as in DeepSeek-V2 and V3: keys and values are computed from a narrow latent, which " \
               "is all that generation keeps"),                                                                        \
        INT("--q-lora-rank", q_lora_rank, "0", 0, 1 << 20,                                                             \
            "latent attention: width of the latent of queries; 0 for none", ADVANCED),                                 \
        INT("--kv-lora-rank", kv_lora_rank, "32", 1, 1 << 20,                                                          \
            "latent attention: width of the latent of keys and values", ADVANCED),                                     \
        INT("--qk-head-dim", qk_head_dim, "128", 1, 1 << 16,                                                           \
            "latent attention: channels of a head's queries and keys without positions", ADVANCED),                    \
        INT("--qk-pos-emb-head-dim", qk_pos_emb_head_dim, "64", 2, 1 << 12,                                            \
            "latent attention: channels of a head's queries and keys with rotary positions; heads share those of "     \
            "keys",                                                                                                    \
            ADVANCED),                                                                                                 \
        INT("--v-head-dim", v_head_dim, "128", 1, 1 << 16, "latent attention: channels of a head's values", ADVANCED), \
        CHOICE("--rope-type", rope_type, NULL, ONE_OF("rope", "yarn"),                                                 \
               "latent attention: rotary positions without or with YaRN; default: yarn", ADVANCED),                    \
        REAL("--rotary-scaling-factor", rotary_scaling_factor, "1.0", 1, 1e6,                                          \
             "latent attention: YaRN's factor; 1 changes nothing", ADVANCED),                                          \
        INT("--original-max-position-embeddings", original_max_position_embeddings, "4096", 1, MOST_TOKENS,            \
            "latent attention: context length before YaRN", ADVANCED),                                                 \
        REAL("--mscale", mscale, "1.0", 0, 1e6,                                                                        \
             "latent attention with YaRN: coefficient of the growth of channels with positions", ADVANCED),            \
        REAL("--mscale-all-dim", mscale_all_dim, "0.0", 0, 1e6,                                                        \
             "latent attention with YaRN: coefficient of the growth of all channels", ADVANCED),                       \
        REAL("--latent-norm-epsilon", latent_norm_epsilon, "0", 0, 1,                                                  \
             "latent attention: epsilon of the norms of latents, which is 1e-6 in transformers; 0: --norm-epsilon",    \
             ADVANCED),                                                                                                \
        SWITCH("--latent-rotary-halves", latent_rotary_halves,                                                         \
               "latent attention: rotary positions turn channel i with channel i + half, not neighbours")

#endif
