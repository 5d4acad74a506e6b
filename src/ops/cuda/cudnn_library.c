// Version check and folders of cuDNN. cuDNN compiles its attention kernels on demand, with an NVRTC that it opens by
// name, so it finds one that is already loaded. NVRTC opens its builtins by name too.
#include "ops/cuda/cudnn_library.h"
#include "base/error.h"
#include "ops/cuda/attention_cudnn.h"
#include "ops/cuda/places.h"

#include <stdio.h>

static const char *const folders[] = {CUDA_FOLDERS, NULL};

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

static const struct library *compiler_library(void) {
    static const char *const symbols[] = {"nvrtcVersion"};
    static const char *const sonames[] = {"libnvrtc.so." CUDA_MAJOR, NULL};
    static const struct library library = {
        .id = LIBRARY_NVRTC,
        .name = "NVRTC",
        .user = "kernels of cuDNN",
        .variable = "BEVATRON_NVRTC_LIBRARY",
        .sonames = sonames,
        .folders = folders,
        .package = "apt-get install cuda-nvrtc-" CUDA_RELEASE
                   " (NVIDIA's repository), or pip install 'nvidia-cuda-nvrtc==" CUDA_MAJOR ".*'",
        .companions = "libnvrtc-builtins.so." CUDA_MAJOR ".*",
        .symbols = symbols,
        .symbol_count = 1,
        .check = check_compiler,
    };
    return &library;
}

// ---- cuDNN ----

static const char *const symbols[] = {CUDNN_SYMBOLS(LIBRARY_NAME)};
enum { SYMBOL_COUNT = sizeof symbols / sizeof symbols[0] };
_Static_assert(sizeof(struct cudnn_symbols) == SYMBOL_COUNT * sizeof(void *), "a field per symbol");

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

static const struct library *cudnn_library(void) {
    static const char *const sonames[] = {"libcudnn.so." LIBRARY_TEXT(CUDNN_MAJOR), NULL};
    static const char *const rivals[] = {"libcudnn.so.7", "libcudnn.so.8", NULL};
    static const struct library library = {
        .id = LIBRARY_CUDNN,
        .name = "cuDNN",
        .user = "fast attention kernels",
        .variable = "BEVATRON_CUDNN_LIBRARY",
        .sonames = sonames,
        .folders = folders,
        .rivals = rivals,
        .rivals_are = "too old",
        .package = "apt-get install libcudnn" LIBRARY_TEXT(
            CUDNN_MAJOR) "-cuda-" CUDA_MAJOR " (NVIDIA's repository), or pip install 'nvidia-cudnn-cu" CUDA_MAJOR
                         "==" LIBRARY_TEXT(CUDNN_MAJOR) ".*'",
        .symbols = symbols,
        .symbol_count = SYMBOL_COUNT,
        .check = check_version,
    };
    return &library;
}

int cudnn_load(void) {
    TRY(library_load(compiler_library()));
    return library_load(cudnn_library());
}

int cudnn_attention_libraries(const struct library **list) {
    list[0] = cudnn_library();
    list[1] = compiler_library();
    return 2;
}
