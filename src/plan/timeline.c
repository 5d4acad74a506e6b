// The spans of a planned step, and their trace. See timeline.h.
#include "plan/timeline.h"
#include "base/memory.h"
#include "report/trace_file.h"
#include "step/spans.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

// ---- the picture ----

// Boxes that would be narrower than a pixel or two are drawn as one with
// their neighbours, so that a step of many thousand passes stays a small file.

enum { WIDTH = 1200, LEFT = 76, RIGHT = 16, TOP = 62, BOTTOM = 34, LEGEND_TOP = 40, GAP = 3, NARROW = 2 };

static const char WAITS_FILL[] = "#b2182b", IDLE_FILL[] = "#f0f0f0";

enum colour { FORWARD, BACKWARD, WEIGHTS, MIXED, GRADIENTS, UPDATE, OTHER, COLOURS };
static const struct {
    const char *fill, *name;
} colours[COLOURS] = {
    [FORWARD] = {"#6baed6", "forward"},
    [BACKWARD] = {"#fd8d3c", "backward"},
    [WEIGHTS] = {"#74c476", "gradients of weights"},
    [MIXED] = {"#c9a78f", "many passes and short waits"},
    [GRADIENTS] = {"#9e9ac8", "sums of gradients, norm"},
    [UPDATE] = {"#e377c2", "optimizer, new parameters"},
    [OTHER] = {"#969696", "other"},
};

static enum colour colour_of(enum work work) {
    switch (work) {
    case WORK_FORWARD:
        return FORWARD;
    case WORK_BACKWARD:
    case WORK_BACKWARD_INPUT:
        return BACKWARD;
    case WORK_BACKWARD_WEIGHT:
        return WEIGHTS;
    case WORK_REDUCE:
    case WORK_TOTALS:
    case WORK_CLIP:
        return GRADIENTS;
    case WORK_UPDATE:
    case WORK_GATHER:
        return UPDATE;
    default:
        return OTHER;
    }
}

struct timeline_drawing {
    struct buffer *out;
    double scale;           // pixels of a second
    double row;             // height
    double waits;           // fraction of a pass, on the current stage, spent waiting for collectives
    double drawn[COLOURS];  // pixels, on all stages
    bool has_waits;
    struct buffer boxes[COLOURS], strips, labels;  // of this stage
};

// In a pair, the forward is drawn above the backward.
enum half { WHOLE, UPPER, LOWER };

// A box that is not drawn yet.
struct box {
    double from, to;  // pixels; empty if they are equal
    enum colour colour;
    int micro_batch;  // -1 for none, or several
    enum half half;
};

static double row_height(int stages) {
    return stages <= 16 ? 26 : stages <= 32 ? 16 : 10;
}

// Waits of the passes divided by their time; later items wait for other things.
static double share_of_waits(const struct timeline *timeline, const struct plan *plan, int stage) {
    const double worth_drawing = 0.005;
    const struct plan_stage *kind = plan_stage_of(plan, stage);
    double passes = 0;
    for (size_t i = 0; i < timeline->count; i++) {
        const struct schedule_span *span = &timeline->spans[i];
        if (span->stage == stage && colour_of(span->item.work) <= WEIGHTS)
            passes += schedule_span_seconds(span);
    }
    double share = passes > 0 ? (kind->tensor + kind->context + kind->expert) / passes : 0;
    return share < worth_drawing ? 0 : fmin(share, 1);
}

static void append_text(struct buffer *out, const char *text) {
    for (; *text; text++) {
        unsigned char byte = (unsigned char)*text;
        const char *escape = byte == '<' ? "&lt;" : byte == '>' ? "&gt;" : byte == '&' ? "&amp;" : NULL;
        if (escape)
            buffer_append_string(out, escape);
        else
            buffer_append_byte(out, byte < ' ' ? ' ' : *text);
    }
}

// Appends a rectangle to a path: an element per box would be three times as long.
static void append_rectangle(struct buffer *path, double x, double y, double width, double height) {
    buffer_printf(path, "M%.1f %.1fh%.2fv%.1fH%.1fz", x, y, width, height, x);
}

