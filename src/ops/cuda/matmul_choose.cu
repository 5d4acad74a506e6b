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

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern "C" {
#include "base/buffer.h"
#include "base/file.h"
}

enum { MOST_CANDIDATES = 32, ROUNDS = 4, FILE_LIMIT = 16 << 20 };
static const double LEAST_WORK = 1e9;  // multiplications that are worth a timing

#define SET_PREFERENCE(preference, name, value)                                                                        \
    CHECK_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference, name, &(value), sizeof(value)))

// ---- The file ----
// A line of identity, then "KEY CHOICE" in hexadecimal, a line each.

static void append_hex(struct buffer *out, const void *data, size_t count) {
    static const char digits[] = "0123456789abcdef";
    const unsigned char *bytes = (const unsigned char *)data;
    for (size_t i = 0; i < count; i++) {
        char pair[2] = {digits[bytes[i] >> 4], digits[bytes[i] & 15]};
        buffer_append(out, pair, 2);
    }
}

static int hex_digit(char c) {
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Reads count bytes and returns what follows; NULL where there are other characters.
static const char *read_hex(const char *text, void *data, size_t count) {
    unsigned char *bytes = (unsigned char *)data;
    for (size_t i = 0; i < count; i++) {
        int high = hex_digit(text[2 * i]), low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);
        if (low < 0)
            return NULL;
        bytes[i] = (unsigned char)(high << 4 | low);
    }
    return text + 2 * count;
}

static struct matmul_entry *memory_find(struct matmul_memory *memory, const struct matmul_key *key) {
    for (int64_t i = 0; i < memory->count; i++)
        if (memcmp(&memory->entries[i].key, key, sizeof *key) == 0)
            return &memory->entries[i];
    return NULL;
}

// A file of another library, another GPU or no file of ours at all is left aside and written anew.
static void memory_load(struct matmul_memory *memory) {
    struct buffer text = {};
    if (!file_exists(memory->path))
        return;
    if (file_read_all(memory->path, FILE_LIMIT, &text) < 0) {
        log_warn("%s; products are timed again", error_message());
        return;
    }
    const char *at = buffer_string(&text);
    size_t length = strlen(memory->identity);
    if (strncmp(at, memory->identity, length) == 0 && at[length] == '\n') {
        at += length + 1;
        while (*at && memory->count < MOST_REMEMBERED) {
            struct matmul_entry *entry = &memory->entries[memory->count];
            at = read_hex(at, &entry->key, sizeof entry->key);
            if (at && *at == ' ')
                at = read_hex(at + 1, &entry->choice, sizeof entry->choice);
            if (!at || *at++ != '\n')
                break;
            memory->count++;
        }
    }
    buffer_free(&text);
}

static void memory_save(struct matmul_memory *memory) {
    struct buffer text = {};
    buffer_append(&text, memory->identity, strlen(memory->identity));
    buffer_append(&text, "\n", 1);
    for (int64_t i = 0; i < memory->count; i++) {
        append_hex(&text, &memory->entries[i].key, sizeof memory->entries[i].key);
        buffer_append(&text, " ", 1);
        append_hex(&text, &memory->entries[i].choice, sizeof memory->entries[i].choice);
        buffer_append(&text, "\n", 1);
    }
    if (file_write_all(memory->path, text.data, text.length) < 0 && !memory->is_broken) {
        memory->is_broken = true;
        log_warn("%s; the next run times its products again", error_message());
    }
    buffer_free(&text);
}

static void memory_keep(struct matmul_memory *memory, const struct matmul_plan *plan) {
    if (memory->count == MOST_REMEMBERED)
        return;
    struct matmul_entry *entry = &memory->entries[memory->count++];
    memset(entry, 0, sizeof *entry);
    entry->key = plan->key;
    entry->choice = plan->choice;
    if (memory->path)
        memory_save(memory);
}

struct matmul_memory *matmul_memory_open(int index, const char *path, bool allows_tf32) {
    struct matmul_memory *memory = (struct matmul_memory *)memory_alloc(sizeof *memory);
    struct cudaDeviceProp properties;
    CHECK_CUDA(cudaGetDeviceProperties(&properties, index));
    memory->entries = (struct matmul_entry *)memory_alloc(MOST_REMEMBERED * sizeof *memory->entries);
    snprintf(memory->identity, sizeof memory->identity, "bevatron products 2, cuBLASLt %zu, %.64s, %d processors%s",
             cublasLtGetVersion(), properties.name, properties.multiProcessorCount, allows_tf32 ? ", TF32" : "");
    if (path) {
        memory->path = memory_string(path);
        memory_load(memory);
    }
    return memory;
}

void matmul_memory_close(struct matmul_memory *memory) {
    if (!memory)
        return;
    free(memory->entries);
    free(memory->path);
    free(memory);
}

// ---- Candidates ----

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

void matmul_choose(struct cuda_device *cuda, struct matmul_plan *plan, const struct op_matmul *op) {
    bool is_timed = is_worth_timing(cuda, &plan->key);
    if (is_timed) {
        struct matmul_entry *known = memory_find(cuda->memory, &plan->key);
        if (known && is_valid(cuda, plan, &known->choice)) {
            plan->choice = known->choice;
            plan->is_final = true;
            return;
        }
    }
    // Nothing can be timed while it is recorded.
    bool times_now = is_timed && op->beta == 0 && !cuda->is_recording;
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
        memory_keep(cuda->memory, plan);
}
