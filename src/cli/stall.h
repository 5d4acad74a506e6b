// Notices from outside that a run completes nothing. The run counts what it completes (lifeline.h); what is measured is
// how long the count stands still, on the observer's own clock, so clocks of different machines do not matter.
#ifndef CLI_STALL_H
#define CLI_STALL_H

#include "base/lifeline.h"

#define STALL_LOOK_SECONDS 1.0  // between two looks

struct stall {
    int64_t beats;
    double waited, looked;
    struct clock *clock;  // see base/clock.h
};
// Seconds for which the count has been the same. Of the time between two looks only a little counts: a paused machine,
// or an observer that was suspended, says nothing about the run. Zeroed before the first call.
double stall_look(struct stall *stall, int64_t beats);
// The message about a run that is ended for this, to be freed.
char *stall_describe(const struct lifeline_state *state, double seconds);

#endif
