// Streams and events of a synchronous device, whose operations are complete when they return: there is nothing to order
// or wait for. These are entries of the tables of such devices. Private to ops/.
#ifndef OPS_INSTANT_H
#define OPS_INSTANT_H

#include "base/memory.h"
#include "ops/ops.h"

#include <stdlib.h>

struct event {
    char unused;
};

static inline struct event *instant_event_create(struct device *device) {
    (void)device;
    return memory_alloc(sizeof(struct event));
}

static inline void instant_event_free(struct device *device, struct event *event) {
    (void)device;
    free(event);
}

static inline void instant_event_record(struct device *device, struct event *event, enum stream stream) {
    (void)device, (void)event, (void)stream;
}

static inline void instant_stream_wait(struct device *device, enum stream stream, struct event *event) {
    (void)device, (void)stream, (void)event;
}

static inline void instant_event_wait(struct device *device, struct event *event) {
    (void)device, (void)event;
}

static inline void instant_synchronize(struct device *device) {
    (void)device;
}

// clang-format off
#define INSTANT_ENTRIES                                                                                                \
    .event_create = instant_event_create, .event_free = instant_event_free, .event_record = instant_event_record,      \
    .stream_wait = instant_stream_wait, .event_wait = instant_event_wait, .synchronize = instant_synchronize
// clang-format on

#endif
