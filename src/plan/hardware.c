// The table of GPUs. See hardware.h; docs/internals/plan.md says where its constants come from.
#include "plan/hardware.h"
#include "base/error.h"

#include <ctype.h>
#include <string.h>

// Peaks by name, from NVIDIA's data sheets: tensor cores, without sparsity. The first row whose words are in the
// device's name counts, so longer ones come first.
static const struct {
    const char *name;
    double bf16, fp16;  // TFLOP/s; 0: not supported
} peaks[] = {
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
    for (size_t i = 0; i < sizeof peaks / sizeof peaks[0]; i++)
        if (has_words(name, peaks[i].name) && !has_words(name, "MIG"))
            return (int)i;
    return -1;
}

// Matmuls of experts: one kernel computes all experts', whose last tiles are half full on average. FLOP/s of matmuls in
// fp32, 16 and 8 bits; processors; FLOP/s of attention, forward and backward; bytes/s.
#define TILED_RATES(tile_, narrow_, f32_, f16_, f8_, processors_, forward_, backward_, bytes_)                         \
    {                                                                                                                  \
        .matmul = {f32_, f16_, f8_}, .processors = (processors_), .tile = (tile_), .half_inner = 96,                   \
        .unaligned = 0.18, .attention = {forward_, backward_}, .attention_keys = 500, .narrow = (narrow_),             \
        .bytes_per_second = (bytes_), .seconds_per_operation = 3e-6, .expert_rows = 64                                 \
    }
#define RATES(...) TILED_RATES(128, 0.6, __VA_ARGS__)
#define HOPPER_RATES(...) TILED_RATES(128, 0.75, __VA_ARGS__)
// The fastest kernels of an A100 compute tiles of 256 × 128: as large as squares of 181.
#define A100_RATES(bytes_) TILED_RATES(181, 0.6, 18e12, 252e12, 252e12, 108, 236e12, 199e12, bytes_)
// A GPU's peak in 16 bits is in the table above.
#define GPU(name_, gib_, fp8_, rates_, link_, source_)                                                                 \
    { .gpu = name_, .gib = gib_, .peak = {[1] = fp8_}, .rates = rates_, .link = link_, .source = source_ }
#define PROCESSOR(half_, rates_, link_, source_)                                                                       \
    { .gpu = "CPU", .peak = {half_}, .rates = rates_, .link = link_, .source = source_ }
#define LINK(...)                                                                                                      \
    { __VA_ARGS__ }

// The constants of the H200 were measured, and most of the B200's. Others are set to reproduce published runs
// (bench/plan_rows.py), or to about the same fraction of the peak as the H200's. Blackwell GPUs reach a smaller
// fraction in bf16: power limits them.
#define BRIDGE "Megatron-Bridge's published runs, 2025-09 to 2026-06"
// Attention of single GPUs by length: queries take as long as with 500 more keys than they see. Steps on the H200 reach
// 0.86 (forward) and 0.82 (backward) of these benchmarks, and those on GB200 and GB300 are assumed to as well.
#define CUDNN "cudnn-frontend benchmark/sdpa_benchmark_training, 2026-04"
#define PAPERS "data sheets; matmuls: the runs of Narayanan 2021 and Korthikanti 2022"
#define SIMUMAX                                                                                                        \
    "SimuMax's measurements, 2026-05 (configs/system/b200_bf16_ceperm.json); fp8: " BRIDGE "; NVFP4: estimate"
