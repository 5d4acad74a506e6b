// What a GPU has used up since its driver started, by the driver's own counter. The library that tells (NVML) comes
// with the driver and not with the toolkit, so it is looked for when the program runs; without it, or on a GPU without
// such a counter, there is no figure. The counter moves every tenth of a second or so: measure over some seconds.
#ifndef BENCH_ENERGY_H
#define BENCH_ENERGY_H

#include "base/error.h"
#include <dlfcn.h>
#include <string.h>

struct energy {
    void *library, *gpu;
    int (*read)(void *gpu, unsigned long long *millijoules);
};

// A function of the library. C has no cast from a pointer to data, which is what dlsym gives; in POSIX both have one
// size.
static inline int energy_function(const struct energy *energy, const char *name, void *function) {
    void *address = dlsym(energy->library, name);
    if (!address)
        return error_set("libnvidia-ml.so.1 has no %s; a newer NVIDIA driver has it", name);
    memcpy(function, &address, sizeof address);
    return 0;
}

// Of the first GPU of this machine. The library stays open until the program ends.
static inline int energy_open(struct energy *energy) {
    int (*init)(void), (*find)(unsigned index, void **gpu);
    unsigned long long millijoules;
    energy->library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (!energy->library)
        return error_set("cannot measure energy: %s; it comes with the NVIDIA driver", dlerror());
    TRY(energy_function(energy, "nvmlInit_v2", &init));
    TRY(energy_function(energy, "nvmlDeviceGetHandleByIndex_v2", &find));
    TRY(energy_function(energy, "nvmlDeviceGetTotalEnergyConsumption", &energy->read));
    int code = init();
    if (code == 0)
        code = find(0, &energy->gpu);
    if (code == 0)
        code = energy->read(energy->gpu, &millijoules);
    return code == 0
               ? 0
               : error_set("cannot measure energy: the GPU's driver says %d, as for a GPU that has no counter", code);
}

// Joules; only differences mean something.
static inline double energy_joules(const struct energy *energy) {
    unsigned long long millijoules = 0;
    (void)energy->read(energy->gpu, &millijoules);
    return (double)millijoules * 1e-3;
}

#endif
