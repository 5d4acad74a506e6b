// bevatron bench: what this machine or allocation can do.
#include "cli/bench.h"
#include "cli/commands.h"

static const struct command_part parts[] = {
    {"collectives", "bandwidth between ranks, as nccl-tests prints it", bench_collectives},
};

int cmd_bench(int argc, char **argv) {
    static const struct command_group group = {.name = "bench",
                                               .usage = "COMMAND …",
                                               .ending = "Each command has --help.",
                                               .parts = parts,
                                               .count = sizeof parts / sizeof parts[0]};
    return command_group_run(&group, argc, argv);
}
