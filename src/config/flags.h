// The names without a row that flags_megatron.c lists and flags.c puts into the table. Blanks separate them.
#ifndef CONFIG_FLAGS_H
#define CONFIG_FLAGS_H

extern const char flags_always_so[];
extern const char flags_only_speed[];
extern const char flags_no_meaning[];
extern const char flags_refused[];

#endif
