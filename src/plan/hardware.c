// The table of GPUs. See hardware.h; docs/plan.md says where the constants come from.
#include "plan/hardware.h"
#include "base/error.h"

#include <string.h>

// Those of the H200 are calibrated by seven models (bench/plan_rows.py). The others are estimates: about the H200's
// part of each vendor's peaks.
#define RATES(f32_, f16_, f8_, processors_, forward_, backward_, bytes_)                                               \
    {                                                                                                                  \
        .matmul = {f32_, f16_, f8_}, .processors = (processors_), .tile = 128, .half_inner = 96,                       \
        .attention = {forward_, backward_}, .narrow = 0.6, .bytes_per_second = (bytes_), .seconds_per_operation = 3e-6 \
    }

static const struct hardware table[] = {
    {"V100", {125e12, 0}, RATES(14e12, 92e12, 92e12, 80, 50e12, 40e12, 0.78e12), {4e-6, 120e9, 8e6}},
    {"A100", {312e12, 0}, RATES(18e12, 265e12, 265e12, 108, 190e12, 160e12, 1.7e12), {3e-6, 230e9, 12e6}},
    {"H100", {989e12, 1979e12}, RATES(52e12, 680e12, 1230e12, 132, 500e12, 390e12, 2.9e12), {2.5e-6, 450e9, 14e6}},
    {"H200", {989e12, 1979e12}, RATES(52e12, 690e12, 1250e12, 132, 500e12, 390e12, 4.0e12), {2.5e-6, 450e9, 14e6}},
    {"B200", {2250e12, 4500e12}, RATES(70e12, 1550e12, 2800e12, 148, 1100e12, 860e12, 6.9e12), {2.5e-6, 800e9, 20e6}},
    {"B300", {2250e12, 4500e12}, RATES(70e12, 1550e12, 2800e12, 148, 1100e12, 860e12, 6.9e12), {2.5e-6, 800e9, 20e6}},
    {"GB200", {2450e12, 4900e12}, RATES(76e12, 1690e12, 3050e12, 148, 1200e12, 940e12, 6.9e12), {2.5e-6, 800e9, 20e6}},
    {"A10G", {70e12, 0}, RATES(15e12, 55e12, 55e12, 80, 40e12, 32e12, 0.5e12), {15e-6, 12e9, 4e6}},
    {"L4", {121e12, 242e12}, RATES(15e12, 60e12, 120e12, 58, 45e12, 36e12, 0.26e12), {15e-6, 12e9, 4e6}},
    {"L40S", {362e12, 733e12}, RATES(45e12, 180e12, 350e12, 142, 130e12, 100e12, 0.74e12), {15e-6, 24e9, 4e6}},
};

const struct hardware *hardware_find(const char *gpu) {
    for (size_t i = 0; gpu && i < sizeof table / sizeof table[0]; i++)
        if (strcmp(table[i].gpu, gpu) == 0)
            return &table[i];
    error_set_code(EXIT_CODE_USAGE,
                   "the speed of %s is not known; name a machine with GPUs, e.g. --machine "
                   "p5.48xlarge",
                   gpu ? gpu : "a machine without GPUs");
    return NULL;
}

struct comm_fabric hardware_fabric(const struct hardware *hardware, const struct machine *machine) {
    // Of the network's bits, this part are of the message; the rest are headers and gaps.
    const double payload = 0.88;
    double bytes = (double)machine->network_gbit * 1e9 / 8 * payload / machine->gpus;
    return (struct comm_fabric){.node = machine->gpus,
                                .inside = hardware->link,
                                .across = {.seconds = 18e-6, .bytes_per_second = bytes, .half_bytes = 32e6}};
}
