// Events of synchronous devices, whose work is done when a call returns: they never wait.
#include "ops/instant.h"
#include "base/memory.h"
#include <stdlib.h>

struct event {
    char unused;
};

struct event *instant_event_create(struct device *device) {
    (void)device;
    return memory_alloc(sizeof(struct event));
}

void instant_event_free(struct device *device, struct event *event) {
    (void)device;
    free(event);
}

void instant_event_record(struct device *device, struct event *event, enum stream stream) {
    (void)device;
    (void)event;
    (void)stream;
}

void instant_stream_wait(struct device *device, enum stream stream, struct event *event) {
    (void)device;
    (void)stream;
    (void)event;
}

void instant_event_wait(struct device *device, struct event *event) {
    (void)device;
    (void)event;
}

void instant_synchronize(struct device *device) {
    (void)device;
}
