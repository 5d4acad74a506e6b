// The spans of a planned step, and their trace. See timeline.h.
#include "plan/timeline.h"
#include "base/memory.h"
#include "report/trace_file.h"
#include "step/spans.h"

#include <stdlib.h>

static void see_span(void *context, const struct schedule_span *span) {
    struct timeline *timeline = context;
    if (span->end <= span->start)
        return;
    MEMORY_GROW(timeline->spans, timeline->count, timeline->capacity);
    timeline->spans[timeline->count++] = *span;
}

struct schedule_watcher timeline_watcher(struct timeline *timeline) {
    *timeline = (struct timeline){0};
    return (struct schedule_watcher){see_span, timeline};
}

void timeline_free(struct timeline *timeline) {
    free(timeline->spans);
    *timeline = (struct timeline){0};
}

struct timeline_row timeline_row(const struct timeline *timeline, const struct plan *plan, int stage) {
    struct timeline_row row = {0};
    for (size_t i = 0; i < timeline->count; i++)
        if (timeline->spans[i].stage == stage)
            row.busy += schedule_span_seconds(&timeline->spans[i]);
    row.idle = plan->seconds - row.busy;
    return row;
}

static void add_span(struct trace_file *file, const char *name, double start, double end) {
    trace_file_add(file, &(struct trace_event){.name = name,
                                               .start = start,
                                               .end = end,
                                               .iteration = 1,
                                               .micro_batch = -1,
                                               .chunk = -1,
                                               .kind = TRACE_IDLE,
                                               .track = TRACK_DEVICE});
}

static void add_item(struct trace_file *file, const struct schedule_span *span) {
    bool is_pass = span->item.work >= WORK_FORWARD && span->item.work <= WORK_BACKWARD_WEIGHT;
    trace_file_add(file, &(struct trace_event){.name = span_item_name(span->item.work),
                                               .start = span->start,
                                               .end = span->end,
                                               .iteration = 1,
                                               .micro_batch = is_pass ? span->item.micro_batch : -1,
                                               .chunk = is_pass ? span->item.chunk : -1,
                                               .kind = TRACE_COMPUTE,
                                               .track = TRACK_DEVICE});
}

// Adds the items of a stage and its waits for others between them.
static void add_stage(struct trace_file *file, const struct timeline *timeline, const struct plan *plan, int stage) {
    double at = 0;
    trace_file_add(file, &(struct trace_event){.start = 0,
                                               .end = plan->seconds,
                                               .iteration = 1,
                                               .micro_batch = -1,
                                               .chunk = -1,
                                               .kind = TRACE_ITERATION,
                                               .track = TRACK_ITERATIONS});
    for (size_t i = 0; i < timeline->count; i++) {
        const struct schedule_span *span = &timeline->spans[i];
        if (span->stage != stage)
            continue;
        if (span->start > at)
            add_span(file, "other stages", at, span->start);
        add_item(file, span);
        at = span->end;
    }
    if (plan->seconds > at)
        add_span(file, "other stages", at, plan->seconds);
}

void timeline_trace(const struct timeline *timeline, const struct plan *plan, const char *machine, struct buffer *out) {
    buffer_append_string(out, "[\n");
    for (int stage = 0; stage < plan->stages; stage++) {
        struct trace_file file;
        OWNED char *layout = memory_printf("pipeline %d", stage);
        trace_file_open_text(&file, &(struct trace_place){.rank = stage * (plan->ranks / plan->stages),
                                                          .host = machine,
                                                          .layout = plan->stages > 1 ? layout : "",
                                                          .has_device = true});
        add_stage(&file, timeline, plan, stage);
        trace_file_flush(&file);
        // Without the opening bracket.
        buffer_append(out, file.text.data + 2, file.text.length - 2);
        trace_file_close(&file);
    }
    // A last object without a comma ends the array.
    buffer_append_string(out, "{\"ph\":\"M\",\"pid\":0,\"name\":\"bevatron_plan\",\"args\":{}}\n]\n");
}
