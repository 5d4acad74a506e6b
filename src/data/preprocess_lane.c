// Lanes: which file is read next, and by whom. A thread that wants work takes a free item, chooses the first lane that
// has some, or begins one, and cuts the next piece of its file into the item; plain files are cut under the lock, since
// that is arithmetic, others without it, since that decompresses. See preprocess_run.h for why there are lanes.
#include "data/preprocess_lane.h"
#include "base/error.h"
#include "base/memory.h"
#include <inttypes.h>
#include <stdlib.h>

// All items may hold so much of lines that are longer than usual, and the oldest one any line; decompressors of lanes
// ahead of their turn may take the second.
static const size_t long_lines_bytes = (size_t)64 << 20;
static const uint64_t ahead_bytes = (uint64_t)256 << 20;
// Parts up to this size are used again for another lane, larger ones give their disk space back.
static const uint64_t idle_part_bytes = (uint64_t)16 << 20;

void lanes_wake(struct lanes *lanes) {
    if (lanes->waiting > 0)
        pthread_cond_broadcast(&lanes->changed);
}

void lanes_stop(struct lanes *lanes, struct error_note *error) {
    if (!lanes->stopped)
        lanes->error = error;
    else
        error_drop(error);
    lanes->stopped = true;
    lanes_wake(lanes);
}

// ---- memory ----

// The first item in the order of the input never waits, so there is always one that can go on.
static bool is_oldest(const struct lanes *lanes, const struct item *item) {
    for (int i = 0; i < lanes->lane_count; i++)
        if (lanes->lanes[i]->first)
            return lanes->lanes[i]->first == item;
    return true;
}

// Line files call this before a long line grows further: see line_file.h.
static void charge(void *context, struct line_piece *piece, size_t bytes) {
    struct lanes *lanes = context;
    struct item *item = lanes->items;
    while (&item->batch->piece != piece)
        item++;
    pthread_mutex_lock(&lanes->lock);
    size_t more = bytes > item->charged ? bytes - item->charged : 0;
    while (!lanes->stopped && lanes->charged + more > long_lines_bytes && !is_oldest(lanes, item)) {
        lanes->waiting++;
        pthread_cond_wait(&lanes->changed, &lanes->lock);
        lanes->waiting--;
    }
    lanes->charged += more;
    item->charged += more;
    pthread_mutex_unlock(&lanes->lock);
}

// ---- lanes ----

static struct lane *lane_create(struct lanes *lanes, int64_t file_number) {
    struct lane *lane = memory_alloc(sizeof *lane);
    lane->file_number = file_number;
    preprocess_state_init(&lane->given, lanes->keys);
    preprocess_state_init(&lane->written, lanes->keys);
    if (lanes->lane_count == 0) {
        preprocess_state_copy(&lane->given, &lanes->done, lanes->keys);
        preprocess_state_copy(&lane->written, &lanes->done, lanes->keys);
    } else {
        lane->given.file = lane->written.file = file_number;
        lane->has_part = true;
    }
    lanes->lanes[lanes->lane_count++] = lane;
    return lane;
}

// ---- parts ----

// Making and removing files is dear (ext4 writes one that was cut to nothing to the disk when it is closed), and there
// may be a part for each of thousands of small inputs.
static int begin_part(struct lanes *lanes, struct lane *lane) {
    if (lanes->idle_count > 0) {
        lane->part = lanes->idle_parts[--lanes->idle_count];
        return 0;
    }
    char *prefix = memory_printf("%s.part%" PRId64, lanes->run->journal->prefix, lanes->parts++);
    int status = store_open(&lane->part, prefix, lanes->keys, lane->given.bytes);
    free(prefix);
    return status;
}

void lanes_end_part(struct lanes *lanes, struct lane *lane) {
    uint64_t bytes = 0;
    for (int64_t file = 0; file < store_files(lanes->keys); file++)
        bytes += lane->given.bytes[file];
    if (lane->part.descriptors && bytes <= idle_part_bytes && lanes->idle_count < lanes->run->threads)
        lanes->idle_parts[lanes->idle_count++] = lane->part;
    else
        store_remove(&lane->part);
    lane->part = (struct store){0};
}

void lane_free(struct lanes *lanes, struct lane *lane) {
    line_file_close(lane->file);
    lanes_end_part(lanes, lane);
    preprocess_state_free(&lane->given);
    preprocess_state_free(&lane->written);
    free(lane);
}

void lanes_advance(struct lanes *lanes) {
    while (lanes->lane_count > 0) {
        struct lane *head = lanes->lanes[0];
        if (!head->ended || head->busy || head->first || head->has_part)
            return;
        preprocess_state_copy(&lanes->done, &head->written, lanes->keys);
        lane_free(lanes, head);
        lanes->lane_count--;
        for (int i = 0; i < lanes->lane_count; i++)
            lanes->lanes[i] = lanes->lanes[i + 1];
        lanes_wake(lanes);
    }
}

// May a lane be begun behind those there are? Only where none of them has, or may turn out to have, work for everybody.
static bool may_begin_lane(const struct lanes *lanes) {
    uint64_t memory = 0, most = 0;
    if (lanes->next_file == lanes->run->files->count || lanes->lane_count == lanes->run->threads)
        return false;
    for (int i = 0; i < lanes->lane_count; i++) {
        const struct lane *lane = lanes->lanes[i];
        if (!lane->ended && (lane->is_plain || !lane->is_known))
            return false;
        memory += lane->memory;
        most = lane->memory > most ? lane->memory : most;
    }
    return lanes->lane_count == 0 || memory + most <= ahead_bytes;
}

