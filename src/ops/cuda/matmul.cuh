// What the files of the matmul share: what a matmul is known by, what was chosen for it, and the ways to run
// it.
#ifndef OPS_CUDA_MATMUL_CUH
#define OPS_CUDA_MATMUL_CUH

#include "ops/cuda/cuda.cuh"

// What an epilogue asks of cuBLASLt; EPILOGUE_BIAS_ACTIVATION comes with and without aux.
enum matmul_ending { ENDING_NONE, ENDING_BIAS, ENDING_GELU, ENDING_GELU_AUX, ENDING_DGELU };

// All that the choice of an algorithm depends on. Compared as bytes and written to files: built from zeroed memory,
// every member as wide as its place. The matmul is column-major, m = N and n = M of ours.
struct matmul_key {
    int64_t m, n, k;
    int64_t a_stride, b_stride, d_stride;
    int32_t input, output;  // enum dtype, of a and d
    int32_t transpose_a, transpose_b;
    int32_t alignment[4];  // of a, b, d, aux; bytes
    int32_t ending;        // enum matmul_ending
    int32_t is_used;
    int32_t second_input;  // enum dtype, of b
    int32_t is_uneven;     // see op_matmul: never timed, and never what ranks that joined agree on
    int32_t scaling[2];    // enum scaling, of a and b
    int32_t is_fast;       // fp8: sums may be short of bits
    int32_t unused;        // 0
};

struct matmul_choice {
    cublasLtMatmulAlgo_t algorithm;
    int32_t has_algorithm;  // else the plain kernel
    int32_t is_fused;       // the ending is part of the matmul; else a kernel of ours follows it
};

struct matmul_plan {
    struct matmul_key key;
    cublasLtMatmulDescOpaque_t plain, fused;             // without and with the ending
    cublasLtMatrixLayoutOpaque_t first, second, result;  // b, a, d
    struct matmul_choice choice;
    bool is_final;  // else it is chosen again by timing when that is possible
};

struct matmul_memory {            // choices of this and earlier runs
    struct kept_choices choices;  // of matmul_choice by matmul_key
    char *path;                   // NULL: kept in no file
    struct device_peers peers;    // no broadcast: this rank chooses for itself
};

// The key of a plan; all zeros but the sizes where k is 0.
struct matmul_key matmul_key_of(const struct op_matmul *op);
// Runs the matmul as `choice` says.
cublasStatus_t matmul_run(struct cuda_device *cuda, struct matmul_plan *plan, const struct op_matmul *op,
                          const struct matmul_choice *choice);
// matmul_plain.cu: a matmul that cuBLASLt has no algorithm for; an epilogue on a matmul that is in d.
void matmul_run_plain(struct cuda_device *cuda, const struct op_matmul *op, const struct matmul_key *key);
void matmul_run_epilogue(struct cuda_device *cuda, const struct op_matmul *op);
// matmul_restored.cu: the former in fp8 and fp4.
void matmul_run_restored(struct cuda_device *cuda, const struct op_matmul *op, const struct matmul_key *key);
// matmul_memory.cu: what is known about a matmul; keeps plan->choice; fills plan->choice, together with other ranks
// where they joined. matmul_memory_open is in cuda.cuh.
bool matmul_memory_find(const struct matmul_memory *memory, const struct matmul_key *key, struct matmul_choice *choice);
void matmul_memory_keep(struct matmul_memory *memory, const struct matmul_plan *plan);
void matmul_decide(struct cuda_device *cuda, struct matmul_plan *plan, const struct op_matmul *op);
// matmul_choose.cu: whether a matmul would be timed now, were it not known; fills plan->choice.
bool matmul_can_time(const struct cuda_device *cuda, const struct matmul_key *key, const struct op_matmul *op);
void matmul_choose(struct cuda_device *cuda, struct matmul_plan *plan, const struct op_matmul *op);

#endif
