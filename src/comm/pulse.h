// The pulse of ranks that work with files. Work with files has no deadline: a rank waiting for another's files would
// mistake a slow disk for a hang. Instead, between comm_patience_begin and _end, every rank has a thread that answers
// the others while the rank itself reads and writes. It does so in rounds, each a maximum over all ranks of "I am not
// done yet", until no rank says so. A rank whose thread does not answer within the deadline is not slow but gone:
// killed, stopped, or on a machine that is. The rounds have a group of their own, on the backend that carries host
// values, so they do not mix with the ranks' other messages.
#ifndef COMM_PULSE_H
#define COMM_PULSE_H

#include "comm/backend.h"

// All ranks call. Returns NULL for a single rank, and if the backend allows calls from one thread only: then waits for
// files have no limit, and noticing a lost rank is left to the launcher.
int pulse_open(struct pulse **pulse, struct world *world);
void pulse_close(struct pulse *pulse);  // NULL is fine
// All ranks call both; the second returns when all have called it. `what` must live as long as the program.
void pulse_start(struct pulse *pulse, const char *what);
void pulse_stop(struct pulse *pulse);
// Called instead of pulse_stop by a rank that is about to end the job. The pulse cannot be started again.
void pulse_drop(struct pulse *pulse);

#endif
