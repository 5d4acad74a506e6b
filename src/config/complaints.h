// All contradictions between flags, reported in one error: a job that waited hours in a queue, or a long command line
// from another program, should not fail on its mistakes one by one.
#ifndef CONFIG_COMPLAINTS_H
#define CONFIG_COMPLAINTS_H

#include "base/buffer.h"

struct complaints {
    struct buffer text;
    int count;
    int shown;  // number of complaints in the text
};

// Adds one sentence: the contradiction and its remedy.
void complain(struct complaints *complaints, const char *format, ...) __attribute__((format(printf, 2, 3)));
// Reports all complaints in one error; -1 if there are any. Frees them.
int complaints_report(struct complaints *complaints);

#endif
