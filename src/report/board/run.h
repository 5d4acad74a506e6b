// One run: its files, the positions up to which they are read, and their contents. Internal to this folder.
//
// Curves are pyramids: one for all values of "train" lines, one per set of "eval" lines, one per tag of event files.
// Everything that is not a number stays on disk; a mark says where, and it is read again on request.
//
// Access to a run requires its lock; only fields marked as fixed are read without it.
#ifndef REPORT_BOARD_RUN_H
#define REPORT_BOARD_RUN_H

#include "base/buffer.h"
#include "base/json.h"
#include "report/board/line_reader.h"
#include "report/board/pyramid.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { RUN_MOST_TAGS = 512, RUN_MOST_SETS = 16, RUN_MOST_FILES = 1024, RUN_MOST_TAG_BYTES = 300 };

struct run_file {
    char *path;
    uint64_t device, inode;  // 0 before it was opened
    uint64_t size;           // at the last look
    uint64_t offset;         // position of the next read, which is the end of a line or a record
    bool is_lost;            // an event file with a bad length: nothing after it can be found
    bool is_in_long_line;    // a line that is too long is being skipped
};

enum run_tag_kind { RUN_TAG_CURVE, RUN_TAG_TEXT, RUN_TAG_OTHER };
struct run_tag {
    char *name;
    enum run_tag_kind kind;
    int group, column;  // of curves
};

struct run_group {
    struct pyramid pyramid;
    char *set;  // of "eval" lines; NULL of "train" lines and event files
};

// Position of a line or record that is read again on request.
enum run_mark_kind { RUN_MARK_START, RUN_MARK_EVENT, RUN_MARK_SAMPLE, RUN_MARK_RANKS, RUN_MARK_TEXT, RUN_MARK_KINDS };
struct run_mark {
    uint64_t begin;
    uint32_t bytes, file;
    int64_t step;
    double time;
};
struct run_marks {
    struct run_mark *items;
    int count;
};

enum run_end { RUN_END_NONE, RUN_END_FINISHED, RUN_END_STOPPED, RUN_END_FAILED };

// Facts from the last lines. Strings may be NULL.
struct run_summary {
    double started, updated;  // time of the first "run" line since iteration 0, and of the last line
    double distance;          // usual seconds between two "train" lines, 0 if unknown
    int64_t iteration, train_iters, ranks, pid;
    int64_t restarts;  // "run" lines after the one of `started`
    char *host, *job, *job_log, *why, *version;
    enum run_end end;
    double tokens_per_sample, flops_per_token;  // 0 if unknown
    bool has_tokens, has_flops;                 // some line has a place on that axis
};

struct board_run {
    // Fixed after the run was found.
    char *path, *name;
    uint64_t path_hash;
    char id[9];
    bool is_events, is_top;  // is_top: of the folder that is served

    pthread_mutex_t lock;
    atomic_int waiting;  // number of callers that wait for the lock; a scan yields to them
    atomic_bool is_gone;
    // Protected by the store's lock: a thread reads the run, or should; the last search that found it.
    bool is_busy, has_work;
    int64_t seen;

    // The user's note beside the run: its first line is its title, the rest a note. NULL for none.
    char *title, *note;
    struct run_file *files;  // of metrics: one
    int file_count;
    struct run_tag tags[RUN_MOST_TAGS];
    int tag_count, last_tag;  // last_tag: where the next search begins
    struct run_group *groups;
    int group_count;
    int bin_limit;
    bool is_cache_tried;
    int last_state;          // when the revision last grew
    struct board_run *peek;  // contents of the ends of a long file until all of it is read; NULL otherwise
    struct run_marks marks[RUN_MARK_KINDS];
    struct run_summary summary;
    struct board_line_reader lines;
    struct board_line_row row;
    int64_t line_count, bad_lines;
    uint64_t refilled_bytes;  // read again after cuts
    uint64_t cached_bytes;    // read at the time the cache was written
    // Read without the lock.
    _Atomic uint64_t total_bytes, done_bytes, curve_bytes;
};

