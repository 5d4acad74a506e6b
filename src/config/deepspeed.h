// What a configuration file of DeepSpeed (--deepspeed --deepspeed_config FILE) says about a run of Megatron-DeepSpeed.
// There DeepSpeed clips gradients, scales the loss and shards states as its file says, whatever Megatron's flags are,
// so here the file counts, too, with a note where a flag says something else. Its batch sizes and its precision must be
// those of the flags. Members that tune speed or logs are ignored; those that would change the run, and those that are
// not known, are refused by name.
#ifndef CONFIG_DEEPSPEED_H
#define CONFIG_DEEPSPEED_H

#include "config/config.h"

// Reads config->deepspeed_config if --deepspeed is given; config_apply_preset calls this.
int config_apply_deepspeed(struct config *config);
// The same for a file that has been read; errors call it `name`.
int deepspeed_apply(struct config *config, const struct json *file, const char *name);

#endif
