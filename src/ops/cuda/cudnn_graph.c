// Operation graphs of cuDNN's C backend API. See cudnn_graph.h.
#include "ops/cuda/cudnn_graph.h"
#include "base/error.h"
#include "ops/cuda/attention_cudnn.h"
#include "ops/cuda/libraries.h"

#include <stdio.h>
#include <string.h>

enum { ALIGNMENT_BYTES = 16, FIRST_VIRTUAL = 1000, MOST_ENGINES = 8 };

typedef cudnnBackendDescriptor_t descriptor;

static void fail(struct cudnn_graph *graph, const char *what, cudnnStatus_t status) {
    char reason[300] = "";
    if (graph->has_failed)
        return;
    graph->has_failed = true;
    graph->is_memory_full = status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED;
    cudnn()->cudnnGetLastErrorString(reason, sizeof reason);
    reason[strcspn(reason, "\n")] = 0;
    snprintf(graph->problem, sizeof graph->problem, "%s: %s %.200s", what, cudnn()->cudnnGetErrorString(status),
             reason);
}

static descriptor create(struct cudnn_graph *graph, cudnnBackendDescriptorType_t type, const char *what) {
    descriptor made = NULL;
    if (graph->has_failed)
        return NULL;
    CHECK(graph->count < CUDNN_GRAPH_DESCRIPTORS);
    cudnnStatus_t status = cudnn()->cudnnBackendCreateDescriptor(type, &made);
    if (status != CUDNN_STATUS_SUCCESS) {
        fail(graph, what, status);
        return NULL;
    }
    graph->all[graph->count++] = made;
    return made;
}

static void set(struct cudnn_graph *graph, descriptor target, cudnnBackendAttributeName_t name,
                cudnnBackendAttributeType_t type, int64_t count, const void *value) {
    if (graph->has_failed)
        return;
    cudnnStatus_t status = cudnn()->cudnnBackendSetAttribute(target, name, type, count, value);
    if (status != CUDNN_STATUS_SUCCESS) {
        char what[64];
        snprintf(what, sizeof what, "attribute %d", (int)name);
        fail(graph, what, status);
    }
}

static void set_descriptor(struct cudnn_graph *graph, descriptor target, cudnnBackendAttributeName_t name,
                           descriptor value) {
    set(graph, target, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

static void finalize(struct cudnn_graph *graph, descriptor target, const char *what) {
    if (graph->has_failed)
        return;
    cudnnStatus_t status = cudnn()->cudnnBackendFinalize(target);
    if (status != CUDNN_STATUS_SUCCESS)
        fail(graph, what, status);
}

static void finalize_operation(struct cudnn_graph *graph, descriptor operation, const char *what) {
    finalize(graph, operation, what);
    if (graph->has_failed)
        return;
    CHECK(graph->operation_count < CUDNN_GRAPH_OPERATIONS);
    graph->operations[graph->operation_count++] = operation;
}

static descriptor make_tensor(struct cudnn_graph *graph, int64_t uid, cudnnDataType_t type, struct cudnn_shape shape,
                              bool is_scalar) {
    descriptor tensor = create(graph, CUDNN_BACKEND_TENSOR_DESCRIPTOR, "tensor");
    int64_t alignment = ALIGNMENT_BYTES;
    bool is_virtual = uid == 0, yes = true;
    if (is_virtual)
        uid = FIRST_VIRTUAL + graph->next_virtual++;
    set(graph, tensor, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(graph, tensor, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape.dimension);
    set(graph, tensor, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape.stride);
    set(graph, tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
    set(graph, tensor, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    if (is_virtual)
        set(graph, tensor, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &yes);
    if (is_scalar)
        set(graph, tensor, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &yes);
    finalize(graph, tensor, "tensor");
    return tensor;
}

descriptor cudnn_tensor(struct cudnn_graph *graph, int64_t uid, cudnnDataType_t type, struct cudnn_shape shape) {
    return make_tensor(graph, uid, type, shape, false);
}

descriptor cudnn_scalar(struct cudnn_graph *graph, int64_t uid) {
    struct cudnn_shape one = {{1, 1, 1, 1}, {1, 1, 1, 1}};
    return make_tensor(graph, uid, CUDNN_DATA_FLOAT, one, true);
}

void cudnn_pointwise(struct cudnn_graph *graph, const struct cudnn_pointwise *op) {
    descriptor kind = create(graph, CUDNN_BACKEND_POINTWISE_DESCRIPTOR, "pointwise");
    set(graph, kind, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &op->mode);
    set(graph, kind, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &op->compute);
    if (op->mode == CUDNN_POINTWISE_GEN_INDEX)
        set(graph, kind, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &op->axis);
    finalize(graph, kind, "pointwise");
    descriptor operation = create(graph, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR, "pointwise");
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, kind);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, op->x);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, op->y);
    if (op->b)
        set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, op->b);
    if (op->chooser)
        set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, op->chooser);
    finalize_operation(graph, operation, "pointwise operation");
}

