// layer: report
// metrics.jsonl from hostile bytes: a reopened file ends in a complete line.
#include "fuzz.h"

#include "report/metrics_file.h"
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int descriptor = memfd_create("fuzz", 0);
    if (descriptor < 0 || write(descriptor, data, size) != (ssize_t)size)
        abort();
    char path[64], last = '\n';
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    CHECK(!isnan(metrics_file_last_step(path)));
    struct metrics_file file;
    if (metrics_file_open(&file, path) == 0) {
        off_t end = lseek(descriptor, 0, SEEK_END);
        CHECK(end <= (off_t)size && (end == 0 || pread(descriptor, &last, 1, end - 1) == 1));
        CHECK(last == '\n');
        metrics_file_close(&file);
        CHECK(!isnan(metrics_file_last_step(path)));
    }
    close(descriptor);
    return 0;
}
