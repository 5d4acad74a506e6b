// Threshold and scale of dropout, see struct dropout in ops.h. Private to ops/ and its tests.
#ifndef OPS_DROPOUT_RATE_H
#define OPS_DROPOUT_RATE_H

#include <stdint.h>

// The threshold of a rate above 0 and below 1, and the factor of kept elements.
static inline uint32_t dropout_threshold(float rate) {
    double exact = (double)rate * 65536;
    uint32_t threshold = (uint32_t)exact;
    if ((double)threshold < exact)
        threshold++;
    return threshold > 65535 ? 65535 : threshold;
}
static inline float dropout_scale(float rate) {
    return 65536.0f / (float)(65536 - dropout_threshold(rate));
}

#endif
