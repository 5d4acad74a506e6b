// Peaks by name, from NVIDIA's data sheets: tensor cores, without sparsity. See peak.h.
#include "train/peak.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

// The first row whose words are in the device's name counts, so longer ones come first.
static const struct {
    const char *name;
    double bf16, fp16;  // TFLOP/s; 0: not supported
} rows[] = {
    {"GB300", 2500, 2500},   {"GB200", 2500, 2500},  {"B300", 2250, 2250},    {"B200", 2250, 2250},
    {"B100", 1750, 1750},    {"GH200", 989, 989},    {"H200 NVL", 835, 835},  {"H200", 989, 989},
    {"H20", 148, 148},       {"H100 NVL", 835, 835}, {"H100 PCIe", 756, 756}, {"H100", 989, 989},
    {"H800 PCIe", 756, 756}, {"H800", 989, 989},     {"A100", 312, 312},      {"A800", 312, 312},
    {"A30", 165, 165},       {"A10G", 70, 70},       {"A10", 125, 125},       {"L40S", 362, 362},
    {"L40", 181, 181},       {"L4", 121, 121},       {"V100S", 0, 130},       {"V100-PCIE", 0, 112},
    {"V100", 0, 125},        {"T4", 0, 65},
};

// Not a part of a longer name: a T400 is not a T4, an RTX A1000 not an A100.
static bool has_words(const char *name, const char *words) {
    size_t length = strlen(words);
    for (const char *at = strstr(name, words); at; at = strstr(at + 1, words))
        if ((at == name || !isalnum((unsigned char)at[-1])) && !isalnum((unsigned char)at[length]))
            return true;
    return false;
}

// -1 if there is none. A slice of a GPU has a part of its peak.
static int find_row(const char *name) {
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (has_words(name, rows[i].name) && !has_words(name, "MIG"))
            return (int)i;
    return -1;
}

double peak_find(const char *name, enum dtype dtype) {
    int row = find_row(name);
    if (row < 0)
        return 0;
    return dtype == DTYPE_BF16 ? rows[row].bf16 : dtype == DTYPE_F16 ? rows[row].fp16 : 0;
}

const char *peak_name(const char *name) {
    int row = find_row(name);
    return row < 0 ? NULL : rows[row].name;
}

double peak_teraflops(const struct device *device, enum dtype dtype) {
    char name[128];
    if (device->ops->is_host_memory)
        return 0;
    device_describe(device, name, sizeof name);
    return peak_find(name, dtype);
}
