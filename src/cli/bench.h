// The commands below `bevatron bench`.
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/session.h"

int bench_collectives(int argc, char **argv);
int bench_matmul(int argc, char **argv);
int bench_step(int argc, char **argv);
// Like command_check.
int bench_collectives_check(const char *flag_remedy, int argc, char **argv);
int bench_matmul_check(const char *flag_remedy, int argc, char **argv);
int bench_step_check(const char *flag_remedy, int argc, char **argv);
// Time in seconds of one all-reduce of this many bytes over all ranks, on the slowest rank. Every rank calls.
int bench_all_reduce(struct session *session, int64_t bytes, double *seconds);

#endif
