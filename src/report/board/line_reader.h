// Reads lines of metrics.jsonl at about the speed of memory. A "train" line in the trainer's own form takes the fast
// path: its keys are compared with the previous line's, and numbers are converted here. Other lines are parsed by
// base/json.h. Both paths give the same row; numbers of the fast path may differ by two units in the last place.
#ifndef REPORT_BOARD_LINE_READER_H
#define REPORT_BOARD_LINE_READER_H

#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum board_line_kind {
    LINE_BAD,
    LINE_TRAIN,
    LINE_EVAL,
    LINE_RUN,
    LINE_EVENT,
    LINE_RANKS,
    LINE_SAMPLE,
    LINE_UNKNOWN,  // of a later version: skipped
};

// LINE_SLACK_BYTES must be readable after the text for line_read_fast. Larger iterations are not exact in doubles.
enum { LINE_MOST_VALUES = 256, LINE_SLACK_BYTES = 256, LINE_MOST_NAME = 128 };
#define LINE_MOST_ITERATION ((int64_t)1 << 53)

struct board_line_row {
    int64_t iteration, train_iters;  // train_iters is 0 if unknown
    double time;                     // 0 if unknown
    double samples;                  // consumed_samples; -1 if unknown
    int count;
    struct board_line_value {
        int tag;
        double value;  // NAN for null
    } values[LINE_MOST_VALUES];
};

struct board_line_key;

struct board_line_reader {
    struct board_line_key *keys;  // in the order of the lines
    int key_count;
    uint64_t stamp;  // of the current line
    // The index of a tag, -1 if its values are not wanted. `set` is that of an "eval" line, NULL for "train".
    int (*find_tag)(void *owner, const char *name, const char *set);
    void *owner;
};

void line_reader_free(struct board_line_reader *reader);
void line_row_clear(struct board_line_row *row);
// The tag of a number, -1 if it is not wanted: losses have their own names, other keys are written as words. `object`
// is the key of the number's object, or NULL.
int line_tag(struct board_line_reader *reader, const char *object, const char *name, const char *set);

// Reads the "train" line at `text`; whole lines end at `end`. Returns the text after its newline, or NULL for lines of
// another kind or form, which need line_read_tree.
const char *line_read_fast(struct board_line_reader *reader, const char *text, const char *end,
                           struct board_line_row *row);

// The kind of a line, and for lines that are only marked ("ranks", "sample") iteration and time from their first keys;
// LINE_UNKNOWN if only the tree can tell.
enum board_line_kind line_read_head(const char *text, size_t length, struct board_line_row *row);
// The row of a parsed line. Of kinds other than "train" and "eval" only iteration and time are set.
enum board_line_kind line_read_tree(struct board_line_reader *reader, const struct json *root,
                                    struct board_line_row *row);

// Numbers out of bulk JSON. strtod rounds correctly and takes a tenth of a microsecond; a line of metrics has twenty
// numbers, and a board reads 100 million lines.
// Reads the JSON number at `text`, which is followed by a character other than a digit and by eight readable bytes, to
// within two units in the last place. Returns the text after it, or NULL if it is not a finite JSON number.
const char *line_number_read(const char *text, double *value);

// ---- event files ----

// Reads TensorBoard event files of any writer: TFRecord frames around protocol-buffer Events
// (docs/internals/tensorboard.md). Unknown fields are skipped.

enum { EVENT_FRAME_HEAD = 12, EVENT_FRAME_BYTES = 16 };  // before the event; overhead in total

enum event_frame {
    EVENT_FRAME_WHOLE,
    EVENT_FRAME_PART,  // the file may not be complete yet
    EVENT_FRAME_BAD,   // the event's checksum is wrong; the next frame follows
    EVENT_FRAME_LOST,  // the length's checksum is wrong: nothing after it can be found
};
// Examines the frame at `bytes`, of which `size` are available. *length is the event's, once 12 bytes are there.
enum event_frame event_frame_check(const unsigned char *bytes, size_t size, uint64_t *length);

enum event_value_kind { EVENT_OTHER, EVENT_SCALAR, EVENT_TEXT };

// One value of an event. Texts are borrowed and not terminated.
struct event_value {
    double time;
    int64_t step;
    const char *tag, *plugin, *text;
    size_t tag_bytes, plugin_bytes, text_bytes;
    // EVENT_TEXT is any string tensor; EVENT_SCALAR a number, or a tensor that holds one.
    enum event_value_kind kind;
    double number;
};

// Calls use() for each value of the event. -1 if it is not a protocol-buffer message; values before the fault are used.
int event_read(const unsigned char *bytes, size_t size, void (*use)(void *owner, const struct event_value *value),
               void *owner);

#endif
