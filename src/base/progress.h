// A progress line on stderr: a bar with rate and time left on a terminal, a plain line every few seconds elsewhere.
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *label;
    const char *unit;  // "documents", "MB", …
    double total;      // 0 where unknown
    double done;
    double started, last_shown;
    bool is_terminal;
    bool is_quiet;  // set it after progress_begin to show nothing
};

void progress_begin(struct progress *p, const char *label, const char *unit, double total);
// note may be NULL; else a short text shown at the end of the line ("12.3 MB/s, loss 4.56").
void progress_update(struct progress *p, double done, const char *note);
void progress_end(struct progress *p, const char *note);

#endif
