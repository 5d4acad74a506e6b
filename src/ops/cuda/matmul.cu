// Matmuls by cuBLASLt, accumulated in fp32; fp32 inputs are multiplied in full fp32 unless TF32 is allowed.
//
// cuBLASLt is column-major. A row-major (M, N) matrix is a column-major N x M one, its transpose, so the matmul is
// computed as D' = op(b)' op(a)': b is its first operand, a its second, and transpose flags stay the same. Plans of
// matmuls (descriptors and the chosen algorithm) are kept in a table by shape.
//
// Bias and activation are fused into a 16-bit matmul if that is faster, else our own kernels run after it.
#include "ops/cuda/float4.cuh"
#include "ops/cuda/matmul.cuh"

#include <stdlib.h>
#include <string.h>

enum {
    PLAN_COUNT = 1024,  // a model needs some dozens; on a collision the older one is replaced and rebuilt when needed
    PLAN_PROBES = 8,
};

struct matmul_plan *matmul_plans_create(void) {
    return (struct matmul_plan *)memory_alloc(PLAN_COUNT * sizeof(struct matmul_plan));
}

void matmul_plans_free(struct matmul_plan *plans) {
    free(plans);
}

static cudaDataType_t cuda_type(enum dtype dtype) {
    switch (dtype) {
    case DTYPE_F32:
        return CUDA_R_32F;
    case DTYPE_BF16:
        return CUDA_R_16BF;
    case DTYPE_F16:
        return CUDA_R_16F;
    case DTYPE_E4M3:
        return CUDA_R_8F_E4M3;
    case DTYPE_E5M2:
        return CUDA_R_8F_E5M2;
#if CUDART_VERSION >= 12080
    case DTYPE_E2M1X2:
        return CUDA_R_4F_E2M1;
#endif
    default:
        die("matmul: the CUDA backend has no %s", dtype_name(dtype));
    }
}

// The largest power of two up to 256 that divides the address; the heuristic would otherwise assume 256.
static int32_t alignment_of(const void *pointer) {
    uintptr_t address = (uintptr_t)pointer;
    int32_t alignment = 256;
    while (address % (uintptr_t)alignment != 0)
        alignment /= 2;
    return alignment;
}

static uint64_t key_hash(const struct matmul_key *key) {
    const unsigned char *bytes = (const unsigned char *)key;
    uint64_t hash = 0xCBF29CE484222325u;  // FNV-1a
    for (size_t i = 0; i < sizeof *key; i++)
        hash = (hash ^ bytes[i]) * 0x100000001B3u;
    return hash ^ hash >> 32;
}

// Numbers per element.
static int64_t numbers_in(struct tensor t) {
    return t.dtype == DTYPE_E2M1X2 ? 2 : 1;
}

// The distance between rows for cuBLASLt: a single row may have any stride, even one shorter than the row.
static int64_t leading_stride(struct tensor t) {
    return (t.stride[0] > t.shape[1] ? t.stride[0] : t.shape[1]) * numbers_in(t);
}

static enum matmul_ending ending_of(const struct op_matmul *op) {
    switch (op->epilogue) {
    case EPILOGUE_BIAS:
        return ENDING_BIAS;
    case EPILOGUE_BIAS_ACTIVATION:
        return op->aux.data ? ENDING_GELU_AUX : ENDING_GELU;
    case EPILOGUE_ACTIVATION_GRADIENT:
        return ENDING_DGELU;
    default:
        return ENDING_NONE;
    }
}

// Sums of the forward pass may have reduced precision; gradients, in E5M2, have full precision unless is_fast. So do
// sums by blocks.
static bool has_fast_sums(const struct op_matmul *op) {
    bool is_forward = op->a.dtype == DTYPE_E4M3 && op->b.dtype == DTYPE_E4M3;
    return dtype_is_float8(op->a.dtype) && op->a_scaling == SCALING_TENSOR && (is_forward || op->is_fast);
}

