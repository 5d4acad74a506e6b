// The slots and their events. See offload.h.
#include "optim/offload.h"
#include "base/error.h"
#include "base/memory.h"

#include <stdlib.h>

struct offload_visitor {
    struct tensor there;  // in the slot
    void *home;           // in host memory
};

struct offload_slot {
    unsigned char *memory;  // (slot bytes) on the device
    // The tensors have arrived in the slot, are updated, and are back in host memory.
    struct event *arrived, *updated, *left;
    bool is_used;
};

struct offload {
    struct offload_slot slots[OFFLOAD_SLOTS];
    size_t slot_bytes;
    int current;  // slot that is in use
    struct offload_visitor visitors[OFFLOAD_MOST_TENSORS];
    int visitor_count;
    struct event *begun;
};

size_t offload_bytes(enum dtype dtype, int64_t count) {
    size_t bytes = (size_t)count * dtype_bytes(dtype);
    return (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
}

struct tensor offload_take_slots(struct arena *arena, size_t piece_bytes) {
    return arena_1d(arena, DTYPE_U8, OFFLOAD_SLOTS * (int64_t)piece_bytes);
}

struct offload *offload_open(struct device *device, struct tensor slots) {
    struct offload *offload = memory_alloc(sizeof *offload);
    offload->slot_bytes = (size_t)tensor_count(slots) / OFFLOAD_SLOTS;
    offload->begun = device->ops->event_create(device);
    for (int i = 0; i < OFFLOAD_SLOTS; i++)
        offload->slots[i] =
            (struct offload_slot){.memory = (unsigned char *)slots.data + (size_t)i * offload->slot_bytes,
                                  .arrived = device->ops->event_create(device),
                                  .updated = device->ops->event_create(device),
                                  .left = device->ops->event_create(device)};
    return offload;
}

void offload_close(struct offload *offload, struct device *device) {
    if (!offload)
        return;
    device_synchronize(device);
    for (int i = 0; i < OFFLOAD_SLOTS; i++) {
        device->ops->event_free(device, offload->slots[i].arrived);
        device->ops->event_free(device, offload->slots[i].updated);
        device->ops->event_free(device, offload->slots[i].left);
    }
    device->ops->event_free(device, offload->begun);
    free(offload);
}

static void await_all(const struct offload *offload, struct device *device, enum stream stream) {
    for (int i = 0; i < OFFLOAD_SLOTS; i++)
        if (offload->slots[i].is_used)
            device->ops->stream_wait(device, stream, offload->slots[i].left);
}

void offload_begin(struct offload *offload, struct device *device) {
    if (!offload)
        return;
    device->ops->event_record(device, offload->begun, STREAM_COMPUTE);
    device->ops->stream_wait(device, STREAM_COPY, offload->begun);
    await_all(offload, device, STREAM_COPY);
}

void offload_bring(struct offload *offload, struct device *device, struct tensor *const *tensors, int count) {
    offload->current = (offload->current + 1) % OFFLOAD_SLOTS;
    struct offload_slot *slot = &offload->slots[offload->current];
    unsigned char *memory = slot->memory;
    CHECK(count <= OFFLOAD_MOST_TENSORS);
    if (slot->is_used)
        device->ops->stream_wait(device, STREAM_COPY, slot->left);
    for (int i = 0; i < count; i++) {
        struct offload_visitor *visitor = &offload->visitors[i];
        *visitor = (struct offload_visitor){.there = *tensors[i], .home = tensors[i]->data};
        visitor->there.data = memory;
        device->ops->copy_in(device, memory, visitor->home, tensor_bytes(visitor->there), STREAM_COPY);
        memory += offload_bytes(visitor->there.dtype, tensor_count(visitor->there));
        *tensors[i] = visitor->there;
    }
    CHECK((size_t)(memory - slot->memory) <= offload->slot_bytes);
    offload->visitor_count = count;
    device->ops->event_record(device, slot->arrived, STREAM_COPY);
    device->ops->stream_wait(device, STREAM_COMPUTE, slot->arrived);
}

void offload_return(struct offload *offload, struct device *device) {
    struct offload_slot *slot = &offload->slots[offload->current];
    device->ops->event_record(device, slot->updated, STREAM_COMPUTE);
    device->ops->stream_wait(device, STREAM_BACK, slot->updated);
    for (int i = 0; i < offload->visitor_count; i++) {
        const struct offload_visitor *visitor = &offload->visitors[i];
        device->ops->copy_out(device, visitor->home, visitor->there.data, tensor_bytes(visitor->there), STREAM_BACK);
    }
    device->ops->event_record(device, slot->left, STREAM_BACK);
    slot->is_used = true;
}

void offload_settle(const struct offload *offload, struct device *device) {
    if (offload)
        await_all(offload, device, STREAM_COMPUTE);
}
