// The commands below `bevatron bench`.
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

int bench_collectives(int argc, char **argv);

#endif