struct matmul_key matmul_key_of(const struct op_matmul *op) {
    struct matmul_key key;
    memset(&key, 0, sizeof key);
    key.m = op->d.shape[1];
    key.n = op->d.shape[0];
    key.k = op->transpose_a ? op->a.shape[0] : op->a.shape[1] * numbers_in(op->a);
    key.a_stride = leading_stride(op->a);
    key.b_stride = leading_stride(op->b);
    key.d_stride = leading_stride(op->d);
    key.input = op->a.dtype;
    key.second_input = op->b.dtype;
    key.output = op->d.dtype;
    key.transpose_a = op->transpose_a;
    key.transpose_b = op->transpose_b;
    key.alignment[0] = alignment_of(op->a.data);
    key.alignment[1] = alignment_of(op->b.data);
    key.alignment[2] = alignment_of(op->d.data);
    key.alignment[3] = alignment_of(op->aux.data);
    key.ending = ending_of(op);
    key.is_uneven = op->is_uneven;
    key.scaling[0] = op->a_scaling;
    key.scaling[1] = op->b_scaling;
    key.is_used = 1;
    key.is_fast = has_fast_sums(op);
    return key;
}

// A layout is given as stored, before the transpose: rows of ours are columns of theirs.
static void layout_init(cublasLtMatrixLayoutOpaque_t *layout, enum dtype dtype, struct tensor t, int64_t stride) {
    CHECK_CUBLAS(cublasLtMatrixLayoutInit_internal(layout, sizeof *layout, cuda_type(dtype),
                                                   (uint64_t)(t.shape[1] * numbers_in(t)), (uint64_t)t.shape[0],
                                                   stride));
}

#define SET_MATMUL(matmul, name, value)                                                                                \
    CHECK_CUBLAS(cublasLtMatmulDescSetAttribute(matmul, name, &(value), sizeof(value)))

