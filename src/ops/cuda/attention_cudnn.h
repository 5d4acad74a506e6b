// Attention through cuDNN, for what it does well; the build without cuDNN links attention_cudnn_none.c. Both
// functions say false if they did nothing: the caller then runs the backend's own kernel.
#ifndef OPS_CUDA_ATTENTION_CUDNN_H
#define OPS_CUDA_ATTENTION_CUDNN_H

#include "ops/ops.h"

struct cudnn_attention;  // a handle and the plans compiled so far

// stream is a cudaStream_t, workspace device memory that only this stream uses. NULL if there is no cuDNN, which is
// no error.
struct cudnn_attention *cudnn_attention_open(void *stream, void *workspace, size_t workspace_bytes);
void cudnn_attention_close(struct cudnn_attention *attention);  // NULL is fine
// "cuDNN 9.14.0", or "" if there is none.
void cudnn_attention_describe(const struct cudnn_attention *attention, char *text, size_t size);

bool cudnn_attention_forward(struct cudnn_attention *attention, const struct op_attention_forward *op);
// Deterministic: the same bits in every run, slower by some percent. It has to be asked for.
bool cudnn_attention_backward(struct cudnn_attention *attention, const struct op_attention_backward *op,
                              bool is_deterministic);

#endif
