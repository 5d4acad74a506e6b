// Opening a device by name, and what every device can do with memory and time. The names live here and in the flag
// `--device`, nowhere else.
#ifndef OPS_DEVICE_H
#define OPS_DEVICE_H

#include "ops/ops.h"

struct device_options {
    const char *name;  // "cpu", "cuda", "paper", or "auto": the first GPU if there is one, else the CPU
    int threads;       // CPU: worker threads, at least 1
    // CPU: the kernels that matrix products may go through, by name and separated by commas; NULL for the best there
    // are on this processor, "openblas" for none of ours. See docs/internals/ops.md.
    const char *cpu_kernels;
    int index;  // GPU: which one, counted round those there are; ranks give their place on the machine
    // GPU: the file that keeps which algorithms were fastest, or NULL; see docs/internals/ops.md.
    const char *algorithm_cache;
    bool allows_tf32;       // GPU: products of fp32 numbers may round them to 11 bits
    bool is_deterministic;  // GPU: nothing whose bits change from run to run, nothing chosen by timing
};

int device_open(struct device **device, const struct device_options *options);
// Whether the device of this name times algorithms, and so has something to keep in a file: algorithm_cache above.
bool device_times_algorithms(const char *name);
void device_close(struct device *device);  // NULL is fine
// The paper twin of a device: same dtypes, no memory, no work.
int device_open_paper(struct device **device);

void *device_alloc(struct device *device, size_t bytes);  // NULL after error_set
void device_free(struct device *device, void *memory);
void *device_host_alloc(struct device *device, size_t bytes);
void device_host_free(struct device *device, void *memory);
// Whole contiguous tensors on the compute stream. copy_in may return before the copy is done: from_host must stay as it
// is until the stream has passed. copy_out waits.
void device_copy_in(struct device *device, struct tensor to, const void *from_host);
void device_copy_out(struct device *device, void *to_host, struct tensor from);
void device_zero(struct device *device, struct tensor t);
void device_synchronize(struct device *device);
bool device_supports(const struct device *device, enum dtype dtype);
void device_describe(const struct device *device, char *text, size_t size);

// One per backend. cuda_open reports that the build has no CUDA where that is so.
int cpu_open(struct device **device, const struct device_options *options);   // reads threads and cpu_kernels
int cuda_open(struct device **device, const struct device_options *options);  // name and threads are not read
int paper_open(struct device **device);
// The names that cpu_kernels may hold on this processor, best first: "amx, avx512, openblas".
void cpu_list_kernels(char *text, size_t size);
int cuda_count(void);  // GPUs that can be used; 0 where the build or the machine has none

// Ranks that do the same operations in the same order may do them the same way: what a device finds out by timing, the
// one of rank 0 finds out for all of them, so that they round alike and a run repeats. Nothing on devices that time
// nothing.
struct device_peers {
    int rank;
    void (*broadcast)(void *context, void *bytes, size_t count);  // of rank 0's, in an order that all share
    void *context;                                                // lives as long as the device is used
};
void device_join(struct device *device, const struct device_peers *peers);

// Recordings: where a device makes them, what is queued on the compute stream between begin and end is kept and not
// run, and replayed as often as wanted: the same operations on the same addresses, with what those hold by then. Values
// that were given by the host stay as they were. Everything recorded must have run before, and nothing in between may
// wait for the device or copy from the host. device_record_end returns NULL where nothing could be recorded.
bool device_records(const struct device *device);
void device_record_begin(struct device *device);
struct recording *device_record_end(struct device *device);
void device_replay(struct device *device, struct recording *recording);
void device_recording_free(struct device *device, struct recording *recording);  // NULL is fine

// The time of operations on the compute stream by kind and shape, with what they need at least; slowest first. Only on
// devices whose table has profile_start.
struct profile_row {
    char name[64];
    int64_t calls;
    double seconds, flops, bytes;
};
void device_profile_start(struct device *device);
// Waits for the device, fills up to `most` rows and returns their number; 0 where the device keeps no profile.
int device_profile_stop(struct device *device, struct profile_row *rows, int most);

// What the paper backend has added up.
struct paper_totals {
    double matmul_flops, attention_flops, bytes_moved;
    int64_t operations;
};
struct paper_totals paper_totals(const struct device *device);

#endif
