// A ring of micro-batches between one producing thread and one consumer. Slots are filled in order; slot i holds
// micro-batch number i, i + slots, …. Under the lock: filled and taken, the numbers of micro-batches produced and
// released, with taken <= filled <= taken + slots. The consumer holds slot `taken` from one loader_next to the
// following one.
#include "data/loader.h"

#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct loader {
    struct loader_options options;
    int64_t batch_count;  // micro-batches until the source is used up
    int64_t slots;
    struct batch *ring;  // (slots)
    int32_t *row;        // (T + 1), the producer's

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t produced, released;
    int64_t filled, taken;
    bool is_held;  // the consumer is using slot `taken`
    bool is_stopped;
    struct error_note *error;  // why micro-batch number `filled` could not be made
    bool has_failed;
};

int64_t loader_batch_count(const struct loader_options *options) {
    int64_t left = options->source.count - options->consumed_samples,
            step = options->micro_batch_size * options->dp_size;
    if (left <= 0)
        return 0;
    return options->pad_last ? (left - 1) / step + 1 : left / step;
}

static void allocate_batch(struct batch *batch, int64_t rows, int64_t columns) {
    size_t cells = (size_t)rows * (size_t)columns;
    *batch = (struct batch){
        .rows = rows,
        .columns = columns,
        .tokens = memory_alloc(cells * sizeof *batch->tokens),
        .labels = memory_alloc(cells * sizeof *batch->labels),
        .loss_mask = memory_alloc(cells * sizeof *batch->loss_mask),
        .position_ids = memory_alloc(cells * sizeof *batch->position_ids),
        .samples = memory_alloc((size_t)rows * sizeof *batch->samples),
    };
}

static void free_batch(struct batch *batch) {
    free(batch->tokens);
    free(batch->labels);
    free(batch->loss_mask);
    free(batch->position_ids);
    free(batch->samples);
}

static void fill_masks(const struct loader_options *options, struct batch *batch, int64_t row) {
    int64_t columns = batch->columns;
    int32_t *tokens = batch->tokens + row * columns, *labels = batch->labels + row * columns;
    float *loss_mask = batch->loss_mask + row * columns;
    int32_t *position_ids = batch->position_ids + row * columns;
    int64_t start = 0;
    for (int64_t t = 0; t < columns; t++) {
        bool is_eod = tokens[t] == options->eod;
        loss_mask[t] = (options->eod_mask_loss && is_eod) || labels[t] < 0 ? 0.0f : 1.0f;
        position_ids[t] = (int32_t)(t - start);
        if (options->reset_position_ids && is_eod)
            start = t + 1;
        // The model must find a row of its table even where there is no token.
        tokens[t] = tokens[t] < 0 ? 0 : tokens[t];
        labels[t] = labels[t] < 0 ? 0 : labels[t];
    }
}

static void fill_padding(struct batch *batch, int64_t row) {
    int64_t columns = batch->columns;
    memset(batch->tokens + row * columns, 0, (size_t)columns * sizeof *batch->tokens);
    memset(batch->labels + row * columns, 0, (size_t)columns * sizeof *batch->labels);
    for (int64_t t = 0; t < columns; t++) {
        batch->loss_mask[row * columns + t] = 0.0f;
        batch->position_ids[row * columns + t] = (int32_t)t;
    }
    batch->samples[row] = -1;
}

static int fill_batch(struct loader *loader, int64_t number, struct batch *batch) {
    const struct loader_options *options = &loader->options;
    int64_t step = options->micro_batch_size * options->dp_size, columns = batch->columns;
    int64_t first = options->consumed_samples + number * step + options->dp_rank * options->micro_batch_size;
    for (int64_t row = 0; row < batch->rows; row++) {
        if (first + row >= options->source.count) {
            fill_padding(batch, row);
            continue;
        }
        TRY(options->source.read(options->source.context, first + row, loader->row));
        memcpy(batch->tokens + row * columns, loader->row, (size_t)columns * sizeof *loader->row);
        memcpy(batch->labels + row * columns, loader->row + 1, (size_t)columns * sizeof *loader->row);
        batch->samples[row] = first + row;
        fill_masks(options, batch, row);
    }
    return 0;
}

// Waits for a free slot; false where the loader is being closed.
static bool wait_for_slot(struct loader *loader) {
    pthread_mutex_lock(&loader->lock);
    while (!loader->is_stopped && loader->filled == loader->taken + loader->slots)
        pthread_cond_wait(&loader->released, &loader->lock);
    bool go_on = !loader->is_stopped;
    pthread_mutex_unlock(&loader->lock);
    return go_on;
}