// Bias and aux belong to the descriptor, and change from layer to layer.
static void set_ending(cublasLtMatmulDescOpaque_t *matmul, const struct matmul_key *key, const struct op_matmul *op) {
    const void *bias = op->bias.data, *aux = op->aux.data;
    if (key->ending != ENDING_DGELU)
        SET_MATMUL(matmul, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    if (key->ending == ENDING_GELU_AUX || key->ending == ENDING_DGELU)
        SET_MATMUL(matmul, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, aux);
}

// The ranges of fp8 and fp4 operands belong to the descriptor too; their factors are read when the matmul runs.
static void set_factors(cublasLtMatmulDescOpaque_t *matmul, const struct op_matmul *op) {
    const void *first = op->b_range.data, *second = op->a_range.data;
    static_assert(RANGE_FACTOR == 0, "a range begins with its factor");
    SET_MATMUL(matmul, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, first);
    SET_MATMUL(matmul, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, second);
}

// Sets the layout of the factors; the default is one per operand.
static void set_scaling(cublasLtMatmulDescOpaque_t *matmul, const struct op_matmul *op) {
#if CUDART_VERSION >= 12090
    static const cublasLtMatmulMatrixScale_t modes[SCALING_COUNT] = {
        CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,     CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
        CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F, CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0,
        CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3,    CUBLASLT_MATMUL_MATRIX_SCALE_VEC16_UE4M3};
    if (op->a_scaling == SCALING_TENSOR)
        return;
    int32_t first = modes[op->b_scaling], second = modes[op->a_scaling];
    SET_MATMUL(matmul, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, first);
    SET_MATMUL(matmul, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, second);
#else
    (void)matmul;
    CHECK(op->a_scaling == SCALING_TENSOR);
#endif
}

static void matmul_init(struct cuda_device *cuda, cublasLtMatmulDescOpaque_t *matmul, const struct matmul_key *key,
                        const struct op_matmul *op, bool is_fused) {
    static const cublasLtEpilogue_t endings[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                                                 CUBLASLT_EPILOGUE_GELU_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
                                                 CUBLASLT_EPILOGUE_DGELU};
    cublasOperation_t first = key->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = key->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    bool is_tf32 = cuda->allows_tf32 && key->input == DTYPE_F32;
    CHECK_CUBLAS(cublasLtMatmulDescInit_internal(
        matmul, sizeof *matmul, is_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F, CUDA_R_32F));
    SET_MATMUL(matmul, CUBLASLT_MATMUL_DESC_TRANSA, first);
    SET_MATMUL(matmul, CUBLASLT_MATMUL_DESC_TRANSB, second);
    if (op->a.dtype == DTYPE_E2M1X2) {
        // The factors of tensors are on the device and are folded into alpha, so alpha is there too.
        int32_t place = CUBLASLT_POINTER_MODE_DEVICE;
        SET_MATMUL(matmul, CUBLASLT_MATMUL_DESC_POINTER_MODE, place);
    } else if (dtype_is_float8(op->a.dtype)) {
        int8_t is_fast = key->is_fast != 0;
        SET_MATMUL(matmul, CUBLASLT_MATMUL_DESC_FAST_ACCUM, is_fast);
    }
    if (dtype_is_scaled(op->a.dtype)) {
        set_scaling(matmul, op);
        set_factors(matmul, op);
    }
    if (!is_fused)
        return;
    SET_MATMUL(matmul, CUBLASLT_MATMUL_DESC_EPILOGUE, endings[key->ending]);
    if (key->ending == ENDING_GELU_AUX || key->ending == ENDING_DGELU)
        SET_MATMUL(matmul, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, key->m);
    set_ending(matmul, key, op);
}

static void plan_make(struct cuda_device *cuda, struct matmul_plan *plan, const struct matmul_key *key,
                      const struct op_matmul *op) {
    CHECK(key->m <= INT32_MAX && key->n <= INT32_MAX && key->k <= INT32_MAX);
    memset(plan, 0, sizeof *plan);
    plan->key = *key;
    plan->is_final = true;
    if (key->k == 0)  // an empty sum: no layout can describe it
        return;
    matmul_init(cuda, &plan->plain, key, op, false);
    if (key->ending != ENDING_NONE)
        matmul_init(cuda, &plan->fused, key, op, true);
    layout_init(&plan->first, op->b.dtype, op->b, key->b_stride);
    layout_init(&plan->second, op->a.dtype, op->a, key->a_stride);
    layout_init(&plan->result, op->d.dtype, op->d, key->d_stride);
    matmul_decide(cuda, plan, op);
}

static struct matmul_plan *plan_find(struct cuda_device *cuda, const struct op_matmul *op) {
    struct matmul_key key = matmul_key_of(op);
    uint64_t home = key_hash(&key) % PLAN_COUNT;
    struct matmul_plan *free_place = &cuda->plans[home];
    for (uint64_t i = 0; i < PLAN_PROBES; i++) {
        struct matmul_plan *plan = &cuda->plans[(home + i) % PLAN_COUNT];
        if (!plan->key.is_used) {
            free_place = plan;
            break;
        }
        if (memcmp(&plan->key, &key, sizeof key) == 0) {
            if (!plan->is_final)
                matmul_decide(cuda, plan, op);
            return plan;
        }
    }
    plan_make(cuda, free_place, &key, op);
    return free_place;
}

cublasStatus_t matmul_run(struct cuda_device *cuda, struct matmul_plan *plan, const struct op_matmul *op,
                          const struct matmul_choice *choice) {
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (!choice->has_algorithm) {
        matmul_run_plain(cuda, op, &plan->key);
    } else {
        if (choice->is_fused)
            set_ending(&plan->fused, &plan->key, op);
        if (dtype_is_scaled(op->a.dtype))
            set_factors(choice->is_fused ? &plan->fused : &plan->plain, op);
        const float *alpha = &op->alpha, *beta = &op->beta;
        if (op->a.dtype == DTYPE_E2M1X2) {
            alpha = float4_scalars(cuda, op) + FLOAT4_ALPHA;
            beta = alpha - FLOAT4_ALPHA + FLOAT4_BETA;
        }
        status = cublaslt()->cublasLtMatmul(cuda->blas, choice->is_fused ? &plan->fused : &plan->plain, alpha,
                                            op->b.data, &plan->first, op->a.data, &plan->second, beta, op->d.data,
                                            &plan->result, op->d.data, &plan->result, &choice->algorithm,
                                            cuda->blas_workspace, BLAS_WORKSPACE_BYTES, cuda->streams[STREAM_COMPUTE]);
    }
    if (status == CUBLAS_STATUS_SUCCESS && op->epilogue != EPILOGUE_NONE && !choice->is_fused)
        matmul_run_epilogue(cuda, op);
    return status;
}

extern "C" void cuda_matmul(struct device *device, const struct op_matmul *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->d) == 0)
        return;
    struct matmul_plan *plan = plan_find(cuda, op);
    cublasStatus_t status = matmul_run(cuda, plan, op, &plan->choice);
    if (status != CUBLAS_STATUS_SUCCESS)
        die_code(cublas_exit_code(status), "cuBLASLt: %s in a matmul%s", cublaslt()->cublasLtGetStatusName(status),
                 cuda_remedy(cublas_exit_code(status)));
}
