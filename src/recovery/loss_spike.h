// Finds loss spikes: iterations whose loss or gradient norm is far above what the latest ones had. Median and median
// absolute deviation of a window stand for what is usual, since a few outliers do not move them. Losses are compared as
// they are, gradient norms by their logarithm. A single batch may be odd; several in a row are a spike.
#ifndef RECOVERY_LOSS_SPIKE_H
#define RECOVERY_LOSS_SPIKE_H

#include "store/checkpoint.h"

enum {
    SPIKE_LEAST = 64,  // iterations before anything is called a spike
    SPIKE_STREAK = 3,  // iterations in a row that are one
};

// The usual value, and the highest one that does not count as a spike: `threshold` standard deviations (of a normal
// distribution with this median absolute deviation, or `least` if that is less) above the median.
struct spike_level {
    double median, limit;
};
struct spike_level spike_level(const double *values, int64_t count, double threshold, double least);

// The levels of the window, before an iteration is added.
struct spike_levels {
    struct spike_level loss, norm;
};
// Adds an iteration, whose loss and gradient norm are finite, to the window. Whether the spike has just been found:
// that many iterations in a row, this one the last of them, were far above the others.
bool spike_add(struct checkpoint_past *past, double threshold, double loss, double norm, struct spike_levels *levels);

#endif
