// One lock, one condition. Items sit in a ring: items consumed…produced-1 are in progress, item n in slot n % items.
// Every thread does the next possible step: consume the oldest item if it is done, else produce and process a new one
// if a slot is free, else wait.
#include "data/pipeline.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum place_state { ITEM_FREE, ITEM_BUSY, ITEM_DONE, ITEM_FAILED };

struct pipeline_place {
    enum place_state state;
    struct error_note *error;  // of a failed item
};

struct pipeline_state {
    const struct pipeline *pipeline;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct pipeline_place *places;
    int64_t produced, consumed;
    bool producing, consuming;
    bool ended;                // nothing more will be produced
    bool stopped;              // by an error
    struct error_note *error;  // the error that stopped it
};

struct helper {
    struct pipeline_state *run;
    int thread;
    pthread_t handle;
};

static struct pipeline_place *place_of(struct pipeline_state *run, int64_t number) {
    return &run->places[number % run->pipeline->items];
}

static void *item_of(struct pipeline_state *run, int64_t number) {
    return run->pipeline->item[number % run->pipeline->items];
}

static void stop(struct pipeline_state *run, struct error_note *error) {
    if (!run->stopped)
        run->error = error;
    run->stopped = true;
}

// The next three are called with the lock held and return with it held.

static void consume_oldest(struct pipeline_state *run) {
    run->consuming = true;
    void *item = item_of(run, run->consumed);
    pthread_mutex_unlock(&run->lock);
    int status = run->pipeline->consume(run->pipeline->context, item);
    struct error_note *error = status < 0 ? error_take() : NULL;
    pthread_mutex_lock(&run->lock);
    run->consuming = false;
    place_of(run, run->consumed)->state = ITEM_FREE;
    run->consumed++;
    if (status < 0)
        stop(run, error);
}

static void work_on(struct pipeline_state *run, int64_t number, int thread) {
    pthread_mutex_unlock(&run->lock);
    int status = run->pipeline->work(run->pipeline->context, item_of(run, number), thread);
    struct error_note *error = status < 0 ? error_take() : NULL;
    pthread_mutex_lock(&run->lock);
    place_of(run, number)->state = status < 0 ? ITEM_FAILED : ITEM_DONE;
    place_of(run, number)->error = error;
}

static void produce_one(struct pipeline_state *run, int thread) {
    int64_t number = run->produced;
    run->producing = true;
    pthread_mutex_unlock(&run->lock);
    int status = run->pipeline->produce(run->pipeline->context, item_of(run, number));
    // Check after reading: a signal may have ended the input.
    if (status >= 0 && interrupt_check() < 0)
        status = -1;
    struct error_note *error = status < 0 ? error_take() : NULL;
    pthread_mutex_lock(&run->lock);
    run->producing = false;
    run->ended = status <= 0;
    if (status != 0)
        run->produced++;
    if (status < 0)
        *place_of(run, number) = (struct pipeline_place){ITEM_FAILED, error};
    if (status <= 0)
        return;
    place_of(run, number)->state = ITEM_BUSY;
    pthread_cond_broadcast(&run->changed);
    work_on(run, number, thread);
}

static void take_part(struct pipeline_state *run, int thread) {
    pthread_mutex_lock(&run->lock);
    while (!run->stopped && !(run->ended && run->consumed == run->produced)) {
        struct pipeline_place *oldest = place_of(run, run->consumed);
        if (run->consumed < run->produced && oldest->state == ITEM_FAILED && !run->consuming) {
            stop(run, oldest->error);
            oldest->error = NULL;
        } else if (run->consumed < run->produced && oldest->state == ITEM_DONE && !run->consuming) {
            consume_oldest(run);
        } else if (!run->ended && !run->producing && run->produced - run->consumed < run->pipeline->items) {
            produce_one(run, thread);
        } else {
            pthread_cond_wait(&run->changed, &run->lock);
            continue;
        }
        pthread_cond_broadcast(&run->changed);
    }
    pthread_mutex_unlock(&run->lock);
}

static void *helper_main(void *argument) {
    struct helper *helper = argument;
    take_part(helper->run, helper->thread);
    return NULL;
}

// Frees the errors of items that failed after the first failure.
static void drop_errors(struct pipeline_state *run) {
    for (int i = 0; i < run->pipeline->items; i++)
        error_drop(run->places[i].error);
}

int pipeline_run(const struct pipeline *pipeline) {
    CHECK(pipeline->threads >= 1 && pipeline->items >= 1);
    struct pipeline_state run = {
        .pipeline = pipeline, .lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    run.places = memory_alloc((size_t)pipeline->items * sizeof *run.places);
    struct helper *helpers = memory_alloc((size_t)pipeline->threads * sizeof *helpers);
    int started = 1;
    for (; started < pipeline->threads; started++) {
        helpers[started] = (struct helper){.run = &run, .thread = started};
        if (pthread_create(&helpers[started].handle, NULL, helper_main, &helpers[started]) != 0) {
            log_warn("only %d of %d threads could be started; continuing with those", started, pipeline->threads);
            break;
        }
    }
    take_part(&run, 0);
    for (int i = 1; i < started; i++)
        pthread_join(helpers[i].handle, NULL);
    drop_errors(&run);
    free(helpers);
    free(run.places);
    pthread_mutex_destroy(&run.lock);
    pthread_cond_destroy(&run.changed);
    if (!run.stopped)
        return 0;
    return run.error ? error_give(run.error) : error_set("a step of the pipeline failed without a message");
}
