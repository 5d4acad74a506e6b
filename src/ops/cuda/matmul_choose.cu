// Which algorithm a matrix product runs with. cuBLASLt lists candidates in the order of an estimate; on an H200 the
// best of the list is 4 to 9 % faster over a whole step than its first (cuBLAS 13.1, 2026-11-15). So a large product
// in 16 bits is timed the first time its shape comes by: all candidates in turn, several rounds, with the ending
// fused in and with a kernel of ours behind it. The answer is kept in a file, for the next start and so that it
// repeats to the bit.
//
// Timing runs the product itself, which is harmless where it overwrites d; where it adds to d the first of the list is
// used until the shape comes by without. Split sums are allowed in fp32 only: summed in the output's bf16 they would
// lose bits.
#include "ops/cuda/matmul.cuh"

#include <stdlib.h>
#include <string.h>

enum { MOST_CANDIDATES = 32, ROUNDS = 4 };
static const double LEAST_WORK = 1e9;  // multiplications that are worth a timing

#define SET_PREFERENCE(preference, name, value)                                                                        \
    CHECK_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference, name, &(value), sizeof(value)))

struct candidates {
    struct matmul_choice choice[MOST_CANDIDATES];
    double best_ms[MOST_CANDIDATES];
    int count;
};

// Adds up to `wanted` algorithms of the heuristic's list.
static cublasStatus_t list_algorithms(struct cuda_device *cuda, struct matmul_plan *plan, bool is_fused, int wanted,
                                      struct candidates *list) {
    const struct matmul_key *key = &plan->key;
    cublasLtMatmulPreferenceOpaque_t preference;
    uint64_t workspace_bytes = BLAS_WORKSPACE_BYTES;
    uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    uint32_t align_a = (uint32_t)key->alignment[0], align_b = (uint32_t)key->alignment[1];
    uint32_t align_d = (uint32_t)key->alignment[2];
    CHECK_CUBLAS(cublasLtMatmulPreferenceInit(&preference));
    SET_PREFERENCE(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    SET_PREFERENCE(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
    SET_PREFERENCE(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align_b);
    SET_PREFERENCE(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align_a);
    SET_PREFERENCE(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align_d);
    SET_PREFERENCE(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align_d);
    cublasLtMatmulHeuristicResult_t results[MOST_CANDIDATES];
    int found = 0;
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(cuda->blas, is_fused ? &plan->fused : &plan->product,
                                                           &plan->first, &plan->second, &plan->result, &plan->result,
                                                           &preference, wanted, results, &found);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    for (int i = 0; i < found && list->count < MOST_CANDIDATES; i++) {
        if (results[i].state != CUBLAS_STATUS_SUCCESS)
            continue;
        struct matmul_choice *choice = &list->choice[list->count++];
        memset(choice, 0, sizeof *choice);
        choice->algorithm = results[i].algo;
        choice->has_algorithm = 1;
        choice->is_fused = is_fused;
    }
    return status;
}

// One run of every candidate, round by round, so that a clock that falls falls for all. The first round loads kernels.
static void time_candidates(struct cuda_device *cuda, struct matmul_plan *plan, const struct op_matmul *op,
                            struct candidates *list) {
    cudaStream_t stream = cuda->streams[STREAM_COMPUTE];
    cudaEvent_t start, end;
    CHECK_CUDA(cudaEventCreate(&start));
    CHECK_CUDA(cudaEventCreate(&end));
    for (int round = 0; round <= ROUNDS; round++)
        for (int i = 0; i < list->count; i++) {
            float ms = 0;
            CHECK_CUDA(cudaEventRecord(start, stream));
            cublasStatus_t status = matmul_run(cuda, plan, op, &list->choice[i]);
            CHECK_CUDA(cudaEventRecord(end, stream));
            CHECK_CUDA(cudaEventSynchronize(end));
            CHECK_CUDA(cudaEventElapsedTime(&ms, start, end));
            // Some that are listed refuse when they are launched.
            bool is_refused = status != CUBLAS_STATUS_SUCCESS;
            if (round <= 1 || ms < list->best_ms[i] || is_refused)
                list->best_ms[i] = is_refused ? INFINITY : ms;
        }
    CHECK_CUDA(cudaEventDestroy(start));
    CHECK_CUDA(cudaEventDestroy(end));
}

static bool can_fuse(const struct matmul_key *key) {
    bool has_aux = key->ending == ENDING_GELU_AUX || key->ending == ENDING_DGELU;
    if (dtype_is_float8((enum dtype)key->input))
        return key->ending == ENDING_BIAS && key->output == DTYPE_BF16;
    return key->ending != ENDING_NONE && key->input != DTYPE_F32 && key->output == key->input &&
           (!has_aux || (key->m % 8 == 0 && key->alignment[3] >= 16));
}

static bool is_worth_timing(const struct cuda_device *cuda, const struct matmul_key *key) {
    return !cuda->is_deterministic && key->input != DTYPE_F32 &&
           (double)key->m * (double)key->n * (double)key->k >= LEAST_WORK;
}

static void say_none(const struct op_matmul *op, cublasStatus_t status) {
    char a[96], b[96], d[96];
    tensor_describe(op->a, a, sizeof a);
    tensor_describe(op->b, b, sizeof b);
    tensor_describe(op->d, d, sizeof d);
    log_info("matmul: cuBLASLt has no algorithm for a %s%s, b %s%s, d %s (%s); a slow kernel is used", a,
             op->transpose_a ? "'" : "", b, op->transpose_b ? "'" : "", d, cublasLtGetStatusName(status));
}

// Whether this library still takes what was chosen in an earlier run.
static bool is_valid(struct cuda_device *cuda, struct matmul_plan *plan, const struct matmul_choice *choice) {
    cublasLtMatmulHeuristicResult_t result;
    if (!choice->has_algorithm || (choice->is_fused && !can_fuse(&plan->key)))
        return false;
    cublasStatus_t status =
        cublasLtMatmulAlgoCheck(cuda->blas, choice->is_fused ? &plan->fused : &plan->product, &plan->first,
                                &plan->second, &plan->result, &plan->result, &choice->algorithm, &result);
    return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= (size_t)BLAS_WORKSPACE_BYTES;
}

// Nothing can be timed while it is recorded.
bool matmul_can_time(const struct cuda_device *cuda, const struct matmul_key *key, const struct op_matmul *op) {
    return is_worth_timing(cuda, key) && op->beta == 0 && !cuda->is_recording;
}

void matmul_choose(struct cuda_device *cuda, struct matmul_plan *plan, const struct op_matmul *op) {
    bool is_timed = is_worth_timing(cuda, &plan->key);
    struct matmul_choice known;
    if (is_timed && matmul_memory_find(cuda->memory, &plan->key, &known) && is_valid(cuda, plan, &known)) {
        plan->choice = known;
        plan->is_final = true;
        return;
    }
    bool times_now = matmul_can_time(cuda, &plan->key, op);
    if (!times_now && plan->choice.has_algorithm)
        return;
    struct candidates list = {};
    int wanted = times_now ? MOST_CANDIDATES / 2 : 1;
    if (can_fuse(&plan->key))
        list_algorithms(cuda, plan, true, wanted, &list);
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (times_now || list.count == 0)
        status = list_algorithms(cuda, plan, false, wanted, &list);
    plan->is_final = times_now || !is_timed;
    if (list.count == 0) {
        say_none(op, status);
        plan->is_final = true;
        return;
    }
    int best = 0;
    if (times_now) {
        time_candidates(cuda, plan, op, &list);
        for (int i = 1; i < list.count; i++)
            if (list.best_ms[i] < list.best_ms[best])
                best = i;
        log_debug("matmul: m %lld n %lld k %lld ending %d: place %d of %d%s, %.3f ms; the first %.3f ms",
                  (long long)plan->key.m, (long long)plan->key.n, (long long)plan->key.k, plan->key.ending, best,
                  list.count, list.choice[best].is_fused ? ", fused" : "", list.best_ms[best], list.best_ms[0]);
    }
    plan->choice = list.choice[best];
    if (times_now && list.best_ms[best] < INFINITY)
        matmul_memory_keep(cuda->memory, plan);
}
