// Attention through cuDNN, where it is suitable; the build without cuDNN links attention_cudnn_none.c. Both passes
// return false if they did nothing: the caller then runs the backend's own kernel.
#ifndef OPS_CUDA_ATTENTION_CUDNN_H
#define OPS_CUDA_ATTENTION_CUDNN_H

#include "base/library.h"
#include "ops/ops.h"

struct cudnn_attention;  // a handle and the plans compiled so far

struct cudnn_options {
    int gpu;
    void *stream;     // a cudaStream_t
    void *workspace;  // device memory that only this stream uses
    size_t workspace_bytes;
    bool draws_dropout;  // cuDNN may draw dropout; not in deterministic runs, which cut operations into parts
};

// The libraries that cuDNN needs, at most 2; returns how many.
int cudnn_attention_libraries(const struct library **list);

// NULL if there is no cuDNN, which is not an error.
struct cudnn_attention *cudnn_attention_open(const struct cudnn_options *options);
void cudnn_attention_close(struct cudnn_attention *attention);  // NULL is fine
// "cuDNN 9.14.0", or "" if there is none.
void cudnn_attention_describe(const struct cudnn_attention *attention, char *text, size_t size);

bool cudnn_attention_forward(struct cudnn_attention *attention, const struct op_attention_forward *op);
// is_deterministic: the same bits in every run, some percent slower.
bool cudnn_attention_backward(struct cudnn_attention *attention, const struct op_attention_backward *op,
                              bool is_deterministic);
// Whether it is used for masks by query, and for dropout if allowed, on this GPU.
bool cudnn_attention_takes_masks(const struct cudnn_attention *attention);
// How many operations it has done so far, and in how many parts.
int64_t cudnn_attention_passes(const struct cudnn_attention *attention);
int64_t cudnn_attention_parts(const struct cudnn_attention *attention);
// For tests: limits parts to this many elements, up to ATTENTION_PART_ELEMENTS.
void cudnn_attention_cut(struct cudnn_attention *attention, int64_t elements);

// ---- side inputs, for the kernel that writes them (cudnn_side_kernel.cu) ----

// In device memory; NULL members are not written.
struct side_inputs {
    int64_t B, Tq, Tk;
    int64_t part_samples, part_heads, parts;  // the operation is done in parts, those of a sample's heads one by one
    int64_t head_parts;                       // of a sample
    int32_t *first;                           // (B * Tq): the first key that each query sees
    int32_t *end;                             // (B * Tq): the key after the last that is not padding
    int64_t *draw;                            // (parts, 2): the part's seed, and an offset, which is 0
};

void side_kernel(void *stream, const struct side_inputs *to, const struct attention_mask *mask,
                 const struct dropout *dropout);

#endif
