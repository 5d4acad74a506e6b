// Where this process of a run is: its iteration, its work within it, and its machine. A rank that hangs, crashes or
// gives up reports this, since its log may end long before. Setting it costs a store, and the text can be made in a
// signal handler.
#ifndef BASE_RUN_POSITION_H
#define BASE_RUN_POSITION_H

#include <stddef.h>
#include <stdint.h>

void run_position_set_rank(int rank);                // only for a run of several ranks
void run_position_set_iteration(int64_t iteration);  // the one now being computed, from 1; -1 for none
// The label must live until the next one is set, e.g. "forward"; NULL for none. Returns the previous one.
const char *run_position_set_phase(const char *label);
// Sets it if it is still `from`. Threads other than the one that computes restore the phase this way: that one may have
// moved on.
void run_position_change_phase(const char *from, const char *label);

int64_t run_position_iteration(void);
const char *run_position_phase(void);  // "" for nothing
// "iteration 12, forward, rank 3 on node7"; "" before the run has reached an iteration or a phase. Returns `text`.
const char *run_position_text(char *text, size_t size);

#endif
