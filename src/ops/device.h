// Opens a device by name; memory, copies, events, profiles and times of any device. The names appear only here and in
// the flag `--device`.
#ifndef OPS_DEVICE_H
#define OPS_DEVICE_H

#include "base/library.h"
#include "ops/ops.h"

struct device_options {
    // "cpu", "cuda", "paper", or "auto": the first GPU if there is one, else the CPU. NULL for the reference, which
    // works everywhere.
    const char *name;
    int threads;  // CPU: worker threads, at least 1
    // CPU: the kernels that matmuls may use, by name and separated by commas; NULL for the best on this
    // processor, "openblas" for none of our own. See docs/internals/ops.md.
    const char *cpu_kernels;
    int index;  // GPU: which one, modulo the number of GPUs; ranks pass their place on the machine
    // GPU: the file that remembers which algorithms were fastest, or NULL; see docs/internals/ops.md.
    const char *algorithm_cache;
    bool allows_tf32;       // GPU: fp32 matmuls may round their inputs to 11 bits
    bool is_deterministic;  // GPU: no operation whose bits change from run to run, and no choice by timing
    // GPU: a library may draw attention's dropout, see struct dropout; ignored if deterministic.
    bool has_fast_dropout;
};

int device_open(struct device **device, const struct device_options *options);
// Whether the device of this name times algorithms and so can use a file, algorithm_cache above.
bool device_times_algorithms(const char *name);
void device_close(struct device *device);  // NULL is fine
// Opens a twin of a device, on paper: the same dtypes, but no memory and no work, only totals. They include the most
// own memory that `real` would take (own_bytes of the table), if it is not NULL. `real` must outlive the twin; if it is
// a twin itself, its own real device is used.
int device_open_twin(struct device **twin, const struct device *real);
// The real device of a twin, NULL for none; any other device itself.
const struct device *device_behind(const struct device *device);

void *device_alloc(struct device *device, size_t bytes);  // NULL after error_set
void device_free(struct device *device, void *memory);
// How many bytes are free on a device with memory of its own; 0 if it uses the host's.
size_t device_room(struct device *device);
void *device_host_alloc(struct device *device, size_t bytes);
void device_host_free(struct device *device, void *memory);
// Host memory that only the device's operations and copies use, so that none is allocated on paper. Freed by
// device_hosted_free; NULL is fine.
void *device_hosted_alloc(struct device *device, size_t bytes);
void device_hosted_free(struct device *device, void *memory);
// Copy whole contiguous tensors on the compute stream. copy_in may return before the copy is done: from_host must not
// change until the stream has passed it. copy_out waits.
void device_copy_in(struct device *device, struct tensor to, const void *from_host);
void device_copy_out(struct device *device, void *to_host, struct tensor from);
void device_zero(struct device *device, struct tensor t);
void device_synchronize(struct device *device);
bool device_supports(const struct device *device, enum dtype dtype);
bool device_supports_scaling(const struct device *device, enum scaling scaling);
// For a device that supports fp8: whether it has fp8 matmuls of experts whose rows have this scaling.
bool device_multiplies_groups8(const struct device *device, enum scaling scaling);
// Whether it supports the dtype and multiplies faster in it than in fp32.
bool device_is_fast(const struct device *device, enum dtype dtype);
// Whether it computes nothing and never reads data copied to it.
bool device_is_imaginary(const struct device *device);
// Whether op_matmul_many is faster than separate calls of op_matmul.
bool device_gains_by_many(const struct device *device);
void device_describe(const struct device *device, char *text, size_t size);

// One per backend. cuda_open and cuda_count load the module for GPUs (cuda_module.h).
int cpu_open(struct device **device, const struct device_options *options);   // reads threads and cpu_kernels
int cuda_open(struct device **device, const struct device_options *options);  // name and threads are not read
int paper_open(struct device **device, const struct device *real);
// The names that cpu_kernels may hold on this processor, best first: "amx, avx512, openblas".
void cpu_list_kernels(char *text, size_t size);
// The libraries that GPUs need, including those of the module if it can be loaded: fills at most DEVICE_MOST_LIBRARIES,
// returns how many.
enum { DEVICE_MOST_LIBRARIES = 5 };
int device_libraries(const struct library **list);
// How many GPUs can be used; 0 if the machine has none or their module is missing, -1 after error_set if they or their
// driver fail.
int cuda_count(void);
// Ends a message about a device whose memory runs out during a run.
#define DEVICE_FULL_REMEDY                                                                                             \
    "; its memory is full: run nvidia-smi to see who else uses it, or give a smaller --micro-batch-size or "           \
    "--recompute-granularity full"

