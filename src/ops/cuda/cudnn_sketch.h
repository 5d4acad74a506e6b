// The operation graphs of attention that cuDNN's pattern matcher knows, and their keys. For attention_cudnn.c alone.
#ifndef OPS_CUDA_CUDNN_SKETCH_H
#define OPS_CUDA_CUDNN_SKETCH_H

#include "ops/cuda/cudnn_graph.h"
#include "tensor/tensor.h"

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

#endif
