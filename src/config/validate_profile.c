// Iterations and ranks to profile.
#include "config/validate.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

static void validate_rank(const struct config *config, const char *text, struct complaints *complaints) {
    char *end;
    errno = 0;
    long rank = strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || rank < 0)
        complain(complaints, "--profile-ranks %s is not the number of a rank; ranks are numbered from 0", text);
    else if (config->machine.world_size > 0 && rank >= config->machine.world_size)
        complain(complaints, "--profile-ranks %s: the ranks of this run are 0 to %" PRId64, text,
                 config->machine.world_size - 1);
}

void validate_profile(const struct config *config, struct complaints *complaints) {
    if (!config->watch.profile)
        return;
    if (config->watch.profile_step_end <= config->watch.profile_step_start)
        complain(complaints,
                 "--profile-step-end %" PRId64 " leaves no iteration after --profile-step-start %" PRId64
                 "; give a larger one",
                 config->watch.profile_step_end, config->watch.profile_step_start);
    for (int64_t i = 0; i < config->watch.profile_ranks.count; i++)
        validate_rank(config, config->watch.profile_ranks.items[i], complaints);
}
