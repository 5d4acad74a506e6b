// Scores the requests of all tasks on any layout of ranks. Requests are sorted by length and cut into batches of equal
// size for all data-parallel ranks. Every rank keeps the scores of its own tokens, and the sum over ranks, in the order
// of ranks, is the same everywhere. See internal.h.
#include "base/error.h"
#include "base/memory.h"
#include "base/progress.h"
#include "evaluate/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Sequences are padded to a multiple of this, so that there are few shapes to record.
enum { LENGTH_MULTIPLE = 64, GATHERED_AT_ONCE = 4096 };

struct scoring {
    const struct tasks_run *run;
    struct task_prepared *prepared;
    int64_t *order;              // of the requests, longest first
    struct request_score *sums;  // of each request
    struct batch batch;
    struct batch view;  // what is used of it
    struct step_scores scores;
};

static int compare_lengths(const void *a, const void *b, void *context) {
    const struct task_request *requests = context;
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    if (requests[x].count != requests[y].count)
        return requests[x].count < requests[y].count ? 1 : -1;
    return x < y ? -1 : x > y;
}

static int next_batch(void *context, struct batch *batch) {
    struct scoring *scoring = context;
    *batch = scoring->view;
    return 0;
}

// A row without a request is a single token that does not count.
static void fill_row(const struct scoring *scoring, const struct task_request *request, int64_t row) {
    const struct batch *batch = &scoring->view;
    int64_t T = batch->T, at = row * T, used = request ? request->count - 1 : 0;
    const int32_t *ids = request ? scoring->prepared->ids.ids + request->begin : NULL;
    batch->samples[row] = row;
    for (int64_t t = 0; t < T; t++) {
        batch->tokens[at + t] = t < used ? ids[t] : 0;
        batch->labels[at + t] = t < used ? ids[t + 1] : 0;
        batch->loss_mask[at + t] = t < used && t + 1 >= request->first;
        batch->positions[at + t] = (int32_t)t;
    }
}

// Ranks of a pipeline exchange messages of one size.
static int64_t padded_length(struct step *step, int64_t length) {
    const struct mesh *mesh = step_mesh(step);
    int64_t window = step_window(step);
    int64_t multiple = LENGTH_MULTIPLE * mesh->length[AXIS_CONTEXT] * mesh->length[AXIS_TENSOR];
    int64_t padded = (length + multiple - 1) / multiple * multiple;
    return mesh->length[AXIS_PIPELINE] > 1 || padded > window || window % multiple != 0 ? window : padded;
}

// Adds up this rank's tokens of the rows.
static void take_scores(struct scoring *scoring, int64_t first, int64_t count) {
    struct step_scores *scores = &scoring->scores;
    step_token_scores(scoring->run->step, scores);
    for (int64_t i = 0; i < scores->count; i++) {
        int64_t row = scores->places[i] / scoring->view.T;
        if (row >= count || scoring->view.loss_mask[scores->places[i]] == 0)
            continue;
        struct request_score *score = &scoring->sums[scoring->order[first + row]];
        score->log_likelihood -= (double)scores->losses[i];
        score->tokens++;
        score->misses += !(scores->of_label[i] >= scores->largest[i]);
    }
}

static int score_batch(struct scoring *scoring, int64_t begin) {
    const struct mesh *mesh = step_mesh(scoring->run->step);
    int64_t B = scoring->run->micro_batch_size, first = begin + B * mesh_index(mesh, mesh->place, MESH_SAMPLES);
    struct task_prepared *prepared = scoring->prepared;
    scoring->view = scoring->batch;
    scoring->view.T = padded_length(scoring->run->step, prepared->requests[scoring->order[begin]].count - 1);
    int64_t count = prepared->request_count - first;
    count = count < 0 ? 0 : count > B ? B : count;
    for (int64_t row = 0; row < B; row++)
        fill_row(scoring, row < count ? &prepared->requests[scoring->order[first + row]] : NULL, row);
    struct step_source source = {.next = next_batch, .context = scoring, .count = 1};
    TRY(step_evaluate(scoring->run->step, &source));
    take_scores(scoring, first, count);
    return 0;
}

