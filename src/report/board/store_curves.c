// Curves as JSON. A query for all of a run, or a wide part of it, is answered from the pyramid; one for a narrow part
// reads the lines of that part again, if they are few enough to be read while a user waits.
#include "base/error.h"
#include "base/memory.h"
#include "report/board/internal.h"
#include "report/board/store.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Limit of bytes that one query may read again: about 30 ms on one core (2026-11, Neoverse V1).
enum { ZOOM_BYTES = 24 << 20, DEFAULT_POINTS = 500 };

struct curve_writer {
    struct buffer *out;
    const struct curve_query *query;
    const struct board_run *run;
    int points;
    size_t count;  // curves so far
};

static void append_point(struct buffer *out, double x, const struct pyramid_cell *cell) {
    enum { X_DIGITS = 15, EXACT_DIGITS = 9, MERGED_DIGITS = 7, VALUES = 4 };
    double mean = cell->count > 0 ? cell->sum / cell->count : (double)NAN;
    buffer_reserve(out, (VALUES + 1) * (NUMBER_MOST_BYTES + 1) + 2);
    char *at = out->data + out->length;
    *at++ = '[';
    at = number_write(at, x, X_DIGITS);
    if (cell->count == 1 && !isnan(cell->last)) {
        // A cell of one value also has it as a double.
        const char *text = at;
        *at++ = ',';
        at = number_write(at, mean, EXACT_DIGITS);
        size_t length = (size_t)(at - text);
        for (int i = 1; i < VALUES; i++, at += length)
            memcpy(at, text, length);
    } else {
        bool has_values = cell->count > 0;
        const double values[VALUES] = {(double)cell->last, has_values ? (double)cell->min : (double)NAN,
                                       has_values ? (double)cell->max : (double)NAN, mean};
        for (int i = 0; i < VALUES; i++) {
            *at++ = ',';
            at = number_write(at, values[i], MERGED_DIGITS);
        }
    }
    *at++ = ']';
    *at = '\0';
    out->length = (size_t)(at - out->data);
}

static bool is_empty(const struct pyramid_cell *cell) {
    return cell->count == 0 && !isnan(cell->last);
}

// Writes the bins of a range as at most `points` points; false if one of them stands for several values.
static bool append_points(const struct curve_writer *w, const struct pyramid *pyramid, int column,
                          struct pyramid_range range) {
    const struct pyramid_cell *cells = pyramid->columns[column];
    int64_t bins = 0, total = 0;
    for (int i = range.begin; i < range.end; i++)
        total += !is_empty(&cells[i]);
    bool is_exact = total <= w->points, has_points = false;
    int64_t points = is_exact ? total : w->points;
    struct pyramid_cell cell = {0};
    for (int i = range.begin; i < range.end; i++) {
        if (is_empty(&cells[i]))
            continue;
        is_exact = is_exact && pyramid->bins[i].count == 1;
        pyramid_join_cells(&cell, &cells[i]);
        // The bins of one point: those between two multiples of total / points.
        bins++;
        if (bins * points / total == (bins - 1) * points / total)
            continue;
        if (has_points)
            buffer_append_byte(w->out, ',');
        append_point(w->out, pyramid_x(&pyramid->bins[i].last, w->query->x), &cell);
        has_points = true;
        cell = (struct pyramid_cell){0};
    }
    return is_exact;
}

static void write_curve(struct curve_writer *w, int tag, const struct pyramid *pyramid, int column,
                        struct pyramid_range range) {
    struct json_writer json = {.out = w->out};
    if (w->count++ > 0)
        buffer_append_byte(w->out, ',');
    buffer_append_string(w->out, "{\"id\":");
    json_cstring(&json, w->run->id);
    buffer_append_string(w->out, ",\"tag\":");
    json.need_comma = false;
    json_cstring(&json, w->run->tags[tag].name);
    buffer_append_string(w->out, ",\"x\":");
    json.need_comma = false;
    json_cstring(&json, board_x_names[w->query->x]);
    buffer_append_string(w->out, ",\"points\":[");
    bool is_exact = append_points(w, pyramid, column, range);
    buffer_append_string(w->out, is_exact ? "],\"exact\":true}" : "],\"exact\":false}");
}

static struct pyramid_range range_of(const struct pyramid *pyramid, const struct curve_query *query) {
    if (!query->has_range)
        return (struct pyramid_range){0, pyramid->count};
    return pyramid_find(pyramid, query->x, query->from, query->to);
}

