// The warning that scancel leaves no time for a checkpoint: given once, when it is known, and not because of one slow
// step.
#include "recovery/time_limits.h"
#include "test.h"

static struct stop_time measured(struct stop_time time, const double *steps, double save_seconds) {
    for (; *steps > 0; steps++)
        stop_time_measure(&time, *steps, save_seconds);
    return time;
}

TEST(warns_when_it_is_known) {
    const struct stop_time slurm = {.limit_seconds = 30, .job = "17"};
    const double slow[] = {90, 40, 41, 0}, first[] = {90, 3, 3, 3, 0}, once[] = {9, 3, 50, 3, 0}, two[] = {90, 40, 0};
    EXPECT(measured(slurm, slow, 0).is_said);
    EXPECT(!measured(slurm, first, 0).is_said);
    EXPECT(!measured(slurm, once, 0).is_said);
    EXPECT(!measured(slurm, two, 0).is_said);
    EXPECT(!measured(slurm, first, 26).is_said);
    EXPECT(measured(slurm, first, 28).is_said);
    EXPECT(!measured((struct stop_time){.job = "17"}, slow, 0).is_said);
    EXPECT(!measured((struct stop_time){.limit_seconds = 30}, slow, 0).is_said);
}

TEST_MAIN(TEST_CASE(warns_when_it_is_known))