struct board_run *run_new(const char *path, const char *name, bool is_events, int bin_limit);
void run_free(struct board_run *run);
void run_lock(struct board_run *run);
void run_unlock(struct board_run *run);
// Takes over the data of another run with the same path, which is to be freed. Files that only `run` has stay unread.
void run_adopt(struct board_run *run, struct board_run *loaded);
// Resets the data that was read.
void run_clear(struct board_run *run);
void run_add_file(struct board_run *run, const char *path);
// The tag of this name, made if it is missing; -1 if there are too many. `set` is that of "eval" lines.
int run_find_tag(void *run, const char *name, const char *set);
int run_add_group(struct board_run *run, const char *set);
void run_add_mark(struct board_run *run, enum run_mark_kind kind, const struct run_mark *mark);
// Drops samples and ranks of an abandoned branch.
void run_cut_marks(struct board_run *run, int64_t step);
// Sets the limit of all pyramids; and curve_bytes to what they take.
void run_shrink(struct board_run *run, int bin_limit);
void run_count_curves(struct board_run *run);
// Cuts a group back, and reads the lines up to the step again if they were merged with later ones.
void run_cut(struct board_run *run, int group, int64_t step);
void run_set_string(char **string, const char *value);
// Reads the note again; NULL for none. True if it has changed.
bool run_read_note(struct board_run *run, const char *path);
// Opens a file that the run names or that lies beside it. Another user may have put it there, so it must not lead to
// files that only we may read: it is a regular file, not a link, and has the owner of the metrics. -1 otherwise.
int run_open_beside(const struct board_run *run, const char *path);

// Reads the sizes of the files. A file that shrank or was replaced resets the run. True if there is new data to read.
bool run_look(struct board_run *run);
// Reads up to about `bytes` more, at most to the present end; the buffer is reused between calls. True if there is
// more.
bool run_read(struct board_run *run, size_t bytes, struct buffer *scratch);
// Parse `size` bytes of each kind at the file's offset: return the number of bytes in whole lines or records.
size_t run_read_lines(struct board_run *run, int file, const char *bytes, size_t size);
size_t run_read_events(struct board_run *run, int file, const char *bytes, size_t size);

// Reads lines or records again: those of a bin, which follow `before`, up to last_step. Each is one bin of `into`,
// whose columns are column_of[tag], -1 for those not wanted.
struct run_again {
    int group;
    const struct pyramid_bin *bin;
    const struct pyramid_place *before;  // of the bin before, or NULL
    int64_t last_step;
    const int *column_of;
    struct pyramid *into;
};
int run_read_again(struct board_run *run, const struct run_again *again);
void run_lines_again(struct board_run *run, const struct run_again *again, const char *bytes, size_t size);
void run_events_again(struct board_run *run, const struct run_again *again, const char *bytes, size_t size);
// Reads only the ends of a long file of metrics, so that the list of runs is correct before the curves are read.
void run_take_peek(struct board_run *run);
void run_drop_peek(struct board_run *run);
// The run whose summary is to be shown: the peek, or the run itself.
const struct board_run *run_shown(const struct board_run *run);
// Reads up to `size` bytes into the buffer, followed by LINE_SLACK_BYTES zeros; returns how many there were, or -1.
ssize_t run_read_at(int descriptor, uint64_t offset, size_t size, struct buffer *out);
// Reads all of these bytes of a file. -1 on failure.
int run_read_bytes(const struct board_run *run, uint32_t file, uint64_t begin, size_t size, struct buffer *out);
// The line of a mark, parsed; NULL if it no longer exists. To be freed with json_free.
struct json *run_read_mark(const struct board_run *run, const struct run_mark *mark);

// The last finite value of a tag, NAN if there is none.
double run_last_value(const struct board_run *run, int tag);
// The tag of the training or the validation loss, -1 if there is none.
int run_loss_tag(const struct board_run *run, bool is_validation);
int run_tag_named(const struct board_run *run, const char *name);

enum board_run_state { RUN_LIVE, RUN_FINISHED, RUN_STOPPED, RUN_FAILED, RUN_LOST };
enum board_run_state run_state(const struct board_run *run, double now);
extern const char *const run_state_names[];

// The cache of a run: complete or absent. Loading fails, and leaves the run unchanged, if the file is not of this path,
// inode and content, or is damaged in any way.
void run_cache_write(const struct board_run *run, struct buffer *out);
int run_cache_read(struct board_run *run, const char *bytes, size_t size);
char *run_cache_path(const struct board_run *run, const char *folder);

#endif
