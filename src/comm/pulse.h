// The pulse of ranks that work with files. What takes as long as a file system takes can have no deadline: a rank that
// waits for another's files would call a slow disk a hang. Instead every rank has, between comm_patience_begin and
// _end, a thread that answers the others' while the rank itself reads and writes: round after round, each a maximum
// over all ranks of "I am not done yet", until nobody says so. A rank whose thread does not answer for as long as the
// deadline is not slow but gone: killed, stopped, or on a machine that is. The rounds have a group of their own of the
// backend that carries host values, so they cross nothing that the ranks say to each other meanwhile.
#ifndef COMM_PULSE_H
#define COMM_PULSE_H

#include "comm/backend.h"

// All ranks call. NULL for a single rank, and where the backend allows calls from one thread only: then whoever waits
// for files waits as long as it takes, and a lost rank is the launcher's to notice.
int pulse_open(struct pulse **pulse, struct world *world);
void pulse_close(struct pulse *pulse);  // NULL is fine
// All ranks call both; the second returns when all have called it. `what` lives as long as the program.
void pulse_start(struct pulse *pulse, const char *what);
void pulse_stop(struct pulse *pulse);
// Instead of pulse_stop, by one rank for itself that is about to end the job; the pulse cannot be started again.
void pulse_drop(struct pulse *pulse);

#endif