// Whether to read the lines of a range again: it is narrow, its bins stand for several lines, and these are few.
static bool is_worth_reading(const struct pyramid *pyramid, struct pyramid_range range, const struct curve_query *query,
                             uint64_t limit) {
    uint64_t bytes = 0;
    bool has_merged = false;
    if (!query->has_range)
        return false;
    for (int i = range.begin; i < range.end && bytes <= limit; i++) {
        const struct pyramid_bin *bin = &pyramid->bins[i];
        if (bin->last.file == PYRAMID_MIXED)
            return false;
        has_merged = has_merged || bin->count > 1;
        bytes += bin->last.end - bin->last.begin;
    }
    return has_merged && bytes <= limit;
}

// The lines of a range, one bin each.
static int read_rows(struct board_run *run, int group, struct pyramid_range range, const int *column_of,
                     struct pyramid *rows) {
    const struct pyramid *pyramid = &run->groups[group].pyramid;
    int result = 0;
    for (int i = range.begin; result == 0 && i < range.end; i++) {
        const struct pyramid_bin *bin = &pyramid->bins[i];
        struct run_again again = {.group = group,
                                  .bin = bin,
                                  .before = i > 0 ? &pyramid->bins[i - 1].last : NULL,
                                  .last_step = bin->last.step,
                                  .column_of = column_of,
                                  .into = rows};
        result = run_read_again(run, &again);
    }
    return result;
}

// All wanted tags of one group of a run.
static void write_group(struct curve_writer *w, struct board_run *run, int group, const bool *is_wanted,
                        uint64_t limit) {
    const struct pyramid *pyramid = &run->groups[group].pyramid;
    struct pyramid_range range = range_of(pyramid, w->query);
    int column_of[RUN_MOST_TAGS], wanted = 0;
    struct pyramid rows;
    pyramid_init(&rows, INT32_MAX);
    for (int i = 0; i < run->tag_count; i++) {
        bool is_here = is_wanted[i] && run->tags[i].group == group;
        column_of[i] = is_here ? wanted : -1;
        wanted += is_here;
    }
    if (wanted == 0)
        return;
    bool reads = is_worth_reading(pyramid, range, w->query, limit);
    if (reads) {
        for (int i = 0; i < wanted; i++)
            pyramid_add_column(&rows);
        reads = read_rows(run, group, range, column_of, &rows) == 0;
    }
    for (int i = 0; i < run->tag_count; i++) {
        if (column_of[i] < 0)
            continue;
        if (reads)
            write_curve(w, i, &rows, column_of[i], range_of(&rows, w->query));
        else
            write_curve(w, i, pyramid, run->tags[i].column, range);
    }
    pyramid_free(&rows);
}

static bool is_asked(const struct curve_query *query, const char *name) {
    for (size_t i = 0; i < query->tag_count; i++)
        if (strcmp(query->tags[i], name) == 0)
            return true;
    return query->tag_count == 0;
}

// Whether the run has positions of its lines on this axis.
static bool has_axis(const struct board_run *run, enum board_x x) {
    return (x != BOARD_X_TOKENS || run->summary.has_tokens) && (x != BOARD_X_FLOPS || run->summary.has_flops);
}

static void write_curves(struct curve_writer *w, struct board_run *run, uint64_t limit) {
    bool is_wanted[RUN_MOST_TAGS];
    run_lock(run);
    w->run = run;
    for (int i = 0; i < run->tag_count; i++)
        is_wanted[i] = run->tags[i].kind == RUN_TAG_CURVE && is_asked(w->query, run->tags[i].name);
    bool has = has_axis(run, w->query->x);
    for (int i = 0; has && i < run->group_count && w->count < BOARD_MOST_CURVES; i++)
        write_group(w, run, i, is_wanted, limit);
    run_unlock(run);
}

int board_store_curves(struct board_store *store, const struct curve_query *query, struct buffer *json) {
    OWNED struct board_run **runs = memory_alloc((query->id_count + 1) * sizeof runs[0]);
    int result = 0;
    for (size_t i = 0; result == 0 && i < query->id_count; i++) {
        runs[i] = store_find(store, query->ids[i]);
        result = runs[i] ? 0 : -1;
    }
    if (result == 0) {
        struct curve_writer w = {.out = json, .query = query, .points = query->points};
        w.points = w.points <= 0 ? DEFAULT_POINTS : w.points > BOARD_MOST_POINTS ? BOARD_MOST_POINTS : w.points;
        buffer_append_string(json, "{\"curves\":[");
        if (query->has_range)
            pthread_mutex_lock(&store->zoom);
        for (size_t i = 0; i < query->id_count; i++)
            write_curves(&w, runs[i], ZOOM_BYTES / query->id_count);
        if (query->has_range)
            pthread_mutex_unlock(&store->zoom);
        buffer_append_string(json, "]}");
    }
    return result;
}

