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
    void *item;
    enum place_state state;
    struct error_note *error;  // of a failed item
};

struct pipeline_state {
    const struct pipeline *pipeline;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct pipeline_place *places;  // (items)
    int items;
    int64_t produced, consumed;
    bool producing, consuming;
    bool ended;                // nothing more will be produced
    bool stopped;              // by an error
    struct error_note *error;  // the error that stopped it
};

static struct pipeline_place *place_of(struct pipeline_state *run, int64_t number) {
    return &run->places[number % run->items];
}

static void stop(struct pipeline_state *run, struct error_note *error) {
    if (!run->stopped)
        run->error = error;
    run->stopped = true;
}

// The next three are called with the lock held and return with it held.

static void consume_oldest(struct pipeline_state *run) {
    run->consuming = true;
    void *item = place_of(run, run->consumed)->item;
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
    int status = run->pipeline->work(run->pipeline->context, place_of(run, number)->item, thread);
    struct error_note *error = status < 0 ? error_take() : NULL;
    pthread_mutex_lock(&run->lock);
    place_of(run, number)->state = status < 0 ? ITEM_FAILED : ITEM_DONE;
    place_of(run, number)->error = error;
}

static void produce_one(struct pipeline_state *run, int thread) {
    int64_t number = run->produced;
    run->producing = true;
    pthread_mutex_unlock(&run->lock);
    int status = run->pipeline->produce(run->pipeline->context, place_of(run, number)->item);
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
        *place_of(run, number) = (struct pipeline_place){place_of(run, number)->item, ITEM_FAILED, error};
    if (status <= 0)
        return;
    place_of(run, number)->state = ITEM_BUSY;
    pthread_cond_broadcast(&run->changed);
    work_on(run, number, thread);
}

static void take_part(void *context, int thread) {
    struct pipeline_state *run = context;
    pthread_mutex_lock(&run->lock);
    while (!run->stopped && !(run->ended && run->consumed == run->produced)) {
        struct pipeline_place *oldest = place_of(run, run->consumed);
        if (run->consumed < run->produced && oldest->state == ITEM_FAILED && !run->consuming) {
            stop(run, oldest->error);
            oldest->error = NULL;
        } else if (run->consumed < run->produced && oldest->state == ITEM_DONE && !run->consuming) {
            consume_oldest(run);
        } else if (!run->ended && !run->producing && run->produced - run->consumed < run->items) {
            produce_one(run, thread);
        } else {
            pthread_cond_wait(&run->changed, &run->lock);
            continue;
        }
        pthread_cond_broadcast(&run->changed);
    }
    pthread_mutex_unlock(&run->lock);
}

// ---- threads ----

struct helper {
    void (*part)(void *context, int thread);
    void *context;
    int thread;
    pthread_t handle;
};

static void *helper_main(void *argument) {
    const struct helper *helper = argument;
    helper->part(helper->context, helper->thread);
    return NULL;
}

void pipeline_share(int threads, void (*part)(void *context, int thread), void *context) {
    struct helper *helpers = memory_alloc((size_t)threads * sizeof *helpers);
    int started = 1;
    for (; started < threads; started++) {
        helpers[started] = (struct helper){.part = part, .context = context, .thread = started};
        if (pthread_create(&helpers[started].handle, NULL, helper_main, &helpers[started]) != 0) {
            log_warn("only %d of %d threads could be started; continuing with those", started, threads);
            break;
        }
    }
    part(context, 0);
    for (int i = 1; i < started; i++)
        pthread_join(helpers[i].handle, NULL);
    free(helpers);
}

int pipeline_run(const struct pipeline *pipeline) {
    CHECK(pipeline->threads >= 1);
    struct pipeline_state run = {.pipeline = pipeline,
                                 .lock = PTHREAD_MUTEX_INITIALIZER,
                                 .changed = PTHREAD_COND_INITIALIZER,
                                 .items = pipeline->items ? pipeline->items : 2 * pipeline->threads};
    run.places = memory_alloc((size_t)run.items * sizeof *run.places);
    for (int i = 0; i < run.items; i++)
        run.places[i].item = memory_alloc(pipeline->item_bytes);
    pipeline_share(pipeline->threads, take_part, &run);
    for (int i = 0; i < run.items; i++) {
        if (pipeline->free_item)
            pipeline->free_item(run.places[i].item);
        free(run.places[i].item);
        error_drop(run.places[i].error);  // of an item that failed after the first failure
    }
    free(run.places);
    pthread_mutex_destroy(&run.lock);
    pthread_cond_destroy(&run.changed);
    if (!run.stopped)
        return 0;
    return run.error ? error_give(run.error) : error_set("a step of the pipeline failed without a message");
}
