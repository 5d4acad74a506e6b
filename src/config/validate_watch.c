// Iterations and ranks to profile, iterations to skip, and the folder of --trigger-path.
#include "config/validate.h"
#include "base/file.h"
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

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

static const char digits[] = "0123456789";

// A positive number without a sign; *end is the text after it. -1 if there is none.
static int64_t read_number(const char *text, const char **end) {
    enum { MOST_DIGITS = 18 };
    size_t length = strspn(text, digits);
    *end = text + length;
    int64_t number = length >= 1 && length <= MOST_DIGITS ? strtoll(text, NULL, 10) : -1;
    return number > 0 ? number : -1;
}

int config_skip(const struct config *config, int64_t i, int64_t *first, int64_t *last) {
    const char *end = config->run.iterations_to_skip.items[i];
    *first = *last = read_number(end, &end);
    if (*first > 0 && *end == '-')
        *last = read_number(end + 1, &end);
    return *first > 0 && *last >= *first && !*end ? 0 : -1;
}

// The folder may be created later; an existing file of that name would never become one.
void validate_stops(const struct config *config, struct complaints *complaints) {
    const char *folder = config->run.trigger_path;
    if (!folder)
        return;
    if (!config->run.save)
        log_info("note: the file save of --trigger-path has no effect without --save");
    if (file_exists(folder) && !file_is_folder(folder))
        complain(complaints, "--trigger-path %s is not a folder; give the folder for the files save and exit", folder);
    else if (!file_exists(folder))
        log_warn_once("the folder %s of --trigger-path does not exist; create it before a file in it is to save or end "
                      "this run",
                      folder);
}

void validate_recovery(const struct config *config, struct complaints *complaints) {
    int64_t first, last;
    for (int64_t i = 0; i < config->run.iterations_to_skip.count; i++)
        if (config_skip(config, i, &first, &last) < 0)
            complain(complaints, "--iterations-to-skip takes iterations (7) and ranges of them (7-9), not \"%s\"",
                     config->run.iterations_to_skip.items[i]);
}