// ---- numbers ----

// Decimal digits of a double by one multiplication.

enum { MOST_EXPONENT = 280, MOST_DIGITS = 15 };

static const double powers[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

static double power_of_ten(int exponent) {
    int size = exponent < 0 ? -exponent : exponent;
    double power = size < (int)(sizeof powers / sizeof powers[0]) ? powers[size] : pow(10, size);
    return exponent < 0 ? 1 / power : power;
}

// Number of digits of a whole number below 10^17.
static int digit_count(uint64_t number) {
    // 1233 / 4096 approximates the logarithm of 2, close enough for 64 bits: at most one too low.
    int count = (64 - __builtin_clzll(number | 1)) * 1233 >> 12;
    return count + (count == 0 || number >= (uint64_t)powers[count]);
}

// Writes the `count` digits of a number.
static void write_digits(char *text, uint64_t number, int count) {
    for (; count >= 2; count -= 2) {
        unsigned pair = (unsigned)(number % 100);
        number /= 100;
        text[count - 1] = (char)('0' + pair % 10);
        text[count - 2] = (char)('0' + pair / 10);
    }
    if (count == 1)
        text[0] = (char)('0' + number);
}

// The power of ten of the first digit; log10 would take longer than all the rest. Off by one at most, close to powers
// of ten that are not exact in a double.
static int decimal_exponent(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    int binary = (int)(bits >> 52) - 1023;
    // 78913 / 2^18 is the logarithm of 2; rounded down.
    int exponent = binary >= 0 ? binary * 78913 >> 18 : -((-binary * 78913 + (1 << 18) - 1) >> 18);
    if (exponent < -MOST_EXPONENT || exponent > MOST_EXPONENT)
        return exponent;
    return exponent + (value >= power_of_ten(exponent + 1));
}

// Writes digits with a point after the first exponent + 1 of them.
static char *write_point(char *text, const char *digits, int count, int exponent) {
    int whole = exponent < 0 ? 0 : exponent + 1, zeros = exponent < 0 ? -exponent - 1 : 0;
    int before = count < whole ? count : whole;
    memcpy(text, digits, (size_t)before);
    memset(text + before, '0', (size_t)(whole - before));
    text += whole;
    if (whole == 0)
        *text++ = '0';
    if (count <= whole)
        return text;
    *text++ = '.';
    memset(text, '0', (size_t)zeros);
    text += zeros;
    memcpy(text, digits + before, (size_t)(count - before));
    return text + count - before;
}

char *number_write(char *text, double value, int digits) {
    char figures[NUMBER_MOST_BYTES];
    if (!isfinite(value)) {
        memcpy(text, "null", 4);
        return text + 4;
    }
    if (value < 0) {
        *text++ = '-';
        value = -value;
    }
    if (value < 1e15 && value == (double)(uint64_t)value) {
        int count = digit_count((uint64_t)value);
        write_digits(text, (uint64_t)value, count);
        return text + count;
    }
    int exponent = decimal_exponent(value);
    if (exponent < -MOST_EXPONENT || exponent > MOST_EXPONENT)
        return text + snprintf(text, NUMBER_MOST_BYTES - 1, "%.*g", digits, value);
    uint64_t number = (uint64_t)(value * power_of_ten(digits - 1 - exponent) + 0.5);
    int count = digit_count(number);
    write_digits(figures, number, count);
    // Rounding may have added a digit.
    exponent += count - digits;
    while (count > 1 && figures[count - 1] == '0')
        count--;
    if (exponent >= -5 && exponent < MOST_DIGITS)
        return write_point(text, figures, count, exponent);
    text = write_point(text, figures, count, 0);
    return text + snprintf(text, 8, "e%d", exponent);
}

void number_append(struct buffer *out, double value, int digits) {
    buffer_reserve(out, NUMBER_MOST_BYTES);
    out->length = (size_t)(number_write(out->data + out->length, value, digits) - out->data);
    out->data[out->length] = '\0';
}
