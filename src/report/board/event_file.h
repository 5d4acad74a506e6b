// Reads TensorBoard event files of any writer: TFRecord frames around protocol-buffer Events
// (docs/internals/tensorboard.md). Unknown fields are skipped.
#ifndef REPORT_BOARD_EVENT_FILE_H
#define REPORT_BOARD_EVENT_FILE_H

#include <stddef.h>
#include <stdint.h>

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
