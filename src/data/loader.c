// A ring of micro-batches between one producing thread and one consumer. Slots are filled in order; slot i holds
// micro-batch number i, i + slots, …. Under the lock: filled and taken, the numbers of micro-batches produced and
// released, with taken <= filled <= taken + slots. The consumer holds slot `taken` from one loader_next to the next.
#include "data/loader.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/memory.h"
#include "base/trace.h"
#include "base/watchdog.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct loader {
    struct loader_options options;
    int64_t batch_count;  // micro-batches until the source ends
    int64_t slots;
    struct batch *ring;  // (slots)
    int32_t *row;        // (T + 1), used by the producer

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t produced, released;
    int64_t filled, taken;
    bool is_held;  // the consumer is using slot `taken`
    bool is_stopped;
    struct error_note *error;  // why micro-batch `filled` could not be made
    bool has_failed;
    uint64_t digest;  // of all delivered rows
};

int64_t loader_batch_count(const struct loader_options *options) {
    int64_t left = options->source.count - options->consumed_samples,
            step = options->micro_batch_size * options->dp_size;
    if (left <= 0)
        return 0;
    return options->pad_last ? (left - 1) / step + 1 : left / step;
}

static struct batch_form form_of(const struct loader_options *options) {
    if (options->source.fill)
        return options->source.form;
    return (struct batch_form){.T = options->source.seq_length,
                               .fields = BATCH_TEXT | (options->reset_attention_mask ? BATCH_BIT(DOCUMENT_STARTS) : 0)};
}

// Masks and positions of running text, whose tokens and labels are already set.
static void fill_masks(const struct loader_options *options, const struct batch *row, int64_t columns) {
    int32_t *tokens = row->tokens, *labels = row->labels;
    int64_t document = 0;
    for (int64_t t = 0; t < columns; t++) {
        bool is_eod = tokens[t] == options->eod;
        row->loss_mask[t] = (options->eod_mask_loss && is_eod) || labels[t] < 0 ? 0.0f : 1.0f;
        row->positions[t] = (int32_t)(options->reset_position_ids ? t - document : t);
        if (row->document_starts)
            row->document_starts[t] = (int32_t)document;
        if (is_eod)
            document = t + 1;
        // The model must find a row of its embedding table even for padding.
        tokens[t] = tokens[t] < 0 ? 0 : tokens[t];
        labels[t] = labels[t] < 0 ? 0 : labels[t];
    }
}

static int fill_row(struct loader *loader, int64_t sample, const struct batch *row) {
    const struct sample_source *source = &loader->options.source;
    if (source->fill)
        return source->fill(source->context, sample, row);
    TRY(source->read(source->context, sample, loader->row));
    size_t bytes = (size_t)source->seq_length * sizeof *loader->row;
    memcpy(row->tokens, loader->row, bytes);
    memcpy(row->labels, loader->row + 1, bytes);
    fill_masks(&loader->options, row, source->seq_length);
    return 0;
}

static int fill_batch(struct loader *loader, int64_t number, struct batch *batch) {
    const struct loader_options *options = &loader->options;
    int64_t step = options->micro_batch_size * options->dp_size;
    int64_t first = options->consumed_samples + number * step + options->dp_rank * options->micro_batch_size;
    for (int64_t i = 0; i < batch->B; i++) {
        if (first + i >= options->source.count) {
            batch_clear_row(batch, i);
            continue;
        }
        struct batch row = batch_row(batch, i);
        TRY(fill_row(loader, first + i, &row));
        *row.samples = first + i;
    }
    return 0;
}

// Waits for a free slot; false if the loader is being closed.
static bool wait_for_slot(struct loader *loader) {
    pthread_mutex_lock(&loader->lock);
    while (!loader->is_stopped && loader->filled == loader->taken + loader->slots)
        pthread_cond_wait(&loader->released, &loader->lock);
    bool go_on = !loader->is_stopped;
    pthread_mutex_unlock(&loader->lock);
    return go_on;
}

static int fill_traced(struct loader *loader, int64_t number) {
    double started = trace_is_on() ? clock_seconds() : 0;
    int status = fill_batch(loader, number, &loader->ring[number % loader->slots]);
    if (trace_is_on() && started > 0)
        trace_add(&(struct trace_event){.name = "read samples",
                                        .start = started,
                                        .end = clock_seconds(),
                                        .micro_batch = -1,
                                        .chunk = -1,
                                        .kind = TRACE_DATA,
                                        .track = TRACK_LOADER});
    return status;
}

