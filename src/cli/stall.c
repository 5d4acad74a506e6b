// Time since a run last made progress. See stall.h.
#include "cli/stall.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/memory.h"

#include <math.h>

double stall_look(struct stall *stall, int64_t beats) {
    double now = clock_now(stall->clock), passed = stall->looked > 0 ? now - stall->looked : 0;
    stall->waited = beats == stall->beats ? stall->waited + fmin(passed, 2 * STALL_LOOK_SECONDS) : 0;
    stall->beats = beats;
    stall->looked = now;
    return stall->waited;
}

char *stall_describe(const struct lifeline_state *state, double seconds) {
    struct buffer place = {0};
    if (state->iteration >= 0)
        buffer_printf(&place, " after iteration %lld", (long long)state->iteration);
    else if (!state->is_attached)
        buffer_append_string(&place, " and has not started");
    if (state->phase[0])
        buffer_printf(&place, ", %s", state->phase);
    char *text = memory_printf("the run has completed nothing for %.0f s%s; ending it (--progress-timeout-minutes)",
                               seconds, buffer_string(&place));
    buffer_free(&place);
    return text;
}
