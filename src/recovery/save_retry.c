// See save_retry.h.
#include "recovery/save_retry.h"

#include <math.h>

static const double FIRST_SECONDS = 1, LONGEST_SECONDS = 600;

double save_retry_after(struct save_retry *retry, double began, double now) {
    if (retry->failures++ == 0)
        retry->first_time = began;
    double wait = fmin(LONGEST_SECONDS, fmax(FIRST_SECONDS * exp2(retry->failures - 1), 2 * (now - began)));
    retry->due_time = now + wait;
    return wait;
}

double save_retry_seconds(const struct save_retry *retry, double now) {
    return retry->failures > 0 ? now - retry->first_time : 0;
}
