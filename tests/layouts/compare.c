// The difference between two runs. See layouts.h.
#include "layouts.h"
#include "base/memory.h"
#include "ops/device.h"

#include <math.h>
#include <stdlib.h>

static double relative(double value, double expected) {
    double scale = fabs(expected) > 1e-30 ? fabs(expected) : 1;
    return isfinite(value) ? fabs(value - expected) / scale : INFINITY;
}

static void compare_histories(struct difference *found, const struct loss_history *a, const struct loss_history *b) {
    for (int i = 0; i < STEPS; i++) {
        found->loss = fmax(found->loss, relative(a->loss[i], b->loss[i]));
        found->loss = fmax(found->loss, relative(a->other_loss[i], b->other_loss[i]));
        found->norm = fmax(found->norm, relative(a->norm[i], b->norm[i]));
    }
}

// A parameter's values as this rank holds them, in fp32.
static float *values_of(const struct step *step, const struct param *param) {
    int64_t count = tensor_count(param->value);
    float *values = memory_alloc(sizeof *values * (size_t)(count + 1));
    op_copy(step_device(step),
            &(struct op_copy){.dst = tensor_1d(values, DTYPE_F32, count), .src = tensor_flat(param->value)});
    return values;
}

// For one tensor: the sums over this rank's slice, and the largest value of the whole.
struct loss_sums {
    double squares, difference, farthest, largest;
};

static void add_run(struct loss_sums *sums, const float *values, const float *expected, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        double want = (double)expected[i], d = (double)values[i] - want;
        sums->squares += want * want;
        sums->difference += d * d;
        if (!(fabs(d) <= sums->farthest))
            sums->farthest = fabs(d);
    }
}

static void take_largest(struct loss_sums *sums, const float *expected, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (fabs((double)expected[i]) > sums->largest)
            sums->largest = fabs((double)expected[i]);
}

static void note_tensor(struct difference *found, const struct loss_sums *sums, const char *name) {
    double length = sqrt(sums->squares > 0 ? sums->squares : 1), largest = sums->largest > 0 ? sums->largest : 1;
    // If one is not a number, neither is the sum.
    double apart = isfinite(sums->difference) ? sqrt(sums->difference) / length : INFINITY;
    found->elements = fmax(found->elements, sums->farthest / largest);
    if (apart > found->weights) {
        found->weights = apart;
        snprintf(found->worst, sizeof found->worst, "%s", name);
    }
}

struct difference compare_run(const struct step *step, const struct loss_history *history,
                              const struct reference *alone, const struct references *references) {
    struct difference found = {0};
    compare_histories(&found, history, &alone->history);
    for (int i = 0; i < step_params(step)->count; i++) {
        const struct param *param = step_params(step)->items[i];
        const float *expected = alone->values + reference_offset(references, alone->model, param->name);
        float *slice = values_of(step, param);
        struct loss_sums sums = {0};
        for (int64_t n = 0; n < shard_run_count(&param->shard); n++) {
            struct shard_run part = shard_run(&param->shard, n);
            add_run(&sums, slice + part.local_offset, expected + part.global_offset, part.count);
        }
        take_largest(&sums, expected, shard_global_count(&param->shard));
        note_tensor(&found, &sums, param->name);
        free(slice);
    }
    return found;
}

struct difference compare_references(const struct step *step, const struct reference *a, const struct reference *b,
                                     const struct references *references) {
    struct difference found = {0};
    compare_histories(&found, &a->history, &b->history);
    for (int i = 0; i < step_params(step)->count; i++) {
        const struct param *param = step_params(step)->items[i];
        int64_t offset = reference_offset(references, a->model, param->name);
        struct loss_sums sums = {0};
        for (int64_t n = 0; n < shard_run_count(&param->shard); n++) {
            struct shard_run part = shard_run(&param->shard, n);
            add_run(&sums, a->values + offset + part.global_offset, b->values + offset + part.global_offset,
                    part.count);
        }
        take_largest(&sums, b->values + offset, shard_global_count(&param->shard));
        note_tensor(&found, &sums, param->name);
    }
    return found;
}
