// The rows of the flags of fill-in-the-middle data, a part of the table in flags.c. Names and defaults are
// Megatron-LM's.
#ifndef CONFIG_FLAGS_FIM_H
#define CONFIG_FLAGS_FIM_H

#define FIM_ROWS                                                                                                       \
    SWITCH("--fim-data", fim_data, "GPT: move the middle of texts to their end (fill in the middle)"),                 \
        REAL("--fim-rate", fim_rate, "0.5", 0, 1, "with --fim-data: share of texts that are permuted", ADVANCED),      \
        REAL("--fim-spm-rate", fim_spm_rate, "0.5", 0, 1,                                                              \
             "with --fim-data: share of these with the suffix first instead of the prefix", ADVANCED),                 \
        TEXT("--fim-split-sample", fim_split_sample, NULL, "TOKEN",                                                    \
             "with --fim-data: token at which a text is split into fragments, permuted one by one", ADVANCED),         \
        REAL("--fim-fragment-rate", fim_fragment_rate, NULL, 0, 1,                                                     \
             "with --fim-split-sample: share of fragments that are permuted", ADVANCED),                               \
        TEXT("--fim-no-prefix", fim_no_prefix, NULL, "TEXT",                                                           \
             "with --fim-data: leave alone what begins with this text", ADVANCED),                                     \
        TEXT("--fim-prefix-token", fim_prefix_token, "<fim_prefix>", "TOKEN", "token before the prefix", ADVANCED),    \
        TEXT("--fim-middle-token", fim_middle_token, "<fim_middle>", "TOKEN", "token before the middle", ADVANCED),    \
        TEXT("--fim-suffix-token", fim_suffix_token, "<fim_suffix>", "TOKEN", "token before the suffix", ADVANCED),    \
        TEXT("--fim-pad-token", fim_pad_token, "<fim_pad>", "TOKEN", "token that fills samples up", ADVANCED),         \
        TEXT("--fim-eod-token", fim_eod_token, "<|endoftext|>", "TOKEN", "token that separates texts", ADVANCED)

#endif
