// Hardware files by the flag engine, so that errors name the line and the key. See hardware.h.
#include "plan/hardware.h"
#include "base/error.h"
#include "base/memory.h"
#include "config/flag_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FLAG_STRUCT struct hardware_file

#define MOST 1e9
#define RATE(flag, member, ...) REAL(flag, hardware.member, NULL, 1e-6, MOST, __VA_ARGS__)
#define MAYBE(flag, member, ...) REAL(flag, hardware.member, NULL, 0, MOST, __VA_ARGS__)

static const struct flag rows[] = {
    GROUP("The machine"),
    TEXT("--name", name, NULL, "TEXT", "what to call the machine"),
    TEXT("--gpu", gpu, NULL, "TEXT", "name of its GPUs; empty for none"),
    INT("--gpus", gpus, NULL, 0, 1024, "GPUs of a machine"),
    INT("--gpu-gib", gpu_gib, NULL, 0, 65536, "GiB of memory of a GPU"),
    INT("--joined-gpus", joined, NULL, 1, 65536, "GPUs that the link joins, those of other machines included"),
    INT("--capability", capability, NULL, 0, 1000, "compute capability × 10"),
    INT("--cpus", cpus, NULL, 1, 65536, "processors"),
    INT("--memory-gib", memory_gib, NULL, 1, 1048576, "GiB of memory of the machine"),
    CHOICE("--network", network, NULL, ONE_OF("ethernet", "efa", "infiniband"), "network between machines"),
    INT("--network-gbit", network_gbit, NULL, 1, 1048576, "Gbit/s of the machine to others"),
    REAL("--price", machine.dollars, NULL, 0, MOST, "dollars an hour"),
    TEXT("--source", source, NULL, "TEXT", "where the numbers come from"),
    GROUP("Speed of a GPU, or of the whole machine without GPUs"),
    RATE("--peak-tflops", peak[0], "peak TFLOP/s in 16 bits without sparsity, for MFU"),
    MAYBE("--peak-tflops-fp8", peak[1], "peak TFLOP/s in fp8; 0 if the GPU has none"),
    MAYBE("--peak-tflops-fp4", peak[2], "peak TFLOP/s in NVFP4; 0 if the GPU has none"),
    RATE("--matmul-tflops-fp32", rates.matmul[0], "TFLOP/s that long matmuls reach in fp32"),
    RATE("--matmul-tflops", rates.matmul[1], "the same in 16 bits"),
    RATE("--matmul-tflops-fp8", rates.matmul[2], "the same in 8 bits"),
    MAYBE("--matmul-tflops-fp4", rates.matmul[3], "the same in NVFP4"),
    RATE("--processors", rates.processors, "tiles of results that are computed at the same time"),
    RATE("--tile", rates.tile, "rows and columns of a tile"),
    MAYBE("--half-inner", rates.half_inner, "length of the sum at which a matmul reaches half of its rate"),
    MAYBE(
        "--unaligned-rows", rates.unaligned,
        "part of the rate in 16 and 8 bits that matmuls reach whose rows are not multiples of 16 bytes; 0: all of it"),
    RATE("--attention-forward-tflops", rates.attention[0], "TFLOP/s of attention over long sequences, heads of 128"),
    RATE("--attention-backward-tflops", rates.attention[1], "the same in the backward pass"),
    MAYBE("--attention-keys", rates.attention_keys,
          "keys that take as long as a query's start and end, besides those that it sees"),
    RATE("--narrow-heads", rates.narrow, "part of them that heads of 64 or less reach"),
    MAYBE("--outside-window", rates.outside_window,
          "part of the scores outside of windows that backward passes compute all the same; 1 for cuDNN's fp8"),
    RATE("--memory-gigabytes", rates.bytes_per_second, "GB/s of operations that only move data"),
    MAYBE("--bus-gigabytes", rates.bus_bytes_per_second,
          "GB/s each way between a GPU and host memory, for --optimizer-cpu-offload; 0: not slower than memory"),
    MAYBE("--operation-us", rates.seconds_per_operation, "shortest operation, in microseconds"),
    MAYBE("--launch-us", rates.launch_seconds,
          "added to every operation; 0 with CUDA graphs, 30 for the PyTorch of 2021"),
    MAYBE("--move-us", rates.moving_seconds,
          "added to operations that only move data: 30 for PyTorch without CUDA graphs (SimuMax, B200, 2026)"),
    MAYBE("--host-us", rates.host_seconds,
          "host time of an operation, in microseconds: shorter ones wait for their launch; 0: none does"),
    MAYBE("--expert-rows", rates.expert_rows, "rows of an expert at which matmuls of experts reach half of their rate"),
    MAYBE("--expert-inner", rates.expert_inner, "the same of gradients of experts' weights"),
    MAYBE("--expert-us", rates.expert_seconds,
          "shortest matmul of an expert, in microseconds; 0 if one kernel computes those of all"),
    MAYBE("--permute", rates.permute, "part of --memory-gigabytes at which rows go to experts and back; 0: all of it"),
    MAYBE("--expert-bias-bytes", rates.expert_bias_bytes,
          "bytes that separate kernels for biases of experts move for each result, in both passes; 0: none"),
    MAYBE("--expert-limit-bytes", rates.expert_limit_bytes,
          "the same of kernels that limit what activations of experts read"),
    MAYBE("--loss-bytes", rates.loss_bytes, "the same of kernels of the loss, for each logit"),
    MAYBE("--rope-bytes", rates.rope_bytes, "the same of kernels that rotate queries and keys, for each element"),
    MAYBE("--gradient-bytes", rates.gradient_bytes,
          "the same of kernels that zero, scale or check all gradients of a rank once a step, for each gradient"),
    MAYBE("--expert-quantize-bytes", rates.expert_quantize_bytes,
          "experts in fp8: bytes that separate kernels move for each element that their matmuls read; 0: in 16 bits"),
    GROUP("Links"),
    MAYBE("--link-us", link.seconds, "latency between joined GPUs for each step of an algorithm, in microseconds"),
    RATE("--link-gigabytes", link.bytes_per_second, "GB/s each way that a GPU reaches in long messages"),
    MAYBE("--link-half-megabytes", link.half_bytes, "message length that reaches half of that"),
    MAYBE("--network-us", network.seconds, "the same three between machines; GB/s are the part of one GPU"),
    RATE("--network-gigabytes", network.bytes_per_second, "GB/s"),
    MAYBE("--network-half-megabytes", network.half_bytes, "message length"),
    MAYBE("--exchange-gigabytes", exchange, "GB/s of a GPU's all-to-all between machines; 0: --network-gigabytes"),
};
enum { ROWS = sizeof rows / sizeof rows[0] };

