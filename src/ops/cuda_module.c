// Loads the module for GPUs, see cuda_module.h.
#include "ops/cuda_module.h"
#include "base/error.h"

#include <stdio.h>
#include <string.h>

// ---- The driver ----

// Declared as in NVIDIA's header, which need not be installed.
struct driver_symbols {
    int (*cuDriverGetVersion)(int *version);
    int (*cuInit)(unsigned flags);
    int (*cuDeviceGetCount)(int *count);
};

static int check_driver(const void *table, char *version, size_t size) {
    const struct driver_symbols *candidate = table;
    int number = 0;
    if (candidate->cuDriverGetVersion(&number) != 0)
        return error_set("does not report a version; it is probably the stub for linking in the CUDA toolkit");
    snprintf(version, size, "%d.%d", number / 1000, number % 1000 / 10);
    return 0;
}

static const struct library driver_row = {
    .id = LIBRARY_DRIVER,
    .name = "libcuda",
    .user = "GPUs",
    .variable = "BEVATRON_DRIVER_LIBRARY",
    .sonames = LIBRARY_LIST("libcuda.so.1"),
    .folders = LIBRARY_LIST("/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"),
    .package = "install the NVIDIA driver on the host (nvidia-smi shows it), and give containers --gpus all",
    .instead = "use --device cpu",
    .symbols = LIBRARY_LIST("cuDriverGetVersion", "cuInit", "cuDeviceGetCount"),
    .symbol_count = 3,
    .check = check_driver,
};

const struct library *cuda_driver_library(void) {
    return &driver_row;
}

// ---- The module ----

struct module_symbols {
    LIBRARY_FIELD(bevatron_cuda_module)
};

static int check_module(const void *table, char *version, size_t size) {
    const struct module_symbols *candidate = table;
    const struct cuda_module *module = candidate->bevatron_cuda_module();
    if (strcmp(module->version, BEVATRON_VERSION) != 0)
        return error_set("belongs to bevatron %s, but this is bevatron %s", module->version, BEVATRON_VERSION);
    if (strcmp(module->headers, cuda_module_headers) != 0)
        return error_set("was built with other headers (%s) than this bevatron (%s)", module->headers,
                         cuda_module_headers);
    snprintf(version, size, "%s, CUDA %s, %s", module->version, module->toolkit, module->architectures);
    return 0;
}

static const struct library module_row = {
    .id = LIBRARY_CUDA_MODULE,
    .name = "bevatron_cuda",
    .user = "GPUs",
    .variable = "BEVATRON_CUDA_LIBRARY",
    .sonames = LIBRARY_LIST("bevatron_cuda.so"),
    .folders = LIBRARY_LIST("$ORIGIN", "$ORIGIN/../lib/bevatron",
                            // pip's folder; with --target, beside bin.
                            "$ORIGIN/../lib/python3*/*-packages/bevatron_cuda", "$ORIGIN/../bevatron_cuda"),
    .is_own = true,
    .package = "install the package bevatron-cuda, or pip install \"bevatron[cuda]\", or run `make cuda` in the "
               "source tree",
    .instead = "use --device cpu",
    .symbols = LIBRARY_LIST("bevatron_cuda_module"),
    .symbol_count = 1,
    .check = check_module,
};

const struct library *cuda_module_library(void) {
    return &module_row;
}

static const struct cuda_module *loaded(void) {
    const struct module_symbols *symbols = library_symbols(LIBRARY_CUDA_MODULE);
    return symbols ? symbols->bevatron_cuda_module() : NULL;
}

const struct cuda_module *cuda_module(void) {
    if (library_load(cuda_module_library()) < 0)
        error_clear();
    return loaded();
}

int cuda_open(struct device **device, const struct device_options *options) {
    *device = NULL;
    TRY(library_load(cuda_module_library()));
    return loaded()->open(device, options);
}

// Without a driver there is no GPU, and no need for the module.
int cuda_count(void) {
    if (library_load(cuda_driver_library()) < 0) {
        error_clear();
        return 0;
    }
    const struct cuda_module *module = cuda_module();
    return module ? module->count() : 0;
}

bool cuda_module_is_missed(struct buffer *out) {
    const struct driver_symbols *driver = library_symbols(LIBRARY_DRIVER);
    int count = 0;
    if (loaded() || !driver || driver->cuInit(0) != 0 || driver->cuDeviceGetCount(&count) != 0 || count == 0)
        return false;
    buffer_printf(out, "this machine has %d GPU%s, but their module cannot be used: ", count, count == 1 ? "" : "s");
    library_describe(cuda_module_library(), out);
    return true;
}

int device_libraries(const struct library **list) {
    const struct cuda_module *module = cuda_module();
    list[0] = cuda_module_library();
    list[1] = cuda_driver_library();
    return 2 + (module ? module->libraries(list + 2) : 0);
}
