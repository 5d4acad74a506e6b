// Opens a device by name, and does with memory and time what every device can do. The names appear here and in the flag
// `--device`, nowhere else.
#ifndef OPS_DEVICE_H
#define OPS_DEVICE_H

#include "ops/ops.h"

struct device_options {
    const char *name;  // "cpu", "cuda", "paper", or "auto": the first GPU if there is one, else the CPU
    int threads;       // CPU: worker threads, at least 1
    // CPU: the kernels that matrix products may use, by name and separated by commas; NULL for the best on this
    // processor, "openblas" for none of our own. See docs/internals/ops.md.
    const char *cpu_kernels;
    int index;  // GPU: which one, modulo the number of GPUs; ranks pass their place on the machine
    // GPU: the file that remembers which algorithms were fastest, or NULL; see docs/internals/ops.md.
    const char *algorithm_cache;
    bool allows_tf32;       // GPU: fp32 products may round their inputs to 11 bits
    bool is_deterministic;  // GPU: nothing whose bits change from run to run, and nothing chosen by timing
    // GPU: attention may have its dropout drawn by a library, see struct dropout; not read if deterministic.
    bool has_fast_dropout;
};

int device_open(struct device **device, const struct device_options *options);
// Whether the device of this name times algorithms, and so has something to keep in a file: algorithm_cache above.
bool device_times_algorithms(const char *name);
void device_close(struct device *device);  // NULL is fine
// The paper twin of a device: the same dtypes, but no memory and no work.
int device_open_paper(struct device **device);
// Makes a paper device find out how much memory of its own `real` would take (own_bytes of the table): from now on the
// most is kept in its totals. If `real` is itself on paper, the one that it stands for is meant. It must stay.
void paper_stand_for(struct device *paper, const struct device *real);

void *device_alloc(struct device *device, size_t bytes);  // NULL after error_set
void device_free(struct device *device, void *memory);
// How many bytes are free on a device with memory of its own; 0 if it uses the host's.
size_t device_room(struct device *device);
void *device_host_alloc(struct device *device, size_t bytes);
void device_host_free(struct device *device, void *memory);
// Copy whole contiguous tensors on the compute stream. copy_in may return before the copy is done: from_host must not
// change until the stream has passed it. copy_out waits.
void device_copy_in(struct device *device, struct tensor to, const void *from_host);
void device_copy_out(struct device *device, void *to_host, struct tensor from);
void device_zero(struct device *device, struct tensor t);
void device_synchronize(struct device *device);
bool device_supports(const struct device *device, enum dtype dtype);
void device_describe(const struct device *device, char *text, size_t size);

// One per backend. cuda_open fails with a message if the build has no CUDA.
int cpu_open(struct device **device, const struct device_options *options);   // reads threads and cpu_kernels
int cuda_open(struct device **device, const struct device_options *options);  // name and threads are not read
int paper_open(struct device **device);
// The names that cpu_kernels may hold on this processor, best first: "amx, avx512, openblas".
void cpu_list_kernels(char *text, size_t size);
// How many GPUs can be used; 0 if the build or the machine has none, -1 after error_set if they or their driver fail.
int cuda_count(void);
// Whether cuDNN gets attention with masks on this GPU, and how many operations of attention it has done.
bool cuda_cudnn_takes_masks(const struct device *device);
int64_t cuda_cudnn_passes(const struct device *device);
// What a message about a device adds whose memory is full in the middle of a run, beyond what was planned.
#define DEVICE_FULL_REMEDY                                                                                             \
    "; its memory is full beyond what the run has planned: see with nvidia-smi who else uses it, or give a smaller "   \
    "--micro-batch-size or --recompute-granularity full"

// Ranks that do the same operations in the same order should do them in the same way, so that they round alike and a
// run can be repeated. What a device would find out by timing, rank 0's device finds out for all of them. Does nothing
// on devices that time nothing, and for products of which the ranks have different shapes (op_matmul's is_uneven).
struct device_peers {
    int rank;
    void (*broadcast)(void *context, void *bytes, size_t count);  // of rank 0; all call in the same order
    void *context;                                                // must live as long as the device is used
};
void device_join(struct device *device, const struct device_peers *peers);

// Recordings, on devices that make them. What is queued on the compute stream between begin and end is kept instead of
// run, and can be replayed any number of times: the same operations on the same addresses, with what those hold by
// then. Values passed in from the host stay as they were when recorded. Everything recorded must have run once before,
// and nothing in between may wait for the device or copy from the host. device_record_end returns NULL if nothing could
// be recorded.
bool device_records(const struct device *device);
void device_record_begin(struct device *device);
struct recording *device_record_end(struct device *device);
void device_replay(struct device *device, struct recording *recording);
void device_recording_free(struct device *device, struct recording *recording);  // NULL is fine

// The time of operations on the compute stream by kind and shape, along with the least work they need; slowest first.
// Only on devices whose table has profile_start.
enum { PROFILE_MOST_ROWS = 256 };  // the last of so many, "others", takes what has no row of its own
struct profile_row {
    char name[64];
    enum dtype dtype;  // that of the factors where it multiplies matrices, and so of the FLOPs
    int64_t calls;
    double seconds, flops, bytes;
};
void device_profile_start(struct device *device);
// Waits for the device, fills up to `most` rows and returns how many; 0 if the device keeps no profile.
int device_profile_stop(struct device *device, struct profile_row *rows, int most);

// What the paper backend has added up.
struct paper_totals {
    double matmul_flops, attention_flops, bytes_moved;
    int64_t operations;
    size_t own_bytes;  // see paper_stand_for
};
struct paper_totals paper_totals(const struct device *device);

#endif
