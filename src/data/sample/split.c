// Splits and their sample counts. Everything is double arithmetic in Megatron's order, because a bound that rounds to
// the other side moves a document from training into validation.
#include "data/sample/split.h"
#include "base/error.h"
#include "base/memory.h"
#include "base/number.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- parts by weight ----

static const char blanks[] = " \t\r\n";

static bool parse_share(const char *text, size_t length, double *share) {
    char number[32], *end;
    if (length == 0 || length >= sizeof number || strspn(text, "0123456789.eE+-") < length)
        return false;
    memcpy(number, text, length);
    number[length] = '\0';
    *share = strtod(number, &end);
    return *end == '\0' && *share >= 0 && *share <= 1;
}

int weighted_range_parse(const char *text, double *start, double *end) {
    size_t length = strcspn(text, ":");
    bool is_range = text[length] == ':' && parse_share(text, length, start) &&
                    parse_share(text + length + 1, strlen(text + length + 1), end) && *start < *end;
    return is_range ? 0 : -1;
}

static int refuse(const char *flag, const char *what, const char *text, size_t length) {
    enum { MOST_BYTES = 80 };
    return error_set_code(
        EXIT_CODE_USAGE, "%s: %s in \"%.*s%s\"; give \"NAME: WEIGHT START:END PREFIX, …\", with shares from 0 to 1",
        flag, what, (int)(length < MOST_BYTES ? length : MOST_BYTES), text, length < MOST_BYTES ? "" : "…");
}

// One dataset: three words. The weight is a number here, since a blend takes words without numbers for prefixes; the
// blend checks that it is above 0.
static int parse_dataset(struct weighted_group *group, const char *text, size_t length, const char *flag) {
    enum { WORDS = 3 };
    char *words[WORDS], *copy = memory_alloc(length + 1), *rest = copy, *word;
    double weight, start, end;
    int count = 0, status = 0;
    memcpy(copy, text, length);
    copy[length] = '\0';
    while ((word = strsep(&rest, blanks))) {
        if (*word && count < WORDS)
            words[count] = word;
        count += *word != '\0';
    }
    if (count != WORDS)
        status = refuse(flag, count < WORDS ? "a word is missing" : "there are too many words", text, length);
    else if (!number_read_double(words[0], &weight))
        status = refuse(flag, "WEIGHT is not a number", text, length);
    else if (weighted_range_parse(words[1], &start, &end) < 0)
        status = refuse(flag, "START:END is not a part", text, length);
    if (status == 0) {
        string_list_add(&group->words, words[0]);
        string_list_add(&group->words, words[2]);
        string_list_add(&group->ranges, words[1]);
    }
    free(copy);
    return status;
}

int weighted_group_parse(struct weighted_group *group, const char *text, const char *flag) {
    *group = (struct weighted_group){0};
    text += strspn(text, blanks);
    size_t length = strcspn(text, ":");
    const char *at = text + length;
    while (length > 0 && strchr(blanks, text[length - 1]))
        length--;
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7F)
            length = 0;
    if (*at != ':' || length == 0 || length >= WEIGHTED_NAME_BYTES)
        return refuse(flag, "the group has no name of up to 47 bytes", text, strlen(text));
    group->name = memory_alloc(length + 1);
    memcpy(group->name, text, length);
    group->name[length] = '\0';
    while (*at) {
        size_t size = strcspn(++at, ",");
        TRY(parse_dataset(group, at, size, flag));
        at += size;
    }
    return 0;
}

void weighted_group_free(struct weighted_group *group) {
    free(group->name);
    string_list_free(&group->words);
    string_list_free(&group->ranges);
    *group = (struct weighted_group){0};
}

int weighted_groups_list(struct string_list *groups, const char *text, size_t length, const char *path) {
    size_t at = 0;
    while (at < length) {
        const char *end = text[at] == '"' ? memchr(text + at + 1, '"', length - at - 1) : NULL;
        if (strchr(blanks, text[at]) && text[at]) {
            at++;
            continue;
        }
        size_t size = end ? (size_t)(end - text) - at - 1 : 0;
        if (!end || memchr(text + at + 1, '\0', size) || groups->count == WEIGHTED_MOST_GROUPS)
            return error_set_code(EXIT_CODE_USAGE,
                                  "%s: byte %zu: %s; write \"NAME: WEIGHT START:END PREFIX, …\" for each group", path,
                                  at,
                                  groups->count == WEIGHTED_MOST_GROUPS ? "there are more than 64 groups"
                                  : text[at] != '"'                     ? "a group does not begin with a double quote"
                                  : !end                                ? "the closing double quote is missing"
                                                                        : "the group has a zero byte");
        char *group = memory_alloc(size + 1);
        memcpy(group, text + at + 1, size);
        group[size] = '\0';
        string_list_add(groups, group);
        free(group);
        at += size + 2;
    }
    if (groups->count == 0)
        return error_set_code(EXIT_CODE_USAGE, "%s names no data; write \"NAME: WEIGHT START:END PREFIX, …\" into it",
                              path);
    return 0;
}

// ---- splits ----

// Splits and their sample counts. Everything is double arithmetic in Megatron's order, because a bound that rounds to
// the other side moves a document from training into validation.

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
