// Reports the failure of a run to its watchers: an event "failed" in metrics.jsonl, and the command of --on-event. The
// reporting rank uses its report. Any other rank adds the line to the file itself, if it can reach it, because its own
// error is often the cause and the reporting rank only sees that a rank is lost. The first line wins. A die() on any
// thread is reported too, and a fault (SIGSEGV, SIGBUS, abort) at least in the file. For a process killed by SIGKILL,
// its supervisor reports it (launch local).
#ifndef REPORT_FAREWELL_H
#define REPORT_FAREWELL_H

#include "base/error.h"
#include "report/report.h"
#include <stdatomic.h>

struct farewell {
    struct report *report;      // of the reporting rank, NULL before it is open and on other ranks
    struct on_event *on_event;  // NULL for none
    const char *metrics_path;   // NULL for none
    int rank, ranks;
    atomic_int_fast64_t iteration;  // the last completed one
    double started;                 // set by farewell_open
    struct clock *clock;            // for the turns, see base/clock.h
    atomic_flag is_said;
};

// Makes die() and faults report. The struct must stay in place until farewell_close.
void farewell_open(struct farewell *farewell);
void farewell_close(struct farewell *farewell);

// Reports the end of the run with this error, which is the thread's: "stopped" if its code says so, else "failed",
// after "hang" or "nan" if that was the cause. Only the first call of a process has an effect.
void farewell_say(struct farewell *farewell, enum exit_code code, const char *text);

#endif
