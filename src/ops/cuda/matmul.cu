// Matrix products by cuBLASLt, accumulated in fp32; fp32 inputs are multiplied in full fp32, never TF32.
//
// cuBLASLt thinks column-major. A row-major (M, N) matrix is the column-major N x M one, its transpose, so the
// product is asked for as D' = op(b)' op(a)': b is its first operand, a its second, and a transpose flag of ours is a
// transpose flag of theirs. What was found out about a product (descriptors and the chosen algorithm) is kept in a
// table by its shape.
//
// Bias and activation are kernels of our own after the product, which in bf16 rounds once more than a fused epilogue. A
// product that cuBLASLt has no algorithm for (odd shapes; what these are changes with its version) goes through a plain
// tiled kernel.
#include "ops/cuda/cuda.cuh"

#include <stdlib.h>
#include <string.h>

enum {
    PLAN_COUNT = 1024,  // a model needs some dozens; where two collide for long the older one is made again
    PLAN_PROBES = 8,
    EPILOGUE_THREADS = 256,
    PLAIN_TILE = 16,
};

// All that the choice of an algorithm depends on. Compared as bytes: built from zeroed memory.
struct matmul_key {
    int64_t m, n, k;  // of the column-major product: m = N, n = M
    int64_t a_stride, b_stride, d_stride;
    int32_t input, output;  // enum dtype
    int32_t transpose_a, transpose_b;
    int32_t alignment[3];  // of a, b, d, bytes
    int32_t is_used;
};

