// A thread that drives transfers while no call waits for them. MPI only moves a message forward inside calls to it,
// so a collective that was started and left alone would stall during a long computation; the pump makes those
// calls. NCCL's transfers progress by themselves, and the pump checks whether they do (watch.h).
//
// All code that calls the transport, including the pump, holds the pump's lock: one thread at a time, as
// MPI_THREAD_SERIALIZED requires. The thread sleeps while nothing is in flight. Before it is started there is no other
// thread to lock out, and the lock costs nothing. One thread owns the pump, and only that thread calls these functions;
// but while the pump is shared, others may lock it too.
#ifndef COMM_PUMP_H
#define COMM_PUMP_H

#include <stdbool.h>

struct pump;

// How long the thread calls `poll` before it sleeps, and for how long it then sleeps.
struct pump_pace {
    double poll_seconds, nap_seconds;
    struct clock *clock;  // see base/clock.h
};

// `poll` is called with the lock held and says whether anything is still in flight.
struct pump *pump_new(bool (*poll)(void *context), void *context, struct pump_pace pace);
void pump_free(struct pump *pump);  // ends the thread; NULL is fine
// Starts the thread if it does not run yet, and returns whether there is one. Call without the lock, before the first
// wake.
bool pump_start(struct pump *pump);
// Other threads are going to touch the transport too, or have stopped doing so. Call without the lock, while none of
// them runs.
void pump_share(struct pump *pump, bool is_shared);
void pump_lock(struct pump *pump);
void pump_unlock(struct pump *pump);
// Call with the lock held when something is in flight.
void pump_wake(struct pump *pump);

#endif
