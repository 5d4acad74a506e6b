// A progress line on stderr: a bar with rate and time left on a terminal, a plain line every few seconds elsewhere.
// Lines fit the terminal, or 80 columns.
#ifndef BASE_PROGRESS_H
#define BASE_PROGRESS_H

#include "base/buffer.h"
#include <stdbool.h>
#include <stdint.h>

struct progress {
    const char *label;
    const char *unit;  // "documents", "MB", …
    double total;      // 0 if unknown
    double done;
    double started, last_shown;
    struct clock *clock;  // for all after progress_begin, see clock.h
    bool is_terminal;
    bool is_quiet;  // set after progress_begin to show nothing
};

void progress_begin(struct progress *p, const char *label, const char *unit, double total);
// `note` is NULL or a short text shown after the rate ("12.3k docs/s, loss 4.56").
void progress_update(struct progress *p, double done, const char *note);
void progress_end(struct progress *p, const char *note);

// "[==>  ] ": a bar of this many cells, of which a fraction is filled.
void progress_append_bar(struct buffer *out, double fraction, int cells);
// 950, 12.3k, 4.56M: about five characters for any count.
void progress_append_count(struct buffer *out, double value);
// 1:23, 1:23:45, 2 d 03:04 h
void progress_append_duration(struct buffer *out, double seconds);

#endif
