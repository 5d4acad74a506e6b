// Declarations common to the files of the matmul: keys, choices of algorithms, and the ways to run a matmul.
#ifndef OPS_CUDA_MATMUL_CUH
#define OPS_CUDA_MATMUL_CUH

#include "ops/cuda/cuda.cuh"

// cuBLASLt's epilogues; EPILOGUE_BIAS_ACTIVATION has two, with and without aux.
enum matmul_ending { ENDING_NONE, ENDING_BIAS, ENDING_GELU, ENDING_GELU_AUX, ENDING_DGELU };

// All that the choice of an algorithm depends on. Compared as bytes and written to files: built from zeroed memory,
// without padding. The matmul is column-major, with m = N and n = M.
struct matmul_key {
    int64_t m, n, k;
    int64_t a_stride, b_stride, d_stride;
    int32_t input, output;  // enum dtype, of a and d
    int32_t transpose_a, transpose_b;
    int32_t alignment[4];  // of a, b, d, aux; bytes
    int32_t ending;        // enum matmul_ending
    int32_t is_used;
    int32_t second_input;  // enum dtype, of b
    int32_t is_uneven;     // see op_matmul: never timed, and not shared by ranks that joined
    int32_t scaling[2];    // enum scaling, of a and b
    int32_t is_fast;       // fp8: sums may have reduced precision
    int32_t unused;        // 0
};

struct matmul_choice {
    cublasLtMatmulAlgo_t algorithm;
    int32_t has_algorithm;  // else the plain kernel
    int32_t is_fused;       // the ending is part of the matmul; else our own kernel follows
};

struct matmul_plan {
    struct matmul_key key;
    cublasLtMatmulDescOpaque_t plain, fused;             // without and with the ending
    cublasLtMatrixLayoutOpaque_t first, second, result;  // b, a, d
    struct matmul_choice choice;
    bool is_final;  // else it is chosen again by timing once that is possible
};

struct matmul_memory {            // choices of this and earlier runs
    struct kept_choices choices;  // of matmul_choice by matmul_key
    char *path;                   // NULL: kept in no file
    struct device_peers peers;    // broadcast NULL: this rank chooses for itself
};

// The key of a plan; if k is 0, all zeros except the sizes.
struct matmul_key matmul_key_of(const struct op_matmul *op);
// Runs the matmul as `choice` says.
cublasStatus_t matmul_run(struct cuda_device *cuda, struct matmul_plan *plan, const struct op_matmul *op,
                          const struct matmul_choice *choice);
// matmul_plain.cu: a matmul without an algorithm of cuBLASLt; an epilogue on a matmul's result in d.
void matmul_run_plain(struct cuda_device *cuda, const struct op_matmul *op, const struct matmul_key *key);
void matmul_run_epilogue(struct cuda_device *cuda, const struct op_matmul *op);
// matmul_restored.cu: a matmul in fp8 or fp4 without an algorithm of cuBLASLt.
void matmul_run_restored(struct cuda_device *cuda, const struct op_matmul *op, const struct matmul_key *key);
// matmul_choose.cu: fills plan->choice, together with other ranks if they joined. matmul_memory_open is in cuda.cuh.
void matmul_decide(struct cuda_device *cuda, struct matmul_plan *plan, const struct op_matmul *op);

#endif
