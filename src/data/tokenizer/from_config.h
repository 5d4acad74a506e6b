// The tokenizer selected by a run's flags.
#ifndef DATA_TOKENIZER_FROM_CONFIG_H
#define DATA_TOKENIZER_FROM_CONFIG_H

#include "config/config.h"
#include "data/tokenizer/tokenizer.h"

// All tokenizer options of a configuration, which keeps ownership of the strings.
struct tokenizer_options tokenizer_options_of(const struct config *config);

#endif
