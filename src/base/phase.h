// Work that prints nothing and may take long, such as loading a checkpoint. A phase that lasts more than two seconds is
// reported on stderr: its label, its duration and, if the amount is known, how much of it is done. A terminal shows one
// line that is redrawn in place; a log file gets a line after 2, 10, 30 and 60 seconds, then one a minute. A phase
// belongs to the rank that writes info lines; on all others it shows nothing. Of phases within each other only the
// innermost is shown.
#ifndef BASE_PHASE_H
#define BASE_PHASE_H

#include "base/memory.h"
#include <stdint.h>

struct clock;
struct phase;

// The label must live until the phase ends: "loading the checkpoint". To be ended with phase_end. Returns NULL, which
// the other functions accept, if no thread can be started.
struct phase *phase_begin(const char *label);
// Like phase_begin, with an amount of work: `unit` is "MB", "documents", …
struct phase *phase_begin_amount(const char *label, const char *unit, double total);
// Adds to the amount done; any thread may call it.
void phase_advance(struct phase *phase, int64_t amount);
// Reports work within the phase that is shown, e.g. "timing matmul algorithms", and that it is done once more; NULL
// when it is over. The text must live on. For code that does not know the phase; any thread may call it.
void phase_note(const char *what);
void phase_end(struct phase *phase);
// The rest of the block is a phase.
#define IN_PHASE(label) OWNED_BY(phase_drop) struct phase *phase = phase_begin(label)
void phase_drop(struct phase **phase);
// Sets the clock of future phases, see clock.h.
void phase_set_clock(struct clock *clock);
// Logs the process's time since its start and the share of each outermost phase; once, at the end of the start.
void phase_tell_start(void);

#endif
