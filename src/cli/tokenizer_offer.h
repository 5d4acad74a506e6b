// Text without a tokenizer: a person at a terminal is offered one that is trained on it.
#ifndef CLI_TOKENIZER_OFFER_H
#define CLI_TOKENIZER_OFFER_H

#include "config/config.h"

// Whether the run needs --tokenizer-type auto: its data is text, the flags and the preset name no tokenizer, and either
// the checkpoint that it resumes has one, which `auto` takes, or the person says yes. Asks only if `may_ask` and stdin
// and stderr are a terminal. 1, 0, or -1 on error: the answer is no, or the data does not exist.
int tokenizer_offer(const struct config *config, bool may_ask);

#endif
