// check_trace TRACE RANKS FIRST LAST METRICS: whether a merged trace is what a run of so many ranks did from iteration
// FIRST to LAST. On every track spans are apart or within each other; every rank has each iteration once, at the same
// time as the first rank; those of the first rank take as long as METRICS says. Prints which share of the iterations
// the items of the host fill, in percent, over all ranks: the rest is what a busy machine does between two items.
#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/memory.h"
#include "data/extract/reader.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREAD_ITERATIONS = 0, THREAD_HOST = 1 };

struct traced_span {
    int process, thread;
    double start, end;  // microseconds
    int64_t iteration;  // of an iteration's span; 0 for any other
    const char *kind;
};

struct traced_spans {
    struct traced_span *items;
    size_t count;
};

#define REQUIRE(condition, ...)                                                                                        \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            printf(__VA_ARGS__);                                                                                       \
            printf("\n");                                                                                              \
            exit(1);                                                                                                   \
        }                                                                                                              \
    } while (0)

static struct json *read_trace(const char *path) {
    struct reader *reader;
    struct buffer text = {0};
    struct json *root = NULL;
    char block[65536];
    REQUIRE(reader_open(&reader, path) == 0, "%s", error_message());
    for (int64_t got; (got = reader_read(reader, block, sizeof block)) > 0;)
        buffer_append(&text, block, (size_t)got);
    reader_close(reader);
    REQUIRE(json_parse(&root, buffer_string(&text), text.length, path) == 0, "%s", error_message());
    buffer_free(&text);
    return root;
}

static int compare(const void *a, const void *b) {
    const struct traced_span *x = a, *y = b;
    if (x->process != y->process)
        return x->process - y->process;
    if (x->thread != y->thread)
        return x->thread - y->thread;
    if (x->start != y->start)
        return x->start < y->start ? -1 : 1;
    return x->end > y->end ? -1 : x->end < y->end;
}

static struct traced_spans list_spans(const struct json *root) {
    const struct json *events = json_member(root, "traceEvents");
    REQUIRE(events && events->type == JSON_ARRAY, "no traceEvents");
    struct traced_spans spans = {.items = memory_alloc(sizeof *spans.items * (events->count + 1))};
    for (size_t i = 0; i < events->count; i++) {
        const struct json *event = &events->items[i];
        const char *phase, *name;
        double start, duration;
        int64_t process, thread;
        REQUIRE(json_get_string(event, "ph", &phase) == 0 && json_get_string(event, "name", &name) == 0 &&
                    json_get_int(event, "pid", &process) == 0,
                "event %zu: %s", i, error_message());
        if (strcmp(phase, "X") != 0)
            continue;
        struct traced_span *span = &spans.items[spans.count++];
        REQUIRE(json_get_double(event, "ts", &start) == 0 && json_get_double(event, "dur", &duration) == 0 &&
                    json_get_int(event, "tid", &thread) == 0 && json_get_string(event, "cat", &span->kind) == 0,
                "event %zu: %s", i, error_message());
        span->process = (int)process;
        span->thread = (int)thread;
        span->start = start;
        span->end = start + duration;
        if (thread == THREAD_ITERATIONS)
            REQUIRE(sscanf(name, "iteration %" SCNd64, &span->iteration) == 1, "\"%s\" is not an iteration", name);
    }
    qsort(spans.items, spans.count, sizeof *spans.items, compare);
    return spans;
}

// Spans are sorted by track and start: each begins after the last one that is not around it has ended.
static void check_tracks(const struct traced_spans *spans) {
    enum { MOST_DEPTH = 32 };
    const struct traced_span *around[MOST_DEPTH];
    int depth = 0;
    for (size_t i = 0; i < spans->count; i++) {
        const struct traced_span *span = &spans->items[i];
        if (i == 0 || span->process != span[-1].process || span->thread != span[-1].thread)
            depth = 0;
        while (depth > 0 && around[depth - 1]->end <= span->start)
            depth--;
        if (depth > 0)
            REQUIRE(span->end <= around[depth - 1]->end,
                    "spans of rank %d overlap on track %d: %.3f to %.3f, %.3f to %.3f", span->process, span->thread,
                    around[depth - 1]->start, around[depth - 1]->end, span->start, span->end);
        REQUIRE(depth < MOST_DEPTH, "spans of rank %d are too deep", span->process);
        around[depth++] = span;
    }
}

