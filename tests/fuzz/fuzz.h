// Common code of fuzz targets: a broken invariant must look like a crash, so that libFuzzer keeps the input. Include it
// once per target; the target defines LLVMFuzzerTestOneInput.
#ifndef TESTS_FUZZ_FUZZ_H
#define TESTS_FUZZ_FUZZ_H

#include "base/error.h"
#include "base/file.h"
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

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

static char fuzz_folder_path[64];

static inline void fuzz_remove_folder(void) {
    (void)file_remove_tree(fuzz_folder_path);
}

// A folder of this process, in memory if the system has such a place, removed when the process ends.
static inline const char *fuzz_folder(void) {
    if (fuzz_folder_path[0])
        return fuzz_folder_path;
    memcpy(fuzz_folder_path, "/dev/shm/bevatron-fuzz-XXXXXX", 30);
    if (!mkdtemp(fuzz_folder_path)) {
        memcpy(fuzz_folder_path, "/tmp/bevatron-fuzz-XXXXXX", 26);
        if (!mkdtemp(fuzz_folder_path))
            abort();
    }
    (void)atexit(fuzz_remove_folder);
    return fuzz_folder_path;
}

#endif
