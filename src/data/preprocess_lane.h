// Lanes and the pieces in them: what preprocess_run.c and preprocess_lane.c share. Everything is guarded by the lock of
// struct lanes, but for what a thread alone is at work on: the file of a busy lane, the batch of an item that is
// in work or being written.
#ifndef DATA_PREPROCESS_LANE_H
#define DATA_PREPROCESS_LANE_H

#include "data/preprocess_run.h"
#include <pthread.h>

enum item_state { ITEM_WORK, ITEM_DONE, ITEM_FAILED, ITEM_WRITING, ITEM_WRITTEN };

struct item {
    struct item *next;  // in its lane, or among the free ones
    struct text_batch *batch;
    enum item_state state;
    int64_t file;                   // of the inputs
    struct error_note *error;       // of a failed one
    struct preprocess_state after;  // of the lane, with this item
    uint64_t *at;                   // (store_files) where its bytes go
    struct buffer bad_lines;        // their list
    size_t charged;                 // bytes of long lines that it has taken
};

struct lane {
    struct line_file *file;     // open at present; NULL for none
    int64_t file_number;        // of the inputs
    bool is_plain;              // its files are
    bool is_known;              // whether they are is known
    bool busy;                  // a thread opens or cuts its file
    bool ended;                 // nothing more will come
    struct item *first, *last;  // in order; those that are written leave at the front
    struct item *next_item;     // the first that has no place yet
    int64_t writing;            // items being written
    uint64_t input_bytes;       // of the present file that are accounted for
    uint64_t memory;            // that decompressing takes
    struct store part;          // where it is written until its turn comes
    bool has_part;
    bool merging;                     // the part is being copied
    struct preprocess_state given;    // with all items that have a place
    struct preprocess_state written;  // with those that have been written
};

struct lanes {
    const struct preprocess_run *run;
    int64_t keys;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int waiting;  // threads
    struct item *items;
    int64_t item_count;
    struct item *free_items;
    struct lane **lanes;  // (lane_count) in order of the input; the first one writes to the run's store
    int lane_count;
    int64_t next_file;         // the first that no lane has taken
    struct line_file *opened;  // that file, where a lane of plain files has met it; NULL mostly
    int64_t parts;             // made so far
    struct store *idle_parts;  // (idle_count, at most threads) that lanes are done with, to be used again
    int idle_count;
    int64_t begin_file;  // where the run begins
    uint64_t begin_offset;
    size_t charged;  // by all items
    bool stopped;
    struct error_note *error;
    struct preprocess_state done;  // when no lane is left
    bool journaling;
    double last_journal;
    struct preprocess_state journaled;  // what the journal says
};

void lanes_wake(struct lanes *lanes);
void lanes_stop(struct lanes *lanes, struct error_note *error);

// Takes a free item and cuts the next piece of some lane into it, which the caller then works on: *item, NULL if the
// lane had none. False if there is no lane to cut at present. With the lock held, which is given up in between.
bool lanes_cut(struct lanes *lanes, struct item **item);
// The lane's part has been copied, or nobody wants it any more.
void lanes_end_part(struct lanes *lanes, struct lane *lane);
// Takes lanes away that are done with.
void lanes_advance(struct lanes *lanes);
void lane_free(struct lanes *lanes, struct lane *lane);

#endif
