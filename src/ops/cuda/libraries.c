// Version check and folders of cuBLASLt, and the list of the libraries that the module loads. See libraries.h.
#include "ops/cuda/libraries.h"
#include "base/error.h"
#include "ops/cuda/attention_cudnn.h"

#include <stdio.h>

static const char *const blas_symbols[] = {CUBLASLT_SYMBOLS(LIBRARY_NAME)};
enum { BLAS_SYMBOL_COUNT = sizeof blas_symbols / sizeof blas_symbols[0] };
_Static_assert(sizeof(struct cublaslt_symbols) == BLAS_SYMBOL_COUNT * sizeof(void *), "a field per symbol");

static int check_blas(const void *table, char *version, size_t size) {
    const struct cublaslt_symbols *candidate = table;
    size_t number = candidate->cublasLtGetVersion();
    snprintf(version, size, "%zu.%zu.%zu", number / 10000, number / 100 % 100, number % 100);
    if (number / 10000 != CUBLAS_VER_MAJOR)
        return error_set("is cuBLASLt %s, but this bevatron was built for version %d", version, CUBLAS_VER_MAJOR);
    return 0;
}

const struct library *cublaslt_library(void) {
    static const char *const sonames[] = {"libcublasLt.so." LIBRARY_TEXT(CUBLAS_VER_MAJOR), NULL};
    static const char *const folders[] = {CUDA_FOLDERS, NULL};
    static const char *const rivals[] = {"libcublasLt.so.11", "libcublasLt.so.12", "libcublasLt.so.13",
                                         "libcublasLt.so.14", NULL};
    static const struct library library = {
        .id = LIBRARY_CUBLASLT,
        .name = "cuBLASLt",
        .user = "GPUs",
        .variable = "BEVATRON_CUBLASLT_LIBRARY",
        .sonames = sonames,
        .folders = folders,
        .rivals = rivals,
        .rivals_are = "of another CUDA version",
        .package = "apt-get install libcublas-" CUDA_RELEASE
                   " (NVIDIA's repository), or pip install 'nvidia-cublas==" LIBRARY_TEXT(CUBLAS_VER_MAJOR) ".*'",
        .instead = "use --device cpu",
        .symbols = blas_symbols,
        .symbol_count = BLAS_SYMBOL_COUNT,
        .check = check_blas,
    };
    return &library;
}

int cuda_libraries(const struct library **list) {
    list[0] = cublaslt_library();
    return 1 + cudnn_attention_libraries(list + 1);
}
