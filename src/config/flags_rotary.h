// The rows of flags for rotary positions. A part of the table in flags.c.
#ifndef CONFIG_FLAGS_ROTARY_H
#define CONFIG_FLAGS_ROTARY_H

// Of --position-embedding-type: names of other programs.
#define REFUSED_POSITIONS                                                                                              \
    .refusals = (const struct flag_refusal[]) {                                                                        \
        {"rotary", "give rope, which pairs channels half a head apart, and --rotary-interleaved for neighbours"},      \
            {"mrope", "positions of images are not implemented; for text alone rope is the same"}, {                   \
            NULL, NULL                                                                                                 \
        }                                                                                                              \
    }

#define ROTARY_ROWS                                                                                                    \
    REAL("--rotary-base", rotary_base, "10000", 1, 1e18, "base of the rotary frequencies", ADVANCED),                  \
        REAL("--rotary-percent", rotary_percent, "1.0", 0, 1, "fraction of a head's channels that rope rotates",       \
             .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),                                                                  \
        SWITCH("--rotary-interleaved", rotary_interleaved, "rotate pairs (2j, 2j+1) instead of halves", ADVANCED),     \
        REAL("--rotary-seq-len-interpolation-factor", rotary_seq_len_interpolation_factor, "1", 0, 1e6,                \
             "divide rotary positions by this", .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),                               \
        SWITCH("--use-rope-scaling", use_rope_scaling,                                                                 \
               "scale rotary frequencies for longer contexts, as --rope-scaling-type says", ADVANCED),                 \
        CHOICE("--rope-scaling-type", rope_scaling_type, "llama3", ONE_OF("llama3", "yarn", "dynamic", "longrope"),    \
               "rope scaling: as in Llama 3.1, YaRN, dynamic (none up to --max-position-embeddings), LongRoPE",        \
               ADVANCED),                                                                                              \
        REAL(                                                                                                          \
            "--rope-scaling-factor", rope_scaling_factor, "8", 1, 1e6,                                                 \
            "factor of rope scaling; with longrope the default is --max-position-embeddings / --rope-original-length", \
            ADVANCED),                                                                                                 \
        REAL("--rope-low-freq-factor", rope_low_freq_factor, "1", 0, 1e6,                                              \
             "wavelengths above --rope-original-length / this are scaled in full", .bounds = FLAG_ABOVE_MINIMUM,       \
             ADVANCED),                                                                                                \
        REAL("--rope-high-freq-factor", rope_high_freq_factor, "4", 0, 1e6,                                            \
             "wavelengths below --rope-original-length / this are not scaled", .bounds = FLAG_ABOVE_MINIMUM,           \
             ADVANCED),                                                                                                \
        INT("--rope-original-length", rope_original_length, "8192", 1, MOST_TOKENS,                                    \
            "sequence length of the model before rope scaling, in tokens", ADVANCED),                                  \
        REAL("--yarn-beta-fast", yarn_beta_fast, "32", 0, 1e6,                                                         \
             "YaRN: channels with more rotations than this over the original length are not scaled",                   \
             .bounds = FLAG_ABOVE_MINIMUM, ADVANCED),                                                                  \
        REAL("--yarn-beta-slow", yarn_beta_slow, "1", 0, 1e6,                                                          \
             "YaRN: channels with fewer rotations than this are scaled in full", .bounds = FLAG_ABOVE_MINIMUM,         \
             ADVANCED),                                                                                                \
        SWITCH("--no-yarn-correction-range-round-to-int", no_yarn_correction_range_round_to_int,                       \
               "YaRN: do not round the channels between which scaling sets in, as in gpt-oss", ADVANCED),              \
        REAL("--yarn-attention-factor", yarn_attention_factor, "0", 0, 1e6,                                            \
             "YaRN and LongRoPE: multiply queries and keys by this; 0 for 1 + ln(factor) / 10 (YaRN) or "              \
             "sqrt(1 + ln(factor) / ln(original length)) (LongRoPE)",                                                  \
             ADVANCED),                                                                                                \
        TEXT("--rope-short-factor", rope_short_factor, NULL, "X,X,…",                                                  \
             "LongRoPE: a divisor for each pair of rotated channels, for sequences of at most "                        \
             "--rope-original-length tokens; default: all 1",                                                          \
             ADVANCED),                                                                                                \
        TEXT("--rope-long-factor", rope_long_factor, NULL, "X,X,…", "LongRoPE: the same for longer sequences",         \
             ADVANCED)

#endif
