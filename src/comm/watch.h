// Collectives that the device waits for while the host goes on. Nobody asks after them any more, so a thread does: it
// looks at the oldest of them every few milliseconds, notes its end in the flight record, and ends the job where it
// outlasts the deadline or the transport has failed, whatever the host is doing meanwhile. The host may well be stuck
// itself, inside a driver that waits for the device.
//
// A device waits for its collectives one after the other, in the order they were given to the watch, so the oldest is
// the one that it stands still for. Its time counts from when it became the oldest: at most a little too early, by
// the computation between two of them.
//
// The thread reads the flight record and the groups' counts, and gives handles back to the backend: whoever touches
// these does so with the lock. One thread, that of the world, calls these functions. They take NULL, the watch of a
// world whose host waits itself.
#ifndef COMM_WATCH_H
#define COMM_WATCH_H

#include "comm/comm.h"

struct watch;

struct watch *watch_new(struct world *world);
void watch_free(struct watch *watch);  // nothing may be left to watch
// Takes a request over, its handle included. false: there is no thread to be had, and the caller must wait.
bool watch_add(struct watch *watch, const struct comm_request *request);
// How many collectives of a group the device has come to: those that it stands in front of do not count, though the
// host has begun them. With the lock.
int64_t watch_begun(const struct watch *watch, const struct group *group);
// Waits until all is done that was given to it.
void watch_settle(struct watch *watch);
void watch_lock(struct watch *watch);
void watch_unlock(struct watch *watch);

#endif
