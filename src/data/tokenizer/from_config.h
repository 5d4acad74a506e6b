// The tokenizer that a run's flags name.
#ifndef DATA_TOKENIZER_FROM_CONFIG_H
#define DATA_TOKENIZER_FROM_CONFIG_H

#include "config/config.h"
#include "data/tokenizer/tokenizer.h"

// Everything that a configuration says about its tokenizer. The strings remain the configuration's.
struct tokenizer_options tokenizer_options_of(const struct config *config);

#endif
