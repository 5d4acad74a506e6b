// The rows of the flags that name parts of datasets, a part of the table in flags.c. Names and syntax are those of
// BigScience's Megatron-DeepSpeed.
#ifndef CONFIG_FLAGS_WEIGHTED_H
#define CONFIG_FLAGS_WEIGHTED_H

#define WEIGHTED_SPLIT_ROWS                                                                                            \
    LIST("--train-weighted-split-paths", train_weighted_split_paths, "GROUP",                                          \
         "\"NAME: WEIGHT START:END PATH, …\" for training: parts of datasets, shares from 0 to 1",                     \
         .has_phrases = true, ADVANCED),                                                                               \
        LIST("--valid-weighted-split-paths", valid_weighted_split_paths, "GROUP…",                                     \
             "the same for validation; each group is evaluated and reported by its name", .has_phrases = true,         \
             ADVANCED),                                                                                                \
        LIST("--test-weighted-split-paths", test_weighted_split_paths, "GROUP…", "the same for test",                  \
             .has_phrases = true, ADVANCED),                                                                           \
        TEXT("--train-weighted-split-paths-path", train_weighted_split_paths_path, NULL, "FILE",                       \
             "file with the group in double quotes", ADVANCED),                                                        \
        TEXT("--valid-weighted-split-paths-path", valid_weighted_split_paths_path, NULL, "FILE",                       \
             "file with the groups, each in double quotes", ADVANCED),                                                 \
        TEXT("--test-weighted-split-paths-path", test_weighted_split_paths_path, NULL, "FILE",                         \
             "file with the groups, each in double quotes", ADVANCED)

#endif
