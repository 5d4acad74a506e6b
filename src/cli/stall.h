// Detects from outside that a run makes no progress. The run counts its completed work (lifeline.h); the observer
// measures on its own clock how long the count stands still, so clocks of different machines do not matter.
#ifndef CLI_STALL_H
#define CLI_STALL_H

#include "base/lifeline.h"

#define STALL_LOOK_SECONDS 1.0  // between two looks

struct stall {
    int64_t beats;
    double waited, looked;
    struct clock *clock;  // see base/clock.h
};
// Seconds for which the count has been the same. Between two looks only a little time counts: a paused machine, or a
// suspended observer, says nothing about the run. Zeroed before the first call.
double stall_look(struct stall *stall, int64_t beats);
// The message about a run that is ended for a stall, to be freed.
char *stall_describe(const struct lifeline_state *state, double seconds);

#endif
