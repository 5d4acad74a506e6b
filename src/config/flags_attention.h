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
            ADVANCED)

#endif
