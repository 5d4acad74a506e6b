// Bins that merge when there are too many. See pyramid.h.
#include "report/board/pyramid.h"

#include "base/error.h"
#include "base/memory.h"
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_BINS = 64, MOST_STRIDE = 1 << 30 };

const char *const board_x_names[BOARD_X_COUNT] = {"step", "time", "tokens", "flops"};

void pyramid_init(struct pyramid *pyramid, int limit) {
    *pyramid = (struct pyramid){.limit = limit, .stride = 1};
}

void pyramid_free(struct pyramid *pyramid) {
    for (int i = 0; i < pyramid->column_count; i++)
        free(pyramid->columns[i]);
    free(pyramid->columns);
    free(pyramid->bins);
    pyramid_init(pyramid, pyramid->limit);
}

static void resize(struct pyramid *pyramid, int capacity) {
    size_t bins = (size_t)capacity;
    pyramid->bins = memory_realloc(pyramid->bins, bins * sizeof pyramid->bins[0]);
    for (int i = 0; i < pyramid->column_count; i++)
        pyramid->columns[i] = memory_realloc(pyramid->columns[i], bins * sizeof pyramid->columns[i][0]);
    pyramid->capacity = capacity;
}

void pyramid_reserve(struct pyramid *pyramid, int bins) {
    int capacity = pyramid->capacity > 0 ? pyramid->capacity : FIRST_BINS;
    while (capacity < bins)
        capacity *= 2;
    resize(pyramid, capacity);
}

int pyramid_add_column(struct pyramid *pyramid) {
    if (pyramid->column_count == PYRAMID_MOST_COLUMNS)
        return -1;
    size_t count = (size_t)pyramid->column_count;
    if (pyramid->capacity == 0)
        resize(pyramid, FIRST_BINS);
    pyramid->columns = memory_realloc(pyramid->columns, (count + 1) * sizeof pyramid->columns[0]);
    pyramid->columns[count] = memory_alloc((size_t)pyramid->capacity * sizeof pyramid->columns[0][0]);
    return pyramid->column_count++;
}

void pyramid_join_cells(struct pyramid_cell *cell, const struct pyramid_cell *next) {
    if (next->count > 0) {
        bool is_first = cell->count == 0;
        cell->min = is_first || next->min < cell->min ? next->min : cell->min;
        cell->max = is_first || next->max > cell->max ? next->max : cell->max;
        cell->sum += next->sum;
        cell->count = cell->count > UINT32_MAX - next->count ? UINT32_MAX : cell->count + next->count;
    }
    if (next->count > 0 || isnan(next->last))
        cell->last = next->last;
}

static void join_bins(struct pyramid_bin *bin, const struct pyramid_bin *next) {
    uint64_t begin = bin->last.begin;
    uint32_t file = bin->last.file == next->last.file ? bin->last.file : PYRAMID_MIXED;
    bin->last = next->last;
    bin->last.begin = begin;
    bin->last.file = file;
    bin->count = bin->count > UINT32_MAX - next->count ? UINT32_MAX : bin->count + next->count;
}

static void merge(struct pyramid *pyramid) {
    int count = (pyramid->count + 1) / 2;
    for (int i = 0; i < count; i++) {
        pyramid->bins[i] = pyramid->bins[2 * i];
        if (2 * i + 1 < pyramid->count)
            join_bins(&pyramid->bins[i], &pyramid->bins[2 * i + 1]);
    }
    for (int column = 0; column < pyramid->column_count; column++) {
        struct pyramid_cell *cells = pyramid->columns[column];
        for (int i = 0; i < count; i++) {
            cells[i] = cells[2 * i];
            if (2 * i + 1 < pyramid->count)
                pyramid_join_cells(&cells[i], &cells[2 * i + 1]);
        }
    }
    pyramid->count = count;
    if (pyramid->stride < MOST_STRIDE)
        pyramid->stride *= 2;
}

