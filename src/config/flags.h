// The names that lead to no row of flags.c by themselves, and that it puts into its table.
#ifndef CONFIG_FLAGS_H
#define CONFIG_FLAGS_H

#include "config/flag.h"

extern const struct flag_alias flags_aliases[];     // of flags_aliases.c; ends with a row without a name
extern const struct flag_synonym flags_synonyms[];  // of flags_synonyms.c, the same
// Of flags_groups.c.
enum { FLAGS_GROUP_COUNT = 17 };
extern const struct flag_names flags_groups[FLAGS_GROUP_COUNT];

// Megatron's flags without a row, from flags_megatron.c; spaces separate them.
extern const char flags_always_so[];
extern const char flags_only_speed[];
extern const char flags_no_meaning[];
extern const char flags_finer[];
extern const char flags_sharding[];
extern const char flags_other_models[];
extern const char flags_torchrun[];
extern const char flags_refused[];

// Those of Megatron's forks, from flags_forks.c.
extern const char flags_forks_always_so[];
extern const char flags_forks_only_speed[];
extern const char flags_forks_no_meaning[];
extern const char flags_forks_other_models[];
extern const char flags_finetuning[];
extern const char flags_pai_tokenizer[];
extern const char flags_deepspeed_checkpoint[];
extern const char flags_deepspeed_experts[];
extern const char flags_distillation[];

#endif
