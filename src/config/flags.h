// The names that lead to no row of flags.c by themselves, and that it puts into its table.
#ifndef CONFIG_FLAGS_H
#define CONFIG_FLAGS_H

#include "config/flag.h"

extern const struct flag_alias flags_aliases[];     // of flags_aliases.c; ends with a row without a name
extern const struct flag_synonym flags_synonyms[];  // of flags_synonyms.c, the same

// Megatron's flags without a row, from flags_megatron.c; spaces separate them.
extern const char flags_always_so[];
extern const char flags_only_speed[];
extern const char flags_no_meaning[];
extern const char flags_finer[];
extern const char flags_sharding[];
extern const char flags_other_models[];
extern const char flags_torchrun[];
extern const char flags_refused[];

#endif