static void add_bin(struct pyramid *pyramid) {
    if (pyramid->count >= pyramid->limit)
        merge(pyramid);
    if (pyramid->count == pyramid->capacity)
        resize(pyramid, pyramid->capacity ? pyramid->capacity * 2 : FIRST_BINS);
    int at = pyramid->count++;
    for (int i = 0; i < pyramid->column_count; i++)
        pyramid->columns[i][at] = (struct pyramid_cell){0};
}

void pyramid_add(struct pyramid *pyramid, const struct pyramid_place *place) {
    struct pyramid_bin *last = pyramid->count > 0 ? &pyramid->bins[pyramid->count - 1] : NULL;
    if (last && last->count < pyramid->stride && last->last.file == place->file) {
        uint64_t begin = last->last.begin;
        last->last = *place;
        last->last.begin = begin;
        last->count++;
        return;
    }
    add_bin(pyramid);
    pyramid->bins[pyramid->count - 1] = (struct pyramid_bin){.first_step = place->step, .last = *place, .count = 1};
}

// Values beyond the range of a float become its largest finite one.
static float near_float(double value) {
    if (value > (double)FLT_MAX)
        return FLT_MAX;
    return value < -(double)FLT_MAX ? -FLT_MAX : (float)value;
}

void pyramid_value(struct pyramid *pyramid, int column, double value) {
    struct pyramid_cell *cell = &pyramid->columns[column][pyramid->count - 1];
    if (!isfinite(value)) {
        cell->last = NAN;
        return;
    }
    float rounded = near_float(value);
    cell->min = cell->count == 0 || rounded < cell->min ? rounded : cell->min;
    cell->max = cell->count == 0 || rounded > cell->max ? rounded : cell->max;
    cell->last = rounded;
    cell->sum += value;
    cell->count += cell->count < UINT32_MAX;
}

bool pyramid_cut(struct pyramid *pyramid, int64_t step, struct pyramid_bin *torn) {
    bool is_torn = false;
    while (pyramid->count > 0 && pyramid->bins[pyramid->count - 1].last.step > step) {
        const struct pyramid_bin *bin = &pyramid->bins[--pyramid->count];
        if (bin->first_step <= step) {
            is_torn = true;
            *torn = *bin;
        }
    }
    return is_torn;
}

void pyramid_shrink(struct pyramid *pyramid, int limit) {
    pyramid->limit = limit;
    while (pyramid->count > limit)
        merge(pyramid);
    if (pyramid->capacity > limit)
        resize(pyramid, limit);
}

size_t pyramid_bytes(const struct pyramid *pyramid) {
    size_t columns = (size_t)pyramid->column_count;
    return (size_t)pyramid->capacity * (sizeof pyramid->bins[0] + columns * sizeof pyramid->columns[0][0]);
}

int64_t pyramid_last_step(const struct pyramid *pyramid) {
    return pyramid->count > 0 ? pyramid->bins[pyramid->count - 1].last.step : -1;
}

double pyramid_x(const struct pyramid_place *place, enum board_x x) {
    switch (x) {
    case BOARD_X_TIME:
        return place->time;
    case BOARD_X_TOKENS:
        return place->tokens;
    case BOARD_X_FLOPS:
        return place->flops;
    default:
        return (double)place->step;
    }
}

// The bins' x rise except where a clock was set back; then one bin too many is found, or one at the edge missing.
struct pyramid_range pyramid_find(const struct pyramid *pyramid, enum board_x x, double from, double to) {
    int low = 0, high = pyramid->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (pyramid_x(&pyramid->bins[middle].last, x) < from)
            low = middle + 1;
        else
            high = middle;
    }
    int begin = low;
    high = pyramid->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (pyramid_x(&pyramid->bins[middle].last, x) <= to)
            low = middle + 1;
        else
            high = middle;
    }
    // The bin after those that end within the range may begin in it, and one more leads out of the picture.
    int end = low + 2 < pyramid->count ? low + 2 : pyramid->count;
    return (struct pyramid_range){begin > 0 ? begin - 1 : 0, end};
}