static void *produce(void *context) {
    struct loader *loader = context;
    bool has_failed = false;
    for (int64_t number = 0; number < loader->batch_count && !has_failed && wait_for_slot(loader); number++) {
        has_failed = fill_traced(loader, number) < 0;
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
    struct batch_form form = form_of(options);
    loader->ring = memory_alloc((size_t)loader->slots * sizeof *loader->ring);
    for (int64_t i = 0; i < loader->slots; i++)
        batch_allocate(&loader->ring[i], &form, options->micro_batch_size);
    loader->row = memory_alloc((size_t)(options->source.seq_length + 1) * sizeof *loader->row);
    pthread_mutex_init(&loader->lock, NULL);
    pthread_cond_init(&loader->produced, NULL);
    pthread_cond_init(&loader->released, NULL);
    int code = pthread_create(&loader->thread, NULL, produce, loader);
    if (code != 0)
        die("cannot start the loader's thread: %s; raise the limit of threads (ulimit -u, or pids.max of the control "
            "group)",
            strerror(code));
    *out = loader;
    return 0;
}

static int past_the_end(const struct loader *loader) {
    const struct loader_options *options = &loader->options;
    return error_set("the %s is exhausted: it has %" PRId64 " samples, read as micro-batches of %" PRId64 " on %" PRId64
                     " ranks from sample %" PRId64
                     " on; shorten the run, or give the datasets of --data-path weights, so that they repeat",
                     options->source.name, options->source.count, options->micro_batch_size, options->dp_size,
                     options->consumed_samples);
}

// Reports why there is no micro-batch. The error of a failed read is reported once; after that, only the fact that a
// read failed.
static int explain_end(struct loader *loader) {
    pthread_mutex_lock(&loader->lock);
    struct error_note *error = loader->error;
    bool has_failed = loader->has_failed;
    loader->error = NULL;
    pthread_mutex_unlock(&loader->lock);
    if (error)
        return error_give(error);
    return has_failed ? error_set("reading the %s failed earlier", loader->options.source.name) : past_the_end(loader);
}

static uint64_t add_to_digest(const struct batch *batch, uint64_t digest) {
    static const enum batch_field hashed[] = {BATCH_TOKENS, BATCH_LABELS, BATCH_DECODER_TOKENS, BATCH_CONTEXT_TOKENS};
    struct batch_form form = batch_form(batch);
    for (size_t i = 0; i < sizeof hashed / sizeof hashed[0]; i++)
        if (batch->fields[hashed[i]])
            digest = hash_bytes(batch->fields[hashed[i]], (size_t)batch_elements(&form, hashed[i]) * sizeof(int32_t),
                                digest);
    return digest;
}

int loader_next(struct loader *loader, const struct batch **batch) {
    pthread_mutex_lock(&loader->lock);
    if (loader->is_held) {
        loader->taken++;
        pthread_cond_signal(&loader->released);
    }
    int64_t number = loader->taken;
    struct watchdog_work work;
    bool must_wait = number < loader->batch_count && loader->filled == number && !loader->has_failed;
    if (must_wait)
        watchdog_begin(&work, WATCHDOG_LOAD, "waiting for data");
    while (number < loader->batch_count && loader->filled == number && !loader->has_failed)
        pthread_cond_wait(&loader->produced, &loader->lock);
    if (must_wait)
        watchdog_end(&work);
    watchdog_beat();
    bool is_held = loader->is_held = loader->filled > number;
    pthread_mutex_unlock(&loader->lock);
    *batch = is_held ? &loader->ring[number % loader->slots] : NULL;
    if (is_held)
        loader->digest = add_to_digest(*batch, loader->digest);
    return is_held ? 0 : explain_end(loader);
}

uint64_t loader_digest(const struct loader *loader) {
    return loader->digest;
}

void loader_close(struct loader *loader) {
    if (!loader)
        return;
    pthread_mutex_lock(&loader->lock);
    loader->is_stopped = true;
    pthread_cond_signal(&loader->released);
    pthread_mutex_unlock(&loader->lock);
    pthread_join(loader->thread, NULL);
    error_drop(loader->error);  // of a micro-batch that was not requested; the caller may be returning another error
    pthread_mutex_destroy(&loader->lock);
    pthread_cond_destroy(&loader->produced);
    pthread_cond_destroy(&loader->released);
    for (int64_t i = 0; i < loader->slots; i++)
        batch_free(&loader->ring[i]);
    free(loader->ring);
    free(loader->row);
    free(loader);
}