static const struct flag_table tables[] = {{FLAG_TABLE(rows)}};
static const struct flag_command command = {.name = "plan --hardware", .tables = tables, .table_count = 1};
static const char *const networks[] = {
    [NETWORK_ETHERNET] = "ethernet", [NETWORK_EFA] = "efa", [NETWORK_INFINIBAND] = "infiniband"};

// The unit of a row's number in seconds, bytes or FLOP/s.
static double unit_of(const char *name) {
    if (strstr(name, "tflops"))
        return 1e12;
    if (strstr(name, "gigabytes"))
        return 1e9;
    if (strstr(name, "megabytes"))
        return 1e6;
    return strstr(name, "-us") ? 1e-6 : 1;
}

static double *number_of(const struct flag *row, struct hardware_file *file) {
    return row->type == FLAG_DOUBLE ? (double *)((char *)file + row->offset) : NULL;
}

// Converts the file's numbers to the program's units.
static void take_units(struct hardware_file *file) {
    for (int i = 0; i < ROWS; i++)
        if (number_of(&rows[i], file))
            *number_of(&rows[i], file) *= unit_of(rows[i].name);
}

// Converts the program's numbers to the file's units. Nine digits, so that writing and reading is lossless.
static void give_units(struct hardware_file *file) {
    for (int i = 0; i < ROWS; i++) {
        double *number = number_of(&rows[i], file);
        char text[40];
        if (!number)
            continue;
        snprintf(text, sizeof text, "%.9g", *number / unit_of(rows[i].name));
        *number = strtod(text, NULL);
    }
}