#define MEASURED "seven models on an H200, 2026-11-16 (bench/plan_rows.py)"
// Long matmuls and copies of single GPUs. Steps on the H200 reach 0.87 of its 790 TFLOP/s there; other GPUs limited by
// power are assumed to do the same, V100 and A100 to reach all of theirs. Attention has the H200's ratio to matmuls.
#define BENCHES "matmuls: zzc0721/torch-performance-test-data, 2026-01"
#define COPIES "; memory: chsasank/device-benchmarks, 2025-04"
static const struct hardware table[] = {
    GPU("V100", 0, 0, RATES(14e12, 95e12, 95e12, 80, 62e12, 50e12, 0.77e12), LINK(4e-6, 120e9, 8e6),
        BENCHES COPIES "; checked with Megatron-LM's runs of 2020; attention, links: estimates"),
    GPU("T4", 0, 0, RATES(4e12, 25e12, 25e12, 40, 22e12, 17e12, 0.24e12), LINK(15e-6, 10e9, 4e6),
        "chsasank/device-benchmarks, 2025-04: 25 TFLOP/s in long runs, 42 in short ones; attention, links: estimates"),
    GPU("A100", 40, 0, A100_RATES(1.3e12), LINK(3e-6, 230e9, 12e6), PAPERS),
    GPU("A100", 0, 0, A100_RATES(1.7e12), LINK(3e-6, 230e9, 12e6), PAPERS),
    GPU("H100", 0, 1979e12, HOPPER_RATES(52e12, 680e12, 1090e12, 132, 620e12, 485e12, 2.9e12),
        LINK(2.5e-6, 450e9, 14e6), "the H200's, with less memory bandwidth; fp8: " BRIDGE),
    GPU("H200", 0, 1979e12, HOPPER_RATES(52e12, 690e12, 1250e12, 132, 620e12, 485e12, 4.0e12),
        LINK(2.5e-6, 450e9, 14e6), MEASURED),
    GPU("B200", 0, 4500e12, RATES(70e12, 1090e12, 2600e12, 148, 1100e12, 860e12, 5.3e12), LINK(12e-6, 606e9, 30e6),
        SIMUMAX),
    GPU("B300", 0, 4500e12, RATES(70e12, 1090e12, 2990e12, 148, 1310e12, 945e12, 5.3e12), LINK(12e-6, 606e9, 30e6),
        "the B200's, whose peaks in bf16 and fp8 it has; fp8: 1.15 times as fast, as DeepSeek-V3 runs 1.11 times as "
        "fast as on B200 with the same layouts (" BRIDGE "); attention: faster by as much as GB300 is than GB200 "
        "(" CUDNN "); NVFP4: estimate"),
    GPU("GB200", 0, 5000e12, RATES(76e12, 1250e12, 2650e12, 152, 1490e12, 1160e12, 5.3e12), LINK(12e-6, 606e9, 30e6),
        "fp8, NVFP4: " BRIDGE "; attention: " CUDNN "; bf16: estimate; links: those of the B200"),
    GPU("GB300", 0, 5000e12, RATES(76e12, 1400e12, 3450e12, 152, 1775e12, 1270e12, 5.3e12), LINK(12e-6, 606e9, 30e6),
        "fp8, NVFP4: " BRIDGE "; attention: " CUDNN "; bf16: estimate; links: those of the B200"),
    GPU("A10G", 0, 0, RATES(20e12, 58e12, 58e12, 80, 52e12, 41e12, 0.47e12), LINK(15e-6, 12e9, 4e6),
        BENCHES COPIES " (A10); attention, links: estimates"),
    GPU("L4", 0, 242e12, RATES(13e12, 60e12, 120e12, 58, 53e12, 42e12, 0.235e12), LINK(15e-6, 12e9, 4e6),
        BENCHES COPIES "; fp8, attention, links: estimates"),
    GPU("L40S", 0, 733e12, RATES(41e12, 234e12, 440e12, 142, 209e12, 164e12, 0.7e12), LINK(15e-6, 24e9, 4e6),
        BENCHES "; fp8, attention, memory, links: estimates"),
};

// Rates of one vCPU of EC2, half a core with AVX-512; c7i has AMX, which multiplies in bf16.
static const struct {
    const char *family;  // of machines; "" for all others
    struct hardware one;
} processor_table[] = {
    {"c7i.",
     PROCESSOR(1.3e12, RATES(58e9, 270e9, 270e9, 1, 23e9, 23e9, 3e9), LINK(5e-6, 3e9, 1e6),
               "GPT-2 124M on 16 processors of a Xeon with AMX, 4 × 256 tokens: 1.036 s in fp32, 0.326 s in bf16, "
               "2026-11-16; links: estimates")},
    {"", PROCESSOR(90e9, RATES(45e9, 22e9, 22e9, 1, 18e9, 18e9, 2.5e9), LINK(5e-6, 3e9, 1e6),
                   "bench matmul and bench step on Intel Ice Lake; links: estimates")},
};

static struct hardware processors_of(const struct machine *machine) {
    int kind = 0, count = machine->cpus;
    while (strncmp(machine->name, processor_table[kind].family, strlen(processor_table[kind].family)) != 0)
        kind++;
    struct hardware all = processor_table[kind].one;
    struct device_rates *rates = &all.rates;
    all.peak[0] *= count;
    for (int i = 0; i < 3; i++)
        rates->matmul[i] *= count;
    rates->attention[0] *= count;
    rates->attention[1] *= count;
    rates->bytes_per_second *= count;
    rates->narrow = 1;
    rates->attention_keys = 0;
    rates->unaligned = 0;
    rates->tile = 16;
    rates->expert_rows = 8;
    return all;
}

// Each kind of network has its latency, and a fraction of bits that carry messages; the rest are headers and gaps.
static struct comm_path network_of(const struct machine *machine) {
    static const struct {
        double seconds, payload, half_bytes;
    } kinds[] = {[NETWORK_ETHERNET] = {40e-6, 0.8, 32e6},
                 [NETWORK_EFA] = {18e-6, 0.88, 32e6},
                 [NETWORK_INFINIBAND] = {6e-6, 0.9, 16e6}};
    double bytes = (double)machine->network_gbit * 1e9 / 8 * kinds[machine->network].payload / hardware_ranks(machine);
    return (struct comm_path){kinds[machine->network].seconds, bytes, kinds[machine->network].half_bytes};
}

