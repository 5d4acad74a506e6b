// Shared by the fuzz targets of the board: a run over a file in memory, and the invariants of every run.
#ifndef TESTS_FUZZ_BOARD_RUN_H
#define TESTS_FUZZ_BOARD_RUN_H

#include "fuzz.h"
#include "report/board/run.h"
#include <math.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

// A file in memory; its path is /proc/self/fd/N.
static inline int board_memory_file(const void *bytes, size_t size, char path[64]) {
    int descriptor = memfd_create("fuzz", 0);
    if (descriptor < 0 || write(descriptor, bytes, size) != (ssize_t)size)
        abort();
    snprintf(path, 64, "/proc/self/fd/%d", descriptor);
    return descriptor;
}

static inline void board_read_all(struct board_run *run) {
    struct buffer scratch = {0};
    (void)run_look(run);
    while (run_read(run, 1 << 12, &scratch))
        ;
    buffer_free(&scratch);
}

static inline void board_check_pyramid(const struct board_run *run, const struct pyramid *pyramid) {
    CHECK(pyramid->count <= pyramid->limit && pyramid->count <= pyramid->capacity);
    for (int i = 0; i < pyramid->count; i++) {
        const struct pyramid_bin *bin = &pyramid->bins[i];
        CHECK(bin->count > 0 && bin->first_step >= 0 && bin->first_step <= bin->last.step);
        CHECK(i == 0 || bin->first_step >= pyramid->bins[i - 1].last.step);
        CHECK(bin->last.file == PYRAMID_MIXED || bin->last.end <= run->files[bin->last.file].offset);
    }
}

// Reads all bins again, as zooms would: none gives more lines than it stands for.
static inline void board_check_run(struct board_run *run) {
    static int column_of[RUN_MOST_TAGS];
    for (int group = 0; group < run->group_count; group++) {
        const struct pyramid *pyramid = &run->groups[group].pyramid;
        board_check_pyramid(run, pyramid);
        for (int i = 0; i < run->tag_count; i++)
            column_of[i] = run->tags[i].kind == RUN_TAG_CURVE && run->tags[i].group == group ? 0 : -1;
        for (int i = 0; i < pyramid->count && i < 8; i++) {
            struct pyramid rows;
            pyramid_init(&rows, INT32_MAX);
            pyramid_add_column(&rows);
            struct run_again again = {.group = group,
                                      .bin = &pyramid->bins[i],
                                      .before = i > 0 ? &pyramid->bins[i - 1].last : NULL,
                                      .last_step = pyramid->bins[i].last.step,
                                      .column_of = column_of,
                                      .into = &rows};
            (void)run_read_again(run, &again);
            for (int k = 1; k < rows.count; k++)
                CHECK(rows.bins[k].last.step >= rows.bins[k - 1].last.step);
            pyramid_free(&rows);
        }
    }
    for (int kind = 0; kind < RUN_MARK_KINDS; kind++) {
        for (int i = 0; i < run->marks[kind].count; i++)
            json_free(run_read_mark(run, &run->marks[kind].items[i]));
    }
    for (int i = 0; i < run->tag_count; i++)
        (void)run_last_value(run, i);
    for (int validation = 0; validation < 2; validation++)
        CHECK(run_loss_tag(run, validation) < run->tag_count);
    (void)run_state(run, 1e9);
    run_shrink(run, PYRAMID_FEWEST_BINS);
    for (int group = 0; group < run->group_count; group++)
        board_check_pyramid(run, &run->groups[group].pyramid);
}

#endif
