// Version check and folders of cuBLASLt, and the list of the libraries that the module loads. See libraries.h.
#include "ops/cuda/libraries.h"
#include "base/error.h"
#include "ops/cuda/attention_cudnn.h"

#include <stdio.h>

static int check_blas(const void *table, char *version, size_t size) {
    const struct cublaslt_symbols *candidate = table;
    size_t number = candidate->cublasLtGetVersion();
    snprintf(version, size, "%zu.%zu.%zu", number / 10000, number / 100 % 100, number % 100);
    if (number / 10000 != CUBLAS_VER_MAJOR)
        return error_set("is cuBLASLt %s, but this bevatron was built for version %d", version, CUBLAS_VER_MAJOR);
    return 0;
}

static const struct library cublaslt_row = {
    .id = LIBRARY_CUBLASLT,
    .name = "cuBLASLt",
    .user = "GPUs",
    .variable = "BEVATRON_CUBLASLT_LIBRARY",
    .sonames = LIBRARY_LIST("libcublasLt.so." LIBRARY_TEXT(CUBLAS_VER_MAJOR)),
    .folders = LIBRARY_LIST(CUDA_FOLDERS),
    .rivals = LIBRARY_LIST("libcublasLt.so.11", "libcublasLt.so.12", "libcublasLt.so.13", "libcublasLt.so.14"),
    .rivals_are = "of another CUDA version",
    .package = "apt-get install libcublas-" CUDA_RELEASE
               " (NVIDIA's repository), or pip install 'nvidia-cublas==" LIBRARY_TEXT(CUBLAS_VER_MAJOR) ".*'",
    .instead = "use --device cpu",
    LIBRARY_SYMBOLS(CUBLASLT_SYMBOLS),
    .check = check_blas,
};

const struct library *cublaslt_library(void) {
    return &cublaslt_row;
}

int cuda_libraries(const struct library **list) {
    list[0] = cublaslt_library();
    return 1 + cudnn_attention_libraries(list + 1);
}
