// A thread that looks after transfers while nobody waits for them. MPI moves a message on only inside calls to it, so a
// collective that was started and left alone stands still under a long computation; the pump makes those calls. NCCL's
// go on by themselves, and the pump sees whether they do (watch.h).
//
// Everything that touches the transport does so with the pump's lock, also the pump itself: one thread at a time, which
// is all that MPI_THREAD_SERIALIZED asks for. The thread sleeps while nothing flies; before it is started there is
// nobody to lock out, and the lock costs nothing. One thread owns the pump: it alone calls these functions, but while
// the pump is shared, others may lock too.
#ifndef COMM_PUMP_H
#define COMM_PUMP_H

#include <stdbool.h>

struct pump;

// How long the thread calls poll before it sleeps, and for how long it then does.
struct pump_pace {
    double poll_seconds, nap_seconds;
};

// poll is called with the lock held; it says whether anything is still on its way.
struct pump *pump_new(bool (*poll)(void *context), void *context, struct pump_pace pace);
void pump_free(struct pump *pump);  // ends the thread; NULL is fine
// Starts the thread where it does not run yet, and says whether there is one; without the lock, before the first wake.
bool pump_start(struct pump *pump);
// Other threads will touch the transport too, or do no more; without the lock, while none of them runs.
void pump_share(struct pump *pump, bool is_shared);
void pump_lock(struct pump *pump);
void pump_unlock(struct pump *pump);
// Something flies. With the lock held.
void pump_wake(struct pump *pump);

#endif
