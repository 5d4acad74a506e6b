// `return bad_data("%s: byte %…: what; remedy", …)`: reports a dataset that is damaged or does not fit the run. The
// program has a separate exit code for these errors.
#ifndef DATA_BAD_DATA_H
#define DATA_BAD_DATA_H

#include "base/error.h"

#define bad_data(...) error_set_code(EXIT_CODE_BAD_DATA, __VA_ARGS__)

#endif