void cudnn_matmul(struct cudnn_graph *graph, descriptor a, descriptor b, descriptor c) {
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    descriptor kind = create(graph, CUDNN_BACKEND_MATMUL_DESCRIPTOR, "matmul");
    set(graph, kind, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    finalize(graph, kind, "matmul");
    descriptor operation = create(graph, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR, "matmul");
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_MATMUL_DESC, kind);
    finalize_operation(graph, operation, "matmul operation");
}

void cudnn_reduce(struct cudnn_graph *graph, cudnnReduceTensorOp_t how, descriptor x, descriptor y) {
    cudnnDataType_t compute = CUDNN_DATA_FLOAT;
    descriptor kind = create(graph, CUDNN_BACKEND_REDUCTION_DESCRIPTOR, "reduction");
    set(graph, kind, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &compute);
    set(graph, kind, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    finalize(graph, kind, "reduction");
    descriptor operation = create(graph, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR, "reduction");
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_DESC, kind);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    finalize_operation(graph, operation, "reduction operation");
}

void cudnn_draw(struct cudnn_graph *graph, double probability, descriptor seed, descriptor offset, descriptor y) {
    cudnnRngDistribution_t distribution = CUDNN_RNG_DISTRIBUTION_BERNOULLI;
    descriptor kind = create(graph, CUDNN_BACKEND_RNG_DESCRIPTOR, "draw");
    set(graph, kind, CUDNN_ATTR_RNG_DISTRIBUTION, CUDNN_TYPE_RNG_DISTRIBUTION, 1, &distribution);
    set(graph, kind, CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, CUDNN_TYPE_DOUBLE, 1, &probability);
    finalize(graph, kind, "draw");
    descriptor operation = create(graph, CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR, "draw");
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_RNG_DESC, kind);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_RNG_SEED, seed);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, offset);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_RNG_YDESC, y);
    finalize_operation(graph, operation, "draw operation");
}

void cudnn_reshape(struct cudnn_graph *graph, descriptor x, descriptor y) {
    descriptor operation = create(graph, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR, "view");
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_descriptor(graph, operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    finalize_operation(graph, operation, "view operation");
}

// Writes the engine configurations that the heuristic offers, best first, to `found` and returns their number.
static int64_t ask_heuristic(struct cudnn_graph *graph, descriptor whole, descriptor found[MOST_ENGINES]) {
    cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    descriptor heuristic = create(graph, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, "heuristic");
    set_descriptor(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, whole);
    set(graph, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    finalize(graph, heuristic, "heuristic");
    for (int i = 0; i < MOST_ENGINES; i++)
        found[i] = create(graph, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, "engine");
    if (graph->has_failed)
        return 0;
    int64_t count = 0;
    cudnnStatus_t status = cudnn()->cudnnBackendGetAttribute(
        heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, MOST_ENGINES, &count, found);
    if (status != CUDNN_STATUS_SUCCESS || count == 0)  // a graph that nothing supports is a success with no results
        fail(graph, "no engine", status);
    return count < MOST_ENGINES ? count : MOST_ENGINES;
}

bool cudnn_graph_compile(struct cudnn_graph *graph) {
    descriptor whole = create(graph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR, "operation graph");
    set(graph, whole, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, graph->operation_count,
        graph->operations);
    // The handle's attribute is deprecated since 9.8 and required before; its number is unchanged.
    set(graph, whole, (cudnnBackendAttributeName_t)800, CUDNN_TYPE_HANDLE, 1, &graph->handle);
    finalize(graph, whole, "operation graph");
    descriptor engines[MOST_ENGINES];
    int64_t count = ask_heuristic(graph, whole, engines);
    for (int64_t i = 0; i < count; i++) {
        descriptor plan = create(graph, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, "plan");
        set_descriptor(graph, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engines[i]);
        if (graph->has_failed)
            return false;
        cudnnStatus_t status = cudnn()->cudnnBackendFinalize(plan);
        int64_t got = 0;
        if (status == CUDNN_STATUS_SUCCESS)
            status = cudnn()->cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
                                                       1, &got, &graph->workspace_bytes);
        if (status == CUDNN_STATUS_SUCCESS) {
            graph->plan = plan;
            return true;
        }
        if (i + 1 == count || status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED) {
            fail(graph, "no engine compiles", status);
            return false;
        }
    }
    return false;
}

void cudnn_bind(struct cudnn_bindings *bindings, int64_t uid, const void *pointer) {
    CHECK(bindings->count < CUDNN_GRAPH_BINDINGS);
    bindings->uids[bindings->count] = uid;
    memcpy(&bindings->pointers[bindings->count], &pointer, sizeof pointer);
    bindings->count++;
}

cudnnStatus_t cudnn_graph_run(const struct cudnn_graph *graph, const struct cudnn_bindings *bindings, void *workspace) {
    descriptor pack = NULL;
    cudnnStatus_t status = cudnn()->cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnn()->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
                                                   &workspace);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnn()->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                                                   bindings->count, bindings->pointers);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnn()->cudnnBackendSetAttribute(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64,
                                                   bindings->count, bindings->uids);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnn()->cudnnBackendFinalize(pack);
    if (status == CUDNN_STATUS_SUCCESS)
        status = cudnn()->cudnnBackendExecute(graph->handle, graph->plan, pack);
    if (pack)
        cudnn()->cudnnBackendDestroyDescriptor(pack);
    return status;
}

