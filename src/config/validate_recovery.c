// Batches to skip, and the folder of --trigger-path.
#include "config/validate.h"

#include "base/file.h"
#include "base/log.h"
#include <stdlib.h>
#include <string.h>

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
