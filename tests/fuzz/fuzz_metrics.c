// layer: report
// metrics.jsonl from hostile bytes: the steps of curves increase and values are finite, and a reopened file ends in a
// complete line.
#include "fuzz.h"

#include "report/metrics_file.h"
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

static void check_history(const char *path) {
    struct metrics_history history;
    if (metrics_history_read(&history, path) < 0)
        return;
    for (size_t i = 0; i < history.count; i++) {
        const struct metrics_curve *curve = &history.curves[i];
        for (size_t j = 0; j < curve->count; j++)
            CHECK(isfinite(curve->y[j]) && (j == 0 || curve->x[j] > curve->x[j - 1]));
    }
    metrics_history_free(&history);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    int descriptor = memfd_create("fuzz", 0);
    if (descriptor < 0 || write(descriptor, data, size) != (ssize_t)size)
        abort();
    char path[64], last = '\n';
    snprintf(path, sizeof path, "/proc/self/fd/%d", descriptor);
    check_history(path);
    struct metrics_file file;
    if (metrics_file_open(&file, path) == 0) {
        off_t end = lseek(descriptor, 0, SEEK_END);
        CHECK(end <= (off_t)size && (end == 0 || pread(descriptor, &last, 1, end - 1) == 1));
        CHECK(last == '\n');
        metrics_file_close(&file);
        check_history(path);
    }
    close(descriptor);
    return 0;
}
