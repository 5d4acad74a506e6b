// The best time between saves by Young (1974) and Daly (2006). See interruptions.h.
#include "plan/interruptions.h"

#include <math.h>

static const double SECONDS_PER_DAY = 86400;

// Failures grow with the number of GPUs, in any machines.
static double failing_units(const struct plan *plan, const struct machine *machine) {
    const double gpus_of_rate = 8;
    return machine->gpus > 0 ? plan->nodes * machine->gpus / gpus_of_rate : plan->nodes;
}

// A failure costs the work since the last save, half an interval on average, plus the restart and reading the
// checkpoint.
struct interruptions plan_interruptions(const struct plan *plan, const struct machine *machine,
                                        const struct interruption_rates *rates) {
    const double usual_bytes_per_second = 1e9;
    struct interruptions result = {.bytes_per_second = rates->bytes_per_second > 0
                                                           ? rates->bytes_per_second
                                                           : usual_bytes_per_second * plan->nodes,
                                   .failures_per_day = rates->failures_per_day * failing_units(plan, machine),
                                   .effective = 1};
    result.save_seconds = plan->checkpoint_bytes / result.bytes_per_second;
    if (result.failures_per_day <= 0)
        return result;
    double between = SECONDS_PER_DAY / result.failures_per_day;
    result.interval = sqrt(2 * result.save_seconds * between);
    double lost = rates->restart_seconds + result.save_seconds + result.interval / 2;
    result.effective = 1 - lost / between - (result.interval > 0 ? result.save_seconds / result.interval : 0);
    result.effective = result.effective > 0 ? result.effective : 0;
    return result;
}
