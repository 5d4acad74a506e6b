// Splits and their sample counts. Everything is double arithmetic in Megatron's order, because a bound that rounds to
// the other side moves a document from training into validation.
#include "data/sample/split.h"

#include "base/error.h"
#include "data/bad_data.h"
#include "data/sample/weighted_split.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *split_name(enum split split) {
    static const char *const names[SPLIT_COUNT] = {"train", "valid", "test"};
    return names[split];
}

// Parses one run of digits and dots; like Megatron's `float`, it refuses two dots in one.
static int parse_weight(const char *text, const char *run, size_t length, double *weight) {
    char number[64];
    if (length >= sizeof number)
        return error_set("--split \"%s\": a number has %zu digits; give weights such as 969, 30, 1", text, length);
    memcpy(number, run, length);
    number[length] = 0;
    char *end;
    *weight = strtod(number, &end);
    if (*end || end == number)
        return error_set("--split \"%s\": %s is not a number; give weights such as 969, 30, 1", text, number);
    return 0;
}

static int parse_weights(const char *text, double weights[SPLIT_COUNT]) {
    int count = 0;
    for (const char *at = text; *at;) {
        if (isalpha((unsigned char)*at) || *at == '-' || *at == '+')
            return error_set("--split \"%s\": unexpected '%c'; give up to three weights such as 969, 30, 1", text, *at);
        size_t length = strspn(at, ".0123456789");
        if (length == 0) {
            at++;
            continue;
        }
        if (count == SPLIT_COUNT)
            return error_set("--split \"%s\": more than three weights (train, validation, test)", text);
        TRY(parse_weight(text, at, length, &weights[count++]));
        at += length;
    }
    return 0;
}

int split_parse(struct split_bounds *bounds, const char *text) {
    double weights[SPLIT_COUNT] = {0};
    TRY(parse_weights(text, weights));
    double sum = weights[0] + weights[1] + weights[2];
    if (!(sum > 0) || isinf(sum))
        return error_set("--split \"%s\": the weights add up to %g; give weights such as 969, 30, 1", text, sum);
    bounds->bookends[0] = 0;
    for (int i = 0; i < SPLIT_COUNT; i++)
        bounds->bookends[i + 1] = bounds->bookends[i] + weights[i] / sum;
    return 0;
}

bool split_is_empty(const struct split_bounds *bounds, enum split split) {
    return !(bounds->bookends[split + 1] > bounds->bookends[split]);
}

// Python's round() rounds halves to even, as nearbyint does. The clamp only matters for counts beyond 2^53.
static int64_t bound_of(double fraction, int64_t count) {
    int64_t bound = (int64_t)nearbyint(fraction * (double)count);
    return bound > count ? count : bound;
}

void split_range(const struct split_bounds *bounds, enum split split, int64_t count, int64_t *begin, int64_t *end) {
    *begin = bound_of(bounds->bookends[split], count);
    *end = bound_of(bounds->bookends[split + 1], count);
}

// Whether it is a part of a dataset; no --split has such letters.
static bool is_part(const struct split_choice *choice, int64_t *begin, int64_t *end) {
    static const char part[] = SPLIT_PART;
    double first, last;
    if (!choice->split || strncmp(choice->split, part, strlen(part)) != 0 ||
        weighted_range_parse(choice->split + strlen(part), &first, &last) < 0)
        return false;
    *begin = bound_of(first, choice->count);
    *end = bound_of(last, choice->count);
    return true;
}

int split_choose(const struct split_choice *choice, int64_t *begin, int64_t *end) {
    *begin = 0;
    *end = choice->count;
    bool has_part = is_part(choice, begin, end);
    if (choice->split && !has_part) {
        struct split_bounds bounds;
        TRY(split_parse(&bounds, choice->split));
        split_range(&bounds, choice->which, choice->count, begin, end);
    }
    if (choice->count == 0)
        return bad_data(
            "%s has no %s, but the %s split needs some; use other data, or do without that split (--eval-iters 0)",
            choice->prefix, choice->items, split_name(choice->which));
    if (*begin == *end && has_part)
        return bad_data("%s: the part %s of its %" PRId64
                        " %s is empty; use more data, widen START:END, or leave out the dataset",
                        choice->prefix, choice->split + strlen(SPLIT_PART), choice->count, choice->items);
    if (*begin == *end)
        return bad_data("%s: --split \"%s\" leaves the %s split none of the %" PRId64
                        " %s; use more data, give it a larger weight, or do without that split (--eval-iters 0)",
                        choice->prefix, choice->split ? choice->split : "", split_name(choice->which), choice->count,
                        choice->items);
    return 0;
}

int split_sample_counts(const struct split_demand *demand, int64_t counts[SPLIT_COUNT]) {
    int64_t eval_batch = demand->eval_global_batch_size ? demand->eval_global_batch_size : demand->global_batch_size;
    int64_t iters = demand->train_iters;
    if (demand->train_samples > 0) {
        counts[SPLIT_TRAIN] = demand->train_samples;
        if (iters == 0 && demand->global_batch_size > 0)
            iters = demand->train_samples / demand->global_batch_size;
    } else if (__builtin_mul_overflow(iters, demand->global_batch_size, &counts[SPLIT_TRAIN])) {
        return error_set("--train-iters %" PRId64 " times --global-batch-size %" PRId64
                         " is not a valid number of samples",
                         iters, demand->global_batch_size);
    }
    int64_t evaluations = demand->eval_interval > 0 ? iters / demand->eval_interval + 1 : 0;
    if (__builtin_mul_overflow(demand->eval_iters, eval_batch, &counts[SPLIT_TEST]) ||
        __builtin_mul_overflow(evaluations, counts[SPLIT_TEST], &counts[SPLIT_VALID]))
        return error_set("--eval-iters %" PRId64 " at %" PRId64 " evaluations is not a valid number of samples",
                         demand->eval_iters, evaluations);
    return 0;
}