// Sums over all ranks, in their order, a few thousand requests at a time.
static void sum_over_ranks(struct group *all, struct request_score *sums, int64_t count) {
    enum { WORDS = sizeof *sums / sizeof(int64_t) };
    int size = group_size(all), rank = group_rank(all);
    struct request_score *table = memory_alloc(sizeof *table * GATHERED_AT_ONCE * (size_t)size);
    for (int64_t first = 0; first < count; first += GATHERED_AT_ONCE) {
        int64_t some = count - first < GATHERED_AT_ONCE ? count - first : GATHERED_AT_ONCE;
        memcpy(table + rank * some, sums + first, sizeof *sums * (size_t)some);
        comm_all_gather_i64(all, (int64_t *)(void *)table, (int)(WORDS * some), "scores of tasks");
        for (int64_t i = 0; i < some; i++) {
            struct request_score *sum = &sums[first + i];
            *sum = (struct request_score){0};
            for (int r = 0; r < size; r++) {
                sum->log_likelihood += table[r * some + i].log_likelihood;
                sum->tokens += table[r * some + i].tokens;
                sum->misses += table[r * some + i].misses;
            }
        }
    }
    free(table);
}

static int put_answers(struct task_prepared *prepared, const struct request_score *sums) {
    for (int64_t i = 0; i < prepared->answer_count; i++)
        prepared->answers[i].score = (struct request_score){0};
    for (int64_t i = 0; i < prepared->request_count; i++) {
        struct request_score *score = &prepared->answers[prepared->requests[i].answer].score;
        if (!isfinite(sums[i].log_likelihood))
            return error_set_code(EXIT_CODE_NOT_FINITE,
                                  "the loss on %s is not finite: the model's weights have NaN or infinity, or overflow "
                                  "in this precision; load an earlier checkpoint",
                                  prepared->task->name);
        score->tokens += sums[i].tokens;
        score->misses += sums[i].misses;
        score->log_likelihood += sums[i].log_likelihood;
    }
    return 0;
}

static int score_task(struct scoring *scoring, struct progress *progress) {
    struct task_prepared *prepared = scoring->prepared;
    const struct mesh *mesh = step_mesh(scoring->run->step);
    int64_t count = prepared->request_count, done = (int64_t)progress->done, status = 0;
    int64_t each = scoring->run->micro_batch_size * mesh_count(mesh, MESH_SAMPLES);
    scoring->sums = memory_alloc(sizeof *scoring->sums * (size_t)(count + 1));
    scoring->order = memory_alloc(sizeof *scoring->order * (size_t)(count + 1));
    for (int64_t i = 0; i < count; i++)
        scoring->order[i] = i;
    qsort_r(scoring->order, (size_t)count, sizeof *scoring->order, compare_lengths, prepared->requests);
    for (int64_t begin = 0; begin < count && status == 0; begin += each) {
        bool is_cut = scoring->run->is_cut && scoring->run->is_cut(scoring->run->context);
        status = is_cut ? 1 : score_batch(scoring, begin);
        progress_update(progress, (double)(done + (count - begin < each ? count : begin + each)), prepared->task->name);
    }
    if (status == 0) {
        sum_over_ranks(mesh->all, scoring->sums, count);
        status = put_answers(prepared, scoring->sums);
    }
    free(scoring->sums);
    free(scoring->order);
    return (int)status;
}

int tasks_run(struct tasks *tasks, const struct tasks_run *run) {
    struct batch_form form = {.T = step_window(run->step), .fields = BATCH_TEXT};
    struct scoring scoring = {.run = run};
    size_t places = (size_t)(run->micro_batch_size * form.T);
    batch_allocate(&scoring.batch, &form, run->micro_batch_size);
    scoring.scores = (struct step_scores){.places = memory_alloc(sizeof(int64_t) * places),
                                          .losses = memory_alloc(sizeof(float) * places),
                                          .largest = memory_alloc(sizeof(float) * places),
                                          .of_label = memory_alloc(sizeof(float) * places)};
    int64_t requests = 0;
    for (int64_t i = 0; i < tasks->count; i++)
        requests += tasks->items[i].request_count;
    struct progress progress;
    progress_begin(&progress, "scoring tasks", "requests", (double)requests);
    progress.is_quiet |= run->is_quiet;
    int status = 0;
    for (int64_t i = 0; i < tasks->count && status == 0; i++) {
        scoring.prepared = &tasks->items[i];
        status = score_task(&scoring, &progress);
    }
    progress_end(&progress, NULL);
    struct step_result unused = {0};
    step_take_losses(run->step, 0, &unused);
    batch_free(&scoring.batch);
    free(scoring.scores.places);
    free(scoring.scores.losses);
    free(scoring.scores.largest);
    free(scoring.scores.of_label);
    return status;
}
