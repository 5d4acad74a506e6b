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
#ifndef COMM_WATCH_H
#define COMM_WATCH_H

#include "comm/comm.h"

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
