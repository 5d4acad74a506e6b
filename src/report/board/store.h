// The store of the board: all data of the runs below a folder, and answers from it as JSON, the bodies of the HTTP API
// (docs/internals/board.md).
//
// A run is a metrics.jsonl, or a folder with TensorBoard event files and no metrics.jsonl. Threads of the store find
// runs and read new data from their files; a caller never waits for a scan, it gets the data read so far. Files are
// hostile: malformed parts are counted and skipped, and memory is bounded for any length.
//
// Every function except board_store_open and board_store_close may be called from any thread at any time. Functions
// that write JSON append one whole JSON value to the buffer, or nothing and return -1.
#ifndef REPORT_BOARD_STORE_H
#define REPORT_BOARD_STORE_H

#include "base/buffer.h"
#include "report/board/pyramid.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct board_store;

struct board_store_options {
    const char *logdir;     // the folder of runs; a single file of metrics or events is also allowed
    const char *cache_dir;  // folder that caches the contents of long files, made if it is missing; NULL: no cache
    double poll_seconds;    // pause between two looks at the files; 0 for 1 second
    size_t memory_bytes;    // limit of all curves together, which get coarser beyond it; 0 for 96 MiB
    bool no_threads;        // nothing is read until board_store_scan is called: for --text and --export
};

// -1 if the folder cannot be listed. A folder without runs is not an error: they may appear later.
int board_store_open(struct board_store **store, const struct board_store_options *options);
void board_store_close(struct board_store *store);  // ends the threads and writes the cache; NULL is fine

// Reads all files to their present ends: itself if the store has no threads, else by waiting for them.
void board_store_scan(struct board_store *store);

// A number that grows whenever a later answer differs from an earlier one.
int64_t board_store_revision(struct board_store *store);
// Waits until the revision is above `after`, or for this many seconds, and returns it. board_store_wake ends all waits
// early, now and in future: call it before joining threads that wait.
int64_t board_store_wait(struct board_store *store, int64_t after, double seconds);
void board_store_wake(struct board_store *store);

// Number of runs.
size_t board_store_count(struct board_store *store);

// The body of /api/runs: all runs, the one with the latest line first.
int board_store_runs(struct board_store *store, struct buffer *json);
// The body of /api/run. -1 if there is no run with this id.
int board_store_run(struct board_store *store, const char *id, struct buffer *json);
// The body of /api/log: the last lines of the run's job log; at most 1000. -1 if there is no run with this id.
int board_store_log(struct board_store *store, const char *id, int lines, struct buffer *json);

enum { BOARD_MOST_POINTS = 2000, BOARD_MOST_CURVES = 4096 };

struct curve_query {
    const char *const *ids, *const *tags;  // every tag of every run that has it
    size_t id_count, tag_count;            // no tags: all tags
    enum board_x x;
    bool has_range;   // only points with from <= x <= to, and one on each side so that lines lead out of the picture
    double from, to;  // in units of x
    int points;       // at most this many per curve, up to BOARD_MOST_POINTS; 0 for 500
};
// The body of /api/curves. A run without a tag has no curve of it. -1 for an unknown id.
int board_store_curves(struct board_store *store, const struct curve_query *query, struct buffer *json);

// ---- numbers ----

// Numbers of curves as JSON. An answer has hundreds of thousands of them; the library's printing alone would take
// longer than a user should wait.

enum { NUMBER_MOST_BYTES = 40 };

// Writes the number with up to `digits` (at most 15) significant digits, without zeros at the end; null if it is not
// finite. Whole numbers below 10^15 keep all of their digits. Returns the end of the text, which has no NUL and at most
// NUMBER_MOST_BYTES.
char *number_write(char *text, double value, int digits);
// Appends it to a buffer.
void number_append(struct buffer *out, double value, int digits);

#endif
