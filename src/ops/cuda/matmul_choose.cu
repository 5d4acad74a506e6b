// Chooses the algorithm of a matmul. cuBLASLt lists candidates in the order of an estimate; on an H200 the best of the
// list is 4 to 9 % faster over a whole step than its first (cuBLAS 13.1, 2026-11-15). So a large matmul in 16 bits or
// TF32 is timed at the first use of its shape: all candidates in turn, several rounds, with the ending fused and with
// our own kernel after it. The choice is kept in a file, so that the next run need not time and computes the same bits.
// If there is such a file, the fastest candidates of very large matmuls are timed again, for longer, at the GPU's power
// limit, where their order changes by up to 3 %.
//
// Timing runs the matmul itself, which is harmless if it overwrites d. If it adds to d, the first of the list is used
// until the shape is used without adding. Split sums are allowed in fp32 only: in the output's bf16 they would lose
// bits.
#include "ops/cuda/matmul.cuh"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CANDIDATES = 32, ROUNDS = 4 };
enum { FINALISTS = 4, LOAD_ROUNDS = 2, PIECES = 12, SKIPPED = 4 };
static const double LEAST_WORK = 1e9;          // multiplications from which timing is worthwhile
static const double LEAST_LOAD_WORK = 2.5e10;  // and from which timing under load is
static const double MARGIN = 1.06;             // a finalist's time is at most this multiple of the fastest burst
// An idle H200 runs at full clock for 70 ms, then at the clock that its power limit allows (2026-11-15).
static const double WARM_MS = 100, PIECE_MS = 4;
static const double MOST_MS = 1000;  // for all bursts of a matmul: those of half a million tokens take 80 ms each
static const double LONG_MS = 20;    // bursts as long as this have run at the power limit

#define SET_PREFERENCE(preference, name, value)                                                                        \
    CHECK_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference, name, &(value), sizeof(value)))

