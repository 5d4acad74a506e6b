// `return bad_data("%s: byte %…: what; remedy", …)`: the error of a dataset that is damaged or does not fit the
// run, for which the program has an exit code of its own.
#ifndef DATA_BAD_DATA_H
#define DATA_BAD_DATA_H

#include "base/error.h"

#define bad_data(...) error_set_code(EXIT_CODE_BAD_DATA, __VA_ARGS__)

#endif
