// One lock, one condition. Every thread does whatever is next: copy the part of a lane whose turn has come, write an
// item whose place is known, bring the journal up to date, else cut a new item and tokenize it.
#include "data/preprocess_run.h"
#include "data/preprocess_lane.h"
#include "data/extract/reader.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>

struct thread {
    struct lanes *lanes;
    int number;
    pthread_t handle;
};

// All functions here that take lanes hold the lock when they are called and when they return.

static const char *name_of(const struct lanes *lanes, int64_t file) {
    const char *path = lanes->run->files->items[file];
    return strcmp(path, "-") == 0 ? "standard input" : path;
}

// ---- tokenizing ----

static void work_on(struct lanes *lanes, struct item *item, int thread) {
    struct text_worker *worker = &lanes->run->workers[thread];
    pthread_mutex_unlock(&lanes->lock);
    int status = line_piece_fill(&item->batch->piece);
    if (status == 0)
        status = text_batch_tokenize(item->batch, worker);
    for (int64_t key = 0; key < lanes->keys; key++)
        if (worker->parser.found[key].text.capacity > 4 * lanes->run->piece_bytes)
            json_text_free(&worker->parser.found[key]);
    struct error_note *error = status < 0 ? error_take() : NULL;
    pthread_mutex_lock(&lanes->lock);
    item->state = status < 0 ? ITEM_FAILED : ITEM_DONE;
    item->error = error;
    lanes_wake(lanes);
}

// ---- writing ----

// Line numbers are known now: those of the item begin at `line`.
static void list_bad_lines(struct lanes *lanes, struct item *item, int64_t line) {
    buffer_clear(&item->bad_lines);
    for (int64_t i = 0; i < item->batch->counts.bad_lines; i++) {
        const struct text_problem *problem = &item->batch->problems[i];
        size_t begin = item->bad_lines.length;
        buffer_printf(&item->bad_lines, "%s:%" PRId64 ": %s", name_of(lanes, item->file), line + problem->line,
                      problem->message);
        lanes->run->bad_line(lanes->run->context, item->bad_lines.data + begin);
        buffer_append_byte(&item->bad_lines, '\n');
    }
}