static void *produce(void *context) {
    struct loader *loader = context;
    bool has_failed = false;
    for (int64_t number = 0; number < loader->batch_count && !has_failed && wait_for_slot(loader); number++) {
        has_failed = fill_batch(loader, number, &loader->ring[number % loader->slots]) < 0;
        pthread_mutex_lock(&loader->lock);
        if (has_failed) {
            loader->error = error_take();
            loader->has_failed = true;
        } else {
            loader->filled++;
        }
        pthread_cond_signal(&loader->produced);
        pthread_mutex_unlock(&loader->lock);
    }
    return NULL;
}

static int check_options(const struct loader_options *options) {
    int64_t step;
    CHECK(options->micro_batch_size > 0 && options->dp_size > 0 && options->depth > 0);
    CHECK(options->dp_rank >= 0 && options->dp_rank < options->dp_size);
    CHECK(options->source.seq_length > 0 && options->source.seq_length < INT32_MAX);
    if (options->consumed_samples < 0 || __builtin_mul_overflow(options->micro_batch_size, options->dp_size, &step))
        return error_set("cannot read %s from sample %" PRId64 " on", options->source.name, options->consumed_samples);
    return 0;
}

int loader_open(struct loader **out, const struct loader_options *options) {
    *out = NULL;
    TRY(check_options(options));
    struct loader *loader = memory_alloc(sizeof *loader);
    loader->options = *options;
    loader->batch_count = loader_batch_count(options);
    loader->slots = options->depth + 1;
    loader->ring = memory_alloc((size_t)loader->slots * sizeof *loader->ring);
    for (int64_t i = 0; i < loader->slots; i++)
        allocate_batch(&loader->ring[i], options->micro_batch_size, options->source.seq_length);
    loader->row = memory_alloc((size_t)(options->source.seq_length + 1) * sizeof *loader->row);
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->produced, NULL);
    pthread_cond_init(&loader->released, NULL);
    int code = pthread_create(&loader->thread, NULL, produce, loader);
    if (code != 0)
        die("cannot start the loader's thread: %s", strerror(code));
    *out = loader;
    return 0;
}

static int past_the_end(const struct loader *loader) {
    const struct loader_options *options = &loader->options;
    return error_set("the %s has %" PRId64 " samples, and all whole micro-batches of %" PRId64 " on %" PRId64
                     " ranks from sample %" PRId64 " on have been given; ask for more samples when it is opened",
                     options->source.name, options->source.count, options->micro_batch_size, options->dp_size,
                     options->consumed_samples);
}

// Why there is no micro-batch to give. The message of a failed read is given once, then that there was one.
static int explain_end(struct loader *loader) {
    pthread_mutex_lock(&loader->lock);
    struct error_note *error = loader->error;
    bool has_failed = loader->has_failed;
    loader->error = NULL;
    pthread_mutex_unlock(&loader->lock);
    if (error)
        return error_give(error);
    return has_failed ? error_set("reading the %s has failed before", loader->options.source.name)
                      : past_the_end(loader);
}

int loader_next(struct loader *loader, const struct batch **batch) {
    pthread_mutex_lock(&loader->lock);
    if (loader->is_held) {
        loader->taken++;
        pthread_cond_signal(&loader->released);
    }
    int64_t number = loader->taken;
    while (number < loader->batch_count && loader->filled == number && !loader->has_failed)
        pthread_cond_wait(&loader->produced, &loader->lock);
    bool is_held = loader->is_held = loader->filled > number;
    pthread_mutex_unlock(&loader->lock);
    *batch = is_held ? &loader->ring[number % loader->slots] : NULL;
    return is_held ? 0 : explain_end(loader);
}

void loader_close(struct loader *loader) {
    if (!loader)
        return;
    pthread_mutex_lock(&loader->lock);
    loader->is_stopped = true;
    pthread_cond_signal(&loader->released);
    pthread_mutex_unlock(&loader->lock);
    pthread_join(loader->thread, NULL);
    if (loader->error) {
        error_give(loader->error);
        error_clear();
    }
    pthread_mutex_destroy(&loader->lock);
    pthread_cond_destroy(&loader->produced);
    pthread_cond_destroy(&loader->released);
    for (int64_t i = 0; i < loader->slots; i++)
        free_batch(&loader->ring[i]);
    free(loader->ring);
    free(loader->row);
    free(loader);
}
