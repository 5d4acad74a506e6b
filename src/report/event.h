// One TensorBoard event as bytes: a protocol-buffer Event in a TFRecord frame. Internal to this folder, and separate
// from the file so that the bytes can be tested.
#ifndef REPORT_EVENT_H
#define REPORT_EVENT_H

#include "base/buffer.h"
#include <stdint.h>

struct event_place {
    double wall_seconds;
    int64_t step;
};

// Each appends one framed record. The version record must be the first of a file.
void event_version(struct buffer *out, double wall_seconds);
void event_scalar(struct buffer *out, struct event_place place, const char *tag, double value);
void event_text(struct buffer *out, struct event_place place, const char *tag, const char *text);

#endif
