// Traces that Perfetto (ui.perfetto.dev) and chrome://tracing open: Chrome's JSON, one event per line.
//
// While a profile runs, every rank writes its own file, trace-rank-N.json: an array that is never closed, as the format
// allows, so the file of a killed run can be opened, too. At the end one rank merges them into one file. Each rank is a
// process of the trace, with a track for its iterations, its host, its device, and the collectives of each group; those
// that overlap get tracks of their own. Times are in microseconds since an origin that all ranks share, in steps of
// 1/8, which readers convert to nanoseconds without rounding: spans that contain each other still do afterwards.
#ifndef REPORT_TRACE_FILE_H
#define REPORT_TRACE_FILE_H

#include "base/buffer.h"
#include "base/trace.h"

enum { TRACE_MOST_LANES = 256 };

// A track shared by the collectives of a group, or by the threads that read samples.
struct trace_lane {
    const char *name;  // of the group
    int number;        // among the lanes of this name, from 0
    double end;        // of the last span
};

struct trace_file {
    int descriptor;  // -1 if closed, or without a file
    char *path;
    bool is_text;  // no file is written; its contents are in `text`
    int rank;
    double origin;               // of the times, on this rank's clock
    struct trace_event *events;  // of the iteration being written
    size_t count, capacity;
    struct trace_lane lanes[TRACE_MOST_LANES];
    int lane_count;
    double device_end;   // of the last item on the device; 0 for none
    bool has_failed;     // reported once and never retried: a full disk must not end a run
    int64_t lost;        // spans for which there was no room
    struct buffer text;  // pending output; lines that end in commas, the first one opens an array
};

// Identifies the rank of a file, for users; text is borrowed.
struct trace_place {
    int rank;
    const char *host, *layout;  // layout: "tensor 0, pipeline 1"; "" for none
    double origin;
    double clock_offset, clock_error;  // from the first rank's, in seconds
    bool has_device;                   // with streams of its own
};

char *trace_file_path(const char *folder, int rank);  // to be freed
int trace_file_open(struct trace_file *file, const char *folder, const struct trace_place *place);
// Opens a trace without a file, for a simulated one.
void trace_file_open_text(struct trace_file *file, const struct trace_place *place);
// Adds a span; its times are clock_seconds of this rank. Nothing is written before trace_file_flush.
void trace_file_add(struct trace_file *file, const struct trace_event *event);
void trace_file_flush(struct trace_file *file);
// A later comparison of clocks: `at` is the time on this rank's clock.
void trace_file_clock(struct trace_file *file, double at, double clock_offset, double clock_error);
void trace_file_close(struct trace_file *file);  // safe on a zeroed or closed one

struct trace_merge {
    const char *folder;
    const int *ranks;  // (count) whose files are merged
    int count;
    char *path;                 // set by trace_merge: the merged file, to be freed
    int64_t events, bad_lines;  // set by trace_merge: events kept, and lines that were not events
    int missing;                // ranks without a file
};
// Writes trace.json.gz (trace.json in a build without zlib), and removes the ranks' files.
int trace_merge(struct trace_merge *merge);
// Converts one line of a rank's file to the merged one, without comma; false if it is not an event. `slope` stretches
// times after `from`, in microseconds, by that share.
bool trace_merge_line(struct buffer *out, const char *line, size_t length, double from, double slope);

#endif
