// compare_weights A B BOUND: the models of two iter_… folders hold the same tensors, and every tensor's distance is
// below BOUND times its length (both as square roots of sums of squares). Says which one is farthest, and fails where
// that is too far.
#include "base/error.h"
#include "base/memory.h"
#include "checkpoint/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// |b - a| / |a|; a tensor of zeros must stay one.
static double distance(const struct weight *a, const struct weight *b) {
    float *x = memory_alloc(a->bytes), *y = memory_alloc(a->bytes);
    double difference = 0, length = 0;
    if (weight_read(a, x) < 0 || weight_read(b, y) < 0)
        die("%s", error_message());
    for (size_t i = 0; i < a->bytes / sizeof *x; i++) {
        double d = (double)y[i] - (double)x[i];
        difference += d * d;
        length += (double)x[i] * (double)x[i];
    }
    free(x);
    free(y);
    return difference == 0 ? 0 : sqrt(difference / length);
}

static bool is_same_kind(const struct weight *a, const struct weight *b) {
    return a->is_readable && b->is_readable && a->dtype == DTYPE_F32 && b->dtype == DTYPE_F32 && a->bytes == b->bytes;
}

int main(int argc, char **argv) {
    struct weights a = {0}, b = {0};
    if (argc != 4) {
        fprintf(stderr, "usage: compare_weights A B BOUND\n");
        return 2;
    }
    if (weights_open_checkpoint(&a, argv[1], "model") < 0 || weights_open_checkpoint(&b, argv[2], "model") < 0) {
        fprintf(stderr, "%s\n", error_message());
        return 2;
    }
    double bound = strtod(argv[3], NULL), farthest = 0;
    const char *name = "none";
    bool is_same = a.count == b.count && a.count > 0;
    for (size_t i = 0; i < a.count; i++) {
        const struct weight *other = weights_find(&b, a.items[i].name);
        if (!other || !is_same_kind(&a.items[i], other)) {
            printf("%s is not the same tensor in both\n", a.items[i].name);
            is_same = false;
            continue;
        }
        double d = distance(&a.items[i], other);
        if (!(d <= farthest)) {
            farthest = d;
            name = a.items[i].name;
        }
    }
    printf("%zu and %zu tensors; the farthest apart, %s, by %.3g of its length\n", a.count, b.count, name, farthest);
    is_same = is_same && farthest <= bound;
    weights_close(&a);
    weights_close(&b);
    return is_same ? 0 : 1;
}