struct candidates {
    struct matmul_choice choice[MOST_CANDIDATES];
    double ms[MOST_CANDIDATES];  // of one run
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
    CHECK_CUBLAS(cublasLtMatmulPreferenceInit_internal(&preference, sizeof preference));
    SET_PREFERENCE(&preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    SET_PREFERENCE(&preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
    SET_PREFERENCE(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align_b);
    SET_PREFERENCE(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align_a);
    SET_PREFERENCE(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align_d);
    SET_PREFERENCE(&preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align_d);
    cublasLtMatmulHeuristicResult_t results[MOST_CANDIDATES];
    int found = 0;
    cublasStatus_t status = cublaslt()->cublasLtMatmulAlgoGetHeuristic(
        cuda->blas, is_fused ? &plan->fused : &plan->plain, &plan->first, &plan->second, &plan->result, &plan->result,
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

// A candidate being timed.
struct trial {
    struct cuda_device *cuda;
    struct matmul_plan *plan;
    const struct op_matmul *op;
    const struct matmul_choice *choice;
};

// Milliseconds per run, in `pieces` pieces of `runs` runs each, all queued before the first wait; INFINITY if the
// launch fails, as it does for some listed candidates.
static void time_pieces(const struct trial *trial, int pieces, int runs, double *ms) {
    cudaStream_t stream = trial->cuda->streams[STREAM_COMPUTE];
    cudaEvent_t marks[PIECES + 1];
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    for (int i = 0; i <= pieces; i++) {
        CHECK_CUDA(cudaEventCreate(&marks[i]));
        for (int j = 0; i > 0 && j < runs && status == CUBLAS_STATUS_SUCCESS; j++)
            status = matmul_run(trial->cuda, trial->plan, trial->op, trial->choice);
        CHECK_CUDA(cudaEventRecord(marks[i], stream));
    }
    CHECK_CUDA(cudaEventSynchronize(marks[pieces]));
    for (int i = 0; i < pieces; i++) {
        float elapsed = 0;
        CHECK_CUDA(cudaEventElapsedTime(&elapsed, marks[i], marks[i + 1]));
        ms[i] = status == CUBLAS_STATUS_SUCCESS ? elapsed / (float)runs : INFINITY;
    }
    for (int i = 0; i <= pieces; i++)
        CHECK_CUDA(cudaEventDestroy(marks[i]));
}

static int best_of(const struct candidates *list) {
    int best = 0;
    for (int i = 1; i < list->count; i++)
        if (list->ms[i] < list->ms[best])
            best = i;
    return best;
}

// One run of every candidate per round, so that a falling clock affects all. The first round also loads kernels, which
// hardly matters for long runs: it may be the only round, and omit the last candidates of the estimate.
static void time_bursts(struct trial trial, struct candidates *list) {
    double spent = 0;
    for (int round = 0; round <= ROUNDS; round++)
        for (int i = 0; i < list->count; i++) {
            double ms = 0;
            trial.choice = &list->choice[i];
            time_pieces(&trial, 1, 1, &ms);
            if (round <= 1 || ms < list->ms[i] || ms == INFINITY)
                list->ms[i] = ms;
            spent += ms < INFINITY ? ms : 0;
            if (spent > MOST_MS) {
                list->count = round == 0 ? i + 1 : list->count;
                return;
            }
        }
}

// Keeps the fastest of those that run and are within MARGIN of the best, in the order of the list.
static void keep_fastest(struct candidates *list) {
    double best = list->ms[best_of(list)];
    int kept = 0;
    for (int i = 0; i < list->count; i++) {
        int faster = 0;
        for (int j = 0; j < list->count; j++)
            faster += list->ms[j] < list->ms[i] || (list->ms[j] == list->ms[i] && j < i);
        if (faster >= FINALISTS || !(list->ms[i] <= best * MARGIN))
            list->ms[i] = INFINITY;
    }
    for (int i = 0; i < list->count; i++)
        if (list->ms[i] < INFINITY) {
            list->choice[kept] = list->choice[i];
            list->ms[kept++] = list->ms[i];
        }
    list->count = kept;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

// Times the finalists on a GPU that has been busy long enough to run at its power limit, as in a training step, where a
// matmul that needs less energy keeps a higher clock. The clock sometimes drops for some milliseconds, hence the
// median; it adapts slowly to a new candidate, hence the skipped pieces.
static void time_under_load(struct trial trial, struct candidates *list) {
    enum { COUNTED = PIECES - SKIPPED, SAMPLES = LOAD_ROUNDS * COUNTED };
    double samples[FINALISTS][SAMPLES], ms[PIECES];
    int best = best_of(list);
    trial.choice = &list->choice[best];
    time_pieces(&trial, 1, 1 + (int)(WARM_MS / list->ms[best]), ms);
    for (int round = 0; round < LOAD_ROUNDS; round++)
        for (int i = 0; i < list->count; i++) {
            trial.choice = &list->choice[i];
            time_pieces(&trial, PIECES, 1 + (int)(PIECE_MS / list->ms[i]), ms);
            memcpy(&samples[i][round * COUNTED], ms + SKIPPED, COUNTED * sizeof *ms);
        }
    for (int i = 0; i < list->count; i++) {
        qsort(samples[i], SAMPLES, sizeof samples[i][0], compare_doubles);
        list->ms[i] = samples[i][SAMPLES / 2];
    }
}

static bool can_fuse(const struct matmul_key *key) {
    bool has_aux = key->ending == ENDING_GELU_AUX || key->ending == ENDING_DGELU;
    if (dtype_is_scaled((enum dtype)key->input))
        return key->ending == ENDING_BIAS && key->output == DTYPE_BF16;
    return key->ending != ENDING_NONE && key->input != DTYPE_F32 && key->output == key->input &&
           (!has_aux || (key->m % 8 == 0 && key->alignment[3] >= 16));
}

// Ranks that joined must all decide the same, so a matmul whose shape differs between them is never timed.
static bool is_worth_timing(const struct cuda_device *cuda, const struct matmul_key *key) {
    bool is_exact = key->input == DTYPE_F32 && !cuda->allows_tf32;
    return !cuda->is_deterministic && !key->is_uneven && !is_exact &&
           (double)key->m * (double)key->n * (double)key->k >= LEAST_WORK;
}

// It takes half a second, which pays off only if the next run finds the result.
static bool is_worth_load(const struct cuda_device *cuda, const struct matmul_key *key) {
    return cuda->memory->path && (double)key->m * (double)key->n * (double)key->k >= LEAST_LOAD_WORK;
}

static void say_none(const struct op_matmul *op, cublasStatus_t status) {
    char a[96], b[96], d[96];
    tensor_describe(op->a, a, sizeof a);
    tensor_describe(op->b, b, sizeof b);
    tensor_describe(op->d, d, sizeof d);
    log_info("matmul: cuBLASLt has no algorithm for a %s%s, b %s%s, d %s (%s); a slow kernel is used", a,
             op->transpose_a ? "'" : "", b, op->transpose_b ? "'" : "", d, cublaslt()->cublasLtGetStatusName(status));
}

// Whether this library still supports the choice of an earlier run.
static bool is_valid(struct cuda_device *cuda, struct matmul_plan *plan, const struct matmul_choice *choice) {
    cublasLtMatmulHeuristicResult_t result;
    if (!choice->has_algorithm || (choice->is_fused && !can_fuse(&plan->key)))
        return false;
    cublasStatus_t status =
        cublaslt()->cublasLtMatmulAlgoCheck(cuda->blas, choice->is_fused ? &plan->fused : &plan->plain, &plan->first,
                                            &plan->second, &plan->result, &plan->result, &choice->algorithm, &result);
    return status == CUBLAS_STATUS_SUCCESS && result.workspaceSize <= (size_t)BLAS_WORKSPACE_BYTES;
}

static bool find_known(const struct matmul_memory *memory, const struct matmul_key *key, struct matmul_choice *choice) {
    const void *found = choices_find(&memory->choices, key);
    if (found)
        memcpy(choice, found, sizeof *choice);
    return found != NULL;
}

static void keep_choice(struct matmul_memory *memory, const struct matmul_plan *plan) {
    choices_add(&memory->choices, &plan->key, &plan->choice);
    if (memory->path)
        choices_save(&memory->choices, memory->path);
}

// Nothing can be timed during a recording.
static bool can_time(const struct cuda_device *cuda, const struct matmul_key *key, const struct op_matmul *op) {
    return is_worth_timing(cuda, key) && op->beta == 0 && !cuda->is_recording;
}

static void choose(struct cuda_device *cuda, struct matmul_plan *plan, const struct op_matmul *op) {
    bool is_timed = is_worth_timing(cuda, &plan->key);
    bool times_now = can_time(cuda, &plan->key, op);
    if (!times_now && plan->choice.has_algorithm)
        return;
    struct matmul_choice known;
    if (is_timed && find_known(cuda->memory, &plan->key, &known) && is_valid(cuda, plan, &known)) {
        plan->choice = known;
        // Ranks that joined make the choice final together, once the matmul can be timed, even if their libraries
        // differ.
        plan->is_final = times_now || !cuda->memory->peers.broadcast;
        return;
    }
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
    plan->choice = list.choice[0];
    if (!times_now)
        return;
    struct trial trial = {cuda, plan, op, NULL};
    phase_note("timing matmul algorithms");
    time_bursts(trial, &list);
    double first = list.ms[0];
    keep_fastest(&list);
    double burst = list.count > 0 ? list.ms[best_of(&list)] : 0;
    if (list.count > 1 && burst < LONG_MS && is_worth_load(cuda, &plan->key))
        time_under_load(trial, &list);
    phase_note(NULL);
    if (list.count == 0)  // all fail: running the first reports why
        return;
    int best = best_of(&list);
    log_debug("matmul: m %lld n %lld k %lld ending %d: %s, %.3f ms; the fastest burst %.3f ms, of the first %.3f ms",
              (long long)plan->key.m, (long long)plan->key.n, (long long)plan->key.k, plan->key.ending,
              list.choice[best].is_fused ? "fused" : "plain", list.ms[best], burst, first);
    plan->choice = list.choice[best];
    keep_choice(cuda->memory, plan);
}

// ---- memory of choices ----

// The algorithms that were chosen for matmuls, in this run and in earlier ones, and by which rank. ops/choices.c keeps
// the list and its file; the library checks an algorithm before it is used.
//
// The first of the ranks that joined (see device_join) chooses for all: ranks reach the matmuls in the same order, so
// the others wait for its choice at each new one. They wait even if their list has it, because the first rank's library
// may refuse that algorithm and the matmul be timed again. Matmuls whose shapes differ between ranks (is_uneven) are
// excluded: a rank may have none, or one that it already knows, and would not wait. For these each rank takes the first
// algorithm of the library's list.

struct matmul_memory *matmul_memory_open(int index, const char *path, bool allows_tf32) {
    struct matmul_memory *memory = (struct matmul_memory *)memory_alloc(sizeof *memory);
    struct cudaDeviceProp properties;
    CHECK_CUDA(cudaGetDeviceProperties(&properties, index));
    char identity[160];
    snprintf(identity, sizeof identity, "bevatron products 5, cuBLASLt %zu, %.64s, %d processors%s",
             cublaslt()->cublasLtGetVersion(), properties.name, properties.multiProcessorCount,
             allows_tf32 ? ", TF32" : "");
    choices_open(&memory->choices, identity, sizeof(struct matmul_key), sizeof(struct matmul_choice));
    if (path) {
        memory->path = memory_string(path);
        choices_load(&memory->choices, path);
    }
    return memory;
}

void matmul_memory_close(struct matmul_memory *memory) {
    if (!memory)
        return;
    choices_close(&memory->choices);
    free(memory->path);
    free(memory);
}

extern "C" void cuda_join(struct device *device, const struct device_peers *peers) {
    struct matmul_memory *memory = cuda_use(device)->memory;
    memory->peers = *peers;
    choices_share(&memory->choices, peers);
    if (peers->rank == 0)
        return;
    free(memory->path);
    memory->path = NULL;
}

void matmul_decide(struct cuda_device *cuda, struct matmul_plan *plan, const struct op_matmul *op) {
    struct matmul_memory *memory = cuda->memory;
    bool is_joint = memory->peers.broadcast && can_time(cuda, &plan->key, op);
    if (!is_joint || memory->peers.rank == 0)
        choose(cuda, plan, op);
    if (!is_joint)
        return;
    struct matmul_choice choice = plan->choice;
    memory->peers.broadcast(memory->peers.context, &choice, sizeof choice);
    if (memory->peers.rank == 0)
        return;
    choices_add(&memory->choices, &plan->key, &choice);
    choose(cuda, plan, op);
}
