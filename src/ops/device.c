// Opens a backend by name and gives its memory functions a tensor's face. This is the only file that knows the names.
#include "ops/device.h"
#include "base/error.h"
#include <string.h>

// GPUs that fail are opened, and say why: nobody who has them wants the CPU instead.
static const char *resolve(const char *name) {
    if (strcmp(name, "auto") != 0)
        return name;
    int count = cuda_count();
    if (count < 0)
        error_clear();
    return count != 0 ? "cuda" : "cpu";
}

bool device_times_algorithms(const char *name) {
    return strcmp(resolve(name), "cuda") == 0;
}

int device_open(struct device **device, const struct device_options *options) {
    *device = NULL;
    const char *name = resolve(options->name);
    if (strcmp(name, "cpu") == 0)
        return cpu_open(device, options);
    if (strcmp(name, "cuda") == 0) {
        // Ranks beyond the number of GPUs share them, which is slow but right.
        struct device_options here = *options;
        int count = cuda_count();
        here.index = count > 0 ? options->index % count : options->index;
        return cuda_open(device, &here);
    }
    if (strcmp(name, "paper") == 0)
        return paper_open(device);
    return error_set("there is no device \"%s\"; choose auto, cpu, cuda or paper", name);
}

int device_open_paper(struct device **device) {
    return paper_open(device);
}

void device_close(struct device *device) {
    if (device)
        device->ops->close(device);
}

void *device_alloc(struct device *device, size_t bytes) {
    return device->ops->alloc(device, bytes);
}

void device_free(struct device *device, void *memory) {
    if (memory)
        device->ops->free(device, memory);
}

size_t device_room(struct device *device) {
    return device->ops->room ? device->ops->room(device) : 0;
}

void *device_host_alloc(struct device *device, size_t bytes) {
    return device->ops->host_alloc(device, bytes);
}

void device_host_free(struct device *device, void *memory) {
    if (memory)
        device->ops->host_free(device, memory);
}

void device_copy_in(struct device *device, struct tensor to, const void *from_host) {
    CHECK(to.data && tensor_is_contiguous(to));
    device->ops->copy_in(device, to.data, from_host, tensor_bytes(to), STREAM_COMPUTE);
}

void device_copy_out(struct device *device, void *to_host, struct tensor from) {
    CHECK(from.data && tensor_is_contiguous(from));
    device->ops->copy_out(device, to_host, from.data, tensor_bytes(from), STREAM_COMPUTE);
    device->ops->synchronize(device);
}

void device_zero(struct device *device, struct tensor t) {
    CHECK(t.data && tensor_is_contiguous(t));
    device->ops->zero(device, t.data, tensor_bytes(t), STREAM_COMPUTE);
}

void device_synchronize(struct device *device) {
    device->ops->synchronize(device);
}

void device_join(struct device *device, const struct device_peers *peers) {
    if (device->ops->join)
        device->ops->join(device, peers);
}

bool device_records(const struct device *device) {
    return device->ops->record_begin != NULL;
}

void device_record_begin(struct device *device) {
    device->ops->record_begin(device);
}

struct recording *device_record_end(struct device *device) {
    return device->ops->record_end(device);
}

void device_replay(struct device *device, struct recording *recording) {
    device->ops->replay(device, recording);
}

void device_recording_free(struct device *device, struct recording *recording) {
    if (recording)
        device->ops->recording_free(device, recording);
}

void device_profile_start(struct device *device) {
    if (device->ops->profile_start)
        device->ops->profile_start(device);
}

int device_profile_stop(struct device *device, struct profile_row *rows, int most) {
    return device->ops->profile_stop ? device->ops->profile_stop(device, rows, most) : 0;
}

bool device_supports(const struct device *device, enum dtype dtype) {
    return device->ops->supports(device, dtype);
}

void device_describe(const struct device *device, char *text, size_t size) {
    device->ops->describe(device, text, size);
}
