// The list of runs while long files are still being read: a small run of the first and the last lines of the file
// replaces the real one. It may not know all starts.
#include "report/board/run.h"

#include <string.h>

enum { LEAST_BYTES = 4 << 20, END_BYTES = 64 << 10 };

// Parses the whole lines in `size` bytes of the file at `begin`.
static void read_part(struct board_run *peek, const struct board_run *run, uint64_t begin, bool is_first) {
    struct buffer bytes = {0};
    if (run_read_bytes(run, 0, begin, END_BYTES, &bytes) == 0) {
        const char *newline = is_first ? NULL : memchr(bytes.data, '\n', END_BYTES);
        size_t skipped = newline ? (size_t)(newline + 1 - bytes.data) : 0;
        peek->files[0].offset = begin + skipped;
        (void)run_read_lines(peek, 0, bytes.data + skipped, END_BYTES - skipped);
    }
    buffer_free(&bytes);
}

void run_take_peek(struct board_run *run) {
    if (run->is_events || run->file_count != 1 || run->line_count > 0 || run->files[0].size < LEAST_BYTES)
        return;
    run_drop_peek(run);
    struct board_run *peek = run_new(run->path, run->name, false, PYRAMID_FEWEST_BINS);
    memcpy(peek->id, run->id, sizeof peek->id);
    run_add_file(peek, run->files[0].path);
    read_part(peek, run, 0, true);
    read_part(peek, run, run->files[0].size - END_BYTES, false);
    run->peek = peek;
}

void run_drop_peek(struct board_run *run) {
    if (run->peek)
        run_free(run->peek);
    run->peek = NULL;
}

const struct board_run *run_shown(const struct board_run *run) {
    return run->peek ? run->peek : run;
}
