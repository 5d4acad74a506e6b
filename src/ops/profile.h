// What the profiles of all backends share (device_profile_start): while a profile is on, the device's table is a copy
// whose entries time the real ones, and a paper device runs every operation too, which keeps the account of the least
// work that it needs. Times go into rows, one for each kind and shape of operation. Private to ops/.
#ifndef OPS_PROFILE_H
#define OPS_PROFILE_H

#include "ops/device.h"

struct profile {
    struct ops table;  // the device's while the profile is on
    const struct ops *real;
    struct device *paper;
    struct profile_row rows[PROFILE_MOST_ROWS];
    int count;
};

// Gives the device the profile's table, a copy of its own, of which the caller then replaces what it times.
void profile_begin(struct profile *profile, struct device *device);
// The row of an operation; `op` is its struct, by the name of the operation, or NULL.
int profile_row(struct profile *profile, const char *operation, const void *op);
// Counts a call, with the work that the paper device has done since `before`.
void profile_add(struct profile *profile, int row, struct device_totals before);
// Gives the device its table back, copies up to `most` rows, slowest first, and returns how many.
int profile_end(struct profile *profile, struct device *device, struct profile_row *rows, int most);

#endif
