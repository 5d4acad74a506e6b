// Curves of any length in bounded memory. A pyramid has up to `limit` bins in the order of their steps; each stands for
// up to `stride` neighbouring lines of a file. When it is full, neighbours merge and the stride doubles. A bin knows
// its place on every x axis and its bytes in the file, so that a zoom can read its lines again without another index.
// The values of one line share a bin: each column has a cell per bin.
//
// Extremes survive all merging. A line that takes a curve back to an earlier step cuts off the curve beyond it.
#ifndef REPORT_BOARD_PYRAMID_H
#define REPORT_BOARD_PYRAMID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum board_x { BOARD_X_STEP, BOARD_X_TIME, BOARD_X_TOKENS, BOARD_X_FLOPS, BOARD_X_COUNT };
extern const char *const board_x_names[BOARD_X_COUNT];  // "step", "time", "tokens", "flops"

// PYRAMID_MOST_BINS is the finest resolution of a curve; a multiple of PYRAMID_FEWEST_BINS, which is even.
enum { PYRAMID_MOST_BINS = 4096, PYRAMID_FEWEST_BINS = 64, PYRAMID_MOST_COLUMNS = 256 };
// The file of a bin whose lines come from several files: they cannot be read again.
#define PYRAMID_MIXED UINT32_MAX

// Position of a line on the x axes and on disk. Unknown values are 0.
struct pyramid_place {
    int64_t step;
    double time, samples, tokens, flops;
    uint64_t begin, end;  // bytes [begin, end) of the file
    uint32_t file;
};

struct pyramid_bin {
    int64_t first_step;
    struct pyramid_place last;  // of the last line, except that `begin` is that of the first
    uint32_t count;             // lines
};

// A zeroed cell is empty: no line of the bin had this value. `last` is NAN if the last value was not finite; nothing
// else is kept of such values.
struct pyramid_cell {
    double sum;
    float last, min, max;
    uint32_t count;  // finite values
};

struct pyramid {
    struct pyramid_bin *bins;
    struct pyramid_cell **columns;  // [column][bin]
    int column_count;
    int count, capacity, limit;
    uint32_t stride;
};

void pyramid_init(struct pyramid *pyramid, int limit);
void pyramid_free(struct pyramid *pyramid);
// Makes room for this many bins, for a caller that fills them itself.
void pyramid_reserve(struct pyramid *pyramid, int bins);
// Adds a column of empty cells; returns its index, or -1 if there are too many.
int pyramid_add_column(struct pyramid *pyramid);
// Adds a line at a place beyond all others; cut first if it is not.
void pyramid_add(struct pyramid *pyramid, const struct pyramid_place *place);
// Adds a value of the line that was added last.
void pyramid_value(struct pyramid *pyramid, int column, double value);
// Drops everything beyond the step. A bin with lines on both sides of it is dropped too, copied to *torn, and the
// result is true: its lines up to the step have to be added again.
bool pyramid_cut(struct pyramid *pyramid, int64_t step, struct pyramid_bin *torn);
// Merges until there are at most `limit` bins, and never exceeds the limit afterwards.
void pyramid_shrink(struct pyramid *pyramid, int limit);
size_t pyramid_bytes(const struct pyramid *pyramid);
// The last step, or -1 if it is empty.
int64_t pyramid_last_step(const struct pyramid *pyramid);
double pyramid_x(const struct pyramid_place *place, enum board_x x);

// Adds to a cell another one that follows it.
void pyramid_join_cells(struct pyramid_cell *cell, const struct pyramid_cell *next);

// Bins [begin, end) that a range of x touches, and one more on each side.
struct pyramid_range {
    int begin, end;
};
struct pyramid_range pyramid_find(const struct pyramid *pyramid, enum board_x x, double from, double to);

#endif