static struct lane *choose(struct lanes *lanes) {
    for (int i = 0; i < lanes->lane_count; i++) {
        struct lane *lane = lanes->lanes[i];
        bool is_turning = i == 0 && lane->has_part;
        if (!lane->busy && !lane->ended && !is_turning && !lane->merging)
            return lane;
    }
    if (!may_begin_lane(lanes))
        return NULL;
    struct lane *lane = lane_create(lanes, lanes->next_file++);
    if (lane->has_part && begin_part(lanes, lane) < 0) {
        lanes_stop(lanes, error_take());
        return NULL;
    }
    return lane;
}

// ---- cutting ----

// No other lane is begun between a lane that has left a file opened and the one that it is for.
static int open_file(struct lanes *lanes, struct line_file **file, int64_t number) {
    const struct preprocess_run *run = lanes->run;
    pthread_mutex_lock(&lanes->lock);
    *file = lanes->opened;
    lanes->opened = NULL;
    pthread_mutex_unlock(&lanes->lock);
    if (*file)
        return 0;
    int64_t left = run->files->count - number;
    int together = left < run->threads ? (int)left : run->threads;
    const struct line_file_options options = {
        .path = run->files->items[number],
        .threads = run->threads / together,
        .reads_ahead = run->threads == 1,  // several help each other
        .piece_bytes = run->piece_bytes,
        .line_limit = run->line_limit,
        .skips_long = run->workers[0].parser.options.skip_bad_lines,
        .begin = number == lanes->begin_file ? lanes->begin_offset : 0,
        .charge = charge,
        .context = lanes,
    };
    return line_file_open(file, &options);
}

// Does the file just opened belong to the lane? The first one decides of which kind it is.
static bool is_of_kind(struct lanes *lanes, struct lane *lane) {
    bool is_plain = line_file_is_plain(lane->file);
    pthread_mutex_lock(&lanes->lock);
    if (!lane->is_known)
        lane->is_plain = is_plain;
    lane->is_known = true;
    pthread_mutex_unlock(&lanes->lock);
    return is_plain == lane->is_plain;
}

// Cuts the next piece of the lane's files: 1, 0 if it has no more, -1. Without the lock; the lane is busy.
static int cut(struct lanes *lanes, struct lane *lane, struct line_piece *piece) {
    for (;;) {
        if (!lane->file) {
            TRY(open_file(lanes, &lane->file, lane->file_number));
            if (!is_of_kind(lanes, lane))
                return 0;
        }
        int status = line_file_next(lane->file, piece);
        if (status != 0)
            return status;
        line_file_close(lane->file);
        lane->file = NULL;
        // Only the last lane can be one of plain files, and while it is, no other is begun.
        pthread_mutex_lock(&lanes->lock);
        bool is_next = lane->is_plain && lanes->next_file < lanes->run->files->count;
        lane->file_number = is_next ? lanes->next_file++ : lane->file_number;
        pthread_mutex_unlock(&lanes->lock);
        if (!is_next)
            return 0;
    }
}

// The lane has no more pieces. A compressed file or a pipe after plain ones is open already: it begins a lane of its
// own, and stays open, since what was read of a pipe to tell its kind could not be read again.
static void end_lane(struct lanes *lanes, struct lane *lane) {
    lane->ended = true;
    if (!lane->file)
        return;
    CHECK(!lanes->opened);
    lanes->opened = lane->file;
    lane->file = NULL;
    lanes->next_file--;
}

static void append_item(struct lane *lane, struct item *item) {
    item->next = NULL;
    if (lane->last)
        lane->last->next = item;
    else
        lane->first = item;
    lane->last = item;
    if (!lane->next_item)
        lane->next_item = item;
}

static void remove_last(struct lane *lane, const struct item *item) {
    struct item **place = &lane->first, *before = NULL;
    while (*place != item) {
        before = *place;
        place = &before->next;
    }
    *place = NULL;
    lane->last = before;
    if (lane->next_item == item)
        lane->next_item = NULL;
}

bool lanes_cut(struct lanes *lanes, struct item **cut_item) {
    struct item *item = lanes->free_items;
    struct lane *lane = item ? choose(lanes) : NULL;
    *cut_item = NULL;
    if (!lane)
        return false;
    lanes->free_items = item->next;
    item->state = ITEM_WORK;
    item->batch->failed_line = -1;
    append_item(lane, item);
    int status;
    if (lane->file && lane->is_plain && (status = line_file_next(lane->file, &item->batch->piece)) > 0) {
        item->file = lane->file_number;
        *cut_item = item;
        return true;
    }
    lane->busy = true;
    pthread_mutex_unlock(&lanes->lock);
    status = cut(lanes, lane, &item->batch->piece);
    struct error_note *error = status < 0 ? error_take() : NULL;
    uint64_t memory = status > 0 ? line_file_memory(lane->file) : 0;
    pthread_mutex_lock(&lanes->lock);
    lane->busy = false;
    lane->memory = memory;
    item->file = lane->file_number;
    if (status < 0) {
        lane->ended = true;
        item->state = ITEM_FAILED;
        item->error = error;
    } else if (status == 0) {
        remove_last(lane, item);
        item->next = lanes->free_items;
        lanes->free_items = item;
        end_lane(lanes, lane);
    }
    lanes_advance(lanes);
    lanes_wake(lanes);
    *cut_item = status > 0 ? item : NULL;
    return true;
}