// All-to-all between machines. ConnectX cards of 800 Gbit/s send at 44 GB/s and get 40 (DeepEP issue 590, B300, 2026),
// though rings reach 95 (NCCL issue 2035). Over EFA, alltoall_perf reaches the network's speed
// (awslabs/awsome-distributed-ai, ep-backend-comparison), but steps of Megatron half of it: fitted to eight rows of the
// same source with NCCL's all-to-all (docs/internals/plan.md).
static double exchange_of(const struct machine *machine, double network) {
    if (machine->gpu && machine->network == NETWORK_INFINIBAND)
        return 45e9;
    return machine->gpu && machine->network == NETWORK_EFA ? network / 2 : 0;
}

// Speed of long copies between GPUs and the host, each way: estimated from the generation of PCI Express, or of NVLink
// if that joins them. A CPU has none.
static double bus_of(const char *gpu) {
    static const struct {
        const char *begins;
        double bytes;
    } kinds[] = {{"GB", 200e9}, {"B", 50e9}, {"H", 50e9}, {"V", 12e9}, {"T", 12e9}, {"", 24e9}};
    int i = 0;
    while (strncmp(gpu, kinds[i].begins, strlen(kinds[i].begins)) != 0)
        i++;
    return kinds[i].bytes;
}

// Peaks in NVFP4 are from data sheets. Matmuls are assumed to reach the same fraction of them on all GPUs, chosen so
// that the mean error of Megatron-Bridge's 14 rows of Llama 3 on GB200 and GB300 is 0 (bench/plan_rows.py).
static void set_fp4(struct hardware *hardware) {
    static const struct {
        const char *gpu;
        double peak;
    } kinds[] = {{"B200", 9e15}, {"B300", 13.5e15}, {"GB200", 10e15}, {"GB300", 15e15}};
    const double reached = 0.395;
    for (size_t i = 0; hardware->gpu && i < sizeof kinds / sizeof kinds[0]; i++)
        if (strcmp(hardware->gpu, kinds[i].gpu) == 0) {
            hardware->peak[2] = kinds[i].peak;
            hardware->rates.matmul[3] = reached * kinds[i].peak;
        }
}

int hardware_of(struct hardware *hardware, const struct machine *machine) {
    bool is_known = !machine->gpu;
    if (is_known)
        *hardware = processors_of(machine);
    for (size_t i = 0; !is_known && i < sizeof table / sizeof table[0]; i++) {
        is_known = strcmp(table[i].gpu, machine->gpu) == 0 && (table[i].gib == 0 || table[i].gib == machine->gpu_gib);
        if (is_known) {
            *hardware = table[i];
            hardware->peak[0] = 1e12 * peak_find(table[i].gpu, DTYPE_F16);
        }
    }
    set_fp4(hardware);
    hardware->network = network_of(machine);
    hardware->exchange = exchange_of(machine, hardware->network.bytes_per_second);
    if (!is_known)
        return error_set_code(EXIT_CODE_USAGE, "the speed of %s GPUs is not known; describe them in a --hardware file",
                              machine->gpu);
    hardware->rates.bus_bytes_per_second = machine->gpu ? bus_of(machine->gpu) : 0;
    return 0;
}

int hardware_ranks(const struct machine *machine) {
    return machine->gpus > 0 ? machine->gpus : 1;
}

// Ranks joined by the fast link. Ranks that need several such domains are spread evenly, as rack-aware schedulers do:
// 256 ranks in domains of 72 are 4 × 64.
static int joined_ranks(const struct machine *machine, int ranks) {
    if (ranks <= machine->joined || machine->joined == hardware_ranks(machine))
        return machine->joined;
    int domains = (ranks + machine->joined - 1) / machine->joined, each = ranks / domains;
    return ranks % domains == 0 && each % hardware_ranks(machine) == 0 ? each : machine->joined;
}

struct comm_fabric hardware_fabric(const struct hardware *hardware, const struct machine *machine, int ranks) {
    return (struct comm_fabric){.node = joined_ranks(machine, ranks),
                                .inside = hardware->link,
                                .across = hardware->network,
                                .exchange = hardware->exchange};
}

double peak_find(const char *name, enum dtype dtype) {
    int row = find_row(name);
    if (row < 0)
        return 0;
    return dtype == DTYPE_BF16 ? peaks[row].bf16 : dtype == DTYPE_F16 ? peaks[row].fp16 : 0;
}

const char *peak_name(const char *name) {
    int row = find_row(name);
    return row < 0 ? NULL : peaks[row].name;
}

double peak_teraflops(const struct device *device, enum dtype dtype) {
    char name[128];
    if (device->ops->is_host_memory)
        return 0;
    device_describe(device, name, sizeof name);
    return peak_find(name, dtype);
}
