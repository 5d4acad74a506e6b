// layer: config
// Faults as text (--inject) from hostile bytes: what is accepted has a place that can be reached and a kind that fits
// it. The same bytes as a record of faults: whatever it holds, it is read without a crash.
#include "fuzz.h"

#include "base/log.h"
#include "base/memory.h"
#include "config/inject.h"
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static void try_record(const uint8_t *data, size_t size, const struct fault *fault) {
    char path[64];
    int descriptor = memfd_create("fuzz", 0);
    if (descriptor < 0 || write(descriptor, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    CHECK(fault_open(fault, 1, 0, path) == 0);
    fault_close(true);
    close(descriptor);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = memory_printf("%.*s", (int)size, size > 0 ? (const char *)data : "");
    struct fault fault = {.kind = FAULT_SLOW, .text = "kill:rank=0"};
    log_set_level(LOG_ERROR);
    try_record(data, size, &fault);
    if (inject_parse(text, &fault) == 0) {
        CHECK(fault_fits(fault.kind, fault.phase) && fault.rank >= -1 && fault.first >= 0);
        CHECK(fault.first <= fault.last && fault.call >= 1 && fault.times >= 1);
        CHECK(strcmp(fault.text, text) == 0);
    }
    free(text);
    return 0;
}
