// bevatron bench: what this machine or allocation can do.
#include "cli/bench.h"
#include "cli/commands.h"

static const struct command_part parts[] = {
    {"collectives", "bandwidth between ranks, as nccl-tests prints it", bench_collectives},
    {"matmul", "time and TFLOP/s of matrix products, by dtype", bench_matmul},
    {"step", "time of a training step and, on a GPU, of its parts", bench_step},
};

int cmd_bench(int argc, char **argv) {
    static const struct command_group group = {.name = "bench",
                                               .usage = "COMMAND …",
                                               .ending = "Each command has --help.",
                                               .parts = parts,
                                               .count = sizeof parts / sizeof parts[0]};
    return command_group_run(&group, argc, argv);
}
