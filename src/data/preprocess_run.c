// One lock, one condition. Every thread does the next possible step: copy the part of a lane whose turn has come, write
// an item whose place is known, update the journal, or else cut a new item and tokenize it.
#include "data/preprocess_run.h"
#include "data/extract/reader.h"
#include "data/pipeline.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/memory.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// Limit for unusually long lines in all items together. The oldest item may hold any line.
static const size_t long_lines_bytes = (size_t)64 << 20;
// Parts up to this size are reused for another lane; larger ones free their disk space.
static const uint64_t idle_part_bytes = (uint64_t)16 << 20;

enum item_state { ITEM_WORK, ITEM_DONE, ITEM_FAILED, ITEM_WRITING, ITEM_WRITTEN };

// A piece of the input. Its batch belongs to the thread that cuts, tokenizes or writes it.
struct preprocess_item {
    struct preprocess_item *next;  // in its lane, or in the free list
    struct text_batch *batch;
    enum item_state state;
    int64_t file;                   // index of the input
    struct error_note *error;       // if the item failed
    struct preprocess_state after;  // the state of the lane including this item
    struct buffer bad_lines;        // text of the list
    size_t charged;                 // bytes taken for long lines
};

// A reader and its items, in order.
struct preprocess_lane {
    struct text_reader *reader;
    struct preprocess_item *cutting;       // item that a thread is now cutting from the reader; NULL for none
    bool ended;                            // nothing more will come
    struct preprocess_item *first, *last;  // in order; written items leave at the front
    struct preprocess_item *next_item;     // the first without a place
    int64_t writing;                       // items being written, plus 1 while the part is copied
    uint64_t input_bytes;                  // of the current file that are accounted for
    struct store part;                     // where it writes until its turn comes; closed from then on
    struct preprocess_state given;         // including all items that have a place
    struct preprocess_state written;       // including all items that have been written
};

struct preprocess_engine {
    const struct preprocess_run *run;
    int64_t keys;
    struct preprocess_input *input;
    pthread_mutex_t lock;  // guards everything below
    pthread_cond_t changed;
    struct preprocess_item *items;
    int64_t item_count;
    struct preprocess_item *free_items;
    struct preprocess_lane **lanes;  // (lane_count) in order of the input; the first one writes to the run's store
    int lane_count;
    int64_t parts;             // created so far
    struct store *idle_parts;  // (idle_count, at most threads) that lanes no longer need, kept for reuse
    int idle_count;
    size_t charged;  // by all items
    bool stopped;
    struct error_note *error;
    struct preprocess_state done;  // the result once no lane is left
    bool journaling;
    double last_journal;
    struct preprocess_state journaled;  // what the journal says
};

// Unless stated otherwise, functions here are called and return with the lock held.

static void stop(struct preprocess_engine *engine, struct error_note *error) {
    if (!engine->stopped)
        engine->error = error;
    else
        error_drop(error);
    engine->stopped = true;
    pthread_cond_broadcast(&engine->changed);
}

// Takes the lock after unlocked work; returns the error of that work, NULL for none.
static struct error_note *relock(struct preprocess_engine *engine, int status) {
    struct error_note *error = status < 0 ? error_take() : NULL;
    pthread_mutex_lock(&engine->lock);
    return error;
}

