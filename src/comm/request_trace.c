// Spans of collectives. See request_trace.h.
#include "comm/request_trace.h"
#include "base/trace.h"
#include "comm/backend.h"
#include "ops/device.h"

// The collective itself, from its start or on its stream, and the wait for it on the track of the waiter.
static void add_spans(const struct comm_request *request, const int64_t stamps[2], struct trace_event wait) {
    struct trace_event flight = {.name = request->name,
                                 .group = request->group->name,
                                 .how = collective_kind_name(request->kind),
                                 .start = request->started,
                                 .end = wait.end,
                                 .stamps = {stamps[0], stamps[1]},
                                 .bytes = request->bytes,
                                 .micro_batch = -1,
                                 .chunk = -1,
                                 .kind = TRACE_COMMUNICATION,
                                 .track = TRACK_COLLECTIVES};
    trace_add(&flight);
    wait.name = request->name;
    wait.micro_batch = wait.chunk = -1;
    wait.kind = TRACE_IDLE;
    wait.is_inner = true;
    if (wait.end > wait.start || wait.stamps[0])
        trace_add(&wait);
}

void request_trace(const struct comm_request *request, double began, double ended) {
    add_spans(request, (int64_t[2]){0, 0}, (struct trace_event){.start = began, .end = ended, .track = TRACK_HOST});
}

bool request_order(struct comm_request *request) {
    struct device *device = request->group->world->device;
    if (!trace_is_on() || !request->collective->stamps)
        return request->collective->order(request->group, request->handle);
    int64_t flight[2] = {0};
    struct trace_event wait = {.track = TRACK_DEVICE};
    wait.stamps[0] = device_stamp(device, STREAM_COMPUTE);
    // The handle may be freed here; a receive is queued here.
    bool is_watched = request->collective->order(request->group, request->handle);
    if (is_watched) {
        request->collective->stamps(request->group, request->handle, flight);
        wait.stamps[1] = device_stamp(device, STREAM_COMPUTE);
    }
    if (is_watched && flight[0] && wait.stamps[0])
        add_spans(request, flight, wait);
    return is_watched;
}