static void draw_box(struct timeline_drawing *drawing, const struct box *box) {
    const double label_width = 18, label_height = 16, half_label_height = 10, strip = 0.3;
    double width = box->to - box->from, height = drawing->row - GAP, top = box->half == LOWER ? height / 2 : 0;
    if (width <= 0)
        return;
    drawing->drawn[box->colour] += width;
    height /= box->half == WHOLE ? 1 : 2;
    // A line between boxes that are wide enough for it.
    double drawn = width > 4 ? width - 0.6 : width, waits = drawn * drawing->waits;
    append_rectangle(&drawing->boxes[box->colour], box->from, top, drawn, height);
    if (drawing->waits > 0 && box->micro_batch >= 0) {
        append_rectangle(&drawing->strips, box->from + drawn - waits, top + height * (1 - strip), waits,
                         height * strip);
        drawing->has_waits = true;
    }
    if (box->micro_batch < 0 || width < label_width)
        return;
    if (box->half == WHOLE && drawing->row >= label_height)
        buffer_printf(&drawing->labels, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%d</text>\n",
                      box->from + drawn / 2, drawing->row / 2 + 2.5, box->micro_batch);
    if (box->half != WHOLE && height >= half_label_height)
        buffer_printf(&drawing->labels,
                      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" font-size=\"9\">%d</text>\n",
                      box->from + drawn / 2, top + height / 2 + 3, box->micro_batch);
}

static void write_path(struct timeline_drawing *drawing, struct buffer *path, const char *fill) {
    if (path->length > 0)
        buffer_printf(drawing->out, "<path fill=\"%s\" d=\"%s\"/>\n", fill, buffer_string(path));
    buffer_free(path);
}

// Writes the boxes of a stage; labels come last, so that they are on top.
static void write_boxes(struct timeline_drawing *drawing) {
    for (int i = 0; i < COLOURS; i++)
        write_path(drawing, &drawing->boxes[i], colours[i].fill);
    write_path(drawing, &drawing->strips, WAITS_FILL);
    buffer_append_string(drawing->out, buffer_string(&drawing->labels));
    buffer_free(&drawing->labels);
}

// Draws the pending box, or merges this one into it.
static void add_box(struct timeline_drawing *drawing, struct box *pending, struct box next) {
    const double near = 1;
    bool touches =
        pending->to > pending->from && next.from - pending->to < near && pending->half == WHOLE && next.half == WHOLE;
    if (touches && next.to - next.from < NARROW && (pending->micro_batch < 0 || pending->to - pending->from < NARROW)) {
        bool is_pass = next.colour <= MIXED && pending->colour <= MIXED;
        if (next.colour == pending->colour || is_pass) {
            pending->colour = next.colour == pending->colour ? next.colour : MIXED;
            pending->to = next.to;
            pending->micro_batch = -1;
            return;
        }
    }
    draw_box(drawing, pending);
    *pending = next;
}

// A pair too narrow for two halves is merged with its neighbours.
static enum half half_of(const struct timeline_drawing *drawing, const struct schedule_span *span) {
    bool is_drawn = span->item.is_paired && (span->end - span->start) * drawing->scale >= NARROW;
    return !is_drawn ? WHOLE : span->item.work == WORK_FORWARD ? UPPER : LOWER;
}

static void draw_stage(struct timeline_drawing *drawing, const struct timeline *timeline, const struct plan *plan,
                       int stage) {
    struct timeline_row row = timeline_row(timeline, plan, stage);
    struct box pending = {0};
    drawing->waits = share_of_waits(timeline, plan, stage);
    buffer_printf(drawing->out,
                  "<g id=\"stage-%d\" data-busy-ms=\"%.6f\" data-idle-ms=\"%.6f\" transform=\"translate(0 %.1f)\">\n"
                  "<title>stage %d: works %.1f ms, waits for others %.1f ms</title>\n"
                  "<rect x=\"%d\" width=\"%.2f\" height=\"%.1f\" fill=\"%s\"/>\n",
                  stage, row.busy * 1e3, row.idle * 1e3, TOP + stage * drawing->row, stage, row.busy * 1e3,
                  row.idle * 1e3, LEFT, plan->seconds * drawing->scale, drawing->row - GAP, IDLE_FILL);
    // Low rows have no room for all names.
    if (drawing->row >= 16 || stage % 4 == 0)
        buffer_printf(drawing->out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">stage %d</text>\n", LEFT - 8,
                      drawing->row / 2 + 2.5, stage);
    for (size_t i = 0; i < timeline->count; i++) {
        const struct schedule_span *span = &timeline->spans[i];
        // Inputs are loaded before every pass, in an invisibly short time.
        bool is_seen = colour_of(span->item.work) != OTHER || (span->end - span->start) * drawing->scale > 0.3;
        if (span->stage != stage || !is_seen)
            continue;
        bool is_pass = span->item.work >= WORK_FORWARD && span->item.work <= WORK_BACKWARD_WEIGHT;
        add_box(drawing, &pending,
                (struct box){.from = LEFT + span->start * drawing->scale,
                             .to = LEFT + span->end * drawing->scale,
                             .colour = colour_of(span->item.work),
                             .micro_batch = is_pass ? span->item.micro_batch : -1,
                             .half = half_of(drawing, span)});
    }
    draw_box(drawing, &pending);
    write_boxes(drawing);
    buffer_append_string(drawing->out, "</g>\n");
}