static const char *name_of(const struct preprocess_engine *engine, int64_t file) {
    const char *path = engine->run->files->items[file];
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

// ---- lanes ----

static bool has_part(const struct preprocess_lane *lane) {
    return lane->part.descriptors;
}

// Creating and removing files is expensive (ext4 flushes a truncated file when it is closed), and there may be a part
// for each of thousands of small inputs.
static int begin_part(struct preprocess_engine *engine, struct preprocess_lane *lane) {
    if (engine->idle_count > 0) {
        lane->part = engine->idle_parts[--engine->idle_count];
        return 0;
    }
    char *prefix = memory_printf("%s.part%" PRId64, engine->run->journal->prefix, engine->parts++);
    int status = store_open(&lane->part, prefix, engine->keys, lane->given.bytes);
    free(prefix);
    return status;
}

// The part was copied, or is no longer needed.
static void end_part(struct preprocess_engine *engine, struct preprocess_lane *lane) {
    uint64_t bytes = 0;
    for (int64_t file = 0; file < store_files(engine->keys); file++)
        bytes += lane->given.bytes[file];
    if (has_part(lane) && bytes <= idle_part_bytes && engine->idle_count < engine->run->threads)
        engine->idle_parts[engine->idle_count++] = lane->part;
    else
        store_remove(&lane->part);
    lane->part = (struct store){0};
}

static void set_states(struct preprocess_engine *engine, struct preprocess_lane *lane) {
    preprocess_state_copy(&lane->given, &engine->done, engine->keys);
    preprocess_state_copy(&lane->written, &engine->done, engine->keys);
}

static struct preprocess_lane *begin_lane(struct preprocess_engine *engine) {
    struct text_reader *reader = engine->lane_count < engine->run->threads ? text_reader_begin(engine->input) : NULL;
    if (!reader)
        return NULL;
    struct preprocess_lane *lane = memory_alloc(sizeof *lane);
    lane->reader = reader;
    preprocess_state_init(&lane->given, engine->keys);
    preprocess_state_init(&lane->written, engine->keys);
    engine->lanes[engine->lane_count++] = lane;
    if (engine->lane_count == 1) {
        set_states(engine, lane);
        return lane;
    }
    lane->given.file = lane->written.file = text_reader_file(reader);
    if (begin_part(engine, lane) == 0)
        return lane;
    stop(engine, error_take());
    return NULL;
}

static void free_lane(struct preprocess_engine *engine, struct preprocess_lane *lane) {
    text_reader_end(lane->reader);
    end_part(engine, lane);
    preprocess_state_free(&lane->given);
    preprocess_state_free(&lane->written);
    free(lane);
}

// Removes finished lanes.
static void advance(struct preprocess_engine *engine) {
    while (engine->lane_count > 0) {
        struct preprocess_lane *head = engine->lanes[0];
        if (!head->ended || head->cutting || head->first || has_part(head))
            break;
        preprocess_state_copy(&engine->done, &head->written, engine->keys);
        free_lane(engine, head);
        engine->lane_count--;
        for (int i = 0; i < engine->lane_count; i++)
            engine->lanes[i] = engine->lanes[i + 1];
    }
    pthread_cond_broadcast(&engine->changed);
}

// While its part is copied, or about to be, a lane neither cuts nor writes.
static bool is_turning(const struct preprocess_engine *engine, const struct preprocess_lane *lane) {
    return lane == engine->lanes[0] && has_part(lane);
}

// ---- cutting and tokenizing ----

// The first item in input order never waits, so at least one can always continue.
static bool is_oldest(const struct preprocess_engine *engine, const struct preprocess_item *item) {
    for (int i = 0; i < engine->lane_count; i++) {
        const struct preprocess_lane *lane = engine->lanes[i];
        if (lane->first || lane->cutting)
            return item == (lane->first ? lane->first : lane->cutting);
    }
    return true;
}

// Line files call this without the lock before a long line grows: see extract/lines.h.
static void charge(void *context, struct line_piece *piece, size_t bytes) {
    struct preprocess_engine *engine = context;
    struct preprocess_item *item = engine->items;
    while (&item->batch->piece != piece)
        item++;
    pthread_mutex_lock(&engine->lock);
    size_t more = bytes > item->charged ? bytes - item->charged : 0;
    while (!engine->stopped && engine->charged + more > long_lines_bytes && !is_oldest(engine, item))
        pthread_cond_wait(&engine->changed, &engine->lock);
    engine->charged += more;
    item->charged += more;
    pthread_mutex_unlock(&engine->lock);
}

static void free_item(struct preprocess_engine *engine, struct preprocess_item *item) {
    item->next = engine->free_items;
    engine->free_items = item;
}

static void append_item(struct preprocess_lane *lane, struct preprocess_item *item) {
    item->next = NULL;
    *(lane->last ? &lane->last->next : &lane->first) = item;
    lane->last = item;
    if (!lane->next_item)
        lane->next_item = item;
}

// The first lane that has something to cut, or a new one.
static struct preprocess_lane *choose_lane(struct preprocess_engine *engine) {
    for (int i = 0; i < engine->lane_count; i++) {
        struct preprocess_lane *lane = engine->lanes[i];
        if (!lane->cutting && !lane->ended && !is_turning(engine, lane))
            return lane;
    }
    return begin_lane(engine);
}

// Cuts the next piece of the lane into the item and appends it to the lane: 1, 0 at the end, -1 with a failed item.
// Plain files are cut under the lock, since that is arithmetic; others without it, since that decompresses.
static int cut(struct preprocess_engine *engine, struct preprocess_lane *lane, struct preprocess_item *item) {
    struct line_piece *piece = &item->batch->piece;
    int status = text_reader_next_at_once(lane->reader, piece);
    struct error_note *error = NULL;
    bool is_slow = status == 0;
    if (is_slow) {
        lane->cutting = item;
        pthread_mutex_unlock(&engine->lock);
        status = text_reader_next(lane->reader, piece);
        error = relock(engine, status);
        lane->cutting = NULL;
        lane->ended = status <= 0;
    }
    item->file = text_reader_file(lane->reader);
    item->state = status < 0 ? ITEM_FAILED : ITEM_WORK;
    item->error = error;
    item->batch->failed_line = -1;
    if (status == 0)
        free_item(engine, item);
    else
        append_item(lane, item);
    if (is_slow)
        advance(engine);
    return status;
}

static void tokenize(struct preprocess_engine *engine, struct preprocess_item *item, int thread) {
    struct text_worker *worker = &engine->run->workers[thread];
    pthread_mutex_unlock(&engine->lock);
    int status = line_piece_fill(&item->batch->piece);
    if (status == 0)
        status = text_batch_tokenize(item->batch, worker);
    for (int64_t key = 0; key < engine->keys; key++)
        if (worker->parser.found[key].text.capacity > 4 * engine->run->piece_bytes)
            json_text_free(&worker->parser.found[key]);
    item->error = relock(engine, status);
    item->state = status < 0 ? ITEM_FAILED : ITEM_DONE;
    pthread_cond_broadcast(&engine->changed);
}

static bool tokenize_something(struct preprocess_engine *engine, int thread) {
    struct preprocess_item *item = engine->free_items;
    struct preprocess_lane *lane = item ? choose_lane(engine) : NULL;
    if (!lane)
        return false;
    engine->free_items = item->next;
    if (cut(engine, lane, item) > 0)
        tokenize(engine, item, thread);
    return true;
}

// ---- writing ----

// The bytes of an item for one file of the store.
static struct buffer bytes_of(const struct preprocess_item *item, int64_t keys, int64_t file) {
    if (file == store_bad_lines(keys))
        return item->bad_lines;
    const struct text_column *column = &item->batch->columns[file / STORE_KINDS];
    switch ((enum store_kind)(file % STORE_KINDS)) {
    case STORE_LENGTHS:
        return column->lengths;
    case STORE_DOCUMENTS:
        return column->documents;
    default:
        return (struct buffer){.data = (char *)column->tokens.ids, .length = column->token_bytes};
    }
}

// Line numbers are known now: the item begins at `line`.
static void list_bad_lines(struct preprocess_engine *engine, struct preprocess_item *item, int64_t line) {
    buffer_clear(&item->bad_lines);
    for (int64_t i = 0; i < item->batch->counts.bad_lines; i++) {
        const struct text_problem *problem = &item->batch->problems[i];
        size_t begin = item->bad_lines.length;
        buffer_printf(&item->bad_lines, "%s:%" PRId64 ": %s", name_of(engine, item->file), line + problem->line,
                      problem->message);
        engine->run->bad_line(engine->run->context, item->bad_lines.data + begin);
        buffer_append_byte(&item->bad_lines, '\n');
    }
}

// Places the item after its predecessors.
static void give_place(struct preprocess_engine *engine, struct preprocess_lane *lane, struct preprocess_item *item) {
    const struct line_piece *piece = &item->batch->piece;
    struct preprocess_state *given = &lane->given;
    if (given->file != item->file) {
        given->file = item->file;
        given->line = 1;
        lane->input_bytes = 0;
    }
    list_bad_lines(engine, item, given->line);
    given->line += item->batch->lines;
    given->offset = piece->end;
    text_counts_add(&given->counts, &item->batch->counts);
    for (int64_t file = 0; file < store_files(engine->keys); file++)
        given->bytes[file] += bytes_of(item, engine->keys, file).length;
    preprocess_state_copy(&item->after, given, engine->keys);
    uint64_t more = piece->input_bytes > lane->input_bytes ? piece->input_bytes - lane->input_bytes : 0;
    lane->input_bytes += more;
    engine->run->progress(engine->run->context, &item->batch->counts, more);
    item->state = ITEM_WRITING;
    lane->next_item = item->next;
}

// Written items leave the lane, in order.
static void release_written(struct preprocess_engine *engine, struct preprocess_lane *lane) {
    while (lane->first && lane->first->state == ITEM_WRITTEN) {
        struct preprocess_item *first = lane->first;
        preprocess_state_copy(&lane->written, &first->after, engine->keys);
        lane->first = first->next;
        if (!lane->first)
            lane->last = NULL;
        engine->charged -= first->charged;
        first->charged = 0;
        text_batch_shrink(first->batch, 8 * engine->run->piece_bytes);
        free_item(engine, first);
    }
}

static void write_item(struct preprocess_engine *engine, struct preprocess_lane *lane, struct preprocess_item *item) {
    const struct store *store = has_part(lane) ? &lane->part : engine->run->store;
    give_place(engine, lane, item);
    lane->writing++;
    pthread_mutex_unlock(&engine->lock);
    int status = 0;
    for (int64_t file = 0; status == 0 && file < store_files(engine->keys); file++) {
        struct buffer bytes = bytes_of(item, engine->keys, file);
        status = store_write(store, file, item->after.bytes[file] - bytes.length, bytes.data, bytes.length);
    }
    struct error_note *error = relock(engine, status);
    lane->writing--;
    if (status < 0) {
        stop(engine, error);
        return;
    }
    item->state = ITEM_WRITTEN;
    release_written(engine, lane);
    advance(engine);
}

// The first lane failed at this item: everything before it is written or being written. A bad line of a compressed file
// may be a sign of damage, which is checked while the other threads finish.
static void fail(struct preprocess_engine *engine, struct preprocess_item *item) {
    struct preprocess_lane *head = engine->lanes[0];
    bool is_bad_line = item->batch->failed_line >= 0;
    if (item->error)
        error_give(item->error);
    item->error = NULL;
    if (is_bad_line) {
        int64_t line = (head->given.file == item->file ? head->given.line : 1) + item->batch->failed_line;
        error_context("%s:%" PRId64, name_of(engine, item->file), line);
    }
    stop(engine, NULL);
    pthread_mutex_unlock(&engine->lock);
    if (is_bad_line)
        reader_blame_damage(engine->run->files->items[item->file], item->batch->piece.format);
    engine->error = relock(engine, -1);
}

static bool write_something(struct preprocess_engine *engine) {
    for (int i = 0; i < engine->lane_count; i++) {
        struct preprocess_lane *lane = engine->lanes[i];
        struct preprocess_item *item = lane->next_item;
        if (!item || is_turning(engine, lane))
            continue;
        if (item->state == ITEM_DONE)
            write_item(engine, lane, item);
        else if (item->state == ITEM_FAILED && i == 0)
            fail(engine, item);
        else
            continue;
        return true;
    }
    return false;
}

// The first lane wrote to a store of its own until now: append that to the run's store.
static bool merge_something(struct preprocess_engine *engine) {
    struct preprocess_lane *head = engine->lane_count > 0 ? engine->lanes[0] : NULL;
    if (!head || !has_part(head) || head->writing > 0)
        return false;
    head->writing++;
    pthread_mutex_unlock(&engine->lock);
    int status = store_copy(engine->run->store, engine->done.bytes, &head->part, head->written.bytes);
    struct error_note *error = relock(engine, status);
    end_part(engine, head);
    head->writing--;
    preprocess_state_add(&engine->done, &head->written, engine->keys);
    set_states(engine, head);
    if (status < 0)
        stop(engine, error);
    advance(engine);
    return true;
}

// ---- the journal ----

static const struct preprocess_state *written_state(const struct preprocess_engine *engine) {
    bool has_head = engine->lane_count > 0 && !has_part(engine->lanes[0]);
    return has_head ? &engine->lanes[0]->written : &engine->done;
}

static int write_journal(struct preprocess_engine *engine, const struct preprocess_state *state) {
    TRY(store_sync(engine->run->store));
    return journal_write(engine->run->journal, JOURNAL_TOKENIZE, state);
}

static bool is_journal_behind(const struct preprocess_engine *engine) {
    const struct preprocess_state *state = written_state(engine), *journaled = &engine->journaled;
    return engine->run->is_journaled && (state->file != journaled->file || state->offset != journaled->offset);
}

static bool journal_something(struct preprocess_engine *engine) {
    if (engine->journaling || !is_journal_behind(engine) ||
        clock_seconds() - engine->last_journal < engine->run->journal_seconds)
        return false;
    engine->journaling = true;
    preprocess_state_copy(&engine->journaled, written_state(engine), engine->keys);
    pthread_mutex_unlock(&engine->lock);
    int status = write_journal(engine, &engine->journaled);
    struct error_note *error = relock(engine, status);
    engine->journaling = false;
    engine->last_journal = clock_seconds();
    if (status < 0)
        stop(engine, error);
    return true;
}

// ---- threads ----

static bool is_finished(const struct preprocess_engine *engine) {
    return engine->stopped || (engine->lane_count == 0 && preprocess_input_is_used_up(engine->input));
}

// Called without the lock.
static void take_part(void *context, int thread) {
    struct preprocess_engine *engine = context;
    pthread_mutex_lock(&engine->lock);
    while (!is_finished(engine)) {
        if (interrupt_check() < 0)
            stop(engine, error_take());
        else if (!merge_something(engine) && !write_something(engine) && !journal_something(engine) &&
                 !tokenize_something(engine, thread) && !is_finished(engine))
            pthread_cond_wait(&engine->changed, &engine->lock);
    }
    pthread_cond_broadcast(&engine->changed);
    pthread_mutex_unlock(&engine->lock);
}

// ---- beginning and end ----

static void engine_open(struct preprocess_engine *engine, const struct preprocess_run *run,
                        const struct preprocess_state *state) {
    *engine = (struct preprocess_engine){.run = run,
                                         .keys = run->store->keys,
                                         .lock = PTHREAD_MUTEX_INITIALIZER,
                                         .changed = PTHREAD_COND_INITIALIZER,
                                         .last_journal = clock_seconds(),
                                         .item_count = 2 * (int64_t)run->threads + 1};
    engine->input = preprocess_input_open(run, state, charge, engine);
    engine->lanes = memory_alloc((size_t)(run->threads + 1) * sizeof(struct preprocess_lane *));
    engine->idle_parts = memory_alloc((size_t)run->threads * sizeof *engine->idle_parts);
    preprocess_state_init(&engine->done, engine->keys);
    preprocess_state_init(&engine->journaled, engine->keys);
    preprocess_state_copy(&engine->done, state, engine->keys);
    preprocess_state_copy(&engine->journaled, state, engine->keys);
    engine->items = memory_alloc((size_t)engine->item_count * sizeof *engine->items);
    for (int64_t i = 0; i < engine->item_count; i++) {
        engine->items[i].batch = text_batch_create(engine->keys);
        preprocess_state_init(&engine->items[i].after, engine->keys);
        free_item(engine, &engine->items[i]);
    }
}

static void engine_close(struct preprocess_engine *engine) {
    for (int i = 0; i < engine->lane_count; i++)
        free_lane(engine, engine->lanes[i]);
    for (int i = 0; i < engine->idle_count; i++)
        store_remove(&engine->idle_parts[i]);
    free(engine->idle_parts);
    for (int64_t i = 0; i < engine->item_count; i++) {
        struct preprocess_item *item = &engine->items[i];
        text_batch_free(item->batch);
        preprocess_state_free(&item->after);
        buffer_free(&item->bad_lines);
        error_drop(item->error);
    }
    free(engine->items);
    free(engine->lanes);
    preprocess_input_close(engine->input);
    preprocess_state_free(&engine->done);
    preprocess_state_free(&engine->journaled);
    pthread_mutex_destroy(&engine->lock);
    pthread_cond_destroy(&engine->changed);
}

int preprocess_run(const struct preprocess_run *run, struct preprocess_state *state) {
    struct preprocess_engine engine;
    engine_open(&engine, run, state);
    pipeline_share(run->threads, take_part, &engine);
    preprocess_state_copy(state, written_state(&engine), engine.keys);
    // Finished work is kept unless an error came so early that there is nothing worth keeping. If this journal cannot
    // be written, the earlier one stays.
    bool is_kept = run->journal->is_kept || interrupt_check() < 0;
    if (engine.stopped && is_kept && is_journal_behind(&engine))
        write_journal(&engine, state);
    error_clear();
    engine_close(&engine);
    if (!engine.stopped)
        return 0;
    return engine.error ? error_give(engine.error) : error_set("preprocessing failed without a message");
}
