// layer: cli
// `bevatron bench step` as a program of its own, for scripts that build nothing else.
#include "cli/bench.h"

int main(int argc, char **argv) {
    return bench_step(argc, argv);
}