// Makes ranks that do the same operations in the same order use the same algorithms, so that they round alike and a run
// can be repeated: rank 0's device times algorithms for all of them. Has no effect on devices that time nothing, nor on
// matmuls whose shapes differ between ranks (op_matmul's is_uneven).
struct device_peers {
    int rank;
    void (*broadcast)(void *context, void *bytes, size_t count);  // of rank 0; all call in the same order
    void *context;                                                // must live as long as the device is used
};
void device_join(struct device *device, const struct device_peers *peers);

// Recordings, on devices that support them. Work queued on the compute stream between begin and end is recorded, not
// run, and can be replayed any number of times: the same operations on the same addresses, with their contents at that
// time. Values passed in from the host stay as recorded. All recorded operations must have run once before, and no call
// in between may wait for the device or copy from the host. device_record_end returns NULL if nothing could be
// recorded.
bool device_records(const struct device *device);
void device_record_begin(struct device *device);
struct recording *device_record_end(struct device *device);
void device_replay(struct device *device, struct recording *recording);
void device_recording_free(struct device *device, struct recording *recording);  // NULL is fine

// The time of operations on the compute stream by kind and shape, along with the least work they need; slowest first.
// Only on devices whose table has profile_start.
enum { PROFILE_MOST_ROWS = 256 };  // the last of these, "others", takes operations without a row of their own
struct profile_row {
    char name[64];
    enum dtype dtype;  // of a matmul's operands, and so of its FLOPs
    int64_t calls;
    double seconds, flops, bytes;
    double busy_seconds;  // of all threads of a CPU; 0 on other devices
};
void device_profile_start(struct device *device);
// Waits for the device, fills up to `most` rows and returns how many; 0 if the device keeps no profile.
int device_profile_stop(struct device *device, struct profile_row *rows, int most);

// Times on the streams of an asynchronous device, for traces. A stamp marks the moment at which a stream has completed
// all work queued before. Reading does not wait: a stamp can be read once the host knows by other means that the stream
// is past it. Between device_clock_start and _stop only; the table's entries are those of the functions below.
struct device_clock {
    void (*start)(struct device *device, int64_t most);
    void (*stop)(struct device *device);
    int64_t (*stamp)(struct device *device, void *stream);
    bool (*read)(struct device *device, int64_t stamp, double *seconds);
    void (*announce)(struct device *device, bool is_on);
    void (*push_range)(const char *name);
    void (*pop_range)(void);
};
bool device_has_clock(const struct device *device);
// Keeps the latest `most` stamps. Waits for the device, to learn its time. Does nothing on a device without a clock.
void device_clock_start(struct device *device, int64_t most);
void device_clock_stop(struct device *device);
// Return 0 if the device has no clock, while the clock is stopped, and within a recording. The second takes a stream of
// a library of the same vendor (native_stream).
int64_t device_stamp(struct device *device, enum stream stream);
int64_t device_stamp_native(struct device *device, void *stream);
// Sets seconds on the scale of clock_seconds; false if the stamp is too old or the stream has not reached it.
bool device_read_stamp(struct device *device, int64_t stamp, double *seconds);
// Starts or stops the vendor's profiler (nsys --capture-range=cudaProfilerApi).
void device_announce_profile(struct device *device, bool is_on);
// Names this thread's work until the pop, for the vendor's profiler. Costs nothing while none is attached.
void device_push_range(struct device *device, const char *name);
void device_pop_range(struct device *device);

// Totals counted by a twin.
struct device_totals {
    double matmul_flops, attention_flops, bytes_moved;
    int64_t operations;
    size_t own_bytes;   // of the real device
    size_t wide_bytes;  // part of it, see struct own_need
    double seconds;     // of all operations on a device with the rates below; 0 without rates
};
struct device_totals device_totals(const struct device *device);

