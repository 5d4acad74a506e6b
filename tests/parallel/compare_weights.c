// compare_weights [--masters] A B BOUND: the models of two iter_… folders hold the same tensors, and the norm of every
// tensor's difference is below BOUND times its norm. Prints the tensor that differs most, and fails if that is too
// much. With --masters a checkpoint's fp32 masters, if it has any, replace its weights.
#include "base/error.h"
#include "base/memory.h"
#include "formats/weights.h"

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

// The masters of a checkpoint, under the names of its weights, instead of those; a run in fp32 has none.
static int open_masters(struct weights *weights, const char *path) {
    static const char prefix[] = "master.";
    const size_t length = sizeof prefix - 1;
    TRY(weights_open_checkpoint(weights, path, "optimizer"));
    size_t count = 0;
    for (size_t i = 0; i < weights->count; i++) {
        struct weight item = weights->items[i];
        if (strncmp(item.name, prefix, length) != 0) {
            free(item.name);
            continue;
        }
        memmove(item.name, item.name + length, strlen(item.name + length) + 1);
        weights->items[count++] = item;
    }
    weights->count = count;
    if (count > 0)
        return 0;
    weights_close(weights);
    *weights = (struct weights){0};
    return weights_open_checkpoint(weights, path, "model");
}

int main(int argc, char **argv) {
    struct weights a = {0}, b = {0};
    bool of_masters = argc > 1 && strcmp(argv[1], "--masters") == 0;
    argc -= of_masters;
    argv += of_masters;
    if (argc != 4) {
        fprintf(stderr, "usage: compare_weights [--masters] A B BOUND\n");
        return 2;
    }
    int status = of_masters ? open_masters(&a, argv[1]) : weights_open_checkpoint(&a, argv[1], "model");
    if (status == 0)
        status = of_masters ? open_masters(&b, argv[2]) : weights_open_checkpoint(&b, argv[2], "model");
    if (status < 0) {
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
