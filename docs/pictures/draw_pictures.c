// Draws the pictures of docs/parallelism.md as SVG, from the functions that training itself asks: schedules are played
// on paper, ranks are placed by the mesh, pieces by the optimizer's formula. usage: draw_pictures FOLDER
#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"
#include "base/memory.h"
#include "parallel/mesh.h"
#include "parallel/pieces.h"
#include "parallel/schedule.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const colours[] = {"#4c78a8", "#f58518", "#54a24b", "#e45756",
                                      "#72b7b2", "#b279a2", "#eeca3b", "#9d755d"};
enum { COLOURS = sizeof colours / sizeof colours[0] };

struct picture {
    struct buffer text;
};

static void begin(struct picture *picture, int width, int height, const char *title) {
    picture->text = (struct buffer){0};
    buffer_printf(&picture->text,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" "
                  "font-family=\"sans-serif\" font-size=\"12\">\n<title>%s</title>\n"
                  "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
                  width, height, width, height, title);
}

struct box {
    double x, y, width, height;
    const char *fill;
    double opacity;
};

static void draw_box(struct picture *picture, const struct box *box, const char *label) {
    buffer_printf(&picture->text,
                  "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" fill-opacity=\"%.2f\" "
                  "stroke=\"white\"/>\n",
                  box->x, box->y, box->width, box->height, box->fill, box->opacity);
    if (label && label[0])
        buffer_printf(&picture->text,
                      "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\" dominant-baseline=\"central\">%s</text>\n",
                      box->x + box->width / 2, box->y + box->height / 2, label);
}

static void draw_text(struct picture *picture, double x, double y, const char *text) {
    buffer_printf(&picture->text, "<text x=\"%.1f\" y=\"%.1f\">%s</text>\n", x, y, text);
}

static int end(struct picture *picture, const char *folder, const char *name) {
    buffer_append_string(&picture->text, "</svg>\n");
    char *path = file_join(folder, name);
    int status = file_write_all(path, picture->text.data, picture->text.length);
    buffer_free(&picture->text);
    free(path);
    return status;
}

// ---- schedules ----

enum { LEFT = 64, TOP = 30, ROW = 26, UNIT = 18 };

struct timeline {
    struct picture picture;
};

// Forward in one colour, backward in another, weights in a third; chunks after the first are paler. Only passes take
// time here.
static void see_item(void *context, const struct schedule_span *span) {
    struct timeline *timeline = context;
    if (span->end == span->start)
        return;
    const char *fill = span->item.work == WORK_FORWARD           ? colours[0]
                       : span->item.work == WORK_BACKWARD_WEIGHT ? colours[2]
                                                                 : colours[1];
    char label[16];
    (void)snprintf(label, sizeof label, "%d", span->item.micro_batch);
    draw_box(&timeline->picture,
             &(struct box){.x = LEFT + span->start * UNIT,
                           .y = TOP + span->stage * ROW,
                           .width = (span->end - span->start) * UNIT,
                           .height = ROW - 4,
                           .fill = fill,
                           .opacity = span->item.chunk == 0 ? 0.85 : 0.45},
             label);
}

struct plan {
    const char *file, *title;
    struct schedule_shape shape;
    struct schedule_cost cost;
};

static const char *legend_of(enum schedule_kind kind) {
    switch (kind) {
    case SCHEDULE_INTERLEAVED:
        return "blue: forward, orange: backward; paler: a stage's second chunk of layers";
    case SCHEDULE_ZERO_BUBBLE:
        return "blue: forward, orange: backward to the inputs, green: to the weights";
    default:
        return "blue: forward, orange: backward of a micro-batch";
    }
}

