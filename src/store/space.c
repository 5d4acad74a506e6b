// Checks for free space before a save: a disk that fills up halfway wastes the time and may also stop the logs.
#include "store/space.h"

#include "base/error.h"
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/resource.h>

enum { BESIDES_BYTES = 1 << 20 };  // the small files, folders and the file system's own blocks

enum { SIZE_BYTES = 32 };

// Three digits suit models of every size: 524 kB, 1.57 MB, 85.3 GB.
static void describe(uint64_t bytes, char text[SIZE_BYTES]) {
    static const char *const units[] = {"kB", "MB", "GB", "TB", "PB"};
    if (bytes < 1000) {
        snprintf(text, SIZE_BYTES, "%" PRIu64 " bytes", bytes);
        return;
    }
    double value = (double)bytes / 1e3;
    size_t unit = 0;
    for (; value >= 999.5 && unit + 1 < sizeof units / sizeof units[0]; unit++)
        value /= 1e3;
    snprintf(text, SIZE_BYTES, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[unit]);
}

int space_check(const char *folder, uint64_t bytes, uint64_t available) {
    uint64_t needed;
    if (!__builtin_add_overflow(bytes, BESIDES_BYTES, &needed) && needed <= available)
        return 0;
    char files[SIZE_BYTES], besides[SIZE_BYTES], free_space[SIZE_BYTES], missing[SIZE_BYTES];
    describe(bytes, files);
    describe(BESIDES_BYTES, besides);
    describe(available, free_space);
    describe(needed - available, missing);
    // The difference is printed separately: two nearly equal sizes look the same in three digits.
    return error_set("cannot save a checkpoint to %s: its files need %s plus %s, but %s are free, %s too few; remove "
                     "old checkpoints (--keep-last does so automatically), or give another --save",
                     folder, files, besides, free_space, missing);
}

int space_check_limit(const char *folder, uint64_t bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) < 0 || limit.rlim_cur == RLIM_INFINITY || bytes <= (uint64_t)limit.rlim_cur)
        return 0;
    char file[SIZE_BYTES], most[SIZE_BYTES];
    describe(bytes, file);
    describe((uint64_t)limit.rlim_cur, most);
    return error_set("cannot save a checkpoint to %s: its largest file has %s, but this process may write files of %s; "
                     "raise the limit (ulimit -f), or split the checkpoint with --ckpt-writers",
                     folder, file, most);
}
