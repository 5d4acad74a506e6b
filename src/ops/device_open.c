// Opens a backend by name and wraps its memory functions for tensors. This is the only file that knows the names.
#include "ops/device.h"
#include "base/error.h"
#include "base/log.h"
#include "ops/cuda_module.h"
#include <string.h>

// Failing GPUs are opened anyway, so that the error says why: falling back to the CPU would hide it.
static const char *resolve(const char *name) {
    if (!name)
        return "cpu";
    if (strcmp(name, "auto") != 0)
        return name;
    int count = cuda_count();
    if (count < 0)
        error_clear();
    return count != 0 ? "cuda" : "cpu";
}

static void warn_of_missing_module(void) {
    struct buffer text = {0};
    if (cuda_module_is_missed(&text))
        log_warn_once("%s; running on the CPU (--device cpu silences this)", buffer_string(&text));
    buffer_free(&text);
}

bool device_times_algorithms(const char *name) {
    return strcmp(resolve(name), "cuda") == 0;
}

int device_open(struct device **device, const struct device_options *options) {
    *device = NULL;
    const char *name = resolve(options->name);
    if (strcmp(name, "cpu") == 0) {
        if (options->name && strcmp(options->name, "auto") == 0)
            warn_of_missing_module();
        return cpu_open(device, options);
    }
    if (strcmp(name, "cuda") == 0) {
        // Ranks beyond the number of GPUs share them, which is slow but correct.
        struct device_options here = *options;
        int count = cuda_count();
        here.index = count > 0 ? options->index % count : options->index;
        return cuda_open(device, &here);
    }
    if (strcmp(name, "paper") == 0)
        return paper_open(device, NULL);
    return error_set("there is no device \"%s\"; choose auto, cpu, cuda or paper", name);
}

bool device_is_imaginary(const struct device *device) {
    return device->ops->is_imaginary;
}

bool device_gains_by_many(const struct device *device) {
    return device->ops->gains_by_many && device->ops->gains_by_many(device);
}

int device_open_twin(struct device **twin, const struct device *real) {
    return paper_open(twin, real);
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

void *device_hosted_alloc(struct device *device, size_t bytes) {
    return device->ops->is_imaginary ? device_alloc(device, bytes) : device_host_alloc(device, bytes);
}

void device_hosted_free(struct device *device, void *memory) {
    if (device->ops->is_imaginary)
        device_free(device, memory);
    else
        device_host_free(device, memory);
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

bool device_has_clock(const struct device *device) {
    return device->ops->clock != NULL;
}

void device_clock_start(struct device *device, int64_t most) {
    if (device->ops->clock)
        device->ops->clock->start(device, most);
}

void device_clock_stop(struct device *device) {
    if (device->ops->clock)
        device->ops->clock->stop(device);
}

int64_t device_stamp_native(struct device *device, void *stream) {
    return device->ops->clock ? device->ops->clock->stamp(device, stream) : 0;
}

int64_t device_stamp(struct device *device, enum stream stream) {
    return device->ops->clock ? device_stamp_native(device, device->ops->native_stream(device, stream)) : 0;
}

bool device_read_stamp(struct device *device, int64_t stamp, double *seconds) {
    return device->ops->clock && stamp > 0 && device->ops->clock->read(device, stamp, seconds);
}

void device_announce_profile(struct device *device, bool is_on) {
    if (device->ops->clock)
        device->ops->clock->announce(device, is_on);
}

void device_push_range(struct device *device, const char *name) {
    if (device->ops->clock)
        device->ops->clock->push_range(name);
}

void device_pop_range(struct device *device) {
    if (device->ops->clock)
        device->ops->clock->pop_range();
}

bool device_supports_scaling(const struct device *device, enum scaling scaling) {
    return !device->ops->supports_scaling || device->ops->supports_scaling(device, scaling);
}

bool device_multiplies_groups8(const struct device *device, enum scaling scaling) {
    return !device->ops->multiplies_groups8 || device->ops->multiplies_groups8(device, scaling);
}

bool device_supports(const struct device *device, enum dtype dtype) {
    return device->ops->supports(device, dtype);
}

bool device_is_fast(const struct device *device, enum dtype dtype) {
    return device_supports(device, dtype) && (!device->ops->is_fast || device->ops->is_fast(device, dtype));
}

void device_describe(const struct device *device, char *text, size_t size) {
    device->ops->describe(device, text, size);
}
