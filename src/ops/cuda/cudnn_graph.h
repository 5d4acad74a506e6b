// What attention_cudnn.c is made of: the cuDNN library (see base/library.h), operation graphs through its C backend
// API, the graphs of attention, and the inputs that they read besides the operands.
#ifndef OPS_CUDA_CUDNN_GRAPH_H
#define OPS_CUDA_CUDNN_GRAPH_H

#include "base/library.h"
#include "ops/cuda/attention_cudnn.h"
#include "tensor/tensor.h"

#include <cudnn.h>
#include <stdbool.h>
#include <stdint.h>

#define CUDNN_SYMBOLS(ROW)                                                                                             \
    ROW(cudnnGetVersion)                                                                                               \
    ROW(cudnnBackendCreateDescriptor)                                                                                  \
    ROW(cudnnBackendDestroyDescriptor)                                                                                 \
    ROW(cudnnBackendExecute)                                                                                           \
    ROW(cudnnBackendFinalize)                                                                                          \
    ROW(cudnnBackendGetAttribute)                                                                                      \
    ROW(cudnnBackendSetAttribute)                                                                                      \
    ROW(cudnnCreate)                                                                                                   \
    ROW(cudnnDestroy)                                                                                                  \
    ROW(cudnnGetCudartVersion)                                                                                         \
    ROW(cudnnGetErrorString)                                                                                           \
    ROW(cudnnGetLastErrorString)                                                                                       \
    ROW(cudnnSetStream)

struct cudnn_symbols {
    CUDNN_SYMBOLS(LIBRARY_FIELD)
};

static inline const struct cudnn_symbols *cudnn(void) {
    return library_symbols(LIBRARY_CUDNN);
}

// Loads cuDNN and the compiler that it needs; -1 after error_set.
int cudnn_load(void);

// Building, compiling and running an operation graph through cuDNN's C backend API. For attention_cudnn.c alone.
// A graph is made of tensors and operations, each a descriptor: created, given attributes, finalized. The first call
// that cuDNN refuses is recorded in `problem` and makes all later ones do nothing, so a graph is a plain list of calls
// with one check at the end. All descriptors live as long as the graph: an execution plan refers to them.

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

// The operation graphs of attention that cuDNN's pattern matcher knows, and their keys. For attention_cudnn.c alone.

enum attention_kind { KIND_FORWARD, KIND_INFERENCE, KIND_BACKWARD, KIND_BACKWARD_FIXED };  // fixed: deterministic

enum tensor_place { PLACE_Q, PLACE_K, PLACE_V, PLACE_OUT, PLACE_DOUT, PLACE_DQ, PLACE_DK, PLACE_DV, PLACE_COUNT };

// Numbers of the tensors that are not virtual; those of enum tensor_place are 1 + the place.
enum {
    UID_STATS = 20,
    UID_SCALE,
    UID_NEGATIVE,  // -infinity, one per mask: causal, first keys, ends
    UID_FIRST_NEGATIVE,
    UID_END_NEGATIVE,
    UID_FIRST,
    UID_END,
    UID_SEED,
    UID_OFFSET,
    UID_KEEP,
    UID_KEEP_SCALE,
    UID_ROW_SUM,
    UID_DQ_SUM
};

// All that a plan depends on. Compared as bytes: built from zeroed memory.
struct plan_key {
    int64_t B, H, G, Tq, Tk, D, V;   // V: the size of values and results
    int64_t stride[PLACE_COUNT][3];  // batch, time, head
    int64_t kind, is_causal, dtype;
    int64_t has_first, has_end;  // (B, Tq) i32: a query sees no key before its first one, and none from its end on
    double keep;                 // probability that dropout keeps a weight; 1: no dropout
};

// Writes the operations of this attention into an empty graph.
void cudnn_sketch(struct cudnn_graph *graph, const struct plan_key *key);

// Side inputs of cuDNN's attention, which a plan reads besides the operands, in device memory: the range of keys that
// each query sees, and the seed of its dropout. For attention_cudnn.c alone.

struct attention_inputs {
    struct tensor q, k, v, out;
    bool is_causal;
    const struct attention_mask *mask;
    const struct dropout *dropout;
};

// The cut of an operation into parts that cuDNN computes one after the other. `part` has the strides of `whole`.
struct attention_cut {
    struct plan_key whole, part;
    int64_t count;  // of parts
};

// Pieces of a workspace begin at multiples of this.
enum { CUDNN_ALIGNMENT = 256 };
static inline int64_t cudnn_align(int64_t bytes) {
    return (bytes + CUDNN_ALIGNMENT - 1) / CUDNN_ALIGNMENT * CUDNN_ALIGNMENT;
}

// Bytes of side inputs at the start of a workspace; 0 if the plan has none.
int64_t side_bytes(const struct attention_cut *cut);
// Lays them out in `memory` and queues the kernel that writes them on a cudaStream_t.
struct side_inputs side_write(const struct attention_cut *cut, const struct attention_inputs *in, void *stream,
                              void *memory);
// Binds side inputs and their scalars, for a part that begins at this sample and query head of the operation.
void side_bind(struct cudnn_bindings *bindings, const struct plan_key *key, const struct side_inputs *side,
               const int64_t at[2]);

#endif
