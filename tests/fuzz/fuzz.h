// What every fuzz target shares: a broken invariant must look like a crash, so that libFuzzer keeps the input.
// Include it once per target; the target defines LLVMFuzzerTestOneInput.
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include "base/error.h"
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_die(enum exit_code code) {
    (void)code;
    abort();
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    die_set_handler(fuzz_die);
    return 0;
}

#endif