// Times at round steps: 1, 2 or 5 times a power of ten.
static void draw_axis(struct timeline_drawing *drawing, const struct plan *plan, double bottom) {
    const double ticks = 8, digits[] = {1, 2, 5, 10};
    double rough = plan->seconds / ticks, power = pow(10, floor(log10(rough))), step = power;
    for (size_t i = 0; i < sizeof digits / sizeof digits[0] && step < rough; i++)
        step = digits[i] * power;
    bool is_long = plan->seconds >= 10;
    buffer_append_string(drawing->out, "<g fill=\"#555\">\n");
    for (double at = 0; at <= plan->seconds * (1 + 1e-9); at += step)
        buffer_printf(drawing->out,
                      "<path d=\"M%.1f %.1f v5\" stroke=\"#999\"/><text x=\"%.1f\" y=\"%.1f\" "
                      "text-anchor=\"middle\">%.4g %s</text>\n",
                      LEFT + at * drawing->scale, bottom, LEFT + at * drawing->scale, bottom + 18,
                      is_long ? at : at * 1e3, is_long ? "s" : "ms");
    buffer_append_string(drawing->out, "</g>\n");
}

static void draw_key(struct timeline_drawing *drawing, double *x, const char *fill, const char *name) {
    buffer_printf(drawing->out,
                  "<rect x=\"%.1f\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\" stroke=\"#bbb\"/>"
                  "<text x=\"%.1f\" y=\"%d\">%s</text>\n",
                  *x, LEGEND_TOP, fill, *x + 17, LEGEND_TOP + 10, name);
    *x += 17 + 6.6 * (double)strlen(name) + 18;
}

static void draw_legend(struct timeline_drawing *drawing) {
    double x = LEFT;
    for (int i = 0; i < COLOURS; i++)
        if (drawing->drawn[i] > 1)
            draw_key(drawing, &x, colours[i].fill, colours[i].name);
    if (drawing->has_waits)
        draw_key(drawing, &x, WAITS_FILL, "share of it that waits for collectives");
    draw_key(drawing, &x, IDLE_FILL, "waiting for other stages");
}

void timeline_draw(const struct timeline *timeline, const struct plan *plan, const char *name, struct buffer *out) {
    struct timeline_drawing drawing = {
        .out = out, .scale = (WIDTH - LEFT - RIGHT) / plan->seconds, .row = row_height(plan->stages)};
    double bottom = TOP + plan->stages * drawing.row, height = bottom + BOTTOM;
    char title[160];
    bool is_long = plan->seconds >= 10;
    snprintf(title, sizeof title, "A planned step of %.1f %s: %d ranks, %d stage%s, %" PRId64 " micro-batches, ",
             is_long ? plan->seconds : plan->seconds * 1e3, is_long ? "s" : "ms", plan->ranks, plan->stages,
             plan->stages == 1 ? "" : "s", plan->micro_batches);
    buffer_printf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %.0f\" width=\"%d\" height=\"%.0f\" "
                  "font-family=\"sans-serif\" font-size=\"12\" data-step-ms=\"%.6f\">\n"
                  "<title>%s",
                  WIDTH, height, WIDTH, height, plan->seconds * 1e3, title);
    append_text(out, name);
    buffer_printf(out,
                  "</title>\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
                  "<text x=\"%d\" y=\"24\" font-size=\"15\">%s",
                  LEFT, title);
    append_text(out, name);
    buffer_append_string(out, "</text>\n");
    for (int stage = 0; stage < plan->stages; stage++)
        draw_stage(&drawing, timeline, plan, stage);
    draw_axis(&drawing, plan, bottom);
    draw_legend(&drawing);
    buffer_append_string(out, "</svg>\n");
}
