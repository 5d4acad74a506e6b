// Lines about ranks. See ranks_line.h.
#include "report/ranks_line.h"
#include "base/memory.h"
#include "report/metrics_file.h"

#include <math.h>
#include <stdlib.h>

// To the microsecond: more digits are noise, and there may be many ranks.
static void key_ms(struct json_writer *json, const char *key, double ms) {
    json_key(json, key);
    json_double(json, round(ms * 1e3) / 1e3);
}

static void key_text(struct json_writer *json, const char *key, const char *text) {
    json_key(json, key);
    json_cstring(json, text);
}

static void write_rank(struct json_writer *json, const struct ranks_line_rank *rank) {
    json_begin_object(json);
    json_key(json, "rank");
    json_int(json, rank->rank);
    key_text(json, "host", rank->host);
    key_ms(json, "step_ms", rank->step_ms);
    key_ms(json, "wait_ms", rank->wait_ms);
    key_ms(json, "data_ms", rank->data_ms);
    if (rank->memory_bytes > 0) {
        json_key(json, "memory");
        json_int(json, rank->memory_bytes);
    }
    json_end_object(json);
}

static int compare_own(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

// The minimal own time of a listed rank; ties may list a few more.
static double find_limit(const struct ranks_line *line) {
    if (line->count <= RANKS_LINE_MOST)
        return -INFINITY;
    double *own = memory_alloc(sizeof *own * (size_t)line->count);
    for (int i = 0; i < line->count; i++)
        own[i] = line->ranks[i].step_ms - line->ranks[i].wait_ms;
    qsort(own, (size_t)line->count, sizeof *own, compare_own);
    double limit = own[RANKS_LINE_MOST - 1];
    free(own);
    return limit;
}

void ranks_line_write(struct buffer *out, const struct ranks_line *line) {
    struct json_writer json = {.out = out};
    double limit = find_limit(line);
    int omitted = 0;
    metrics_line_begin(&json, "ranks", line->wall_seconds, line->iteration);
    json_key(&json, "steps");
    json_int(&json, line->steps);
    json_key(&json, "ranks");
    json_begin_array(&json);
    for (int i = 0; i < line->count; i++) {
        bool is_listed = line->ranks[i].step_ms - line->ranks[i].wait_ms >= limit;
        if (is_listed)
            write_rank(&json, &line->ranks[i]);
        omitted += !is_listed;
    }
    json_end_array(&json);
    if (omitted > 0) {
        json_key(&json, "omitted");
        json_int(&json, omitted);
    }
    if (line->slow >= 0) {
        json_key(&json, "slow");
        json_begin_object(&json);
        json_key(&json, "rank");
        json_int(&json, line->ranks[line->slow].rank);
        key_text(&json, "host", line->ranks[line->slow].host);
        key_text(&json, "cause", line->slow_cause);
        key_text(&json, "text", line->slow_text);
        json_end_object(&json);
    }
    json_end_object(&json);
}
