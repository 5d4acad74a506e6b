// A list of what is wrong with the flags, told in one error: a job that waited hours in a queue, or a long command line
// that comes from another program, should not fail on its mistakes one by one.
#ifndef CONFIG_COMPLAINTS_H
#define CONFIG_COMPLAINTS_H

#include "base/buffer.h"
#include <stdbool.h>

struct complaints {
    struct buffer text;
    int count;
};

// Adds one sentence: what contradicts what, and the remedy.
void complain(struct complaints *complaints, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Whether there are more than are shown: reading on would only take time, as in a file that is no configuration at all.
bool complaints_are_enough(const struct complaints *complaints);
// Tells all complaints in one error; -1 if there are any. Frees them.
int complaints_report(struct complaints *complaints);

#endif
