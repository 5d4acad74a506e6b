// bevatron bench: the performance of this machine or allocation.
#include "cli/bench.h"
#include "cli/commands.h"

#include <string.h>

static const struct command_part parts[] = {
    {"collectives", "bandwidth between ranks, as nccl-tests prints it", bench_collectives},
    {"matmul", "time and TFLOP/s of matmuls, by dtype", bench_matmul},
    {"step", "time of a training step and, on a GPU, of its parts", bench_step},
};

const struct command_group bench_group = {.name = "bench",
                                          .summary = "Measures collectives, matmuls and training steps.",
                                          .usage = "COMMAND …",
                                          .ending = "Each command has --help.",
                                          .parts = parts,
                                          .count = sizeof parts / sizeof parts[0]};

int bench_check(const char *flag_remedy, int argc, char **argv) {
    static const struct {
        const char *name;
        int (*check)(const char *flag_remedy, int argc, char **argv);
    } checks[] = {{"collectives", bench_collectives_check}, {"matmul", bench_matmul_check}, {"step", bench_step_check}};
    for (size_t i = 0; argc > 1 && i < sizeof checks / sizeof checks[0]; i++)
        if (strcmp(checks[i].name, argv[1]) == 0)
            return checks[i].check(flag_remedy, argc - 1, argv + 1);
    return 0;
}

int cmd_bench(int argc, char **argv) {
    return command_group_run(&bench_group, argc, argv);
}
