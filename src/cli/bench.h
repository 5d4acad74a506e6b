// The commands below `bevatron bench`.
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/session.h"

int bench_collectives(int argc, char **argv);
// Seconds of one all-reduce of so many bytes over all ranks, those of the slowest; every rank calls.
int bench_all_reduce(struct session *session, int64_t bytes, double *seconds);

#endif
