// bevatron bench: what this machine or allocation can do.
#include "base/error.h"
#include "cli/bench.h"
#include "cli/commands.h"

#include <stdio.h>
#include <string.h>

int cmd_bench(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "";
    if (strcmp(name, "collectives") == 0)
        return bench_collectives(argc - 1, argv + 1);
    bool is_help = strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0;
    if (*name && !is_help)
        fprintf(stderr, "bevatron: there is no command \"bench %s\"\n", name);
    fputs("usage: bevatron bench collectives …   bandwidth between ranks, as nccl-tests prints it; see --help\n",
          is_help ? stdout : stderr);
    return is_help ? EXIT_CODE_OK : EXIT_CODE_USAGE;
}