void cudnn_graph_free(struct cudnn_graph *graph) {
    while (graph->count > 0)
        cudnn()->cudnnBackendDestroyDescriptor(graph->all[--graph->count]);
    graph->plan = NULL;
}

// Version check and folders of cuDNN. cuDNN compiles its attention kernels on demand, with an NVRTC that it opens by
// name, so it finds one that is already loaded. NVRTC opens its builtins by name too.

// ---- NVRTC ----

// Its header may be missing where cuDNN's is installed.
struct nvrtc_symbols {
    int (*nvrtcVersion)(int *major, int *minor);
};

static int check_compiler(const void *table, char *version, size_t size) {
    const struct nvrtc_symbols *candidate = table;
    int major = 0, minor = 0;
    if (candidate->nvrtcVersion(&major, &minor) != 0)
        return error_set("does not tell its version");
    snprintf(version, size, "%d.%d", major, minor);
    return 0;
}

static const struct library compiler_row = {
    .id = LIBRARY_NVRTC,
    .name = "NVRTC",
    .user = "kernels of cuDNN",
    .variable = "BEVATRON_NVRTC_LIBRARY",
    .sonames = LIBRARY_LIST("libnvrtc.so." CUDA_MAJOR),
    .folders = LIBRARY_LIST(CUDA_FOLDERS),
    .package = "apt-get install cuda-nvrtc-" CUDA_RELEASE
               " (NVIDIA's repository), or pip install 'nvidia-cuda-nvrtc==" CUDA_MAJOR ".*'",
    .companions = "libnvrtc-builtins.so." CUDA_MAJOR ".*",
    .symbols = LIBRARY_LIST("nvrtcVersion"),
    .symbol_count = 1,
    .check = check_compiler,
};

// ---- cuDNN ----

// cuDNN 9 for CUDA 12 and for CUDA 13 are different libraries with the same name.
static int check_version(const void *table, char *version, size_t size) {
    const struct cudnn_symbols *candidate = table;
    size_t number = candidate->cudnnGetVersion();
    snprintf(version, size, "%zu.%zu.%zu", number / 10000, number / 100 % 100, number % 100);
    if (number / 10000 != CUDNN_MAJOR)
        return error_set("is cuDNN %s, but this bevatron was built for version %d", version, CUDNN_MAJOR);
    size_t cuda = candidate->cudnnGetCudartVersion ? candidate->cudnnGetCudartVersion() / 1000 : BEVATRON_CUDA_MAJOR;
    if (cuda != BEVATRON_CUDA_MAJOR)
        return error_set("is cuDNN %s for CUDA %zu, but this bevatron was built for CUDA %d", version, cuda,
                         BEVATRON_CUDA_MAJOR);
    return 0;
}

static const struct library cudnn_row = {
    .id = LIBRARY_CUDNN,
    .name = "cuDNN",
    .user = "fast attention kernels",
    .variable = "BEVATRON_CUDNN_LIBRARY",
    .sonames = LIBRARY_LIST("libcudnn.so." LIBRARY_TEXT(CUDNN_MAJOR)),
    .folders = LIBRARY_LIST(CUDA_FOLDERS),
    .rivals = LIBRARY_LIST("libcudnn.so.7", "libcudnn.so.8"),
    .rivals_are = "too old",
    .package = "apt-get install libcudnn" LIBRARY_TEXT(
        CUDNN_MAJOR) "-cuda-" CUDA_MAJOR " (NVIDIA's repository), or pip install 'nvidia-cudnn-cu" CUDA_MAJOR
                     "==" LIBRARY_TEXT(CUDNN_MAJOR) ".*'",
    LIBRARY_SYMBOLS(CUDNN_SYMBOLS),
    .check = check_version,
};

int cudnn_load(void) {
    TRY(library_load(&compiler_row));
    return library_load(&cudnn_row);
}

int cudnn_attention_libraries(const struct library **list) {
    list[0] = &cudnn_row;
    list[1] = &compiler_row;
    return 2;
}
