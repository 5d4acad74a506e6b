// Two devices that only have memory. `host` stores bytes unchanged. `remote` stores every byte inverted and copies in
// only when synchronized, so code that touches its memory directly, or changes a buffer too early, gets wrong bytes.
#ifndef TESTS_STORE_DEVICES_H
#define TESTS_STORE_DEVICES_H

#include "ops/device.h"
#include "test.h"
#include <stdlib.h>

struct remote_device {
    struct device device;
    struct {
        unsigned char *to;
        const unsigned char *from;
        size_t bytes;
    } queued;
    int copies;
};

static inline void copy_inverted(unsigned char *to, const unsigned char *from, size_t bytes) {
    for (size_t i = 0; i < bytes; i++)
        to[i] = (unsigned char)~from[i];
}

static inline void remote_synchronize(struct device *device) {
    struct remote_device *remote = (struct remote_device *)device;
    copy_inverted(remote->queued.to, remote->queued.from, remote->queued.bytes);
    remote->queued.bytes = 0;
}

static inline void remote_copy_in(struct device *device, void *to, const void *from, size_t bytes, enum stream stream) {
    struct remote_device *remote = (struct remote_device *)device;
    (void)stream;
    remote_synchronize(device);
    remote->queued.to = to;
    remote->queued.from = from;
    remote->queued.bytes = bytes;
    remote->copies++;
}

static inline void remote_copy_out(struct device *device, void *to, const void *from, size_t bytes,
                                   enum stream stream) {
    (void)stream;
    remote_synchronize(device);
    copy_inverted(to, from, bytes);
    ((struct remote_device *)device)->copies++;
}

static inline void *plain_alloc(struct device *device, size_t bytes) {
    (void)device;
    return malloc(bytes);
}

static inline void plain_free(struct device *device, void *memory) {
    (void)device;
    free(memory);
}

static inline void plain_synchronize(struct device *device) {
    (void)device;
}

static const struct ops host_ops = {.name = "host",
                                    .is_host_memory = true,
                                    .host_alloc = plain_alloc,
                                    .host_free = plain_free,
                                    .synchronize = plain_synchronize};
static const struct ops remote_ops = {.name = "remote",
                                      .host_alloc = plain_alloc,
                                      .host_free = plain_free,
                                      .copy_in = remote_copy_in,
                                      .copy_out = remote_copy_out,
                                      .synchronize = remote_synchronize};

#endif
