// When a save that failed is tried again: after one second, then after twice as long each time, up to ten minutes. A
// save that takes long to fail is retried rarely, so that training gets most of the time.
#ifndef RECOVERY_SAVE_RETRY_H
#define RECOVERY_SAVE_RETRY_H

#include <stdbool.h>

struct save_retry {
    int failures;       // in a row
    double first_time;  // when the first of them began
    double due_time;    // when to try again
};

// An attempt that began then has failed now; returns how many seconds to wait before the next.
double save_retry_after(struct save_retry *retry, double began, double now);
// For how long saves have failed; 0 if the last one succeeded.
double save_retry_seconds(const struct save_retry *retry, double now);

#endif
