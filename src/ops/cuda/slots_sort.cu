// Slots sorted by expert: a stable counting sort. Chunks of slots are counted; one block sums the counts before each
// chunk; then each chunk places its slots, where a warp ranks 32 slots of one expert by ballots. If an expert keeps
// only its largest weights, a block per expert finds the least of them, eight bits at a time, and places the kept
// slots.
#include "ops/cuda/lanes.cuh"
#include "ops/cuda/slots.cuh"

enum {
    CHUNK_SLOTS = 2048,
    CHUNK_WARPS = 8,
    CHUNK_STEPS = CHUNK_SLOTS / CHUNK_WARPS / 32,  // of a warp
    SCAN_THREADS = ROUTER_MOST_EXPERTS,
    SCAN_AHEAD = 8,  // chunks in flight at once
    SELECT_THREADS = 1024,
    DIGITS = 256,
};

struct sort_args {
    int32_t *offsets, *sources, *places;
    const int32_t *experts;
    const float *weights;  // or NULL
    const int32_t *kept;   // or NULL
    int32_t *chunks;       // (chunks, E): slots of each expert in a chunk, then those in the chunks before it
    int32_t *starts;       // (E + 1): first slot of each expert in `sorted`
    int32_t *sorted;       // all slots by expert, with or without a place; only with weights
    int64_t slots;
    int chunk_count, expert_count, capacity, aligned;
    bool is_padded;
};

static __device__ __forceinline__ int lanes_below(uint32_t votes, int lane) {
    return __popc(votes & ((1u << lane) - 1));
}

// The expert of a slot; -1 if this rank has none.
static __device__ __forceinline__ int expert_of(const struct sort_args &args, int64_t slot) {
    bool is_here = slot < args.slots && (!args.kept || args.kept[slot] >= 0);
    int expert = is_here ? args.experts[slot] : -1;
    return expert < args.expert_count ? expert : -1;
}

static __global__ void count_chunk_kernel(struct sort_args args) {
    __shared__ int counts[ROUTER_MOST_EXPERTS];
    for (int e = threadIdx.x; e < args.expert_count; e += blockDim.x)
        counts[e] = 0;
    __syncthreads();
    int64_t first = (int64_t)blockIdx.x * CHUNK_SLOTS;
    for (int i = threadIdx.x; i < CHUNK_SLOTS; i += blockDim.x) {
        int expert = expert_of(args, first + i);
        if (expert >= 0)
            atomicAdd(&counts[expert], 1);
    }
    __syncthreads();
    for (int e = threadIdx.x; e < args.expert_count; e += blockDim.x)
        args.chunks[(int64_t)blockIdx.x * args.expert_count + e] = counts[e];
}

// One block, a thread per expert.
static __global__ void __launch_bounds__(SCAN_THREADS) scan_chunks_kernel(struct sort_args args) {
    __shared__ int shared[32];
    int e = threadIdx.x, experts = args.expert_count, total = 0;
    for (int first = 0; first < args.chunk_count && e < experts; first += SCAN_AHEAD) {
        int count[SCAN_AHEAD];
#pragma unroll
        for (int i = 0; i < SCAN_AHEAD; i++)
            count[i] = first + i < args.chunk_count ? args.chunks[(int64_t)(first + i) * experts + e] : 0;
#pragma unroll
        for (int i = 0; i < SCAN_AHEAD; i++) {
            if (first + i < args.chunk_count)
                args.chunks[(int64_t)(first + i) * experts + e] = total;
            total += count[i];
        }
    }
    int kept = args.capacity > 0 ? min(total, args.capacity) : total;
    int size = e >= experts ? 0 : args.is_padded ? args.capacity : kept;
    if (args.aligned > 1)
        size = (size + args.aligned - 1) / args.aligned * args.aligned;
    int start = scan_block(total, shared), offset = scan_block(size, shared);
    if (e < experts) {
        args.starts[e] = start;
        args.offsets[e] = offset;
    }
    if (e == experts - 1) {
        args.starts[experts] = start + total;
        args.offsets[experts] = offset + size;
    }
}