static const struct traced_span *find_iteration(const struct traced_spans *spans, int rank, int64_t iteration) {
    const struct traced_span *found = NULL;
    for (size_t i = 0; i < spans->count; i++) {
        const struct traced_span *span = &spans->items[i];
        if (span->process != rank || span->thread != THREAD_ITERATIONS || span->iteration != iteration)
            continue;
        REQUIRE(!found, "rank %d has iteration %" PRId64 " twice", rank, iteration);
        found = span;
    }
    REQUIRE(found, "rank %d has no iteration %" PRId64, rank, iteration);
    return found;
}

// The elapsed_ms that the line of an iteration says.
static double find_logged(const char *path, int64_t wanted) {
    struct buffer text = {0};
    double ms = NAN;
    REQUIRE(file_read_all(path, 1 << 24, &text) == 0, "%s", error_message());
    for (char *line = text.data, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        struct json *root = NULL;
        const char *kind;
        int64_t iteration;
        REQUIRE(json_parse(&root, line, (size_t)(end - line), path) == 0, "%s", error_message());
        if (json_get_string(root, "kind", &kind) == 0 && strcmp(kind, "train") == 0 &&
            json_get_int(root, "iteration", &iteration) == 0 && iteration == wanted)
            (void)json_get_double(root, "elapsed_ms", &ms);
        json_free(root);
    }
    buffer_free(&text);
    REQUIRE(!isnan(ms), "%s has no iteration %" PRId64, path, wanted);
    return ms;
}

// Fraction of an iteration covered by the outermost spans of the host.
static double sum_host(const struct traced_spans *spans, const struct traced_span *iteration) {
    double sum = 0, last = -INFINITY;
    for (size_t i = 0; i < spans->count; i++) {
        const struct traced_span *span = &spans->items[i];
        if (span->process != iteration->process || span->thread != THREAD_HOST || span->start < iteration->start ||
            span->end > iteration->end || span->start < last)
            continue;
        sum += span->end - span->start;
        last = span->end;
    }
    return sum;
}

static void require_kind(const struct traced_spans *spans, int rank, const char *kind) {
    bool is_there = false;
    for (size_t i = 0; i < spans->count; i++)
        is_there = is_there || (spans->items[i].process == rank && strcmp(spans->items[i].kind, kind) == 0);
    REQUIRE(is_there, "rank %d has no spans of kind %s", rank, kind);
}

int main(int argc, char **argv) {
    REQUIRE(argc == 6, "usage: check_trace TRACE RANKS FIRST LAST METRICS");
    int ranks = (int)strtol(argv[2], NULL, 10);
    int64_t first = strtol(argv[3], NULL, 10), last = strtol(argv[4], NULL, 10);
    struct json *root = read_trace(argv[1]);
    struct traced_spans spans = list_spans(root);
    check_tracks(&spans);
    double filled = 0, whole = 0;
    for (int rank = 0; rank < ranks; rank++) {
        for (int64_t i = first; i <= last; i++) {
            const struct traced_span *span = find_iteration(&spans, rank, i), *zero = find_iteration(&spans, 0, i);
            REQUIRE(span->start < zero->end && zero->start < span->end,
                    "iteration %" PRId64 " of rank %d is at another time than the first rank's", i, rank);
            double logged = find_logged(argv[5], i), traced = (span->end - span->start) / 1e3;
            REQUIRE(rank > 0 || fabs(logged - traced) < 0.001,
                    "iteration %" PRId64 " takes %.4f ms in the trace and %.4f ms in the log", i, traced, logged);
            filled += sum_host(&spans, span);
            whole += span->end - span->start;
        }
        require_kind(&spans, rank, "compute");
        require_kind(&spans, rank, "data");
        if (ranks > 1)
            require_kind(&spans, rank, "communication");
    }
    for (size_t i = 0; i < spans.count; i++)
        REQUIRE(spans.items[i].thread != THREAD_ITERATIONS ||
                    (spans.items[i].iteration >= first && spans.items[i].iteration <= last),
                "iteration %" PRId64 " was not to be profiled", spans.items[i].iteration);
    printf("%.0f\n", 100 * filled / whole);
    free(spans.items);
    json_free(root);
    return 0;
}
