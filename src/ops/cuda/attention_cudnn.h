// Attention through cuDNN, for what it does well; the build without cuDNN links attention_cudnn_none.c. Both
// functions say false if they did nothing: the caller then runs the backend's own kernel.
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
    bool draws_dropout;  // dropout may be cuDNN's; not if runs are to be deterministic, which cut operations into parts
};

// The libraries that it loads, at most 2; returns how many.
int cudnn_attention_libraries(const struct library **list);

// NULL if there is no cuDNN, which is not an error.
struct cudnn_attention *cudnn_attention_open(const struct cudnn_options *options);
void cudnn_attention_close(struct cudnn_attention *attention);  // NULL is fine
// "cuDNN 9.14.0", or "" if there is none.
void cudnn_attention_describe(const struct cudnn_attention *attention, char *text, size_t size);

bool cudnn_attention_forward(struct cudnn_attention *attention, const struct op_attention_forward *op);
// Deterministic: the same bits in every run, slower by some percent. It has to be asked for.
bool cudnn_attention_backward(struct cudnn_attention *attention, const struct op_attention_backward *op,
                              bool is_deterministic);
// Whether it gets masks by query, and dropout if it may draw it, at all on this GPU.
bool cudnn_attention_takes_masks(const struct cudnn_attention *attention);
// How many operations it has done so far, and in how many parts.
int64_t cudnn_attention_passes(const struct cudnn_attention *attention);
int64_t cudnn_attention_parts(const struct cudnn_attention *attention);
// From now on parts have at most so many elements, up to ATTENTION_PART_ELEMENTS: for tests.
void cudnn_attention_cut(struct cudnn_attention *attention, int64_t elements);

#endif