static int draw_schedule(const struct plan *plan, const char *folder) {
    struct schedule schedule;
    struct schedule_run run;
    TRY(schedule_build(&schedule, &plan->shape));
    TRY(schedule_simulate(&schedule, &plan->cost, &run, NULL));
    struct timeline timeline;
    begin(&timeline.picture, LEFT + (int)(run.seconds * UNIT) + 16, TOP + ROW * plan->shape.stages + 24, plan->title);
    char text[160];
    (void)snprintf(text, sizeof text, "%s: %.0f units, a stage idles %.0f of them", plan->title, run.seconds,
                   run.bubble);
    draw_text(&timeline.picture, 8, 18, text);
    for (int stage = 0; stage < plan->shape.stages; stage++) {
        (void)snprintf(text, sizeof text, "stage %d", stage);
        draw_text(&timeline.picture, 8, TOP + stage * ROW + 15, text);
    }
    int status = schedule_simulate(&schedule, &plan->cost, &run,
                                   &(struct schedule_watcher){.see = see_item, .context = &timeline});
    draw_text(&timeline.picture, LEFT, TOP + ROW * plan->shape.stages + 14, legend_of(plan->shape.kind));
    schedule_free(&schedule);
    TRY(status);
    return end(&timeline.picture, folder, plan->file);
}

// ---- ranks ----

// 16 ranks as tensor 2 × data 4 × pipeline 2: a colour for each group that shares layers.
static int draw_mesh(const char *folder) {
    enum { RANKS = 16, TENSOR = 2, PIPELINE = 2, CELL = 64 };
    struct picture picture;
    begin(&picture, 8 * CELL + 120, 2 * CELL + 90, "16 ranks: tensor 2, data 4, pipeline 2");
    draw_text(&picture, 8, 18, "16 ranks: tensor 2 × data 4 × pipeline 2; a colour is a tensor-parallel group");
    for (int rank = 0; rank < RANKS; rank++) {
        struct mesh mesh;
        TRY(mesh_place(&mesh, rank, RANKS, (int[AXIS_COUNT]){[AXIS_TENSOR] = TENSOR, [AXIS_PIPELINE] = PIPELINE}));
        int column = mesh.place[AXIS_TENSOR] + TENSOR * mesh.place[AXIS_DATA], row = mesh.place[AXIS_PIPELINE];
        char label[32];
        (void)snprintf(label, sizeof label, "rank %d", rank);
        draw_box(&picture,
                 &(struct box){.x = 100 + column * CELL,
                               .y = 44 + row * CELL,
                               .width = CELL - 4,
                               .height = CELL - 4,
                               .fill = colours[rank / TENSOR % COLOURS],
                               .opacity = 0.6},
                 label);
    }
    draw_text(&picture, 8, 80, "stage 0");
    draw_text(&picture, 8, 80 + CELL, "stage 1");
    for (int data = 0; data < RANKS / TENSOR / PIPELINE; data++) {
        char label[32];
        (void)snprintf(label, sizeof label, "data rank %d", data);
        draw_text(&picture, 120 + data * TENSOR * CELL, 38, label);
    }
    draw_text(&picture, 100, 2 * CELL + 66, "activations travel down; gradients of weights are summed along a row");
    return end(&picture, folder, "mesh.svg");
}

// ---- strips of a sequence ----

static int draw_context(const char *folder) {
    enum { RANKS = 4, STRIPS = 2 * RANKS, CELL = 28 };
    struct picture picture;
    begin(&picture, STRIPS * CELL + 330, STRIPS * CELL + 70, "strips of a sequence on 4 context-parallel ranks");
    draw_text(&picture, 8, 18,
              "causal attention of one sequence on 4 context-parallel ranks: queries down, keys across");
    for (int query = 0; query < STRIPS; query++)
        for (int key = 0; key < STRIPS; key++) {
            int rank = query < RANKS ? query : STRIPS - 1 - query;
            draw_box(&picture,
                     &(struct box){.x = 30 + key * CELL,
                                   .y = 34 + query * CELL,
                                   .width = CELL,
                                   .height = CELL,
                                   .fill = key <= query ? colours[rank] : "#eeeeee",
                                   .opacity = key == query ? 0.45 : 0.8},
                     "");
        }
    for (int rank = 0; rank < RANKS; rank++) {
        char label[80];
        (void)snprintf(label, sizeof label, "rank %d: strips %d and %d, %d squares", rank, rank, STRIPS - 1 - rank,
                       (rank + 1) + (STRIPS - rank));
        draw_box(&picture,
                 &(struct box){.x = 50 + STRIPS * CELL,
                               .y = 44 + rank * 26,
                               .width = 16,
                               .height = 16,
                               .fill = colours[rank],
                               .opacity = 0.8},
                 "");
        draw_text(&picture, 74 + STRIPS * CELL, 57 + rank * 26, label);
    }
    return end(&picture, folder, "context.svg");
}

