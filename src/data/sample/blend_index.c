// The arithmetic of blends, operation by operation as in NumPy and Megatron's helpers: the order of additions is part
// of the result. See blend.h.
#include "data/sample/blend.h"

#include "base/error.h"
#include "base/memory.h"
#include "base/number.h"
#include "base/phase.h"
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static const double SURPLUS = 0.005;
enum { STRETCH = 1 << 16 };  // samples between two reports of progress

// False if Python's float() would not accept the text.
static bool parse_weight(const char *text, double *weight) {
    char plain[64], *end;
    const char *number = number_plain(text, plain, sizeof plain) ? plain : text;
    *weight = strtod(number, &end);
    bool is_empty = end == number;
    end += strspn(end, " \t\n");
    return !is_empty && *end == 0;
}

static int check_weight(double weight, const char *text, const char *prefix, const char *flag) {
    if (isfinite(weight) && weight > 0)
        return 0;
    return error_set_code(EXIT_CODE_USAGE, "%s: the weight %s of %s is not above 0; leave out the dataset instead",
                          flag, text, prefix);
}

static int64_t count_numbers(char *const *items, int64_t count, int64_t step) {
    int64_t numbers = 0;
    double ignored;
    for (int64_t i = 0; i < count; i += step)
        numbers += parse_weight(items[i], &ignored);
    return numbers;
}

// A list has only prefixes, or pairs of a weight and a prefix; its numbers tell which. Reports a missing weight or
// prefix in a list of pairs.
static int check_pairs(char *const *items, int64_t count, const char *flag) {
    double ignored;
    for (int64_t i = 0; i < count; i += 2) {
        bool has_two = i + 2 < count && !parse_weight(items[i + 2], &ignored);
        if (!parse_weight(items[i], &ignored))
            return error_set_code(EXIT_CODE_USAGE,
                                  "%s: the weight of %s is missing; give WEIGHT PREFIX for each dataset, or no weights",
                                  flag, items[i]);
        if (i + 1 == count || (has_two && parse_weight(items[i + 1], &ignored)))
            return error_set_code(EXIT_CODE_USAGE,
                                  "%s: the dataset of the weight %s is missing; give WEIGHT PREFIX for each dataset",
                                  flag, items[i]);
    }
    return 0;
}

int blend_list_parse(struct blend_list *list, char *const *items, int64_t count, const char *flag) {
    *list = (struct blend_list){0};
    int64_t numbers = count_numbers(items, count, 1);
    bool is_pairs = count % 2 == 0 && count_numbers(items, count, 2) == count / 2;
    // Datasets called 1, 2 and 3 are prefixes without weights, too.
    if (!is_pairs && numbers > 0 && numbers < count)
        TRY(check_pairs(items, count, flag));
    int64_t step = is_pairs ? 2 : 1;
    list->count = count / step;
    if (list->count > BLEND_MOST_DATASETS)
        return error_set_code(EXIT_CODE_USAGE, "%s: a blend has at most %d datasets; merge some with `dataset merge`",
                              flag, BLEND_MOST_DATASETS);
    list->prefixes = memory_alloc((size_t)list->count * sizeof *list->prefixes);
    if (is_pairs)
        list->weights = memory_alloc((size_t)list->count * sizeof *list->weights);
    for (int64_t i = 0; i < list->count; i++) {
        list->prefixes[i] = items[i * step + step - 1];
        if (!list->weights)
            continue;
        parse_weight(items[i * step], &list->weights[i]);
        if (check_weight(list->weights[i], items[i * step], list->prefixes[i], flag) < 0) {
            blend_list_free(list);
            return -1;
        }
    }
    if (list->weights)
        blend_normalize(list->weights, list->count);
    return 0;
}

void blend_list_free(struct blend_list *list) {
    free(list->prefixes);
    free(list->weights);
    *list = (struct blend_list){0};
}

int64_t blend_target(double weight, int64_t size) {
    return (int64_t)ceil((double)size * weight);
}

int64_t blend_surplus(int64_t target) {
    return (int64_t)ceil((double)target * (1 + SURPLUS));
}

// NumPy's sum: up to 7 numbers one by one, up to 128 in eight lanes, more by halves.
static double pairwise_sum(const double *x, int64_t count) {
    if (count < 8) {
        double sum = 0;
        for (int64_t i = 0; i < count; i++)
            sum += x[i];
        return sum;
    }
    if (count > 128) {
        int64_t half = count / 2;
        half -= half % 8;
        return pairwise_sum(x, half) + pairwise_sum(x + half, count - half);
    }
    double lanes[8];
    memcpy(lanes, x, sizeof lanes);
    int64_t i = 8;
    for (; i + 8 <= count; i += 8)
        for (int lane = 0; lane < 8; lane++)
            lanes[lane] += x[i + lane];
    double sum = ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
    for (; i < count; i++)
        sum += x[i];
    return sum;
}

void blend_normalize(double *weights, int64_t count) {
    double sum = pairwise_sum(weights, count);
    for (int64_t i = 0; i < count; i++)
        weights[i] /= sum;
}

// How far a dataset lags its weight after i samples. Build flags keep the compiler from fusing multiply and subtract.
static double behind(double weight, int64_t i, int64_t given) {
    return weight * (i > 1 ? (double)i : 1.0) - (double)given;
}

// The next sample is from the dataset that lags most; with sizes, from one that is not used up.
static void fill(struct blend_index *index, int64_t size, const double *weights, const int64_t *sizes, int64_t count) {
    int64_t *given = memory_alloc((size_t)count * sizeof *given);
    struct phase *phase = phase_begin_amount("mixing the datasets", "samples", (double)size);
    for (int64_t i = 0; i < size; i++) {
        int64_t chosen = -1;
        double most = 0;
        for (int64_t j = 0; j < count; j++) {
            if (sizes && given[j] == sizes[j])
                continue;
            double value = behind(weights[j], i, given[j]);
            if (chosen < 0 || value > most) {
                most = value;
                chosen = j;
            }
        }
        index->datasets[i] = (int16_t)chosen;
        index->numbers[i] = given[chosen]++;
        if (i % STRETCH == STRETCH - 1)
            phase_advance(phase, STRETCH);
    }
    phase_end(phase);
    free(given);
}

void blend_index_fill(struct blend_index *index, int64_t size, const double *weights, int64_t count) {
    fill(index, size, weights, NULL, count);
}

void blend_index_fill_all(struct blend_index *index, const int64_t *sizes, int64_t count) {
    double *weights = memory_alloc((size_t)count * sizeof *weights);
    int64_t total = 0;
    for (int64_t j = 0; j < count; j++)
        total += sizes[j];
    for (int64_t j = 0; j < count; j++)
        weights[j] = (double)sizes[j] / (double)total;
    fill(index, total, weights, sizes, count);
    free(weights);
}
