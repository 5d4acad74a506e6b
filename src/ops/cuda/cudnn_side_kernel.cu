// Writes the side inputs of cuDNN's attention: the range of keys that each query sees, and a seed.
#include "ops/cuda/dropout.cuh"

extern "C" {
#include "ops/cuda/attention_cudnn.h"
}

struct side_args {
    struct side_inputs to;
    int64_t window;  // 0: none
    const int32_t *first_keys, *key_counts;
    struct cuda_dropout dropout;
    uint32_t site;
};

// The seed of a part is drawn from its identity: the dropout's seed and site, its first head, and its first token.
static __device__ __forceinline__ void write_seed(const struct side_args &args, int64_t part) {
    const struct side_inputs &to = args.to;
    int64_t sample = part / to.head_parts * to.part_samples, head = part % to.head_parts * to.part_heads;
    uint64_t id = (uint64_t)args.dropout.row_ids[sample * to.Tq];
    uint4 word = philox4x32_7(args.dropout.seed, UINT32_MAX, (uint32_t)id, (uint32_t)(id >> 32),
                              args.site + ((uint32_t)head << 16));
    to.draw[2 * part] = (int64_t)((uint64_t)word.x | (uint64_t)word.y << 32);
    to.draw[2 * part + 1] = 0;
}

// A thread per query.
static __global__ void write_kernel(struct side_args args) {
    int64_t row = (int64_t)blockIdx.x * blockDim.x + threadIdx.x, batch = row / args.to.Tq, query = row % args.to.Tq;
    if (row >= args.to.B * args.to.Tq)
        return;
    if (args.to.first) {
        int64_t first = args.first_keys ? args.first_keys[row] : 0;
        if (args.window > 0)
            first = max(first, query + args.to.Tk - args.to.Tq + 1 - args.window);
        args.to.first[row] = (int32_t)first;
    }
    if (args.to.end)
        args.to.end[row] = args.key_counts[batch];
    for (int64_t part = row; args.to.draw && part < args.to.parts; part += args.to.B * args.to.Tq)
        write_seed(args, part);
}

extern "C" void side_kernel(void *stream, const struct side_inputs *to, const struct attention_mask *mask,
                            const struct dropout *dropout) {
    enum { THREADS = 256 };
    struct side_args args = {};
    args.to = *to;
    args.window = mask->window;
    args.first_keys = (const int32_t *)mask->first_keys.data;
    args.key_counts = (const int32_t *)mask->key_counts.data;
    args.dropout = cuda_dropout(dropout);
    args.site = args.dropout.site + ((uint32_t)dropout->first_head << 16);
    write_kernel<<<grid_x(divide_up(to->B * to->Tq, THREADS)), THREADS, 0, (cudaStream_t)stream>>>(args);
    CHECK_CUDA(cudaGetLastError());
}
