// The functions of the completion scripts, around the fragments that come from tables of flags (config/flag_docs.h).
#ifndef CLI_COMPLETION_H
#define CLI_COMPLETION_H

#include "config/flag.h"

const char *completion_opening(enum flag_text shell);
const char *completion_closing(enum flag_text shell);

#endif
