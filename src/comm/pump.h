// A thread that drives transfers while no call waits for them. MPI only moves a message forward inside calls to it,
// so a collective that was started and left alone would stall during a long computation; the pump makes those
// calls. NCCL's transfers progress by themselves, and the pump checks whether they do (the watch, below).
//
// All code that calls the transport, including the pump, holds the pump's lock: one thread at a time, as
// MPI_THREAD_SERIALIZED requires. The thread sleeps while nothing is in flight. Before it is started there is no other
// thread to lock out, and the lock costs nothing. One thread owns the pump, and only that thread calls these functions;
// but while the pump is shared, others may lock it too.
#ifndef COMM_PUMP_H
#define COMM_PUMP_H

#include "comm/comm.h"

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

// ---- the watch ----

// Collectives that the device waits for while the host continues. No call on the host waits for them, so a thread
// does. Every few milliseconds it looks at the oldest one and notes its end in the flight record; it ends the job if
// the collective outlasts the deadline or the transport has failed, whatever the host is doing. The host may well be
// stuck itself, inside a driver that waits for the device.
//
// A device waits for its collectives one after the other, in the order in which they were given to the watch, so the
// oldest one is the one that blocks it. Its time counts from when it became the oldest, too early by at most the
// computation between two of them.
//
// The thread reads the flight record and the groups' counts, and returns handles to the backend, so access to these
// requires the lock. Only the world's thread calls these functions. They accept NULL, the watch of a world whose host
// waits itself.

struct watch;

struct watch *watch_new(struct world *world);
void watch_free(struct watch *watch);  // nothing may be left to watch
// Takes over a request with its handle. Returns false if no thread can be created, and then the caller must wait.
bool watch_add(struct watch *watch, const struct comm_request *request);
// Called before and after the host starts a request. A start may hang as well: its time counts while nothing older is
// watched.
void watch_enter(struct watch *watch, const struct comm_request *request);
void watch_leave(struct watch *watch);
// How many collectives of a group the device has reached. Those after the one it waits for do not count, although the
// host may have begun them. Call with the lock.
int64_t watch_begun(const struct watch *watch, const struct group *group);
// Waits until all requests given to the watch are complete.
void watch_settle(struct watch *watch);
void watch_lock(struct watch *watch);
void watch_unlock(struct watch *watch);

#endif