static int network_named(const char *name) {
    for (int i = 0; i < (int)(sizeof networks / sizeof networks[0]); i++)
        if (strcmp(networks[i], name) == 0)
            return i;
    return NETWORK_ETHERNET;
}

static void take_machine(struct hardware_file *file) {
    double dollars = file->machine.dollars;
    file->machine = (struct machine){.name = file->name,
                                     .gpu = file->gpus > 0 ? file->gpu : NULL,
                                     .capability = (int)file->capability,
                                     .gpus = (int)file->gpus,
                                     .gpu_gib = (int)file->gpu_gib,
                                     .cpus = (int)file->cpus,
                                     .memory_gib = (int)file->memory_gib,
                                     .network_gbit = (int)file->network_gbit,
                                     .joined = (int)file->joined,
                                     .network = (enum machine_network)network_named(file->network),
                                     .dollars = dollars};
    file->hardware.gpu = file->gpus > 0 ? file->gpu : "CPU";
    file->hardware.source = file->source;
}

int hardware_file_open(struct hardware_file *file, const struct machine *machine) {
    *file = (struct hardware_file){0};
    struct hardware hardware = {0};
    TRY(hardware_of(&hardware, machine));
    flags_set_defaults(&command, file);
    file->machine = *machine;
    file->hardware = hardware;
    file->name = memory_string(machine->name);
    file->gpu = memory_string(machine->gpu ? machine->gpu : "");
    file->network = memory_string(networks[machine->network]);
    file->source = memory_string(hardware.source);
    file->gpus = machine->gpus;
    file->gpu_gib = machine->gpu_gib;
    file->joined = machine->joined;
    file->cpus = machine->cpus;
    file->memory_gib = machine->memory_gib;
    file->network_gbit = machine->network_gbit;
    file->capability = machine->capability;
    take_machine(file);
    return 0;
}

int hardware_file_read(struct hardware_file *file, const char *name, const char *text, size_t length) {
    int64_t gbit = file->network_gbit, gpus = file->gpus;
    double old = file->hardware.network.bytes_per_second;
    give_units(file);
    double given = file->hardware.network.bytes_per_second;
    int status = flags_read_text(&command, file, name, text, length);
    bool is_same = file->hardware.network.bytes_per_second == given;
    take_units(file);
    if (status < 0)
        return -1;
    if (file->gpus > 0 && file->gpu_gib < 2)
        return error_set_code(EXIT_CODE_USAGE, "%s: gpus need at least 2 GiB of memory each; give gpu-gib", name);
    take_machine(file);
    // Another network, without its speed for each GPU.
    if (is_same && (gbit != file->network_gbit || gpus != file->gpus))
        file->hardware.network.bytes_per_second = old * (double)file->network_gbit / (double)gbit *
                                                  (double)(gpus > 0 ? gpus : 1) /
                                                  (double)(file->gpus > 0 ? file->gpus : 1);
    return 0;
}

void hardware_file_free(struct hardware_file *file) {
    flags_free(&command, file);
}

void hardware_file_write(const struct hardware_file *file, struct buffer *out) {
    enum { COMMENT_COLUMN = 40 };
    struct hardware_file shown = *file;
    give_units(&shown);
    buffer_append_string(out,
                         "# A machine for bevatron plan --hardware. Keys that are left out are those of --machine.\n");
    for (int i = 0; i < ROWS; i++) {
        if (rows[i].type == FLAG_GROUP) {
            buffer_printf(out, "\n# %s\n", rows[i].name);
            continue;
        }
        size_t start = out->length;
        buffer_printf(out, "%s: ", rows[i].name + 2);
        if (rows[i].type == FLAG_STRING)
            flag_quote(*(char *const *)((const char *)&shown + rows[i].offset), out);
        else
            flag_format(&rows[i], &shown, out);
        int blanks = (int)(start + COMMENT_COLUMN) - (int)out->length;
        buffer_printf(out, "%*s# %s\n", blanks > 2 ? blanks : 2, "", rows[i].help);
    }
}