// What an item has for a file of the store.
static struct buffer bytes_of(const struct item *item, int64_t keys, int64_t file) {
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

// Gives the item its place behind those before it.
static void give_place(struct lanes *lanes, struct lane *lane, struct item *item) {
    const struct line_piece *piece = &item->batch->piece;
    struct preprocess_state *given = &lane->given;
    if (given->file != item->file) {
        given->file = item->file;
        given->line = 1;
        lane->input_bytes = 0;
    }
    list_bad_lines(lanes, item, given->line);
    given->line += item->batch->lines;
    given->offset = piece->end;
    text_counts_add(&given->counts, &item->batch->counts);
    for (int64_t file = 0; file < store_files(lanes->keys); file++) {
        item->at[file] = given->bytes[file];
        given->bytes[file] += bytes_of(item, lanes->keys, file).length;
    }
    preprocess_state_copy(&item->after, given, lanes->keys);
    uint64_t more = piece->input_bytes > lane->input_bytes ? piece->input_bytes - lane->input_bytes : 0;
    lane->input_bytes += more;
    lanes->run->progress(lanes->run->context, &item->batch->counts, more);
}

static void recycle(struct lanes *lanes, struct item *item) {
    lanes->charged -= item->charged;
    item->charged = 0;
    text_batch_shrink(item->batch, 8 * lanes->run->piece_bytes);
    item->next = lanes->free_items;
    lanes->free_items = item;
}

static void write_item(struct lanes *lanes, struct lane *lane, struct item *item) {
    const struct store *store = lane->has_part ? &lane->part : lanes->run->store;
    give_place(lanes, lane, item);
    item->state = ITEM_WRITING;
    lane->next_item = item->next;
    lane->writing++;
    pthread_mutex_unlock(&lanes->lock);
    int status = 0;
    for (int64_t file = 0; status == 0 && file < store_files(lanes->keys); file++) {
        struct buffer bytes = bytes_of(item, lanes->keys, file);
        status = store_write(store, file, item->at[file], bytes.data, bytes.length);
    }
    struct error_note *error = status < 0 ? error_take() : NULL;
    pthread_mutex_lock(&lanes->lock);
    lane->writing--;
    if (status < 0) {
        lanes_stop(lanes, error);
        return;
    }
    item->state = ITEM_WRITTEN;
    while (lane->first && lane->first->state == ITEM_WRITTEN) {
        struct item *first = lane->first;
        preprocess_state_copy(&lane->written, &first->after, lanes->keys);
        lane->first = first->next;
        if (!lane->first)
            lane->last = NULL;
        recycle(lanes, first);
    }
    lanes_advance(lanes);
    lanes_wake(lanes);
}

// The first lane failed where it stands: everything before is written or about to be. A bad line of a compressed file
// may be damage, which is looked for while the other threads come to their end.
static void fail(struct lanes *lanes, struct item *item) {
    struct lane *head = lanes->lanes[0];
    const char *path = lanes->run->files->items[item->file];
    const char *format = item->batch->piece.format;
    bool is_bad_line = item->batch->failed_line >= 0;
    if (item->error)
        error_give(item->error);
    item->error = NULL;
    if (is_bad_line) {
        int64_t line = (head->given.file == item->file ? head->given.line : 1) + item->batch->failed_line;
        error_context("%s:%" PRId64, name_of(lanes, item->file), line);
    }
    lanes_stop(lanes, NULL);
    pthread_mutex_unlock(&lanes->lock);
    if (is_bad_line)
        reader_blame_damage(path, format);
    struct error_note *error = error_take();
    pthread_mutex_lock(&lanes->lock);
    lanes->error = error;
}

static bool write_something(struct lanes *lanes) {
    for (int i = 0; i < lanes->lane_count; i++) {
        struct lane *lane = lanes->lanes[i];
        struct item *item = lane->next_item;
        bool is_turning = i == 0 && lane->has_part;
        if (!item || is_turning || lane->merging)
            continue;
        if (item->state == ITEM_DONE) {
            write_item(lanes, lane, item);
            return true;
        }
        if (item->state == ITEM_FAILED && i == 0) {
            fail(lanes, item);
            return true;
        }
    }
    return false;
}

// ---- a lane's turn ----

static void add_states(struct preprocess_state *sum, const struct preprocess_state *more, int64_t keys) {
    sum->file = more->file;
    sum->offset = more->offset;
    sum->line = more->line;
    text_counts_add(&sum->counts, &more->counts);
    for (int64_t file = 0; file < store_files(keys); file++)
        sum->bytes[file] += more->bytes[file];
}

// The first lane was written to a store of its own until now: that goes to the end of the run's.
static bool merge_something(struct lanes *lanes) {
    struct lane *head = lanes->lane_count > 0 ? lanes->lanes[0] : NULL;
    if (!head || !head->has_part || head->merging || head->writing > 0)
        return false;
    head->merging = true;
    pthread_mutex_unlock(&lanes->lock);
    int status = store_copy(lanes->run->store, lanes->done.bytes, &head->part, head->written.bytes);
    struct error_note *error = status < 0 ? error_take() : NULL;
    pthread_mutex_lock(&lanes->lock);
    lanes_end_part(lanes, head);
    head->merging = false;
    head->has_part = false;
    add_states(&lanes->done, &head->written, lanes->keys);
    preprocess_state_copy(&head->given, &lanes->done, lanes->keys);
    preprocess_state_copy(&head->written, &lanes->done, lanes->keys);
    if (status < 0)
        lanes_stop(lanes, error);
    lanes_advance(lanes);
    lanes_wake(lanes);
    return true;
}

// ---- the journal ----

static const struct preprocess_state *written_state(const struct lanes *lanes) {
    bool has_head = lanes->lane_count > 0 && !lanes->lanes[0]->has_part;
    return has_head ? &lanes->lanes[0]->written : &lanes->done;
}

static int write_journal(struct lanes *lanes, const struct preprocess_state *state) {
    TRY(store_sync(lanes->run->store));
    return journal_write(lanes->run->journal, JOURNAL_TOKENIZE, state);
}

static bool is_journal_behind(const struct lanes *lanes) {
    const struct preprocess_state *state = written_state(lanes), *journaled = &lanes->journaled;
    return lanes->run->is_journaled && (state->file != journaled->file || state->offset != journaled->offset);
}

static bool journal_something(struct lanes *lanes) {
    if (lanes->journaling || !is_journal_behind(lanes) ||
        clock_seconds() - lanes->last_journal < lanes->run->journal_seconds)
        return false;
    lanes->journaling = true;
    preprocess_state_copy(&lanes->journaled, written_state(lanes), lanes->keys);
    pthread_mutex_unlock(&lanes->lock);
    int status = write_journal(lanes, &lanes->journaled);
    struct error_note *error = status < 0 ? error_take() : NULL;
    pthread_mutex_lock(&lanes->lock);
    lanes->journaling = false;
    lanes->last_journal = clock_seconds();
    if (status < 0)
        lanes_stop(lanes, error);
    return true;
}

// ---- threads ----

static bool is_finished(const struct lanes *lanes) {
    return lanes->stopped || (lanes->lane_count == 0 && lanes->next_file == lanes->run->files->count);
}

static void take_part(struct lanes *lanes, int thread) {
    pthread_mutex_lock(&lanes->lock);
    while (!is_finished(lanes)) {
        struct item *item;
        if (interrupt_check() < 0)
            lanes_stop(lanes, error_take());
        else if (merge_something(lanes) || write_something(lanes) || journal_something(lanes))
            continue;
        else if (lanes_cut(lanes, &item)) {
            if (item)
                work_on(lanes, item, thread);
        } else if (!is_finished(lanes)) {
            lanes->waiting++;
            pthread_cond_wait(&lanes->changed, &lanes->lock);
            lanes->waiting--;
        }
    }
    lanes_wake(lanes);
    pthread_mutex_unlock(&lanes->lock);
}

static void *thread_main(void *argument) {
    struct thread *thread = argument;
    take_part(thread->lanes, thread->number);
    return NULL;
}

static void run_threads(struct lanes *lanes) {
    int wanted = lanes->run->threads, started = 1;
    struct thread *threads = memory_alloc((size_t)wanted * sizeof *threads);
    for (; started < wanted; started++) {
        threads[started] = (struct thread){.lanes = lanes, .number = started};
        if (pthread_create(&threads[started].handle, NULL, thread_main, &threads[started]) != 0) {
            log_warn("only %d of %d threads could be started; going on with those", started, wanted);
            break;
        }
    }
    take_part(lanes, 0);
    for (int i = 1; i < started; i++)
        pthread_join(threads[i].handle, NULL);
    free(threads);
}

// ---- beginning and end ----

static void create_items(struct lanes *lanes) {
    lanes->item_count = 2 * (int64_t)lanes->run->threads + 1;
    lanes->items = memory_alloc((size_t)lanes->item_count * sizeof *lanes->items);
    for (int64_t i = 0; i < lanes->item_count; i++) {
        struct item *item = &lanes->items[i];
        item->batch = text_batch_create(lanes->keys);
        item->at = memory_alloc((size_t)store_files(lanes->keys) * sizeof *item->at);
        preprocess_state_init(&item->after, lanes->keys);
        item->next = lanes->free_items;
        lanes->free_items = item;
    }
}

static void free_items(struct lanes *lanes) {
    for (int64_t i = 0; i < lanes->item_count; i++) {
        struct item *item = &lanes->items[i];
        text_batch_free(item->batch);
        preprocess_state_free(&item->after);
        buffer_free(&item->bad_lines);
        free(item->at);
        error_drop(item->error);
    }
    free(lanes->items);
}

int preprocess_run(const struct preprocess_run *run, struct preprocess_state *state) {
    struct lanes lanes = {
        .run = run,
        .keys = run->store->keys,
        .lock = PTHREAD_MUTEX_INITIALIZER,
        .changed = PTHREAD_COND_INITIALIZER,
        .next_file = state->file,
        .begin_file = state->file,
        .begin_offset = state->offset,
        .last_journal = clock_seconds(),
    };
    lanes.lanes = memory_alloc((size_t)(run->threads + 1) * sizeof(struct lane *));
    lanes.idle_parts = memory_alloc((size_t)run->threads * sizeof *lanes.idle_parts);
    preprocess_state_init(&lanes.done, lanes.keys);
    preprocess_state_init(&lanes.journaled, lanes.keys);
    preprocess_state_copy(&lanes.done, state, lanes.keys);
    preprocess_state_copy(&lanes.journaled, state, lanes.keys);
    create_items(&lanes);
    run_threads(&lanes);
    preprocess_state_copy(state, written_state(&lanes), lanes.keys);
    // What is done is worth keeping, unless an error came so soon that nobody would miss it. An earlier journal stays
    // where this one cannot be written.
    bool is_kept = run->journal->is_kept || interrupt_check() < 0;
    if (lanes.stopped && is_kept && is_journal_behind(&lanes))
        write_journal(&lanes, state);
    error_clear();
    for (int i = 0; i < lanes.lane_count; i++)
        lane_free(&lanes, lanes.lanes[i]);
    for (int i = 0; i < lanes.idle_count; i++)
        store_remove(&lanes.idle_parts[i]);
    free(lanes.idle_parts);
    free_items(&lanes);
    line_file_close(lanes.opened);
    free(lanes.lanes);
    preprocess_state_free(&lanes.done);
    preprocess_state_free(&lanes.journaled);
    pthread_mutex_destroy(&lanes.lock);
    pthread_cond_destroy(&lanes.changed);
    if (!lanes.stopped)
        return 0;
    return lanes.error ? error_give(lanes.error) : error_set("preprocessing failed without saying why");
}