// Speed of a device, for twins that model time. Rates are those that long operations reach, below the vendor's peaks.
struct device_rates {
    double matmul[4];  // FLOP/s in fp32, 16 bits, 8 bits and 4 bits
    // Work is cut into tiles of `tile` by `tile` results, which the processors take in rounds; in the last round some
    // are idle. half_inner: inner length at which a matmul reaches half of its rate, since it fills and drains a
    // pipeline.
    double processors, tile, half_inner;
    // Fraction of the rate in 16 and 8 bits of matmuls whose rows are not multiples of 16 bytes; 0: all of it.
    double unaligned;
    double attention[2];           // FLOP/s, forward and backward, of long sequences with heads of 128
    double attention_keys;         // overhead of a query's start and end, in keys
    double narrow;                 // fraction of these rates for heads of 64 or less
    double outside_window;         // fraction of scores outside of windows that backward passes compute anyway
    double bytes_per_second;       // of operations that only move data
    double bus_bytes_per_second;   // between the device and host memory, each way; 0: as the line above
    double seconds_per_operation;  // at least
    double memory_bytes;           // free for a step; 0: unknown, or the host's
    double launch_seconds;         // added to every operation; 0 if launches are hidden, as with CUDA graphs
    double moving_seconds;         // added to those that only move data
    double host_seconds;           // host time to start an operation; 0: the host is never late
    // Matmuls of experts: the rows per expert at which they reach half of their rate; the same for weight gradients;
    // and the minimal time per expert, 0 if one kernel computes all of them.
    double expert_rows, expert_inner, expert_seconds;
    double permute;  // fraction of bytes_per_second at which rows are permuted to experts and back; 0: all
    // If separate kernels add the biases of experts and clamp the inputs of their activations: bytes that these move
    // per element of a result in both passes. 0: fused into the matmuls and activations.
    double expert_bias_bytes, expert_limit_bytes;
    // Bytes moved by separate kernels of the loss, per logit, and by those that rotate queries and keys.
    double loss_bytes, rope_bytes;
    // Bytes moved per gradient by extra kernels once a step, over all of a rank's gradients: to zero, scale and check.
    double gradient_bytes;
    // Plans 16-bit experts as fp8: their rate is that of 8 bits, and separate kernels move this many bytes to quantize
    // each element that a matmul reads. 0: as the operations are.
    double expert_quantize_bytes;
    // Attention without FlashAttention: matmuls over all scores, which are written to memory, normalized there and read
    // again.
    bool writes_scores;
    bool gains_by_many;  // see device_gains_by_many
};
// FLOP/s of long matmuls.
double device_rates_of(const struct device_rates *rates, enum dtype dtype);
// Seconds of a matmul's arithmetic: `rows` by `columns` results, each a sum of `inner` products.
double device_rates_matmul(const struct device_rates *rates, enum dtype dtype, double rows, double columns,
                           double inner);
// The number of computed scores: all, or with a causal mask those on or below its diagonal, reduced to a band by a
// window. Padding and document borders are unknown on paper.
double device_attention_scores(struct tensor q, struct tensor k, bool is_causal, int64_t window);
// Seconds of attention.
struct device_attention {
    double flops, scores, queries;  // of all heads
    int64_t head;                   // channels of a query
    bool is_backward;
};
double device_rates_attention(const struct device_rates *rates, const struct device_attention *shape);
// The forward pass of (B, T, H, D) queries, with 2 * channels FLOPs per score.
struct device_attention device_attention_of(struct tensor q, double scores, double channels);
// Seconds of attention that writes its scores: they are read or written `passes` times in 16 bits, and every matmul
// covers all of them. Dropout adds a read, a write and its mask.
double device_rates_written_scores(const struct device_rates *rates, struct tensor q, struct tensor k, struct tensor v,
                                   double passes, double matmuls);
// Seconds of a matmul of experts, each with an equal part of the rows.
struct device_grouped {
    enum dtype dtype;
    bool is_weight;        // a gradient of weights: sums over the rows of an expert
    double experts, rows;  // of all experts
    double from, to;       // elements of a row of the first operand, and of the second or of the result
};
double device_rates_grouped(const struct device_rates *rates, const struct device_grouped *shape);
// Seconds of separate kernels, one set per expert, for the biases of this many results in one pass.
double device_rates_biases(const struct device_rates *rates, double elements, double experts);
// Seconds of separate kernels that quantize the input of a matmul of experts.
double device_rates_quantize(const struct device_rates *rates, const struct device_grouped *shape);
// Gives the twin a clock, which every operation on its compute stream advances.
void device_set_rates(struct device *twin, const struct device_rates *rates);
bool device_tells_time(const struct device *twin);
// Returns the clock, in seconds; advances it to a time, if that is later.
double device_twin_time(const struct device *twin);
void device_twin_await(struct device *twin, double seconds);

#endif