struct matmul_plan {
    struct matmul_key key;
    cublasLtMatmulDescOpaque_t product;
    cublasLtMatrixLayoutOpaque_t first, second, result;  // b, a, d
    bool has_algorithm;                                  // else the plain kernel
    cublasLtMatmulAlgo_t algorithm;
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

// The distance between rows as cuBLASLt wants it: a single row may carry any stride, even one shorter than itself.
static int64_t leading_stride(struct tensor t) {
    return t.stride[0] > t.shape[1] ? t.stride[0] : t.shape[1];
}

static struct matmul_key key_of(const struct op_matmul *op) {
    struct matmul_key key;
    memset(&key, 0, sizeof key);
    key.m = op->d.shape[1];
    key.n = op->d.shape[0];
    key.k = op->transpose_a ? op->a.shape[0] : op->a.shape[1];
    key.a_stride = leading_stride(op->a);
    key.b_stride = leading_stride(op->b);
    key.d_stride = leading_stride(op->d);
    key.input = op->a.dtype;
    key.output = op->d.dtype;
    key.transpose_a = op->transpose_a;
    key.transpose_b = op->transpose_b;
    key.alignment[0] = alignment_of(op->a.data);
    key.alignment[1] = alignment_of(op->b.data);
    key.alignment[2] = alignment_of(op->d.data);
    key.is_used = 1;
    return key;
}

// A layout is given as stored, before the transpose: rows of ours are columns of theirs.
static void layout_init(cublasLtMatrixLayoutOpaque_t *layout, enum dtype dtype, struct tensor t, int64_t stride) {
    CHECK_CUBLAS(
        cublasLtMatrixLayoutInit(layout, cuda_type(dtype), (uint64_t)t.shape[1], (uint64_t)t.shape[0], stride));
}

#define SET_PRODUCT(plan, name, value)                                                                                 \
    CHECK_CUBLAS(cublasLtMatmulDescSetAttribute(&(plan)->product, name, &(value), sizeof(value)))
#define SET_PREFERENCE(preference, name, value)                                                                        \
    CHECK_CUBLAS(cublasLtMatmulPreferenceSetAttribute(preference, name, &(value), sizeof(value)))

// The first answer of the heuristic. Split sums are allowed in fp32 only: summed in the output's bf16 they would lose
// bits.
static void choose_algorithm(struct cuda_device *cuda, struct matmul_plan *plan, const struct op_matmul *op) {
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
    cublasLtMatmulHeuristicResult_t result;
    int found = 0;
    cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(cuda->blas, &plan->product, &plan->first, &plan->second, &plan->result,
                                       &plan->result, &preference, 1, &result, &found);
    plan->has_algorithm = status == CUBLAS_STATUS_SUCCESS && found > 0 && result.state == CUBLAS_STATUS_SUCCESS;
    if (!plan->has_algorithm) {
        char a[96], b[96], d[96];
        tensor_describe(op->a, a, sizeof a);
        tensor_describe(op->b, b, sizeof b);
        tensor_describe(op->d, d, sizeof d);
        log_info("matmul: cuBLASLt has no algorithm for a %s%s, b %s%s, d %s (%s); a slow kernel is used", a,
                 op->transpose_a ? "'" : "", b, op->transpose_b ? "'" : "", d, cublasLtGetStatusName(status));
        return;
    }
    plan->algorithm = result.algo;
}

static void plan_make(struct cuda_device *cuda, struct matmul_plan *plan, const struct matmul_key *key,
                      const struct op_matmul *op) {
    cublasOperation_t first = key->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t second = key->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    CHECK(key->m <= INT32_MAX && key->n <= INT32_MAX && key->k <= INT32_MAX);
    plan->key = *key;
    plan->has_algorithm = false;
    if (key->k == 0)  // an empty sum: no layout can describe it
        return;
    CHECK_CUBLAS(cublasLtMatmulDescInit(&plan->product, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    SET_PRODUCT(plan, CUBLASLT_MATMUL_DESC_TRANSA, first);
    SET_PRODUCT(plan, CUBLASLT_MATMUL_DESC_TRANSB, second);
    layout_init(&plan->first, op->b.dtype, op->b, key->b_stride);
    layout_init(&plan->second, op->a.dtype, op->a, key->a_stride);
    layout_init(&plan->result, op->d.dtype, op->d, key->d_stride);
    choose_algorithm(cuda, plan, op);
}

static struct matmul_plan *plan_find(struct cuda_device *cuda, const struct op_matmul *op) {
    struct matmul_key key = key_of(op);
    uint64_t home = key_hash(&key) % PLAN_COUNT;
    struct matmul_plan *free_place = &cuda->plans[home];
    for (uint64_t i = 0; i < PLAN_PROBES; i++) {
        struct matmul_plan *plan = &cuda->plans[(home + i) % PLAN_COUNT];
        if (!plan->key.is_used) {
            free_place = plan;
            break;
        }
        if (memcmp(&plan->key, &key, sizeof key) == 0)
            return plan;
    }
    plan_make(cuda, free_place, &key, op);
    return free_place;
}

// ---- The plain product ----

struct plain_args {
    int64_t rows, columns, inner;                         // M, N, K
    int64_t a_row, a_inner, b_inner, b_column, d_stride;  // steps in elements; a transpose swaps two of them
    float alpha, beta;
};

// Block (16, 16): one tile of d, over tiles of a and b in shared memory.
template <typename T, typename D>
static __global__ void plain_kernel(D *d, const T *a, const T *b, struct plain_args args) {
    __shared__ float a_tile[PLAIN_TILE][PLAIN_TILE + 1], b_tile[PLAIN_TILE][PLAIN_TILE + 1];
    int x = threadIdx.x, y = threadIdx.y;
    int64_t row = (int64_t)blockIdx.x * PLAIN_TILE + y, column = (int64_t)blockIdx.y * PLAIN_TILE + x;
    float sum = 0;
    for (int64_t first = 0; first < args.inner; first += PLAIN_TILE) {
        int64_t k = first + x;
        a_tile[y][x] = row < args.rows && k < args.inner ? to_float(a[row * args.a_row + k * args.a_inner]) : 0.0f;
        k = first + y;
        b_tile[y][x] =
            column < args.columns && k < args.inner ? to_float(b[k * args.b_inner + column * args.b_column]) : 0.0f;
        __syncthreads();
        for (int i = 0; i < PLAIN_TILE; i++)
            sum += a_tile[y][i] * b_tile[i][x];
        __syncthreads();
    }
    if (row < args.rows && column < args.columns) {
        D *place = d + row * args.d_stride + column;
        store(place, args.alpha * sum + (args.beta != 0 ? args.beta * to_float(*place) : 0.0f));
    }
}

static void run_plain(struct cuda_device *cuda, const struct op_matmul *op, const struct matmul_key *key) {
    struct plain_args args = {};
    args.rows = key->n;
    args.columns = key->m;
    args.inner = key->k;
    args.a_row = op->transpose_a ? 1 : key->a_stride;
    args.a_inner = op->transpose_a ? key->a_stride : 1;
    args.b_inner = op->transpose_b ? 1 : key->b_stride;
    args.b_column = op->transpose_b ? key->b_stride : 1;
    args.d_stride = key->d_stride;
    args.alpha = op->alpha;
    args.beta = op->beta;
    dim3 grid(grid_x(divide_up(args.rows, PLAIN_TILE)), grid_yz(divide_up(args.columns, PLAIN_TILE)));
    dim3 block(PLAIN_TILE, PLAIN_TILE);
    WITH_TYPE(op->a.dtype, T, {
        const T *a = (const T *)op->a.data, *b = (const T *)op->b.data;
        WITH_TYPE(op->d.dtype, D, LAUNCH(cuda, (plain_kernel<T, D>), grid, block, 0, (D *)op->d.data, a, b, args));
    });
}

// ---- Epilogues ----

static __device__ __forceinline__ float gelu_tanh(float x) {
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
}

static __device__ __forceinline__ float gelu_tanh_gradient(float x) {
    float t = tanhf(0.7978845608f * (x + 0.044715f * x * x * x));
    return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * 0.7978845608f * (1.0f + 3.0f * 0.044715f * x * x);
}

struct epilogue_args {
    enum epilogue epilogue;
    int64_t rows, columns, d_stride;
    bool is_bias_bf16, is_aux_bf16;  // else fp32
    const void *bias;                // (N)
    void *aux;                       // (M, N) or NULL
};

static __device__ __forceinline__ float load_either(const void *data, bool is_bf16, int64_t i) {
    return is_bf16 ? to_float(((const __nv_bfloat16 *)data)[i]) : ((const float *)data)[i];
}

static __device__ __forceinline__ void store_either(void *data, bool is_bf16, int64_t i, float x) {
    if (is_bf16)
        store((__nv_bfloat16 *)data + i, x);
    else
        store((float *)data + i, x);
}

// d holds the product and gets the result. Block x is a piece of a row, block y walks the rows.
template <typename T> static __global__ void epilogue_kernel(T *d, struct epilogue_args args) {
    int64_t column = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (column >= args.columns)
        return;
    float bias = args.bias ? load_either(args.bias, args.is_bias_bf16, column) : 0.0f;
    for (int64_t row = blockIdx.y; row < args.rows; row += gridDim.y) {
        T *place = d + row * args.d_stride + column;
        int64_t aux_index = row * args.columns + column;
        float value = to_float(*place) + bias;
        if (args.epilogue == EPILOGUE_ACTIVATION_GRADIENT) {
            value *= gelu_tanh_gradient(load_either(args.aux, args.is_aux_bf16, aux_index));
        } else if (args.epilogue == EPILOGUE_BIAS_ACTIVATION) {
            // Backward has the stored aux, so forward activates what is stored.
            value = rounded<T>(value);
            if (args.aux)
                store_either(args.aux, args.is_aux_bf16, aux_index, value);
            value = gelu_tanh(value);
        }
        store(place, value);
    }
}

static void run_epilogue(struct cuda_device *cuda, const struct op_matmul *op) {
    CHECK(op->activation == ACTIVATION_GELU_TANH);
    bool has_bias = op->epilogue == EPILOGUE_BIAS || op->epilogue == EPILOGUE_BIAS_ACTIVATION;
    struct epilogue_args args = {};
    args.epilogue = op->epilogue;
    args.rows = op->d.shape[0];
    args.columns = op->d.shape[1];
    args.d_stride = op->d.stride[0];
    args.bias = has_bias ? op->bias.data : NULL;
    args.is_bias_bf16 = op->bias.dtype == DTYPE_BF16;
    args.aux = op->aux.data;
    args.is_aux_bf16 = op->aux.dtype == DTYPE_BF16;
    dim3 grid(grid_x(divide_up(args.columns, EPILOGUE_THREADS)), grid_yz(args.rows < 65535 ? args.rows : 65535));
    WITH_TYPE(op->d.dtype, T, LAUNCH(cuda, epilogue_kernel<T>, grid, EPILOGUE_THREADS, 0, (T *)op->d.data, args));
}

extern "C" void cuda_matmul(struct device *device, const struct op_matmul *op) {
    struct cuda_device *cuda = cuda_use(device);
    if (tensor_count(op->d) == 0)
        return;
    struct matmul_plan *plan = plan_find(cuda, op);
    if (plan->has_algorithm)
        CHECK_CUBLAS(cublasLtMatmul(cuda->blas, &plan->product, &op->alpha, op->b.data, &plan->first, op->a.data,
                                    &plan->second, &op->beta, op->d.data, &plan->result, op->d.data, &plan->result,
                                    &plan->algorithm, cuda->blas_workspace, BLAS_WORKSPACE_BYTES,
                                    cuda->streams[STREAM_COMPUTE]));
    else
        run_plain(cuda, op, &plan->key);
    if (op->epilogue != EPILOGUE_NONE)
        run_epilogue(cuda, op);
}
