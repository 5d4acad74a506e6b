// Streams and events of a synchronous device, whose operations are complete when they return: there is nothing to order
// or wait for. These are entries of the tables of such devices. Private to ops/.
#ifndef OPS_INSTANT_H
#define OPS_INSTANT_H

#include "ops/ops.h"

struct event *instant_event_create(struct device *device);
void instant_event_free(struct device *device, struct event *event);
void instant_event_record(struct device *device, struct event *event, enum stream stream);
void instant_stream_wait(struct device *device, enum stream stream, struct event *event);
void instant_event_wait(struct device *device, struct event *event);
void instant_synchronize(struct device *device);

// clang-format off
#define INSTANT_ENTRIES                                                                                                \
    .event_create = instant_event_create, .event_free = instant_event_free, .event_record = instant_event_record,      \
    .stream_wait = instant_stream_wait, .event_wait = instant_event_wait, .synchronize = instant_synchronize
// clang-format on

#endif