// Places slot number `rank` of its expert, of which the first ones have places.
static __device__ __forceinline__ void place_slot(const struct sort_args &args, int64_t slot, int expert, int rank) {
    if (expert < 0) {
        args.places[slot] = -1;
    } else if (args.sorted) {
        args.sorted[args.starts[expert] + rank] = (int32_t)slot;
    } else {
        int place = args.capacity == 0 || rank < args.capacity ? args.offsets[expert] + rank : -1;
        args.places[slot] = place;
        if (place >= 0)
            args.sources[place] = (int32_t)slot;
    }
}

// Block of CHUNK_WARPS warps at a chunk, each with a part of it. Shared memory (CHUNK_WARPS, E) counts the slots before
// a warp's next ones.
static __global__ void __launch_bounds__(32 * CHUNK_WARPS) place_chunk_kernel(struct sort_args args) {
    extern __shared__ int counts[];
    int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, experts = args.expert_count, *own = counts + warp * experts;
    int64_t first = (int64_t)blockIdx.x * CHUNK_SLOTS + warp * CHUNK_STEPS * 32 + lane;
    int expert[CHUNK_STEPS];
    for (int i = threadIdx.x; i < CHUNK_WARPS * experts; i += blockDim.x)
        counts[i] = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < CHUNK_STEPS; i++)
        expert[i] = expert_of(args, first + 32 * i);
#pragma unroll
    for (int i = 0; i < CHUNK_STEPS; i++) {
        uint32_t same = __match_any_sync(0xFFFFFFFFu, expert[i]);
        if (expert[i] >= 0 && lanes_below(same, lane) == 0)
            own[expert[i]] += __popc(same);
        __syncwarp();
    }
    __syncthreads();
    for (int e = threadIdx.x; e < experts; e += blockDim.x) {
        int before = args.chunks[(int64_t)blockIdx.x * experts + e];
        for (int i = 0; i < CHUNK_WARPS; i++) {
            int count = counts[i * experts + e];
            counts[i * experts + e] = before;
            before += count;
        }
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < CHUNK_STEPS; i++) {
        uint32_t same = __match_any_sync(0xFFFFFFFFu, expert[i]);
        int below = lanes_below(same, lane), rank = expert[i] >= 0 ? own[expert[i]] + below : 0;
        __syncwarp();
        if (expert[i] >= 0 && below == 0)
            own[expert[i]] += __popc(same);
        __syncwarp();
        if (first + 32 * i < args.slots)
            place_slot(args, first + 32 * i, expert[i], rank);
    }
}

// ---- The largest weights ----

