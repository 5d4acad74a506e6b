// Code common to the profiles of all backends (device_profile_start): while a profile is on, the device's table is a
// copy whose entries time the real ones, and a paper device runs every operation too, to count the least work that it
// needs. Times go into rows, one for each kind and shape of operation. Private to ops/.
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

// Sets the device's table to the profile's copy of it; the caller then replaces the entries that it times.
void profile_begin(struct profile *profile, struct device *device);
// The row of an operation; `op` is the struct of the operation with this name, or NULL.
int profile_row(struct profile *profile, const char *operation, const void *op);
// Counts a call, with the work that the paper device has done since `before`.
void profile_add(struct profile *profile, int row, struct device_totals before);
// Restores the device's table, copies up to `most` rows, slowest first, and returns how many.
int profile_end(struct profile *profile, struct device *device, struct profile_row *rows, int most);

#endif