// ---- the divided optimizer ----

static int draw_pieces(const char *folder) {
    enum { PARTS = 4, WIDTH = 640 };
    int64_t unit = pieces_multiple(PARTS), total = 10 * unit;
    struct picture picture;
    begin(&picture, WIDTH + 120, 60 + 34 * (PARTS + 1), "pieces of a divided optimizer");
    draw_text(
        &picture, 8, 18,
        "3 buckets of the flat buffer on 4 replicas: above, gradients and values; below, what each optimizer holds");
    double scale = (double)WIDTH / (double)total;
    for (int part = 0; part < PARTS; part++) {
        struct pieces pieces = pieces_make(total, 4 * unit, PARTS, part);
        char label[32];
        (void)snprintf(label, sizeof label, "replica %d", part);
        draw_text(&picture, 8, 90 + part * 34, label);
        for (int64_t i = 0; i < pieces_bucket_count(&pieces); i++) {
            struct piece own = pieces_own(&pieces, i);
            struct box box = {.x = 100 + (double)own.flat_offset * scale,
                              .y = 34,
                              .width = (double)own.count * scale,
                              .height = 26,
                              .fill = colours[part],
                              .opacity = 0.4 + 0.2 * (double)i};
            draw_box(&picture, &box, "");
            box.x = 100 + (double)own.local_offset * scale;
            box.y = 72 + part * 34;
            draw_box(&picture, &box, "");
        }
    }
    return end(&picture, folder, "pieces.svg");
}

// A backward takes as long as two forwards, and each of its halves as long as one.
#define PASSES(unit)                                                                                                   \
    [WORK_FORWARD] = unit, [WORK_BACKWARD] = 2 * unit, [WORK_BACKWARD_INPUT] = unit, [WORK_BACKWARD_WEIGHT] = unit

int main(int argc, char **argv) {
    static const struct plan plans[] = {
        {"pipeline-1f1b.svg",
         "1F1B",
         {.kind = SCHEDULE_1F1B, .stages = 4, .chunks = 1, .micro_batches = 8},
         {.seconds = {PASSES(1)}}},
        {"pipeline-interleaved.svg",
         "Interleaved, 2 chunks a stage",
         {.kind = SCHEDULE_INTERLEAVED, .stages = 4, .chunks = 2, .micro_batches = 8},
         {.seconds = {PASSES(0.5)}}},
        {"pipeline-zero-bubble.svg",
         "Zero bubble (ZB-H1)",
         {.kind = SCHEDULE_ZERO_BUBBLE, .stages = 4, .chunks = 1, .micro_batches = 8},
         {.seconds = {PASSES(1)}}},
    };
    if (argc != 2) {
        fprintf(stderr, "usage: draw_pictures FOLDER\n");
        return EXIT_CODE_USAGE;
    }
    int status = file_make_folders(argv[1]);
    for (size_t i = 0; i < sizeof plans / sizeof plans[0] && status == 0; i++)
        status = draw_schedule(&plans[i], argv[1]);
    if (status == 0)
        status = draw_mesh(argv[1]);
    if (status == 0)
        status = draw_context(argv[1]);
    if (status == 0)
        status = draw_pieces(argv[1]);
    if (status < 0)
        fprintf(stderr, "draw_pictures: %s\n", error_message());
    return status < 0 ? EXIT_CODE_ERROR : EXIT_CODE_OK;
}
