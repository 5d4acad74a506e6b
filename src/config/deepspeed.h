// DeepSpeed's configuration file (--deepspeed --deepspeed_config FILE) in a run of Megatron-DeepSpeed. There DeepSpeed
// clips gradients, scales the loss and shards states by its file, whatever Megatron's flags are, so here the file wins,
// too, with a note where a flag differs. Its batch sizes and its precision must equal those of the flags. Members that
// tune speed or logs are ignored; unknown members, and those that would change the run, are refused by name.
#ifndef CONFIG_DEEPSPEED_H
#define CONFIG_DEEPSPEED_H

#include "config/config.h"

// Reads config->machine.deepspeed_config if --deepspeed is given; config_apply_preset calls this.
int config_apply_deepspeed(struct config *config);
// Applies a file that has been read; errors call it `name`.
int deepspeed_apply(struct config *config, const struct json *file, const char *name);

#endif
