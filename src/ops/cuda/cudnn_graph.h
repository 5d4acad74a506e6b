// Building, compiling and running an operation graph through cuDNN's C backend API. For attention_cudnn.c alone.
//
// A graph is made of tensors and operations, each a descriptor: created, given attributes, finalized. The first call
// that cuDNN refuses is recorded in `problem` and makes all later ones do nothing, so a graph is a plain list of calls
// with one check at the end. All descriptors live as long as the graph: an execution plan refers to them.
#ifndef OPS_CUDA_CUDNN_GRAPH_H
#define OPS_CUDA_CUDNN_GRAPH_H

#include "ops/cuda/cudnn_library.h"

#include <stdbool.h>
#include <stdint.h>

enum { CUDNN_GRAPH_DESCRIPTORS = 192, CUDNN_GRAPH_OPERATIONS = 40, CUDNN_GRAPH_BINDINGS = 24 };

struct cudnn_graph {
    cudnnHandle_t handle;
    cudnnBackendDescriptor_t all[CUDNN_GRAPH_DESCRIPTORS];
    int count;
    cudnnBackendDescriptor_t operations[CUDNN_GRAPH_OPERATIONS];
    int operation_count;
    int64_t next_virtual;  // virtual tensors are numbered by the graph, real ones by the caller
    cudnnBackendDescriptor_t plan;
    int64_t workspace_bytes;
    bool has_failed, is_memory_full;  // is_memory_full: the failure may be due to that alone
    char problem[400];
};

// Dimensions (B, H, rows, columns) and the distance of neighbours in each, in elements.
struct cudnn_shape {
    int64_t dimension[4], stride[4];
};

// uid 0 makes a virtual tensor: one that exists only inside of the compiled kernel.
cudnnBackendDescriptor_t cudnn_tensor(struct cudnn_graph *graph, int64_t uid, cudnnDataType_t type,
                                      struct cudnn_shape shape);
// A float that is read from host memory when the plan is executed.
cudnnBackendDescriptor_t cudnn_scalar(struct cudnn_graph *graph, int64_t uid);

// y = mode(x) or mode(x, b); for BINARY_SELECT y = chooser ? x : b; for GEN_INDEX y = the index along `axis`.
struct cudnn_pointwise {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t compute;
    cudnnBackendDescriptor_t x, b, chooser, y;
    int64_t axis;
};
void cudnn_pointwise(struct cudnn_graph *graph, const struct cudnn_pointwise *op);
void cudnn_matmul(struct cudnn_graph *graph, cudnnBackendDescriptor_t a, cudnnBackendDescriptor_t b,
                  cudnnBackendDescriptor_t c);
// The reduced dimensions follow from those of y.
void cudnn_reduce(struct cudnn_graph *graph, cudnnReduceTensorOp_t how, cudnnBackendDescriptor_t x,
                  cudnnBackendDescriptor_t y);
// y = 1 with this probability, else 0: drawn by cuDNN from its place in y and two i64 (1, 1, 1, 1) in device memory.
void cudnn_draw(struct cudnn_graph *graph, double probability, cudnnBackendDescriptor_t seed,
                cudnnBackendDescriptor_t offset, cudnnBackendDescriptor_t y);
// y is x's memory with other dimensions and strides.
void cudnn_reshape(struct cudnn_graph *graph, cudnnBackendDescriptor_t x, cudnnBackendDescriptor_t y);

// Compiles the graph with the first engine of cuDNN's heuristic that supports it. false: `problem` says why not.
bool cudnn_graph_compile(struct cudnn_graph *graph);

struct cudnn_bindings {
    int64_t uids[CUDNN_GRAPH_BINDINGS];
    void *pointers[CUDNN_GRAPH_BINDINGS];  // device memory; host memory for scalars
    int count;
};
void cudnn_bind(struct cudnn_bindings *bindings, int64_t uid, const void *pointer);
// Queues the plan on the handle's stream. Scalars are read before it returns.
cudnnStatus_t cudnn_graph_run(const struct cudnn_graph *graph, const struct cudnn_bindings *bindings, void *workspace);

void cudnn_graph_free(struct cudnn_graph *graph);

#endif