static __device__ __forceinline__ uint32_t weight_order(float weight) {
    uint32_t bits = __float_as_uint(weight == 0 ? 0.0f : weight);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

// The least kept weight, and how many slots with that weight are kept.
struct kept_weights {
    uint32_t least;
    int ties;
};

static __device__ struct kept_weights find_kept(const float *weights, const int32_t *slots, int count, int capacity) {
    __shared__ int digits[DIGITS];
    __shared__ struct kept_weights kept;
    if (threadIdx.x == 0) {
        kept.least = 0;
        kept.ties = capacity;
    }
    for (int shift = 24; shift >= 0; shift -= 8) {
        for (int i = threadIdx.x; i < DIGITS; i += blockDim.x)
            digits[i] = 0;
        __syncthreads();
        uint32_t known = shift == 24 ? 0 : 0xFFFFFFFFu << (shift + 8);
        for (int i = threadIdx.x; i < count; i += blockDim.x) {
            uint32_t order = weight_order(weights[slots[i]]);
            if ((order & known) == kept.least)
                atomicAdd(&digits[order >> shift & (DIGITS - 1)], 1);
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int digit = DIGITS - 1;
            for (; digits[digit] < kept.ties; digit--)
                kept.ties -= digits[digit];
            kept.least |= (uint32_t)digit << shift;
        }
        __syncthreads();
    }
    return kept;
}

// A block per expert.
static __global__ void __launch_bounds__(SELECT_THREADS) place_largest_kernel(struct sort_args args) {
    __shared__ int shared[32];
    __shared__ int sums[2];  // ties and places so far
    int e = blockIdx.x, count = args.starts[e + 1] - args.starts[e], offset = args.offsets[e];
    const int32_t *slots = args.sorted + args.starts[e];
    struct kept_weights kept = {0, count};
    if (count > args.capacity)
        kept = find_kept(args.weights, slots, count, args.capacity);
    if (threadIdx.x == 0)
        sums[0] = sums[1] = 0;
    __syncthreads();
    for (int first = 0; first < count; first += SELECT_THREADS) {
        int i = first + threadIdx.x, slot = i < count ? slots[i] : -1;
        uint32_t order = slot >= 0 ? weight_order(args.weights[slot]) : 0;
        bool is_tie = slot >= 0 && count > args.capacity && order == kept.least;
        bool is_kept = slot >= 0 && (count <= args.capacity || order > kept.least);
        int ties = scan_block(is_tie, shared) + sums[0];
        is_kept = is_kept || (is_tie && ties < kept.ties);
        int place = scan_block(is_kept, shared) + sums[1];
        __syncthreads();
        if (threadIdx.x == SELECT_THREADS - 1) {
            sums[0] = ties + is_tie;
            sums[1] = place + is_kept;
        }
        __syncthreads();
        if (slot >= 0)
            args.places[slot] = is_kept ? offset + place : -1;
        if (is_kept)
            args.sources[offset + place] = slot;
    }
}

extern "C" void cuda_sort_slots(struct device *device, const struct op_sort_slots *op) {
    struct cuda_device *cuda = cuda_use(device);
    struct sort_args args = {};
    args.offsets = (int32_t *)op->offsets.data;
    args.sources = (int32_t *)op->sources.data;
    args.places = (int32_t *)op->places.data;
    args.experts = (const int32_t *)op->experts.data;
    args.weights = (const float *)op->weights.data;
    args.kept = (const int32_t *)op->kept.data;
    args.slots = tensor_count(op->experts);
    args.chunk_count = (int)divide_up(args.slots, CHUNK_SLOTS);
    args.expert_count = (int)(op->offsets.shape[0] - 1);
    args.capacity = (int)op->capacity;
    args.aligned = (int)op->aligned;
    args.is_padded = op->is_padded;
    args.starts = (int32_t *)cuda->scratch;
    args.chunks = args.starts + args.expert_count + 1;
    int64_t used = args.expert_count + 1 + (int64_t)args.chunk_count * args.expert_count;
    args.sorted = args.weights ? args.starts + used : NULL;
    CHECK(used + (args.weights ? args.slots : 0) <= SCRATCH_FLOATS);
    CHECK_CUDA(cudaMemsetAsync(args.sources, 0xFF, tensor_bytes(op->sources), cuda->streams[STREAM_COMPUTE]));
    if (args.chunk_count > 0)
        LAUNCH(cuda, count_chunk_kernel, grid_x(args.chunk_count), 256, 0, args);
    LAUNCH(cuda, scan_chunks_kernel, 1, SCAN_THREADS, 0, args);
    if (args.chunk_count > 0)
        LAUNCH(cuda, place_chunk_kernel, grid_x(args.chunk_count), 32 * CHUNK_WARPS,
               sizeof(int) * CHUNK_WARPS * args.expert_count, args);
    if (args.weights)
        LAUNCH(cuda, place_largest_kernel, grid_x(args.expert_count), SELECT_THREADS, 0, args);
}
